//! Where requests go: a service, its replicas, and the connections to them.

mod books;
mod connect;
mod health;
mod line;
mod pause;
mod pool;
mod probe;
mod replica;

pub(crate) use books::Attempt;
pub(crate) use connect::ConnectError;
pub(crate) use pool::{Lease, Sender, Wants};
pub(crate) use replica::Replica;

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge};
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::replica::{Answered, Selector};
use seawall_control::request::Rejected;
use seawall_control::retry::{self, Failed, Verdict};
use seawall_measure::names::{self, Metric};
use seawall_tower::clock;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::admit::{Admission, Load};
use crate::config::{self, Config};
use crate::tls::TlsError;
use health::Loss;

/// A service, which any of its replicas can serve.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: String,
    pub(crate) config: config::Upstream,
    replicas: Vec<Arc<Replica>>,
    selector: Mutex<Selector>,
    retry: Mutex<retry::Policy>,
    pub(crate) admission: Arc<Admission>,
    /// Whether it refuses, and the classes that routes give: not its own configuration, but as good
    /// as that.
    mode: config::Mode,
    classes: Vec<String>,
    /// By which sessions are told apart, where there are any.
    trust: config::Trust,
    /// What goes on beside requests.
    tasks: Vec<AbortHandle>,
    counted: Mutex<retry::Counts>,
}

/// The replicas that a request was sent to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried([u64; 4]);

impl Tried {
    pub(crate) fn insert(&mut self, replica: usize) {
        self.0[replica / 64] |= 1 << (replica % 64);
    }

    fn has(&self, replica: usize) -> bool {
        self.0[replica / 64] & 1 << (replica % 64) != 0
    }
}

