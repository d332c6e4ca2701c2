//! Limits of pods' containers, changed by the API server while they run (in-place resize, in
//! Kubernetes since 1.33).
//!
//! ```text
//!   apply ──► worker ──► PATCH …/pods/NAME/resize ──► kubelet ──► quota of the group
//!   settle ◄── accepted? ◄──┘                                       │
//!   read, settle ◄── in force? ◄────────────────────────────────────┘
//! ```
//!
//! A resize takes tens of milliseconds at the server, and up to seconds at the kubelet. Meanwhile
//! [`Actuator::read`] answers with what was asked for, so that nobody decides twice.

mod api;
mod config;
mod pods;
mod quantity;
mod restore;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

pub use api::Server;
pub use config::{Requests, Settings};
pub use pods::{List, Place};
pub use restore::{Resize, Restorer};

use self::pods::{Container, Pod};
use self::worker::{Job, Shared, Worker};
use super::{Actuator, ActuatorError, Quota, Saved, Settled, Target, UNLIMITED};
use crate::agent::discover::{Kind, pod_of};

/// The kubelet gives no container less.
const LEAST_MILLI: u32 = 10;

/// How often the kubelet is asked what is in force, where that is not seen in the group.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a container is not resized after the server has said no, doubled each time.
const HOLD_LEAST: Duration = Duration::from_secs(1);
const HOLD_MOST: Duration = Duration::from_secs(60);

/// After how long pods are listed again for a container that is in none, doubled each time.
const UNKNOWN_LEAST: Duration = Duration::from_secs(1);
const UNKNOWN_MOST: Duration = Duration::from_secs(60);

/// Containers that are in no pod and are remembered for that.
const UNKNOWN_MAX: usize = 1_000;

/// Amounts that were asked for shortly before, and may still come into force for a moment.
const SUPERSEDED_MAX: usize = 8;

/// Why pods cannot be resized at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CannotResize {
    /// Nobody says where the API server is.
    #[error(
        "no API server: set actuator.kubernetes.url, or run in a pod, where Kubernetes says it in \
         KUBERNETES_SERVICE_HOST"
    )]
    NoServer,
    /// Nobody says which node this is.
    #[error(
        "this node's name is not known: set actuator.kubernetes.node, or NODE_NAME from \
         spec.nodeName (docs/node.md)"
    )]
    NoNode,
    /// The thread could not be started.
    #[error("no thread for the API server: {0}")]
    NoThread(#[from] std::io::Error),
    /// The pods of the node could not be listed.
    #[error("cannot list the pods of {node}: {problem}")]
    NoPods {
        /// The node.
        node: String,
        /// What the server said.
        problem: ActuatorError,
    },
}

/// Resizes pods' containers.
#[derive(Debug)]
pub struct Kubernetes {
    settings: Settings,
    server: Server,
    quota: Quota,
    shared: Arc<Shared>,
    worker: Worker,
    controlled: BTreeMap<Key, Controlled>,
    /// When the pods are listed again for these, and after how long.
    unknown: BTreeMap<Key, (Instant, Duration)>,
}

/// The UID of a pod and the identifier of a container, as the path of its group says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pod: String,
    container: String,
}

/// A container that was saved, and may be resized.
#[derive(Debug)]
struct Controlled {
    place: Place,
    is_guaranteed: bool,
    /// Limit and request of its pod at first.
    before: (String, Option<String>),
    wish: Option<Wish>,
    /// What was last in force by our own wish, and amounts before that.
    settled: Option<(u32, Instant)>,
    superseded: Vec<u32>,
    /// What the kubelet last said is in force.
    in_status: Option<u32>,
    /// Why it is not resized now, until when, and after how long that ends.
    held: Option<(String, Instant)>,
    hold: Duration,
}

/// What was asked for.
#[derive(Debug)]
struct Wish {
    milli: u32,
    asked: Instant,
    accepted: Option<Instant>,
    looked: Option<Instant>,
    /// Whether the look under way is the last one.
    is_last_look: bool,
}

