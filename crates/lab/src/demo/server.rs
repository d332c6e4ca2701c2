//! The demo's servers: processes of their own.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use seawall_control::admission;
use seawall_control::predict::lock::LockKind;
use seawall_kv::server::{KvConfig, KvServer};
use seawall_rpc::{ClientConfig, Limits, Server, ServerConfig};
use serde::{Deserialize, Serialize};

use super::result::NO_CONTROL;
use super::service::Service;
use crate::child::{self, Ready};
use crate::load::probe;
use crate::load::workload::Workload;
use crate::{output, pin, synthetic};

/// Without control nothing else may bound the load either.
const OUTSTANDING: u32 = 1_000_000;

/// What a server process is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) service: Service,
    pub(super) algorithm: String,
    pub(super) slo: Duration,
    pub(super) rtt: Duration,
    /// The core that it keeps to, if it has one of its own.
    pub(super) core: Option<usize>,
}

impl Spec {
    /// Starts the process, waits until it listens, and fills its store if it has one. `command` is
    /// what this program is called with, before the options of the demo.
    pub(super) fn start(&self, command: &[&str]) -> Result<child::Server> {
        let spec = serde_json::to_string(self)?;
        let arguments = command.iter().copied().chain(["--serve", &spec]).map(str::to_owned);
        let server = child::Server::spawn(arguments)?;
        if let Workload::Kv(mix) = self.service.workload() {
            probe::fill(server.address, &ClientConfig::default(), &mix, |_| {})?;
        }
        Ok(server)
    }

    /// Serves, in this process, until its standard input ends.
    pub(super) fn serve(&self) -> Result<()> {
        if let Some(core) = self.core {
            pin::to_core(core)?;
        }
        match self.service.synthetic() {
            None => {
                let config = KvConfig { server: self.config(), ..KvConfig::default() };
                let server = KvServer::start(config)?;
                until_input_ends(&Ready::at(server.address()))
            }
            Some(mut service) => {
                if self.algorithm == NO_CONTROL {
                    service.locks = LockKind::Plain;
                }
                let server = Server::start(self.config(), synthetic::router(&service))?;
                until_input_ends(&Ready::at(server.address()))
            }
        }
    }

    fn config(&self) -> ServerConfig {
        ServerConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            slo: self.slo,
            rtt: self.rtt,
            admission: admission::Config::named(&self.algorithm),
            threads: self.service.threads(),
            limits: Limits { outstanding: OUTSTANDING, ..Limits::default() },
            ..ServerConfig::default()
        }
    }
}

fn until_input_ends(ready: &Ready) -> Result<()> {
    output::print(&(serde_json::to_string(ready)? + "\n"))?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}
