//! A server: messages first, then the run queue, on as many cores as it has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::client::Report;
use seawall_control::controller::{
    Algorithm, Completion, Feedback, Init, Outcome, ServerController, SessionEvent, SessionId,
    Signal,
};
use seawall_control::lanes::Lanes;
use seawall_control::predict::queue;
use seawall_control::request::{Budget, Class, Identity};
use seawall_control::standing::{Queues, Standing};
use seawall_control::{Instant, time};

use super::counts::Counts;
use super::lock::Lock;
use super::memory::{Drawn, Memory};
use super::meters::Meters;
use super::noise::Stall;
use super::request::{Chain, Mix, RequestId, State};
use super::semaphore::Semaphore;
use super::{Cancel, Event, Fault, Link, World};
use crate::scenario::{Bandwidth, Costs, Scenario};

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    index: u16,
    pub(super) controller: Box<dyn ServerController>,
    pub(super) predictor: queue::RunQueue,
    pub(super) budget: Budget,
    pub(super) queues: Queues,
    pub(super) standing: Standing,
    costs: Costs,
    slowness: f64,
    /// Messages that wait for a core: to be read, or to be written.
    pub(super) messages: VecDeque<Task>,
    /// Requests that wait for one.
    pub(super) runnable: Lanes<RequestId>,
    cores: Vec<Work>,
    /// When each of them is done with what it works on.
    due: Vec<Instant>,
    idle: Vec<u16>,
    pub(super) stall: Stall,
    /// By client.
    pub(super) sessions: Vec<Session>,
    pub(super) locks: Vec<Lock>,
    /// What the cores share, if any step draws from it, and who guards it.
    pub(super) memory: Option<Box<Memory>>,
    pub(super) semaphore: Option<Box<Semaphore>>,
    pub(super) meters: Option<Box<Meters>>,
    /// Requests whose handlers wait for something other than a core or a lock.
    pub(super) asleep: u32,
    /// The longest that a message waited to be read since the controller was last told.
    pub(super) read_delay: Duration,
    /// When a timer event is due.
    timer: Instant,
    pub(super) counts: Counts,
}

/// Something for an idle core to do. It counts as waiting since it was put into its queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// Read what a client sent.
    Read { message: Message, queued: Instant },
    /// Write what is ready for a client.
    Write { link: Link },
    /// Run a request.
    Run { request: RequestId, since: Instant },
}

/// What a client sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) link: Link,
    pub(super) requests: Chain,
    pub(super) report: Option<Report>,
    pub(super) cancel: Option<Cancel>,
}

/// What a core is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Nothing,
    Reading {
        message: Message,
        queued: Instant,
    },
    Running {
        request: RequestId,
    },
    /// A request has been preempted.
    Switching {
        request: RequestId,
    },
    Writing {
        link: Link,
        replies: Chain,
        feedback: Feedback,
    },
}

/// A server's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) generation: u16,
    /// Replies that are not written yet.
    ready: Chain,
    /// News for the client that no reply carries.
    push: Feedback,
    /// The window that the client was told last.
    window: u32,
    /// True from when something is ready until it is written.
    writing: bool,
}

impl Task {
    /// What is not read yet, and since when.
    pub(super) fn unread(&mut self) -> Option<(&mut Message, Instant)> {
        match self {
            Self::Read { message, queued } => Some((message, *queued)),
            _ => None,
        }
    }
}

impl Session {
    fn new(generation: u16) -> Self {
        let (ready, push) = (Chain::EMPTY, Feedback::None);
        Self { generation, ready, push, window: 0, writing: false }
    }

    fn has_news(&self) -> bool {
        self.ready.len > 0 || self.push != Feedback::None
    }
}

