//! What becomes of a job: from service to service, and back.

use std::time::Duration;

use seawall_control::Rng;
use seawall_control::scaling::hint;

use super::program::Action;
use super::request::{Job, ThreadId, Turn, Visit, VisitId};
use super::{Event, Fault, Message, World};

impl World<'_> {
    /// A client wants something.
    pub(super) fn due(&mut self) {
        self.schedule_arrival();
        let job = self.requests.jobs.insert(Job { due: self.now, start: None }) as u32;
        self.books.begun();
        // What is by chance in it does not depend on what happens to others.
        let mut rng = self.nature.fork();
        let delay = self.delay(&mut rng);
        let seed = rng.next_u64();
        let message = Message { service: 0, job, caller: None, hint: 0, upstream_ns: 0, seed };
        self.on_the_way += 1;
        self.events.push(self.now + delay, Event::Arrive(message));
    }

    /// A request reaches a service: FirstResponder sees it first.
    pub(super) fn arrive(&mut self, message: Message) {
        let Message { service, job, caller, hint, upstream_ns, seed } = message;
        self.on_the_way -= 1;
        let now = self.now;
        let job_start = *self.requests.job(job).start.get_or_insert(now);
        self.respond(service, job_start);
        let mut visit = Visit::new(service, job, caller, now);
        (visit.hint, visit.upstream_ns) = (hint, upstream_ns);
        self.machine.containers[usize::from(service)].counters.in_flight += 1;
        let visit = self.requests.visits.insert(visit) as VisitId;
        let entry = self.machine.program.entry(service);
        let thread = self.requests.begin(visit, entry, None, Rng::new(seed));
        self.go_on(thread);
    }

    /// A thread does what comes next, as far as it can without time going on.
    fn go_on(&mut self, mut id: ThreadId) {
        loop {
            let thread = &mut self.requests.threads[id as usize];
            let Some(op) = self.machine.program.op(thread.sequence, thread.at) else {
                let Some(parent) = self.end(id) else { return };
                id = parent;
                continue;
            };
            thread.at += 1;
            if op.chance < 1.0 && !thread.rng.chance(op.chance) {
                continue;
            }
            match &op.action {
                Action::Work(time) => {
                    let work = time.sample(&mut thread.rng);
                    return self.work(id, work);
                }
                Action::Call { service, pool } => {
                    thread.asks = Some((*service, *pool));
                    return self.connect(id);
                }
                Action::Fork(branches) => {
                    thread.branches = branches.len() as u32;
                    let visit = thread.visit;
                    let fork = |sequence| (sequence, thread.rng.fork());
                    let branches: Vec<(u16, Rng)> = branches.iter().copied().map(fork).collect();
                    for (sequence, rng) in branches {
                        let branch = self.requests.begin(visit, sequence, Some(id), rng);
                        self.go_on(branch);
                    }
                    return;
                }
            }
        }
    }

    /// A thread has come to its end. If it was the last of its sisters, their parent goes on.
    fn end(&mut self, id: ThreadId) -> Option<ThreadId> {
        let thread = self.requests.threads.remove(id as usize);
        let Some(parent) = thread.parent else {
            self.reply(thread.visit);
            return None;
        };
        let branches = &mut self.requests.thread(parent).branches;
        *branches -= 1;
        (*branches == 0).then_some(parent)
    }

    fn work(&mut self, id: ThreadId, work: Duration) {
        let visit = self.requests.visit_of(id);
        visit.turns(self.now, Turn::Works);
        let service = visit.service;
        self.machine.begin(service, self.now, id, work);
        self.books.asked(work);
    }

    /// Threads of a container have done their work.
    pub(super) fn work_ends(&mut self, container: u16, epoch: u32) {
        if self.has(Fault::ForgetsWork) && self.books.forgets_now() {
            return;
        }
        if !self.machine.is_due(container, epoch, self.now) {
            return;
        }
        while let Some(thread) = self.machine.finished(container) {
            self.requests.visit_of(thread).turns(self.now, Turn::Worked);
            self.go_on(thread);
        }
    }

    /// A thread needs a connection to the service that it asks.
    fn connect(&mut self, id: ThreadId) {
        let Some((_, pool)) = self.requests.thread(id).asks else { return };
        let overfills = self.has(Fault::OverfillsPools);
        if let Some(pool) = pool {
            let pool = &mut self.machine.pools[usize::from(pool)];
            if overfills {
                pool.used += 1;
            } else if !pool.take(id) {
                self.requests.visit_of(id).turns(self.now, Turn::Starves);
                return;
            }
        }
        self.send(id);
    }

    fn send(&mut self, id: ThreadId) {
        let now = self.now;
        let thread = &mut self.requests.threads[id as usize];
        let visit = &self.requests.visits[thread.visit as usize];
        let Some((service, _)) = thread.asks else { return };
        let own = self.machine.containers[usize::from(visit.service)].hint;
        let taken = visit.taken(now);
        let seed = thread.rng.next_u64();
        let message = Message {
            service,
            job: visit.job,
            caller: Some(id),
            hint: hint::forwarded(visit.hint, own),
            upstream_ns: visit.upstream_ns + taken.exec_ns - taken.pool_wait_ns,
            seed,
        };
        let mut rng = Rng::new(!seed);
        let delay = self.delay(&mut rng);
        self.on_the_way += 1;
        self.events.push(now + delay, Event::Arrive(message));
    }

    /// A visit is over.
    fn reply(&mut self, id: VisitId) {
        let visit = self.requests.visits.remove(id as usize);
        let taken = visit.taken(self.now);
        let start = self.requests.job(visit.job).start.unwrap_or(visit.arrived);
        let counters = &mut self.machine.containers[usize::from(visit.service)].counters;
        counters.in_flight -= 1;
        counters.requests += 1;
        counters.exec_ns += taken.exec_ns;
        counters.pool_wait_ns += taken.pool_wait_ns;
        counters.started += 1;
        counters.time_from_start_ns += visit.arrived.since(start).as_nanos() as u64;
        counters.upstream_exec_ns += visit.upstream_ns;
        counters.hinted += u64::from(visit.hint > 0);
        if self.has(Fault::LosesReplies) {
            return;
        }
        let mut rng = match visit.caller {
            Some(thread) => self.requests.thread(thread).rng.fork(),
            None => self.nature.fork(),
        };
        let delay = self.delay(&mut rng);
        let event = match visit.caller {
            Some(thread) => Event::Reply { thread },
            None => Event::Answer { job: visit.job },
        };
        self.on_the_way += 1;
        self.events.push(self.now + delay, event);
    }

    /// A thread has the reply that it waited for, and gives its connection back.
    pub(super) fn replied(&mut self, id: ThreadId) {
        self.on_the_way -= 1;
        if let Some((_, Some(pool))) = self.requests.thread(id).asks.take()
            && let Some(next) = self.machine.pools[usize::from(pool)].give_back()
        {
            self.requests.visit_of(next).turns(self.now, Turn::Connected);
            self.send(next);
        }
        self.go_on(id);
    }

    /// A job is done.
    pub(super) fn answer(&mut self, job: u32) {
        self.on_the_way -= 1;
        let job = self.requests.jobs.remove(job as usize);
        self.books.ended();
        self.meters.answered(job.due, self.now);
    }

    /// How long a message takes that leaves now.
    fn delay(&self, rng: &mut Rng) -> Duration {
        let extra = self.config.slowdown.filter(|slowdown| slowdown.is_on(self.now));
        let extra = extra.map_or(Duration::ZERO, |slowdown| slowdown.extra);
        // FirstResponder looks at each packet, and passes those on that it has no business with.
        let looked = self.config.responder.map_or(Duration::ZERO, |costs| costs.packet);
        self.scenario.network.delay.sample(rng) + extra + looked
    }
}
