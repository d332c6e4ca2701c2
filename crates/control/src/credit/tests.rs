//! The window rules on worked examples, and the mechanism's other promises.

use alloc::vec::Vec;

use super::*;
use crate::breakwater;
use crate::request::Tenant;

type Breakwater = Server<breakwater::Policy>;

const CORES: u32 = 10;

fn id(slot: u32) -> SessionId {
    SessionId { slot, generation: 0 }
}

/// A server with `sessions` registered sessions that hold these windows, and this pool.
fn server(sessions: u32, windows: &[u32], pool: u32) -> Breakwater {
    let init = Init { cores: CORES, ..Init::new(Instant::ORIGIN, 1) };
    let policy = breakwater::Policy::new(&breakwater::Config::default(), init);
    let first = Next { pool: CORES, settle: Duration::ZERO, measure: Duration::from_secs(1) };
    let mut server = Server::new(policy, Config::default(), init, first);
    for slot in 0..sessions {
        server.on_session(Instant::ORIGIN, id(slot), SessionEvent::Opened(Identity::default()));
        tell_demand(&mut server, slot, 0);
    }
    for (slot, window) in windows.iter().enumerate() {
        server.book(id(slot as u32), *window);
    }
    server.pool = pool;
    server
}

fn tell_demand(server: &mut Breakwater, slot: u32, demand: u32) {
    server.sessions.at(slot).called = true;
    let event = SessionEvent::Demand { demand, window_ack: 0 };
    server.on_session(Instant::ORIGIN, id(slot), event);
}

/// Windows of 38 sessions with one credit each.
fn ones() -> [u32; 38] {
    [1; 38]
}

fn window(feedback: Feedback) -> u32 {
    let Feedback::Window { size, .. } = feedback else { panic!("{feedback:?} is no window") };
    size
}

#[test]
fn a_reply_brings_what_the_demand_and_the_pool_allow() {
    let mut server = server(100, &ones(), 40);
    tell_demand(&mut server, 0, 3);
    assert_eq!(window(server.feedback(Instant::ORIGIN, id(0))), 3);
    assert_eq!(server.issued, 40);

    // The pool shrank and the demand is gone: one less, and no more than one unused.
    tell_demand(&mut server, 0, 0);
    server.pool = 36;
    assert_eq!(window(server.feedback(Instant::ORIGIN, id(0))), 1);
    assert_eq!(server.issued, 38);
}

#[test]
fn a_session_drains_only_after_a_refusal() {
    for (refused, expected, issued) in [(true, 0, 37), (false, 1, 38)] {
        let mut server = server(100, &ones(), 36);
        server.sessions.at(0).refused_in_batch = refused;
        assert_eq!(window(server.feedback(Instant::ORIGIN, id(0))), expected);
        assert_eq!(server.issued, issued);
        let quiet = server.rosters.members(List::Quiet).contains(&0);
        assert_eq!(quiet, refused);
    }
}

#[test]
fn surplus_returns_when_a_request_arrives_but_stays_usable() {
    let mut server = server(100, &[5], 40);
    server.sessions.at(0).log.tell(5);
    let arrival = Arrival { demand: 1, window_ack: 1, ..Arrival::new(id(0)) };
    assert_eq!(server.on_arrival(Instant::ORIGIN, &arrival), Verdict::Admit);
    assert_eq!((server.sessions.at(0).window, server.issued), (2, 2));
    // The client still believes in five, and is not punished for using them.
    for _ in 1..5 {
        assert_eq!(server.on_arrival(Instant::ORIGIN, &arrival), Verdict::Admit);
    }
    let Verdict::Refuse(refusal) = server.on_arrival(Instant::ORIGIN, &arrival) else {
        panic!("a sixth request was admitted")
    };
    assert_eq!(refusal.reason, RefusalReason::WindowExceeded);
}

#[test]
fn with_few_sessions_each_keeps_a_credit() {
    let mut server = server(CORES, &[1; CORES as usize], CORES);
    server.sessions.at(0).refused_in_batch = true;
    server.book(id(1), 5);
    assert_eq!(window(server.feedback(Instant::ORIGIN, id(0))), 1);
}

#[test]
fn the_drained_are_told_when_the_pool_has_room_and_the_hungry_first() {
    let mut server = server(100, &[], 0);
    assert_eq!(server.poll_push(Instant::ORIGIN), None);
    tell_demand(&mut server, 7, 2);
    tell_demand(&mut server, 8, 2);
    server.pool = 6;
    let pushed: Vec<_> = core::iter::from_fn(|| server.poll_push(Instant::ORIGIN)).collect();
    let mut slots: Vec<_> = pushed.iter().map(|(id, _)| id.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [7, 8]);
    assert_eq!(server.issued, 6);
}

#[test]
fn idle_sessions_give_back_what_far_exceeds_the_pool() {
    let mut server = server(100, &[20, 20, 20], 60);
    server.config.revoke_beyond = 0.125;
    (0..3).for_each(|slot| tell_demand(&mut server, slot, 0)); // puts them on the idle list
    server.pool = 54;
    assert_eq!(server.poll_push(Instant::ORIGIN), None, "a small excess is left to replies");
    server.pool = 30;
    let revoked: Vec<_> = core::iter::from_fn(|| server.poll_push(Instant::ORIGIN)).collect();
    assert_eq!(revoked.len(), 2);
    assert_eq!(server.issued, 30);
}

