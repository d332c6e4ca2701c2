//! The layer that makes clients.

use std::sync::Arc;

use seawall_control::config::ConfigError;

use super::config::Config;
use super::meters::Meters;
use super::service::Service;
use super::session::Session;

/// Wraps a service that sends HTTP requests to **one** server, so that they leave when that server
/// has time for them.
///
/// All services that it makes, and their clones, share one session: the same credits, and the same
/// queue. For a service with several addresses see [`Replicas`](super::Replicas).
#[derive(Clone, Debug)]
pub struct Layer {
    session: Session,
    config: Arc<Config>,
}

impl Layer {
    /// A layer for one server.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let meters = Arc::new(Meters::new(&config.name));
        Ok(Self { session: Session::new(&config, meters)?, config: Arc::new(config) })
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Service<S> {
        Service::new(inner, self.session.clone(), self.config.clone())
    }
}
