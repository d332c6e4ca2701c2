//! Packets that the kernel which runs these tests really receives. Where it takes no program, the
//! tests say why and pass.

mod link;
mod same;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use link::{Link, ago, call, frame, thrift};
use seawall_control::Instant;
use seawall_control::wire::RequestOp;
use seawall_node::RunQueues;
use seawall_node::responder::measure::{self, MeasureError};
use seawall_node::responder::{
    Boost, Config, Decision, FirstResponder, Path, Protocol, Service, Slot, Stats, Unavailable,
    WorkerConfig, monotonic_now,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// No machine is so slow that something in time becomes late, or something frozen thaws.
const LATE: Duration = Duration::from_secs(1800);
/// Packets that follow each other are further apart.
const MOMENT: Duration = Duration::from_micros(1);

fn patient() -> Config {
    Config { window: HOUR, boost: HOUR, age_max: HOUR, late_max: HOUR, boosted_max: HOUR }
}

fn load(config: &Config) -> Option<FirstResponder> {
    if !is_modern() {
        eprintln!("not tested: before Linux 6.12, data on the loopback device are out of reach");
        return None;
    }
    match FirstResponder::load(config) {
        Ok(responder) => Some(responder),
        // Where the kernel takes other programs of ours, this one is wrong.
        Err(error) if RunQueues::open().is_ok() => panic!("{error:?}"),
        Err(
            reason @ (Unavailable::NoBtf
            | Unavailable::NotPermitted { .. }
            | Unavailable::Forbidden(_)
            | Unavailable::Refused { .. }),
        ) => {
            eprintln!("not tested: {reason}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether the kernel has all that the program can use: it is Linux 6.12 or later.
fn is_modern() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

fn service(name: &str, port: u16) -> Service {
    Service {
        name: name.into(),
        port,
        addresses: Vec::new(),
        protocol: Protocol::Native,
        expected: MINUTE,
        downstream: Vec::new(),
    }
}

/// A service at the other end of a link.
fn watched(config: &Config) -> Option<(FirstResponder, Link)> {
    let mut responder = load(config)?;
    let link = Link::open();
    responder.set_services(&[service("a", link.port())]).unwrap();
    Some((responder, link))
}

fn until(responder: &FirstResponder, name: &str) -> Instant {
    responder.boosts().unwrap().until(responder.slot(name).unwrap())
}

fn is_boosted(responder: &FirstResponder, name: &str) -> bool {
    monotonic_now() < until(responder, name)
}

/// Only these counts are not zero.
fn expect(responder: &FirstResponder, change: impl Fn(&mut Stats)) {
    let mut expected = Stats::default();
    change(&mut expected);
    assert_eq!(responder.stats(), expected);
}

#[test]
fn a_late_request_raises_its_service_and_those_downstream() {
    let Some(mut responder) = load(&patient()) else { return };
    let mut link = Link::open();
    let mut front = service("front", link.port());
    front.downstream = vec!["back".into()];
    let others = [service("back", 1), service("other", 2)];
    responder.set_services(&[&[front][..], &others].concat()).unwrap();
    let before = monotonic_now();
    link.send(&call(7, ago(LATE)));
    let after = monotonic_now();
    for name in ["front", "back"] {
        let began = Duration::from_nanos(until(&responder, name).as_nanos()) - HOUR;
        let began = Instant::from_nanos(began.as_nanos().try_into().unwrap());
        assert!(before <= began && began <= after, "{name}: {began:?}");
    }
    assert_eq!(until(&responder, "other"), Instant::from_nanos(0));
    expect(&responder, |it| (it.packets, it.requests, it.boosts) = (1, 1, 1));
    responder.end_boost(responder.slot("back").unwrap());
    assert!(is_boosted(&responder, "front") && !is_boosted(&responder, "back"));
}

#[test]
fn a_request_in_time_raises_nobody() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    for _ in 0..3 {
        link.send(&call(7, ago(Duration::ZERO)));
    }
    assert_eq!(until(&responder, "a"), Instant::from_nanos(0));
    expect(&responder, |it| (it.packets, it.requests, it.in_time) = (3, 3, 3));
}

#[test]
fn a_path_is_frozen_after_a_decision_and_others_are_not() {
    let Some((mut responder, mut link)) = watched(&patient()) else { return };
    let short = [Path { number: 3, window: MOMENT }];
    responder.set_paths(&short).unwrap();
    for path in [1, 1, 2, 1, 3, 3] {
        link.send(&call(path, ago(LATE)));
    }
    expect(&responder, |it| {
        (it.packets, it.requests, it.boosts, it.frozen) = (6, 6, 4, 2);
    });
    assert!(responder.set_paths(&[Path { number: 3, window: Duration::ZERO }]).is_err());
}

#[test]
fn all_paths_are_frozen_apart() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    for _ in 0..2 {
        for path in 0..2_000 {
            link.send(&call(path * 32, ago(LATE)));
        }
    }
    expect(&responder, |it| {
        (it.packets, it.requests, it.boosts, it.frozen) = (4_000, 4_000, 2_000, 2_000);
    });
}

#[test]
fn thrift_is_read_where_it_is_spoken() {
    let Some(mut responder) = load(&patient()) else { return };
    let mut link = Link::open();
    let port = link.port();
    responder
        .set_services(&[Service { protocol: Protocol::Thrift, ..service("a", port) }])
        .unwrap();
    for method in ["Ping", "ReadUserTimeline", ""] {
        link.send(&thrift(method, 1, ago(Duration::ZERO)));
    }
    link.send(&thrift("ComposePost", 200, ago(LATE)));
    link.send(&thrift("Ping", 200, ago(LATE)));
    let mut oneway = thrift("Ping", 201, ago(LATE));
    oneway[7] = 4;
    link.send(&oneway);
    expect(&responder, |it| {
        (it.packets, it.requests, it.in_time, it.boosts, it.frozen) = (6, 6, 3, 2, 1);
    });
    // Replies, other arguments, endless names, the unframed protocol, and native calls.
    let mut reply = thrift("Ping", 1, ago(LATE));
    reply[7] = 2;
    let mut other = thrift("Ping", 1, ago(LATE));
    other[4 + 12 + 4] = 8;
    let mut endless = thrift("Ping", 1, ago(LATE));
    endless[8] = 0xff;
    let unframed = &thrift("Ping", 1, ago(LATE))[4..];
    for message in [&reply[..], &other, &endless, unframed, &call(1, ago(LATE))] {
        link.send(message);
    }
    let whole = thrift("ReadUserTimeline", 1, ago(LATE));
    link.send(&whole[..whole.len() - 10]);
    let stats = responder.stats();
    assert_eq!((stats.requests, stats.other, stats.cut), (6, 5, 1), "{stats:?}");
}

#[test]
fn nonsense_is_passed_by() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    let late = call(1, ago(LATE));
    let mut version = late.clone();
    version[4] = 9;
    let mut magic = late.clone();
    magic[0] ^= 1;
    let garbage: Vec<u8> = (0..1_000_u32).map(|at| (at * at) as u8).collect();
    let calls_no_one = frame(RequestOp::Demand, 1, ago(LATE));
    for message in [&version[..], &magic, &garbage, &calls_no_one, &[0; 100_000]] {
        link.send(message);
    }
    let stats = responder.stats();
    // The largest message comes in several packets.
    assert!(stats.packets >= 5, "{stats:?}");
    expect(&responder, |it| (it.packets, it.other) = (stats.packets, stats.packets));
    assert!(!is_boosted(&responder, "a"));
}

#[test]
fn a_header_that_is_not_whole_is_passed_by() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    let late = call(1, ago(LATE));
    for len in [20, 40, 55] {
        link.send(&late[..len]);
        link.send(&late[len..]);
    }
    let stats = responder.stats();
    assert_eq!((stats.requests, stats.cut, stats.boosts), (0, 5, 0), "{stats:?}");
    // What is read of a header is there.
    link.send(&late[..56]);
    assert_eq!(responder.stats().boosts, 1);
}

#[test]
fn the_first_of_several_calls_is_read() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    let calls: Vec<u8> = (1..=20).flat_map(|path| call(path, ago(LATE))).collect();
    link.send(&calls);
    expect(&responder, |it| (it.packets, it.requests, it.boosts) = (1, 1, 1));
    link.send(&[call(40, ago(Duration::ZERO)), call(2, ago(LATE))].concat());
    assert_eq!(responder.stats().in_time, 1);
    assert_eq!(responder.stats().boosts, 1);
}

