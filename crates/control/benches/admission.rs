//! What one admission costs: the controller from arrival to completion, the header codec, and the
//! client's outbox.
//!
//! The controller is measured in a busy steady state. Its clients take part in that (who may send
//! follows from what it tells them), but their part is played once and recorded; what is timed is a
//! new controller of the same seed that is told the same facts, and so does the same things.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use seawall_control::client::{self, Outbox, Request};
use seawall_control::controller::{
    Algorithm, Arrival, Completion, Demand, Feedback, Init, Outcome, Response, ServerController,
    SessionEvent, SessionId, Signal, Verdict,
};
use seawall_control::request::{Claims, Identity, Stage};
use seawall_control::wire::{self, RequestOp, ResponseOp};
use seawall_control::{Instant, Rng, admission};

const SESSIONS: [usize; 3] = [1, 100, 10_000];

/// Most requests in the server, and in the steady state the usual number: enough to keep its cores
/// busy, and fewer than any algorithm admits at its start.
const IN_SERVER: usize = 12;

/// One admission each microsecond: the paper's server at its capacity (Breakwater §5.1).
const GAP: Duration = Duration::from_micros(1);

/// Credits at which the queueing delay meets the target, in turns: what the server can do changes
/// by half and back, so that credits are taken from some sessions and given to others.
const POOLS: [f64; 2] = [192.0, 384.0];

/// Admissions between two changes.
const TURN: usize = 10_000;

/// Admissions before the measured ones. The pool grows by one credit every 100 of them.
const SETTLE: usize = 60_000;

/// Admissions measured before the recording begins again.
const MEASURED: usize = 60_000;

/// Facts of the deployment.
fn init() -> Init {
    Init { cores: 8, ..Init::new(Instant::ORIGIN, 7) }
}

/// One request as the controller hears of it, and how many older ones are done once it has arrived.
struct Step {
    now: Instant,
    arrival: Arrival,
    outcome: Outcome,
    completions: usize,
}

/// What a controller is told from its start on.
struct Recording {
    algorithm: Arc<dyn Algorithm>,
    sessions: usize,
    steps: Vec<Step>,
}

impl Recording {
    /// Lets `sessions` clients keep a server busy, as far as its controller lets them.
    fn make(name: &str, sessions: usize) -> Self {
        let algorithm = admission::Config::named(name).build().expect("the defaults are valid");
        let mut recording = Self { algorithm, sessions, steps: Vec::new() };
        let mut server = recording.server();
        let mut clients = Clients::new(sessions);
        let mut rng = Rng::new(11);
        let mut oldest = 0;
        for step in 0..SETTLE + MEASURED {
            let now = Instant::ORIGIN + GAP * step as u32;
            let arrival = clients.send(&mut rng, POOLS[step / TURN % 2]);
            let outcome = match server.on_arrival(now, &arrival) {
                Verdict::Admit => Outcome::Done,
                Verdict::Refuse(_) => Outcome::Refused(Stage::ADMISSION),
            };
            recording.steps.push(Step { now, arrival, outcome, completions: 0 });
            while step + 1 - oldest > IN_SERVER || clients.ready.is_empty() {
                clients.on_reply(recording.steps[oldest].arrival.session);
                recording.complete(&mut *server, step, oldest, |id, news| {
                    clients.on_news(id, news);
                });
                recording.steps[step].completions += 1;
                oldest += 1;
            }
        }
        let measured = recording.steps[SETTLE..].iter();
        let refused = measured.filter(|step| step.outcome != Outcome::Done).count();
        assert!(refused * 100 < MEASURED, "{name}, {sessions} sessions: {refused} refused");
        recording
    }

    /// A controller that knows its sessions, and that all of them have something to send.
    fn server(&self) -> Box<dyn ServerController> {
        let mut server = self.algorithm.clone().server(init());
        for slot in 0..self.sessions {
            let demand = SessionEvent::Demand { demand: 1, window_ack: 0 };
            for event in [SessionEvent::Opened(Identity::default()), demand] {
                server.on_session(Instant::ORIGIN, session(slot), event);
            }
        }
        server
    }

    /// The time that `admissions` admissions take.
    fn time(&self, mut admissions: u64) -> Duration {
        let mut time = Duration::ZERO;
        while admissions > 0 {
            let (mut server, mut oldest) = (self.server(), 0);
            (0..SETTLE).for_each(|step| self.replay(&mut *server, step, &mut oldest));
            let some = admissions.min(MEASURED as u64);
            let start = Clock::now();
            for step in SETTLE..SETTLE + some as usize {
                self.replay(&mut *server, step, &mut oldest);
            }
            time += start.elapsed();
            admissions -= some;
        }
        time
    }

    /// One arrival, and the completions that come after it: of one other request, on average.
    fn replay(&self, server: &mut dyn ServerController, step: usize, oldest: &mut usize) {
        let Step { now, arrival, completions, .. } = &self.steps[step];
        _ = black_box(server.on_arrival(*now, arrival));
        for _ in 0..*completions {
            self.complete(server, step, *oldest, |id, news| _ = black_box((id, news)));
            *oldest += 1;
        }
    }

    /// What the writer of replies does when the oldest request is done.
    fn complete(
        &self,
        server: &mut dyn ServerController,
        step: usize,
        oldest: usize,
        mut tell: impl FnMut(SessionId, Feedback),
    ) {
        let (ended, now) = (&self.steps[oldest], self.steps[step].now);
        let id = ended.arrival.session;
        server.on_signal(now, Signal::QueueDelay(self.steps[step].arrival.queue_delay));
        server.on_completion(now, &Completion::new(id, ended.outcome, ended.now));
        tell(id, server.feedback(now, id));
        while let Some((id, news)) = server.poll_push(now) {
            tell(id, news);
        }
    }
}