#[test]
fn who_gives_credits_back_unused_is_not_taken_for_hungry() {
    let mut server = server(100, &[60], 30);
    server.config.revoke_beyond = 0.0;
    tell_demand(&mut server, 0, 3);
    assert_eq!(server.poll_push(Instant::ORIGIN).map(|(id, _)| id), Some(id(0)));
    assert_eq!(server.demand(id(0)), 0);
}

#[test]
fn messages_without_a_reply_to_travel_on_are_paid_for_by_replies() {
    let mut server = server(100, &[], 0);
    server.pool = 100;
    let pushed =
        |server: &mut Breakwater| core::iter::from_fn(|| server.poll_push(Instant::ORIGIN)).count();
    assert_eq!(pushed(&mut server), 16);
    for _ in 0..8 {
        let _ = server.on_arrival(Instant::ORIGIN, &Arrival::new(id(99)));
        server.on_completion(
            Instant::ORIGIN,
            &Completion::new(id(99), Outcome::Done, Instant::ORIGIN),
        );
    }
    assert_eq!(pushed(&mut server), 2);
}

#[test]
fn tenants_converge_to_their_weights_under_contention() {
    let mut server = server(0, &[], 0);
    for slot in 0..40 {
        let (tenant, weight) = if slot < 20 { (1, 3) } else { (2, 1) };
        let identity = Identity { tenant: Tenant(tenant), weight, ..Identity::default() };
        server.on_session(Instant::ORIGIN, id(slot), SessionEvent::Opened(identity));
        tell_demand(&mut server, slot, 50);
    }
    server.pool = 80;
    for _ in 0..50 {
        (0..40).for_each(|slot| {
            server.feedback(Instant::ORIGIN, id(slot));
        });
    }
    let held = |slots: core::ops::Range<u32>, server: &mut Breakwater| -> u32 {
        slots.map(|slot| server.sessions.at(slot).window).sum()
    };
    let (heavy, light) = (held(0..20, &mut server), held(20..40, &mut server));
    assert!((55..=65).contains(&heavy) && (15..=60).contains(&light), "{heavy} : {light}");
    assert!(server.issued <= 80 + 40);
}

#[test]
fn the_privilege_of_not_being_dropped_is_bounded() {
    let mut server = server(100, &[], 100);
    server.config.privileged_max = 2;
    server.sessions.at(0).log.tell(9);
    let arrival = Arrival { droppable: false, window_ack: 1, ..Arrival::new(id(0)) };
    let refused: Vec<_> = (0..4)
        .map(|_| match server.on_arrival(Instant::ORIGIN, &arrival) {
            Verdict::Admit => None,
            Verdict::Refuse(refusal) => Some(refusal.reason),
        })
        .collect();
    let excess = Some(RefusalReason::PrivilegeExceeded);
    assert_eq!(refused, [None, None, excess, excess]);
    server.on_session(Instant::ORIGIN, id(0), SessionEvent::Closed);
    assert_eq!(server.privileged, 0);
}

#[test]
fn the_last_to_leave_resets_the_pool() {
    let mut server = server(2, &[9, 9], 60);
    (server.first_pool, server.shrinking) = (30, true);
    server.on_session(Instant::ORIGIN, id(0), SessionEvent::Closed);
    assert_eq!(server.pool, 60);
    server.on_session(Instant::ORIGIN, id(1), SessionEvent::Closed);
    assert_eq!((server.pool, server.issued, server.registered), (30, 0, 0));
    assert!(!server.shrinking, "nothing is known of what comes");
}

#[test]
fn a_slot_given_again_does_not_hear_of_its_predecessor() {
    let mut server = server(1, &[4], 40);
    server.on_session(Instant::ORIGIN, id(0), SessionEvent::Closed);
    let successor = SessionId { slot: 0, generation: 1 };
    let opened = SessionEvent::Opened(Identity::default());
    server.on_session(Instant::ORIGIN, successor, opened);
    let late = Completion::new(id(0), Outcome::Done, Instant::ORIGIN);
    server.on_completion(Instant::ORIGIN, &late);
    assert_eq!(server.feedback(Instant::ORIGIN, id(0)), Feedback::None);
    assert_eq!(server.audit().windows, 0);
}

#[test]
fn a_timer_backs_the_updates_and_rests_when_nothing_can_change() {
    let mut server = server(1, &[], CORES);
    assert_eq!(server.poll_timeout(), Some(Instant::from_micros(1_000_000)));
    let mut now = Instant::ORIGIN;
    let mut updates = 0;
    while let Some(at) = server.poll_timeout() {
        now = now.max(at);
        server.handle_timeout(now);
        while server.poll_push(now).is_some() {}
        updates += 1;
        assert!(updates < 1_000, "the timer never rests");
    }
    assert_eq!(server.pool, 64);
}

