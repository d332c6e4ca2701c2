//! Recorder arithmetic on cases small enough to count by hand.

use std::time::Duration;

use seawall_control::{Instant, Rng};
use seawall_measure::latency::is_lower_bound;
use seawall_measure::recorder::MIN_OFFERED;
use seawall_measure::{DropReason, Outcome, Recorder, RecorderConfig, Summary, Window};

const SLO: Duration = Duration::from_micros(200);

/// A run from 0, warm-up 1 ms, window 2 ms: rates are 500 per second for each request.
fn config() -> RecorderConfig {
    let millis = Duration::from_millis;
    RecorderConfig::new(SLO, Window::after_warm_up(Instant::ORIGIN, millis(1), millis(2)))
}

fn recorder() -> Recorder {
    Recorder::new(config()).unwrap()
}

fn us(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

#[test]
fn only_what_is_scheduled_in_the_window_counts() {
    let mut recorder = recorder();
    recorder.record(0, us(999), us(999), Outcome::Success);
    recorder.record(0, us(1_000), us(1_100), Outcome::Success);
    // Scheduled inside, finished long after the end: it counts.
    recorder.record(0, us(2_999), us(9_999), Outcome::Success);
    recorder.record(0, us(3_000), us(3_100), Outcome::Success);
    let total = recorder.summary().total;
    assert_eq!(total.offered_count, 2);
    assert_eq!((total.offered, total.goodput), (1_000.0, 500.0));
    assert_eq!(total.max_us, Some(7_000.0));
}

#[test]
fn throughput_is_what_completes_in_the_window() {
    let mut recorder = recorder();
    // Twice what the server can do, from the start: request n is due at 10 n us and done at 20 n.
    for n in 0..300 {
        let done = us(20 * n);
        let (finished, outcome) = if done < us(5_000) {
            (done, Outcome::Success)
        } else {
            (us(5_000), Outcome::Unanswered)
        };
        recorder.record(0, us(10 * n), finished, outcome);
    }
    let total = recorder.summary().total;
    // However long the stragglers are waited for: 2 ms of 20 us each.
    assert_eq!((total.offered, total.throughput), (100_000.0, 50_000.0));
    // Neither a refusal nor an error is served.
    recorder.record(0, us(500), us(1_500), Outcome::Rejected);
    recorder.record(0, us(500), us(1_500), Outcome::Failed);
    assert_eq!(recorder.summary().total.throughput, 50_000.0);
}

#[test]
fn quantiles_that_unanswered_requests_would_exceed_are_lower_bounds() {
    let mut recorder = recorder();
    let bounds = |recorder: &Recorder| {
        let total = recorder.summary().total;
        [0.5, 0.9, 0.99, 0.999].map(|q| is_lower_bound(q, total.latency_censored))
    };
    for n in 0..95 {
        recorder.record(0, us(1_000), us(1_001 + n), Outcome::Success);
    }
    // A refusal or an error is no latency that is unknown.
    recorder.record(0, us(1_000), us(1_001), Outcome::Rejected);
    recorder.record(0, us(1_000), us(1_001), Outcome::Failed);
    assert_eq!(bounds(&recorder), [false; 4]);
    for _ in 0..5 {
        recorder.record(0, us(1_000), us(9_000), Outcome::Unanswered);
    }
    assert_eq!(recorder.summary().total.latency_censored, 0.05);
    assert_eq!(bounds(&recorder), [false, false, true, true]);
}

#[test]
fn goodput_is_successes_within_the_slo_and_never_a_refusal() {
    let mut recorder = recorder();
    recorder.record(0, us(1_000), us(1_200), Outcome::Success);
    recorder.record(0, us(1_000), us(1_200) + Duration::from_nanos(1), Outcome::Success);
    for outcome in [
        Outcome::Rejected,
        Outcome::Cancelled,
        Outcome::Failed,
        Outcome::DroppedAtClient(DropReason::Policy),
    ] {
        recorder.record(0, us(1_000), us(1_001), outcome);
    }
    recorder.record(0, us(1_000), us(9_000), Outcome::Unanswered);
    let total = recorder.summary().total;
    assert_eq!(total.offered, 3_500.0);
    assert_eq!(total.throughput, 1_000.0);
    assert_eq!(total.goodput, 500.0);
    // Nor do refusals, which came within 1 us, make the latencies look better, and what was never
    // answered makes them as bad as is known.
    assert!(total.p50_us.unwrap() >= 200.0);
    assert_eq!(total.max_us, Some(8_000.0));
}

#[test]
fn latency_counts_from_the_scheduled_time() {
    let mut recorder = recorder();
    // Issued 150 us late and served in 100 us: the user waited for 250 us.
    recorder.record_lateness(us(1_000), us(1_150));
    recorder.record(0, us(1_000), us(1_250), Outcome::Success);
    let summary = recorder.summary();
    assert_eq!(summary.total.mean_us, Some(250.0));
    assert_eq!(summary.total.goodput, 0.0);
    assert_eq!(summary.lateness_p99_us, Some(150.0));
}

#[test]
fn drop_rates_at_client_and_server_are_apart() {
    let mut recorder = recorder();
    for n in 0..20 {
        let outcome = match n {
            0..3 => Outcome::DroppedAtClient(DropReason::Expired),
            3 => Outcome::DroppedAtClient(DropReason::QueueFull),
            4..8 => Outcome::Rejected,
            8 => Outcome::Unanswered,
            9 => Outcome::Failed,
            10 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        recorder.record(0, us(1_000), us(1_010 + n), outcome);
    }
    let total = recorder.summary().total;
    assert_eq!(total.client_drop_rate, 4.0 / 20.0);
    assert_eq!(total.server_drop_rate, 4.0 / 16.0);
    assert_eq!((total.unanswered, total.failed, total.cancelled), (1, 1, 1));
    assert_eq!(total.lost_rate, 3.0 / 20.0);
    assert_eq!(total.throughput, 4_500.0);
    assert_eq!(total.client_drops[&DropReason::Expired], 3);
    assert_eq!(total.client_drops[&DropReason::QueueFull], 1);
    assert_eq!(total.client_drops.len(), 2);
    assert_eq!(total.reject_mean_us, Some(15.5));
    assert_eq!(total.reject_p99_us, Some(17.0));
}

#[test]
fn quantiles_are_those_of_the_sorted_latencies() {
    let mut recorder = recorder();
    for n in 1..=1_000 {
        recorder.record(0, us(1_000), us(1_000 + n), Outcome::Success);
    }
    let total = recorder.summary().total;
    let near = |value: Option<f64>, expected: f64| {
        let value = value.unwrap();
        assert!((expected..=expected * 1.001).contains(&value), "{value} for {expected}");
    };
    near(total.p50_us, 500.0);
    near(total.p90_us, 900.0);
    near(total.p99_us, 990.0);
    near(total.p999_us, 999.0);
    assert_eq!(total.max_us, Some(1_000.0));
    assert_eq!(total.goodput, 200.0 * 500.0);
}

#[test]
fn classes_are_apart_and_together() {
    let config = config().with_classes(["cpu", "memory"]);
    let mut recorder = Recorder::new(config).unwrap();
    recorder.record(0, us(1_000), us(1_100), Outcome::Success);
    recorder.record(1, us(1_000), us(1_900), Outcome::Success);
    recorder.record(1, us(1_000), us(1_100), Outcome::Rejected);
    let summary = recorder.summary();
    assert_eq!(summary.total.offered_count, 3);
    assert_eq!(summary.total.server_drop_rate, 1.0 / 3.0);
    let [cpu, memory] = &summary.classes[..] else { panic!("two classes") };
    assert_eq!((&cpu.name[..], &memory.name[..]), ("cpu", "memory"));
    assert_eq!(cpu.figures.goodput, 500.0);
    assert_eq!((memory.figures.goodput, memory.figures.throughput), (0.0, 500.0));
    assert_eq!(memory.figures.server_drop_rate, 0.5);
}

#[test]
#[should_panic(expected = "class 1 of 1")]
fn an_unknown_class_is_a_bug() {
    recorder().record(1, us(1_000), us(1_100), Outcome::Success);
}

#[test]
fn no_success_has_no_latency() {
    let mut recorder = recorder();
    recorder.record(0, us(1_000), us(1_001), Outcome::Rejected);
    let summary = recorder.summary();
    assert_eq!(summary.total.p99_us, None);
    assert_eq!(summary.total.max_us, None);
    assert_eq!(summary.total.server_drop_rate, 1.0);
    assert!(summary.valid);
}

#[test]
fn a_point_without_requests_is_invalid() {
    let summary = recorder().summary();
    assert!(!summary.valid);
    assert_eq!(summary.invalid_reason.as_deref(), Some("nothing was offered in the window"));
    assert_eq!((summary.total.client_drop_rate, summary.total.server_drop_rate), (0.0, 0.0));
}

#[test]
fn a_generator_that_falls_behind_makes_the_point_invalid() {
    let summary = |offered: u64| {
        let mut recorder = recorder();
        for n in 0..100 {
            recorder.record_scheduled(us(1_000 + n));
            if n < offered {
                recorder.record(0, us(1_000 + n), us(1_100 + n), Outcome::Success);
            }
        }
        // Arrivals outside the window are nobody's business.
        recorder.record_scheduled(us(10));
        recorder.record_scheduled(us(5_000));
        recorder.summary()
    };
    assert_eq!(MIN_OFFERED, 0.98);
    assert!(summary(98).valid);
    let invalid = summary(97);
    assert!(!invalid.valid);
    let reason = invalid.invalid_reason.unwrap();
    assert_eq!(reason, "offered 97 of 100 scheduled requests (97.0 %, below 98 %)");
}

#[test]
fn a_late_generator_makes_the_point_invalid() {
    let summary = |late: u64| {
        let mut recorder = recorder();
        for n in 0..100 {
            let lateness = if n < late { 25 } else { 1 };
            recorder.record_lateness(us(1_000 + n), us(1_000 + n + lateness));
            recorder.record(0, us(1_000 + n), us(1_100 + n), Outcome::Success);
        }
        // During the warm-up it may be as late as it likes.
        recorder.record_lateness(us(1), us(900));
        recorder.summary()
    };
    assert!(summary(1).valid);
    let invalid = summary(2);
    assert!(!invalid.valid);
    let reason = invalid.invalid_reason.as_deref().unwrap();
    assert!(reason.contains("late (p99), above the bound of 20us"), "{reason}");
    assert!(invalid.to_string().ends_with("above the bound of 20us)"), "{invalid}");
}

#[test]
fn merged_recorders_equal_a_single_one() {
    let config = config().with_classes(["a", "b", "c"]);
    let recorder = || Recorder::new(config.clone()).unwrap();
    let mut rng = Rng::new(1);
    let mut parts = [recorder(), recorder(), recorder()];
    let mut single = recorder();
    for _ in 0..20_000 {
        let scheduled = us(rng.below(4_000));
        let finished = scheduled + rng.exponential_duration(SLO);
        let class = rng.below(3) as usize;
        let outcome = match rng.below(10) {
            0 => Outcome::Rejected,
            1 => Outcome::DroppedAtClient(DropReason::ALL[rng.below(4) as usize]),
            2 => Outcome::Unanswered,
            3 => Outcome::Failed,
            4 => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        for recorder in [&mut parts[rng.below(3) as usize], &mut single] {
            recorder.record_scheduled(scheduled);
            recorder.record_lateness(scheduled, scheduled + Duration::from_nanos(500));
            recorder.record(class, scheduled, finished, outcome);
        }
    }
    let [mut merged, second, third] = parts;
    merged.merge(&second);
    merged.merge(&third);
    assert_eq!(merged.summary(), single.summary());
    assert!(single.summary().total.offered_count > 8_000);
}

#[test]
#[should_panic(expected = "one configuration")]
fn recorders_of_different_runs_do_not_merge() {
    let other = Recorder::new(config().with_classes(["other"])).unwrap();
    recorder().merge(&other);
}

#[test]
fn summaries_survive_json_and_toml() {
    let mut recorder = recorder();
    recorder.record(0, us(1_000), us(1_123), Outcome::Success);
    recorder.record(0, us(1_000), us(1_002), Outcome::DroppedAtClient(DropReason::Expired));
    let summary = recorder.summary();
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    let text = toml::to_string(&summary).unwrap();
    assert_eq!(toml::from_str::<Summary>(&text).unwrap(), summary);
    // The total's numbers stand beside the others.
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["goodput"], 500.0);
    assert_eq!(value["classes"][0]["name"], "all");
    assert_eq!(value["classes"][0]["p99_us"], 123.0);
    assert_eq!(value["client_drops"]["expired"], 1);
    // An invalid point, without any delay, survives too.
    let empty = Recorder::new(config()).unwrap().summary();
    let json = serde_json::to_string(&empty).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), empty);
}
