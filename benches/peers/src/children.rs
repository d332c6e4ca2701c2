//! Servers, proxies and loads, each a process of its own on its core.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::cases::Experiment;
use crate::envoy;
use crate::measure::SLO;
use crate::rows::{Front, Row, Stack};

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// The programs that take part.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The `seawall` command.
    pub seawall: PathBuf,
    /// The server in Go.
    pub go: PathBuf,
    /// The server in Rust.
    pub rust: PathBuf,
    /// Envoy.
    pub envoy: PathBuf,
}

/// Where they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The server's.
    pub server: usize,
    /// That of the load and of proxies.
    pub load: usize,
}

/// A running process. It ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Servers end with their standard input, also when this process dies.
    _stdin: Option<ChildStdin>,
    /// Where it listens.
    pub address: SocketAddr,
}

#[derive(Deserialize)]
struct Ready {
    address: SocketAddr,
}

impl Cores {
    /// The first two that this process may use.
    ///
    /// # Errors
    ///
    /// If there are no two.
    pub fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("which cores are there?")?;
        let is_there = |core: &usize| allowed.is_set(*core).unwrap_or(false);
        let mut cores = (0..CpuSet::count()).filter(is_there);
        match (cores.next(), cores.next()) {
            (Some(server), Some(load)) => Ok(Self { server, load }),
            _ => bail!("server and load need a core each, and this process may use one only"),
        }
    }
}

impl Programs {
    /// Whether all of them are there.
    ///
    /// # Errors
    ///
    /// Names the one that is not.
    pub fn check(&self) -> Result<()> {
        for program in [&self.seawall, &self.go, &self.rust, &self.envoy] {
            if !program.is_file() {
                bail!("{} is not there; `make peers` builds and installs all", program.display());
            }
        }
        Ok(())
    }

    /// Starts the server of a row.
    ///
    /// # Errors
    ///
    /// If it does not start; it says why on standard error.
    pub fn serve(
        &self,
        row: &Row,
        experiment: &Experiment,
        hold: Duration,
        cores: Cores,
    ) -> Result<Running> {
        let (program, dash) = match row.stack {
            Stack::Go => (&self.go, "-"),
            Stack::Rust => (&self.rust, "--"),
        };
        let mut command = Command::new(program);
        let mut set = |name: &str, value: &str| {
            command.arg(format!("{dash}{name}={value}"));
        };
        set("peer", row.peer);
        set("work", experiment.work());
        set("proto", experiment.proto());
        set("hold", &format!("{}us", hold.as_micros()));
        set("errors", &experiment.errors.to_string());
        if row.tuned && row.front == Front::Direct {
            command.arg(format!("{dash}tuned"));
        }
        command.env("GOMAXPROCS", "1");
        Running::server(command, cores.server)
    }

    /// Starts what stands before the server at `upstream`, if anything does.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn front(
        &self,
        row: &Row,
        experiment: &Experiment,
        upstream: SocketAddr,
        folder: &Path,
        cores: Cores,
    ) -> Result<Option<Running>> {
        match row.front {
            Front::Direct => Ok(None),
            Front::Envoy => {
                let listen = free_address()?;
                let config = envoy::config(listen, upstream, experiment.protocol, row.tuned);
                let file = folder.join("envoy.json");
                let mut written = std::fs::File::create(&file)
                    .with_context(|| format!("cannot write {}", file.display()))?;
                written.write_all(serde_json::to_string_pretty(&config)?.as_bytes())?;
                let mut command = Command::new(&self.envoy);
                command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"]);
                command.arg(&file);
                Running::listening(command, listen, cores.load).map(Some)
            }
            Front::Seawall => {
                let mut command = Command::new(&self.seawall);
                command.args(["proxy", "--listen=127.0.0.1:0", "--until-stdin-ends"]);
                command.arg(format!("--upstream=http://{upstream}"));
                let slo = format!("upstreams.default.slo={}ms", SLO.as_millis());
                for setting in ["threads=1", "mode=enforce", &slo] {
                    command.args(["--set", setting]);
                }
                Running::server(command, cores.load).map(Some)
            }
        }
    }
}

impl Running {
    /// Starts a server that says where it listens.
    fn server(mut command: Command, core: usize) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = on_core(core, || command.spawn())?
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let output = child.stdout.take().context("its output is not connected")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let Ok(Ready { address }) = serde_json::from_str(&line) else {
            let status = child.wait()?;
            bail!("{:?} did not start ({status}); it says above why", command.get_program());
        };
        let stdin = child.stdin.take();
        Ok(Self { child, _stdin: stdin, address })
    }

    /// Starts a program that is to listen at `address`.
    fn listening(mut command: Command, address: SocketAddr, core: usize) -> Result<Self> {
        command.stdin(Stdio::null());
        let child = on_core(core, || command.spawn())?
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let mut running = Self { child, _stdin: None, address };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = running.child.try_wait()? {
                bail!("{:?} ended ({status}); it says above why", command.get_program());
            }
            if begin.elapsed() > PATIENCE {
                bail!("{:?} does not listen at {address}", command.get_program());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// Processor time that it has used so far, if the system tells.
    pub fn cpu_time(&self) -> Option<Duration> {
        cpu_time(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs `start` so that what it starts runs on this core: processes inherit it.
///
/// # Errors
///
/// If the system does not let this process use the core.
pub fn on_core<T>(core: usize, start: impl FnOnce() -> T) -> Result<T> {
    let own = sched_getaffinity(Pid::from_raw(0))?;
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("the system does not let this process use core {core}"))?;
    let started = start();
    sched_setaffinity(Pid::from_raw(0), &own)?;
    Ok(started)
}

/// An address at which nobody listens now.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// What the scheduler has counted for all threads of a process.
fn cpu_time(process: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Duration::from_nanos(threads.filter_map(of_thread).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_has_used_processor_time() {
        let before = cpu_time(std::process::id()).unwrap();
        while cpu_time(std::process::id()).unwrap() < before + Duration::from_millis(1) {
            std::hint::black_box(before);
        }
    }

    #[test]
    fn what_ends_at_once_is_told() {
        let error = Running::listening(Command::new("false"), free_address().unwrap(), 0);
        assert!(error.unwrap_err().to_string().contains("ended"));
    }
}
