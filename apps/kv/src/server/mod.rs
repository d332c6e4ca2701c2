//! The server: one store behind two protocols, and one admission for both.
//!
//! ```text
//!   seawall_rpc::Client ──native──► reader ──┐
//!                                            ├─► admission ─► run queue ─► worker ─► Store
//!   memcached's clients ──text────► parser ──┘                                         ▲
//!                                                            sweep, now and then ──────┘
//! ```
//!
//! Native clients hold back what the server has no credits for. memcached's clients know nothing of
//! that, so they are guests: what the server cannot serve in time is answered with
//! `SERVER_ERROR overloaded`, before it has had any effect. Requests of both are refused where they
//! would have to wait: at admission, in the run queue, at the stage `item_lock`
//! ([`ITEM_LOCK`](crate::store::ITEM_LOCK)), at `slab_lock`
//! ([`SLAB_LOCK`](crate::store::SLAB_LOCK)), in a [`Cluster`] at `ring` ([`RING_LOCK`]), and, where
//! lookups of [large values](LargeValues) are bounded, at
//! [`memory`](seawall_control::request::Stage::MEMORY).
//!
//! ```
//! use seawall_kv::server::{KvConfig, KvServer};
//! use std::io::{BufRead, BufReader, Write};
//! use std::net::TcpStream;
//!
//! let free_port = ([127, 0, 0, 1], 0).into();
//! let mut config = KvConfig { memcached: Some(free_port), ..KvConfig::default() };
//! config.server.listen = free_port;
//! # config.server.slo = std::time::Duration::from_secs(5); // a busy machine is no overload
//! let server = KvServer::start(config)?;
//!
//! let mut client = TcpStream::connect(server.memcached_address().unwrap())?;
//! client.write_all(b"set greeting 0 0 5\r\nhello\r\n")?;
//! let mut reply = String::new();
//! BufReader::new(&client).read_line(&mut reply)?;
//! assert_eq!(reply, "STORED\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod cluster;
mod config;
mod large;
mod memcached;
mod methods;
mod sweep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_control::controller::Signal;
use seawall_rpc::{GuestListener, Guests, Server, Stats};
use thiserror::Error;

pub use cluster::{Cluster, RING_LOCK, Rebalance};
pub use config::KvConfig;
pub use large::LargeValues;

use crate::store::{self, Store};
use cluster::{Membership, Rebalancer};

/// A key-value server that runs on threads of its own. Dropping it stops it at once;
/// [`shutdown`](Self::shutdown) answers first what it has accepted.
#[derive(Debug)]
pub struct KvServer {
    server: Server,
    store: Arc<Store>,
    memcached: Option<GuestListener>,
    _rebalancer: Option<Rebalancer>,
}

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store's configuration cannot be used.
    #[error(transparent)]
    Store(#[from] store::ConfigError),
    /// The configuration of something else cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The native server did not start.
    #[error(transparent)]
    Server(#[from] seawall_rpc::StartError),
    /// The address for memcached's clients cannot be listened at.
    #[error("cannot listen at {address} for memcached clients: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

impl KvServer {
    /// Starts a server with an empty store.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, the certificates or an address.
    pub fn start(config: KvConfig) -> Result<Self, StartError> {
        config.validate()?;
        let store = Arc::new(Store::new(&config.store)?);
        let shared = memcached::Shared::new(&config, store.clone());
        let membership = Membership::new(&config.cluster);
        let router = methods::router(&store, &config.large, &membership);
        let server = Server::start(config.server, router)?;
        let guests = server.guests();
        guests.reactors()[0].spawn(sweep::sweep(store.clone(), config.sweep_period));
        let listen = |address| {
            memcached::listen(address, &guests, shared)
                .map_err(|source| StartError::Listen { address, source })
        };
        let memcached = config.memcached.map(listen).transpose()?;
        if let Some(listener) = &memcached {
            tracing::info!(address = %listener.address(), "listening for memcached clients");
        }
        let rebalancer = membership.rebalance(&config.cluster, &store);
        Ok(Self { server, store, memcached, _rebalancer: rebalancer })
    }

    /// Where it listens for native clients: the configured address, with the port that the system
    /// chose if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Where it listens for memcached's clients, if it does.
    pub fn memcached_address(&self) -> Option<SocketAddr> {
        self.memcached.as_ref().map(GuestListener::address)
    }

    /// What happened so far, at both listeners together.
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Tells the controller what the program has measured, such as power or memory bandwidth, for
    /// utilities that value them.
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// The store, which may be used beside the server.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A way into the same run queue for further protocols.
    pub fn guests(&self) -> Guests {
        self.server.guests()
    }

    /// Stops: lets nothing new in, and waits up to `grace` for what was accepted to be answered and
    /// for native clients to go. What is left then is cancelled.
    pub fn shutdown(self, grace: Duration) {
        if let Some(listener) = &self.memcached {
            listener.stop();
        }
        self.server.shutdown(grace);
    }
}
