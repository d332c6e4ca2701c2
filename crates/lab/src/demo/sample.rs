//! A made-up result for the tests: a demo as it should be.

use super::result::{Bin, Class, Demo, Measured, NO_CONTROL, Numbers, Point, Spike, SpikeRun};
use super::service::Service;
use super::verdict;
use crate::report::sample;

const CAPACITY: f64 = 480.0;
const SLO_US: f64 = 20_400.0;

/// Both services, at three loads each.
pub(super) fn demo() -> Demo {
    of(vec![service(Service::Worker), service(Service::Lock)])
}

/// What is said of these services.
pub(super) fn of(services: Vec<Measured>) -> Demo {
    let unmet = verdict::unmet(&services);
    Demo {
        held: unmet.is_empty(),
        unmet,
        sentences: verdict::sentences(&services),
        warnings: verdict::warnings(&services),
        algorithm: "breakwater".into(),
        services,
        host: sample::host(),
    }
}

pub(super) fn service(service: Service) -> Measured {
    let points = [0.9, 2.0, 3.0]
        .into_iter()
        .flat_map(|load| [NO_CONTROL, "breakwater"].map(|control| point(service, load, control)));
    Measured {
        service,
        about: service.about().into(),
        slo_us: SLO_US,
        rtt_us: 40.0,
        service_us: 2_000.0,
        capacity: CAPACITY,
        sessions: 100,
        points: points.collect(),
        spike: (service == Service::Worker).then(spike),
    }
}

fn point(service: Service, load: f64, control: &str) -> Point {
    let all = numbers(load, control);
    let classes = match service.classes() {
        [_] => Vec::new(),
        names => {
            let class = |name: &&str| Class { class: (*name).into(), numbers: all.clone() };
            names.iter().map(class).collect()
        }
    };
    Point {
        load,
        control: control.into(),
        seconds: 2.0,
        tries: 1,
        valid: true,
        invalid_reason: None,
        disturbed: false,
        stalled_ms: 0.0,
        longest_stall_ms: 0.0,
        lateness_p99_us: Some(80.0),
        goodput_interval: 0.03 * CAPACITY,
        all,
        classes,
    }
}

fn numbers(load: f64, control: &str) -> Numbers {
    let offered = load * CAPACITY;
    let collapses = load > 1.0 && control == NO_CONTROL;
    let served = offered.min(0.97 * CAPACITY);
    let rejected = if collapses || load < 1.0 { 0.0 } else { 1.0 - served / offered };
    Numbers {
        offered,
        goodput: if collapses { 0.0 } else { served },
        throughput: served,
        p50_us: Some(if collapses { 1e6 } else { 9_000.0 }),
        p99_us: Some(if collapses { 1.9e6 } else { 17_000.0 }),
        p99_is_bound: collapses,
        rejected_by_server: rejected,
        rejected_by_client: 0.0,
        rejection_p99_us: (rejected > 0.0).then_some(900.0),
        lost: if collapses { 0.4 } else { 0.0 },
    }
}

fn spike() -> Spike {
    let run = |control: &str| SpikeRun {
        control: control.into(),
        stable_after_ms: (control != NO_CONTROL).then_some(60.0),
        too_short: false,
        disturbed: false,
        goodput_after: if control == NO_CONTROL { 0.0 } else { 0.97 * CAPACITY },
        bin_s: 0.02,
        bins: (0..225).map(|index| bin(f64::from(index) * 0.02, control)).collect(),
    };
    Spike {
        from_load: 0.5,
        to_load: 2.0,
        at_s: 1.5,
        runs: [NO_CONTROL, "breakwater"].map(run).into(),
    }
}

fn bin(t_s: f64, control: &str) -> Bin {
    let load = if t_s < 1.5 { 0.5 } else { 2.0 };
    let Numbers { offered, goodput, p99_us, .. } = numbers(load, control);
    // Nothing completes in some bins.
    let p99_us = p99_us.filter(|_| control != NO_CONTROL || t_s < 4.0);
    Bin { t_s, offered, goodput, p99_us }
}
