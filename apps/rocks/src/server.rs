//! The server: a store behind the native protocol.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use seawall_control::config::ConfigError;
use seawall_control::request::Class;
use seawall_rpc::{Context, Router, Server, ServerConfig, Status};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::native;
use crate::store::{GetError, Store, StoreConfig, StoreError};

/// Lookups of large values are measured apart, as far as clients tell that they are such.
const LARGE: Class = Class(1);

/// A RocksDB server: its store, and its native listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RocksConfig {
    /// The folder that `seawall-rocks build` built. Default: the current one.
    pub folder: PathBuf,
    /// How values are read.
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
    /// There is no store, or it cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The native server did not start.
    #[error(transparent)]
    Server(#[from] seawall_rpc::StartError),
}

impl Default for RocksConfig {
    fn default() -> Self {
        let (store, server) = (StoreConfig::default(), ServerConfig::default());
        Self { folder: ".".into(), store, server }
    }
}

impl RocksConfig {
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

/// Opens the store and serves it, on threads of the server's own.
///
/// # Errors
///
/// Names what is wrong with the configuration, the store, the certificates or the address.
pub fn start(config: RocksConfig) -> Result<Server, StartError> {
    config.validate()?;
    let store = Arc::new(Store::open(&config.folder, &config.store)?);
    tracing::info!(folder = %config.folder.display(), "opened the store");
    Ok(Server::start(config.server, router(&store))?)
}

/// The methods of a store.
pub fn router(store: &Arc<Store>) -> Router {
    let methods = [
        (native::GET, "get", Class::default()),
        (native::GET_SMALL, "get_small", Class::default()),
        (native::GET_LARGE, "get_large", LARGE),
    ];
    let router = Router::new().class(Class::default(), "small").class(LARGE, "large");
    methods.into_iter().fold(router, |router, (method, name, class)| {
        let store = store.clone();
        router.method_in_class(method, name, class, move |ctx, key| {
            let store = store.clone();
            async move { get(&store, &ctx, &key).await }
        })
    })
}

async fn get(store: &Store, ctx: &Context, key: &Bytes) -> Result<Bytes, Status> {
    store.get(ctx, key).await.map_err(|error| match error {
        GetError::Rejected(rejected) => rejected.into(),
        GetError::Key(error) => Status::error(Status::INVALID, error.to_string()),
        error => Status::error(Status::INTERNAL, error.to_string()),
    })
}
