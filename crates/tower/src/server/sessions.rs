//! Credit sessions by the names of clients, and the one of all guests.

use std::collections::HashMap;

use seawall_control::Instant;
use seawall_control::controller::{SessionEvent, SessionId};
use seawall_control::entry::{Entry, Slots};
use seawall_control::fields::Name;
use seawall_control::request::Identity;

use super::config::Limits;

/// Sessions that one arrival closes at most because nobody uses them.
const CLOSED_AT_ONCE: usize = 64;

/// Who a session belongs to: what the client calls itself, and as whom it is known. So nobody
/// unknown can use up the credits of somebody who is known.
pub type Owner = (Name, Option<usize>);

/// The sessions of all who send requests, of which one entry knows.
#[derive(Debug)]
pub struct Sessions {
    sessions: Slots<Session>,
    by_owner: HashMap<Owner, SessionId>,
    guests: SessionId,
    limits: Limits,
    /// When idle sessions were last looked for.
    swept: Instant,
}

#[derive(Debug)]
struct Session {
    /// Guests are nobody in particular.
    owner: Option<Owner>,
    in_flight: u32,
    used: Instant,
}

impl Sessions {
    /// Opens the session of all guests: they hold no credits, and get a share of the pool.
    pub fn open(now: Instant, entry: &mut Entry, limits: Limits) -> Self {
        let mut sessions = Slots::default();
        let guests = sessions.insert(|_| Session { owner: None, in_flight: 0, used: now });
        let identity = Identity { speaks_credits: false, ..Identity::default() };
        entry.on_session(now, guests, SessionEvent::Opened(identity));
        Self { sessions, by_owner: HashMap::new(), guests, limits, swept: now }
    }

    /// A request of `owner` has come: its session, which is opened if there is none, and whether it
    /// has more outstanding than any may. Without an owner, or without room, it is the guests'.
    pub fn arrive(
        &mut self,
        now: Instant,
        entry: &mut Entry,
        owner: Option<Owner>,
        identity: Identity,
    ) -> (SessionId, bool) {
        let id = owner.and_then(|owner| self.find(now, entry, owner, identity));
        let id = id.unwrap_or(self.guests);
        let session = self.sessions.get_mut(id).expect("sessions by name are open");
        let excess = id != self.guests && session.in_flight >= self.limits.outstanding;
        session.in_flight += 1;
        session.used = now;
        (id, excess)
    }

    /// A request that [arrived](Self::arrive) in a session has ended.
    pub fn leave(&mut self, now: Instant, id: SessionId) {
        let session = self.sessions.get_mut(id).expect("a session with requests stays open");
        session.in_flight -= 1;
        session.used = now;
    }

    /// Closes sessions that nobody has used for long, if nobody has looked for them lately.
    pub fn sweep(&mut self, now: Instant, entry: &mut Entry) {
        let idle = self.limits.session_idle;
        if now.since(self.swept) < idle / 8 {
            return;
        }
        self.swept = now;
        let is_idle = |id: &SessionId| {
            let session = self.sessions.get(*id);
            session.is_some_and(|it| it.in_flight == 0 && now.since(it.used) >= idle)
        };
        let ids = self.by_owner.values().copied();
        let closing: Vec<_> = ids.filter(is_idle).take(CLOSED_AT_ONCE).collect();
        for id in closing {
            entry.on_session(now, id, SessionEvent::Closed);
            if let Some(owner) = self.sessions.remove(id).and_then(|session| session.owner) {
                self.by_owner.remove(&owner);
            }
        }
    }

    /// Credit sessions that are open.
    pub fn count(&self) -> usize {
        self.by_owner.len()
    }

    fn find(
        &mut self,
        now: Instant,
        entry: &mut Entry,
        owner: Owner,
        identity: Identity,
    ) -> Option<SessionId> {
        if let Some(id) = self.by_owner.get(&owner) {
            return Some(*id);
        }
        if self.count() >= self.limits.sessions as usize {
            self.sweep(now, entry);
        }
        if self.count() >= self.limits.sessions as usize {
            return None;
        }
        let session = Session { owner: Some(owner), in_flight: 0, used: now };
        let id = self.sessions.insert(|_| session);
        entry.on_session(now, id, SessionEvent::Opened(identity));
        self.by_owner.insert(owner, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::admission;
    use seawall_control::entry;
    use seawall_control::request::Budget;
    use seawall_control::standing::Queues;
    use std::time::Duration;

    const IDLE: Duration = Duration::from_secs(8);

    fn sessions(limit: u32) -> (Entry, Sessions) {
        let config = entry::Config {
            cores: 1,
            seed: 1,
            target_delay: IDLE,
            rtt: Duration::from_millis(1),
            budget: Budget::Auto,
            queues: Queues::Short,
            service_p99: None,
        };
        let algorithm = admission::Config::named("breakwater").build().unwrap();
        let mut entry = Entry::new(Instant::ORIGIN, algorithm, &config);
        let limits = Limits { sessions: limit, session_idle: IDLE, outstanding: 2 };
        let sessions = Sessions::open(Instant::ORIGIN, &mut entry, limits);
        (entry, sessions)
    }

    fn owner(name: &str, known: Option<usize>) -> Option<Owner> {
        Some((Name::new(name).unwrap(), known))
    }

    #[test]
    fn a_name_is_a_session_over_all_connections() {
        let (mut entry, mut sessions) = sessions(9);
        let mut arrive =
            |owner| sessions.arrive(Instant::ORIGIN, &mut entry, owner, Identity::default());
        let (a, _) = arrive(owner("a", None));
        assert_eq!(arrive(owner("a", None)), (a, false));
        assert_eq!(arrive(owner("a", None)), (a, true), "more than any may");
        assert_ne!(arrive(owner("a", Some(0))).0, a, "somebody else of the same name");
        let (guests, _) = arrive(None);
        assert_eq!((arrive(None), arrive(None)), ((guests, false), (guests, false)));
    }

    #[test]
    fn who_finds_no_room_is_a_guest_until_others_have_been_idle() {
        let (mut entry, mut sessions) = sessions(2);
        let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
        let mut arrive = |sessions: &mut Sessions, seconds, name| {
            sessions.arrive(at(seconds), &mut entry, owner(name, None), Identity::default()).0
        };
        let (a, b) = (arrive(&mut sessions, 0, "a"), arrive(&mut sessions, 0, "b"));
        sessions.leave(at(1), a);
        sessions.leave(at(5), b);
        let guest = arrive(&mut sessions, 6, "c");
        assert!(guest != a && guest != b);
        // Now "a" is idle for long enough, and "b" is not.
        let c = arrive(&mut sessions, 10, "c");
        assert_eq!((c.slot, sessions.count()), (a.slot, 2));
        assert_eq!(arrive(&mut sessions, 10, "b"), b);
    }

    #[test]
    fn a_session_with_requests_stays() {
        let (mut entry, mut sessions) = sessions(2);
        sessions.arrive(Instant::ORIGIN, &mut entry, owner("a", None), Identity::default());
        sessions.sweep(Instant::ORIGIN + 9 * IDLE, &mut entry);
        assert_eq!(sessions.count(), 1);
    }
}
