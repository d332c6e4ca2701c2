//! Waiting until the server is told to stop.

use std::future::pending;
use std::io;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::live::{self, Asks};

/// What ends a server: SIGTERM, SIGINT (Ctrl-C), or the end of standard input.
pub(crate) struct Stop {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    stdin: Option<oneshot::Receiver<()>>,
}

impl Stop {
    /// From now on, signals are noticed rather than deadly: call it before anybody is told that the
    /// server is ready.
    ///
    /// # Errors
    ///
    /// If the system does not let this process handle signals.
    pub(crate) fn listen(until_stdin_ends: bool) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot handle Ctrl-C")?;
        drop(entered);
        let stdin = until_stdin_ends.then(stdin_end);
        Ok(Self { runtime, terminate, interrupt, stdin })
    }

    /// Waits, and calls `tick` once in each `period`, the first time at once.
    pub(crate) fn wait(self, period: Duration, tick: impl FnMut()) {
        let (_, asks) = live::asks();
        self.wait_and_publish(period, asks, tick);
    }

    /// The same, and also whenever somebody asks.
    pub(crate) fn wait_and_publish(self, period: Duration, mut asks: Asks, mut tick: impl FnMut()) {
        let Self { runtime, mut terminate, mut interrupt, stdin } = self;
        runtime.block_on(async {
            let stdin = async {
                match stdin {
                    Some(end) => _ = end.await,
                    None => pending().await,
                }
            };
            tokio::pin!(stdin);
            let mut ticks = tokio::time::interval(period);
            loop {
                let cause = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    () = &mut stdin => "the end of standard input",
                    _ = ticks.tick() => {
                        tick();
                        continue;
                    }
                    Some(ask) = asks.recv() => {
                        tick();
                        let _ = ask.send(()); // who asked may have lost patience
                        continue;
                    }
                };
                tracing::info!(cause, "stopping");
                return;
            }
        });
    }
}

/// Told when standard input ends, or cannot be read. The thread that waits for it is never joined.
pub(crate) fn stdin_end() -> oneshot::Receiver<()> {
    let (tell, end) = oneshot::channel();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = tell.send(());
    });
    end
}
