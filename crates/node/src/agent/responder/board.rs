//! What can be boosted, what is, and what stands when it is not any more.
//!
//! Two threads meet here: the agent, which changes what containers have, and the worker that
//! boosts them. Each container has a lock, which either holds for some microseconds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::scaling::responder::{BOOSTED_MAX, Turn};

use super::config::Responder;
use super::lever::Lever;
use crate::agent::actuator::ActuatorError;
use crate::agent::crash::{self, Step};
use crate::responder::{Boost, Decision, Slot, monotonic_now};

/// What was done that the log of decisions has not yet; more is only counted.
const TOLD_MAX: usize = 256;

/// All containers that can be boosted.
#[derive(Debug)]
pub(in crate::agent) struct Board {
    terms: Terms,
    rows: Mutex<BTreeMap<PathBuf, Arc<Row>>>,
    slots: Mutex<BTreeMap<Slot, Vec<Arc<Row>>>>,
    room: Mutex<Room>,
    told: Mutex<VecDeque<Told>>,
    counts: Counts,
}

/// By how much.
#[derive(Clone, Copy, Debug)]
struct Terms {
    factor: f64,
    /// Instead of the factor, thousandths of a CPU.
    more: Option<u32>,
}

/// What the node has left for boosts, thousandths of a CPU.
#[derive(Debug, Default)]
struct Room {
    /// What containers may have together, boosts included.
    most: u64,
    /// What they have without boosts.
    has: u64,
    /// What boosts give.
    lent: u64,
}

impl Room {
    fn left(&self) -> u32 {
        self.most.saturating_sub(self.has + self.lent).min(u64::from(u32::MAX)) as u32
    }
}

/// What came of boosts.
#[derive(Debug, Default)]
pub(in crate::agent) struct Counts {
    /// Cut because the node has no more.
    pub(in crate::agent) room: AtomicU64,
    /// Cut at the limit times the factor, or by a group around it.
    pub(in crate::agent) limit: AtomicU64,
    /// Left out because it had been boosted for long enough.
    pub(in crate::agent) share: AtomicU64,
    pub(in crate::agent) failures: AtomicU64,
    pub(in crate::agent) untold: AtomicU64,
}

/// Something for the log of decisions.
#[derive(Clone, Debug)]
pub(in crate::agent) struct Told {
    pub(in crate::agent) key: PathBuf,
    pub(in crate::agent) change: String,
    pub(in crate::agent) reason: String,
    pub(in crate::agent) result: String,
}

/// One container.
#[derive(Debug)]
pub(in crate::agent) struct Row {
    key: PathBuf,
    state: Mutex<State>,
    pub(in crate::agent) boosts: AtomicU64,
    pub(in crate::agent) boosted_ns: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    lever: Lever,
    /// What it has without a boost: what the policy last decided, or others have set.
    pub(super) base: u32,
    /// While it is boosted and more stands there than the base: what that is.
    pub(super) written: Option<u32>,
    lent: u32,
    /// Never more than this.
    most: u32,
    /// Who has boosted it, and until when.
    by: BTreeSet<Slot>,
    /// Its own share of time: several services may raise the same container one after the other,
    /// each within its share.
    turn: Turn,
    until: Instant,
    since: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    pub(super) fn new(config: &Responder, unit_milli: u32) -> Self {
        let more = config.quota_units.map(|units| units.saturating_mul(unit_milli));
        Self {
            terms: Terms { factor: config.quota_factor, more },
            rows: Mutex::default(),
            slots: Mutex::default(),
            room: Mutex::default(),
            told: Mutex::default(),
            counts: Counts::default(),
        }
    }

