//! A server in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Ticks per second in which Linux tells the CPU time of a process (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Where user and system time stand in `/proc/PID/stat`, behind the name in parentheses.
const TIMES: std::ops::Range<usize> = 11..13;

/// What a server says on standard output once it is ready, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Where it listens for the native protocol.
    pub address: SocketAddr,
    /// Where it listens for memcached's protocol.
    #[serde(default)]
    pub memcached: Option<SocketAddr>,
    /// Where its metrics and their page are.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
}

impl Ready {
    /// A server of the native protocol alone.
    pub fn at(address: SocketAddr) -> Self {
        Self { address, memcached: None, metrics: None }
    }
}

/// A running `seawall serve`. It ends when this is dropped, and also when this process dies.
pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where its metrics are, if it shows them.
    pub metrics: Option<SocketAddr>,
}

impl Server {
    /// Starts `seawall serve` with these options, at a port that the system chooses, and waits
    /// until it listens.
    ///
    /// # Errors
    ///
    /// If it does not; what it has to say of errors stands on our own standard error.
    pub fn start(options: impl IntoIterator<Item = String>) -> Result<Self> {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"];
        Self::spawn(fixed.map(str::to_owned).into_iter().chain(options))
    }

    /// Starts this program with these arguments, which make it a server that says where it listens
    /// and ends with its standard input.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn spawn(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Self::ready(command).context("cannot start a server process")
    }

    /// Starts another program, with its arguments, that does the same.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn of_program(program: &[String]) -> Result<Self> {
        let (name, arguments) = program.split_first().context("there is no program")?;
        let mut command = Command::new(name);
        command.args(arguments);
        Self::ready(command).with_context(|| format!("cannot start {name}"))
    }

    fn ready(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("the server's output is not connected")?;
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let Ok(ready) = serde_json::from_str::<Ready>(&line) else {
            let status = child.wait()?;
            bail!("the server process did not start ({status}); it says above why");
        };
        let Ready { address, metrics, .. } = ready;
        Ok(Self { child, output, address, metrics })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time that it has used so far, if the system tells.
    pub fn cpu_time(&self) -> Option<Duration> {
        cpu_time(self.child.id())
    }

    /// Stops it in peace, and gives what it says then: a few seconds where it has much to answer.
    ///
    /// # Errors
    ///
    /// If what it says cannot be read.
    pub fn last_words(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut words = String::new();
        self.output.read_to_string(&mut words).context("cannot read what a server says")?;
        Ok(words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An overloaded server would first answer all that it has accepted; nobody waits for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that a process has used so far, if the system tells.
pub fn cpu_time(process: u32) -> Option<Duration> {
    parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// User and system time of a line of `/proc/PID/stat`.
fn parse(stat: &str) -> Option<Duration> {
    // The name may have spaces and parentheses in it.
    let (_, behind) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    let ticks: Option<Vec<u64>> =
        fields.get(TIMES)?.iter().map(|ticks| ticks.parse().ok()).collect();
    Some(Duration::from_secs_f64(ticks?.iter().sum::<u64>() as f64 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "77 (a) b) S 1 77 77 0 -1 4194560 9 8 7 6 120 30 5 4 20 0 3 0 99";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_500)));
        assert_eq!(parse("77 (a) S 1"), None);
    }
}
