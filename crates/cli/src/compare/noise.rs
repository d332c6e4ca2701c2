//! Noise: other programs on the node of a replica, in bursts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use seawall_control::Rng;
use seawall_measure::ServiceTime;
use serde::Deserialize;
use toml::Table;

use crate::groups::{Group, Groups};

/// What disturbs replicas: a program beside them, or something that they do themselves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noise {
    /// The replicas, from 0. All that are named are disturbed at the same time.
    pub(super) replicas: Vec<usize>,
    /// The program and its arguments.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// Or what goes over their configuration.
    #[serde(default)]
    pub(super) serve: Table,
    /// Or further arguments of the plan's program.
    #[serde(default)]
    pub(super) program: Vec<String>,
    /// How long it pauses between bursts. Default: it never does.
    pub(super) pauses: Option<ServiceTime>,
    /// How long a burst takes; needs `pauses`.
    pub(super) lasts: Option<ServiceTime>,
}

/// Noise under way. It ends when this is dropped.
pub(super) struct Running {
    stop: Sender<()>,
    timer: Option<JoinHandle<()>>,
    programs: Vec<Program>,
}

/// One program beside one replica, with all that it starts: a process group of its own.
#[derive(Debug)]
struct Program(Child);

impl Noise {
    /// What is wrong with it, for so many replicas.
    ///
    /// # Errors
    ///
    /// Says what is allowed.
    pub(super) fn check(&self, replicas: usize) -> Result<(), String> {
        let kinds = [self.command.is_empty(), self.serve.is_empty(), self.program.is_empty()];
        if kinds.into_iter().filter(|is_empty| !is_empty).count() != 1 {
            let kinds = "command, a program and its arguments, or serve, or program";
            return Err(format!("write either {kinds}"));
        }
        if self.replicas.is_empty() || self.replicas.iter().any(|replica| *replica >= replicas) {
            return Err(format!("replicas: name some of 0 to {}", replicas - 1));
        }
        if self.pauses.is_some() != self.lasts.is_some() {
            return Err("pauses and lasts go together".into());
        }
        if self.pauses.is_some() && !self.is_program() {
            return Err("pauses and lasts are about a command".into());
        }
        Ok(())
    }

    /// Whether it is a program of its own.
    pub(super) fn is_program(&self) -> bool {
        !self.command.is_empty()
    }

    /// Starts it in the groups of the replicas; equal seeds make equal bursts.
    ///
    /// # Errors
    ///
    /// If the program does not start.
    ///
    /// # Panics
    ///
    /// If it is no [program](Self::is_program).
    pub(super) fn start(&self, groups: &Groups, seed: u64) -> Result<Running> {
        let start = |&replica: &usize| Program::start(&self.command, groups.of(replica));
        let programs: Vec<Program> = self.replicas.iter().map(start).collect::<Result<_>>()?;
        let (stop, stopped) = mpsc::channel();
        let mut timer = None;
        if let (Some(pauses), Some(lasts)) = (self.pauses, self.lasts) {
            let all: Vec<Pid> = programs.iter().map(Program::group).collect();
            let mut rng = Rng::new(seed);
            timer = Some(std::thread::spawn(move || {
                let mut pause = true;
                loop {
                    let signal = if pause { Signal::SIGSTOP } else { Signal::SIGCONT };
                    all.iter().for_each(|group| _ = killpg(*group, signal));
                    let time = if pause { pauses } else { lasts }.sample(&mut rng);
                    if stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                    pause = !pause;
                }
            }));
        }
        Ok(Running { stop, timer, programs })
    }
}

impl Program {
    fn start(command: &[String], group: &Group) -> Result<Self> {
        let missing = || format!("noise: cannot start {}; is it installed?", command[0]);
        // The shell joins the group, and then becomes the program.
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(group.members())
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(missing)?;
        // Programs such as stress-ng take some time until all of them is there.
        std::thread::sleep(STARTING);
        if let Some(status) = child.try_wait()? {
            bail!("noise: {} has ended at once ({status})", command[0]);
        }
        Ok(Self(child))
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }
}

/// How long a program gets to start what it consists of.
const STARTING: Duration = Duration::from_millis(200);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
        for program in &mut self.programs {
            let _ = killpg(program.group(), Signal::SIGKILL);
            let _ = program.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let read = |text: &str| toml::from_str::<Noise>(text).map_err(|error| error.to_string());
        let good = "replicas = [0, 2]\ncommand = ['stress-ng', '--cpu', '4']\n";
        assert_eq!(read(good).unwrap().check(3), Ok(()));
        let problem = read(good).unwrap().check(2).unwrap_err();
        assert_eq!(problem, "replicas: name some of 0 to 1");
        let half = read(&format!("{good}pauses = 'exp:1s'")).unwrap();
        assert_eq!(half.check(3).unwrap_err(), "pauses and lasts go together");
        assert!(read("replicas = [0]\ncommand = []").unwrap().check(1).is_err());
        let both = read(&format!("{good}serve.kv.pipeline = 1")).unwrap();
        assert!(both.check(3).unwrap_err().starts_with("write either command"));
        let own = read("replicas = [0]\nserve.kv.pipeline = 1").unwrap();
        assert_eq!((own.check(1), own.is_program()), (Ok(()), false));
        assert!(read(&format!("{good}every = '1s'")).unwrap_err().contains("every"));
    }
}
