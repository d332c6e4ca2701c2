//! The servers of the demo.

use std::time::Duration;

use anyhow::Result;
use seawall_control::config::duration;
use seawall_rpc::ClientConfig;

use super::plan::{SYNTHETIC_SERVICE, Subject};
use crate::child::Server;
use crate::live::Screen;
use crate::load::probe;
use crate::load::workload::Workload;

/// What a server is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) subject: Subject,
    pub(super) algorithm: &'a str,
    pub(super) core: usize,
    pub(super) slo: Duration,
    pub(super) rtt: Duration,
    pub(super) screen: &'a Screen,
}

impl Setup<'_> {
    /// Starts `seawall serve`, waits until it listens, shows it, and fills its store if it has one.
    pub(super) fn start(&self) -> Result<Server> {
        let server = Server::start(self.options())?;
        self.screen.show(server.metrics);
        if let Workload::Kv(mix) = self.subject.workload() {
            probe::fill(server.address, &ClientConfig::default(), &mix, |_| {})?;
        }
        Ok(server)
    }

    /// What `seawall serve` is told beyond where to listen.
    fn options(&self) -> Vec<String> {
        let mut options = vec![
            format!("--pin={}", self.core),
            format!("--algorithm={}", self.algorithm),
            format!("--slo={}", duration::format(self.slo)),
            format!("--set=server.rtt={}", duration::format(self.rtt)),
            // Without control nothing else may bound the load either.
            "--set=server.limits.outstanding=1000000".to_owned(),
            // The demo's own live page shows what its server records, and may be opened at any
            // time: without this a server records nothing.
            "--metrics=127.0.0.1:0".to_owned(),
            self.subject.name().to_owned(),
        ];
        if self.subject == Subject::Synthetic {
            options.push(format!("--service={SYNTHETIC_SERVICE}"));
        }
        options
    }
}
