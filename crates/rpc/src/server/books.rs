//! The books of one client: what it has in the server, from its session to its last reply.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Drain;

use async_task::Task;
use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::predict::network::Lateness;
use seawall_control::request::{Class, Identity, RefusalReason, Stage};
use seawall_control::time::nanos;
use seawall_control::wire;

use super::Shared;
use super::admission::{Circumstances, Entry, News};
use super::close::CloseReason;
use super::context::Context;
use super::job::{End, Reply};
use super::page::Page;
use super::run_queue::Job;
use super::session::Session;
use super::spill::Relays;
use super::stats::add;
use crate::clock;

/// A session, its calls and their replies. Dropping it cancels what is left, and gives everything
/// back, however its connection ended.
#[derive(Debug)]
pub(super) struct Books {
    shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
    /// The controller knows the session.
    identified: bool,
    /// Calls on the run queue or in a handler. Dropping one cancels it.
    calls: HashMap<u64, Task<(), Context>>,
    /// Calls that are not settled, those at replicas apart; by the rows of their classes.
    in_flight: [u32; Class::COUNT],
    /// What happens to refused calls at replicas, if the client's may be handed on.
    relays: Option<Relays>,
    /// Replies that are ready.
    replies: Vec<Reply>,
    /// How late the client's requests come.
    lateness: Lateness,
    /// Where they count. A session without it counts nowhere, even if there is one later.
    page: Option<Arc<Page>>,
}

impl Books {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// There are too many, or the server is about to stop.
    pub(super) fn open(shared: &Arc<Shared>) -> Result<Self, CloseReason> {
        let session = shared.admission.open()?;
        Ok(Self {
            shared: shared.clone(),
            session,
            identified: false,
            calls: HashMap::new(),
            in_flight: [0; Class::COUNT],
            relays: None,
            replies: Vec::new(),
            lateness: Lateness::default(),
            page: shared.page.get().cloned(),
        })
    }

    /// The client has said who it is.
    pub(super) fn identify(&mut self, identity: Identity) {
        self.shared.admission.identify(self.session.id, identity);
        self.identified = true;
    }

    /// From now on refused calls whose payload is [kept](Self::keep) are handed to replicas, where
    /// that is configured.
    pub(super) fn spill(&mut self) {
        self.relays = self.shared.spill.clone().map(Relays::new);
    }

    /// Keeps the payload of a call that entry has just `refused` or let in, if it may be handed on.
    pub(super) fn keep(&mut self, id: u64, refused: bool, payload: impl FnOnce() -> Bytes) {
        if let Some(relays) = &mut self.relays {
            relays.keep(id, refused, payload);
        }
    }

