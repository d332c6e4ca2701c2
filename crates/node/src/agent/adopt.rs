//! Which containers the agent manages: those that were found and can be acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use glob::Pattern;
use seawall_control::scaling::ContainerId;

use super::actuator::{ActuatorError, Saved, Target, UNLIMITED};
use super::config::CpuActuator;
use super::containers::{Known, Limits, Tracked, units};
use super::crash::{self, Step};
use super::discover::{Found, GLOB, Kind};
use super::look::milli;
use super::pass::{Agent, entry, save};
use super::pod::Raise;

/// A container that may become managed.
struct Candidate {
    key: String,
    target: Target,
    group: Option<String>,
    rule: Option<usize>,
    is_of_pod: bool,
}

/// A container that is about to be managed.
struct New {
    tracked: Tracked,
    /// What it is to be given at first, if it has no bound.
    initial: Option<u32>,
    /// How it is now.
    saved: Vec<Saved>,
    /// Its pod's group, where that has to have more.
    raise: Option<Raise>,
}

impl Agent {
    /// Looks for containers and pages, begins with new ones, and ends with those that have gone.
    pub(super) fn scan(&mut self, time: f64) {
        let hierarchy = self.hierarchies.as_ref().map(|found| &found.cpu);
        match self.pages.scan(hierarchy) {
            Ok(sight) => {
                (self.status.pages, self.status.pages_refused) = (sight.pages, sight.refused);
                self.status.pages_cut = sight.cut;
                self.status.pages_removed += sight.removed as u64;
            }
            Err(error) => {
                self.status.error("pages");
                tracing::warn!(%error, folder = %self.config.pages.display(), "no pages");
            }
        }
        let candidates = match &self.finder {
            Some(finder) => {
                let scan = finder.scan();
                if scan.is_cut {
                    self.status.error("too_many");
                    tracing::warn!("there are more groups than are looked at");
                }
                scan.found.into_iter().map(|found| self.of_group(found)).collect()
            }
            None => self.of_pages(),
        };
        let there: BTreeSet<&String> = candidates.iter().map(|candidate| &candidate.key).collect();
        let is_gone =
            |(key, tracked): &(&String, &Tracked)| !there.contains(key) || !tracked.is_same();
        let gone = self.containers.iter().filter(is_gone).map(|(key, _)| key.clone());
        let gone: Vec<String> = gone.collect();
        self.strangers.retain(|key, _| there.contains(key));
        self.status.gone += gone.len() as u64;
        self.drop_containers(&gone);
        self.adopt(candidates, time);
        self.join_pages();
        self.look_around();
        self.tell_responder();
    }

    fn of_group(&self, found: Found) -> Candidate {
        let rule = found.rule;
        let name = match rule.and_then(|rule| self.config.containers.get(rule)) {
            Some(rule) if is_plain(rule.cgroup.as_deref()) => rule.name.clone(),
            // A pattern matches many; their groups' last names tell them apart.
            Some(rule) => {
                let last = found.group.rsplit('/').next().unwrap_or_default();
                format!("{}/{}", rule.name, last)
            }
            None => found.name,
        };
        // Who makes a group names it, and names are shown.
        let name = name.replace(char::is_control, "?");
        let folder =
            |of: Option<&super::hierarchy::Hierarchy>| of.map(|of| of.folder(&found.group));
        let hierarchies = self.hierarchies.as_ref();
        let target = Target {
            name,
            cpu: folder(hierarchies.map(|found| &found.cpu)),
            cpuset: folder(hierarchies.and_then(|found| found.cpuset.as_ref())),
            page: None,
        };
        let is_of_pod = matches!(found.kind, Kind::Kubernetes { .. });
        Candidate { key: found.group.clone(), target, group: Some(found.group), rule, is_of_pod }
    }