impl Kubernetes {
    /// Asks for the pods of this node. `root` is where the host's files are; the quota tells what
    /// is in force.
    ///
    /// # Errors
    ///
    /// If the server, the node or its pods are not known.
    pub fn open(settings: &Settings, quota: Quota, root: &Path) -> Result<Self, CannotResize> {
        let environment = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let server = settings.server(environment).ok_or(CannotResize::NoServer)?;
        let hostname = || {
            let text = fs::read_to_string(root.join("proc/sys/kernel/hostname")).ok()?;
            Some(text.trim().to_owned())
        };
        let node = settings.node_name(environment, hostname).ok_or(CannotResize::NoNode)?;
        let (retries, rate) = (settings.retries_max, settings.requests_per_second);
        let (worker, shared) = Worker::start(&server, &node, retries, rate)?;
        shared.want_list();
        shared
            .first_list()
            .map_err(|error| CannotResize::NoPods { node, problem: error.into() })?;
        Ok(Self {
            settings: settings.clone(),
            server,
            quota,
            shared,
            worker,
            controlled: BTreeMap::new(),
            unknown: BTreeMap::new(),
        })
    }

    /// The container in its pod.
    fn look_up(&mut self, key: &Key) -> Result<(Pod, Container), ActuatorError> {
        let pod = self.shared.pod(&key.pod);
        if let Some(pod) = pod
            && let Some(container) = pod.container_with_id(&key.container).cloned()
        {
            self.unknown.remove(key);
            return match pod.obstacle(&container) {
                None => Ok((pod, container)),
                Some(obstacle) => Err(ActuatorError::Missing {
                    what: "a container that can be resized".to_owned(),
                    hint: obstacle,
                }),
            };
        }
        self.list_for(key);
        Err(match self.shared.list_error() {
            Some(error) => error.into(),
            None => ActuatorError::Pending("no pod of this node has it yet".to_owned()),
        })
    }

    /// Asks for the pods once more, seldom for the same container: that of a pod's network is in
    /// no list.
    fn list_for(&mut self, key: &Key) {
        let now = Instant::now();
        if self.unknown.len() >= UNKNOWN_MAX {
            self.unknown.clear();
        }
        let (due, wait) = self.unknown.entry(key.clone()).or_insert((now, UNKNOWN_LEAST));
        if *due <= now {
            (*due, *wait) = (now + *wait, (*wait * 2).min(UNKNOWN_MOST));
            self.shared.want_list();
        }
    }

    /// What the group says, and where that cannot be read, the kubelet.
    fn in_force(&mut self, target: &Target, key: &Key) -> Result<u32, ActuatorError> {
        match self.quota.read(target) {
            Err(error @ (ActuatorError::Missing { .. } | ActuatorError::Denied { .. })) => {
                let said = self.controlled.get(key).and_then(|one| one.in_status);
                let listed = || {
                    let pod = self.shared.pod(&key.pod)?;
                    pod.container_with_id(&key.container)?.in_force
                };
                said.or_else(listed).ok_or(error)
            }
            read => read,
        }
    }

    /// Begins to control a container whose pod and group agree.
    fn control(&mut self, key: &Key, in_force: u32) -> Result<(), ActuatorError> {
        let (pod, container) = self.look_up(key)?;
        let limit = container.limit.clone().unwrap_or_default();
        if quantity::milli(&limit) != Some(in_force) {
            // The kubelet is about to change it, or what was listed is old: what it has now is
            // nobody's choice.
            self.list_for(key);
            let why = format!("its pod says {limit}, and {in_force}m is in force");
            return Err(ActuatorError::Pending(why));
        }
        let controlled = Controlled {
            place: pod.place(&container),
            is_guaranteed: pod.is_guaranteed,
            before: (limit, container.request),
            wish: None,
            settled: None,
            superseded: Vec::new(),
            in_status: container.in_force,
            held: None,
            hold: Duration::ZERO,
        };
        self.controlled.insert(key.clone(), controlled);
        Ok(())
    }
}

