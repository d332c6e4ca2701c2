//! The generator: issues requests on schedule, on threads that never sleep.
//!
//! A sleeping thread would be late by what its wake-up takes, tens of microseconds here. These
//! threads look at the clock, issue what is due, let their sessions read and write, and look again.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use seawall_control::{Instant, Rng};
use seawall_measure::series::SeriesConfig;
use seawall_measure::{
    Arrivals, Process, Recorder, RecorderConfig, Series, Summary, Window, arrivals::Rates,
};
use seawall_rpc::{ClientConfig, Session, clock};
use tokio::runtime::{Builder, Runtime};

use super::issue::Books;
use super::sessions;
use super::workload::Workload;

/// Requests issued at most before the sessions get their turn.
const BATCH: usize = 32;

/// Between connecting and the first request, so that all threads start together.
const LEAD: Duration = Duration::from_millis(20);

/// How long to wait, after the last request, for what is still on its way.
const LINGER: Duration = Duration::from_millis(300);

/// A load.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) client: ClientConfig,
    pub(crate) workload: Workload,
    pub(crate) sessions: u32,
    pub(crate) threads: u32,
    pub(crate) process: Process,
    pub(crate) rates: Rates,
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    /// The latency that counts as good; what the server says if not given.
    pub(crate) slo: Option<Duration>,
    /// How long after its scheduled time a request is worthless.
    pub(crate) deadline: Option<Duration>,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) summary: Summary,
    pub(crate) series: Series,
    pub(crate) algorithm: String,
    pub(crate) sessions: u32,
}

/// A runtime for a thread that does nothing but talk to servers.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start a runtime")
}

/// Offers the load; `progress` is told how much of the time has passed.
///
/// # Errors
///
/// If sessions cannot be opened, or the load makes no sense.
pub(crate) fn run(offer: &Offer, mut progress: impl FnMut(Duration)) -> Result<Run> {
    let threads = offer.threads.min(offer.sessions);
    let others: Vec<_> = (1..threads)
        .map(|index| {
            let offer = offer.clone();
            thread::spawn(move || part(&offer, index, threads, |_| {}))
        })
        .collect();
    let mut parts = vec![part(offer, 0, threads, &mut progress)];
    for other in others {
        parts.push(other.join().map_err(|_| anyhow!("a generator thread panicked"))?);
    }
    let mut parts = parts.into_iter().collect::<Result<Vec<Part>>>()?.into_iter();
    let mut first = parts.next().context("a load needs at least one thread")?;
    for other in parts {
        first.recorder.merge(&other.recorder);
        first.series.merge(&other.series);
    }
    Ok(Run {
        summary: first.recorder.summary(),
        series: first.series,
        algorithm: first.algorithm,
        sessions: offer.sessions,
    })
}

/// One thread's share.
struct Part {
    recorder: Recorder,
    series: Series,
    algorithm: String,
}

fn part(offer: &Offer, index: u32, threads: u32, progress: impl FnMut(Duration)) -> Result<Part> {
    let share = offer.sessions / threads + u32::from(index < offer.sessions % threads);
    runtime()?.block_on(async {
        let sessions = sessions::open(&offer.servers, share as usize, &offer.client).await?;
        let settings = sessions[0].settings();
        let slo = offer.slo.unwrap_or(settings.slo);
        let algorithm = settings.algorithm.clone();
        let start = clock::now() + LEAD;
        let window = Window::after_warm_up(start, offer.warm_up, offer.time);
        let config =
            RecorderConfig::new(slo, window).with_classes(offer.workload.classes().iter().copied());
        let series = Series::new(SeriesConfig::new(start, window.end, slo))?;
        let books = Books::new(Recorder::new(config)?, series);

        let rates = offer.rates.share(threads);
        let seed = offer.seed.wrapping_add(u64::from(index) << 32);
        let arrivals = Arrivals::new(offer.process, rates, start, seed).over_sessions(share);
        let generator = Generator { offer, sessions: &sessions, books: &books, end: window.end };
        generator.issue_all(arrivals, start, progress).await;
        generator.linger().await;
        let (recorder, series) = books.close();
        Ok(Part { recorder, series, algorithm })
    })
}

struct Generator<'a> {
    offer: &'a Offer,
    sessions: &'a [Session],
    books: &'a Books,
    end: Instant,
}

impl Generator<'_> {
    async fn issue_all(
        &self,
        arrivals: Arrivals,
        start: Instant,
        mut progress: impl FnMut(Duration),
    ) {
        let mut rng = Rng::new(self.offer.seed ^ 0x10ad);
        let mut arrivals = arrivals.take_while(|arrival| arrival.at < self.end).peekable();
        let mut told = start;
        loop {
            let mut now = clock::now();
            for _ in 0..BATCH {
                let Some(due) = arrivals.next_if(|arrival| arrival.at <= now) else { break };
                self.books.scheduled(due.at);
                self.issue(due.at, due.session as usize, &mut rng);
                now = clock::now();
            }
            if now >= self.end {
                break;
            }
            if now.since(told) > Duration::from_millis(100) {
                told = now;
                progress(now.since(start));
            }
            tokio::task::yield_now().await;
        }
        // What was due and could not be issued any more was not offered.
        arrivals.for_each(|arrival| self.books.scheduled(arrival.at));
    }

    fn issue(&self, scheduled: Instant, session: usize, rng: &mut Rng) {
        let (class, mut request) = self.offer.workload.next(rng);
        let now = clock::now();
        request.deadline =
            self.offer.deadline.map(|deadline| deadline.saturating_sub(now.since(scheduled)));
        let done = self.books.issue(class, scheduled, now);
        self.sessions[session].submit(request, done);
    }

    /// Gives what is on its way some time to come back.
    async fn linger(&self) {
        let until = clock::now() + LINGER;
        while clock::now() < until && self.books.open() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
