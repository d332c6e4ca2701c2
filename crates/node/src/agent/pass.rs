//! The agent: looks at all containers, lets a policy decide, and carries that out.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::scaling::{Change, ContainerId, Decision, Node, Outcome, Snapshot};

use super::actuator::{Actuator, ActuatorError, Cpufreq, Saved, VirtualSpeed};
use super::audit::{Audit, Entry};
use super::begin::{CannotBegin, cpu_actuator, units_total};
use super::config::{Config, CpuActuator, FrequencyActuator};
use super::containers::Tracked;
use super::crash::{self, Step};
use super::decide::Decide;
use super::discover::Finder;
use super::hierarchy::Hierarchies;
use super::learned::{EVERY_NS, Learned, remembered};
use super::look::trouble;
use super::pages::Pages;
use super::responder::Response;
use super::state::{Restored, State};
use super::status::{ContainerStatus, Status};

/// A page whose service has not said for so long that it lives is not believed.
const SILENCE: Duration = Duration::from_secs(2);

/// Intervals for which services may count on more CPU after a container got some, or is waiting for
/// its turn: the time in which the next decision comes, with one to spare.
const GROWING_INTERVALS: u32 = 3;

/// Heartbeats in a lease: one may come late.
const BEATS_IN_LEASE: u32 = 4;

/// Where the state keeps what is the whole machine's.
const MACHINE: &str = "machine";

/// The agent of a node.
///
/// It does nothing by itself: call [`pass`](Self::pass) once in an interval.
#[derive(Debug)]
pub struct Agent {
    pub(super) config: Config,
    pub(super) interval: Duration,
    pub(super) units_total: u32,
    pub(super) hierarchies: Option<Hierarchies>,
    pub(super) finder: Option<Finder>,
    pub(super) pages: Pages,
    pub(super) cpu: Box<dyn Actuator>,
    pub(super) frequency: Option<Box<dyn Actuator>>,
    pub(super) levels: u16,
    pub(super) policy: Box<dyn Decide>,
    /// None in a dry run.
    pub(super) learned: Option<Learned>,
    /// Who boosts: none in a dry run.
    pub(super) response: Option<Response>,
    pub(super) containers: BTreeMap<String, Tracked>,
    pub(super) next_id: u64,
    /// None in a dry run, which changes nothing.
    pub(super) state: Option<State>,
    audit: Audit,
    /// Written to the audit log at the end of the pass.
    pub(super) entries: Vec<Entry>,
    pub(super) status: Status,
    /// When containers were last looked for.
    pub(super) scanned: Option<u64>,
    /// Containers that are left alone, with why: told once.
    pub(super) strangers: BTreeMap<String, String>,
}

impl Agent {
    /// An agent that a policy tells what to do. Without a `state` it is a dry run: everything is
    /// decided and logged, and nothing is changed.
    ///
    /// # Errors
    ///
    /// If this machine lacks what the configuration, which is valid, asks for.
    pub fn new(
        config: Config,
        policy: Box<dyn Decide>,
        interval: Duration,
        mut state: Option<State>,
    ) -> Result<Self, CannotBegin> {
        let is_virtual = config.actuator.cpu == CpuActuator::Virtual;
        let hierarchies = match Hierarchies::detect(&config.root) {
            Err(_) if is_virtual => None,
            found => Some(found?),
        };
        let cpu = cpu_actuator(&config, hierarchies.as_ref())?;
        let mut levels = 1;
        let frequency: Option<Box<dyn Actuator>> = match config.actuator.frequency {
            FrequencyActuator::None => None,
            FrequencyActuator::Virtual => {
                levels = config.actuator.speeds_permille.len() as u16;
                Some(Box::new(VirtualSpeed::new(&config.actuator.speeds_permille)))
            }
            FrequencyActuator::Cpufreq => {
                let cpufreq = Cpufreq::open(&config.root)?;
                levels = cpufreq.levels();
                if let Some(state) = &mut state {
                    state.save([(MACHINE.to_owned(), vec![cpufreq.save_all()?])])?;
                }
                Some(Box::new(cpufreq))
            }
        };
        let finder = hierarchies
            .as_ref()
            .filter(|_| !is_virtual)
            .map(|found| Finder::new(&config, found.cpu.clone()));
        let log = config.audit.file.clone();
        let log = log.unwrap_or_else(|| config.state.join("audit.jsonl"));
        let mut status = Status::default();
        let learned = state.is_some().then(|| remembered(&config.state, &mut status));
        Ok(Self {
            audit: Audit::new(&log, config.audit.file_bytes_max, config.audit.files_max),
            // A dry run leaves everything as it is.
            pages: match Pages::new(&config.pages, &config.root, SILENCE) {
                pages if state.is_some() => pages.tidied(),
                pages => pages,
            },
            units_total: units_total(&config),
            config,
            interval,
            hierarchies,
            finder,
            cpu,
            frequency,
            levels,
            policy,
            learned,
            response: None,
            containers: BTreeMap::new(),
            next_id: 0,
            state,
            entries: Vec::new(),
            status,
            scanned: None,
            strangers: BTreeMap::new(),
        })
    }