#[test]
fn absurd_times_are_ignored() {
    let Some((mut responder, mut link)) = watched(&patient()) else { return };
    responder.refresh_clock();
    let future = ago(Duration::ZERO) + 1_000_000_000_000;
    let before_all = ago(2 * HOUR);
    for start in [0, 1, before_all, future, u64::MAX] {
        link.send(&call(1, start));
    }
    expect(&responder, |it| {
        (it.packets, it.requests, it.no_start, it.stale, it.future) = (5, 5, 1, 2, 2);
    });
}

#[test]
fn who_is_always_late_is_not_believed() {
    let config = Config { window: MOMENT, late_max: MOMENT, ..patient() };
    let Some((responder, mut link)) = watched(&config) else { return };
    for passed in [LATE, LATE, LATE, Duration::ZERO, LATE, LATE] {
        link.send(&call(1, ago(passed)));
    }
    expect(&responder, |it| {
        (it.packets, it.requests, it.in_time) = (6, 6, 1);
        (it.boosts, it.disbelieved) = (2, 3);
    });
}

#[test]
fn ipv6_is_read() {
    let Some(mut responder) = load(&patient()) else { return };
    let ip = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let mut link = Link::at(ip, 0);
    responder.set_services(&[service("a", link.port())]).unwrap();
    link.send(&call(1, ago(LATE)));
    link.send(&call(1, ago(Duration::ZERO)));
    expect(&responder, |it| (it.packets, it.requests, it.boosts, it.in_time) = (2, 2, 1, 1));
}

