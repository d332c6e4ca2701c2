//! A picture in words: is it overloaded, and where.
//!
//! The page has the same in `page/picture.js`; both are held to the cases in `cases.json`.

use serde::Serialize;

use super::picture::Picture;
use crate::report::format;
use words::{quantile, seconds};

/// A share of requests from which on a process that refuses or fails them is said to be overloaded
/// or broken, rather than to have hiccups.
const NOTABLE: f64 = 0.01;

/// A process falls behind when this share more arrives than ends, and by more than chance would
/// have it: arrivals that are independent scatter by the square root of their number.
const BEHIND: f64 = 0.05;
const BEHIND_DEVIATIONS: f64 = 4.0;

/// Waits of this many seconds are worth a word, whatever the target.
const LONG_WAIT: f64 = 1.0;

/// Above this share one stage is said to refuse all.
const NEARLY_ALL: f64 = 0.9;

/// How many stages are named with what they refuse.
const STAGES_NAMED: usize = 3;

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing is asked of it.
    Idle,
    /// It serves what comes.
    Good,
    /// It queues more than it wants to, or refuses a little.
    Busy,
    /// It refuses, or fails, a notable part.
    Over,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) level: Level,
    /// One sentence.
    pub(crate) sentence: String,
    /// Where the bottleneck is; empty where there is nothing to say.
    pub(crate) detail: String,
}

impl Verdict {
    pub(crate) fn of(picture: &Picture) -> Self {
        if !picture.containers.is_empty() || picture.units_free.is_some() {
            return agent(picture);
        }
        let is_idle = [picture.load, picture.goodput, picture.refused].iter().all(|n| *n == 0.0);
        let waits_too_long =
            delay_over_target(picture).is_some() || longest_wait(picture).0 >= LONG_WAIT;
        let level = match picture.refused_share.max(picture.failed_share) {
            share if share >= NOTABLE || is_behind(picture) => Level::Over,
            share if share > 0.0 || waits_too_long => Level::Busy,
            _ if is_idle => Level::Idle,
            _ => Level::Good,
        };
        Self { level, sentence: sentence(picture, is_idle), detail: detail(picture) }
    }
}

/// The queueing delay and the target that it is over, if it is.
fn delay_over_target(picture: &Picture) -> Option<(f64, f64)> {
    let (delay, target) = picture.queueing_delay_s.zip(picture.target_delay_s)?;
    (target > 0.0 && delay > target).then_some((delay, target))
}

fn is_behind(picture: &Picture) -> bool {
    let &Picture { load, goodput, refused, failed, cancelled, seconds, .. } = picture;
    let more = load - goodput - refused - failed - cancelled;
    more > BEHIND * load && more * seconds > BEHIND_DEVIATIONS * (load * seconds).sqrt()
}

/// The longest wait, and where it is: nowhere in particular for in front of the handlers.
fn longest_wait(picture: &Picture) -> (f64, Option<&str>) {
    let front = (picture.queueing_delay_s.unwrap_or(0.0), None);
    picture.stages.iter().fold(front, |longest, stage| {
        let wait = stage.wait_s();
        if wait > longest.0 { (wait, Some(stage.stage.as_str())) } else { longest }
    })
}

fn sentence(picture: &Picture, is_idle: bool) -> String {
    let goodput = format::rate(picture.goodput);
    let refuses = picture.refused_share > 0.0;
    let mut parts = Vec::new();
    match picture.stages.first() {
        Some(stage) if refuses => {
            let nearly_all = stage.refused >= NEARLY_ALL * picture.refused;
            let place = if nearly_all { " at" } else { ", most at" };
            let share = format::percent(picture.refused_share);
            parts.push(format!("Refusing {share}{place} {}", stage.stage));
            parts.push(format!("goodput {goodput}/s"));
        }
        _ if is_idle => parts.push("Idle: no requests".to_owned()),
        _ if is_behind(picture) => {
            let load = format::rate(picture.load);
            parts.push(format!("Falling behind: {load}/s arrive, {goodput}/s are served"));
        }
        _ => match delay_over_target(picture) {
            Some((delay, target)) => parts.push(format!(
                "Serving {goodput}/s with a queue of {}, over the target of {}",
                seconds(delay),
                seconds(target),
            )),
            None => parts.push(format!("Serving {goodput}/s")),
        },
    }
    if let Some(p99) = picture.p99_s {
        parts.push(format!("p99 {}", quantile(p99)));
    }
    if picture.failed_share > 0.0 {
        parts.push(format!("{} fail", format::percent(picture.failed_share)));
    }
    if !refuses && !is_idle {
        parts.push("nothing refused".to_owned());
    }
    parts.join("; ")
}

/// Who refuses how much, and where the longest wait is.
fn detail(picture: &Picture) -> String {
    let mut parts = Vec::new();
    let refusing: Vec<String> = picture
        .stages
        .iter()
        .filter(|stage| stage.refused > 0.0)
        .take(STAGES_NAMED)
        .map(|stage| format!("{} {}", stage.stage, format::percent(stage.refused_share)))
        .collect();
    if refusing.len() > 1 {
        parts.push(format!("Refused by stage: {}", refusing.join(", ")));
    }
    match longest_wait(picture) {
        (delay, Some(stage)) => {
            parts.push(format!("Longest wait: {} at {stage}", seconds(delay)));
        }
        (delay, None) if delay > 0.0 => {
            let target = picture.target_delay_s.filter(|target| *target > 0.0);
            let target = target.map_or_else(String::new, |t| format!(" (target {})", seconds(t)));
            let delay = seconds(delay);
            parts.push(format!("Longest wait: {delay} in front of the handlers{target}"));
        }
        _ => {}
    }
    parts.join(". ")
}

/// What a node agent has to say.
fn agent(picture: &Picture) -> Verdict {
    let containers = &picture.containers;
    let units: f64 = containers.iter().map(|container| container.units).sum();
    let free = picture.units_free.unwrap_or(0.0);
    let count = match containers.len() {
        1 => "1 container has".to_owned(),
        many => format!("{many} containers have"),
    };
    let (units, free) = (format::rate(units), format::rate(free));
    let sentence = format!("{count} {units} units of CPU; {free} are free");
    let unmet: Vec<&str> =
        containers.iter().filter(|one| one.is_unmet).map(|one| one.container.as_str()).collect();
    let wanting = containers.iter().filter(|one| one.score > 0.0 && !one.is_unmet).count();
    let (level, detail) = match (unmet.is_empty(), wanting) {
        (false, _) => (Level::Over, format!("Without CPU that they need: {}", unmet.join(", "))),
        (true, 0) => (Level::Good, String::new()),
        (true, _) => (Level::Busy, format!("Candidates for more CPU: {wanting}")),
    };
    Verdict { level, sentence, detail }
}

/// Times as they are written here.
pub(crate) mod words {
    use crate::live::Quantile;
    use crate::report::format;

    /// A time in seconds.
    pub(crate) fn seconds(seconds: f64) -> String {
        format::delay(seconds * 1e6)
    }

    /// A quantile, with a mark where it is only a lower bound.
    pub(crate) fn quantile(quantile: Quantile) -> String {
        let mark = if quantile.is_beyond { ">" } else { "" };
        format!("{mark}{}", seconds(quantile.seconds))
    }
}
