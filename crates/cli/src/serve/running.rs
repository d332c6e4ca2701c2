//! A running service of either kind.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use seawall_control::controller::Signal;
use seawall_kv::server::KvServer;
use seawall_lab::child::Ready;
use seawall_rpc::{Server, Stats};
#[cfg(feature = "search")]
use seawall_search::server::SearchServer;

use super::config::Config;
use super::{Service, synthetic};

pub(super) enum Running {
    Native(Server),
    Kv(KvServer),
    #[cfg(feature = "search")]
    Search(SearchServer),
}

impl Running {
    /// Starts `service`.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, the certificates or an address.
    pub(super) fn start(service: &Service, config: &Config) -> Result<Self> {
        Ok(match service {
            Service::Synthetic { .. } => {
                let router = synthetic::router(&config.synthetic);
                Self::Native(Server::start(config.server.clone(), router)?)
            }
            Service::Kv { .. } => Self::Kv(KvServer::start(config.kv())?),
            #[cfg(feature = "rocks")]
            Service::Rocks { .. } => Self::Native(seawall_rocks::server::start(config.rocks())?),
            #[cfg(feature = "columns")]
            Service::Columns { .. } => {
                Self::Native(seawall_columns::server::start(config.columns())?)
            }
            #[cfg(feature = "search")]
            Service::Search { .. } => Self::Search(SearchServer::start(config.search())?),
        })
    }

    pub(super) fn ready(&self, metrics: Option<SocketAddr>) -> Ready {
        let (address, memcached) = match self {
            Self::Native(server) => (server.address(), None),
            Self::Kv(server) => (server.address(), server.memcached_address()),
            #[cfg(feature = "search")]
            Self::Search(server) => (server.address(), None),
        };
        Ready { address, memcached, metrics }
    }

    pub(super) fn stats(&self) -> Stats {
        match self {
            Self::Native(server) => server.stats(),
            Self::Kv(server) => server.stats(),
            #[cfg(feature = "search")]
            Self::Search(server) => server.stats(),
        }
    }

    /// Tells its controller what was measured.
    pub(super) fn signal(&self, signal: Signal) {
        match self {
            Self::Native(server) => server.signal(signal),
            Self::Kv(server) => server.signal(signal),
            #[cfg(feature = "search")]
            Self::Search(server) => server.signal(signal),
        }
    }

    /// Stops; what was accepted has up to `grace` to be answered.
    pub(super) fn shutdown(self, grace: Duration) {
        match self {
            Self::Native(server) => server.shutdown(grace),
            Self::Kv(server) => server.shutdown(grace),
            #[cfg(feature = "search")]
            Self::Search(server) => server.shutdown(grace),
        }
    }
}
