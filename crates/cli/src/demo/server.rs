//! A server in a process of its own, on a core of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use seawall_control::config::duration;
use seawall_rpc::ClientConfig;

use super::plan::{SYNTHETIC_SERVICE, Subject};
use crate::load::probe;
use crate::load::workload::Workload;
use crate::serve::Ready;

/// The server of some points. It ends when this is dropped, and also when this process dies.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

/// What a server is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) subject: Subject,
    pub(super) algorithm: &'a str,
    pub(super) core: usize,
    pub(super) slo: Duration,
    pub(super) rtt: Duration,
}

impl Setup<'_> {
    /// Starts `seawall serve`, waits until it listens, and fills its store if it has one.
    pub(super) fn start(&self) -> Result<Server> {
        let server = Server::start(self)?;
        if let Workload::Kv(mix) = self.subject.workload() {
            probe::fill(server.address, &ClientConfig::default(), &mix, |_| {})?;
        }
        Ok(server)
    }

    fn command(&self) -> Result<Command> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .args(["--pin", &self.core.to_string(), "--algorithm", self.algorithm])
            .args(["--slo", &duration::format(self.slo)])
            .args(["--set", &format!("server.rtt={}", duration::format(self.rtt))])
            // Without control nothing else may bound the load either.
            .args(["--set", "server.limits.outstanding=1000000"])
            .arg(self.subject.name());
        if self.subject == Subject::Synthetic {
            command.args(["--service", &SYNTHETIC_SERVICE.to_string()]);
        }
        Ok(command)
    }
}

impl Server {
    fn start(setup: &Setup<'_>) -> Result<Self> {
        // What it has to say of errors stands on our own standard error.
        let mut child = setup
            .command()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a server process")?;
        let mut line = String::new();
        let output = child.stdout.take().context("the server's output is not connected")?;
        BufReader::new(output).read_line(&mut line)?;
        let Ok(ready) = serde_json::from_str::<Ready>(&line) else {
            let status = child.wait()?;
            bail!("the server process did not start ({status}); it says above why");
        };
        Ok(Self { child, address: ready.address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An overloaded server would first answer all that it has accepted; nobody waits for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
