//! The generator: issues requests on schedule, on threads that never sleep unless they are to.
//!
//! A sleeping thread is late by what its wake-up takes, tens of microseconds here. These threads
//! look at the clock, issue what is due, let their sessions read and write, and look again. Where
//! something else needs their core, such as a proxy, they sleep until the next request is due.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use seawall_control::config::duration;
use seawall_control::retry::Counts;
use seawall_control::{Instant, Rng};
use seawall_measure::violation::{CurvePoint, Statistic, Volume};
use seawall_measure::{
    Arrivals, Latencies, Process, Rates, Recorder, RecorderConfig, Series, SeriesConfig, Summary,
    Violation, ViolationConfig, Window,
};
use seawall_rpc::{Client, ClientConfig, Session, clock};
use tokio::runtime::{Builder, Runtime};

use super::alarm::Alarm;
use super::books::{Books, Closed};
use super::workload::Workload;
use super::{sessions, web};

/// Requests issued at most before the sessions get their turn.
const BATCH: usize = 32;

/// Between connecting and the first request, so that all threads start together.
const LEAD: Duration = Duration::from_millis(20);

/// How long to wait, after the last request, for what is still on its way, unless told.
const LINGER: Duration = Duration::from_millis(300);

/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

/// How long a thread that sleeps does so between looks at what is still on its way.
const PAUSE: Duration = Duration::from_millis(2);

/// Width of the bins of a run's series, as in Breakwater's figure 7, and how many there are at
/// most; a run of more than 40 s gets wider ones, so that half an hour can be stored and drawn.
const BIN: Duration = Duration::from_millis(20);
const MOST_BINS: u32 = 2_000;

/// A load.
#[derive(Clone, Debug)]
pub struct Offer {
    /// To whom, in turns.
    pub servers: Vec<SocketAddr>,
    /// How its clients behave.
    pub client: ClientConfig,
    /// Servers of HTTP or gRPC, in place of the native protocol.
    pub web: Option<web::Target>,
    /// What is asked for.
    pub workload: Workload,
    /// Connections.
    pub sessions: u32,
    /// Each client has a session with every server, and sends on what one of them did not serve.
    pub retries: bool,
    /// Threads that share the sessions.
    pub threads: u32,
    /// Leave the core to others while nothing is due.
    pub sleep: bool,
    /// How requests are spread in time.
    pub process: Process,
    /// How many there are.
    pub rates: Rates,
    /// What is not measured, at the begin.
    pub warm_up: Duration,
    /// What is measured then.
    pub time: Duration,
    /// The latency that counts as good; what the servers say if not given.
    pub slo: Option<Duration>,
    /// How long after its scheduled time a request is worthless.
    pub deadline: Option<Duration>,
    /// How long a request may wait at a server; what that says if not given.
    pub budget: Option<Duration>,
    /// What the servers must run, if it matters.
    pub algorithm: Option<String>,
    /// Of all random choices.
    pub seed: u64,
    /// How long to wait, after the last request, for what is still on its way. Default 300 ms.
    pub linger: Option<Duration>,
    /// Count violations of the SLO over time, of latencies that this stands for.
    pub violation: Option<Statistic>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// Numbers of the measured time.
    pub summary: Summary,
    /// The whole run over time.
    pub series: Series,
    /// When the load began, warm-up included.
    pub start: Instant,
    /// Violations of the SLO, if they were to be counted.
    pub violated: Option<Violated>,
    /// Those that the summary's quantiles are of.
    pub latencies: Latencies,
    /// What the servers run; several names if they differ.
    pub algorithm: String,
    /// Connections.
    pub sessions: u32,
    /// Share of the answered lookups of a key-value store that found something, 0 to 1.
    pub hit_share: Option<f64>,
    /// What the first request that failed after the warm-up was told.
    pub first_failure: Option<String>,
    /// What was sent on to other servers, in the whole run; nothing if that was not wanted.
    pub retries: Option<Counts>,
}

/// How badly and when the SLO was missed.
#[derive(Clone, Debug)]
pub struct Violated {
    /// How much the latency exceeded the SLO, over time.
    pub volume: Volume,
    /// The latency over time.
    pub curve: Vec<CurvePoint>,
}

/// A runtime for a thread that does nothing but talk to servers.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start a runtime")
}