#[test]
fn services_of_one_port_are_told_apart_by_address() {
    let Some(mut responder) = load(&patient()) else { return };
    let at = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 77, last));
    let mut first = Link::at(at(1), 0);
    let port = first.port();
    let mut second = Link::at(at(2), port);
    let mut third = Link::at(at(3), port);
    let only = |name: &str, last| Service { addresses: vec![at(last)], ..service(name, port) };
    responder.set_services(&[only("one", 1), only("two", 2)]).unwrap();
    second.send(&call(1, ago(LATE)));
    third.send(&call(2, ago(LATE)));
    assert!(is_boosted(&responder, "two") && !is_boosted(&responder, "one"));
    expect(&responder, |it| (it.packets, it.requests, it.boosts) = (1, 1, 1));
    responder.set_services(&[only("one", 1), service("rest", port)]).unwrap();
    second.send(&call(3, ago(LATE)));
    assert!(is_boosted(&responder, "rest") && !is_boosted(&responder, "one"));
    first.send(&call(4, ago(LATE)));
    assert!(is_boosted(&responder, "one"));
}

#[test]
fn only_requests_to_services_are_looked_at() {
    let Some((mut responder, mut link)) = watched(&patient()) else { return };
    let mut other = Link::open();
    other.send(&call(1, ago(LATE)));
    link.answer(&call(1, ago(LATE)));
    expect(&responder, |_| {});
    responder.set_services(&[]).unwrap();
    link.send(&call(1, ago(LATE)));
    expect(&responder, |_| {});
    assert_eq!(responder.slot("a"), None);
}

#[test]
fn who_takes_a_slot_over_is_not_boosted() {
    let Some((mut responder, mut link)) = watched(&patient()) else { return };
    link.send(&call(1, ago(LATE)));
    let slot = responder.slot("a");
    assert!(is_boosted(&responder, "a"));
    responder.set_services(&[service("b", link.port())]).unwrap();
    assert_eq!(responder.slot("b"), slot);
    assert!(!is_boosted(&responder, "b"));
    let error = responder.set_services(&[service("c", 0)]).unwrap_err();
    assert!(error.to_string().contains("service c: port 0"), "{error}");
    link.send(&call(2, ago(LATE)));
    assert!(is_boosted(&responder, "b"), "what was refused has changed nothing");
}

/// Tells what it is told.
struct Teller(Sender<Told>);

#[derive(Debug, PartialEq)]
enum Told {
    Raise(Decision),
    Lower(Slot),
}

impl Boost for Teller {
    fn raise(&mut self, decision: &Decision) -> io::Result<()> {
        self.0.send(Told::Raise(decision.clone())).map_err(io::Error::other)
    }

    fn lower(&mut self, slot: Slot) -> io::Result<()> {
        self.0.send(Told::Lower(slot)).map_err(io::Error::other)
    }
}

fn next(told: &Receiver<Told>) -> Told {
    told.recv_timeout(Duration::from_secs(30)).expect("the worker is told")
}

