//! A picture in words: is it overloaded, and where.
//!
//! The page has the same in `page/picture.js`; both are held to the cases in `cases.json`.

use serde::Serialize;

use super::buckets::Quantile;
use super::picture::{Picture, Upstream};
use crate::report::format;
use words::{quantile, seconds, seconds_round};

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
            delay_over_target(picture).is_some() || longest_wait(picture).0.seconds >= LONG_WAIT;
        let is_short_of_good = picture.would_refuse_share >= Some(NOTABLE)
            || Upstream::over_slo(&picture.upstreams).is_some()
            || picture.replicas.iter().any(|replica| !replica.is_well);
        let level = match picture.refused_share.max(picture.failed_share) {
            share if share >= NOTABLE || is_behind(picture) => Level::Over,
            share if share > 0.0 || waits_too_long || is_short_of_good => Level::Busy,
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

/// The longest wait, and where it is: nowhere in particular for in front of the handlers. A proxy
/// has nothing there: its queueing delay is that of its gate.
fn longest_wait(picture: &Picture) -> (Quantile, Option<&str>) {
    let front = picture.queueing_delay_s.filter(|_| picture.upstreams.is_empty());
    let front = (Quantile::exact(front.unwrap_or(0.0)), None);
    picture.stages.iter().fold(front, |longest, stage| {
        let wait = stage.wait();
        if wait.seconds > longest.0.seconds { (wait, Some(stage.stage.as_str())) } else { longest }
    })
}

/// What a proxy serves may be too late; what others serve is called goodput.
fn served(picture: &Picture) -> String {
    let rate = format::rate(picture.goodput);
    if picture.upstreams.is_empty() {
        format!("goodput {rate}/s")
    } else {
        format!("{rate}/s served")
    }
}

/// How much would be refused, and where, while that is only observed.
fn would_refuse(picture: &Picture) -> Option<String> {
    let share = picture.would_refuse_share.filter(|share| *share > 0.0)?;
    let rate = |one: Option<f64>| one.unwrap_or(0.0);
    let stages = picture.stages.iter();
    let most =
        stages.reduce(
            |most, one| {
                if rate(one.would_refuse) > rate(most.would_refuse) { one } else { most }
            },
        )?;
    let nearly_all = rate(most.would_refuse) >= NEARLY_ALL * rate(picture.would_refuse);
    let place = if nearly_all { " at" } else { ", most at" };
    Some(format!("would refuse {}{place} {}", format::percent(share), most.stage))
}

/// How slow it is, beside what was wanted: parts of a sentence.
fn latency(picture: &Picture) -> Vec<String> {
    let p99 = picture.p99_s.map(|p99| format!("p99 {}", quantile(p99)));
    let slow = Upstream::over_slo(&picture.upstreams);
    let Some((slow, slo)) = slow.and_then(|one| Some((one, seconds_round(one.slo_s?)))) else {
        return p99.into_iter().collect();
    };
    match (p99, picture.upstreams.len()) {
        (Some(p99), 1) => vec![format!("{p99}, over the SLO of {slo}")],
        (p99, _) => {
            let over = format!("{} over its SLO of {slo}", slow.upstream);
            p99.into_iter().chain([over]).collect()
        }
    }
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
            parts.push(served(picture));
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
    parts.extend(would_refuse(picture));
    parts.extend(latency(picture));
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
    let unwell: Vec<&str> = picture
        .replicas
        .iter()
        .filter(|replica| !replica.is_well)
        .map(|replica| replica.replica.as_str())
        .collect();
    if !unwell.is_empty() {
        parts.push(format!("Not well: {}", unwell.join(", ")));
    }
    match longest_wait(picture) {
        (delay, Some(stage)) => {
            parts.push(format!("Longest wait: {} at {stage}", quantile(delay)));
        }
        (delay, None) if delay.seconds > 0.0 => {
            let target = picture.target_delay_s.filter(|target| *target > 0.0);
            let target = target.map_or_else(String::new, |t| format!(" (target {})", seconds(t)));
            let delay = quantile(delay);
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

    /// A time that was set, or is a bound: without digits that say nothing.
    pub(crate) fn seconds_round(time: f64) -> String {
        format::round(&seconds(time))
    }

    /// A quantile, with a mark where it is only a bound.
    pub(crate) fn quantile(quantile: Quantile) -> String {
        match quantile {
            Quantile { is_beyond: true, seconds: bound, .. } => {
                format!(">{}", seconds_round(bound))
            }
            Quantile { at_most: Some(bound), .. } => format!("≤ {}", seconds_round(bound)),
            Quantile { seconds: exact, .. } => seconds(exact),
        }
    }
}