/// Offers the load; `progress` is told how much of the time has passed.
///
/// # Errors
///
/// If sessions cannot be opened, the servers are not what is wanted, or the load makes no sense.
pub fn run(offer: &Offer, progress: impl FnMut(Duration)) -> Result<Run> {
    let parts = (0..offer.threads.min(offer.sessions))
        .map(|index| Part::open(offer, index))
        .collect::<Result<Vec<_>>>()?;
    let clients: Vec<Client> = parts.iter().flat_map(|part| part.clients.clone()).collect();
    let of_clients: Vec<Session> = clients.iter().flat_map(Client::sessions).collect();
    let sessions = parts.iter().flat_map(|part| &part.sessions);
    let agreed = agree(offer, sessions.chain(&of_clients))?;
    drop(of_clients);
    let start = clock::now() + LEAD;
    let window = Window::after_warm_up(start, offer.warm_up, offer.time);

    let closed = thread::scope(|scope| {
        let mut parts = parts.into_iter();
        let first = parts.next().context("a load needs at least one thread")?;
        let slo = agreed.slo;
        let others: Vec<_> = parts
            .map(|part| scope.spawn(move || part.generate(offer, slo, start, window, |_| {})))
            .collect();
        let mut closed = first.generate(offer, slo, start, window, progress)?;
        for other in others {
            let other = other.join().map_err(|_| anyhow!("a generator thread panicked"))??;
            closed.recorder.merge(&other.recorder);
            closed.series.merge(&other.series);
            if let (Some(all), Some(other)) = (&mut closed.violation, &other.violation) {
                all.merge(other);
            }
            closed.lookups.merge(other.lookups);
            closed.first_failure = closed.first_failure.or(other.first_failure);
        }
        Ok::<Closed, anyhow::Error>(closed)
    })?;
    let violated = closed.violation.map(|violation| {
        let end = closed.at;
        Violated { volume: violation.volume(end), curve: violation.curve(end) }
    });
    Ok(Run {
        summary: closed.recorder.summary(),
        start,
        violated,
        latencies: closed.recorder.latencies(),
        series: closed.series,
        algorithm: agreed.algorithm,
        sessions: offer.sessions,
        hit_share: closed.lookups.hit_share(),
        first_failure: closed.first_failure,
        retries: offer.retries.then(|| clients.iter().map(Client::retries).sum()),
    })
}

/// What all servers of a load have in common.
struct Agreed {
    slo: Duration,
    algorithm: String,
}

fn agree<'a>(offer: &Offer, sessions: impl Iterator<Item = &'a Session>) -> Result<Agreed> {
    if let Some(target) = &offer.web {
        let slo = offer.slo.context("a server of HTTP has no SLO of its own; say it with --slo")?;
        return Ok(Agreed { slo, algorithm: target.protocol.name().to_owned() });
    }
    let mut algorithms = BTreeSet::new();
    let mut agreed = offer.slo;
    for session in sessions {
        let (peer, settings) = (session.peer(), session.settings());
        let algorithm = settings.algorithm.as_str();
        if let Some(wanted) = &offer.algorithm
            && wanted != algorithm
        {
            bail!("{peer} runs the algorithm {algorithm}, not {wanted} as --algorithm wants");
        }
        algorithms.insert(algorithm);
        let slo = *agreed.get_or_insert(settings.slo);
        if offer.slo.is_none() && slo != settings.slo {
            let (slo, other) = (duration::format(slo), duration::format(settings.slo));
            bail!("{peer} has an SLO of {other}, others of {slo}; say with --slo which counts");
        }
    }
    let slo = agreed.context("a load needs at least one session")?;
    let algorithm = algorithms.into_iter().collect::<Vec<_>>().join(" and ");
    Ok(Agreed { slo, algorithm })
}

/// One thread's share of a load: some of the sessions, and the runtime that they live in.
struct Part {
    runtime: Runtime,
    sessions: Vec<Session>,
    /// In place of the sessions.
    clients: Vec<Client>,
    /// In place of both, one for each server.
    web: Vec<web::Client>,
    index: u32,
    parts: u32,
}

impl Part {
    fn open(offer: &Offer, index: u32) -> Result<Self> {
        let parts = offer.threads.min(offer.sessions);
        let runtime = runtime()?;
        let first = |part: u32| u64::from(part) * u64::from(offer.sessions) / u64::from(parts);
        let own = first(index)..first(index + 1);
        let (mut sessions, mut clients, mut web) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(target) = &offer.web {
            let each = own.count().div_ceil(offer.servers.len());
            for &server in &offer.servers {
                web.push(runtime.block_on(web::Client::open(server, target, each))?);
            }
        } else if offer.retries {
            let open = sessions::open_clients(&offer.servers, own.count(), &offer.client);
            clients = runtime.block_on(open)?;
        } else {
            let servers = own.map(|session| offer.servers[session as usize % offer.servers.len()]);
            sessions = runtime.block_on(sessions::open(servers, &offer.client))?;
        }
        Ok(Self { runtime, sessions, clients, web, index, parts })
    }

