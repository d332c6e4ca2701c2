//! One container as the agent knows it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use seawall_abi::page;
use seawall_control::scaling::{Container, ContainerId, Counters, Expected, Report};

use super::actuator::{Target, UNLIMITED, Watched};
use super::audit::Measured;
use super::config::{Bounds, Config, Rule};
use super::hierarchy::{Hierarchy, Version};
use super::pages::Pages;
use super::pod::Raised;

/// The first line of `cpu.stat` is shorter, and so is the number of version 1.
const USAGE_MAX: usize = 128;

/// A container that the agent manages.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) id: ContainerId,
    pub(super) name: String,
    pub(super) target: Target,
    /// Device and inode of its group or page: another one may get its name.
    identity: Option<(u64, u64)>,
    pub(super) limits: Limits,
    /// Its limit where no group around it has less.
    pub(super) limit_asked: u32,
    /// What groups around it have, thousandths of a CPU.
    pub(super) ceiling: Option<u32>,
    pub(super) expected: Expected,
    pub(super) depth: u16,
    /// Containers that it calls.
    pub(super) calls: Vec<String>,
    pub(super) thrift: bool,
    /// Where its CPU time is counted.
    usage: Option<(Version, Watched)>,
    /// The pages of its services, with what each has counted last.
    pub(super) pages: BTreeMap<PathBuf, page::Counters>,
    /// What services counted that have ended.
    ended: page::Counters,
    /// What all have counted, as last told to the policy and before that.
    pub(super) counters: [page::Counters; 2],
    pub(super) is_heard: bool,
    /// Thousandths of a CPU that it should have, as far as the agent knows.
    pub(super) amount: u32,
    /// Whether the agent was the last to change that.
    pub(super) is_ours: bool,
    pub(super) units: u32,
    pub(super) level: u16,
    /// Whether that has been read: after that, a service's level is what the agent last said.
    pub(super) is_level_known: bool,
    pub(super) hint: u16,
    /// How often others changed what the agent had set.
    pub(super) contests: u32,
    /// The group around it that has less than its limit.
    pub(super) bound_by: Option<PathBuf>,
    /// Its pod's group, if that was raised for it.
    pub(super) pod: Option<Raised>,
    /// Whether what it has could be read in this pass: of others nothing is decided.
    pub(super) is_seen: bool,
    /// What went wrong with it last: the same is told once.
    pub(super) told: Option<String>,
    pub(super) score: u32,
    pub(super) is_unmet: bool,
    /// More CPU may come until then, monotonic nanoseconds.
    pub(super) growing_until_ns: u64,
}

/// Floor and limit in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) floor: u32,
    pub(super) limit: u32,
}

/// What the configuration says of a container.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) bounds: Bounds,
    pub(super) expected: Expected,
    pub(super) depth: u16,
    pub(super) calls: Vec<String>,
    pub(super) thrift: bool,
}

impl Known {
    pub(super) fn of(config: &Config, rule: Option<&Rule>) -> Self {
        let defaults = config.defaults;
        let Some(rule) = rule else { return Self { bounds: defaults, ..Self::default() } };
        Self {
            bounds: Bounds {
                floor_milli: rule.floor_milli.or(defaults.floor_milli),
                limit_milli: rule.limit_milli.or(defaults.limit_milli),
                initial_milli: rule.initial_milli.or(defaults.initial_milli),
            },
            expected: Expected {
                exec: rule.expected_exec,
                time_from_start: rule.expected_time_from_start,
            },
            depth: rule.depth,
            calls: rule.calls.clone(),
            thrift: rule.thrift,
        }
    }
}

impl Limits {
    /// In units of `unit` thousandths, of a container that has `amount`, of a machine that has
    /// `total` units; `least` is what the actuator can give.
    pub(super) fn new(bounds: &Bounds, amount: u32, unit: u32, total: u32, least: u32) -> Self {
        let least = least.div_ceil(unit).max(1);
        let floor =
            bounds.floor_milli.map_or_else(|| units(amount, unit), |has| has.div_ceil(unit));
        let floor = floor.max(least);
        let limit = bounds.limit_milli.map_or(total, |limit| limit / unit);
        Self { floor, limit: limit.max(floor) }
    }

    pub(super) fn clamp(self, units: u32) -> u32 {
        units.clamp(self.floor, self.limit)
    }
}

/// The units nearest to an amount.
pub(super) fn units(amount: u32, unit: u32) -> u32 {
    if amount == UNLIMITED {
        return UNLIMITED;
    }
    ((u64::from(amount) + u64::from(unit / 2)) / u64::from(unit)).max(1) as u32
}