    /// Services that model their cores: each page is a container.
    fn of_pages(&self) -> Vec<Candidate> {
        let mut names = BTreeMap::<&str, u32>::new();
        for (_, page) in self.pages.iter() {
            *names.entry(page.service()).or_default() += 1;
        }
        let of = |path: &std::path::Path, page: &super::pages::Page| {
            let rule = self.rule_of_service(page.service());
            // Without rules, whoever publishes is meant.
            if rule.is_none() && !self.config.containers.is_empty() {
                return None;
            }
            let service = page.service();
            let name = if names[service] == 1 {
                service.to_owned()
            } else {
                path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            };
            let page = Some(path.to_owned());
            let key = format!("page:{}", path.display());
            let target = Target { name, page, ..Target::default() };
            Some(Candidate { key, target, group: None, rule, is_of_pod: false })
        };
        self.pages.iter().filter_map(|(path, page)| of(path, page)).collect()
    }

    fn rule_of_service(&self, service: &str) -> Option<usize> {
        self.config.containers.iter().position(|rule| {
            let glob = rule.service.as_ref().and_then(|glob| Pattern::new(glob).ok());
            glob.is_some_and(|glob| glob.matches_with(service, GLOB))
        })
    }

    /// Begins with containers. All are saved before the first of them is changed.
    fn adopt(&mut self, candidates: Vec<Candidate>, time: f64) {
        let mut new: Vec<(String, New)> = Vec::new();
        let mut free = self.units_free();
        for candidate in candidates {
            if self.containers.contains_key(&candidate.key) {
                continue;
            }
            match self.tracked(&candidate, free) {
                Ok(Some(begun)) => {
                    let amount = begun.initial.unwrap_or(begun.tracked.amount);
                    free = free.saturating_sub(units(amount, self.config.unit_milli));
                    new.push((candidate.key, begun));
                }
                Ok(None) => {}
                Err(ActuatorError::Gone) => self.status.gone += 1,
                Err(error) => self.stranger(&candidate, error.to_string()),
            }
        }
        if new.is_empty() {
            return;
        }
        crash::point(Step::BeforeSave);
        if let Some(state) = &mut self.state {
            let containers = new.iter().map(|(key, new)| (key.clone(), new.saved.clone()));
            let raised = new.iter().filter_map(|(_, new)| new.raise.as_ref());
            let pods = raised.map(|raise| (raise.key.clone(), vec![raise.saved.clone()]));
            let saved = containers.chain(pods);
            if let Err(error) = state.save(saved) {
                // What cannot be put back is not touched; the next look tries again.
                self.status.error("state");
                tracing::warn!(%error, "new containers are left alone");
                return;
            }
        }
        crash::point(Step::AfterSave);
        for (key, New { mut tracked, initial, raise, .. }) in new {
            self.strangers.remove(&key);
            if let Some(raise) = raise {
                self.raise_pod(&mut tracked, raise, time);
            }
            if let Some(amount) = initial {
                self.begin_with(&mut tracked, amount, time);
            }
            tracing::info!(
                container = %tracked.name,
                units = tracked.units,
                floor = tracked.limits.floor,
                limit = tracked.limits.limit,
                "a container is managed"
            );
            self.containers.insert(key, tracked);
        }
    }

