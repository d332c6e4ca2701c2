//! What is counted of admission, under the names of `seawall_measure::names`.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, counter, gauge, histogram};
use seawall_control::Instant;
use seawall_control::estimate::Histogram;
use seawall_control::gate::End;
use seawall_control::request::{Class, Rejected, Stage};
use seawall_measure::names::{self, Metric, OUTCOMES};

use super::state::State;

const REFUSED: usize = 2;

/// The counters of one upstream.
#[derive(Debug)]
pub(super) struct Books {
    upstream: String,
    /// By the numbers of the classes; what a number is called may change.
    classes: Vec<ClassBook>,
    refusals: HashMap<Why, Counter>,
    /// Waits at the gate.
    waits: Counter,
    waited: Times,
}

/// The counters of one class.
#[derive(Debug)]
struct ClassBook {
    name: String,
    requests: Counter,
    completions: Counter,
    failures: Counter,
    cancellations: Counter,
    times: [Times; OUTCOMES.len()],
}

/// How often something took how long, and what of that the recorder was told.
#[derive(Debug, Default)]
struct Times {
    all: Histogram,
    told: Histogram,
}

/// Which counter counts a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Why {
    metric: &'static str,
    route: usize,
    class: u8,
    stage: Stage,
    reason: &'static str,
}

/// A route, by its number and by its name.
pub(crate) type RouteName<'a> = (usize, &'a str);

impl Times {
    /// Tells the recorder what is new.
    fn publish(&mut self, to: impl FnOnce() -> metrics::Histogram) {
        let new = self.all.since(&self.told);
        if new.is_empty() {
            return;
        }
        let to = to();
        for (mean, count) in new.means() {
            to.record_many(mean.as_secs_f64(), count as usize);
        }
        self.told = self.all.clone();
    }
}

impl ClassBook {
    fn new(name: String) -> Self {
        let count = |metric: Metric| counter!(metric.name, "class" => name.clone());
        Self {
            requests: count(names::REQUESTS),
            completions: count(names::COMPLETIONS),
            failures: count(names::FAILURES),
            cancellations: count(names::CANCELLATIONS),
            times: Default::default(),
            name,
        }
    }

    fn publish(&mut self) {
        for (times, outcome) in self.times.iter_mut().zip(OUTCOMES) {
            let name = self.name.clone();
            times
                .publish(|| histogram!(names::REQUEST.name, "class" => name, "outcome" => outcome));
        }
    }
}

impl Books {
    pub(super) fn new(upstream: &str) -> Self {
        Self {
            upstream: upstream.to_owned(),
            classes: Vec::new(),
            refusals: HashMap::new(),
            waits: counter!(names::STAGE_WAITS.name, "stage" => GATE),
            waited: Times::default(),
        }
    }

    /// The books of a class that is called `name` in its upstream.
    fn class(&mut self, class: Class, name: impl Fn(Class) -> String) -> &mut ClassBook {
        for number in self.classes.len()..=usize::from(class.0) {
            let name = name(Class(number as u8));
            let name = match self.upstream.as_str() {
                "default" => name,
                upstream => format!("{upstream}: {name}"),
            };
            self.classes.push(ClassBook::new(name));
        }
        &mut self.classes[usize::from(class.0)]
    }

    /// Classes have changed, and with them what their numbers are called.
    pub(super) fn forget(&mut self) {
        self.classes.iter_mut().for_each(ClassBook::publish);
        self.classes.clear();
        self.refusals.clear();
    }

    pub(super) fn arrived(&mut self, class: Class, name: impl Fn(Class) -> String) {
        self.class(class, name).requests.increment(1);
    }

    /// A request that was let in has ended, so long after it came.
    pub(super) fn ended(
        &mut self,
        class: Class,
        name: impl Fn(Class) -> String,
        end: End,
        took: Duration,
    ) {
        let book = self.class(class, name);
        let outcome = match end {
            End::Served => {
                book.completions.increment(1);
                0
            }
            End::Failed => {
                book.failures.increment(1);
                1
            }
            End::Refused => REFUSED, // counted with the stage that the upstream names
            End::Cancelled => {
                book.cancellations.increment(1);
                3
            }
        };
        book.times[outcome].all.observe(took);
    }