    /// Judges a call that was read `now`, after its bytes had waited for `waited`. The reply of one
    /// that is refused is ready then.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        frame: &wire::Request,
        waited: Duration,
    ) -> Result<Context, RefusalReason> {
        let Shared { admission, router, counters, config, .. } = &*self.shared;
        let measured = || config.rtt + self.lateness.p99();
        let circumstances = Circumstances {
            waited,
            network_p99: config.network_p99.unwrap_or_else(measured),
            excess: self.in_flight() >= config.limits.outstanding,
            page: self.page.clone(),
        };
        let entry = admission.arrive(now, self.session.id, frame, router, circumstances);
        let (Entry::Admitted(context) | Entry::Refused(context, _)) = &entry;
        add(&counters.classes.of(context.class()).requests, 1);
        counters.waits.socket.observe(waited);
        self.in_flight[context.class().row()] += 1;
        match entry {
            Entry::Admitted(context) => Ok(context),
            Entry::Refused(context, rejected) => {
                if rejected.reason == RefusalReason::WindowExceeded {
                    add(&counters.window_violations, 1);
                }
                self.replies.push(Reply::unserved(context, End::Rejected(rejected)));
                Err(rejected.reason)
            }
        }
    }

    /// A request that its client sent at `sent_at_ns` was the newest of what was read `now`, or at
    /// `read_ns` of the realtime clock, after it had waited for that.
    pub(super) fn heard(&mut self, now: Instant, sent_at_ns: u64, read_ns: u64, waited: Duration) {
        let config = &self.shared.config;
        if config.network_p99.is_none() && sent_at_ns > 0 {
            let received = read_ns.saturating_sub(nanos(waited));
            self.lateness.observe(now, sent_at_ns, received, config.target_delay());
        }
    }

    /// Refusals that have not left.
    pub(super) fn has_refusals(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Lets a call run that was admitted as `id`.
    pub(super) fn run(&mut self, now: Instant, id: u64, (job, task): (Job, Task<(), Context>)) {
        self.calls.insert(id, task);
        self.shared.queue.push(now, job);
    }

    /// Cancels a call, if there is one. It gets its reply all the same.
    pub(super) fn cancel(&mut self, id: u64) {
        self.calls.remove(&id);
        if let Some(relays) = &self.relays {
            relays.cancel(id);
        }
    }

    /// Hands out all replies that are ready, refusals first, or none if there is only something to
    /// tell. What a replica takes instead of being refused stays in the books.
    pub(super) fn settle(&mut self) -> Option<(News, Drain<'_, Reply>)> {
        if self.session.take_halt() {
            self.refuse_halted(clock::now());
        }
        let Shared { admission, counters, .. } = &*self.shared;
        let push = self.session.collect(&mut self.replies);
        if self.replies.is_empty() {
            let (feedback, now) = (push?, clock::now());
            let news = News { feedback, queue_delay: admission.queue_age(now), now };
            return Some((news, self.replies.drain(..)));
        }
        let news = admission.complete(self.session.id, &self.replies);
        for reply in self.replies.iter().filter(|reply| reply.relayed.is_none()) {
            if let Some(page) = &self.page {
                page.on_end(news.now, reply); // what a replica takes has ended here
            }
            self.in_flight[reply.context.class().row()] -= 1;
            self.calls.remove(&reply.context.claims().id);
        }
        if let Some(relays) = &mut self.relays {
            relays.hand_on(&self.session, &mut self.replies, |class| {
                add(&counters.classes.of(class).spilled, 1);
            });
        }
        let mut refused = 0;
        for reply in &self.replies {
            counters.classes.of(reply.context.class()).ended(news.now, reply);
            refused += usize::from(reply.is_refusal());
        }
        if (1..self.replies.len()).contains(&refused) {
            // They are small, and somebody waits for them to go elsewhere.
            self.replies.sort_by_key(|reply| !reply.is_refusal());
        }
        Some((news, self.replies.drain(..)))
    }

    /// Refuses calls whose handlers have begun, and stand still for longer than they can wait,
    /// where it does no harm that another replica serves them, too.
    fn refuse_halted(&mut self, now: Instant) {
        let Some(rest) = self.shared.queue.halted_for(now) else { return };
        for context in self.calls.values().map(Task::metadata) {
            if context.is_repeatable()
                && context.has_begun()
                && context.refuse_outright(Stage::PAUSE, now, now, rest)
                && context.may_answer()
                && let Some(rejected) = context.outright_refusal()
            {
                context.set_refused();
                self.replies.push(Reply::unserved(context.clone(), End::Rejected(rejected)));
            }
        }
    }

    /// True if a call of this number is on the run queue, in a handler, or at a replica.
    pub(super) fn is_running(&self, id: u64) -> bool {
        let relayed = self.relays.as_ref().is_some_and(|relays| relays.contains(id));
        relayed || self.calls.contains_key(&id)
    }

    /// Where the client's calls count, if anywhere.
    pub(super) fn page(&self) -> Option<&Page> {
        self.page.as_deref()
    }

    /// Calls that are not settled.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight_here() + self.relays.as_ref().map_or(0, Relays::len)
    }

    fn in_flight_here(&self) -> u32 {
        self.in_flight.iter().sum()
    }
}

impl Drop for Books {
    fn drop(&mut self) {
        if let Some(relays) = &mut self.relays {
            relays.stop();
        }
        drop(self.settle());
        self.shared.admission.close(self.session.id, self.identified, self.in_flight_here());
        if let Some(page) = &self.page {
            page.on_forgotten(self.in_flight_here());
        }
        let classes = &self.shared.counters.classes;
        for (row, count) in (0..).zip(self.in_flight) {
            add(&classes.of(Class(row)).cancellations, u64::from(count));
        }
        for class in self.relays.iter().flat_map(Relays::classes) {
            add(&classes.of(class).cancellations, 1);
        }
    }
}
