use super::*;
use crate::admission;
use crate::request::{Identity, RefusalReason, Rejected, Stage};

const MS: Duration = Duration::from_millis(1);
const SESSION: SessionId = SessionId { slot: 0, generation: 0 };

fn entry(algorithm: &str) -> Entry {
    let algorithm = admission::Config::named(algorithm).build().unwrap();
    let config = Config {
        cores: 1,
        seed: 1,
        target_delay: 10 * MS,
        rtt: MS,
        budget: Budget::Auto,
        queues: Queues::Full,
        service_p99: Some(2 * MS),
    };
    let mut entry = Entry::new(Instant::ORIGIN, algorithm, &config);
    entry.on_session(Instant::ORIGIN, SESSION, SessionEvent::Opened(Identity::default()));
    entry
}

fn arriving(claims: &Claims) -> Arriving<'_> {
    Arriving {
        session: SESSION,
        claims,
        class: Class(1),
        demand: 0,
        window_ack: 0,
        waited: Duration::ZERO,
        network_p99: MS,
        service_p99: None,
        queue: (0, Duration::ZERO),
        grace: Duration::ZERO,
        excess: false,
    }
}

/// What becomes of a request that comes like this.
fn decide(entry: &mut Entry, arriving: &Arriving<'_>) -> Result<(), Rejected> {
    let judgement = entry.on_arrival(Instant::ORIGIN, arriving);
    let context = judgement.context(arriving.claims, arriving.class);
    judgement.decide(&context, [(Stage::RUN_QUEUE, judgement.predicted)])
}

#[test]
fn the_budget_is_what_service_and_network_leave() {
    let (mut entry, claims) = (entry("aimd"), Claims::default());
    let judgement = entry.on_arrival(Instant::ORIGIN, &arriving(&claims));
    assert_eq!((judgement.budget, judgement.own_budget), (Some(7 * MS), 7 * MS));
    assert_eq!(judgement.context(&claims, Class(1)).remaining(Instant::ORIGIN), 7 * MS);
    let parts = BudgetParts { service_p99: 2 * MS, network_p99: MS, budget: 7 * MS };
    assert_eq!(entry.budget(), parts);

    let hurried = Claims { deadline: Some(5 * MS), ..claims };
    let judgement = entry.on_arrival(Instant::ORIGIN, &arriving(&hurried));
    assert_eq!((judgement.budget, judgement.own_budget), (Some(2 * MS), 7 * MS));

    let slow = Arriving { service_p99: Some(6 * MS), ..arriving(&claims) };
    assert_eq!(entry.on_arrival(Instant::ORIGIN, &slow).budget, Some(3 * MS));
}

#[test]
fn who_has_all_the_time_there_is_has_no_budget() {
    let algorithm = admission::Config::named("none").build().unwrap();
    let config = Config {
        cores: 1,
        seed: 1,
        target_delay: Duration::MAX,
        rtt: MS,
        budget: Budget::Auto,
        queues: Queues::Full,
        service_p99: None,
    };
    let mut entry = Entry::new(Instant::ORIGIN, algorithm, &config);
    let remaining = |entry: &mut Entry, claims: &Claims| {
        let slow = Arriving { service_p99: Some(6 * MS), ..arriving(claims) };
        let judgement = entry.on_arrival(Instant::ORIGIN, &slow);
        judgement.context(claims, Class(1)).remaining(Instant::ORIGIN)
    };
    assert_eq!(remaining(&mut entry, &Claims::default()), Duration::MAX);
    let hurried = Claims { deadline: Some(10 * MS), ..Claims::default() };
    assert_eq!(remaining(&mut entry, &hurried), 3 * MS);
}

#[test]
fn a_wait_to_be_read_is_charged_to_deadline_and_budget() {
    let claims = Claims { deadline: Some(50 * MS), ..Claims::default() };
    let waited = Arriving { waited: 4 * MS, ..arriving(&claims) };
    let judgement = entry("aimd").on_arrival(Instant::ORIGIN, &waited);
    let context = judgement.context(&claims, Class(1));
    assert_eq!(context.time_left(Instant::ORIGIN), Some(46 * MS));
    assert_eq!((context.charged(), context.remaining(Instant::ORIGIN)), (4 * MS, 3 * MS));
    assert_eq!(context.class(), Class(1));
}

