//! x
use std::time::Duration;
use seawall_control::controller::Init;
use seawall_control::harness::World;
use seawall_control::request::Identity;
use seawall_control::{Instant, admission};
fn main() {
    let service = Duration::from_micros(100);
    let net = Duration::from_micros(40);
    for period in [40u64, 100, 200, 400, 800, 1600] { for clients in [10, 100, 1000] { for load in [0.5, 0.9, 1.2, 2.0] {
        let slo = (service + net) * 10;
        let init = Init { slo, rtt: Duration::from_micros(period), ..Init::new(Instant::ORIGIN, 11) };
        let mut w = World::new(admission::Config::named("breakwater").build().unwrap(), init, service);
        w.set_link(seawall_control::harness::Link{latency: net/2, loss: 0.0, jitter: Duration::ZERO});
        w.budget = Some(slo - net - Duration::from_micros(460));
        (0..clients).for_each(|_| _ = w.connect(Identity::default()));
        w.offer(load * 10_000.0, Duration::from_millis(500));
        w.forget();
        w.offer(load * 10_000.0, Duration::from_secs(1));
        let t = &w.tally;
        println!("{period:5} {clients:5} {load}: served {} good {} refused {} dropped {} pushes {} p99 {:?} slo {slo:?} pool {:?}", t.served, t.good, t.refused, t.dropped, t.pushes, t.p99(), w.server.metrics().value("credit_pool"));
    }}}
}
