use seawall_sim::{Scenario, World};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = format!(
        "admission.algorithm='{}'\nworkload.load='{}'\n{}",
        args[1],
        args[2],
        args.get(3).map_or("", |s| s)
    );
    let scenario: Scenario = toml::from_str(&text).unwrap();
    let start = std::time::Instant::now();
    match World::new(&scenario, 1).unwrap().run() {
        Ok(report) => {
            let t = start.elapsed().as_secs_f64();
            let s = report.recorder.summary().total;
            println!(
                "{} {}: offered {:.0} goodput {:.0} thr {:.0} p50 {:?} p99 {:?} cdrop {:.4} sdrop {:.4} {:?}",
                args[1],
                args[2],
                s.offered,
                s.goodput,
                s.throughput,
                s.p50_us,
                s.p99_us,
                s.client_drop_rate,
                s.server_drop_rate,
                report.counts
            );
            println!("{:.2} s, {:.1} M events/s", t, report.events as f64 / t / 1e6);
        }
        Err(v) => println!("VIOLATION {v}"),
    }
}