impl Tracked {
    pub(super) fn new(
        id: ContainerId,
        target: Target,
        known: &Known,
        limits: Limits,
        amount: u32,
        unit: u32,
    ) -> Self {
        Self {
            id,
            name: target.name.clone(),
            identity: identity(&target),
            target,
            limits,
            limit_asked: limits.limit,
            ceiling: None,
            expected: known.expected,
            depth: known.depth,
            calls: known.calls.clone(),
            thrift: known.thrift,
            usage: None,
            pages: BTreeMap::new(),
            ended: page::Counters::default(),
            counters: [page::Counters::default(); 2],
            is_heard: false,
            amount,
            is_ours: false,
            units: units(amount, unit),
            level: 0,
            is_level_known: false,
            hint: 0,
            contests: 0,
            bound_by: None,
            pod: None,
            is_seen: true,
            told: None,
            score: 0,
            is_unmet: false,
            growing_until_ns: 0,
        }
    }

    /// Whether its group or page is still the one that was found: a service that is started anew
    /// may have another of the same name.
    pub(super) fn is_same(&self) -> bool {
        identity(&self.target) == self.identity
    }

    /// It gets no more than groups around it have, as long as these have no more.
    pub(super) fn bind(&mut self, ceiling: Option<(u32, PathBuf)>, unit: u32) {
        let most = ceiling.as_ref().map_or(u32::MAX, |(milli, _)| milli / unit);
        self.limits.limit = self.limit_asked.min(most.max(self.limits.floor));
        match ceiling.filter(|_| most < self.limit_asked) {
            Some((milli, group)) => {
                if self.bound_by.is_none() {
                    tracing::warn!(
                        container = %self.name,
                        group = %group.display(),
                        milli,
                        "a group around it has less than it might get"
                    );
                }
                self.bound_by = Some(group);
            }
            None => {
                if self.bound_by.take().is_some() {
                    tracing::info!(container = %self.name, "groups around it have enough again");
                }
            }
        }
    }

    /// Counts its CPU time in its group of this hierarchy, if it has one there.
    pub(super) fn count_usage(&mut self, hierarchy: &Hierarchy, group: &str) {
        let folder = hierarchy.folder(group);
        let file = match hierarchy.version {
            Version::V1 => folder.join("cpuacct.usage"),
            Version::V2 => folder.join("cpu.stat"),
        };
        self.usage = Watched::open(&file).ok().map(|file| (hierarchy.version, file));
    }

    fn cpu_time(&self) -> Option<Duration> {
        let (version, file) = self.usage.as_ref()?;
        let mut room = [0; USAGE_MAX];
        let text = file.read(&mut room).ok()?;
        match version {
            Version::V1 => text.parse().ok().map(Duration::from_nanos),
            Version::V2 => {
                let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                used.trim().parse().ok().map(Duration::from_micros)
            }
        }
    }

    /// Pages that are its own from now on. What those had counted that have gone still counts.
    pub(super) fn join(&mut self, pages: impl IntoIterator<Item = PathBuf>) {
        let mut before = std::mem::take(&mut self.pages);
        for path in pages {
            let counted = before.remove(&path).unwrap_or_default();
            self.pages.insert(path, counted);
        }
        for counted in before.into_values() {
            self.ended = sum(self.ended, standing(counted));
        }
    }

    /// What it is now, in the words of policies.
    pub(super) fn fact(&mut self, pages: &Pages, now_ns: u64) -> Container {
        self.is_heard = false;
        let mut total = self.ended;
        let mut modelled = None;
        let is_alone = self.pages.len() == 1;
        for (path, counted) in &mut self.pages {
            if let Some((counters, occupied)) = pages.counters(path, now_ns) {
                *counted = counters;
                self.is_heard = true;
                modelled = Some(occupied).filter(|used| is_alone && !used.is_zero());
                total = sum(total, counters);
            } else {
                // What it had in it when it fell silent is not known to be there still: a wait that
                // nobody ends would seem longer and longer.
                total = sum(total, standing(*counted));
            }
        }
        self.counters = [self.counters[1], total];
        Container {
            id: self.id,
            units: self.units,
            floor: self.limits.floor,
            limit: self.limits.limit,
            level: self.level,
            hint: self.hint,
            depth: self.depth,
            // Where no group counts it, the service that models its cores does.
            cpu_time: self.cpu_time().or(modelled),
            expected: self.expected,
            report: if self.is_heard {
                Report::Counters(facts(total, now_ns))
            } else {
                Report::None
            },
        }
    }