    /// One look at everything, and what follows from it. `now_ns` is the monotonic clock, which
    /// pages speak in too; `time` is seconds since 1970, for people.
    pub fn pass(&mut self, now_ns: u64, time: f64) {
        let every = self.config.discovery.every.as_nanos() as u64;
        if self.scanned.is_none_or(|scanned| now_ns.saturating_sub(scanned) >= every) {
            self.scanned = Some(now_ns);
            self.scan(time);
        }
        self.read_back(time);
        let levels = self.levels;
        let level_base = self.config.actuator.level_base.min(levels - 1);
        let node = Node {
            units: self.units_total,
            unit_milli: self.config.unit_milli,
            levels,
            level_base,
        };
        let pages = &self.pages;
        let containers = self.containers.values_mut().filter(|tracked| tracked.is_seen);
        let snapshot = Snapshot {
            node,
            containers: containers.map(|tracked| tracked.fact(pages, now_ns)).collect(),
        };
        let outcome = self.policy.decide(Instant::from_nanos(now_ns), &snapshot);
        self.carry_out(&outcome, now_ns, time);
        self.order(now_ns);
        self.tend_responder(now_ns, time);
        self.report();
        let entries = std::mem::take(&mut self.entries);
        if let Err(error) = self.log(&entries) {
            self.status.error("audit");
            tracing::warn!(%error, path = %self.audit.path().display(), "decisions are not logged");
        }
        let is_due = |learned: &Learned| {
            learned.written_ns.is_none_or(|last| now_ns.saturating_sub(last) >= EVERY_NS)
        };
        if self.learned.as_ref().is_some_and(is_due) {
            self.remember();
            self.learned.iter_mut().for_each(|learned| learned.written_ns = Some(now_ns));
        }
        self.status.passes += 1;
    }

    /// Says between passes that the agent lives: where these are far apart, orders would lapse.
    pub fn beat(&mut self, now_ns: u64) {
        if self.state.is_none() {
            return;
        }
        let beaten = self.containers.values().flat_map(|tracked| tracked.pages.keys());
        for page in beaten.filter_map(|path| self.pages.page(path)) {
            if let Err(error) = page.beat(now_ns) {
                self.status.error("page");
                tracing::debug!(%error, "cannot renew orders");
            }
        }
    }

    /// How often [`beat`](Self::beat) is to be called where passes are farther apart.
    pub fn beat_every(&self) -> Duration {
        self.config.lease / BEATS_IN_LEASE
    }

    /// Puts everything back, and ends all orders.
    pub fn close(&mut self) -> Restored {
        self.end_responder();
        self.remember();
        for (_, page) in self.pages.iter().filter(|_| self.state.is_some()) {
            let ended = page.order(|orders| {
                orders.heartbeat_ns = 0;
                orders.hint = 0;
                orders.growing_until_ns = 0;
            });
            if let Err(error) = ended {
                tracing::debug!(%error, "a page's orders stand until their lease ends");
            }
        }
        // What is under way must not come after what is put back.
        self.cpu.stop();
        self.state.as_mut().map(State::restore).unwrap_or_default()
    }

    /// What was counted, and how things stand.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The same for who drives the agent, and knows how late passes are.
    pub fn status_mut(&mut self) -> &mut Status {
        &mut self.status
    }