/// The clients' side: who may send, and how long a queue that makes.
struct Clients {
    clients: Vec<Client>,
    /// Those that may send.
    ready: Vec<usize>,
    /// Sum of all windows.
    windows: u64,
}

#[derive(Clone, Default)]
struct Client {
    window: u32,
    seq: u32,
    outstanding: u32,
    /// Place in the list of those that may send.
    place: Option<usize>,
}

impl Clients {
    /// Each may send one request before it is told a window.
    fn new(sessions: usize) -> Self {
        let mut clients =
            Self { clients: vec![Client::default(); sessions], ready: Vec::new(), windows: 0 };
        for slot in 0..sessions {
            clients.set_window(slot, 1);
        }
        clients
    }

    /// The next request of any client that may send, to a server that can serve `pool` at a time.
    fn send(&mut self, rng: &mut Rng, pool: f64) -> Arrival {
        assert!(!self.ready.is_empty(), "with nothing in the server, somebody may send");
        let slot = self.ready[rng.below(self.ready.len() as u64) as usize];
        let target = init().slo * 2 / 5;
        let client = &mut self.clients[slot];
        client.outstanding += 1;
        let mut arrival = Arrival::new(session(slot));
        arrival.window_ack = client.seq;
        arrival.demand = rng.below(4) as u32;
        arrival.queue_delay = target.mul_f64(self.windows as f64 / pool);
        self.list(slot);
        arrival
    }

    fn on_reply(&mut self, id: SessionId) {
        self.clients[id.slot as usize].outstanding -= 1;
        self.list(id.slot as usize);
    }

    fn on_news(&mut self, id: SessionId, news: Feedback) {
        let slot = id.slot as usize;
        match news {
            Feedback::Window { size, seq } => {
                self.clients[slot].seq = seq;
                self.set_window(slot, size);
            }
            // Nobody holds this client back.
            _ => self.set_window(slot, u32::MAX),
        }
    }

    fn set_window(&mut self, slot: usize, window: u32) {
        let before = std::mem::replace(&mut self.clients[slot].window, window);
        let counted = |window| if window == u32::MAX { 0 } else { u64::from(window) };
        self.windows = self.windows - counted(before) + counted(window);
        self.list(slot);
    }

    /// Puts the client on the list of those that may send, or takes it off.
    fn list(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        match (client.outstanding < client.window, client.place) {
            (true, None) => {
                client.place = Some(self.ready.len());
                self.ready.push(slot);
            }
            (false, Some(place)) => {
                client.place = None;
                self.ready.swap_remove(place);
                if let Some(moved) = self.ready.get(place) {
                    self.clients[*moved].place = Some(place);
                }
            }
            _ => {}
        }
    }
}

fn session(slot: usize) -> SessionId {
    SessionId { slot: slot as u32, generation: 0 }
}

fn controllers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("admission");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for name in admission::NAMES {
        for sessions in SESSIONS {
            let recording = Recording::make(name, sessions);
            group.bench_function(BenchmarkId::new(name, sessions), |bencher| {
                bencher.iter_custom(|admissions| recording.time(admissions));
            });
        }
    }
    group.finish();
}

fn outbox(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("outbox");
    let outbox_config = client::Config::default();
    for name in admission::NAMES {
        let mut config = admission::Config::named(name);
        (config.seda.rate_min, config.seda.rate_max) = (1e7, 1e7); // so that nothing has to wait
        let algorithm = config.build().expect("the parameters are valid");
        let mut outbox: Outbox<usize> =
            Outbox::new(algorithm.client(init()), &outbox_config, init());
        let (mut now, mut seq) = (Instant::ORIGIN, 0);
        outbox.on_push(now, Feedback::Window { size: 64, seq });
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                now = now + GAP;
                seq += 1;
                let deadline = Instant::NEVER;
                outbox.submit(now, Request { item: 1, demand: Demand::new(0), deadline });
                let departed = outbox.poll_send(now).expect("the window is open");
                assert!(outbox.poll_send(now).is_none() && outbox.poll_dropped().is_none());
                let feedback = Feedback::Window { size: 64, seq };
                outbox.on_response(now, &Response::new(GAP, black_box(feedback)));
                (departed.item, outbox.poll_timeout())
            });
        });
    }
    group.finish();
}

fn codec(criterion: &mut Criterion) {
    const BODY_MAX: u32 = 1 << 20;
    let mut request = wire::Request::new(RequestOp::Call);
    let deadline = Some(Duration::from_millis(3));
    request.claims = Claims { id: 7, method: 1, deadline, sent_at_ns: 5, ..Claims::default() };
    request.body_len = 64;
    let mut response = wire::Response::new(ResponseOp::Reply);
    response.feedback = Feedback::Window { size: 9, seq: 3 };
    response.service = Duration::from_micros(12);
    response.id = 7;

    let mut group = criterion.benchmark_group("header");
    group.bench_function("request", |bencher| {
        bencher.iter(|| wire::Request::decode(&black_box(black_box(request).encode()), BODY_MAX));
    });
    group.bench_function("response", |bencher| {
        bencher.iter(|| wire::Response::decode(&black_box(black_box(response).encode()), BODY_MAX));
    });
    group.finish();
}

criterion_group!(benches, controllers, outbox, codec);
criterion_main!(benches);
