//! Replicas whose CPU others take, and locks that are held for long: who says so in time loses
//! nothing.

use seawall_sim::world::Report;
use seawall_sim::{Scenario, World};

/// Three replicas with enough cores; `server` says what disturbs them, and `client` what the
/// clients do about it. A request may wait for 1 ms.
fn scenario(server: &str, client: &str) -> Scenario {
    let text = format!(
        "
        workload = {{ clients = 6, load = '10k', service = 'const:200us', budget = '1ms' }}
        network.delay = 'const:50us'
        run = {{ warm_up = '100ms', time = '2s' }}
        slo = '10ms'
        [server]
        cores = 8
        speeds = [1.0, 1.0, 1.0]
        {server}
        [admission]
        algorithm = 'none'
        client.replicas = {{ choose = 'random', guided = false }}
        client.retry = {{ attempts = 3, budget = 16.0, burst = 1000, {client} }}
        "
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn run(server: &str, client: &str) -> Report {
    World::new(&scenario(server, client), 7).unwrap().run().unwrap()
}

fn figures(report: &Report) -> (f64, f64) {
    let total = report.recorder.summary().total;
    assert!(total.server_drop_rate < 0.001 && total.unanswered == 0, "{total:?}");
    (total.mean_us.unwrap(), total.p95_us.unwrap())
}

#[test]
fn who_waits_for_the_cpu_waits_for_the_rest_of_the_burst() {
    // 10 ms of each 100 ms: a tenth of the requests waits for 5 ms on average.
    let noise = "noise = [{ every = 'const:90ms', lasts = 'const:10ms' }]";
    let mut scenario = scenario(noise, "");
    scenario.workload.budget = None;
    let report = World::new(&scenario, 7).unwrap().run().unwrap();
    let (mean, p95) = figures(&report);
    // And they queue up: 33 requests on 8 cores, when the burst is over.
    assert!((mean - 300.0 - 500.0 - 40.0).abs() < 60.0, "{mean}");
    assert!((p95 - 5_300.0).abs() < 800.0, "{p95}");
}

#[test]
fn a_guardian_sends_on_what_would_wait() {
    let noise = |foreseen: &str| {
        format!("guardian = true\nnoise = [{{ every = 'exp:90ms', lasts = 'exp:10ms'{foreseen} }}]")
    };
    let resort = "last_resort = true";
    let blind = run(&noise(""), resort);
    let seeing = run(&noise(", foreseen = 'const:0us'"), resort);
    let wrong = run(&noise(", foreseen = 'exp:5ms'"), resort);
    assert_eq!(blind.counts.refused_at_cpu, 0);
    let share = seeing.counts.refused_at_cpu as f64 / seeing.retries.calls as f64;
    assert!((0.06..0.14).contains(&share), "a tenth of the first tries: {share}");
    let p95 = |report| figures(report).1;
    assert!(p95(&seeing) < 600.0, "a refusal takes a round trip: {}", p95(&seeing));
    assert!(p95(&blind) > 2_000.0, "{}", p95(&blind));
    let p99 = |report: &Report| report.recorder.summary().total.p99_us.unwrap();
    assert!(p99(&wrong) > 2.0 * p99(&seeing), "{} {}", p99(&wrong), p99(&seeing));
}

#[test]
fn a_hold_that_is_announced_is_known_to_those_who_come() {
    let run = |announced: bool| {
        let hold = format!(
            "locks = 'larger'\n\
             [[server.hold]]\nlock = 'ring'\nevery = 'exp:700ms'\namounts = [32, 256]\n\
             each = '469us'\nbase = '10ms'\nscatter = 0.1\nannounced = {announced}"
        );
        let mut scenario = scenario(&hold, "last_resort = true");
        let class = "name = 'all'\nshare = 1.0\n\
                     steps = [{ cpu = 'const:5us', lock = 'ring' }, { cpu = 'const:195us' }]";
        scenario.workload.classes = vec![toml::from_str(class).unwrap()];
        World::new(&scenario, 7).unwrap().run().unwrap()
    };
    let (blind, told) = (run(false), run(true));
    let (_, p95_blind) = figures(&blind);
    let (_, p95_told) = figures(&told);
    assert!(told.counts.refused_later > 100, "{:?}", told.counts);
    assert!(p95_told < 700.0 && p95_blind >= p95_told, "{p95_told} {p95_blind}");
}

#[test]
fn nonsense_is_refused_by_name() {
    let field = |server: &str| {
        let scenario: Scenario = toml::from_str(&format!("[server]\n{server}")).unwrap();
        scenario.validate().unwrap_err().field
    };
    let noise = |rest: &str| field(&format!("noise = [{{ {rest} }}]"));
    assert_eq!(noise("every = 'const:0us', lasts = 'exp:1ms'"), "server.noise.every");
    assert_eq!(noise("replica = 1, every = 'exp:1ms', lasts = 'exp:1ms'"), "server.noise.replica");
    let hold =
        "hold = [{ lock = 'x', every = 'exp:1ms', amounts = [1], each = '1us', base = '0s' }]";
    assert_eq!(field(hold), "server.hold.lock");
}