impl Server {
    pub(super) fn new(
        index: u16,
        scenario: &Scenario,
        speed: f64,
        classes: &Mix,
        algorithm: &Arc<dyn Algorithm>,
        init: Init,
    ) -> Self {
        let cores = scenario.server.cores;
        let memory = || Memory::new(scenario.server.memory.bandwidth, cores, scenario.window());
        let mut meters = Meters::new(scenario, algorithm.asks_for_cpu(), init.seed);
        let semaphore = Semaphore::new(&scenario.server, init.seed);
        if let (Some(meters), Some(semaphore)) = (&mut meters, &semaphore) {
            meters.on_capacity(init.now, semaphore.capacity());
        }
        Self {
            index,
            controller: algorithm.clone().server(init),
            predictor: queue::RunQueue::new(cores),
            budget: scenario.server.budget.under(&**algorithm),
            queues: scenario.server.queues,
            standing: Standing::default(),
            costs: scenario.server.costs.clone(),
            slowness: speed.recip(),
            messages: VecDeque::new(),
            runnable: Lanes::default(),
            cores: vec![Work::Nothing; cores as usize],
            due: vec![init.now; cores as usize],
            stall: Stall::default(),
            idle: (0..cores as u16).rev().collect(),
            sessions: vec![Session::new(0); scenario.workload.clients as usize],
            locks: (0..classes.locks()).map(|_| Lock::default()).collect(),
            memory: scenario.workload.draws_memory().then(memory).map(Box::new),
            semaphore: semaphore.map(Box::new),
            meters: meters.map(Box::new),
            asleep: 0,
            read_delay: Duration::ZERO,
            timer: Instant::NEVER,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// What an idle core should do, if there is one and there is something to do.
    fn next_task(&mut self, stalls: bool) -> Option<Task> {
        if self.idle.is_empty() || stalls {
            return None;
        }
        let run = |(since, request)| Task::Run { request, since };
        self.messages.pop_front().or_else(|| self.runnable.pop().map(run))
    }

    /// Requests that are in it, wherever.
    pub(super) fn holds(&self) -> u64 {
        let read = |task: &Task| match task {
            Task::Read { message, .. } => message.requests.len,
            _ => 0,
        };
        let at_work = |work: &Work| match work {
            Work::Nothing => 0,
            Work::Reading { message, .. } => message.requests.len,
            Work::Running { .. } | Work::Switching { .. } => 1,
            Work::Writing { replies, .. } => replies.len,
        };
        let messages: u32 = self.messages.iter().map(read).sum();
        let cores: u32 = self.cores.iter().map(at_work).sum();
        let ready: u32 = self.sessions.iter().map(|session| session.ready.len).sum();
        let drawing = self.semaphore.as_deref().map_or(0, Semaphore::waiting);
        let blocked = self.locks.iter().map(Lock::waiting).sum::<usize>() + drawing;
        u64::from(messages + cores + ready + self.asleep) + (self.runnable.len() + blocked) as u64
    }

    /// Whether a core is idle although there is something to do, and the CPU to do it.
    pub(super) fn neglects_work(&self, now: Instant) -> bool {
        let idle = self.cores.iter().filter(|work| matches!(work, Work::Nothing)).count();
        // In the instant in which a stall ends nothing may have begun yet.
        idle > 0 && self.has_waiting() && now > self.stall.until
    }

    /// What its cores work on takes longer by this.
    pub(super) fn delay_work(&mut self, delay: Duration) {
        self.due.iter_mut().for_each(|due| *due = *due + delay);
    }

    /// Whether anything waits for a core.
    pub(super) fn has_waiting(&self) -> bool {
        !(self.messages.is_empty() && self.runnable.is_empty())
    }

    /// The request that a core runs.
    pub(super) fn running(&self, core: u16) -> RequestId {
        match self.cores[usize::from(core)] {
            Work::Running { request } => request,
            _ => unreachable!("only requests draw from the memory"),
        }
    }

    /// A core is idle again.
    pub(super) fn give_back(&mut self, core: u16) {
        self.idle.push(core);
    }

    /// An idle core runs a step that draws from the memory; which core, and the step's number.
    pub(super) fn draw(
        &mut self,
        now: Instant,
        request: RequestId,
        time: Duration,
        draw: Bandwidth,
    ) -> (u16, u32) {
        let core = self.idle.pop().expect("work is given to idle cores only");
        let time = self.on_core(time);
        self.cores[usize::from(core)] = Work::Running { request };
        let memory = self.memory.as_mut().expect("there is one if a step draws from it");
        (core, memory.begin(now, core, time, draw))
    }

    /// Takes a step that has ended off the memory: its core, and how it went.
    pub(super) fn take_drawn(&mut self, now: Instant) -> Option<(u16, Drawn)> {
        let (core, drawn) = self.memory.as_mut()?.take_ended(now)?;
        self.counts.busy_ns += time::nanos(drawn.measured);
        Some((core, drawn))
    }

    /// Takes the step that this core runs off the memory.
    pub(super) fn stop_drawing(&mut self, now: Instant, core: u16) -> Drawn {
        let mut drawn = self.memory.as_mut().expect("the step draws").stop(now, core);
        self.counts.busy_ns += time::nanos(drawn.measured);
        if self.slowness != 1.0 {
            // Steps are told at the nominal speed.
            drawn.left = drawn.left.div_f64(self.slowness);
        }
        drawn
    }

    /// A client connects.
    pub(super) fn open(&mut self, now: Instant, link: Link) {
        self.sessions[link.client as usize] = Session::new(link.generation);
        self.controller.on_session(now, session(link), SessionEvent::Opened(Identity::default()));
    }

    pub(super) fn age(&self, now: Instant) -> Duration {
        self.runnable.oldest().map_or(Duration::ZERO, |oldest| now.since(oldest))
    }

    /// Tells the controller the queueing delay, as a live server does, and returns it.
    fn signal(&mut self, now: Instant) -> Duration {
        let delay = std::mem::take(&mut self.read_delay) + self.age(now);
        self.controller.on_signal(now, Signal::QueueDelay(delay));
        delay
    }

    /// Hands out all that the controller wants clients to be told.
    pub(super) fn push(&mut self, now: Instant) {
        while let Some((id, feedback)) = self.controller.poll_push(now) {
            let session = &mut self.sessions[id.slot as usize];
            if u32::from(session.generation) == id.generation {
                session.push = feedback;
                self.write_soon(id.slot);
            }
        }
    }

    /// Sees to it that what is ready for a client gets written.
    fn write_soon(&mut self, client: u32) {
        let session = &mut self.sessions[client as usize];
        if !std::mem::replace(&mut session.writing, true) {
            let link = Link { client, server: self.index, generation: session.generation };
            self.messages.push_back(Task::Write { link });
        }
    }

    /// A core works for `time`, as it would take at the nominal speed.
    fn occupy(&mut self, measured: bool, core: u16, work: Work, time: Duration) -> Duration {
        let time = self.on_core(time);
        self.cores[usize::from(core)] = work;
        self.counts.busy_ns += if measured { time::nanos(time) } else { 0 };
        time
    }

    /// How long this server's cores take for what nominally takes `time`.
    fn on_core(&self, time: Duration) -> Duration {
        if self.slowness == 1.0 { time } else { time.mul_f64(self.slowness) }
    }
}

impl World<'_> {
    /// A message has reached a server.
    pub(super) fn receive(
        &mut self,
        link: Link,
        requests: Chain,
        report: Option<Report>,
        cancel: Option<Cancel>,
    ) {
        let measured = self.is_measured();
        self.on_the_way -= u64::from(requests.len);
        let server = &mut self.servers[usize::from(link.server)];
        server.counts.received += u64::from(measured);
        let requests = match self.scenario.server.guardian {
            true => self.guard(link.server, requests, Duration::ZERO),
            false => requests,
        };
        let server = &mut self.servers[usize::from(link.server)];
        let message = Message { link, requests, report, cancel };
        server.messages.push_back(Task::Read { message, queued: self.now });
        self.dispatch(link.server);
    }

    /// A client is gone: its session ends, and with it what was ready for it.
    pub(super) fn close(&mut self, server: usize, client: u32) {
        let server = &mut self.servers[server];
        let session = &mut server.sessions[client as usize];
        let generation = u32::from(session.generation);
        let ready = std::mem::replace(session, Session::new(session.generation + 1)).ready;
        let id = SessionId { slot: client, generation };
        server.controller.on_session(self.now, id, SessionEvent::Closed);
        server.push(self.now);
        let index = server.index;
        self.forget(ready);
        self.dispatch(index);
    }

    /// A controller wanted to be looked at.
    pub(super) fn server_timer(&mut self, index: u16) {
        let now = self.now;
        let server = &mut self.servers[usize::from(index)];
        if server.timer != now {
            return;
        }
        if server.stall.is_on(now) {
            server.timer = server.stall.until;
            return self.events.push(server.timer, Event::ServerTimer { server: index });
        }
        server.timer = Instant::NEVER;
        if server.controller.poll_timeout().is_some_and(|at| at <= now) {
            server.signal(now);
            server.controller.handle_timeout(now);
            server.push(now);
        }
        self.dispatch(index);
    }

    /// A core is free again.
    pub(super) fn core_done(&mut self, index: u16, core: u16) {
        let server = &mut self.servers[usize::from(index)];
        let due = server.due[usize::from(core)];
        if due > self.now {
            return self.events.push(due, Event::CoreDone { server: index, core });
        }
        match std::mem::replace(&mut server.cores[usize::from(core)], Work::Nothing) {
            Work::Nothing => self.books.core_was_idle(),
            Work::Reading { message, queued } => {
                server.idle.push(core);
                self.judge(message, queued);
            }
            Work::Running { request } if !self.requests[request].left.is_zero() => {
                self.preempt(index, core, request);
            }
            Work::Running { request } => {
                server.idle.push(core);
                self.ran(index, request);
            }
            Work::Switching { request } => {
                server.idle.push(core);
                let droppable = self.requests[request].droppable;
                server.runnable.push(self.now, droppable, request);
            }
            Work::Writing { link, replies, feedback } => {
                if self.fault != Some(Fault::ForgetsCores) {
                    server.idle.push(core);
                }
                self.wrote(link, replies, feedback);
            }
        }
        self.dispatch(index);
    }

    /// Gives idle cores something to do, as long as there is something.
    pub(super) fn dispatch(&mut self, index: u16) {
        let stall = self.servers[usize::from(index)].stall;
        let stalls = stall.is_on(self.now) && !self.has(Fault::IgnoresNoise);
        while let Some(task) = self.servers[usize::from(index)].next_task(stalls) {
            match task {
                Task::Read { message, queued } => self.read(message, queued),
                Task::Write { link } => self.write(link),
                Task::Run { request, since } => self.run_first(index, since, request),
            }
        }
        self.rearm_server(index);
    }

    fn read(&mut self, message: Message, queued: Instant) {
        let Message { link, requests, report, cancel } = message;
        let costs = &self.servers[usize::from(link.server)].costs;
        let items = requests.len + u32::from(report.is_some()) + u32::from(cancel.is_some());
        let time = costs.receive + costs.request * items;
        self.occupy(link.server, Work::Reading { message, queued }, time);
    }

    /// The reply of a request is ready to be written.
    pub(super) fn ready(&mut self, link: Link, id: RequestId, state: State) {
        self.set_state(id, state);
        if self.has(Fault::AnswersTwice) {
            self.set_state(id, state);
        }
        let server = &mut self.servers[usize::from(link.server)];
        self.requests.append(&mut server.sessions[link.client as usize].ready, id);
        server.write_soon(link.client);
    }

    /// A core takes all that is ready for a client, and the controller says what to tell it.
    fn write(&mut self, link: Link) {
        let now = self.now;
        let server = &mut self.servers[usize::from(link.server)];
        let owner = &mut server.sessions[link.client as usize];
        if owner.generation != link.generation {
            return;
        }
        if !owner.has_news() {
            owner.writing = false;
            return;
        }
        let replies = std::mem::replace(&mut owner.ready, Chain::EMPTY);
        let push = std::mem::replace(&mut owner.push, Feedback::None);
        let feedback = if replies.len == 0 {
            push
        } else {
            let queue_delay = server.signal(now);
            let mut rest = replies;
            while let Some(id) = self.requests.take_first(&mut rest) {
                let request = &mut self.requests[id];
                request.queue_delay = queue_delay;
                let outcome = match request.state {
                    State::Served => Outcome::Done,
                    State::Cancelled => Outcome::Cancelled,
                    _ => Outcome::Refused(request.refused_at),
                };
                let mut completion = Completion::new(session(link), outcome, request.arrived);
                completion.class = Class(request.class);
                completion.droppable = request.droppable;
                completion.queue_delay = request.context.charged();
                completion.in_budget = !request.context.remaining(now).is_zero();
                server.controller.on_completion(now, &completion);
            }
            let feedback = server.controller.feedback(now, session(link));
            server.push(now);
            feedback
        };
        let carried = replies.len.max(1);
        let time = server.costs.send + server.costs.reply * carried;
        self.count_message(link, replies, feedback);
        self.occupy(link.server, Work::Writing { link, replies, feedback }, time);
    }

    fn count_message(&mut self, link: Link, replies: Chain, feedback: Feedback) {
        let measured = u64::from(self.is_measured());
        let server = &mut self.servers[usize::from(link.server)];
        server.counts.sent += measured;
        server.counts.credits += if replies.len == 0 { measured } else { 0 };
        if let Feedback::Window { size, .. } = feedback {
            let before = &mut server.sessions[link.client as usize].window;
            if replies.len == 0 {
                server.counts.revoked += measured * u64::from(before.saturating_sub(size));
            }
            *before = size;
        }
    }

    /// A message is on its way to its client.
    fn wrote(&mut self, link: Link, replies: Chain, feedback: Feedback) {
        let delay = self.network_delay();
        if !self.has(Fault::LosesReplies) {
            self.on_the_way += u64::from(replies.len);
            self.events.push(self.now + delay, Event::ToClient { link, replies, feedback });
        }
        let server = &mut self.servers[usize::from(link.server)];
        let session = &mut server.sessions[link.client as usize];
        if session.generation == link.generation {
            session.writing = false;
            if session.has_news() {
                server.write_soon(link.client);
            }
        }
    }

    /// An idle core works for `time`.
    pub(super) fn occupy(&mut self, index: u16, work: Work, time: Duration) {
        let measured = self.is_measured();
        let server = &mut self.servers[usize::from(index)];
        let core = server.idle.pop().expect("work is given to idle cores only");
        let time = server.occupy(measured, core, work, time);
        let due = self.now + time;
        server.due[usize::from(core)] = due;
        let stalled = server.stall.is_on(self.now);
        self.events.push(due, Event::CoreDone { server: index, core });
        self.books.core_begins(stalled);
    }

    fn rearm_server(&mut self, index: u16) {
        let server = &mut self.servers[usize::from(index)];
        if let Some(memory) = &mut server.memory
            && let Some((at, epoch)) = memory.poll_event(self.now)
            && self.fault != Some(Fault::ForgetsMemory)
        {
            self.events.push(at, Event::Memory { server: index, epoch });
        }
        if let Some(meters) = &mut server.meters {
            meters.on_busy_cores(self.now, (server.cores.len() - server.idle.len()) as u64);
        }
        if let Some(at) = server.controller.poll_timeout()
            && at < server.timer
        {
            server.timer = at.max(self.now);
            self.events.push(server.timer, Event::ServerTimer { server: index });
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.window.contains(self.now)
    }
}

pub(super) fn session(link: Link) -> SessionId {
    SessionId { slot: link.client, generation: u32::from(link.generation) }
}
