//! What came of a load: as text, as JSON, and as what a page shows.

use std::time::Duration;

use anyhow::Result;
use seawall_control::retry::Counts;
use seawall_measure::{Bin, Figures, Settled, Stability, Summary};
use serde::Serialize;

use super::engine::{Offer, Run};
use super::options::Options;
use super::retries::Retries;
use crate::report::run::{Report, Shift};
use crate::report::{format, grid};

/// The result as a machine reads it.
#[derive(Serialize)]
struct Json<'a> {
    algorithm: &'a str,
    sessions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<Retries>,
    #[serde(flatten)]
    summary: &'a Summary,
    /// What the first request that failed was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
    /// The run over time, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bins: Vec<Bin>,
}

/// The summary as JSON, with what ran. Ends with a line break.
pub(super) fn json(run: &Run, with_bins: bool) -> Result<String> {
    let &Run { ref algorithm, sessions, hit_share, retries, ref summary, .. } = run;
    let retries = retries.map(Retries::from);
    let failure = run.first_failure.as_deref();
    let bins = if with_bins { run.series.bins().collect() } else { Vec::new() };
    let json = Json { algorithm, sessions, hit_share, retries, summary, failure, bins };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

const HEAD: [&str; 9] =
    ["class", "offered/s", "goodput/s", "served/s", "p50", "p99", "p99.9", "dropped", "refused"];

/// The result for people. Ends with a line break.
pub(super) fn table(run: &Run) -> String {
    let Run { algorithm, sessions, summary, .. } = run;
    let classes = summary.classes.iter().map(|class| row(&class.name, &class.figures));
    let mut groups = vec![classes.collect()];
    if summary.classes.len() != 1 {
        groups.push(vec![row("all", &summary.total)]);
    }
    let hits = run.hit_share.map_or(String::new(), |share| {
        format!("{} of the lookups found something\n", format::percent(share))
    });
    let retries = run.retries.map_or(String::new(), sent_again);
    format!(
        "{}\n{algorithm}, {sessions} sessions, SLO {}; generator late by {} (p99); \
         {} unanswered, {} failed\n{hits}{retries}\
         dropped: by the clients, unsent; refused: by the servers, of what was sent; \
         >: at least\n",
        grid::render(&HEAD, 1, &groups),
        format::delay(summary.slo_us),
        format::delay_or_nothing(summary.lateness_p99_us),
        summary.total.unanswered,
        summary.total.failed,
    )
}

/// What clients of several servers did, as sentences.
fn sent_again(counts: Counts) -> String {
    let Counts { retries, moves, forbidden, hedges, last_resorts, .. } = counts;
    let mut text = format!(
        "{retries} refused requests went to another server, and {moves} that got no credit in \
         time;\n{forbidden} refused ones did not, for the retry budget\n"
    );
    if hedges > 0 {
        text += &format!("{hedges} requests that were slow were copied to another server\n");
    }
    if last_resorts > 0 {
        text += &format!("{last_resorts} were refused everywhere and sent once more, to wait\n");
    }
    text + &format!(
        "sent again or as copies: {} of the requests\n",
        format::percent(counts.sent_again_share())
    )
}

fn row(name: &str, figures: &Figures) -> [String; HEAD.len()] {
    let quantile = |us, q| format::quantile(us, q, figures.latency_censored);
    [
        name.to_owned(),
        format::rate(figures.offered),
        format::rate(figures.goodput),
        format::rate(figures.throughput),
        quantile(figures.p50_us, 0.5),
        quantile(figures.p99_us, 0.99),
        quantile(figures.p999_us, 0.999),
        format::percent(figures.client_drop_rate),
        format::percent(figures.server_drop_rate),
    ]
}

/// What the reader of the numbers must know before believing them.
pub(super) fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if !run.summary.valid {
        let reason = run.summary.invalid_reason.as_deref().unwrap_or("no reason is known");
        warnings.push(format!("this point is not valid: {reason}"));
    }
    if let Some(failure) = &run.first_failure {
        warnings.push(format!("requests failed, the first one with: {failure}"));
    }
    warnings
}

/// The run as a page shows it.
pub(super) fn report(options: &Options, offer: &Offer, run: &Run) -> Report {
    let series = run.series.config();
    Report {
        algorithm: run.algorithm.clone(),
        sessions: run.sessions,
        hit_share: run.hit_share,
        slo_chosen: offer.slo.is_some(),
        facts: options.facts(),
        warnings: warnings(run),
        summary: run.summary.clone(),
        bins: run.series.bins().collect(),
        bin_s: series.bin.as_secs_f64(),
        measured_from_s: offer.warm_up.as_secs_f64(),
        shifts: shifts(offer, run),
    }
}