#[test]
fn the_one_rule_holds_at_the_run_queue() {
    let (mut entry, claims) = (entry("aimd"), Claims::default());
    let mut behind = |age| decide(&mut entry, &Arriving { queue: (1, age), ..arriving(&claims) });
    assert_eq!(behind(7 * MS), Ok(()));
    let rejected = Rejected::new(Stage::RUN_QUEUE, 8 * MS, 7 * MS).with_retry_after(8 * MS);
    assert_eq!(behind(8 * MS), Err(rejected.with_reason(RefusalReason::Budget)));
    let forced = Claims { droppable: false, ..Claims::default() };
    let late = Arriving { queue: (1, 8 * MS), ..arriving(&forced) };
    assert_eq!(decide(&mut entry, &late), Ok(()));
}

#[test]
fn more_cpu_to_come_excuses_a_wait() {
    let (mut entry, claims) = (entry("aimd"), Claims::default());
    let late = Arriving { queue: (1, 8 * MS), grace: 2 * MS, ..arriving(&claims) };
    assert_eq!(entry.on_arrival(Instant::ORIGIN, &late).queue_delay, 6 * MS);
    assert_eq!(decide(&mut entry, &late), Ok(()));
}

#[test]
fn bounds_of_the_server_come_before_the_rule() {
    let (mut entry, claims) = (entry("none"), Claims::default());
    let excess = Arriving { excess: true, ..arriving(&claims) };
    let reason = |result: Result<(), Rejected>| result.unwrap_err().reason;
    assert_eq!(reason(decide(&mut entry, &excess)), RefusalReason::WindowExceeded);
    entry.drain();
    assert!(entry.is_draining());
    assert_eq!(reason(decide(&mut entry, &arriving(&claims))), RefusalReason::Shutdown);
}

#[test]
fn what_comes_is_counted_until_it_is_gone() {
    let (mut entry, claims) = (entry("breakwater"), Claims::default());
    let judgement = entry.on_arrival(Instant::ORIGIN, &arriving(&claims));
    entry.on_arrival(Instant::ORIGIN, &arriving(&claims));
    entry.on_arrival(Instant::ORIGIN, &arriving(&claims));
    assert_eq!(entry.in_flight(), 3);
    let context = judgement.context(&claims, Class(1));
    let done = completion(Instant::ORIGIN, SESSION, &context, Outcome::Done);
    assert_eq!((done.class, done.droppable, done.in_budget), (Class(1), true, true));
    entry.on_completion(Instant::ORIGIN, &done);
    entry.on_session(Instant::ORIGIN, SESSION, SessionEvent::Closed);
    entry.forget(2);
    assert_eq!(entry.in_flight(), 0);
}

#[test]
fn the_longest_wait_to_be_read_is_told_once() {
    let (mut entry, claims) = (entry("breakwater"), Claims::default());
    for waited in [3 * MS, 5 * MS, MS] {
        entry.on_arrival(Instant::ORIGIN, &Arriving { waited, ..arriving(&claims) });
    }
    assert_eq!(entry.on_queue(Instant::ORIGIN, 2 * MS), 7 * MS);
    assert_eq!(entry.on_queue(Instant::ORIGIN, 2 * MS), 2 * MS);
    assert_eq!((entry.on_waited(4 * MS), entry.on_waited(MS)), (4 * MS, 4 * MS));
    assert_eq!(entry.on_queue(Instant::ORIGIN, 2 * MS), 6 * MS);
}

#[test]
fn time_never_goes_back() {
    let mut entry = entry("none");
    let later = Instant::from_micros(9);
    assert_eq!(entry.advance(later), later);
    assert_eq!(entry.advance(Instant::from_micros(3)), later);
}
