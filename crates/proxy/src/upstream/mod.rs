//! Where requests go: a service, its replicas, and the connections to them.

mod connect;
mod health;
mod pool;
mod probe;
mod replica;

pub(crate) use connect::{ConnectError, Dialer};
pub(crate) use pool::{Lease, Sender, Wants};
pub(crate) use replica::Replica;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::replica::{Answered, Selector};
use seawall_control::request::Stage;
use seawall_control::retry::{self, Failed, Verdict};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::clock;
use crate::config;
use crate::tls::TlsError;

/// A service, which any of its replicas can serve.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: String,
    pub(crate) config: config::Upstream,
    replicas: Vec<Arc<Replica>>,
    selector: Mutex<Selector>,
    retry: Mutex<retry::Policy>,
    probes: Vec<AbortHandle>,
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
        config: &config::Upstream,
        workers: usize,
        runtime: &Handle,
        known: &[Arc<Self>],
    ) -> Result<Arc<Self>, TlsError> {
        let mut replicas = Vec::with_capacity(config.replicas.len());
        for endpoint in &config.replicas {
            let all = known.iter().flat_map(|upstream| &upstream.replicas);
            let same = all.into_iter().find(|replica| replica.is(endpoint, config));
            replicas.push(match same {
                Some(same) => same.clone(),
                None => Arc::new(Replica::new(endpoint, config, workers)?),
            });
        }
        let probes = probe::start(&config.health, &replicas, runtime);
        let seed = clock::now().as_nanos();
        Ok(Arc::new(Self {
            name: name.to_owned(),
            config: config.clone(),
            selector: Mutex::new(Selector::new(&config.balance, replicas.len(), seed)),
            retry: Mutex::new(config.retry.policy()),
            replicas,
            probes,
        }))
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is what such a part of a configuration would make. Certificates that have
    /// changed in their files make another one.
    pub(crate) fn is(&self, name: &str, config: &config::Upstream) -> bool {
        let uses_files = config.replicas.iter().any(|replica| replica.tls)
            && (config.tls.authorities.is_some() || config.tls.certificate.is_some());
        self.name == name && self.config == *config && !uses_files
    }

    /// All replicas.
    pub(crate) fn replicas(&self) -> &[Arc<Replica>] {
        &self.replicas
    }

    /// A replica for a request, of those that it was not sent to, and that are well as far as there
    /// are such.
    pub(crate) fn choose(&self, now: Instant, tried: &Tried) -> Option<usize> {
        if let [_] = &self.replicas[..] {
            return (!tried.has(0)).then_some(0);
        }
        let mut selector = self.selector.lock();
        let well =
            selector.choose(now, |index| !tried.has(index) && self.replicas[index].is_well(now));
        well.or_else(|| selector.choose(now, |index| !tried.has(index)))
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
        if self.replicas.len() > 1 {
            self.selector.lock().on_submit(replica);
        }
    }

    /// It is no longer there.
    pub(crate) fn on_end(&self, replica: usize) {
        if self.replicas.len() > 1 {
            self.selector.lock().on_end(replica);
        }
    }

    /// A replica answered, its head after `latency`.
    pub(crate) fn on_reply(&self, now: Instant, replica: usize, reply: Answered) {
        self.replicas[replica].health.on_success();
        if self.replicas.len() > 1 {
            self.selector.lock().on_reply(now, replica, reply);
        }
    }

    /// A replica refused a request, which would have waited for so long there.
    pub(crate) fn on_refusal(
        &self,
        now: Instant,
        replica: usize,
        stage: Stage,
        predicted: Duration,
    ) {
        self.replicas[replica].health.on_success(); // it is there, and says what it has to
        if self.replicas.len() > 1 {
            self.selector.lock().on_refusal(now, replica, stage, predicted);
        }
    }

    /// A replica could not be reached, was lost, or did not answer in time.
    pub(crate) fn on_lost(&self, now: Instant, replica: usize) {
        let is_out = self.replicas[replica].health.on_failure(now, &self.config.health);
        if is_out {
            let replica = &self.replicas[replica];
            tracing::warn!(upstream = self.name, %replica, "left out for a while: it fails");
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.probes.iter().for_each(AbortHandle::abort);
    }
}
