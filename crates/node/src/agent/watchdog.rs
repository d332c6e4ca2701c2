//! A small process that puts containers back when the agent dies.
//!
//! It holds one end of a pipe whose other end only the agent has, and does nothing until that
//! closes: whatever ends the agent, the system closes it. Services do not depend on either.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use super::state::{RETRY, Restored, State, StateError};

/// The watchdog as the agent sees it.
#[derive(Debug)]
pub struct Watchdog {
    program: PathBuf,
    arguments: Vec<String>,
    child: Option<(Child, ChildStdin)>,
    starts: u64,
}

impl Watchdog {
    /// Starts `program arguments`, which calls [`watch`].
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(program: PathBuf, arguments: Vec<String>) -> io::Result<Self> {
        let mut watchdog = Self { program, arguments, child: None, starts: 0 };
        watchdog.spawn()?;
        Ok(watchdog)
    }

    fn spawn(&mut self) -> io::Result<()> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C in a terminal goes to the whole group of processes; it is not meant for it.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::other("it has no pipe"))?;
        self.child = Some((child, pipe));
        self.starts += 1;
        Ok(())
    }

    /// Starts another one if somebody has killed it; whether that was so.
    ///
    /// # Errors
    ///
    /// If it cannot be started; then it is tried again at the next call.
    pub fn keep(&mut self) -> io::Result<bool> {
        if let Some((child, _)) = &mut self.child
            && child.try_wait()?.is_none()
        {
            return Ok(false);
        }
        self.child = None;
        self.spawn().map(|()| true)
    }

    /// Its process, while there is one.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(|(child, _)| child.id())
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.starts
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((mut child, pipe)) = self.child.take() {
            // It ends by itself. Nobody waits for it: it may have to wait until the lock is free.
            drop(pipe);
            let _ = child.try_wait();
        }
    }
}

/// Waits until the pipe at standard input closes, which process `agent` holds, then puts back what
/// is left to be put back.
/// Nothing is if the agent ended in peace, or if another agent has begun: that has done it.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn watch(folder: &Path, agent: u32) -> Result<Restored, StateError> {
    // What tells an agent to stop, or its terminal to close, must not end who tidies up after it.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE] {
        signals.add(signal);
    }
    let _ = signals.thread_block();
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 64];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    loop {
        match State::open(folder) {
            Ok(mut state) => return Ok(state.restore()),
            // The system closes the files of a process that dies one after the other.
            Err(StateError::Locked { pid, .. }) if pid == Some(agent) => thread::sleep(RETRY),
            Err(StateError::Locked { .. }) => return Ok(Restored::default()),
            Err(error) => return Err(error),
        }
    }
}
