//! The acceptance bars, and which of them are met. They were set before anything was measured, and
//! each is printed, whatever came out.

use std::fmt;

use serde::Serialize;

use crate::cases::{EXPERIMENTS, Experiment, experiment};
use crate::measure::capacity_name;
use crate::record::{Point, Run};
use crate::rows::{Front, ROWS, Row};

/// The part of the capacity that a lock-bound service is to serve.
const OF_CAPACITY: f64 = 0.9;

/// How much more than the best peer is to be served of the mix.
const OF_BEST: f64 = 1.4;

/// The part of the requests that do not fail which is to be served in time, at half load.
const OF_SOUND: f64 = 0.98;

/// What became of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What was measured meets it.
    Met,
    /// It does not.
    NotMet,
    /// Points that it needs were not measured.
    NotMeasured,
    /// The load could not be offered at points that it needs.
    NotValid,
}

/// One bar, for one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// What is wanted.
    pub what: String,
    /// Whose figures it is about.
    pub row: &'static str,
    /// What was measured, in words.
    pub found: String,
    /// What became of it.
    pub verdict: Verdict,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::NotMet => "NOT MET",
            Self::NotMeasured => "not measured",
            Self::NotValid => "not valid",
        })
    }
}

/// All bars, for each of Seawall's rows.
pub fn judge(run: &Run) -> Vec<Bar> {
    judge_rows(run, ROWS.iter().filter(|row| row.is_ours))
}

/// The same for other rows, which nobody expects to meet them: how far the best peer is.
pub fn judge_rows(run: &Run, rows: impl Iterator<Item = &'static Row>) -> Vec<Bar> {
    rows.flat_map(|row| of_row(run, row)).collect()
}

fn of_row(run: &Run, row: &'static Row) -> Vec<Bar> {
    let mut bars = Vec::new();
    for name in ["cpu", "grpc-cpu"] {
        bars.extend(beside_envoy(run, row, name, "2x", true));
    }
    for name in ["lock", "grpc-lock"] {
        bars.push(of_capacity(run, row, name, "2x"));
        bars.extend(beside_envoy(run, row, name, "2x", false));
    }
    for name in ["mix-path", "mix-data", "grpc-mix-path", "grpc-mix-data"] {
        bars.push(of_best(run, row, name, "1.6x", Peers::WithOneLimiter));
        bars.push(of_best(run, row, name, "1.6x", Peers::All));
    }
    let at_half = |it: &&Experiment| it.loads.contains(&"0.5x") && it.errors == 0.0;
    bars.extend(EXPERIMENTS.iter().filter(at_half).map(|it| nothing_refused(run, row, it)));
    let with_errors = |it: &&Experiment| it.errors > 0.0;
    bars.extend(EXPERIMENTS.iter().filter(with_errors).map(|it| sound(run, row, it)));
    bars
}

/// Goodput and tail beside each of Envoy's rows.
fn beside_envoy(run: &Run, own: &'static Row, name: &str, rate: &str, goodput: bool) -> Vec<Bar> {
    let envoys = ROWS.iter().filter(|row| row.front == Front::Envoy);
    let mut bars = Vec::new();
    for envoy in envoys.filter(|envoy| envoy.name != own.name) {
        let figures: &[(&str, &str, f64)] = if goodput {
            &[("goodput", "/s", 1.0), ("p99_us", " ms", 1e3)]
        } else {
            &[("p99_us", " ms", 1e3)]
        };
        for &(figure, unit, scale) in figures {
            let of = |row: &Row| run.mean(name, row.name, rate, |point| point.figure(figure));
            let is_better = |own: f64, other: f64| match figure {
                "goodput" => own >= other,
                _ => own <= other,
            };
            let (what, than) = match figure {
                "goodput" => ("goodput at least that of", "at least"),
                _ => ("p99 at most that of", "at most"),
            };
            let found = of(own).zip(of(envoy)).map(|(own, other)| {
                let text = format!("{:.1}{unit}, {than} {:.1}{unit}", own / scale, other / scale);
                (text, is_better(own, other))
            });
            let what = format!("{name} {rate}: {what} {}", envoy.name);
            bars.push(bar(
                run,
                what,
                own,
                &[(name, own.name, rate), (name, envoy.name, rate)],
                found,
            ));
        }
    }
    bars
}

