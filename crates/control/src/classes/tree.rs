//! Which class a request has: a tree of tests, at whose leaves the classes are.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::compare::{Baseline, Sample};
use super::leaf::{Leaf, Split, Test};
use super::value::Key;
use super::{View, name};
use crate::request::Class;
use crate::time::Instant;

/// Samples without which the two sides of a division are not compared.
const WINDOW_MIN: u32 = 128;

/// Samples after which a comparison begins anew, if nearly all were of one side.
const WINDOW_MAX: u32 = 8192;

/// Time from one look for classes to give up to the next.
const FORGET: Duration = Duration::from_secs(1);

/// The tree. Nodes are named by their places, and the root has the first.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    ids: Ids,
    next_look: Instant,
}

#[derive(Debug)]
enum Node {
    Leaf(Box<Leaf>),
    Division(Box<Division>),
    Free,
}

/// A class that was divided: whether its parts still differ.
#[derive(Debug)]
struct Division {
    split: Split,
    yes: usize,
    no: usize,
    baseline: Baseline,
    samples: [Sample; 2],
    differed: Instant,
}

impl Division {
    fn test(&self) -> &Test {
        &self.split.test
    }

    /// Compares the two sides once there is enough to compare.
    fn look(&mut self, now: Instant) {
        let [yes, no] = &self.samples;
        let len = yes.len() + no.len();
        if len < WINDOW_MIN {
            return;
        }
        let mut all = no.clone();
        all.add(yes);
        match yes.against_rest(&all, 1) {
            Some(difference) if difference.proved != 0 => self.differed = now,
            None if len < WINDOW_MAX => return,
            _ => {}
        }
        self.samples = [Sample::default(), Sample::default()];
    }
}

impl Tree {
    pub(super) fn new(now: Instant, classes_max: u32) -> Self {
        let mut ids = Ids::new(classes_max);
        let class = ids.take().expect("there is one class at least");
        Self { nodes: vec![Node::Leaf(Box::new(Leaf::new(now, class)))], ids, next_look: now }
    }

    pub(super) fn class_of(&self, key: &Key) -> Class {
        let mut at = 0;
        loop {
            match &self.nodes[at] {
                Node::Leaf(leaf) => return leaf.class,
                Node::Division(division) if division.test().is_met(key) => at = division.yes,
                Node::Division(division) => at = division.no,
                Node::Free => unreachable!("no test leads to a free node"),
            }
        }
    }

    pub(super) fn leaf(&mut self, key: &Key) -> &mut Leaf {
        let at = self.place(key);
        match &mut self.nodes[at] {
            Node::Leaf(leaf) => leaf,
            _ => unreachable!("tests end at a leaf"),
        }
    }

    fn place(&self, key: &Key) -> usize {
        let mut at = 0;
        while let Node::Division(division) = &self.nodes[at] {
            at = if division.test().is_met(key) { division.yes } else { division.no };
        }
        at
    }

    /// Tells all divisions on the way of a request that it was served, with the logarithm of its
    /// latency; or refused, without one.
    pub(super) fn pass(&mut self, now: Instant, key: &Key, logarithm: Option<f64>) {
        let mut at = 0;
        while let Node::Division(division) = &mut self.nodes[at] {
            let is_met = division.test().is_met(key);
            at = if is_met { division.yes } else { division.no };
            let sample = &mut division.samples[usize::from(!is_met)];
            match logarithm {
                Some(logarithm) => sample.on_served(division.baseline.residual(logarithm)),
                None => sample.on_refused(),
            }
            division.look(now);
        }
    }

    /// Divides the class of a request: the new class, and the one that is left of the old.
    pub(super) fn split(
        &mut self,
        now: Instant,
        key: &Key,
        split: &Split,
    ) -> Option<(Class, Class)> {
        let at = self.place(key);
        let Node::Leaf(leaf) = &self.nodes[at] else { return None };
        let parent = leaf.class;
        let class = self.ids.take()?;
        let yes = self.add(Leaf::new(now, class));
        let no = self.add(Leaf::new(now, parent));
        let division = Division {
            split: *split,
            yes,
            no,
            baseline: Baseline::default(),
            samples: Default::default(),
            differed: now,
        };
        self.nodes[at] = Node::Division(Box::new(division));
        Some((class, parent))
    }