impl Controlled {
    fn request(&self, requests: Requests, milli: u32) -> Option<String> {
        let before = (self.before.0.as_str(), self.before.1.as_deref());
        pods::request(requests, self.is_guaranteed, before, milli)
    }

    /// What is to be said instead of what is in force: what was asked for, while that is under way.
    fn answer(&self, in_force: u32, settle: Duration) -> u32 {
        if let Some(wish) = &self.wish {
            return wish.milli;
        }
        match self.settled {
            Some((milli, at)) if at.elapsed() < settle && self.superseded.contains(&in_force) => {
                milli
            }
            _ => in_force,
        }
    }

    /// The end of a wish that did not come true.
    fn fail(&mut self, error: ActuatorError) -> Settled {
        self.wish = None;
        self.hold = (self.hold * 2).clamp(HOLD_LEAST, HOLD_MOST);
        self.held = Some((error.to_string(), Instant::now() + self.hold));
        Settled { result: Err(error) }
    }

    fn gone(&mut self) -> Settled {
        self.wish = None;
        Settled { result: Err(ActuatorError::Gone) }
    }

    /// Takes what the server said. Some if that ends the wish.
    fn on_answer(&mut self, answer: worker::Answer, settle: Duration) -> Option<Settled> {
        let now = Instant::now();
        let wish = self.wish.as_mut()?;
        // The answer to an earlier wish; the latest is on its way.
        if answer.milli.is_some_and(|milli| milli != wish.milli) {
            return None;
        }
        let pod = match answer.result {
            // Another one may have its name: that one is no business of ours.
            Ok(pod) if pod.uid == self.place.uid => pod,
            Ok(_) => return Some(self.gone()),
            Err(error) if error.code() == Some(404) => return Some(self.gone()),
            // What is in force is not known; that it was accepted is.
            Err(_) if answer.milli.is_none() && !wish.is_last_look => return None,
            Err(error) => return Some(self.fail(error.into())),
        };
        let own = |container: &&Container| container.name == self.place.container;
        self.in_status = pod.containers.iter().find(own).and_then(|own| own.in_force);
        if answer.milli.is_some() {
            wish.accepted = Some(now);
        } else if wish.is_last_look {
            let (milli, waited) = (wish.milli, settle.as_secs());
            let why = pod.pending.unwrap_or_else(|| "the kubelet says no reason".to_owned());
            let message = format!("{milli}m is not in force after {waited} s: {why}");
            return Some(self.fail(ActuatorError::Api { kind: "api_not_in_force", message }));
        }
        None
    }
}