    /// Containers that were found and are not managed, with why.
    pub fn left_alone(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strangers.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    pub(super) fn log(&mut self, entries: &[Entry]) -> std::io::Result<()> {
        self.audit.write(entries)
    }

    /// Where decisions are logged.
    pub fn audit_path(&self) -> &Path {
        self.audit.path()
    }

    /// Takes before it gives, whatever the policy's order.
    fn carry_out(&mut self, outcome: &Outcome, now_ns: u64, time: f64) {
        for tracked in self.containers.values_mut() {
            (tracked.score, tracked.is_unmet) = (0, false);
        }
        let growing = now_ns + self.promise().as_nanos() as u64;
        let keys: BTreeMap<ContainerId, String> =
            self.containers.iter().map(|(key, tracked)| (tracked.id, key.clone())).collect();
        for candidate in &outcome.candidates {
            let tracked = keys.get(&candidate.container);
            if let Some(tracked) = tracked.and_then(|key| self.containers.get_mut(key)) {
                (tracked.score, tracked.is_unmet) = (candidate.score, candidate.is_unmet);
                tracked.growing_until_ns = 0;
            }
        }
        let is_give = |decision: &&Decision| match decision.change {
            Change::Units { from, to } => to > from,
            Change::Level { from, to } => to > from,
            Change::Hint { .. } => false,
        };
        let (gives, takes): (Vec<_>, Vec<_>) = outcome.decisions.iter().partition(is_give);
        let mut gone = Vec::new();
        let takes_count = takes.len();
        for (place, decision) in takes.into_iter().chain(gives).enumerate() {
            if place == takes_count {
                crash::point(Step::BetweenTakeAndGive);
            }
            let Some(key) = keys.get(&decision.container) else {
                self.status.overruled += 1;
                continue;
            };
            if let Err(ActuatorError::Gone) = self.carry_out_one(key, decision, growing, time) {
                gone.push(key.clone());
            }
        }
        if outcome.decisions.len() > takes_count {
            crash::point(Step::AfterGive);
        }
        self.status.gone += gone.len() as u64;
        self.drop_containers(&gone);
        self.promise_growth(outcome, &keys, growing);
    }

    /// How long services may count on more CPU: no longer than until the next decisions, and no
    /// longer than they would obey an agent that has died.
    fn promise(&self) -> Duration {
        (self.interval * GROWING_INTERVALS).min(self.config.lease)
    }

    /// Containers that wait for their turn may count on more only if there is something to give:
    /// a service that waits for CPU which cannot come had better refuse.
    fn promise_growth(
        &mut self,
        outcome: &Outcome,
        keys: &BTreeMap<ContainerId, String>,
        growing: u64,
    ) {
        if self.units_free() == 0 {
            return;
        }
        for candidate in outcome.candidates.iter().filter(|candidate| candidate.can_grow) {
            let key = keys.get(&candidate.container);
            if let Some(tracked) = key.and_then(|key| self.containers.get_mut(key))
                && tracked.units < tracked.limits.limit
            {
                tracked.growing_until_ns = growing;
            }
        }
    }

    /// Units that nobody has.
    pub(super) fn units_free(&self) -> u32 {
        let has = self.containers.values().fold(0_u32, |sum, one| sum.saturating_add(one.units));
        self.units_total.saturating_sub(has)
    }

    fn carry_out_one(
        &mut self,
        key: &str,
        decision: &Decision,
        growing: u64,
        time: f64,
    ) -> Result<(), ActuatorError> {
        let others: u32 = self
            .containers
            .iter()
            .filter(|(other, _)| *other != key)
            .fold(0, |sum, (_, tracked)| sum.saturating_add(tracked.units));
        let room = self.units_total.saturating_sub(others);
        let Some(tracked) = self.containers.get_mut(key) else { return Ok(()) };
        let is_dry = self.state.is_none();
        let (reason, mut change) = (decision.reason.to_string(), decision.change.to_string());
        let (what, result) = match decision.change {
            Change::Units { to, .. } => {
                let from = tracked.units;
                // Floor and limit hold whatever a policy says, and nobody gets what there is not.
                let mut allowed = tracked.limits.clamp(to);
                if allowed > from {
                    allowed = allowed.min(room.max(from));
                }
                if allowed != to {
                    self.status.overruled += 1;
                    change = format!("{change}, cut to {allowed}");
                }
                let amount = allowed.saturating_mul(self.config.unit_milli);
                let result = if allowed == from {
                    Ok(())
                } else {
                    give(&mut *self.cpu, tracked, amount, is_dry)
                };
                if result.is_ok() && allowed != from {
                    tracked.units = allowed;
                    let is_raise = allowed > from;
                    tracked.growing_until_ns = if is_raise { growing } else { 0 };
                    // A CPU that has just been given has the speed of its last owner.
                    let level = u32::from(tracked.level);
                    if let Some(frequency) = self.frequency.as_mut().filter(|_| !is_dry)
                        && let Err(error) = frequency.apply(&tracked.target, level)
                    {
                        trouble(&mut self.status, tracked, &error);
                    }
                }
                ("units", result)
            }
            Change::Level { to, .. } => {
                let level = to.min(self.levels - 1);
                let applied = match &mut self.frequency {
                    Some(frequency) if !is_dry => frequency.apply(&tracked.target, level.into()),
                    _ => Ok(()),
                };
                if applied.is_ok() {
                    tracked.level = level;
                }
                ("level", applied)
            }
            Change::Hint { to, .. } => {
                tracked.hint = to;
                ("hint", Ok(()))
            }
        };
        let told = match &result {
            Ok(()) if is_dry => "dry run".to_owned(),
            Ok(()) if what == "units" && self.cpu.is_deferred() => "asked".to_owned(),
            Ok(()) => "applied".to_owned(),
            Err(error) => error.to_string(),
        };
        // A policy may insist on what fails, thousands of times a second.
        if result.is_ok() || tracked.told.as_ref() != Some(&told) {
            tracing::info!(container = %tracked.name, %change, %reason, result = %told, "decided");
            self.entries.push(entry(time, tracked, change, &reason, &told));
        }
        match result {
            Ok(()) => {
                self.status.decision(what, &reason);
                Ok(())
            }
            Err(ActuatorError::Bound { has, ref group, .. }) => {
                // Until containers are looked for again, it gets no more than that.
                self.status.error("bound");
                tracked.bind(Some((has, group.clone())), self.config.unit_milli);
                Ok(())
            }
            Err(ActuatorError::Gone) => Err(ActuatorError::Gone),
            Err(error) => {
                trouble(&mut self.status, tracked, &error);
                Ok(())
            }
        }
    }

    /// Tells services what was decided, and that the agent lives.
    fn order(&mut self, now_ns: u64) {
        if self.state.is_none() {
            return;
        }
        let is_virtual = self.config.actuator.frequency == FrequencyActuator::Virtual;
        let speeds = &self.config.actuator.speeds_permille;
        let lease_ns = self.config.lease.as_nanos() as u64;
        let (freeze_ns, boost_permille) = self.boost_orders();
        for tracked in self.containers.values() {
            let expected = self.expected(tracked).time_from_start;
            let expected = expected.map_or(0, |expected| expected.as_nanos() as u64);
            for path in tracked.pages.keys() {
                let Some(page) = self.pages.page(path) else { continue };
                let ordered = page.order(|orders| {
                    orders.heartbeat_ns = now_ns;
                    orders.lease_ns = lease_ns;
                    orders.hint = tracked.hint;
                    orders.growing_until_ns = tracked.growing_until_ns;
                    orders.expected_time_from_start_ns = expected;
                    orders.freeze_ns = freeze_ns;
                    orders.boost_permille = boost_permille;
                    // The page is its owner's to write: what it holds is no reason to leave it.
                    orders.granted_milli = tracked.amount;
                    if let Some(speed) = speeds.get(usize::from(tracked.level))
                        && is_virtual
                    {
                        orders.speed_permille = u32::from(*speed);
                    }
                });
                if let Err(error) = ordered {
                    self.status.error("page");
                    tracing::debug!(page = %path.display(), %error, "cannot order");
                }
            }
        }
    }

    fn report(&mut self) {
        self.status.units_free = self.units_free();
        let status = &mut self.status;
        for (kind, count) in self.policy.refusals().iter() {
            status.refusals.insert(kind.name(), count);
        }
        let of = |tracked: &Tracked| ContainerStatus {
            units: tracked.units,
            floor: tracked.limits.floor,
            limit: tracked.limits.limit,
            level: tracked.level,
            is_heard: tracked.is_heard,
            is_bound: tracked.bound_by.is_some(),
            score: tracked.score,
            is_unmet: tracked.is_unmet,
            shed: tracked.counters[1].shed,
        };
        status.containers =
            self.containers.values().map(|tracked| (tracked.name.clone(), of(tracked))).collect();
    }
}

/// Gives a container CPU, and keeps what it then has.
fn give(
    cpu: &mut dyn Actuator,
    tracked: &mut Tracked,
    amount: u32,
    is_dry: bool,
) -> Result<(), ActuatorError> {
    if is_dry {
        tracked.amount = amount;
    } else {
        cpu.apply(&tracked.target, amount)?;
        // What stands there is what counts: quotas are whole microseconds.
        tracked.amount = cpu.read(&tracked.target)?;
    }
    tracked.is_ours = true;
    Ok(())
}

/// All that may be changed of a container, as it is.
pub(super) fn save(
    cpu: &mut dyn Actuator,
    frequency: Option<&mut (dyn Actuator + 'static)>,
    tracked: &Tracked,
) -> Result<Vec<Saved>, ActuatorError> {
    let mut saved = vec![cpu.save(&tracked.target)?];
    if let Some(frequency) = frequency.filter(|frequency| frequency.name() == "virtual") {
        saved.push(frequency.save(&tracked.target)?);
    }
    Ok(saved)
}

pub(super) fn entry(
    time: f64,
    tracked: &Tracked,
    change: String,
    reason: &str,
    result: &str,
) -> Entry {
    Entry {
        time,
        container: tracked.name.clone(),
        change,
        reason: reason.to_owned(),
        result: result.to_owned(),
        score: (tracked.score > 0).then_some(tracked.score),
        measured: tracked.measured(),
    }
}
