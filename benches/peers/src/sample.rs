//! Recorded results for tests.

use serde_json::json;

use crate::record::{Key, Measured, Point, Run};

/// A run with points of (experiment, row, rate, goodput, p99); those of one case are its rounds.
pub(crate) fn run(points: &[(&str, &str, &str, f64, Option<f64>)]) -> Run {
    let mut run = Run::default();
    for &(experiment, row, rate, goodput, p99_us) in points {
        let key = Key {
            experiment: experiment.into(),
            row: row.into(),
            rate: rate.into(),
            round: run.of(experiment, row, rate).len() as u32 + 1,
            warm_up_s: 4,
            time_s: 4,
        };
        run.points.push(Point {
            key,
            server_cpu_us: Some(2_000.0),
            front_cpu_us: None,
            busy: Some(1.0),
            load: measured(goodput, p99_us),
        });
    }
    run
}

fn measured(goodput: f64, p99_us: Option<f64>) -> Measured {
    let figures = json!({
        "offered": 1_000.0, "goodput": goodput, "throughput": goodput, "p50_us": p99_us,
        "p99_us": p99_us, "latency_censored": 0.0, "client_drop_rate": 0.0,
        "server_drop_rate": 0.25, "lost_rate": 0.0, "offered_count": 4_000, "unanswered": 0,
        "failed": 0, "cancelled": 0,
    });
    let mut summary = figures.clone();
    let mut class = figures;
    class["name"] = "all".into();
    let rest = json!({
        "valid": true, "slo_us": 100_000.0, "window_seconds": 4.0, "classes": [class],
        "lateness_p99_us": 100.0, "algorithm": "HTTP/1.1", "sessions": 200,
    });
    for (key, value) in rest.as_object().expect("it is one") {
        summary[key] = value.clone();
    }
    serde_json::from_value(summary).expect("it is what the load says")
}