impl Actuator for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let key = key(target)?;
        let in_force = self.in_force(target, &key)?;
        let settle = self.settings.settle;
        if let Some(controlled) = self.controlled.get(&key) {
            return Ok(controlled.answer(in_force, settle));
        }
        // Without a bound it is left alone, so that nobody has to know which it is.
        if in_force != UNLIMITED {
            self.control(&key, in_force)?;
        }
        Ok(in_force)
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        let key = key(target)?;
        let in_force = self.in_force(target, &key)?;
        if !self.controlled.contains_key(&key) {
            self.control(&key, in_force)?;
        }
        let (requests, settle) = (self.settings.requests, self.settings.settle);
        let controlled = &self.controlled[&key];
        let (mut limit, mut request) = controlled.before.clone();
        // What others have set meanwhile is in force: the kubelet did it because the pod says so.
        let amount = controlled.answer(in_force, settle);
        if quantity::milli(&limit) != Some(amount) {
            limit = quantity::text(amount);
            request = controlled.request(requests, amount);
        }
        let (server, place) = (self.server.clone(), controlled.place.clone());
        Ok(Saved::Pod(Box::new(Resize { server, place, limit, request })))
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let key = key(target)?;
        let in_force = self.in_force(target, &key)?;
        if !self.controlled.contains_key(&key) {
            self.control(&key, in_force)?;
        }
        let requests = self.settings.requests;
        let Some(controlled) = self.controlled.get_mut(&key) else { return Ok(()) };
        let now = Instant::now();
        if let Some((why, until)) = &controlled.held
            && *until > now
        {
            return Err(ActuatorError::Pending(format!("not asked again yet: {why}")));
        }
        let amount = amount.max(LEAST_MILLI);
        let limit = quantity::text(amount);
        let request = controlled.request(requests, amount);
        let job = Job::Resize { milli: amount, limit, request };
        if !self.shared.push(&controlled.place, job) {
            let full = "too many resizes are waiting for the API server".to_owned();
            return Err(ActuatorError::Pending(full));
        }
        let before = controlled.answer(in_force, Duration::MAX);
        controlled.superseded.retain(|old| *old != amount && *old != before);
        controlled.superseded.push(before);
        if controlled.superseded.len() > SUPERSEDED_MAX {
            controlled.superseded.remove(0);
        }
        controlled.wish = Some(Wish {
            milli: amount,
            asked: now,
            accepted: None,
            looked: None,
            is_last_look: false,
        });
        Ok(())
    }

    fn settle(&mut self, target: &Target) -> Option<Settled> {
        let key = key(target).ok()?;
        let controlled = self.controlled.get(&key)?;
        controlled.wish.as_ref()?;
        let (place, settle) = (controlled.place.clone(), self.settings.settle);
        let is_seen = self.quota.read(target).is_ok();
        if let Some(answer) = self.shared.answer(&place)
            && let Some(settled) = self.controlled.get_mut(&key)?.on_answer(answer, settle)
        {
            return Some(settled);
        }
        let in_force = self.in_force(target, &key).ok();
        let controlled = self.controlled.get_mut(&key)?;
        let wish = controlled.wish.as_mut()?;
        let accepted = wish.accepted?;
        if in_force == Some(wish.milli) {
            controlled.settled = Some((wish.milli, Instant::now()));
            (controlled.held, controlled.hold) = (None, Duration::ZERO);
            let took = wish.asked.elapsed();
            controlled.wish = None;
            return Some(Settled { result: Ok(took) });
        }
        let now = Instant::now();
        let is_over = now.duration_since(accepted) >= settle;
        let is_due = !is_seen && now.duration_since(wish.looked.unwrap_or(accepted)) >= LOOK_EVERY;
        if !wish.is_last_look && (is_over || is_due) && self.shared.push(&place, Job::Look) {
            (wish.looked, wish.is_last_look) = (Some(now), is_over);
        }
        None
    }

    fn is_deferred(&self) -> bool {
        true
    }

    fn stop(&mut self) {
        self.worker.stop();
    }

    fn least(&mut self, target: &Target) -> u32 {
        self.quota.least(target).max(LEAST_MILLI)
    }

    fn ceiling(&mut self, target: &Target) -> Option<(u32, PathBuf)> {
        // The kubelet resizes the pod's own group with its containers.
        let pod = target.cpu.as_deref()?.parent()?.to_owned();
        self.quota.ceiling(&Target { cpu: Some(pod), ..target.clone() })
    }

    fn forget(&mut self, target: &Target) {
        if let Ok(key) = key(target)
            && let Some(controlled) = self.controlled.remove(&key)
        {
            self.shared.forget(&controlled.place);
        }
    }
}

fn key(target: &Target) -> Result<Key, ActuatorError> {
    let path = target.cpu.as_ref().map(|path| path.to_string_lossy());
    match path.and_then(|path| pod_of(&path)) {
        Some(Kind::Kubernetes { pod, container }) => Ok(Key { pod, container }),
        _ => Err(ActuatorError::Missing {
            what: "a container of a pod".to_owned(),
            hint: "actuator.cpu = \"kubernetes\" resizes pods only; use quota for others",
        }),
    }
}
