//! Made-up results for the tests: what an overloaded service and its rescue look like.

use std::time::Duration;

use seawall_measure::recorder::Figures;
use seawall_measure::{ClassSummary, Settled};
use serde_json::json;

use super::data::{Bin, Host, NO_CONTROL, Point, ServiceReport, Spike, SpikeRun};
use super::run::{Report, Shift};

/// Requests per second that the made-up service can do.
const CAPACITY: f64 = 123_400.0;

/// Ten times the sum of 8.3 us of service and 102 us of round trip.
const SLO_US: f64 = 1_103.0;

/// When the made-up load rises, and how long the run lasts, in seconds.
const SHIFT_S: f64 = 2.0;
const RUN_S: f64 = 6.0;

/// A service that collapses beyond its capacity without control and holds with it. The highest
/// load could not be offered.
pub(crate) fn service() -> ServiceReport {
    let loads = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0];
    let without = loads.iter().map(|&load| uncontrolled(load));
    let with = loads.iter().map(|&load| controlled(load));
    ServiceReport {
        service: "kv".into(),
        slo_us: SLO_US,
        rtt_us: 102.0,
        service_us: 8.3,
        capacity: CAPACITY,
        peak_uncontrolled: Some(1.01 * CAPACITY),
        sessions: 96,
        notes: vec!["Generator and server share the machine; each has its own cores.".into()],
        points: without.chain(with).map(in_classes).collect(),
        spike: Some(spike()),
    }
}

/// A service that serves nothing at all at its highest load, has text that needs escaping, no spike
/// and nothing to tell of lateness.
pub(crate) fn stalled() -> ServiceReport {
    let mut points: Vec<Point> =
        [0.5, 1.0].iter().flat_map(|&load| [uncontrolled(load), controlled(load)]).collect();
    let nothing = Point {
        goodput: 0.0,
        throughput: 0.0,
        lateness_p99_us: None,
        p50_us: None,
        p99_us: None,
        p999_us: None,
        reject_p99_us: None,
        latency_censored: 1.0,
        lost_rate: 1.0,
        unanswered: 700_000,
        ..uncontrolled(2.0)
    };
    points.push(Point {
        control: "svalinn".into(),
        server_drop_rate: 1.0,
        latency_censored: 0.0,
        lost_rate: 0.0,
        unanswered: 0,
        ..nothing.clone()
    });
    points.push(nothing);
    ServiceReport {
        service: "search <\"R&D\">".into(),
        notes: vec!["Index & queries are <synthetic>.".into()],
        points,
        spike: None,
        ..service()
    }
}

