//! Requests: what they are, where they are, and chains of them that cost no memory.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use seawall_control::client::Report;
use seawall_control::request::{Claims, Context, Stage};
use seawall_control::{Instant, Rng, random};
use seawall_measure::ServiceTime;
use slab::Slab;

use super::Link;
use super::call::CallId;
use crate::scenario::{self, Bandwidth, Workload};

/// Place of a request among all; reused after its end.
pub(super) type RequestId = u32;

/// End of a chain.
const NOBODY: RequestId = RequestId::MAX;

/// Where a request is. It goes through them in this order, and may leave from any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// At its client, not sent.
    Waiting,
    /// On its way, or waiting to be read.
    Sent,
    /// Admitted: it waits for a core or a lock, or has one.
    Admitted,
    /// Its reply is ready, served.
    Served,
    /// Its reply is ready, refused.
    Refused,
    /// Its reply is ready: it was given up for another copy of its call.
    Cancelled,
    /// Its client is gone; it ended then, and whoever still has it forgets it.
    Orphan,
}

impl State {
    /// How many there are.
    pub(super) const COUNT: usize = 7;
}

/// One request: a copy of a call.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) call: CallId,
    /// Tells it from requests that had the same place before.
    pub(super) serial: u32,
    /// Its call has ended with another copy, as its client knows.
    pub(super) is_surplus: bool,
    /// … as its server was told.
    pub(super) is_cancelled: bool,
    pub(super) scheduled: Instant,
    /// When its replica was chosen.
    pub(super) asked: Instant,
    pub(super) sent: Instant,
    pub(super) arrived: Instant,
    /// Number of the call, the same whatever else happens.
    pub(super) number: u64,
    pub(super) link: Link,
    pub(super) state: State,
    pub(super) class: u8,
    /// Stages may refuse it, and others may pass it.
    pub(super) droppable: bool,
    /// The step of its handler that is next, or at work.
    pub(super) step: u8,
    /// Its first step has begun.
    pub(super) begun: bool,
    /// It holds the lock that this step needs.
    pub(super) has_lock: bool,
    /// Since when it holds the memory semaphore, if it does.
    pub(super) draws_since: Option<Instant>,
    /// What its step has left, if it was preempted.
    pub(super) left: Duration,
    /// Where it was refused, and for which predicted delay.
    pub(super) refused_at: Stage,
    pub(super) refused_for: Duration,
    /// When its first step began, what it had waited until then, and the CPU time that all steps
    /// had so far.
    pub(super) started: Instant,
    pub(super) waited: Duration,
    pub(super) worked: Duration,
    /// What its reply tells: how long its handler took, and the server's queueing delay.
    pub(super) service: Duration,
    pub(super) queue_delay: Duration,
    /// What its client told with it.
    pub(super) report: Report,
    /// Draws the times of its steps: the same whatever else happens.
    pub(super) work: Rng,
    /// Who follows it in a chain.
    next: RequestId,
    /// Seawall's own bookkeeping on it, once it has arrived.
    pub(super) context: Context,
}

/// All requests that are under way.
#[derive(Debug, Default)]
pub(super) struct Requests(Slab<Request>);

/// Some requests in order, each in one chain at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: RequestId,
    last: RequestId,
    pub(super) len: u32,
}

impl Request {
    /// A copy of a call that is not sent yet.
    pub(super) fn new(
        (call, serial): (CallId, u32),
        scheduled: Instant,
        link: Link,
        (class, droppable): (u8, bool),
        nature: u64,
    ) -> Self {
        Self {
            call,
            serial,
            is_surplus: false,
            is_cancelled: false,
            scheduled,
            asked: scheduled,
            sent: scheduled,
            arrived: scheduled,
            number: nature,
            link,
            state: State::Waiting,
            class,
            droppable,
            step: 0,
            begun: false,
            has_lock: false,
            draws_since: None,
            left: Duration::ZERO,
            refused_at: Stage::ADMISSION,
            refused_for: Duration::ZERO,
            started: scheduled,
            waited: Duration::ZERO,
            worked: Duration::ZERO,
            service: Duration::ZERO,
            queue_delay: Duration::ZERO,
            report: Report { demand: 0, window_ack: 0 },
            work: Rng::new(nature),
            next: NOBODY,
            context: Context::new(Claims::default(), scheduled),
        }
    }

