//! A server in a process of its own, on a core of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::measure::Subject;
use crate::serve::Ready;
use seawall_control::config::duration;

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

impl Server {
    /// Starts `seawall serve` and waits until it listens.
    pub(super) fn start(setup: Setup<'_>) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .args(["--pin", &setup.core.to_string(), "--algorithm", setup.algorithm])
            .args(["--slo", &duration::format(setup.slo)])
            .args(["--set", &format!("server.rtt={}", duration::format(setup.rtt))])
            // Without control nothing else may bound the load either.
            .args(["--set", "server.limits.outstanding=1000000"])
            .arg(setup.subject.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a server process")?;
        let mut line = String::new();
        let output = child.stdout.take().context("the server's output is not connected")?;
        BufReader::new(output).read_line(&mut line)?;
        let Ok(ready) = serde_json::from_str::<Ready>(&line) else {
            let status = child.wait()?;
            bail!("the server did not start ({status}); `seawall serve` says why");
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