/// The changes of the rate during the run.
fn shifts(offer: &Offer, run: &Run) -> Vec<Shift> {
    let length = offer.warm_up + offer.time;
    let times: Vec<Duration> = offer.rates.shifts().take_while(|&at| at < length).collect();
    let shift = |(index, &at): (usize, &Duration)| {
        let until = times.get(index + 1).copied().unwrap_or(length);
        Shift {
            at_s: at.as_secs_f64(),
            from: offer.rates.at(at.saturating_sub(Duration::from_nanos(1))),
            to: offer.rates.at(at),
            settled: settled(run, at, until),
        }
    };
    times.iter().enumerate().map(shift).collect()
}

/// How the service took a shift, judged up to the next one.
fn settled(run: &Run, at: Duration, until: Duration) -> Settled {
    let start = run.series.config().start;
    run.series.stable_between(start + at, start + until, &Stability::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::Instant;
    use seawall_measure::{
        Outcome, Recorder, RecorderConfig, Schedule, Series, SeriesConfig, Window,
    };

    const MS: Duration = Duration::from_millis(1);

    /// A run of two seconds in which 100 requests complete in time in each bin of 20 ms, except
    /// between 1,000 and 1,300 ms.
    fn run() -> Run {
        let (start, slo) = (Instant::from_micros(7), MS);
        let window = Window::after_warm_up(start, Duration::ZERO, 2_000 * MS);
        let mut recorder = Recorder::new(RecorderConfig::new(slo, window)).unwrap();
        let mut series = Series::new(SeriesConfig::new(start, window.end, slo)).unwrap();
        for request in 0..10_000 {
            let at = start + request * MS / 5;
            let slow = (5_000..6_500).contains(&request);
            let done = at + if slow { 2 * MS } else { MS / 2 };
            recorder.record(0, at, done, Outcome::Success);
            series.record(at, done, Outcome::Success);
        }
        Run {
            summary: recorder.summary(),
            start,
            violated: None,
            series,
            latencies: recorder.latencies(),
            algorithm: "breakwater".into(),
            sessions: 3,
            hit_share: Some(0.25),
            first_failure: Some("error 12: no such method".into()),
            retries: None,
        }
    }

    #[test]
    fn shifts_are_judged_up_to_the_next_one() {
        let run = run();
        let judged = |from: u32, until: u32| settled(&run, from * MS, until * MS);
        let Settled::After(after) = judged(1_000, 2_000) else { panic!("it settles in 300 ms") };
        assert!((300 * MS..=320 * MS).contains(&after), "{after:?}");
        assert_eq!(judged(500, 1_500), Settled::After(Duration::ZERO));
        assert_eq!(judged(1_000, 1_600), Settled::Never);
        assert_eq!(judged(500, 900), Settled::TooShort);
    }

    #[test]
    fn the_last_rate_before_a_shift_is_told() {
        let schedule: Schedule = "0s:5k,500ms:2k,1s:8k,9s:1k".parse().unwrap();
        let offer = Offer {
            servers: Vec::new(),
            client: seawall_rpc::ClientConfig::default(),
            web: None,
            workload: crate::load::workload::Workload::Synthetic,
            sessions: 3,
            retries: false,
            threads: 1,
            sleep: false,
            process: seawall_measure::Process::Poisson,
            rates: schedule.rates(None).unwrap(),
            warm_up: 500 * MS,
            time: 1_500 * MS,
            slo: None,
            deadline: None,
            budget: None,
            algorithm: None,
            seed: 1,
            linger: None,
            violation: None,
        };
        let shifts = shifts(&offer, &run());
        let rates: Vec<(f64, f64)> = shifts.iter().map(|shift| (shift.from, shift.to)).collect();
        assert_eq!(rates, [(5e3, 2e3), (2e3, 8e3)], "the last one comes after the run");
    }

    #[test]
    fn json_has_what_ran_beside_the_summary() {
        let json: serde_json::Value = serde_json::from_str(&json(&run(), true).unwrap()).unwrap();
        assert_eq!(json["algorithm"], "breakwater");
        assert_eq!(json["sessions"], 3);
        assert_eq!(json["hit_share"], 0.25);
        assert_eq!(json["offered_count"], 10_000);
        assert_eq!(json["classes"][0]["name"], "all");
        assert_eq!(json["failure"], "error 12: no such method");
        assert_eq!(json["bins"].as_array().unwrap().len(), 100);
    }

    #[test]
    fn failures_are_told() {
        let warnings = warnings(&run());
        assert_eq!(warnings, ["requests failed, the first one with: error 12: no such method"]);
    }
}