    pub(in crate::agent) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// From now on this container can be boosted.
    pub(super) fn track(&self, key: PathBuf, lever: Lever, base: u32) {
        let state = State {
            lever,
            base,
            written: None,
            lent: 0,
            most: u32::MAX,
            by: BTreeSet::new(),
            turn: Turn::default(),
            until: Instant::ORIGIN,
            since: Instant::ORIGIN,
        };
        let (boosts, boosted_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let row = Row { key: key.clone(), state: Mutex::new(state), boosts, boosted_ns };
        lock(&self.rows).insert(key, Arc::new(row));
    }

    /// It has gone, or is nobody's business here any more: a boost of it ends.
    pub(super) fn forget(&self, key: &PathBuf) {
        // No decision is carried out meanwhile.
        let mut slots = lock(&self.slots);
        if let Some(row) = lock(&self.rows).remove(key) {
            slots.values_mut().for_each(|rows| rows.retain(|other| !Arc::ptr_eq(other, &row)));
            // Where it has gone there is nothing to write.
            let _ = self.end(&row, monotonic_now(), "it is left alone");
        }
    }

    pub(super) fn row(&self, key: &PathBuf) -> Option<Arc<Row>> {
        lock(&self.rows).get(key).cloned()
    }

    pub(in crate::agent) fn rows(&self) -> Vec<(PathBuf, Arc<Row>)> {
        lock(&self.rows).iter().map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    /// Whom each slot raises.
    pub(super) fn set_slots(&self, keys: BTreeMap<Slot, Vec<PathBuf>>) {
        let mut slots = lock(&self.slots);
        let rows = lock(&self.rows);
        let of =
            |keys: Vec<PathBuf>| keys.iter().filter_map(|key| rows.get(key).cloned()).collect();
        *slots = keys.into_iter().map(|(slot, keys)| (slot, of(keys))).collect();
    }

    /// What containers have without boosts, and may have with them; `most` is one container's own.
    pub(super) fn set_room(&self, has: u64, most: u64) {
        let mut room = lock(&self.room);
        (room.has, room.most) = (has, most);
    }

    /// The most that a boost gives a container with this limit in a group that has so much.
    pub(super) fn set_most(&self, key: &PathBuf, limit: u32, ceiling: Option<u32>) {
        if let Some(row) = self.row(key) {
            row.lock().most = self.terms.boosted(limit).min(ceiling.unwrap_or(u32::MAX));
        }
    }

    /// Boosts that the worker should have ended, when it has died; and what could not be lowered.
    pub(super) fn sweep(&self, now: Instant) {
        const LATE: Duration = Duration::from_secs(1);
        for (_, row) in self.rows() {
            let is_over = {
                let state = row.lock();
                let is_held = !state.by.is_empty() || state.written.is_some();
                is_held && now.since(state.until) > LATE
            };
            if is_over {
                self.judge(&self.end(&row, now, "nobody has ended it"));
            }
        }
    }

    /// What there is for the log.
    pub(in crate::agent) fn drain(&self) -> Vec<Told> {
        lock(&self.told).drain(..).collect()
    }

    fn tell(&self, row: &Row, change: String, reason: String, result: &io::Result<()>) {
        let mut told = lock(&self.told);
        if told.len() >= TOLD_MAX {
            self.counts.untold.fetch_add(1, Relaxed);
            return;
        }
        let result = result.as_ref().map_or_else(ToString::to_string, |()| "applied".to_owned());
        told.push_back(Told { key: row.key.clone(), change, reason, result });
    }

    fn judge(&self, result: &io::Result<()>) {
        if result.is_err() {
            self.counts.failures.fetch_add(1, Relaxed);
        }
    }

    /// Raises one container, or keeps it raised.
    fn raise(&self, row: &Row, slot: Slot, decision: &Decision) -> io::Result<()> {
        let mut state = row.lock();
        let is_new = state.by.is_empty();
        state.by.insert(slot);
        state.until = decision.until.max(state.until);
        if is_new {
            state.since = decision.at;
            row.boosts.fetch_add(1, Relaxed);
        }
        if let Lever::Page(_) = state.lever {
            let until = state.until;
            let told = state.lever.until(until).map_err(io::Error::other);
            if is_new {
                self.tell(row, "boosted speed".to_owned(), reason(decision), &told);
            }
            return told;
        }
        // Higher does not help; where there was no room, there may be now.
        if state.written.is_some() {
            return Ok(());
        }
        let raised = self.lift(&mut state).map_err(io::Error::other);
        if let Ok(Some(_)) | Err(_) = raised {
            let (base, has) = (state.base, state.written.unwrap_or(state.base));
            let result = raised.map(|_| crash::point(Step::DuringBoost));
            self.tell(row, state.change(base, has), reason(decision), &result);
            return result;
        }
        Ok(())
    }

    /// Writes what a boost gives above the base; `None` if that is nothing.
    fn lift(&self, state: &mut State) -> Result<Option<u32>, ActuatorError> {
        let amount = if let Lever::Level(_, _, top) = state.lever {
            top.max(state.base)
        } else {
            let wanted = self.terms.boosted(state.base);
            let most = wanted.min(state.most).max(state.base);
            let mut room = lock(&self.room);
            state.lent = (most - state.base).min(room.left());
            room.lent += u64::from(state.lent);
            let amount = state.base + state.lent;
            let count = |of: &AtomicU64| _ = of.fetch_add(1, Relaxed);
            if most < wanted {
                count(&self.counts.limit);
            }
            if amount < most {
                count(&self.counts.room);
            }
            amount
        };
        if amount <= state.base {
            return Ok(None);
        }
        match state.lever.write(amount) {
            Ok(stands) => {
                state.written = Some(stands);
                Ok(Some(stands))
            }
            Err(error) => {
                self.give_back(state);
                Err(error)
            }
        }
    }

    fn give_back(&self, state: &mut State) {
        let mut room = lock(&self.room);
        room.lent = room.lent.saturating_sub(u64::from(std::mem::take(&mut state.lent)));
    }

    /// One of those who raised it does so no longer.
    fn lower(&self, row: &Row, slot: Slot) -> io::Result<()> {
        let is_last = {
            let mut state = row.lock();
            state.by.remove(&slot) && state.by.is_empty()
        };
        if is_last { self.end(row, monotonic_now(), "its end") } else { Ok(()) }
    }

    /// What the policy last decided is what stands.
    fn end(&self, row: &Row, now: Instant, why: &str) -> io::Result<()> {
        let mut state = row.lock();
        state.by.clear();
        let lasted = now.since(std::mem::replace(&mut state.since, now));
        row.boosted_ns.fetch_add(lasted.as_nanos() as u64, Relaxed);
        if now < state.until {
            state.lever.until(now).map_err(io::Error::other)?;
            state.until = now;
        }
        let Some(has) = state.written else {
            self.give_back(&mut state);
            return Ok(());
        };
        let base = state.base;
        let result = match state.lever.write(base) {
            Ok(_) | Err(ActuatorError::Gone) => {
                state.written = None;
                self.give_back(&mut state);
                Ok(())
            }
            // What stands there is nobody's choice: it is tried again.
            Err(error) => Err(io::Error::other(error)),
        };
        self.tell(row, state.change(has, base), why.to_owned(), &result);
        result
    }

    /// The actuator has set the base anew under the lock of `state`: the boost stands above it.
    pub(super) fn again(&self, state: &mut State) -> Result<(), ActuatorError> {
        self.give_back(state);
        state.written = None;
        if !state.by.is_empty() {
            self.lift(state)?;
        }
        Ok(())
    }

    /// Somebody else has set it: there is nothing to be taken back.
    pub(super) fn cancel(&self, state: &mut State) {
        self.give_back(state);
        state.written = None;
    }
}

impl Terms {
    fn boosted(self, amount: u32) -> u32 {
        match self.more {
            Some(more) => amount.saturating_add(more),
            None => (f64::from(amount) * self.factor) as u32,
        }
    }
}

impl Row {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether it is boosted now.
    pub(in crate::agent) fn is_boosted(&self) -> bool {
        !self.lock().by.is_empty()
    }
}

impl State {
    fn change(&self, from: u32, to: u32) -> String {
        let what = if let Lever::Level(..) = self.lever { "level" } else { "milli" };
        format!("boost {what} {from} -> {to}")
    }

    /// Whether a boost lies within its share of time.
    fn grants(&mut self, decision: &Decision) -> bool {
        let granted = self.turn.grant(decision.at, decision.until, BOOSTED_MAX);
        granted == Some(decision.until)
    }
}

fn reason(decision: &Decision) -> String {
    let late = decision.late_by.as_secs_f64() * 1e3;
    format!("late by {late:.3} ms on path {}", decision.path)
}

/// What the worker calls.
#[derive(Debug)]
pub(super) struct Booster {
    board: Arc<Board>,
    /// Whom each slot has raised: by the time that ends, it may stand for others.
    raised: BTreeMap<Slot, Vec<Arc<Row>>>,
}

impl Booster {
    pub(super) fn new(board: Arc<Board>) -> Self {
        Self { board, raised: BTreeMap::new() }
    }
}

impl Boost for Booster {
    fn raise(&mut self, decision: &Decision) -> io::Result<()> {
        let board = self.board.clone();
        let slots = lock(&board.slots);
        let mut result = Ok(());
        for slot in &decision.raised {
            let Some(rows) = slots.get(slot) else { continue };
            let raised = self.raised.entry(*slot).or_default();
            for row in rows {
                if !row.lock().grants(decision) {
                    // The slot's boost goes on, and would take it along.
                    raised.retain(|other| !Arc::ptr_eq(other, row));
                    board.counts.share.fetch_add(1, Relaxed);
                    let one = board.lower(row, *slot);
                    board.counts.failures.fetch_add(u64::from(one.is_err()), Relaxed);
                    result = result.and(one);
                    continue;
                }
                if !raised.iter().any(|other| Arc::ptr_eq(other, row)) {
                    raised.push(row.clone());
                }
                let one = board.raise(row, *slot, decision);
                board.counts.failures.fetch_add(u64::from(one.is_err()), Relaxed);
                result = result.and(one);
            }
        }
        result
    }

    fn lower(&mut self, slot: Slot) -> io::Result<()> {
        let mut result = Ok(());
        for row in self.raised.remove(&slot).unwrap_or_default() {
            let one = self.board.lower(&row, slot);
            self.board.counts.failures.fetch_add(u64::from(one.is_err()), Relaxed);
            result = result.and(one);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::agent::actuator::{Quota, QuotaLever, Target};
    use crate::agent::hierarchy::{Hierarchy, Version};

    /// A container with half of a CPU, which two slots raise.
    fn board(group: &Path) -> Arc<Board> {
        fs::write(group.join("cpu.max"), "50000 100000\n").unwrap();
        let mount = group.to_owned();
        let hierarchy = Hierarchy { version: Version::V2, mount, root: "/".to_owned() };
        let quota = Quota::new(&hierarchy, None, 0.0);
        let key = group.to_owned();
        let target = Target { cpu: Some(key.clone()), ..Target::default() };
        let lever = Lever::Quota(QuotaLever::open(&quota, &target).unwrap());
        let board = Board::new(&Responder::default(), 100);
        board.track(key.clone(), lever, 500);
        board.set_room(500, 4_000);
        board.set_slots(BTreeMap::from([(0, vec![key.clone()]), (1, vec![key])]));
        Arc::new(board)
    }

    fn decision(slot: Slot, at: u64, until: u64) -> Decision {
        let ms = |ms: u64| Instant::from_micros(ms * 1_000);
        let (at, until) = (ms(at), ms(until));
        Decision { at, until, late_by: Duration::ZERO, path: 0, raised: vec![slot] }
    }

    #[test]
    fn whom_several_services_raise_is_boosted_for_half_of_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let board = board(folder.path());
        let row = board.row(&folder.path().to_owned()).unwrap();
        let mut booster = Booster::new(board.clone());
        let mut until = BTreeMap::<Slot, u64>::new();
        let mut boosted = Vec::new();
        for ms in 0..6_000 {
            let due = until.iter().filter(|(_, end)| **end <= ms).map(|(slot, _)| *slot);
            for slot in due.collect::<Vec<_>>() {
                until.remove(&slot);
                booster.lower(slot).unwrap();
            }
            if ms % 20 == 0 {
                // Each keeps within its own share, and their turns follow each other.
                let slot = Slot::from(ms % 1_000 >= 500);
                let end = (ms + 100).min((ms / 500 + 1) * 500);
                booster.raise(&decision(slot, ms, end)).unwrap();
                until.insert(slot, end);
            }
            boosted.push(row.lock().written.is_some());
        }
        let count = |of: &[bool]| of.iter().filter(|is| **is).count();
        assert_eq!(boosted.windows(1_000).map(count).max(), Some(500));
        assert_eq!(count(&boosted), 3_000, "and no less");
        assert!(board.counts.share.load(Relaxed) > 0);
    }

    #[test]
    fn what_a_boost_gives_is_taken_back_and_lent_again() {
        let folder = tempfile::tempdir().unwrap();
        let board = board(folder.path());
        let mut booster = Booster::new(board.clone());
        let holds = || fs::read_to_string(folder.path().join("cpu.max")).unwrap();
        for round in 0..3 {
            booster.raise(&decision(0, round * 1_000, round * 1_000 + 100)).unwrap();
            assert_eq!((holds().as_str(), lock(&board.room).lent), ("100000 100000", 500));
            booster.lower(0).unwrap();
            assert_eq!((holds().as_str(), lock(&board.room).lent), ("50000 100000", 0));
        }
    }
}
