//! The proxy as a whole: its threads, from start to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use seawall_measure::names;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, ConfigError};
use crate::listen;
use crate::shared::{Shared, State};
use crate::tls::TlsError;

/// Why there is no proxy, or why it goes on as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A value cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody can listen there.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The system gives no thread or no reactor.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// What had not finished when the proxy's time to stop was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("requests: {requests}, connections: {connections}")]
#[non_exhaustive]
pub struct Unfinished {
    /// Requests that waited, or were with a replica.
    pub requests: u32,
    /// Connections of clients, those among them that have switched to another protocol.
    pub connections: usize,
}

/// A running proxy. Dropping it ends it at once; [`shutdown`](Self::shutdown) lets requests finish.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    workers: Vec<Worker>,
    /// Ends the threads.
    end: CancellationToken,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens, and forwards from now on.
    ///
    /// # Errors
    ///
    /// Names the key or file that cannot be used, or the address.
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.validate()?;
        let end = CancellationToken::new();
        let count = match config.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let mut workers = Vec::with_capacity(count);
        for number in 0..count {
            workers.push(Worker::start(number, &end)?);
        }
        let listener = {
            let _in_runtime = workers[0].runtime.enter();
            let address = config.listen;
            listen::listen(address).map_err(|error| StartError::Listen { address, error })?
        };
        let room = Arc::new(Semaphore::new(config.limits.connections));
        let state = State::new(config, count, &workers[0].runtime, None)?;
        let shared = Arc::new(Shared {
            state: ArcSwap::from_pointee(state),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            room,
        });
        Self::accept(shared, listener, workers, end)
    }

    fn accept(
        shared: Arc<Shared>,
        listener: TcpListener,
        workers: Vec<Worker>,
        end: CancellationToken,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr()?;
        let handles = workers.iter().map(|worker| worker.runtime.clone()).collect();
        workers[0].runtime.spawn(listen::accept(shared.clone(), listener, handles));
        Ok(Self { shared, address, workers, end })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The configuration that counts now.
    pub fn config(&self) -> Config {
        self.shared.state.load().config.clone()
    }

    /// Lets another configuration count, for all requests from now on; those that were begun end as
    /// they began. Replicas that are in both keep their connections and what is known of them.
    ///
    /// # Errors
    ///
    /// Names what cannot be used, or cannot change while the proxy runs; then nothing has changed.
    pub fn reload(&self, config: Config) -> Result<(), StartError> {
        config.validate()?;
        let before = self.shared.state.load_full();
        if let Some(key) = before.config.fixed_that_differ(&config) {
            let problem = "it cannot change while the proxy runs; start the proxy anew for that";
            return Err(ConfigError::new(key, problem).into());
        }
        let runtime = &self.workers[0].runtime;
        let state = State::new(config, self.workers.len(), runtime, Some(&before))?;
        before.publish(); // what of it is no more is not asked again
        self.shared.state.store(Arc::new(state));
        Ok(())
    }

    /// Tells the recorder of `metrics` what is so now; what has happened is told when it does, or
    /// here. Call it now and then, and before somebody reads.
    pub fn publish(&self) {
        self.shared.state.load().publish();
        let open = self.shared.state.load().config.limits.connections;
        let open = open.saturating_sub(self.shared.room.available_permits());
        metrics::gauge!(names::CONNECTIONS_OPEN.name).set(open as f64);
    }

    /// Accepts nothing more, lets requests finish for at most `timeouts.drain`, and ends.
    ///
    /// # Errors
    ///
    /// Says how much has not finished, and was cut off.
    pub fn shutdown(mut self) -> Result<(), Unfinished> {
        let patience = self.shared.state.load().config.timeouts.drain;
        self.shared.stop.cancel();
        self.shared.tasks.close();
        let finished = self.wait_for_tasks(patience);
        let requests = self.shared.state.load().outstanding();
        let connections = self.shared.tasks.len();
        self.end();
        if finished { Ok(()) } else { Err(Unfinished { requests, connections }) }
    }

    /// Waits until no connection is left, from a thread that no reactor belongs to.
    fn wait_for_tasks(&self, patience: Duration) -> bool {
        let (tell, told) = mpsc::channel();
        let tasks = self.shared.tasks.clone();
        self.workers[0].runtime.spawn(async move {
            tasks.wait().await;
            let _ = tell.send(());
        });
        told.recv_timeout(patience).is_ok()
    }

    fn end(&mut self) {
        self.shared.stop.cancel();
        self.end.cancel();
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            if thread.join().is_err() {
                tracing::error!("a thread of the proxy has panicked");
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// A thread with a reactor of its own: what a connection does never moves to another one.
    fn start(number: usize, end: &CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let end = end.clone();
        let thread = thread::Builder::new().name(format!("proxy-{number}"));
        let thread = thread.spawn(move || runtime.block_on(end.cancelled()))?;
        Ok(Self { runtime: handle, thread: Some(thread) })
    }
}
