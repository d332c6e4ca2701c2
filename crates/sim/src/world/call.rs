//! Calls: what a client was asked for, whatever becomes of the copies of it that replicas get.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use seawall_control::Instant;
use slab::Slab;

use super::request::RequestId;

/// Place of a call among all; reused after its end.
pub(super) type CallId = u32;

/// One call. It ends once; its place stays until nobody has a copy of it any more.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) scheduled: Instant,
    pub(super) class: u8,
    /// Tells it from calls that had the same place before.
    pub(super) serial: u32,
    /// It has not ended.
    pub(super) is_open: bool,
    /// Copies under way: the first, and one more if that was slow.
    copies: [Option<RequestId>; 2],
    /// Replicas that have what it asks for, and those that it was given to, as the bits of their
    /// numbers.
    pub(super) eligible: u64,
    pub(super) tried: u64,
    /// How often it was sent, but for the copies under way.
    pub(super) sent: u8,
    /// No attempt has failed yet.
    pub(super) is_first: bool,
    /// It was refused everywhere, and waits now for as long as it takes.
    pub(super) is_patient: bool,
    /// Of the replicas that refused it, the one that predicted to be free first, and when.
    pub(super) soonest: Option<(usize, Instant)>,
}

/// All calls of which there are copies.
#[derive(Debug, Default)]
pub(super) struct Calls(Slab<Call>);

impl Call {
    /// A call that these replicas can serve.
    pub(super) fn new(scheduled: Instant, class: u8, serial: u32, eligible: u64) -> Self {
        Self {
            scheduled,
            class,
            serial,
            is_open: true,
            copies: [None; 2],
            eligible,
            tried: 0,
            sent: 0,
            is_first: true,
            is_patient: false,
            soonest: None,
        }
    }

    /// The copies under way.
    pub(super) fn copies(&self) -> impl Iterator<Item = RequestId> + use<> {
        self.copies.into_iter().flatten()
    }

    /// How many there are, beside this one.
    pub(super) fn others(&self, copy: RequestId) -> u8 {
        self.copies().filter(|other| *other != copy).count() as u8
    }

    /// Another copy is under way.
    pub(super) fn add(&mut self, copy: RequestId) {
        let free = self.copies.iter_mut().find(|place| place.is_none());
        *free.expect("of a call there are two copies at most") = Some(copy);
    }

    /// Replicas that it was not given to.
    pub(super) fn untried(&self) -> u64 {
        self.eligible & !self.tried
    }

    /// How many these are.
    pub(super) fn left(&self) -> usize {
        self.untried().count_ones() as usize
    }

    /// A replica has refused it.
    pub(super) fn on_refusal(&mut self, now: Instant, server: usize, delay: Duration) {
        let free_at = now + delay;
        if self.soonest.is_none_or(|(_, soonest)| free_at < soonest) {
            self.soonest = Some((server, free_at));
        }
    }
}

impl Calls {
    pub(super) fn insert(&mut self, call: Call) -> CallId {
        self.0.insert(call) as CallId
    }

    pub(super) fn get(&self, id: CallId) -> Option<&Call> {
        self.0.get(id as usize)
    }

    /// Nobody has this copy any more; with the last one a call is forgotten that has ended.
    pub(super) fn remove_copy(&mut self, id: CallId, copy: RequestId) {
        let call = &mut self[id];
        let place = call.copies.iter_mut().find(|place| **place == Some(copy));
        *place.expect("each copy is one of its call's") = None;
        if !call.is_open && call.copies().next().is_none() {
            self.0.remove(id as usize);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().map(|(_, call)| call)
    }
}

impl Index<CallId> for Calls {
    type Output = Call;

    fn index(&self, id: CallId) -> &Call {
        &self.0[id as usize]
    }
}

impl IndexMut<CallId> for Calls {
    fn index_mut(&mut self, id: CallId) -> &mut Call {
        &mut self.0[id as usize]
    }
}
