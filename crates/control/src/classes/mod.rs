//! Classes of requests, learned from how long they take.
//!
//! ```text
//!   request ─► features: route, method, size, headers ─► tree ─► class ─► gate
//!                                                         ▲
//!   latency, refusal behind ─► per class, feature, value: │ votes of windows
//!
//!   all ─┬─ route = GET /orders/:id ──┬─ x-tenant = acme ─► class 2
//!        │                            └─ else ────────────► class 1
//!        └─ else ──────────────────────────────────────────► class 0
//! ```
//!
//! One hot lock makes all requests late if they share one limit, and a proxy cannot see locks. But
//! requests that wait for it take longer than others that run at the same time. There is one class
//! at first. In windows, the latencies of each value of each feature are compared with the rest of
//! its class; a value that differs in three of four windows gets a class of its
//! own. A class that no longer differs, or does not come any more, is given up.
//!
//! What the service refuses, naming a stage for it, `lock:orders`, is evidence, too.
//!
//! Memory is bounded: [`VALUES`] values of each feature of each class have counts, and the rest is
//! "other". A request costs one look at each feature and no allocation.
//!
//! ```
//! use core::time::Duration;
//! use seawall_control::classes::{Classes, Config, Request};
//! use seawall_control::Instant;
//!
//! let mut classes = Classes::new(&Config::default(), Instant::ORIGIN, 7)?;
//! for n in 0..20_000 {
//!     let now = Instant::from_micros(n * 500);
//!     let path = if n % 2 == 0 { "/orders/17" } else { "/items/3" };
//!     let request = Request { method: "GET", path, size: None, headers: &[] };
//!     let (_, key) = classes.on_request(now, &request);
//!     classes.on_served(now, &key, Duration::from_millis(if n % 2 == 0 { 40 } else { 2 }));
//! }
//! let names: Vec<_> = classes.classes().map(|class| class.name).collect();
//! assert_eq!(names, ["all else", "/orders/:n"]);
//! # Ok::<(), seawall_control::config::ConfigError>(())
//! ```

mod compare;
mod config;
mod leaf;
mod name;
mod route;
mod tree;
mod value;

pub use config::Config;
pub use leaf::VALUES;
pub use route::{PARTS_MAX, Route};
pub use value::{HEADERS_MAX, Key, Request};

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use tree::Tree;

#[cfg(test)]
mod tests;

use crate::config::ConfigError;
use crate::request::{Class, Stage};
use crate::time::{Instant, nanos};

/// Events that wait to be handed out; of more, the oldest are lost.
const EVENTS_MAX: usize = 64;

/// The classes have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Requests of `parent` are told apart from now on.
    Split {
        /// The new class.
        class: Class,
        /// The class that they had before.
        parent: Class,
        /// Which requests they are.
        name: String,
        /// Why.
        why: String,
    },
    /// Requests of `class` have the class `into` from now on.
    Merged {
        /// The class that is no more.
        class: Class,
        /// The class of its requests.
        into: Class,
    },
}

/// One class, for screens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View {
    /// The class.
    pub class: Class,
    /// Which requests it has: `GET /orders/:id, x-tenant=acme`.
    pub name: String,
    /// Why it is one: `6.1 times as long as the rest`; empty for the class of all else.
    pub why: String,
}

/// Learns which requests to tell apart, and tells them apart.
#[derive(Debug)]
pub struct Classes {
    config: Config,
    seed: u64,
    tree: Tree,
    events: VecDeque<Event>,
}

impl Classes {
    /// One class for all.
    ///
    /// # Errors
    ///
    /// Names the first field of `config` that is out of range, and what is allowed.
    pub fn new(config: &Config, now: Instant, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config: config.clone(),
            seed,
            tree: Tree::new(now, config.classes_max),
            events: VecDeque::new(),
        })
    }

    /// A request has come: its class, and what to keep of it until its end.
    pub fn on_request(&mut self, _now: Instant, request: &Request<'_>) -> (Class, Key) {
        let key = Key::of(self.seed, request);
        let leaf = self.tree.leaf(&key);
        leaf.on_request(&key, request);
        (leaf.class, key)
    }

    /// The class of a request of which only the key is left. It may have changed since the request
    /// came.
    pub fn class_of(&self, key: &Key) -> Class {
        self.tree.class_of(key)
    }

    /// A request was served behind, which took `latency` there.
    pub fn on_served(&mut self, now: Instant, key: &Key, latency: Duration) {
        let logarithm = libm::log(nanos(latency).max(1) as f64);
        self.tree.pass(now, key, Some(logarithm));
        self.tree.leaf(key).on_served(key, logarithm);
        self.advance(now, key);
    }

    /// A request was refused behind at the stage that is called `stage`. One that all requests meet
    /// says nothing about this one.
    pub fn on_refused(&mut self, now: Instant, key: &Key, stage: &str) {
        if stage.is_empty() || Stage::named(stage).is_some_and(Stage::concerns_all) {
            return;
        }
        self.tree.pass(now, key, None);
        self.tree.leaf(key).on_refused(key, stage);
        self.advance(now, key);
    }

    /// Requests of `class` had to wait for the limit of their own class. It is kept then, however
    /// little its latencies differ from others': they may do so because of that limit.
    pub fn on_limited(&mut self, now: Instant, class: Class) {
        self.tree.on_limited(now, class);
    }

    /// What has changed, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// All classes, by their numbers.
    pub fn classes(&self) -> impl Iterator<Item = View> {
        let mut views: Vec<_> = self.tree.views(&self.config.headers);
        views.sort_by_key(|view| view.class);
        views.into_iter()
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Never: there is always one.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The name of a class; empty if there is no such class.
    pub fn name(&self, class: Class) -> String {
        let mut views = self.classes();
        views.find(|view| view.class == class).map(|view| view.name).unwrap_or_default()
    }

    fn advance(&mut self, now: Instant, key: &Key) {
        if let Some((class, into)) = self.tree.forget(now, self.config.forget_after) {
            self.tell(Event::Merged { class, into });
        }
        let leaf = self.tree.leaf(key);
        if !leaf.is_over(now, self.config.window) {
            return;
        }
        let Some(split) = leaf.on_window(now) else { return };
        let Some((class, parent)) = self.tree.split(now, key, &split) else { return };
        let view = self.classes().find(|view| view.class == class);
        let (name, why) = view.map(|view| (view.name, view.why)).unwrap_or_default();
        self.tell(Event::Split { class, parent, name, why });
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
