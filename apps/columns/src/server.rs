//! The server: a store behind the native protocol.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use seawall_control::config::ConfigError;
use seawall_control::request::Class;
use seawall_rpc::{Context, Router, Server, ServerConfig, Status};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::file::{self, FileError};
use crate::native::{self, Request};
use crate::store::{Store, StoreConfig};

/// Smoothing is measured apart, as far as clients tell that it is to come.
const SMOOTHING: Class = Class(1);

/// A column server: its series, and its native listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColumnsConfig {
    /// The file that `seawall-columns build` wrote. Default: `series.arrow`.
    pub file: PathBuf,
    /// How it computes.
    pub store: StoreConfig,
    /// The native listener, and how requests are admitted.
    pub server: ServerConfig,
}

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no series, or it cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The native server did not start.
    #[error(transparent)]
    Server(#[from] seawall_rpc::StartError),
}

impl Default for ColumnsConfig {
    fn default() -> Self {
        let (store, server) = (StoreConfig::default(), ServerConfig::default());
        Self { file: "series.arrow".into(), store, server }
    }
}

impl ColumnsConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.store.validate()?;
        self.server.validate()
    }
}

/// Reads the series and serves it, on threads of the server's own.
///
/// # Errors
///
/// Names what is wrong with the configuration, the series, the certificates or the address.
pub fn start(config: ColumnsConfig) -> Result<Server, StartError> {
    config.validate()?;
    let close = file::read_close(&config.file)?;
    tracing::info!(rows = close.len(), "read the series");
    let store = Arc::new(Store::new(close, &config.store));
    Ok(Server::start(config.server, router(&store))?)
}

/// The methods of a store.
pub fn router(store: &Arc<Store>) -> Router {
    let methods = [
        (native::COMPUTE, "compute", Class::default()),
        (native::MAX, "max", Class::default()),
        (native::SMOOTH, "smooth", SMOOTHING),
    ];
    let router = Router::new().class(Class::default(), "max").class(SMOOTHING, "smooth");
    methods.into_iter().fold(router, |router, (method, name, class)| {
        let store = store.clone();
        router.method_in_class(method, name, class, move |ctx, payload| {
            let store = store.clone();
            async move { compute(&store, &ctx, method, &payload).await }
        })
    })
}

async fn compute(
    store: &Store,
    ctx: &Context,
    method: u16,
    payload: &[u8],
) -> Result<Bytes, Status> {
    let request = Request::decode(method, payload)
        .map_err(|error| Status::error(Status::INVALID, error.to_string()))?;
    Ok(store.compute(ctx, request).await?.encode())
}