/// Facts of a made-up machine.
pub(crate) fn host() -> Host {
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
pub(crate) fn run() -> Report {
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
        let bin = bin(t_s, index as u32, true);
        let scale = 12_500.0 / CAPACITY;
        json!({
            "begin_seconds": t_s, "offered": bin.offered * scale, "goodput": bin.goodput * scale,
            "throughput": bin.throughput * scale * 1.01, "client_drops": bin.drops * 0.8 * scale,
            "server_drops": bin.drops * 0.2 * scale, "p99_us": bin.p99_us,
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

/// A point nine tenths of whose requests are lookups.
fn in_classes(mut point: Point) -> Point {
    let class = |(name, part): (&str, f64)| {
        let mut figures = Figures::default();
        figures.offered = part * point.offered;
        figures.goodput = part * point.goodput;
        figures.throughput = part * point.throughput;
        (figures.p50_us, figures.p99_us) = (point.p50_us, point.p99_us);
        figures.p999_us = point.p999_us;
        figures.latency_censored = point.latency_censored;
        figures.client_drop_rate = point.client_drop_rate;
        figures.server_drop_rate = point.server_drop_rate;
        ClassSummary { name: name.into(), figures }
    };
    point.classes = [("get", 0.9), ("set", 0.1)].map(class).into();
    point
}

fn uncontrolled(load: f64) -> Point {
    let offered = load * CAPACITY;
    let beyond = (load - 1.0).max(0.0);
    let throughput = offered.min(1.01 * CAPACITY - 9_000.0 * beyond);
    let collapsed = beyond > 0.03;
    let goodput = if collapsed { 1_900.0 / (1.0 + 8.0 * beyond) } else { throughput * 0.997 };
    let queue_us = 55.0 * load / (1.06 - load.min(1.0));
    let p99_us = if collapsed { 4e6 * beyond / load } else { 210.0 + queue_us };
    let lost = if collapsed { 1.0 - throughput / offered } else { 0.0 };
    let valid = load < 2.9;
    let reason = "offered 1300000 of 1480000 scheduled requests (87.8 %, below 99 %)";
    Point {
        load,
        control: NO_CONTROL.into(),
        valid,
        invalid_reason: (!valid).then(|| reason.into()),
        lateness_p99_us: Some(if valid { 6.0 + 9.0 * load } else { 412.0 }),
        offered: if valid { offered } else { 0.878 * offered },
        goodput,
        throughput,
        p50_us: Some(if collapsed { 0.55 * p99_us } else { 118.0 + 0.2 * queue_us }),
        p99_us: Some(p99_us),
        p999_us: Some(1.3 * p99_us),
        latency_censored: lost,
        client_drop_rate: 0.0,
        server_drop_rate: 0.0,
        reject_p99_us: None,
        lost_rate: lost,
        unanswered: if collapsed { (beyond * 310_000.0) as u64 } else { 0 },
        failed: 0,
        classes: Vec::new(),
    }
}

fn controlled(load: f64) -> Point {
    let offered = load * CAPACITY;
    let beyond = (load - 1.0).max(0.0);
    let throughput = offered.min(CAPACITY * (0.975 - 0.008 * beyond));
    let refused = (offered - throughput) / offered;
    let p99_us = 216.0 + 430.0 * (load * load * load).min(1.0) + 52.0 * beyond;
    let server = 0.04 * refused;
    Point {
        control: "breakwater".into(),
        goodput: throughput * 0.996,
        throughput,
        p50_us: Some(0.42 * p99_us),
        p99_us: Some(p99_us),
        p999_us: Some(1.7 * p99_us),
        latency_censored: 0.0,
        client_drop_rate: refused - server,
        server_drop_rate: server / (1.0 - refused + server),
        reject_p99_us: (server > 0.0).then_some(0.8 * p99_us),
        lost_rate: 0.0,
        unanswered: 0,
        ..uncontrolled(load)
    }
}

fn spike() -> Spike {
    Spike {
        stable_after_ms: Some(120.0),
        too_short: false,
        from_load: 0.6,
        to_load: 1.6,
        at_s: SHIFT_S,
        goodput_before: 0.6 * CAPACITY,
        goodput_after: 0.962 * CAPACITY,
        p99_us_after: Some(730.0),
        runs: vec![
            SpikeRun {
                control: "breakwater".into(),
                stable_after_ms: Some(120.0),
                stable_bin_by_bin_ms: Some(180.0),
                series: bins(true),
            },
            SpikeRun {
                control: NO_CONTROL.into(),
                stable_after_ms: None,
                stable_bin_by_bin_ms: None,
                series: bins(false),
            },
        ],
    }
}

fn bins(controlled: bool) -> Vec<Bin> {
    let count = (RUN_S / 0.02) as u32;
    (0..count).map(|index| bin(f64::from(index) * 0.02, index, controlled)).collect()
}

fn bin(t_s: f64, index: u32, controlled: bool) -> Bin {
    // A fixed sequence that looks like chance: -1 to 1.
    let noise = |step: u32| f64::from((index * step + 7) % 97) / 48.0 - 1.0;
    let since = t_s - SHIFT_S;
    let load = if since < 0.0 { 0.6 } else { 1.6 };
    let offered = CAPACITY * load * (1.0 + 0.025 * noise(37));
    let able = CAPACITY * (0.968 + 0.018 * noise(53));
    let (goodput, p99_us) = match (since < 0.0, controlled) {
        (true, _) => (offered * 0.998, 270.0 + 35.0 * noise(29)),
        (false, true) if since < 0.12 => (able * 0.7, 2_600.0 - 14_000.0 * since),
        (false, true) => (able, 730.0 + 90.0 * noise(29)),
        (false, false) if since < 0.02 => (able, 5_000.0),
        (false, false) => (600.0 * (1.0 + noise(41)), 6e5 * since),
    };
    Bin {
        t_s,
        offered,
        goodput,
        throughput: if since < 0.0 { goodput } else { able },
        drops: if controlled { (offered - goodput).max(0.0) } else { 0.0 },
        p99_us: (controlled || since < 3.0).then_some(p99_us),
    }
}