fn of_capacity(run: &Run, own: &'static Row, name: &str, rate: &str) -> Bar {
    let capacity =
        experiment(name).and_then(|it| run.capacities.get(&capacity_name(own.stack, it)).copied());
    let goodput = run.mean(name, own.name, rate, |point| point.figure("goodput"));
    let found = goodput.zip(capacity).map(|(goodput, capacity)| {
        let share = goodput / capacity;
        (format!("{goodput:.0}/s of {capacity:.0}/s: {share:.2}"), share >= OF_CAPACITY)
    });
    let what = format!("{name} {rate}: goodput at least {OF_CAPACITY} of the capacity");
    bar(run, what, own, &[(name, own.name, rate)], found)
}

/// With whom the mix is compared. Paths that tell the classes apart can each have a limiter of
/// their own, set by hand, and then a peer may serve all that can be served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    /// Those with one limiter for all, as they come.
    WithOneLimiter,
    /// All, however they are set.
    All,
}

fn of_best(run: &Run, own: &'static Row, name: &str, rate: &str, of: Peers) -> Bar {
    let goodput = |row: &str| run.mean(name, row, rate, |point| point.figure("goodput"));
    let is_peer =
        |row: &&Row| !row.is_ours && row.name != own.name && (of == Peers::All || !row.tuned);
    let peers = ROWS.iter().filter(is_peer);
    let best = peers.filter_map(|row| Some((row.name, goodput(row.name)?)));
    let best = best.max_by(|a, b| a.1.total_cmp(&b.1));
    let found = goodput(own.name).zip(best).map(|(own, (name, best))| {
        let times = if best > 0.0 { format!(", {:.2} times", own / best) } else { String::new() };
        let text = format!("{own:.0}/s{times} beside {best:.0}/s of {name}");
        (text, own >= OF_BEST * best)
    });
    let mut points = vec![(name, own.name, rate)];
    points.extend(best.map(|(best, _)| (name, best, rate)));
    let whose = match of {
        Peers::WithOneLimiter => "that of the best peer with one limiter",
        Peers::All => "that of the best peer, however it is set",
    };
    let what = format!("{name} {rate}: goodput at least {OF_BEST} × {whose}");
    bar(run, what, own, &points, found)
}

fn nothing_refused(run: &Run, own: &'static Row, it: &Experiment) -> Bar {
    let refused = |point: &Point| {
        let total = &point.load.summary.total;
        Some(total.server_drop_rate + total.client_drop_rate)
    };
    let found = run
        .mean(it.name, own.name, "0.5x", refused)
        .map(|share| (format!("{:.3} % refused or dropped", share * 100.0), share == 0.0));
    let what = format!("{} 0.5x: nothing refused", it.name);
    bar(run, what, own, &[(it.name, own.name, "0.5x")], found)
}

fn sound(run: &Run, own: &'static Row, it: &Experiment) -> Bar {
    let share = |point: &Point| {
        let total = &point.load.summary.total;
        Some(total.goodput / (total.offered * (1.0 - it.errors)))
    };
    let found = run
        .mean(it.name, own.name, "0.5x", share)
        .map(|share| (format!("{share:.3} of those that do not fail"), share >= OF_SOUND));
    let what = format!("{} 0.5x: {OF_SOUND} of the sound requests served in time", it.name);
    bar(run, what, own, &[(it.name, own.name, "0.5x")], found)
}

