//! The layer, how it is made, and what can be done with it while it works.

use std::sync::Arc;

use seawall_control::config::ConfigError;
use seawall_control::controller::{Algorithm, Signal};
use seawall_control::fields::Name;
use seawall_control::request::Stage;

use super::admission::{Parts, Queue, Shared};
use super::classes::Classes;
use super::config::Config;
use super::orca::Report;
use super::service::Service;
use super::stats::Stats;

/// Puts services behind admission. All services of one layer, and of its clones, are admitted
/// together: one layer for each process is right.
#[derive(Clone, Debug)]
pub struct Layer {
    shared: Arc<Shared>,
}

/// Makes a [`Layer`].
#[derive(Clone, Default)]
#[must_use = "build makes the layer"]
pub struct Builder {
    config: Config,
    algorithm: Option<Arc<dyn Algorithm>>,
    parts: Parts,
}

/// Watches a layer, and stops it.
#[derive(Clone, Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
}

impl Layer {
    /// A layer whose requests are all of one class.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, and what is allowed.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// A layer of which more is to be said than its configuration.
    pub fn builder(config: Config) -> Builder {
        Builder { config, ..Builder::default() }
    }

    /// To watch it, and to stop it.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: self.shared.clone() }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Service<S> {
        Service::new(inner, self.shared.clone())
    }
}

impl Builder {
    /// Measures requests by these classes.
    pub fn classes(mut self, classes: Classes) -> Self {
        self.parts.classes = classes;
        self
    }

    /// Calls a stage of the service's own, such as a lock at which requests may be refused, by a
    /// `name`: in refusals, and in metrics. A name that is told again replaces the first.
    pub fn stage(mut self, stage: Stage, name: &str) -> Self {
        self.parts.stages.retain(|(known, _)| *known != stage);
        self.parts.stages.push((stage, Name::lossy(name)));
        self
    }

    /// Tells of a queue behind the entry: its wait counts for the algorithm, and who cannot wait
    /// for it is refused at once. Handlers wait in it by [`Context::wait`](crate::Context::wait).
    pub fn queue(mut self, queue: Arc<dyn Queue>) -> Self {
        self.parts.queue = Some(queue);
        self
    }

    /// Admits by an algorithm of the program's own, in place of the one that the configuration
    /// names.
    pub fn algorithm(mut self, algorithm: Arc<dyn Algorithm>) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// Makes the layer.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, and what is allowed.
    pub fn build(self) -> Result<Layer, ConfigError> {
        self.config.validate()?;
        let algorithm = match self.algorithm {
            Some(algorithm) => algorithm,
            None => self.config.admission.build_with(seawall_measure::utility::read)?,
        };
        Ok(Layer { shared: Arc::new(Shared::new(self.config, algorithm, self.parts)) })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Monitor {
    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The name of the algorithm that admits.
    pub fn algorithm(&self) -> &'static str {
        self.shared.algorithm
    }

    /// Lets no request in any more: they are refused as under overload, so that clients go
    /// elsewhere. Those that are in go on.
    pub fn drain(&self) {
        self.shared.drain();
    }

    /// Waits until all requests that are in have got all of their responses.
    pub async fn drained(&self) {
        self.shared.drained().await;
    }

    /// Tells the algorithm what the program has measured, such as power or memory bandwidth, for
    /// utilities that value them. Queueing delays the layer measures by itself.
    pub fn signal(&self, signal: Signal) {
        self.shared.signal(signal);
    }

    /// Says how much of what it can do a stage of the service's own does, 1 if it cannot do more:
    /// for reports of load.
    pub fn set_utilization(&self, stage: &str, utilization: f64) {
        self.shared.load.set(stage, utilization);
    }

    /// A report of load, as balancers get it.
    pub fn report(&self) -> Report {
        self.shared.report()
    }
}