#[test]
fn the_worker_raises_and_lowers() {
    let config = Config { boost: Duration::from_millis(1), ..patient() };
    let Some((mut responder, mut link)) = watched(&config) else { return };
    let (tell, told) = channel();
    responder.work(WorkerConfig::default(), Box::new(Teller(tell))).unwrap();
    let before = monotonic_now();
    link.send(&call(9, ago(LATE)));
    let Told::Raise(decision) = next(&told) else { panic!("it is raised first") };
    assert!(before <= decision.at && decision.at < monotonic_now(), "{decision:?}");
    assert_eq!(decision.until.since(decision.at), config.boost);
    assert!(decision.late_by >= LATE - MINUTE && decision.late_by < HOUR, "{decision:?}");
    let slot = responder.slot("a").unwrap();
    assert_eq!((decision.path, decision.raised), (9, vec![slot]));
    assert_eq!(next(&told), Told::Lower(slot));
    let stats = responder.worker_stats().unwrap();
    assert_eq!((stats.decisions, stats.lowered, stats.failed), (1, 1, 0));
    responder.rest();
    assert_eq!(responder.worker_stats(), None);
}

#[test]
fn what_is_raised_when_the_worker_ends_is_lowered() {
    let Some((mut responder, mut link)) = watched(&patient()) else { return };
    let (tell, told) = channel();
    responder.work(WorkerConfig { priority: None }, Box::new(Teller(tell))).unwrap();
    link.send(&call(9, ago(LATE)));
    assert!(matches!(next(&told), Told::Raise(_)));
    assert!(!responder.worker_stats().unwrap().is_realtime);
    drop(responder);
    assert!(matches!(next(&told), Told::Lower(_)));
}

/// Takes no further decision until it may.
struct Stuck(Sender<()>, Receiver<()>);

impl Boost for Stuck {
    fn raise(&mut self, _: &Decision) -> io::Result<()> {
        let _ = self.0.send(());
        let _ = self.1.recv();
        Ok(())
    }

    fn lower(&mut self, _: Slot) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn decisions_beyond_the_queue_are_dropped_and_counted() {
    let config = Config { window: MOMENT, ..patient() };
    let Some((mut responder, mut link)) = watched(&config) else { return };
    let ((begin, begun), (go_on, may)) = (channel(), channel());
    responder.work(WorkerConfig::default(), Box::new(Stuck(begin, may))).unwrap();
    link.send(&call(1, ago(LATE)));
    begun.recv_timeout(Duration::from_secs(30)).unwrap();
    for _ in 0..5_000 {
        link.send(&call(1, ago(LATE)));
    }
    let stats = responder.stats();
    assert_eq!(stats.boosts, 5_001, "boosts in memory need no queue");
    assert!(stats.dropped > 0 && stats.dropped < 5_000, "{stats:?}");
    drop(go_on);
    drop(responder);
    let told = 1 + begun.iter().count();
    assert!(told as u64 <= 5_001 - stats.dropped, "{told}");
}

#[test]
fn reactions_are_measured_in_each_trial() {
    if load(&patient()).is_none() {
        return;
    }
    match measure::reactions(10) {
        Ok(times) => {
            assert_eq!(times.word.len(), 10);
            assert_eq!(times.running.len() + times.spoilt, 10);
            let stages = times.seen.iter().zip(&times.told).zip(&times.written);
            for ((seen, told), written) in stages {
                assert!(seen <= told && told <= written, "{times:?}");
            }
        }
        Err(MeasureError::Group(why)) => eprintln!("not tested: {why}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn when_it_is_dropped_nothing_is_watched() {
    let Some((responder, mut link)) = watched(&patient()) else { return };
    let boosts = responder.boosts().unwrap();
    let slot = responder.slot("a").unwrap();
    drop(responder);
    link.send(&call(1, ago(LATE)));
    assert_eq!(boosts.until(slot), Instant::from_nanos(0), "and the view is still there");
}

#[test]
fn many_services_are_watched() {
    let Some(mut responder) = load(&patient()) else { return };
    let mut link = Link::open();
    let mut services: Vec<Service> = (1..=4_096)
        .filter(|&port| port != link.port())
        .map(|port| service(&format!("s{port}"), port))
        .take(4_095)
        .collect();
    services.push(service("last", link.port()));
    responder.set_services(&services).unwrap();
    link.send(&call(1, ago(LATE)));
    assert!(is_boosted(&responder, "last"));
    services.push(service("one too many", 60_000));
    let error = responder.set_services(&services).unwrap_err();
    assert!(error.to_string().contains("4097 services"), "{error}");
}
