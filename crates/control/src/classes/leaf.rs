//! What is known of one class: how its requests differ among themselves, by each feature.

use alloc::boxed::Box;
use alloc::vec;

use super::compare::{Baseline, Sample, Votes};
use super::value::{FEATURES, Feature, Key, Request, SIZE_VALUES, Text};
use crate::request::Class;
use crate::time::Instant;

/// Values of a feature that are told apart in a class, if they have no order. The rest is "other":
/// a value that comes later takes a place once it comes more often than one that has it.
pub const VALUES: usize = 16;

/// Samples without which a window goes on.
const WINDOW_MIN: u32 = 128;

/// A class and what could divide it.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) class: Class,
    began: Instant,
    baseline: Baseline,
    all: Sample,
    tables: Box<[Table]>,
}

/// How a class is divided: requests for which it is true get a class of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) feature: usize,
    /// A value that is met exactly; or, of a feature with an order, the least that is.
    pub(super) value: u64,
    pub(super) text: Text,
}

/// A division that would be worth it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) test: Test,
    pub(super) votes: Votes,
    pub(super) stage: Text,
}

/// The values of one feature. What a request looks through lies close together.
#[derive(Debug)]
struct Table {
    values: [u64; VALUES],
    /// How often each came, of late; 0 for a place that is free.
    came: [u32; VALUES],
    slots: Box<[Slot]>,
    /// Values in the window that had no slot.
    others: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    text: Text,
    /// Where its requests were refused behind.
    stage: Text,
    sample: Sample,
    votes: Votes,
}

impl Test {
    pub(super) fn is_met(&self, key: &Key) -> bool {
        let value = key.0[self.feature];
        if Feature::at(self.feature).is_ordered() {
            value >= self.value
        } else {
            value == self.value
        }
    }
}

impl Leaf {
    pub(super) fn new(now: Instant, class: Class) -> Self {
        Self {
            class,
            began: now,
            baseline: Baseline::default(),
            all: Sample::default(),
            tables: (0..FEATURES).map(|_| Table::new()).collect(),
        }
    }

    /// A request has come.
    pub(super) fn on_request(&mut self, key: &Key, request: &Request<'_>) {
        for (index, (table, value)) in self.tables.iter_mut().zip(key.0).enumerate() {
            table.on_request(Feature::at(index), value, request);
        }
    }

    /// A request was served; the logarithm of its latency.
    pub(super) fn on_served(&mut self, key: &Key, logarithm: f64) {
        let residual = self.baseline.residual(logarithm);
        self.all.on_served(residual);
        for (index, (table, value)) in self.tables.iter_mut().zip(key.0).enumerate() {
            if let Some(slot) = table.slot(Feature::at(index), value) {
                slot.sample.on_served(residual);
            }
        }
    }

    /// A request was refused behind, at `stage`.
    pub(super) fn on_refused(&mut self, key: &Key, stage: &str) {
        self.all.on_refused();
        for (index, (table, value)) in self.tables.iter_mut().zip(key.0).enumerate() {
            if let Some(slot) = table.slot(Feature::at(index), value) {
                slot.sample.on_refused();
                slot.stage = Text::from(stage);
            }
        }
    }

    /// The window is over if it has lasted so long, and seen enough.
    pub(super) fn is_over(&self, now: Instant, window: core::time::Duration) -> bool {
        self.all.len() >= WINDOW_MIN && now.since(self.began) >= window
    }

    /// Ends the window, and begins the next: the best division of those that are certain.
    pub(super) fn on_window(&mut self, now: Instant) -> Option<Split> {
        let tested = self.tables.iter().map(Table::candidates).sum::<u64>().max(1);
        for (index, table) in self.tables.iter_mut().enumerate() {
            table.vote(Feature::at(index), &self.all, tested);
        }
        self.began = now;
        self.all = Sample::default();
        // Of the same gain, the first counts: routes and methods before headers, and who is slower
        // before who is not.
        let tables = self.tables.iter_mut().enumerate();
        let splits = tables.flat_map(|(feature, table)| table.splits(feature));
        let best = splits.fold(None::<(f64, Split)>, |best, (gain, split)| match best {
            Some((most, _)) if gain <= most * (1.0 + 1e-9) => best,
            _ => Some((gain, split)),
        });
        best.map(|(_, split)| split)
    }
}

impl Table {
    fn new() -> Self {
        let slots = vec![Slot::default(); VALUES].into();
        Self { values: [0; VALUES], came: [0; VALUES], slots, others: 0 }
    }

    fn on_request(&mut self, feature: Feature, value: u64, request: &Request<'_>) {
        if let Some(place) = self.place(feature, value) {
            self.values[place] = value;
            self.came[place] = self.came[place].saturating_add(1);
            return;
        }
        self.others += 1;
        let least = (0..VALUES).min_by_key(|place| self.came[*place]).unwrap_or_default();
        if self.came[least] > 0 {
            self.came[least] -= 1;
        } else {
            (self.values[least], self.came[least]) = (value, 1);
            self.slots[least] = Slot { text: Text::of(feature, request), ..Slot::default() };
        }
    }

    /// Where a value has its counts; `None` if it is "other". Of a feature with an order all have.
    fn place(&self, feature: Feature, value: u64) -> Option<usize> {
        const { assert!(SIZE_VALUES <= VALUES, "each size has a place") };
        if feature.is_ordered() {
            return Some(value as usize);
        }
        let is_it = |place: &usize| self.values[*place] == value && self.came[*place] > 0;
        (0..VALUES).find(is_it)
    }

    fn slot(&mut self, feature: Feature, value: u64) -> Option<&mut Slot> {
        self.place(feature, value).map(|place| &mut self.slots[place])
    }

    /// How many divisions are compared: those of values without a slot, too, since who has one is
    /// one of many.
    fn candidates(&self) -> u64 {
        self.came.iter().filter(|came| **came > 0).count() as u64 + self.others
    }

    fn vote(&mut self, feature: Feature, all: &Sample, tested: u64) {
        self.others = 0;
        self.came.iter_mut().for_each(|came| *came /= 2);
        let mut above = Sample::default();
        for slot in self.slots.iter_mut().rev() {
            if feature.is_ordered() {
                above.add(&slot.sample);
                // A cut where there is nothing is the same as the one above it.
                let difference = above.against_rest(all, tested).filter(|_| slot.sample.len() > 0);
                slot.votes.on_window(difference);
            } else {
                slot.votes.on_window(slot.sample.against_rest(all, tested));
            }
            slot.sample = Sample::default();
        }
    }

    fn splits(&self, feature: usize) -> impl Iterator<Item = (f64, Split)> {
        let all = || self.values.iter().zip(&self.slots);
        let first = all().filter(|(_, slot)| slot.votes.are_slower());
        let last = all().filter(|(_, slot)| !slot.votes.are_slower());
        first.chain(last).filter_map(move |(value, slot)| {
            let test = Test { feature, value: *value, text: slot.text };
            Some((slot.votes.gain()?, Split { test, votes: slot.votes, stage: slot.stage }))
        })
    }
}
