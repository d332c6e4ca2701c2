//! Streams of requests whose truth is known.

use core::time::Duration;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::random::Rng;

/// A stream of a thousand requests in a second.
struct Stream {
    classes: Classes,
    now: Instant,
    rng: Rng,
}

impl Stream {
    fn new(config: &Config) -> Self {
        Self {
            classes: Classes::new(config, Instant::ORIGIN, 1).unwrap(),
            now: Instant::ORIGIN,
            rng: Rng::new(1),
        }
    }

    /// Lets requests of `tenants` come for some seconds, each with its mean latency in
    /// milliseconds, or refused at a lock.
    fn run(&mut self, seconds: u64, tenants: &[(&str, Option<f64>)]) {
        for _ in 0..seconds * 1_000 {
            self.now = self.now + Duration::from_millis(1);
            let (tenant, latency) = tenants[self.rng.below(tenants.len() as u64) as usize];
            let path = format!("/orders/{}", self.rng.below(1 << 30));
            let headers = [Some(tenant)];
            let request = Request { method: "GET", path: &path, size: None, headers: &headers };
            let (_, key) = self.classes.on_request(self.now, &request);
            match latency {
                Some(latency) => {
                    let latency = self.rng.exponential() * latency / 1e3;
                    self.classes.on_served(self.now, &key, Duration::from_secs_f64(latency));
                }
                None => self.classes.on_refused(self.now, &key, "lock:orders"),
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.classes.classes().map(|class| class.name).collect()
    }
}

fn config() -> Config {
    Config { headers: Vec::from(["x-tenant".to_string()]), ..Config::default() }
}

const FAST: (&str, Option<f64>) = ("fast", Some(2.0));

#[test]
fn each_slow_value_has_a_class_of_its_own() {
    let mut stream = Stream::new(&config());
    stream.run(30, &[FAST, ("acme", Some(10.0)), ("b", Some(2.0)), ("cargo", Some(60.0))]);
    assert_eq!(stream.names()[0], "all else");
    let mut slow = stream.names()[1..].to_vec();
    slow.sort();
    assert_eq!(slow, ["x-tenant=acme", "x-tenant=cargo"]);
}

#[test]
fn refusals_at_a_lock_are_evidence() {
    let mut stream = Stream::new(&config());
    stream.run(10, &[FAST, ("b", Some(2.0)), ("acme", Some(2.0)), ("acme", None)]);
    assert_eq!(stream.names(), ["all else", "x-tenant=acme"]);
    let why = stream.classes.classes().last().unwrap().why;
    assert!(why.ends_with("% more of them are refused at lock:orders"), "{why}");
    // At a stage that all requests meet they are none.
    let request = Request { method: "GET", path: "/", size: None, headers: &[] };
    let (_, key) = stream.classes.on_request(stream.now, &request);
    (0..1_000).for_each(|_| stream.classes.on_refused(stream.now, &key, "run_queue"));
    assert_eq!(stream.names().len(), 2);
}

#[test]
fn a_class_that_no_longer_differs_is_given_up_unless_its_limit_holds_it() {
    let config = Config { forget_after: Duration::from_secs(20), ..config() };
    let mut stream = Stream::new(&config);
    stream.run(10, &[FAST, ("acme", Some(20.0))]);
    let made = stream.classes.poll_event();
    let (class, parent) = (Class(1), Class(0));
    assert!(matches!(made, Some(Event::Split { class: Class(1), parent: Class(0), .. })));
    for _ in 0..30 {
        stream.classes.on_limited(stream.now, class);
        stream.run(1, &[FAST, ("acme", Some(2.0))]);
    }
    assert_eq!((stream.names().len(), stream.classes.poll_event()), (2, None));
    stream.run(30, &[FAST, ("acme", Some(2.0))]);
    assert_eq!(stream.classes.poll_event(), Some(Event::Merged { class, into: parent }));
    assert_eq!(stream.names(), ["all else"]);
    // Its number is used again as late as can be.
    stream.run(10, &[FAST, ("acme", Some(20.0))]);
    assert!(matches!(stream.classes.poll_event(), Some(Event::Split { class: Class(2), .. })));
}

#[test]
fn a_class_whose_requests_do_not_come_any_more_is_given_up() {
    let config = Config { forget_after: Duration::from_secs(20), ..config() };
    let mut stream = Stream::new(&config);
    stream.run(10, &[FAST, ("acme", Some(20.0))]);
    assert_eq!(stream.names().len(), 2);
    stream.run(30, &[FAST]);
    assert_eq!(stream.names(), ["all else"]);
}

#[test]
fn there_are_never_more_classes_than_allowed() {
    let tenants: Vec<_> = (0..12).map(|n| (format!("t{n}"), Some(f64::powi(2.0, n)))).collect();
    let tenants: Vec<_> = tenants.iter().map(|(name, ms)| (name.as_str(), *ms)).collect();
    for (classes_max, expected) in [(1, 1), (3, 3), (8, 8)] {
        let mut stream = Stream::new(&Config { classes_max, ..config() });
        stream.run(60, &tenants);
        assert_eq!(stream.classes.len(), expected);
        let mut classes: Vec<_> = stream.classes.classes().map(|view| view.class.0).collect();
        classes.dedup();
        assert_eq!(classes, (0..expected as u8).collect::<Vec<_>>());
    }
}

#[test]
fn a_million_values_take_no_more_memory_and_win_nothing() {
    let mut stream = Stream::new(&config());
    for n in 0..1_000_000_u64 {
        stream.now = stream.now + Duration::from_micros(100);
        let tenant = format!("tenant-{n}");
        let headers = [Some(tenant.as_str())];
        let request = Request { method: "GET", path: "/a", size: Some(n), headers: &headers };
        let (class, key) = stream.classes.on_request(stream.now, &request);
        let latency = stream.rng.exponential() * 0.01;
        stream.classes.on_served(stream.now, &key, Duration::from_secs_f64(latency));
        assert_eq!(class, Class(0));
    }
    assert_eq!(stream.names(), ["all else"]);
}

#[test]
fn nonsense_is_refused_by_name() {
    let field = |config: Config| config.validate().unwrap_err().to_string();
    let headers = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let config = Config { headers: headers(&["a", "b", "c", "d", "e", "f"]), ..Config::default() };
    assert_eq!(field(config), "classes.headers: 6 are too many; allowed are 5");
    let config = Config { headers: headers(&["X Tenant"]), ..Config::default() };
    assert!(field(config).starts_with("classes.headers: \"X Tenant\" is no name of a header"));
    let config = Config { window: Duration::ZERO, ..Config::default() };
    assert_eq!(field(config), "classes.window: it is out of range; allowed is 10ms to 10m");
    let config = Config { classes_max: 0, ..Config::default() };
    assert_eq!(field(config), "classes.classes_max: 0 is out of range; allowed is 1 to 8");
}
