//! A picture as tables and as JSON.

use serde::Serialize;

use crate::live::{Class, Container, Picture, Quantile, Stage, Verdict, words};
use crate::report::format::{self, NOTHING};
use crate::report::grid;

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
    let delay = of(picture.queueing_delay_s, picture.target_delay_s, "target", words::seconds);
    let credits = of(picture.credits_issued, picture.credit_pool, "pool", format::rate);
    let in_flight = of(picture.outstanding, picture.admission_limit, "limit", format::rate);
    let others = [picture.failed, picture.cancelled, picture.spilled]
        .map(|count| (count > 0.0).then(|| rate(count)));
    let [failed, cancelled, spilled] = others;
    let refused = format!("{} ({})", format::percent(picture.refused_share), rate(picture.refused));
    let budget = picture.budget_s.filter(|budget| *budget > 0.0).map(words::seconds);
    let units_free = picture.units_free.map(format::rate);
    let is_agent = units_free.is_some();
    let requests = |text: String| (!is_agent).then_some(text);
    let all = [
        ("load", requests(rate(picture.load))),
        ("goodput", requests(rate(picture.goodput))),
        ("refused", requests(refused)),
        ("failed", failed),
        ("given up", cancelled),
        ("to replicas", spilled),
        ("p50", picture.p50_s.map(words::quantile)),
        ("p99", picture.p99_s.map(words::quantile)),
        ("queueing delay", delay),
        ("delay budget", budget),
        ("in flight", in_flight),
        ("credits issued", credits),
        ("sessions", picture.sessions.map(format::rate)),
        ("workers busy", picture.workers_busy.map(|busy| format!("{busy:.2}"))),
        ("units free", units_free),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The tables that there is something in: stages, classes, containers.
pub(super) fn grids_of(picture: &Picture) -> Vec<Grid> {
    let classes: Vec<_> = picture.classes.iter().map(class).collect();
    let grids = [
        Grid {
            head: vec![
                "stage",
                "refused",
                "of all",
                "mostly for",
                "p99 wait",
                "oldest waits",
                "waiting",
                "acquired",
            ],
            rows: picture.stages.iter().map(stage).collect(),
        },
        Grid {
            head: vec!["class", "load", "goodput", "refused", "of all", "p50", "p99"],
            // One class is what stands above.
            rows: if classes.len() > 1 { classes } else { Vec::new() },
        },
        Grid {
            head: vec!["container", "units", "level", "score", "lacks CPU", "shed", "boosts"],
            rows: picture.containers.iter().map(container).collect(),
        },
    ];
    grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

fn stage(stage: &Stage) -> Vec<String> {
    vec![
        stage.stage.clone(),
        per_second(stage.refused),
        format::percent(stage.refused_share),
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
        quantile(class.p50_s),
        quantile(class.p99_s),
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
