//! Boosts of the agent's containers: late requests that the kernel or services see, levers that are
//! quick, and what the policy decided in the end (SurgeGuard §IV-A).
//!
//! ```text
//!   FirstResponder or Bell ─ worker ─► Booster ─► Board ─► levers: quota, frequency, page
//!                                                   ▲
//!   Agent ─ Boosted (around its actuator) ──────────┘   what stands without a boost
//! ```

mod board;
mod boosted;
pub(super) mod config;
mod downstream;
mod lever;
mod respond;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::agent::actuator::Target;
use crate::responder::{
    Bell, BellError, FirstResponder, Path, Refused, SERVICES_MAX, Service, Services, Slot,
    Unavailable, WorkerConfig,
};
use board::{Board, Booster};
use config::{Responder, Way};

/// Why nobody sees late requests.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unwatched {
    /// The kernel does not take the program.
    #[error("responder.way = \"kernel\": {0}")]
    Kernel(#[source] Unavailable),
    /// The doorbell cannot be heard.
    #[error(transparent)]
    Bell(#[from] BellError),
    /// There is no thread to be had.
    #[error("no thread for boosts: {0}")]
    Thread(#[from] std::io::Error),
}

/// Who sees late requests.
#[derive(Debug)]
enum Watcher {
    Kernel(Box<FirstResponder>),
    Bell(Bell),
}

/// Who sees them, and what is done then. When it is dropped, what is boosted is lowered.
#[derive(Debug)]
pub(super) struct Response {
    watcher: Watcher,
    board: Arc<Board>,
    services: Services,
    list: Vec<Service>,
    /// Services that there are no slots for.
    unwatched: usize,
    window: Duration,
    /// When the clock was last compared, and counts were read.
    tended_ns: Option<u64>,
    /// Boosts in the log of decisions: the second, and how many it has.
    logged: (u64, u32),
}

/// What the FirstResponder counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResponderStatus {
    /// Who sees late requests: `kernel`, `doorbell`, or nobody.
    pub source: Option<&'static str>,
    /// Requests that were looked at, or rings.
    pub requests: u64,
    /// Those that were late.
    pub late: u64,
    /// Those that led to a boost.
    pub decisions: u64,
    /// Those that did not although they were late or could not be judged, by why.
    pub ignored: BTreeMap<&'static str, u64>,
    /// Boosts that were cut or refused, by why.
    pub cut: BTreeMap<&'static str, u64>,
    /// Boosts that could not be written, or whose end could not.
    pub failures: u64,
    /// Boosts that the log of decisions has no line for.
    pub unlogged: u64,
    /// By container.
    pub boosts: BTreeMap<String, Boosts>,
}

/// What a container was given for moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Boosts {
    /// How often.
    pub boosts: u64,
    /// For how long together.
    pub seconds: f64,
    /// Whether it is boosted now.
    pub is_boosted: bool,
}

impl Response {
    fn begin(config: &Responder, pages: &FilePath, board: Arc<Board>) -> Result<Self, Unwatched> {
        let watcher = watcher(config, pages, &board)?;
        let window = config.responder().window;
        let mut it = Self {
            watcher,
            board,
            services: Services::default(),
            list: Vec::new(),
            unwatched: 0,
            window,
            tended_ns: None,
            logged: (0, 0),
        };
        let of = |path: &config::PathWindow| Path { number: path.path, window: path.window };
        let paths: Vec<Path> = config.paths.iter().map(of).collect();
        let told = match &mut it.watcher {
            Watcher::Kernel(kernel) => kernel.set_paths(&paths),
            Watcher::Bell(bell) => bell.set_paths(&paths),
        };
        told.map_err(BellError::from)?;
        Ok(it)
    }

