//! Made-up results for the tests.

use std::time::Duration;

use seawall_measure::Settled;
use serde_json::json;

use super::run::{Report, Shift};
use crate::host::Host;

/// When the made-up load rises, in seconds.
const SHIFT_S: f64 = 2.0;

/// Facts of a made-up machine.
pub fn host() -> Host {
    Host {
        cpu_model: "AMD EPYC 7B13 <64-Core> Processor".into(),
        cores: 16,
        kernel: "Linux 6.1.0-18-amd64".into(),
        date: "2026-03-14 15:09 UTC".into(),
        version: "0.1.0".into(),
        command_line: "seawall demo --services kv,search --out 'a & b'".into(),
    }
}

/// A load that rises to twice what its server can do.
pub fn run() -> Report {
    let figures = |part: f64| {
        json!({
            "offered": 20_000.0 * part, "goodput": 10_400.0 * part, "throughput": 10_500.0 * part,
            "mean_us": 710.0, "p50_us": 640.0, "p90_us": 1_050.0, "p99_us": 1_410.0,
            "p999_us": 2_180.0, "max_us": 3_020.0,
            "client_drop_rate": 0.41, "server_drop_rate": 0.12,
            "offered_count": (60_000.0 * part) as u64, "unanswered": 0, "failed": 0, "cancelled": 3,
            "reject_mean_us": 240.0, "reject_p99_us": 610.0,
            "client_drops": { "expired": (1_230.0 * part) as u64 },
        })
    };
    let mut classes = vec![figures(0.998), figures(0.002)];
    (classes[0]["name"], classes[1]["name"]) = ("get".into(), "set".into());
    let mut summary = figures(1.0);
    summary["valid"] = true.into();
    summary["slo_us"] = 2_000.0.into();
    summary["window_seconds"] = 3.0.into();
    summary["lateness_p99_us"] = 14.0.into();
    summary["classes"] = classes.into();
    let bins = (0..200).map(|index| {
        let t_s = f64::from(index) * 0.02;
        // A fixed sequence that looks like chance: -1 to 1.
        let noise = f64::from((index * 37 + 7) % 97) / 48.0 - 1.0;
        let offered = if t_s < SHIFT_S { 7_500.0 } else { 20_000.0 } * (1.0 + 0.025 * noise);
        let goodput = offered.min(12_000.0 * (1.0 + 0.018 * noise));
        let dropped = offered - goodput;
        json!({
            "begin_seconds": t_s, "offered": offered, "goodput": goodput,
            "throughput": goodput * 1.01, "client_drops": dropped * 0.8,
            "server_drops": dropped * 0.2, "p99_us": 730.0 + 90.0 * noise,
        })
    });
    let read = "the sample is complete";
    Report {
        algorithm: "breakwater".into(),
        sessions: 100,
        hit_share: Some(0.75),
        slo_chosen: false,
        facts: vec![("Servers", "127.0.0.1:7117".into()), ("Rate", "0s:5k,2s:20k".into())],
        warnings: Vec::new(),
        summary: serde_json::from_value(summary).expect(read),
        bins: bins.map(|bin| serde_json::from_value(bin).expect(read)).collect(),
        bin_s: 0.02,
        measured_from_s: 1.0,
        shifts: vec![Shift {
            at_s: SHIFT_S,
            from: 5_000.0,
            to: 20_000.0,
            settled: Settled::After(Duration::from_millis(140)),
        }],
    }
}