    /// Makes it what it was before it was sent; its steps take the same times again.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.step, self.begun, self.has_lock) = (0, false, false);
        (self.draws_since, self.left) = (None, Duration::ZERO);
        (self.waited, self.worked) = (Duration::ZERO, Duration::ZERO);
        self.work = Rng::new(self.number);
        self.context = Context::new(Claims::default(), now);
    }

    /// Whether its handler ends in an error, as this part of all do: the same for all copies of a
    /// call.
    pub(super) fn fails(&self, part: f64) -> bool {
        part > 0.0 && Rng::new(random::mix(self.number)).chance(part)
    }

    /// From its first step until now, without what it waited for cores and locks meanwhile.
    pub(super) fn service_until(&self, now: Instant) -> Duration {
        let waited = self.context.charged().saturating_sub(self.waited);
        now.since(self.started).saturating_sub(waited)
    }
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> RequestId {
        self.0.insert(request) as RequestId
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Request {
        self.0.remove(id as usize)
    }

    /// The request of this serial number, if it is still there.
    pub(super) fn find(&mut self, id: RequestId, serial: u32) -> Option<&mut Request> {
        self.0.get_mut(id as usize).filter(|request| request.serial == serial)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many are in each [`State`].
    pub(super) fn census(&self) -> [u64; State::COUNT] {
        let mut census = [0; State::COUNT];
        self.0.iter().for_each(|(_, request)| census[request.state as usize] += 1);
        census
    }

    /// How many hold the memory semaphore of each of so many servers.
    pub(super) fn drawing(&self, servers: usize) -> Vec<u32> {
        let mut drawing = vec![0; servers];
        for (_, request) in self.0.iter().filter(|(_, request)| request.draws_since.is_some()) {
            drawing[usize::from(request.link.server)] += 1;
        }
        drawing
    }

    /// Those of some connections.
    pub(super) fn ids_of(&self, chosen: impl Fn(Link) -> bool) -> Vec<RequestId> {
        let chosen = self.0.iter().filter(|(_, request)| chosen(request.link));
        chosen.map(|(id, _)| id as RequestId).collect()
    }

    /// Puts a request at the end of a chain.
    pub(super) fn append(&mut self, chain: &mut Chain, id: RequestId) {
        self[id].next = NOBODY;
        match chain.len {
            0 => chain.first = id,
            _ => self[chain.last].next = id,
        }
        chain.last = id;
        chain.len += 1;
    }

    /// Takes the first request off a chain.
    pub(super) fn take_first(&self, chain: &mut Chain) -> Option<RequestId> {
        chain.len = chain.len.checked_sub(1)?;
        let first = chain.first;
        chain.first = self[first].next;
        Some(first)
    }
}

impl Index<RequestId> for Requests {
    type Output = Request;

    fn index(&self, id: RequestId) -> &Request {
        &self.0[id as usize]
    }
}

impl IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.0[id as usize]
    }
}

impl Chain {
    /// The first of those that are in it.
    pub(super) fn first(&self) -> RequestId {
        self.first
    }

    pub(super) const EMPTY: Self = Self { first: NOBODY, last: NOBODY, len: 0 };
}

/// The classes of requests, ready for use.
#[derive(Debug)]
pub(super) struct Mix {
    classes: Vec<Class>,
    /// Their names.
    locks: Vec<String>,
    /// Up to which draw from 0 to 1 a request is of each class.
    bounds: Vec<f64>,
    /// The same for later times, the next one last, and when that is.
    later: Vec<(Instant, Vec<f64>)>,
    next: Instant,
}

#[derive(Debug)]
struct Class {
    name: String,
    droppable: bool,
    steps: Vec<Step>,
}

/// One step of a handler.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) cpu: ServiceTime,
    pub(super) wait: Option<ServiceTime>,
    /// Number of the lock that it needs.
    pub(super) lock: Option<usize>,
    /// What it draws from the memory.
    pub(super) memory: Option<Bandwidth>,
    /// It needs the lock and the memory however long that takes.
    pub(super) plain: bool,
}