    fn generate(
        self,
        offer: &Offer,
        slo: Duration,
        start: Instant,
        window: Window,
        progress: impl FnMut(Duration),
    ) -> Result<Closed> {
        let config = RecorderConfig::new(slo, window).with_classes(offer.workload.classes());
        let mut series = SeriesConfig::new(start, window.end, slo);
        series.bin = bin(offer.warm_up + offer.time);
        let violation = offer.violation.map(|statistic| {
            let config = ViolationConfig { statistic, ..ViolationConfig::new(slo, window) };
            Violation::new(config)
        });
        let (recorder, series) = (Recorder::new(config)?, Series::new(series)?);
        let books = Books::new(offer.workload.clone(), recorder, series, violation.transpose()?);
        let seed = offer.seed.wrapping_add(u64::from(self.index) << 32);
        let rates = offer.rates.share(self.parts);
        let sessions = match self.web.len() {
            0 => self.sessions.len() + self.clients.len(),
            _ => (offer.sessions / self.parts).max(1) as usize,
        };
        let arrivals = Arrivals::new(offer.process, rates, start, seed);
        let arrivals = arrivals.over_sessions(sessions as u32);
        let mut generator = Generator {
            offer,
            sessions: &self.sessions,
            clients: &self.clients,
            web: &self.web,
            books: &books,
            rng: Rng::new(seed ^ 0x10ad),
            end: window.end,
        };
        self.runtime.block_on(async {
            generator.issue_all(arrivals, start, progress).await?;
            generator.linger().await;
            anyhow::Ok(())
        })?;
        Ok(books.close())
    }
}

/// Width of the bins of a run of this length.
fn bin(length: Duration) -> Duration {
    BIN * length.div_duration_f64(BIN * MOST_BINS).ceil().max(1.0) as u32
}

struct Generator<'a> {
    offer: &'a Offer,
    sessions: &'a [Session],
    clients: &'a [Client],
    web: &'a [web::Client],
    books: &'a Books,
    rng: Rng,
    end: Instant,
}

impl Generator<'_> {
    async fn issue_all(
        &mut self,
        arrivals: Arrivals,
        start: Instant,
        mut progress: impl FnMut(Duration),
    ) -> Result<()> {
        let end = self.end;
        let alarm = self.offer.sleep.then(Alarm::new).transpose()?;
        let mut arrivals = arrivals.take_while(|arrival| arrival.at < end).peekable();
        let mut told = start;
        loop {
            let mut now = clock::now();
            for _ in 0..BATCH {
                let Some(due) = arrivals.next_if(|arrival| arrival.at <= now) else { break };
                self.books.scheduled(due.at);
                self.issue(due.at, due.session as usize);
                now = clock::now();
            }
            if now >= end {
                break;
            }
            if now.since(told) > TELL {
                told = now;
                progress(now.since(start));
            }
            let next = arrivals.peek().map_or(end, |arrival| arrival.at);
            match &alarm {
                // What is due at once has had its turn only after the connections had theirs.
                Some(alarm) if next > now => alarm.until(next.min(now + TELL)).await?,
                _ => tokio::task::yield_now().await,
            }
        }
        // What was due and could not be issued any more was not offered.
        arrivals.for_each(|arrival| self.books.scheduled(arrival.at));
        Ok(())
    }

    fn issue(&mut self, scheduled: Instant, session: usize) {
        if let Workload::Web(requests) = &self.offer.workload {
            let (class, path, body) = requests.next(&mut self.rng);
            let now = clock::now();
            let late = now.since(scheduled);
            let left = self.offer.deadline.map(|deadline| deadline.saturating_sub(late));
            let done = self.books.issue_web(class, scheduled, now);
            let client = self.web[session % self.web.len()].clone();
            let (lane, path) = (session / self.web.len(), path.to_owned());
            tokio::spawn(async move { done(client.call(lane, path, body, left).await) });
            return;
        }
        let (class, mut request) = self.offer.workload.next(&mut self.rng);
        let now = clock::now();
        request.deadline =
            self.offer.deadline.map(|deadline| deadline.saturating_sub(now.since(scheduled)));
        request.budget = self.offer.budget;
        request.idempotent = true; // as all that workloads ask for are
        let done = self.books.issue(class, scheduled, now);
        match self.clients.get(session) {
            Some(client) => {
                let client = client.clone();
                tokio::spawn(async move { done(client.call(request).await) });
            }
            None => _ = self.sessions[session].submit(request, Box::new(done)),
        }
    }

    /// Gives what is on its way some time to come back.
    async fn linger(&self) {
        let until = clock::now() + self.offer.linger.unwrap_or(LINGER);
        while clock::now() < until && self.books.open() > 0 {
            match self.offer.sleep {
                true => tokio::time::sleep(PAUSE).await,
                false => tokio::task::yield_now().await,
            }
        }
    }
}