fn bar(
    run: &Run,
    what: String,
    row: &'static Row,
    points: &[(&str, &str, &str)],
    found: Option<(String, bool)>,
) -> Bar {
    let of = |&(experiment, row, rate): &(&str, &str, &str)| run.of(experiment, row, rate);
    let is_valid = points.iter().flat_map(of).all(|point| point.load.summary.valid);
    let (found, verdict) = match found {
        None => ("-".to_owned(), Verdict::NotMeasured),
        Some((found, _)) if !is_valid => (found, Verdict::NotValid),
        Some((found, true)) => (found, Verdict::Met),
        Some((found, false)) => (found, Verdict::NotMet),
    };
    Bar { what, row: row.name, found, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::row;
    use crate::sample;

    fn verdicts(run: &Run, of: &str, what: &str) -> Vec<Verdict> {
        let bars = judge_rows(run, row(of).into_iter());
        bars.iter().filter(|bar| bar.what.starts_with(what)).map(|bar| bar.verdict).collect()
    }

    #[test]
    fn envoy_is_to_be_met_in_goodput_and_tail() {
        let mut run = sample::run(&[
            ("cpu", "none (Rust)", "2x", 490.0, Some(30_000.0)),
            ("cpu", "Envoy", "2x", 480.0, Some(20_000.0)),
        ]);
        use Verdict::{Met, NotMeasured, NotMet, NotValid};
        assert_eq!(
            verdicts(&run, "none (Rust)", "cpu 2x"),
            [Met, NotMet, NotMeasured, NotMeasured]
        );
        run.points[1].load.summary.valid = false;
        assert_eq!(verdicts(&run, "none (Rust)", "cpu 2x")[..2], [NotValid, NotValid]);
    }

    #[test]
    fn the_capacity_is_that_of_the_stack() {
        let mut run = sample::run(&[("lock", "none (Rust)", "2x", 400.0, Some(30_000.0))]);
        let verdict = |run: &Run| verdicts(run, "none (Rust)", "lock 2x: goodput")[0];
        assert_eq!(verdict(&run), Verdict::NotMeasured);
        run.capacities.insert("rust/lock".into(), 440.0);
        assert_eq!(verdict(&run), Verdict::Met);
        run.capacities.insert("rust/lock".into(), 450.0);
        assert_eq!(verdict(&run), Verdict::NotMet);
    }

    #[test]
    fn the_best_peer_counts_however_it_is_set() {
        let mut points = vec![
            ("mix-data", "aegis", "1.6x", 1_190.0, None),
            ("mix-data", "none (Go)", "1.6x", 700.0, None),
            ("mix-data", "tower, tuned", "1.6x", 850.0, None),
        ];
        let of = |points: &[_]| verdicts(&sample::run(points), "aegis", "mix-data 1.6x");
        assert_eq!(of(&points), [Verdict::Met, Verdict::Met]);
        points.push(("mix-data", "Envoy, tuned", "1.6x", 851.0, None));
        assert_eq!(of(&points), [Verdict::Met, Verdict::NotMet]);
        points.push(("mix-data", "Envoy", "1.6x", 851.0, None));
        assert_eq!(of(&points), [Verdict::NotMet, Verdict::NotMet]);
    }

    #[test]
    fn one_refusal_at_half_load_is_too_much() {
        let mut run = sample::run(&[("cpu", "tower", "0.5x", 250.0, None)]);
        assert_eq!(verdicts(&run, "tower", "cpu 0.5x"), [Verdict::NotMet]);
        run.points[0].load.summary.total.server_drop_rate = 0.0;
        assert_eq!(verdicts(&run, "tower", "cpu 0.5x"), [Verdict::Met]);
    }

    #[test]
    fn injected_errors_are_not_held_against_anybody() {
        let run = |goodput| sample::run(&[("errors", "tower", "0.5x", goodput, None)]);
        assert_eq!(verdicts(&run(985.0), "tower", "errors"), [Verdict::Met]);
        assert_eq!(verdicts(&run(960.0), "tower", "errors"), [Verdict::NotMet]);
    }
}
