//! The replicas of a service: which there are, and which one a request goes to.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::replica::{Answered, Config as Choice, Selector};
use seawall_control::request::Stage;

use crate::client::answer::Refusal;
use crate::client::session::{Session, random};
use crate::clock;

/// A replica that cannot be reached is left out for this long, and twice as long after each time
/// that it still cannot; the choice ends that at a second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// All replicas of one service.
#[derive(Debug)]
pub(super) struct Members<S> {
    all: Mutex<Vec<Option<Member<S>>>>,
    /// Taken within the other lock, or alone.
    selector: Arc<Mutex<Selector>>,
}

/// One replica.
#[derive(Clone, Debug)]
pub(super) struct Member<S> {
    pub(super) key: Arc<str>,
    pub(super) session: Session,
    pub(super) service: S,
    pause: Duration,
}

/// A replica that was chosen for a request. While this lives, the request counts as its load.
#[derive(Debug)]
pub(in crate::client) struct Picked {
    pub(super) index: usize,
    selector: Arc<Mutex<Selector>>,
    /// When it was asked, if it has not answered.
    asked: Option<Instant>,
}

/// A choice among the replicas.
pub(super) struct Chosen<S> {
    pub(super) picked: Picked,
    pub(super) member: Member<S>,
    /// Others that could have been chosen.
    pub(super) others: usize,
}

impl<S: Clone> Members<S> {
    pub(super) fn new(choice: &Choice) -> Self {
        let selector = Selector::new(choice, 0, random());
        Self { all: Mutex::default(), selector: Arc::new(Mutex::new(selector)) }
    }

    /// Adds a replica; one that is there under this name already is replaced.
    pub(super) fn insert(&self, key: Arc<str>, session: Session, service: S) {
        let mut all = self.all.lock();
        let old = self.remove_from(&mut all, &key);
        let index = self.selector.lock().add();
        if index == all.len() {
            all.push(None);
        }
        all[index] = Some(Member { key, session, service, pause: PAUSE_FIRST });
        drop(all);
        drop(old);
    }

    /// Removes a replica; false if there is none of that name. Requests that are there go on.
    pub(super) fn remove(&self, key: &str) -> bool {
        let mut all = self.all.lock();
        let removed = self.remove_from(&mut all, key);
        drop(all);
        removed.is_some() // and dropped without the lock
    }

    fn remove_from(&self, all: &mut [Option<Member<S>>], key: &str) -> Option<Member<S>> {
        let is_it = |member: &Option<Member<S>>| member.as_ref().is_some_and(|m| &*m.key == key);
        let index = all.iter().position(is_it)?;
        self.selector.lock().remove(index);
        all[index].take()
    }

    /// Names of the replicas.
    pub(super) fn keys(&self) -> Vec<Arc<str>> {
        self.all.lock().iter().flatten().map(|member| member.key.clone()).collect()
    }

    /// How many replicas there are, but for those that were `tried`.
    pub(super) fn others(&self, tried: &[usize]) -> usize {
        let all = self.all.lock();
        all.iter().enumerate().filter(|(at, one)| one.is_some() && !tried.contains(at)).count()
    }

    /// One of the replicas, but none of those that were `tried`.
    pub(super) fn choose(&self, tried: &[usize]) -> Option<Chosen<S>> {
        let all = self.all.lock();
        let is_open = |index: usize| all[index].is_some() && !tried.contains(&index);
        let others = (0..all.len()).filter(|index| is_open(*index)).count().saturating_sub(1);
        let mut selector = self.selector.lock();
        let index = selector.choose(clock::now(), is_open)?;
        selector.on_submit(index);
        drop(selector);
        let member = all[index].clone().expect("only these may be chosen");
        Some(Chosen { picked: self.picked(index), member, others })
    }

    /// The replica of this number, if it is there.
    pub(super) fn choose_again(&self, index: usize) -> Option<Chosen<S>> {
        let member = self.all.lock().get(index)?.clone()?;
        self.selector.lock().on_submit(index);
        Some(Chosen { picked: self.picked(index), member, others: 0 })
    }

    fn picked(&self, index: usize) -> Picked {
        Picked { index, selector: self.selector.clone(), asked: Some(clock::now()) }
    }

    /// A replica could be reached, or not: the latter is left out for a while.
    pub(super) fn on_reached(&self, index: usize, reached: bool) {
        let mut all = self.all.lock();
        let Some(Some(member)) = all.get_mut(index) else { return };
        if reached {
            member.pause = PAUSE_FIRST;
            return;
        }
        let pause = member.pause;
        member.pause = (pause * 2).min(PAUSE_MOST);
        self.selector.lock().on_refusal(clock::now(), index, Stage::ADMISSION, pause);
    }
}

impl Picked {
    /// It has begun to answer.
    pub(super) fn on_reply(&mut self, answered: Answered) {
        self.asked = None;
        self.selector.lock().on_reply(clock::now(), self.index, answered);
    }

    /// It has refused.
    pub(super) fn on_refusal(&mut self, refusal: &Refusal) {
        self.asked = None;
        let (stage, delay) = (refusal.rejected.stage, refusal.rejected.predicted_delay);
        self.selector.lock().on_refusal(clock::now(), self.index, stage, delay);
    }

    /// It was not asked, or what it said tells nothing of how soon it answers.
    pub(super) fn on_nothing(&mut self) {
        self.asked = None;
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        let mut selector = self.selector.lock();
        if let Some(asked) = self.asked {
            let now = clock::now();
            selector.on_silence(now, self.index, now.since(asked));
        }
        selector.on_end(self.index);
    }
}