    /// Looks for a class whose requests have not differed from the others for so long, and gives it
    /// up: that class, and what its requests have become.
    pub(super) fn forget(&mut self, now: Instant, after: Duration) -> Option<(Class, Class)> {
        if now < self.next_look {
            return None;
        }
        self.next_look = now + FORGET;
        let is_old = |at: &usize| match &self.nodes[*at] {
            // Of one that is divided further, the parts are given up first.
            Node::Division(division) => {
                let is_leaf = matches!(self.nodes[division.yes], Node::Leaf(_));
                is_leaf && now.since(division.differed) >= after
            }
            _ => false,
        };
        let at = (0..self.nodes.len()).find(is_old)?;
        let Node::Division(division) = core::mem::replace(&mut self.nodes[at], Node::Free) else {
            return None;
        };
        let given_up = core::mem::replace(&mut self.nodes[division.yes], Node::Free);
        self.nodes[at] = core::mem::replace(&mut self.nodes[division.no], Node::Free);
        let Node::Leaf(leaf) = given_up else { return None };
        self.ids.give_back(leaf.class);
        let mut rest = at;
        while let Node::Division(division) = &self.nodes[rest] {
            rest = division.no;
        }
        match &self.nodes[rest] {
            Node::Leaf(into) => Some((leaf.class, into.class)),
            _ => None,
        }
    }

    /// Whatever separates `class` from others is needed as of now.
    pub(super) fn on_limited(&mut self, now: Instant, class: Class) {
        self.mark(0, now, class);
    }

    fn mark(&mut self, at: usize, now: Instant, class: Class) -> bool {
        let (yes, no) = match &self.nodes[at] {
            Node::Leaf(leaf) => return leaf.class == class,
            Node::Division(division) => (division.yes, division.no),
            Node::Free => return false,
        };
        // Of the rest it is no reason to keep who was taken out of it.
        let is_yes = self.mark(yes, now, class);
        if let (true, Node::Division(division)) = (is_yes, &mut self.nodes[at]) {
            division.differed = now;
        }
        is_yes || self.mark(no, now, class)
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node, Node::Leaf(_))).count()
    }

    pub(super) fn views(&self, headers: &[String]) -> Vec<View> {
        let mut views = Vec::new();
        let mut todo = vec![(0, Vec::new())];
        while let Some((at, splits)) = todo.pop() {
            match &self.nodes[at] {
                Node::Leaf(leaf) => views.push(View {
                    class: leaf.class,
                    name: name::of(&splits, headers),
                    why: splits.last().map(|split| name::why(split)).unwrap_or_default(),
                }),
                Node::Division(division) => {
                    let further: Vec<&Split> = [&splits[..], &[&division.split]].concat();
                    todo.extend([(division.no, splits), (division.yes, further)]);
                }
                Node::Free => {}
            }
        }
        views
    }

    fn add(&mut self, leaf: Leaf) -> usize {
        let node = Node::Leaf(Box::new(leaf));
        if let Some(free) = self.nodes.iter().position(|node| matches!(node, Node::Free)) {
            self.nodes[free] = node;
            return free;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

/// Numbers of classes. One that was given back is used again as late as can be, so that whoever
/// counts by number does not mix up two classes.
#[derive(Debug)]
struct Ids {
    free: Vec<Class>,
}

impl Ids {
    fn new(classes_max: u32) -> Self {
        Self { free: (0..classes_max).map(|class| Class(class as u8)).collect() }
    }

    fn take(&mut self) -> Option<Class> {
        if self.free.is_empty() { None } else { Some(self.free.remove(0)) }
    }

    fn give_back(&mut self, class: Class) {
        self.free.push(class);
    }
}