    /// What its requests were like since the pass before.
    pub(super) fn measured(&self) -> Option<Measured> {
        let [before, now] = self.counters;
        let grown = |of: fn(&page::Counters) -> u64| of(&now).saturating_sub(of(&before));
        let requests = grown(|counters| counters.requests);
        let started = grown(|counters| counters.started);
        let mean_us = |ns: u64, of: u64| if of == 0 { 0.0 } else { ns as f64 / of as f64 / 1e3 };
        let (exec_ns, pool_ns) =
            (grown(|counters| counters.exec_ns), grown(|counters| counters.pool_wait_ns));
        self.is_heard.then(|| Measured {
            requests,
            in_flight: now.in_flight,
            exec_metric_us: mean_us(exec_ns.saturating_sub(pool_ns), requests),
            exec_time_us: mean_us(exec_ns, requests),
            time_from_start_us: mean_us(grown(|it| it.time_from_start_ns), started),
            hinted: grown(|counters| counters.hinted),
            shed: grown(|counters| counters.shed),
        })
    }
}

fn identity(target: &Target) -> Option<(u64, u64)> {
    let path = target.cpu.as_ref().or(target.cpuset.as_ref()).or(target.page.as_ref())?;
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// What stays of the counters of a service that has ended, or says nothing any more.
fn standing(counted: page::Counters) -> page::Counters {
    page::Counters { in_flight: 0, waiting: 0, waiting_since_ns: 0, ..counted }
}

fn facts(counters: page::Counters, now_ns: u64) -> Counters {
    Counters {
        requests: counters.requests,
        in_flight: counters.in_flight,
        exec_ns: counters.exec_ns,
        pool_wait_ns: counters.pool_wait_ns,
        started: counters.started,
        time_from_start_ns: counters.time_from_start_ns,
        upstream_exec_ns: counters.upstream_exec_ns,
        hinted: counters.hinted,
        shed: counters.shed,
        waiting: counters.waiting,
        waiting_ns: counters.waiting_ns(now_ns),
    }
}

/// Counters come from services, which may say anything: they wrap as those do.
fn sum(a: page::Counters, b: page::Counters) -> page::Counters {
    page::Counters {
        requests: a.requests.wrapping_add(b.requests),
        in_flight: a.in_flight.saturating_add(b.in_flight),
        exec_ns: a.exec_ns.wrapping_add(b.exec_ns),
        pool_wait_ns: a.pool_wait_ns.wrapping_add(b.pool_wait_ns),
        started: a.started.wrapping_add(b.started),
        time_from_start_ns: a.time_from_start_ns.wrapping_add(b.time_from_start_ns),
        upstream_exec_ns: a.upstream_exec_ns.wrapping_add(b.upstream_exec_ns),
        hinted: a.hinted.wrapping_add(b.hinted),
        shed: a.shed.wrapping_add(b.shed),
        unserved: a.unserved.wrapping_add(b.unserved),
        waiting: a.waiting.saturating_add(b.waiting),
        waiting_since_ns: a.waiting_since_ns.wrapping_add(b.waiting_since_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(bounds: Bounds, amount: u32) -> Limits {
        Limits::new(&bounds, amount, 100, 40, 10)
    }

    #[test]
    fn bounds_in_units() {
        assert_eq!(limits(Bounds::default(), 500), Limits { floor: 5, limit: 40 });
        let bounds = Bounds { floor_milli: Some(150), limit_milli: Some(990), initial_milli: None };
        assert_eq!(limits(bounds, 500), Limits { floor: 2, limit: 9 });
        // A limit below the floor would be no limit.
        let low = Bounds { limit_milli: Some(50), ..Bounds::default() };
        assert_eq!(limits(low, 300), Limits { floor: 3, limit: 3 });
        // The kernel gives no less.
        let least = Limits::new(&Bounds { floor_milli: Some(1), ..bounds }, 500, 100, 40, 1_000);
        assert_eq!(least.floor, 10);
    }

    #[test]
    fn units_are_the_nearest() {
        let cases = [(1, 1), (149, 1), (150, 2), (1_000, 10), (UNLIMITED, UNLIMITED)];
        for (amount, expected) in cases {
            assert_eq!(units(amount, 100), expected, "{amount}");
        }
    }

    #[test]
    fn what_ended_services_counted_still_counts() {
        let known = Known::default();
        let limits = limits(Bounds::default(), 500);
        let mut tracked = Tracked::new(ContainerId(1), Target::default(), &known, limits, 500, 100);
        let (a, b) = (PathBuf::from("a"), PathBuf::from("b"));
        tracked.join([a.clone(), b.clone()]);
        tracked.pages.get_mut(&a).unwrap().requests = 7;
        tracked.pages.get_mut(&b).unwrap().requests = 5;
        tracked.join([b.clone()]);
        assert_eq!((tracked.ended.requests, tracked.pages[&b].requests), (7, 5));
        tracked.join([]);
        assert_eq!(tracked.ended.requests, 12);
    }
}