#[test]
fn guests_take_what_the_pool_has_and_then_their_share() {
    let mut server = server(100, &[1; 60], 80);
    let guest = SessionId { slot: 100, generation: 0 };
    let identity = Identity { speaks_credits: false, ..Identity::default() };
    server.on_session(Instant::ORIGIN, guest, SessionEvent::Opened(identity));
    let admitted = |server: &mut Breakwater, calls: u32| {
        let admit =
            |_: &u32| server.on_arrival(Instant::ORIGIN, &Arrival::new(guest)) == Verdict::Admit;
        (0..calls).filter(admit).count()
    };
    // While the pool grows nobody is refused for its size.
    assert_eq!(admitted(&mut server, 50), 50);
    (0..50).for_each(|_| {
        let done = Completion::new(guest, Outcome::Done, Instant::ORIGIN);
        server.on_completion(Instant::ORIGIN, &done);
    });
    // Once it shrinks, a quarter of it is theirs, whatever the others hold.
    server.shrinking = true;
    assert_eq!(admitted(&mut server, 50), 20);
    assert_eq!(server.feedback(Instant::ORIGIN, guest), Feedback::None);
    for _ in 0..50 {
        let done = Completion::new(guest, Outcome::Done, Instant::ORIGIN);
        server.on_completion(Instant::ORIGIN, &done);
    }
    assert_eq!((server.issued, server.guests), (60, 0));
    // What nobody else holds is theirs, too.
    (0..60).for_each(|slot| server.book(id(slot), 0));
    assert_eq!(admitted(&mut server, 100), 80);
}

#[test]
fn a_credit_too_many_is_found() {
    let mut server = server(3, &[2, 1, 0], 9);
    assert_eq!(server.check(), Ok(()));
    server.issued += 1;
    assert!(server.check().is_err());
}

#[test]
fn the_pool_comes_down_with_the_sessions_that_could_hold_it() {
    let mut server = server(4, &[], 4 * 64);
    server.on_session(Instant::ORIGIN, id(3), SessionEvent::Closed);
    assert_eq!(server.pool, 3 * 64);
}

/// Leaves the pool as it is, and keeps what it was shown.
#[derive(Debug, Default)]
struct Recorder(Vec<Window>);

/// An iteration of 80 µs after 20 to settle.
fn next(pool: u32) -> Next {
    let us = Duration::from_micros;
    Next { pool, settle: us(20), measure: us(80) }
}

impl PoolPolicy for Recorder {
    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        self.0.push(window.clone());
        next(window.pool)
    }

    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        pool + sessions
    }
}

/// A server with one session.
fn recorder() -> Server<Recorder> {
    let init = Init { cores: CORES, ..Init::new(Instant::ORIGIN, 1) };
    let mut server = Server::new(Recorder::default(), Config::default(), init, next(CORES));
    let opened = SessionEvent::Opened(Identity::default());
    server.on_session(Instant::ORIGIN, id(0), opened);
    let demand = SessionEvent::Demand { demand: 0, window_ack: 0 };
    server.on_session(Instant::ORIGIN, id(0), demand);
    server
}

#[test]
fn a_window_counts_what_is_answered_in_it_and_times_credits() {
    let at = Instant::from_micros;
    let mut server = recorder();
    assert_eq!(server.pool, CORES + 1, "the policy may size the pool for a new session");
    let Feedback::Window { seq, .. } = server.feedback(at(10), id(0)) else { unreachable!() };
    let arrival = Arrival { window_ack: seq, ..Arrival::new(id(0)) };
    for arrived in [15, 30, 31] {
        assert_eq!(server.on_arrival(at(arrived), &arrival), Verdict::Admit);
    }
    let answers = [
        (30, Outcome::Refused(Stage::RUN_QUEUE), 40),
        (31, Outcome::Refused(Stage::ADMISSION), 41),
        (15, Outcome::Done, 45),
    ];
    for (arrived, outcome, answered) in answers {
        server.on_completion(at(answered), &Completion::new(id(0), outcome, at(arrived)));
    }
    server.handle_timeout(at(100));
    let [window] = &server.policy.0[..] else { panic!("one window: {:?}", server.policy.0) };
    let us = Duration::from_micros;
    assert_eq!((window.start, window.duration), (at(20), us(80)));
    assert_eq!((window.total().served, window.total().refused), (1, 1));
    let total = window.total();
    assert_eq!((total.arrivals, total.completions, total.refused_later), (2, 0, 1));
    assert_eq!(window.round_trip, us(5 + 30));
}

#[test]
fn an_idle_pool_that_its_policy_leaves_alone_needs_no_timer() {
    let at = Instant::from_micros;
    let mut server = recorder();
    server.feedback(at(1), id(0));
    assert_eq!(server.poll_timeout(), Some(at(100)));
    server.handle_timeout(at(100));
    assert_eq!(server.poll_timeout(), None);
    assert_eq!(server.on_arrival(at(5_000), &Arrival::new(id(0))), Verdict::Admit);
    server.on_completion(at(5_010), &Completion::new(id(0), Outcome::Done, at(5_000)));
    assert_eq!(server.poll_timeout(), Some(at(5_110)));
}
