//! The server's book about one session.

use core::time::Duration;

use alloc::vec::Vec;

use super::roster::Place;
use super::window_log::WindowLog;
use crate::controller::SessionId;
use crate::estimate::Rate;

/// How far back a session's request rate remembers.
const RATE_MEMORY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Session {
    /// Credits held: requests in the server plus unused credits, as far as the server has booked
    /// them.
    pub(super) window: u32,
    /// Requests in the server: arrived, terminal reply not yet ready.
    pub(super) pending: u32,
    /// Those of them that are not droppable.
    pub(super) privileged: u32,
    /// Requests waiting at the client, as last told.
    pub(super) demand: u32,
    /// Its client knows nothing of credits: it holds one for each request that it has in the
    /// server.
    pub(super) guest: bool,
    /// The tenant's row in [`Shares`](super::shares::Shares).
    pub(super) share: u32,
    /// True once the client has said something: it takes part in the distribution.
    pub(super) registered: bool,
    /// False until the first request, which needs no credit (Breakwater §3).
    pub(super) called: bool,
    /// A request of the batch that is being answered was refused.
    pub(super) refused_in_batch: bool,
    pub(super) place: Place,
    pub(super) log: WindowLog,
    pub(super) rate: Rate,
}

impl Session {
    pub(super) fn new(share: u32, guest: bool) -> Self {
        Self {
            window: 0,
            pending: 0,
            privileged: 0,
            demand: 0,
            guest,
            share,
            registered: false,
            called: false,
            refused_in_batch: false,
            place: None,
            log: WindowLog::default(),
            rate: Rate::new(RATE_MEMORY),
        }
    }

    /// What an honest client may have outstanding; the first call of a session needs no credit.
    pub(super) fn allowed(&self) -> u32 {
        if self.called { self.log.allowed() } else { self.log.allowed().max(1) }
    }
}

/// All sessions by slot. A slot is given again only under a new generation.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<(u32, Option<Session>)>,
}

impl Sessions {
    /// Opens `id`. Slots are chosen by the mechanism that owns the connections; a gap in the slots
    /// costs memory, so they are reused densely.
    ///
    /// # Panics
    ///
    /// If the slot is taken: sessions close before their slot is given again.
    pub(super) fn open(&mut self, id: SessionId, session: Session) {
        let slot = id.slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || (0, None));
        }
        assert!(self.slots[slot].1.is_none(), "session slot {slot} is still open");
        self.slots[slot] = (id.generation, Some(session));
    }

    pub(super) fn close(&mut self, id: SessionId) -> Option<Session> {
        let (generation, session) = self.slots.get_mut(id.slot as usize)?;
        if *generation == id.generation { session.take() } else { None }
    }

    pub(super) fn get(&mut self, id: SessionId) -> Option<&mut Session> {
        match self.slots.get_mut(id.slot as usize) {
            Some((generation, Some(session))) if *generation == id.generation => Some(session),
            _ => None,
        }
    }

    /// The session in a slot that one of the lists named, which is open.
    pub(super) fn at(&mut self, slot: u32) -> &mut Session {
        self.slots[slot as usize].1.as_mut().expect("listed sessions are open")
    }

    pub(super) fn peek_id(&self, id: SessionId) -> Option<&Session> {
        match self.slots.get(id.slot as usize) {
            Some((generation, session)) if *generation == id.generation => session.as_ref(),
            _ => None,
        }
    }

    pub(super) fn peek(&self, slot: u32) -> &Session {
        self.slots[slot as usize].1.as_ref().expect("listed sessions are open")
    }

    pub(super) fn id_at(&self, slot: u32) -> SessionId {
        SessionId { slot, generation: self.slots[slot as usize].0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(|(_, session)| session.as_ref())
    }
}