    /// None if it is to be left alone. Others have left it `free` units.
    fn tracked(&mut self, candidate: &Candidate, free: u32) -> Result<Option<New>, ActuatorError> {
        if self.strangers.get(&candidate.key).is_some_and(|why| why == "others set its CPU") {
            return Ok(None);
        }
        let rule = candidate.rule.and_then(|rule| self.config.containers.get(rule));
        let known = Known::of(&self.config, rule);
        let target = &candidate.target;
        let has = self.cpu.read(target)?;
        let initial = match (has, known.bounds.initial_milli) {
            (UNLIMITED, None) => {
                let why = "it has no bound; give it initial_milli, or a quota";
                self.stranger(candidate, why.to_owned());
                return Ok(None);
            }
            (UNLIMITED, initial) => initial,
            // A page holds what its owner wants. It is taken for what the service has as far as
            // that is within its limit, and nobody else's.
            (has, _) if self.config.actuator.cpu == CpuActuator::Virtual => {
                let limit = known.bounds.limit_milli.unwrap_or(UNLIMITED);
                let most = free.max(1).saturating_mul(self.config.unit_milli).min(limit);
                (has > most).then_some(most)
            }
            _ => None,
        };
        let amount = initial.unwrap_or(has);
        let unit = self.config.unit_milli;
        let least = self.cpu.least(target);
        let limits = Limits::new(&known.bounds, amount, unit, self.units_total, least);
        self.next_id += 1;
        let id = ContainerId(self.next_id);
        let mut tracked = Tracked::new(id, target.clone(), &known, limits, has, unit);
        if let Some(memory) = self.learned.as_ref().and_then(|it| it.recall(&tracked.name, id.0)) {
            self.policy.recall(memory);
        }
        let usage = self.hierarchies.as_ref().and_then(|found| found.usage.as_ref());
        if let (Some(hierarchy), Some(group)) = (usage, &candidate.group) {
            tracked.count_usage(hierarchy, group);
        }
        let saved = save(&mut *self.cpu, self.frequency.as_deref_mut(), &tracked)?;
        // A dry run decides as if the pod's group could not be raised.
        let raises = candidate.is_of_pod && self.state.is_some() && self.cpu.name() == "quota";
        let raise = match candidate.group.as_ref().filter(|_| raises) {
            Some(group) => Raise::find(&mut *self.cpu, target, group, limits, unit)?,
            None => None,
        };
        Ok(Some(New { tracked, initial, saved, raise }))
    }

    fn begin_with(&mut self, tracked: &mut Tracked, amount: u32, time: f64) {
        let unit = self.config.unit_milli;
        let applied = match &self.state {
            None => Ok(amount),
            Some(_) => {
                let applied = self.cpu.apply(&tracked.target, amount);
                applied.and_then(|()| self.cpu.read(&tracked.target))
            }
        };
        let change = milli(tracked.amount, amount);
        match applied {
            Ok(amount) => {
                tracked.amount = amount;
                tracked.units = units(amount, unit);
                tracked.is_ours = true;
                let result = if self.state.is_none() { "dry run" } else { "applied" };
                self.entries.push(entry(time, tracked, change, "initial", result));
            }
            Err(error) => {
                let result = error.to_string();
                self.entries.push(entry(time, tracked, change, "initial", &result));
                tracked.told = Some(result);
            }
        }
    }

    fn stranger(&mut self, candidate: &Candidate, why: String) {
        if self.strangers.get(&candidate.key) != Some(&why) {
            tracing::warn!(container = %candidate.target.name, %why, "a container is left alone");
            self.strangers.insert(candidate.key.clone(), why);
        }
    }

    /// Which pages are whose: by the group of the process, or a group inside of the container's.
    fn join_pages(&mut self) {
        let mut of: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (path, page) in self.pages.iter() {
            if self.config.actuator.cpu == CpuActuator::Virtual {
                of.entry(format!("page:{}", path.display())).or_default().push(path.to_owned());
                continue;
            }
            let Some(group) = page.group() else { continue };
            // In a namespace of its own, the agent sees other groups from where it stands itself.
            let group = group.trim_start_matches("/..");
            let inner = group.match_indices('/').map(|(end, _)| &group[..end]);
            let around = inner.chain([group]).find(|group| self.containers.contains_key(*group));
            if let Some(key) = around {
                of.entry(key.to_owned()).or_default().push(path.to_owned());
            }
        }
        for (key, tracked) in &mut self.containers {
            tracked.join(of.remove(key).unwrap_or_default());
        }
    }

    /// What groups around containers let these have. It changes when somebody changes those.
    fn look_around(&mut self) {
        let unit = self.config.unit_milli;
        for tracked in self.containers.values_mut() {
            let most = tracked.limit_asked.saturating_mul(unit);
            if let Some(pod) = &mut tracked.pod {
                pod.follow(&mut *self.cpu, most);
            }
            let ceiling = self.cpu.ceiling(&tracked.target);
            tracked.ceiling = ceiling.as_ref().map(|(milli, _)| *milli);
            tracked.bind(ceiling, unit);
        }
    }
}

/// Whether a pattern matches one group only.
fn is_plain(glob: Option<&str>) -> bool {
    glob.is_none_or(|glob| !glob.contains(['*', '?', '[']))
}
