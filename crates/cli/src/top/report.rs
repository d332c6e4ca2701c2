//! A picture as tables and as JSON.

use serde::Serialize;

use crate::live::{Class, Container, Picture, Quantile, Replica, Stage, Upstream, Verdict, words};
use crate::report::format::{self, NOTHING};
use crate::report::grid;

/// The stage at which a proxy lets requests in.
const GATE: &str = "gate";

/// What is told of one interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// What runs there.
    pub(super) about: String,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    #[serde(flatten)]
    pub(super) picture: Picture,
}

/// Columns and rows of one table.
pub(super) struct Grid {
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Report {
    /// Everything as text for people; it ends with a line break.
    pub(super) fn table(&self) -> String {
        let lines = [&self.about, &self.verdict.sentence, &self.verdict.detail];
        let mut text: String = lines
            .into_iter()
            .filter(|line| !line.is_empty())
            .map(|line| line.clone() + "\n")
            .collect();
        let numbers =
            numbers(&self.picture).into_iter().map(|(name, value)| vec![name.into(), value]);
        let mut grids = vec![Grid { head: vec!["now", ""], rows: numbers.collect() }];
        grids.extend(grids_of(&self.picture));
        for Grid { head, rows } in grids {
            text += &format!("\n{}\n", grid::render(&head, 1, &[rows]));
        }
        text
    }
}

/// The numbers that are read at a glance, by name.
pub(super) fn numbers(picture: &Picture) -> Vec<(&'static str, String)> {
    let rate = |rate: f64| format!("{}/s", format::rate(rate));
    let of = |value: Option<f64>, bound: Option<f64>, name: &str, unit: fn(f64) -> String| {
        let bound = bound.filter(|bound| *bound > 0.0);
        let bound = bound.map_or_else(String::new, |bound| format!(" ({name} {})", unit(bound)));
        value.map(|value| unit(value) + &bound)
    };
    let is_proxy = !picture.upstreams.is_empty();
    // What is called so at other places is the gate's at a proxy, and stands there.
    let elsewhere = |text: Option<String>| text.filter(|_| !is_proxy);
    let delay = of(picture.queueing_delay_s, picture.target_delay_s, "target", words::seconds);
    let credits = of(picture.credits_issued, picture.credit_pool, "pool", format::rate);
    let in_flight = of(picture.outstanding, picture.admission_limit, "limit", format::rate);
    let others = [picture.failed, picture.cancelled, picture.spilled]
        .map(|count| (count > 0.0).then(|| rate(count)));
    let [failed, cancelled, spilled] = others;
    let refused = format!("{} ({})", format::percent(picture.refused_share), rate(picture.refused));
    let budget = picture.budget_s.filter(|budget| *budget > 0.0).map(words::seconds);
    let would_refuse = picture.would_refuse_share.zip(picture.would_refuse);
    let would_refuse =
        would_refuse.map(|(share, count)| format!("{} ({})", format::percent(share), rate(count)));
    let gate = picture.stages.iter().find(|stage| is_proxy && stage.stage == GATE);
    let wait = gate.map(|gate| words::quantile(gate.wait()));
    // A proxy has sessions only of clients that speak its protocol.
    let sessions = picture.sessions.filter(|count| !is_proxy || *count > 0.0);
    let units_free = picture.units_free.map(format::rate);
    let is_agent = units_free.is_some();
    let requests = |text: String| (!is_agent).then_some(text);
    let all = [
        ("load", requests(rate(picture.load))),
        (served_name(picture), requests(rate(picture.goodput))),
        ("within SLO", Upstream::within_slo(&picture.upstreams).map(format::percent)),
        ("refused", requests(refused)),
        ("would refuse", would_refuse),
        ("failed", failed),
        ("given up", cancelled),
        ("to replicas", spilled),
        ("p50", picture.p50_s.map(words::quantile)),
        ("p99", picture.p99_s.map(words::quantile)),
        ("queueing delay", elsewhere(delay)),
        ("wait at gate", wait),
        ("delay budget", budget),
        ("limit", is_proxy.then(|| limit(&picture.upstreams))),
        ("in flight", elsewhere(in_flight)),
        ("credits issued", credits),
        ("sessions", sessions.map(format::rate)),
        ("workers busy", picture.workers_busy.map(|busy| format!("{busy:.2}"))),
        ("units free", units_free),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The limits of all gates, and how many requests are there.
fn limit(upstreams: &[Upstream]) -> String {
    let sum = |of: fn(&Upstream) -> f64| {
        format::rate(upstreams.iter().map(of).fold(0.0, |sum, one| sum + one))
    };
    let (limit, inside) = (sum(|one| one.limit), sum(|one| one.in_flight));
    format!("{limit} ({inside} in, {} waiting)", sum(|one| one.waiting))
}

/// What requests are called that were served with a result. A proxy knows that some of them may
/// have been late.
pub(super) fn served_name(picture: &Picture) -> &'static str {
    if picture.upstreams.is_empty() { "goodput" } else { "served" }
}

/// The tables that there is something in: stages, classes, what is behind a proxy, containers.
pub(super) fn grids_of(picture: &Picture) -> Vec<Grid> {
    let classes: Vec<_> = picture.classes.iter().map(class).collect();
    let upstreams: Vec<_> = picture.upstreams.iter().map(upstream).collect();
    let is_one = upstreams.len() < 2;
    let grids = [
        Grid {
            head: vec![
                "stage",
                "refused",
                "of all",
                "would refuse",
                "mostly for",
                "p99 wait",
                "oldest waits",
                "waiting on average",
                "acquired",
            ],
            rows: picture.stages.iter().map(stage).collect(),
        },
        Grid {
            head: vec![
                "class",
                "load",
                served_name(picture),
                "refused",
                "of all",
                "would refuse",
                "p50",
                "p99",
            ],
            // One class is what stands above.
            rows: if classes.len() > 1 { classes } else { Vec::new() },
        },
        Grid {
            head: vec![
                "upstream",
                "served",
                "limit",
                "in",
                "waiting",
                "p99",
                "SLO",
                "within SLO",
                "refuses",
            ],
            // One upstream is what stands above.
            rows: if is_one { Vec::new() } else { upstreams },
        },
        Grid {
            head: vec![
                "replica",
                "upstream",
                "well",
                "in flight",
                "answered",
                "refused",
                "unsent",
                "lost",
                "timed out",
            ],
            rows: picture.replicas.iter().map(|one| replica(one, is_one)).collect(),
        },
        Grid {
            head: vec!["container", "units", "level", "score", "lacks CPU", "shed", "boosts"],
            rows: picture.containers.iter().map(container).collect(),
        },
    ];
    grids.into_iter().filter(|grid| !grid.rows.is_empty()).map(Grid::filled).collect()
}

impl Grid {
    /// Without the columns in which there is nothing.
    fn filled(self) -> Self {
        let is_filled =
            |column: &usize| *column == 0 || self.rows.iter().any(|row| row[*column] != NOTHING);
        let columns: Vec<usize> = (0..self.head.len()).filter(is_filled).collect();
        let row = |row: &Vec<String>| columns.iter().map(|column| row[*column].clone()).collect();
        Self {
            head: columns.iter().map(|column| self.head[*column]).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

fn stage(stage: &Stage) -> Vec<String> {
    vec![
        stage.stage.clone(),
        per_second(stage.refused),
        format::percent(stage.refused_share),
        format::rate_or_nothing(stage.would_refuse),
        stage.reason.clone().unwrap_or_else(|| NOTHING.into()),
        quantile(stage.wait_p99_s),
        stage.delay_s.map_or_else(|| NOTHING.into(), words::seconds),
        stage.waiters.map_or_else(|| NOTHING.into(), format::rate),
        format::rate_or_nothing(stage.acquired),
    ]
}

fn class(class: &Class) -> Vec<String> {
    vec![
        class.class.clone(),
        per_second(class.load),
        per_second(class.goodput),
        per_second(class.refused),
        format::percent(class.refused_share),
        format::rate_or_nothing(class.would_refuse),
        quantile(class.p50_s),
        quantile(class.p99_s),
    ]
}

fn upstream(upstream: &Upstream) -> Vec<String> {
    vec![
        upstream.upstream.clone(),
        per_second(upstream.served),
        format::rate(upstream.limit),
        format::rate(upstream.in_flight),
        format::rate(upstream.waiting),
        quantile(upstream.p99_s),
        upstream.slo_s.map_or_else(|| NOTHING.into(), words::seconds_round),
        upstream.within_slo_share.map_or_else(|| NOTHING.into(), format::percent),
        if upstream.observes { "no, observes" } else { "yes" }.into(),
    ]
}

fn replica(replica: &Replica, is_of_one: bool) -> Vec<String> {
    vec![
        replica.replica.clone(),
        if is_of_one { NOTHING.into() } else { replica.upstream.clone() },
        if replica.is_well { "yes" } else { "no" }.into(),
        format::rate(replica.outstanding),
        format::rate_or_nothing(replica.answered),
        format::rate_or_nothing(replica.refused),
        format::rate_or_nothing(replica.unsent),
        format::rate_or_nothing(replica.lost),
        format::rate_or_nothing(replica.timed_out),
    ]
}

fn container(container: &Container) -> Vec<String> {
    vec![
        container.container.clone(),
        format::rate(container.units),
        format::rate(container.level),
        format::rate(container.score),
        if container.is_unmet { "yes" } else { "no" }.into(),
        per_second(container.shed),
        per_second(container.boosts),
    ]
}

fn per_second(rate: f64) -> String {
    format::rate_or_nothing(Some(rate))
}

fn quantile(quantile: Option<Quantile>) -> String {
    quantile.map_or_else(|| NOTHING.into(), words::quantile)
}