impl Upstream {
    /// Reads the files that `config` names, and begins to ask replicas how they are. Replicas that
    /// one of `known` has, too, are taken from there, with their connections.
    pub(crate) fn start(
        name: &str,
        whole: &Config,
        workers: usize,
        runtime: &Handle,
        known: &[Arc<Self>],
    ) -> Result<Arc<Self>, TlsError> {
        let config = &whole.upstreams[name];
        let mut replicas = Vec::with_capacity(config.replicas.len());
        for endpoint in &config.replicas {
            let all = known.iter().flat_map(|upstream| &upstream.replicas);
            let same = all.into_iter().find(|replica| replica.is(endpoint, config));
            replicas.push(match same {
                Some(same) => same.clone(),
                None => Arc::new(Replica::new(name, endpoint, config, workers)?),
            });
        }
        let classes = whole.classes_of(name);
        let admission = Admission::new(name, config, whole.mode, &classes);
        let mut tasks = probe::start(&config.health, &replicas, runtime);
        tasks.extend(pause::start(config.pages.as_deref(), &replicas, runtime));
        tasks.push(runtime.spawn(admission.clone().run()).abort_handle());
        let seed = clock::now().as_nanos();
        Ok(Arc::new(Self {
            name: name.to_owned(),
            config: config.clone(),
            selector: Mutex::new(Selector::new(&config.balance, replicas.len(), seed)),
            retry: Mutex::new(config.retry.policy()),
            replicas,
            admission,
            mode: whole.mode,
            classes,
            trust: whole.trust.clone(),
            tasks,
            counted: Mutex::default(),
        }))
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is what such a part of a configuration would make. Certificates that have
    /// changed in their files make another one.
    pub(crate) fn is(&self, name: &str, whole: &Config) -> bool {
        let config = &whole.upstreams[name];
        let uses_files = config.replicas.iter().any(|replica| replica.tls)
            && (config.tls.authorities.is_some() || config.tls.certificate.is_some());
        self.name == name
            && self.config == *config
            && self.mode == whole.mode
            && self.classes == whole.classes_of(name)
            && (self.trust == whole.trust || !config.admits())
            && !uses_files
    }

    /// All replicas.
    pub(crate) fn replicas(&self) -> &[Arc<Replica>] {
        &self.replicas
    }

    /// A replica for a request, of those that it was not sent to: one that is well and does not
    /// stand still, as far as there is one, or one that is well.
    pub(crate) fn choose(&self, now: Instant, tried: &Tried) -> Option<usize> {
        if let [_] = &self.replicas[..] {
            return (!tried.has(0)).then_some(0);
        }
        let mut selector = self.selector.lock();
        let is_left = |index: usize| !tried.has(index);
        let is_well = |index: usize| is_left(index) && self.replicas[index].is_well(now);
        let goes_on = |index: usize| self.replicas[index].pause.rest().is_none();
        let best = selector.choose(now, |index| is_well(index) && goes_on(index));
        let well = best.or_else(|| selector.choose(now, is_well));
        well.or_else(|| selector.choose(now, is_left))
    }

    /// How long all replicas that are well will still stand still, if they do; zero for longer than
    /// was predicted.
    pub(crate) fn stands_still(&self, now: Instant) -> Option<Duration> {
        let well = self.replicas.iter().filter(|replica| replica.is_well(now));
        let rests: Option<Vec<_>> = well.map(|replica| replica.pause.rest()).collect();
        rests?.into_iter().min()
    }

    /// Replicas that a request could still be sent to.
    pub(crate) fn others(&self, now: Instant, tried: &Tried) -> usize {
        let others = || (0..self.replicas.len()).filter(|index| !tried.has(*index));
        match others().filter(|index| self.replicas[*index].is_well(now)).count() {
            0 => others().count(),
            well => well,
        }
    }

    /// Whether a request that fails could go to another replica at all.
    pub(crate) fn has_choice(&self) -> bool {
        self.replicas.len() > 1 && self.config.retry.attempts > 1
    }

    /// A request begins.
    pub(crate) fn on_call(&self) {
        if self.has_choice() {
            self.retry.lock().on_call();
        }
    }

    /// A request failed at a replica: whether it is to be sent again.
    pub(crate) fn on_failure(&self, now: Instant, failed: &Failed) -> Verdict {
        self.retry.lock().on_failure(now, failed)
    }

    /// A request is about to be sent to a replica. [`on_end`](Self::on_end) must follow.
    pub(crate) fn on_submit(&self, replica: usize) {
        self.replicas[replica].books.submitted();
        if self.replicas.len() > 1 {
            self.selector.lock().on_submit(replica);
        }
    }

    /// It is no longer there.
    pub(crate) fn on_end(&self, replica: usize) {
        self.replicas[replica].books.ended();
        if self.replicas.len() > 1 {
            self.selector.lock().on_end(replica);
        }
    }

    /// A replica answered, its head after `latency`.
    pub(crate) fn on_reply(&self, now: Instant, replica: usize, reply: Answered) {
        self.on_success(replica);
        self.replicas[replica].books.count(Attempt::Answered);
        if self.replicas.len() > 1 {
            self.selector.lock().on_reply(now, replica, reply);
        }
    }

    /// A replica refused a request.
    pub(crate) fn on_refusal(&self, now: Instant, replica: usize, rejected: &Rejected) {
        self.on_success(replica); // it is there, and says what it has to
        self.replicas[replica].books.count(Attempt::Refused);
        if self.replicas.len() > 1 {
            let Rejected { stage, predicted_delay, .. } = *rejected;
            self.selector.lock().on_refusal(now, replica, stage, predicted_delay);
        }
    }

    /// A replica could not be reached, was lost, or did not answer in time.
    pub(crate) fn on_lost(&self, now: Instant, replica: usize, attempt: Attempt) {
        self.replicas[replica].books.count(attempt);
        let others = || self.replicas.iter().enumerate().filter(|(index, _)| *index != replica);
        let is_last = || !others().any(|(_, other)| other.is_well(now));
        let lost = &self.replicas[replica];
        let (upstream, replica) = (&self.name, lost);
        match lost.health.on_failure(now, &self.config.health, is_last) {
            Loss::Counted => {}
            Loss::LeftOut(time) => {
                tracing::warn!(upstream, %replica, "it fails, and is left out for {time:?}");
            }
            Loss::Last => {
                let last = "it fails, and is not left out: no other one is well";
                tracing::warn!(upstream, %replica, "{last}");
            }
        }
    }

    /// A replica is there.
    fn on_success(&self, replica: usize) {
        let replica = &self.replicas[replica];
        if replica.health.on_success() {
            // As loud as that it fails: who was told of that wants to know that it is over.
            tracing::warn!(upstream = self.name, %replica, "it answers again");
        }
    }
}

impl Upstream {
    /// Tells the recorder what is so now.
    pub(crate) fn publish(&self) -> Load {
        let now = clock::now();
        for replica in &self.replicas {
            let is_well = replica.is_well(now) && !replica.health.fails(&self.config.health);
            replica.books.publish(&self.name, replica, is_well);
        }
        let counts = self.retry.lock().counts();
        let before = std::mem::replace(&mut *self.counted.lock(), counts);
        let new = [
            ("retry", counts.retries - before.retries),
            ("move", counts.moves - before.moves),
            ("forbidden", counts.forbidden - before.forbidden),
        ];
        for (kind, count) in new {
            let upstream = self.name.clone();
            counter!(names::RETRIES.name, "upstream" => upstream, "kind" => kind).increment(count);
        }
        let set = |metric: Metric, value: f64| {
            gauge!(metric.name, "upstream" => self.name.clone()).set(value);
        };
        set(names::UPSTREAM_SLO, self.config.slo.map_or(0.0, |slo| slo.as_secs_f64()));
        let enforces = self.mode == config::Mode::Enforce && self.config.gate.enforce;
        set(names::UPSTREAM_ENFORCES, f64::from(u8::from(enforces)));
        self.admission.publish()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
