//! What the agent tells the FirstResponder of its containers, and hears of boosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seawall_abi::page::Reader;
use seawall_control::Instant;
use seawall_control::scaling::responder as judging;
use seawall_control::scaling::{ContainerId, Expected};

use super::board::Board;
use super::boosted::{Boosted, key};
use super::config::Way;
use super::downstream::downstream;
use super::lever::Lever;
use super::{Boosts, ResponderStatus, Response, Unwatched, outlook};
use crate::agent::Agent;
use crate::agent::actuator::{Actuator, ActuatorError, Cpufreq, Quota, QuotaLever, VirtualCpu};
use crate::agent::audit::Entry;
use crate::agent::config::{CpuActuator, FrequencyActuator};
use crate::agent::containers::Tracked;
use crate::agent::pages::Page;
use crate::responder::{EXPECTED_MAX, Protocol, RAISED_MAX, Service};

/// How often clocks are compared and counts are read.
const TEND_NS: u64 = 1_000_000_000;

/// Boosts in the log of decisions, per second; the others are only counted.
const LOGGED_MAX: u32 = 20;

/// Where its page is, as the FirstResponder names services: replicas share the service's name.
fn name_of(page: &std::path::Path) -> String {
    page.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Agent {
    /// Begins to boost containers whose requests come late, unless the configuration or a dry run
    /// says otherwise. To be called before the first pass.
    ///
    /// # Errors
    ///
    /// If the configuration asks for something that cannot be had.
    pub fn respond(&mut self) -> Result<(), Unwatched> {
        if self.state.is_none() || self.config.responder.way == Way::Off {
            return Ok(());
        }
        let board = Arc::new(Board::new(&self.config.responder, self.config.unit_milli));
        match (self.config.actuator.cpu, self.config.actuator.frequency) {
            (CpuActuator::Quota, _) => {
                let inner = std::mem::replace(&mut self.cpu, Box::new(VirtualCpu::new()));
                self.cpu = Box::new(Boosted::new(inner, board.clone()));
            }
            (CpuActuator::Cpuset, FrequencyActuator::Cpufreq) => {
                let inner = self.frequency.take();
                let boosted = |inner| Box::new(Boosted::new(inner, board.clone())) as _;
                self.frequency = inner.map(boosted);
            }
            (CpuActuator::Cpuset | CpuActuator::Kubernetes, _) => {
                tracing::warn!("nobody is boosted: {}", self.outlook());
                return Ok(());
            }
            (CpuActuator::Virtual, _) => {}
        }
        // The doorbell is in there.
        let _ = std::fs::create_dir_all(&self.config.pages);
        let response = Response::begin(&self.config.responder, &self.config.pages, board)?;
        tracing::info!(source = response.source(), "late requests boost their containers");
        self.response = Some(response);
        Ok(())
    }

    /// What [`respond`](Self::respond) would use here, and why nothing else, for people.
    pub fn outlook(&self) -> String {
        match (self.config.actuator.cpu, self.config.actuator.frequency) {
            (CpuActuator::Cpuset, FrequencyActuator::Cpufreq)
            | (CpuActuator::Quota | CpuActuator::Virtual, _) => outlook(&self.config.responder),
            (CpuActuator::Cpuset, _) => {
                "whole CPUs are not boosted; actuator.frequency = \"cpufreq\" is".to_owned()
            }
            (CpuActuator::Kubernetes, _) => "the API server is too slow for boosts".to_owned(),
        }
    }

    /// What a container's requests take when all is well, times two, as far as it is known.
    pub(in crate::agent) fn expected(&self, tracked: &Tracked) -> Expected {
        let learned = self.policy.profiled(tracked.id).unwrap_or_default();
        Expected {
            exec: tracked.expected.exec.or(learned.exec),
            time_from_start: tracked.expected.time_from_start.or(learned.time_from_start),
        }
    }

    /// For how long paths are frozen. Deviation: the paper knows each path's end-to-end latency;
    /// here it is the longest known time until a request has been executed, for all.
    pub(in crate::agent) fn window(&self) -> Duration {
        let all = |tracked| {
            let Expected { exec, time_from_start } = self.expected(tracked);
            Some(exec? + time_from_start?)
        };
        let known = || self.containers.values().filter_map(all).max();
        let default = judging::Config::default().window;
        let (least, most) = (Duration::from_micros(100), Duration::from_secs(10));
        self.config
            .responder
            .window
            .unwrap_or_else(|| known().unwrap_or(default))
            .clamp(least, most)
    }

    /// After containers were looked for: which of them can be boosted, and by whose requests.
    pub(in crate::agent) fn tell_responder(&mut self) {
        let Some(mut response) = self.response.take() else { return };
        for tracked in self.containers.values() {
            let its = key(&tracked.target);
            if response.board.row(&its).is_none() {
                match lever(self, tracked) {
                    Ok((lever, base)) => response.board.track(its.clone(), lever, base),
                    Err(ActuatorError::Gone) => continue,
                    Err(error) => {
                        self.status.error("boost");
                        tracing::debug!(container = %tracked.name, %error, "it is not boosted");
                        continue;
                    }
                }
            }
            let limit = tracked.limits.limit.saturating_mul(self.config.unit_milli);
            response.board.set_most(&its, limit, tracked.ceiling);
        }
        let told = response.set_window(self.window());
        let mut services = self.services();
        response.cut(&mut services);
        let told = told.and_then(|()| response.set_services(services));
        if let Err(error) = told {
            self.status.error("responder");
            tracing::warn!(%error, "the FirstResponder knows what it knew before");
        }
        response.board.set_slots(self.raised(&response));
        self.response = Some(response);
    }

    /// All pages with a port whose expected time is known.
    fn services(&self) -> Vec<Service> {
        let mut found = Vec::new();
        let mut ports = BTreeMap::<u16, u32>::new();
        for tracked in self.containers.values() {
            let expected = self.expected(tracked).time_from_start;
            // What was learned may be anything: one absurd time must not keep all from being told.
            let is_allowed = |time: &Duration| !time.is_zero() && *time <= EXPECTED_MAX;
            let Some(expected) = expected.filter(is_allowed) else { continue };
            for path in tracked.pages.keys() {
                let Some(port) = self.pages.page(path).map(Page::port) else { continue };
                if port == 0 {
                    continue;
                }
                *ports.entry(port).or_default() += 1;
                let protocol = if tracked.thrift { Protocol::Thrift } else { Protocol::Native };
                let (name, addresses) = (name_of(path), Vec::new());
                let service =
                    Service { name, port, addresses, protocol, expected, downstream: Vec::new() };
                found.push((tracked.id, service));
            }
        }
        // In network namespaces of their own, several may have a port; a packet does not tell.
        found.retain(|(_, service)| ports[&service.port] == 1);
        let calls = self.calls();
        let mut names = BTreeMap::<ContainerId, Vec<String>>::new();
        for (id, service) in &found {
            names.entry(*id).or_default().push(service.name.clone());
        }
        for (id, service) in &mut found {
            let below = downstream(&calls, *id);
            let below = below.iter().filter_map(|id| names.get(id)).flatten();
            service.downstream = below.take(RAISED_MAX - 1).cloned().collect();
        }
        found.into_iter().map(|(_, service)| service).collect()
    }

    /// Who calls whom.
    fn calls(&self) -> Vec<(ContainerId, ContainerId)> {
        // Those of a pattern have its name, a slash and their own.
        let mut named = BTreeMap::<&str, Vec<ContainerId>>::new();
        for tracked in self.containers.values() {
            let outer = tracked.name.match_indices('/').map(|(end, _)| &tracked.name[..end]);
            for name in outer.chain([tracked.name.as_str()]) {
                named.entry(name).or_default().push(tracked.id);
            }
        }
        let named = &named;
        let of = |from: &Tracked| {
            let id = from.id;
            let called = from.calls.iter().filter_map(|call| named.get(call.as_str())).flatten();
            called.map(move |to| (id, *to)).collect::<Vec<_>>()
        };
        self.containers.values().flat_map(of).collect()
    }

    /// Which containers each slot raises: its own, and those downstream that have no slot.
    fn raised(&self, response: &Response) -> BTreeMap<u16, Vec<PathBuf>> {
        let calls = self.calls();
        let slots = |tracked: &Tracked| -> Vec<u16> {
            tracked.pages.keys().filter_map(|path| response.slot(&name_of(path))).collect()
        };
        let without: BTreeMap<ContainerId, PathBuf> = self
            .containers
            .values()
            .filter(|tracked| slots(tracked).is_empty())
            .map(|tracked| (tracked.id, key(&tracked.target)))
            .collect();
        let mut raised = BTreeMap::new();
        for tracked in self.containers.values() {
            let below = downstream(&calls, tracked.id);
            let below = below.iter().filter_map(|id| without.get(id).cloned());
            let keys: Vec<PathBuf> = [key(&tracked.target)].into_iter().chain(below).collect();
            for slot in slots(tracked) {
                raised.insert(slot, keys.clone());
            }
        }
        raised
    }

    /// In each pass: what there is for boosts, and what was boosted.
    pub(in crate::agent) fn tend_responder(&mut self, now_ns: u64, time: f64) {
        let Some(response) = &mut self.response else { return };
        let unit = u64::from(self.config.unit_milli);
        let total = u64::from(self.units_total);
        let over = self.config.responder.over_units.map_or(total.div_ceil(2), u64::from);
        let has = self.containers.values().map(|tracked| u64::from(tracked.amount)).sum();
        response.board.set_room(has, (total + over) * unit);
        let told = response.board.drain();
        let second = now_ns / TEND_NS;
        if response.logged.0 != second {
            response.logged = (second, 0);
        }
        for told in told {
            if response.logged.1 == LOGGED_MAX {
                response.board.counts().untold.fetch_add(1, Relaxed);
                continue;
            }
            response.logged.1 += 1;
            let name = self.containers.values().find(|one| key(&one.target) == told.key);
            self.entries.push(Entry {
                time,
                container: name.map_or_else(String::new, |tracked| tracked.name.clone()),
                change: told.change,
                reason: told.reason,
                result: told.result,
                score: None,
                measured: None,
            });
        }
        if response.tended_ns.is_some_and(|last| now_ns.saturating_sub(last) < TEND_NS) {
            return;
        }
        response.tended_ns = Some(now_ns);
        response.refresh_clock();
        response.board.sweep(Instant::from_nanos(now_ns));
        self.report_responder();
    }

    fn report_responder(&mut self) {
        let Some(response) = &self.response else { return };
        let mut status: ResponderStatus = response.status();
        let names: BTreeMap<PathBuf, &str> = self
            .containers
            .values()
            .map(|tracked| (key(&tracked.target), tracked.name.as_str()))
            .collect();
        for (key, row) in response.board.rows() {
            let Some(name) = names.get(&key) else { continue };
            let (boosts, ns) = (row.boosts.load(Relaxed), row.boosted_ns.load(Relaxed));
            let is_boosted = row.is_boosted();
            let one = Boosts { boosts, seconds: ns as f64 / 1e9, is_boosted };
            status.boosts.insert((*name).to_owned(), one);
        }
        self.status.responder = status;
    }

    /// Ends all boosts; nobody is boosted any more.
    pub(in crate::agent) fn end_responder(&mut self) {
        let Some(mut response) = self.response.take() else { return };
        response.rest();
        self.response = Some(response);
        self.tend_responder(u64::MAX, time_now());
        self.response = None;
        let entries = std::mem::take(&mut self.entries);
        if let Err(error) = self.log(&entries) {
            tracing::warn!(%error, "the last boosts are not logged");
        }
    }

    /// What services are ordered: how fast they are while boosted, and for how long paths freeze.
    pub(in crate::agent) fn boost_orders(&self) -> (u64, u32) {
        let is_off = self.config.responder.way == Way::Off;
        let speed = if is_off { 1_000 } else { self.config.responder.speed_permille };
        (self.window().as_nanos() as u64, speed)
    }

    /// Whether this service is one of those that the FirstResponder looks at.
    pub fn watches(&self) -> BTreeSet<&str> {
        let list = self.response.iter().flat_map(|response| &response.list);
        list.map(|service| service.name.as_str()).collect()
    }
}

fn time_now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// What boosts this container, and what it has.
fn lever(agent: &Agent, tracked: &Tracked) -> Result<(Lever, u32), ActuatorError> {
    let (actuator, target) = (&agent.config.actuator, &tracked.target);
    let missing = |what: &str| ActuatorError::Missing {
        what: what.to_owned(),
        hint: "it cannot be boosted without",
    };
    match (actuator.cpu, &agent.hierarchies) {
        (CpuActuator::Quota, Some(found)) => {
            let mut quota = Quota::new(&found.cpu, actuator.period, actuator.burst);
            let lever = QuotaLever::open(&quota, target)?;
            Ok((Lever::Quota(lever), quota.read(target)?))
        }
        (CpuActuator::Cpuset, _) => {
            let cpufreq = Cpufreq::open(&agent.config.root);
            let cpufreq = cpufreq.map_err(|error| ActuatorError::Remote(error.to_string()))?;
            let top = cpufreq.levels() - 1;
            let top = agent.config.responder.level.map_or(top, |level| level.min(top));
            let lever = Lever::Level(cpufreq, target.clone(), u32::from(top));
            Ok((lever, u32::from(tracked.level)))
        }
        _ => {
            let page = target.page.as_ref().ok_or_else(|| missing("a page"))?;
            let reader = Reader::open(page);
            let gone = |error: seawall_abi::page::Unreadable| {
                ActuatorError::Remote(format!("{}: {error}", page.display()))
            };
            Ok((Lever::Page(reader.map_err(gone)?), tracked.amount))
        }
    }
}