impl Mix {
    pub(super) fn new(workload: &Workload) -> Self {
        let classes = workload.classes();
        let mut locks: Vec<String> = Vec::new();
        let mut number = |name: &String| match locks.iter().position(|known| known == name) {
            Some(number) => number,
            None => {
                locks.push(name.clone());
                locks.len() - 1
            }
        };
        let classes: Vec<Class> = classes
            .into_iter()
            .map(|class| {
                let step = |step: &scenario::Step| Step {
                    cpu: step.cpu,
                    wait: step.wait,
                    lock: step.lock.as_ref().map(&mut number),
                    memory: step.memory,
                    plain: step.plain,
                };
                let steps = class.steps.iter().map(step).collect();
                Class { name: class.name, droppable: class.droppable, steps }
            })
            .collect();
        let mixes = workload.mixes().into_iter().rev();
        let later = mixes.map(|(at, shares)| (Instant::ORIGIN + at, bounds(&shares))).collect();
        let (bounds, next) = (Vec::new(), Instant::ORIGIN);
        Self { classes, locks, bounds, later, next }
    }

    /// The class of the next request.
    pub(super) fn draw(&mut self, now: Instant, rng: &mut Rng) -> u8 {
        if now >= self.next {
            self.shift(now);
        }
        let draw = rng.uniform();
        let class = self.bounds.iter().position(|bound| draw < *bound);
        class.expect("the last class that has a share has no bound") as u8
    }

    #[cold]
    fn shift(&mut self, now: Instant) {
        while let Some((_, bounds)) = self.later.pop_if(|(at, _)| *at <= now) {
            self.bounds = bounds;
        }
        self.next = self.later.last().map_or(Instant::NEVER, |(at, _)| *at);
    }

    /// A step of the class's handler; `None` when there are no more.
    pub(super) fn step(&self, class: u8, step: u8) -> Option<&Step> {
        self.classes[usize::from(class)].steps.get(usize::from(step))
    }

    /// Whether stages may refuse requests of a class.
    pub(super) fn is_droppable(&self, class: u8) -> bool {
        self.classes[usize::from(class)].droppable
    }

    /// How many locks the steps need.
    pub(super) fn locks(&self) -> usize {
        self.locks.len()
    }

    /// The number of a lock.
    pub(super) fn lock(&self, name: &str) -> Option<usize> {
        self.locks.iter().position(|known| known == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }
}

/// Up to which draw from 0 to 1 a request is of each class.
fn bounds(shares: &[f64]) -> Vec<f64> {
    let total: f64 = shares.iter().sum();
    let mut bound = 0.0;
    let mut bounds: Vec<f64> = shares
        .iter()
        .map(|share| {
            bound += share / total;
            bound
        })
        .collect();
    let last = shares.iter().rposition(|&share| share > 0.0).unwrap_or(0);
    bounds[last] = f64::INFINITY; // whatever the sum of the shares was rounded to
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shift_at_their_times() {
        let text = "
            class = [
                { name = 'low', share = 1.0, steps = [{ cpu = 'const:1us' }] },
                { name = 'mid', share = 0.0, steps = [{ cpu = 'const:1us' }] },
                { name = 'high', share = 0.0, steps = [{ cpu = 'const:1us' }] },
            ]
            shift = [
                { at = '2s', shares = { low = 0.0, high = 1.0 } },
                { at = '1s', shares = { mid = 3.0 } },
            ]";
        let workload: Workload = toml::from_str(text).unwrap();
        let (mut mix, mut rng) = (Mix::new(&workload), Rng::new(1));
        let mut shares = |second: u64| {
            let mut counts = [0; 3];
            for draw in 0..10_000 {
                let now = Instant::from_micros(second * 1_000_000 + draw);
                counts[usize::from(mix.draw(now, &mut rng))] += 1;
            }
            counts.map(|count: u32| (f64::from(count) / 1_000.0).round())
        };
        // 1 to 3 from the first second on; then 0 to 3 to 1.
        assert_eq!(shares(0), [10.0, 0.0, 0.0]);
        assert_eq!(shares(1).iter().sum::<f64>(), 10.0);
        assert_eq!(shares(3)[0], 0.0);
        assert_eq!(shares(4).map(|share| share > 1.0), [false, true, true]);
    }
}
