//! Limits that others use, and what they are told here: how busy the cores are, and errors.

use seawall_sim::world::Report;
use seawall_sim::{Scenario, World};

/// Eight cores, and requests of 2 ms.
const SERVER: &str = "
    slo = '20ms'
    network.delay = 'const:50us'
    run = { warm_up = '2s', time = '1s' }
    server.cores = 8
    workload.clients = 100
    workload.service = 'exp:2ms'";

fn run(text: &str) -> Report {
    let scenario: Scenario = toml::from_str(&format!("{SERVER}\n{text}")).unwrap();
    World::new(&scenario, 7).unwrap().run().unwrap()
}

#[test]
fn a_shedder_that_looks_at_the_cpu_sees_it_and_no_lock() {
    for variant in ["go-zero", "aegis"] {
        // By an average that takes half a second, and not eleven, to see what is so.
        let bbr = format!(
            "workload.load = '2x'
            admission.algorithm = 'bbr'
            admission.bbr = {{ variant = '{variant}', cpu_interval = '10ms' }}"
        );
        let report = run(&bbr);
        assert!(report.counts.refused_at_entry > 2_000, "{variant}: {:?}", report.counts);
        let at_lock = run(&format!(
            "{bbr}\nserver.capacity = 500.0
            workload.class = [{{ name = 'hot', share = 1.0,
                steps = [{{ cpu = 'const:2ms', lock = 'hot' }}] }}]"
        ));
        assert_eq!(at_lock.counts.refused_at_entry, 0, "{variant}");
        assert_eq!(at_lock.recorder.summary().total.goodput, 0.0, "{variant}");
    }
}

#[test]
fn nobody_else_asks_for_the_cpu() {
    use seawall_control::admission;
    for name in admission::NAMES {
        let algorithm = admission::Config::named(name).build().unwrap();
        assert_eq!(algorithm.asks_for_cpu(), name == "bbr", "{name}");
    }
}

#[test]
fn errors_are_their_part_of_the_requests_and_no_goodput() {
    let quiet = "workload.load = '0.5x'\nadmission.algorithm = 'envoy'";
    let without = run(quiet).recorder.summary().total;
    let with = run(&format!("{quiet}\nworkload.errors = 0.1")).recorder.summary().total;
    let offered = (with.offered_count, without.offered_count);
    assert_eq!((without.failed, offered.0), (0, offered.1), "the same requests");
    let share = with.failed as f64 / offered.0 as f64;
    assert!((share - 0.1).abs() < 0.01, "{share}");
    assert!(with.goodput < 0.92 * without.goodput, "{} {}", with.goodput, without.goodput);
}