    /// The kernel or the doorbell.
    fn source(&self) -> &'static str {
        match self.watcher {
            Watcher::Kernel(_) => "kernel",
            Watcher::Bell(_) => "doorbell",
        }
    }

    /// For how long paths without a window of their own are frozen.
    fn set_window(&mut self, window: Duration) -> Result<(), Refused> {
        if window == self.window {
            return Ok(());
        }
        match &mut self.watcher {
            Watcher::Kernel(kernel) => kernel.set_window(window)?,
            Watcher::Bell(bell) => bell.set_window(window)?,
        }
        self.window = window;
        Ok(())
    }

    /// Leaves out those that there are no slots for.
    fn cut(&mut self, list: &mut Vec<Service>) {
        let unwatched = list.len().saturating_sub(SERVICES_MAX);
        if unwatched > self.unwatched {
            tracing::warn!(unwatched, "late requests of {SERVICES_MAX} services are seen, no more");
        }
        self.unwatched = unwatched;
        list.truncate(SERVICES_MAX);
        if unwatched > 0 {
            let there: BTreeSet<String> = list.iter().map(|service| service.name.clone()).collect();
            list.iter_mut().for_each(|one| one.downstream.retain(|name| there.contains(name)));
        }
    }

    fn set_services(&mut self, list: Vec<Service>) -> Result<(), Refused> {
        if list == self.list {
            return Ok(());
        }
        self.services.set(&list)?;
        match &mut self.watcher {
            Watcher::Kernel(kernel) => kernel.follow(&self.services),
            Watcher::Bell(bell) => bell.follow(&self.services),
        }
        self.list = list;
        Ok(())
    }

    /// A container has gone.
    pub(super) fn forget(&self, target: &Target) {
        self.board.forget(&boosted::key(target));
    }

    fn slot(&self, service: &str) -> Option<Slot> {
        self.services.slot(service)
    }

    fn refresh_clock(&mut self) {
        if let Watcher::Kernel(kernel) = &mut self.watcher {
            kernel.refresh_clock();
        }
    }

    /// Lowers all that is raised, and raises nothing more.
    fn rest(&mut self) {
        match &mut self.watcher {
            Watcher::Kernel(kernel) => kernel.rest(),
            Watcher::Bell(bell) => bell.rest(),
        }
    }

    /// What was seen and done; `boosts` is by container and filled in by the agent.
    fn status(&self) -> ResponderStatus {
        let mut status = ResponderStatus { source: Some(self.source()), ..Default::default() };
        match &self.watcher {
            Watcher::Kernel(kernel) => {
                let stats = kernel.stats();
                (status.requests, status.late) = (stats.requests, stats.late());
                status.decisions = stats.boosts;
                status.ignored = stats.ignored().into();
            }
            Watcher::Bell(bell) => {
                let stats = bell.stats();
                (status.requests, status.late) = (stats.rung, stats.late());
                status.decisions = stats.worker.decisions;
                status.ignored = stats.ignored_by().into();
            }
        }
        let counts = self.board.counts();
        let load =
            |of: &std::sync::atomic::AtomicU64| of.load(std::sync::atomic::Ordering::Relaxed);
        let cut = [("room", &counts.room), ("limit", &counts.limit), ("share", &counts.share)];
        status.cut = cut.map(|(why, count)| (why, load(count))).into();
        (status.failures, status.unlogged) = (load(&counts.failures), load(&counts.untold));
        status
    }
}

fn watcher(config: &Responder, pages: &FilePath, board: &Arc<Board>) -> Result<Watcher, Unwatched> {
    let booster = || Box::new(Booster::new(board.clone()));
    let (settings, worker) = (config.responder(), WorkerConfig::default());
    if config.way != Way::Doorbell {
        match FirstResponder::load(&settings) {
            Ok(mut kernel) => {
                kernel.work(worker, booster())?;
                return Ok(Watcher::Kernel(Box::new(kernel)));
            }
            Err(error) if config.way == Way::Kernel => return Err(Unwatched::Kernel(error)),
            Err(error) => tracing::warn!(%error, "services tell of late requests instead"),
        }
    }
    Ok(Watcher::Bell(Bell::listen(pages, &settings, worker, booster())?))
}

/// What would be used, for people.
pub(super) fn outlook(config: &Responder) -> String {
    let kernel = || FirstResponder::load(&config.responder());
    match config.way {
        Way::Off => "nobody looks at single requests (responder.way = \"off\")".to_owned(),
        Way::Doorbell => "services tell of late requests (responder.way = \"doorbell\")".to_owned(),
        Way::Kernel | Way::Auto => match kernel() {
            Ok(_) => "late requests are seen in the kernel".to_owned(),
            Err(error) if config.way == Way::Kernel => {
                format!("late requests are not seen, and the agent will not begin: {error}")
            }
            Err(error) => format!("services tell of late requests, not the kernel: {error}"),
        },
    }
}