    pub(super) fn waited(&mut self, waited: Duration) {
        self.waits.increment(1);
        self.waited.all.observe(waited);
    }

    /// A request was refused, so long after it came.
    pub(super) fn refused(
        &mut self,
        route: RouteName<'_>,
        class: Class,
        name: impl Fn(Class) -> String,
        rejected: &Rejected,
        took: Duration,
    ) {
        self.class(class, &name).times[REFUSED].all.observe(took);
        self.count(names::REFUSALS, None, class, &name, rejected.stage, rejected.reason.name());
        if rejected.stage == Stage::GATE {
            counter!(names::STAGE_REFUSALS.name, "stage" => GATE).increment(1);
        }
        let (stage, reason) = (rejected.stage, rejected.reason.name());
        self.count(names::PROXY_REFUSALS, Some(route), class, name, stage, reason);
    }

    /// A request would have been refused.
    pub(super) fn unrefused(
        &mut self,
        route: RouteName<'_>,
        class: Class,
        name: impl Fn(Class) -> String,
        rejected: &Rejected,
    ) {
        let (stage, reason) = (rejected.stage, rejected.reason.name());
        self.count(names::PROXY_UNREFUSED, Some(route), class, name, stage, reason);
    }

    fn count(
        &mut self,
        metric: Metric,
        route: Option<RouteName<'_>>,
        class: Class,
        name: impl Fn(Class) -> String,
        stage: Stage,
        reason: &'static str,
    ) {
        let number = route.map_or(usize::MAX, |(number, _)| number);
        let why = Why { metric: metric.name, route: number, class: class.0, stage, reason };
        if let Some(counter) = self.refusals.get(&why) {
            return counter.increment(1);
        }
        let (class, stage) = (self.class(class, name).name.clone(), stage.to_string());
        let counter = match route {
            None => {
                counter!(metric.name, "class" => class, "stage" => stage, "reason" => reason)
            }
            Some((_, route)) => counter!(
                metric.name,
                "route" => route.to_owned(),
                "class" => class,
                "stage" => stage,
                "reason" => reason
            ),
        };
        counter.increment(1);
        self.refusals.insert(why, counter);
    }

    /// Tells the recorder what is so now.
    pub(super) fn publish(&mut self, state: &State, now: Instant) {
        self.classes.iter_mut().for_each(ClassBook::publish);
        self.waited.publish(|| histogram!(names::STAGE_WAIT.name, "stage" => GATE));
        let set = |metric: Metric, class: String, value: f64| {
            let upstream = self.upstream.clone();
            gauge!(metric.name, "upstream" => upstream, "class" => class).set(value);
        };
        let all = || "all".to_owned();
        set(names::GATE_LIMIT, all(), f64::from(state.gate.limit()));
        set(names::GATE_IN_FLIGHT, all(), f64::from(state.gate.in_flight()));
        set(names::GATE_WAITING, all(), f64::from(state.gate.waiting()));
        set(names::GATE_DELAY, all(), state.gate.queue_delay(now).as_secs_f64());
        for view in state.gate.classes(now) {
            let name = state.name(view.class);
            set(names::GATE_LIMIT, name.clone(), f64::from(view.limit));
            set(names::GATE_IN_FLIGHT, name.clone(), f64::from(view.in_flight));
            set(names::GATE_WAITING, name.clone(), f64::from(view.waiting));
            set(names::GATE_TAIL, name.clone(), state.tail(view.class).as_secs_f64());
            set(names::GATE_DELAY, name, view.age.as_secs_f64());
        }
        for (name, value) in state.metrics().iter() {
            // Of several upstreams with such algorithms the last one shows.
            gauge!(format!("seawall_{name}")).set(value);
        }
    }

    /// How long all together have waited at the gate.
    pub(super) fn waited_in_all(&self) -> Duration {
        self.waited.all.sum()
    }
}

/// The gate, as a label.
pub(crate) const GATE: &str = "gate";
