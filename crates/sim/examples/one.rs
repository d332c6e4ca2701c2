//! scratch
fn main() {
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let set: Vec<(String, toml::Value)> = std::env::args()
        .skip(2)
        .map(|s| {
            let (k, v) = s.split_once('=').unwrap();
            (k.to_owned(), seawall_sim::plan::table::literal(v))
        })
        .collect();
    let plan = match seawall_sim::Plan::read(&text, &set, |n| {
        std::fs::read_to_string(n).map_err(|e| e.to_string())
    }) {
        Ok(p) => p,
        Err(e) => {
            println!("{e}");
            return;
        }
    };
    let start = std::time::Instant::now();
    let runs = match plan.run(|_, _| {}) {
        Ok(r) => r,
        Err(e) => {
            println!("{e}");
            return;
        }
    };
    for r in &runs {
        let f = &r.figures;
        println!(
            "{} #{}: good {:.0} thr {:.0} p50 {:.0} p99 {:.0} cdrop {:.3} sdrop {:.4} busy {:.2} rx {:.0} tx {:.0} cr {:.0}",
            r.params,
            r.seed,
            f.goodput,
            f.throughput,
            f.p50_us.unwrap_or(0.),
            f.p99_us.unwrap_or(0.),
            f.client_drop_rate,
            f.server_drop_rate,
            r.busy,
            r.received,
            r.sent,
            r.credits
        );
        for s in &r.shifts {
            println!("   {s:?}");
        }
    }
    for c in &plan.claims {
        let j = c.judge(&runs);
        println!(
            "{} {} paper {:?} measured {:?} ± {:?} {:?} {:?}",
            c.id, c.text, c.paper, j.measured, j.error, j.case, j.verdict
        );
    }
    println!(
        "{:.1} s, {} runs, {:.1} M events/s/core",
        start.elapsed().as_secs_f64(),
        runs.len(),
        runs.iter().map(|r| r.events).sum::<u64>() as f64 / 1e6 / start.elapsed().as_secs_f64()
    );
}
