//! The patrol: looks whether threads are starved, and lends them its priority.
//!
//! It waits for nothing that an ordinary thread may hold: what it shares with them are atomics.

use std::sync::Arc;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::predict::starvation::{CpuDelay, Starved};

use super::GuardianConfig;
use super::loan::Loan;
use super::watched::Watched;
use crate::server::run_queue::RunQueue;

/// Threads are looked at once in this part of the least that requests have left, so that a wait is
/// noticed before half of it is gone; but not more often than once in a [`LOOK`], nor more seldom
/// than once in a [`PERIOD`]. A look takes 2 µs, and to wake for it 20 to 30 on a virtual machine.
const LOOKS: u32 = 4;

/// How often threads are looked at, at most.
const LOOK: Duration = Duration::from_millis(1);

/// How often while some seem to be starved, and so how often one that is starved is lent priority.
const CLOSE_LOOK: Duration = Duration::from_micros(500);

/// What the patrol itself takes to lend once, which counts for the debtor's share.
const ERRAND: Duration = Duration::from_micros(20);

/// How soon a look may follow another, however little is left of a thread's share.
const SOON: Duration = Duration::from_micros(50);

/// The time in which a thread may take its share. A starved thread reads once in it at least: what
/// has come may have less left than what came before.
const PERIOD: Duration = Duration::from_millis(10);

/// How long the least that requests have left is remembered: once to twice this.
const MEMORY: Duration = Duration::from_secs(1);

/// All that the patrol looks at.
#[derive(Debug, Default)]
pub(super) struct Beat {
    /// Threads that run handlers and do not read.
    workers: Group,
    readers: Vec<Reader>,
    /// When what requests have left was last forgotten.
    forgot_at: Instant,
}

/// What one look at the threads has to go by.
pub(super) struct Round<'a> {
    pub(super) now: Instant,
    pub(super) queue: &'a RunQueue,
    pub(super) predictor: &'a mut dyn CpuDelay,
    pub(super) config: &'a GuardianConfig,
}

/// Threads that are starved if one of them can run and none does.
#[derive(Debug, Default)]
struct Group {
    threads: Vec<Watched>,
    ids: Vec<i32>,
    condition: Condition,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    /// They ran, or had no reason to, at the last look.
    Fine { at: Instant },
    /// One can run, and none has, for one look: it may just have been woken.
    Suspected { since: Instant },
    /// For more.
    Starved { since: Instant },
}

/// What a look at a group has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Fine,
    /// It was starved, for so long, and is not.
    Fed(Duration),
    Suspected,
    Starved {
        since: Instant,
    },
}

/// What starved threads make requests wait.
#[derive(Clone, Copy, Debug)]
struct Plight {
    /// How long they are predicted to go on.
    delay: Duration,
    /// A request could be late by it.
    is_late: bool,
}

/// A thread that reads and writes.
#[derive(Debug)]
struct Reader {
    group: Group,
    /// It runs handlers, too.
    works: bool,
    loan: Arc<Loan>,
    /// What it makes requests wait, if it was starved at the last look.
    own: Option<Plight>,
    /// It was starved at the last look, or who serves what it reads was.
    is_starved: bool,
    /// When it was lent priority last.
    lent_at: Instant,
    /// What it had run at the last look, if it has a borrowed priority.
    lent: Option<Duration>,
    /// When its period began, and what it has run in it at the borrowed priority.
    began: Instant,
    used: Duration,
}

impl Beat {
    /// The thread that calls runs handlers, and others read.
    pub(super) fn add_worker(&mut self) {
        self.workers.add(Watched::this_thread());
    }

    /// The thread that calls reads, and perhaps `works`.
    pub(super) fn add_reader(&mut self, loan: Arc<Loan>, works: bool) {
        let mut group = Group::default();
        group.add(Watched::this_thread());
        let (lent_at, began, used) = (Instant::ORIGIN, Instant::ORIGIN, Duration::ZERO);
        let (own, is_starved, lent) = (None, false, None);
        let reader = Reader { group, works, loan, own, is_starved, lent_at, lent, began, used };
        self.readers.push(reader);
    }

    /// Gives everybody their own priority.
    pub(super) fn disband(&mut self) {
        self.readers.iter_mut().for_each(Reader::take_back);
    }

    /// Takes back what was repaid.
    pub(super) fn collect(&mut self) {
        self.readers.iter_mut().filter(|reader| reader.loan.is_done()).for_each(Reader::take_back);
    }

    /// True if somebody could be lent priority when bytes come.
    pub(super) fn heeds(&self, config: &GuardianConfig) -> bool {
        self.readers.iter().any(|reader| reader.is_needy() && reader.used < share(config))
    }

    /// Bytes have come: lends to those who were starved at the last look. Whether they still are is
    /// not asked, as looks in quick succession would not see them run.
    pub(super) fn heed(&mut self, round: &Round<'_>) {
        let needy = self.readers.iter_mut().filter(|reader| reader.is_needy());
        needy.for_each(|reader| reader.lend(round));
    }

    /// Looks at all threads and lends to those who need it; gives when to look again.
    pub(super) fn look(&mut self, round: &mut Round<'_>) -> Duration {
        let (now, queue) = (round.now, round.queue);
        if now.since(self.forgot_at) >= MEMORY {
            self.forgot_at = now;
            queue.forget_least_left();
        }
        // Threads for which nothing waits are not starved.
        let sight = if queue.len() == 0 && self.workers.is_fine() {
            self.workers.condition = Condition::Fine { at: now };
            Sight::Fine
        } else {
            self.workers.look(now)
        };
        let workers = round.weigh(sight, &self.workers.ids, true);
        if let Some(plight) = workers {
            queue.set_cpu_delay(Some(plight.delay));
        }
        let mut next = match sight {
            Sight::Fine | Sight::Fed(_) => (queue.least_left() / LOOKS).clamp(LOOK, PERIOD),
            Sight::Suspected | Sight::Starved { .. } => CLOSE_LOOK,
        };
        for reader in &mut self.readers {
            if reader.lent.is_some() {
                next = next.min(reader.pace(round));
                continue;
            }
            let sight = reader.group.look(now);
            reader.own = round.weigh(sight, &reader.group.ids, reader.works);
            if !sight.is_fine() {
                next = next.min(CLOSE_LOOK);
            }
            reader.is_starved = reader.own.is_some() || workers.is_some();
            let unread = now.since(reader.lent_at) >= PERIOD;
            if [reader.own, workers].into_iter().flatten().any(|it| it.is_late || unread) {
                reader.lend(round);
            }
        }
        next
    }
}

impl Round<'_> {
    /// What a group that was seen so makes requests wait, if it is starved. If it `works`, what it
    /// has waited tells how long such waits are.
    fn weigh(&mut self, sight: Sight, threads: &[i32], works: bool) -> Option<Plight> {
        match sight {
            Sight::Fine | Sight::Suspected => None,
            Sight::Fed(waited) => {
                if works {
                    self.predictor.on_episode(self.now, waited);
                    self.queue.set_cpu_delay(None);
                }
                None
            }
            Sight::Starved { since } => {
                let delay = self.predictor.predict(self.now, &Starved::new(since, threads));
                let waited = self.now.since(since).max(self.queue.age(self.now));
                let is_late = waited.saturating_add(delay) >= self.queue.least_left();
                Some(Plight { delay, is_late })
            }
        }
    }
}

impl Group {
    fn add(&mut self, thread: Watched) {
        self.ids.push(thread.id);
        self.threads.push(thread);
    }

    fn is_fine(&self) -> bool {
        matches!(self.condition, Condition::Fine { .. })
    }

    fn look(&mut self, now: Instant) -> Sight {
        // All of them are looked at, so that all are known at the next look.
        let ran = self.threads.iter_mut().map(|thread| u32::from(thread.has_run())).sum::<u32>();
        let is_fed = ran > 0 || !self.threads.iter().any(Watched::can_run);
        self.condition.see(now, is_fed)
    }
}

impl Condition {
    fn see(&mut self, now: Instant, is_fed: bool) -> Sight {
        let (next, sight) = match *self {
            Self::Starved { since } if is_fed => {
                (Self::Fine { at: now }, Sight::Fed(now.since(since)))
            }
            _ if is_fed => (Self::Fine { at: now }, Sight::Fine),
            Self::Fine { at } => {
                // Where looks are rare it has hardly waited since the last.
                let since = if now.since(at) > 2 * LOOK { now } else { at };
                (Self::Suspected { since }, Sight::Suspected)
            }
            Self::Suspected { since } | Self::Starved { since } => {
                (Self::Starved { since }, Sight::Starved { since })
            }
        };
        *self = next;
        sight
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::Fine { at: Instant::ORIGIN }
    }
}

impl Sight {
    fn is_fine(self) -> bool {
        matches!(self, Self::Fine | Self::Fed(_))
    }
}

impl Reader {
    /// It is starved and has no borrowed priority.
    fn is_needy(&self) -> bool {
        self.is_starved && self.lent.is_none()
    }

    /// Lends it priority, unless it has used up its share of this period. What it reads is judged
    /// by its own plight if it has to serve that, too; else by the workers'.
    fn lend(&mut self, round: &Round<'_>) {
        self.count(round.now);
        if self.used >= share(round.config) {
            return;
        }
        if let (true, Some(plight)) = (self.works, self.own) {
            round.queue.set_cpu_delay(Some(plight.delay));
        }
        self.lent_at = round.now;
        self.used += ERRAND;
        self.lent = Some(self.ran());
        self.loan.lend(round.config.priority);
    }

    /// It has a borrowed priority, for as long as its share lasts; gives when to look again.
    fn pace(&mut self, round: &Round<'_>) -> Duration {
        let before = self.lent;
        self.count(round.now);
        let share = share(round.config);
        if self.used >= share {
            self.take_back();
            return CLOSE_LOOK;
        }
        if self.lent == before {
            // It may have given back an earlier loan when it was lent this one.
            self.loan.raise(round.config.priority);
        }
        (share - self.used).clamp(SOON, CLOSE_LOOK)
    }

    fn take_back(&mut self) {
        self.loan.take_back();
        if let Some(before) = self.lent.take() {
            self.used += self.ran().saturating_sub(before);
        }
        self.group.threads.iter_mut().for_each(Watched::mark);
    }

    /// Counts what it has run at the borrowed priority, of a new period if that has begun.
    fn count(&mut self, now: Instant) {
        if now.since(self.began) >= PERIOD {
            (self.began, self.used) = (now, Duration::ZERO);
        }
        if let Some(before) = self.lent {
            let ran = self.ran();
            self.used += ran.saturating_sub(before);
            self.lent = Some(ran);
        }
    }

    fn ran(&self) -> Duration {
        self.group.threads.iter().map(Watched::ran).sum()
    }
}

fn share(config: &GuardianConfig) -> Duration {
    PERIOD.mul_f64(config.share)
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::Arrivals;
    use super::*;

    #[test]
    fn who_waits_at_two_looks_is_starved_since_it_last_was_not() {
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        let mut condition = Condition::default();
        let looks = [(1, true), (2, false), (3, true), (4, false), (5, false), (6, false)];
        let seen = looks.map(|(ms, is_fed)| condition.see(at(ms), is_fed));
        let starved = Sight::Starved { since: at(3) };
        let expected =
            [Sight::Fine, Sight::Suspected, Sight::Fine, Sight::Suspected, starved, starved];
        assert_eq!(seen, expected);
        assert_eq!(condition.see(at(9), true), Sight::Fed(Duration::from_millis(6)));
        assert_eq!(condition.see(at(10), true), Sight::Fine);
        // It was not looked at for long.
        assert_eq!(condition.see(at(20), false), Sight::Suspected);
        assert_eq!(condition.see(at(21), false), Sight::Starved { since: at(20) });
    }

    #[test]
    fn a_thread_has_its_share_of_each_period_at_most() {
        let loan = Loan::of_this_thread(Arc::new(Arrivals::new().unwrap())).unwrap();
        let mut beat = Beat::default();
        beat.add_reader(Arc::new(loan), true);
        let reader = &mut beat.readers[0];
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        reader.count(at(10));
        let (before, ms) = (reader.ran(), Duration::from_millis(1));
        reader.lent = Some(before);
        while reader.ran() < before + ms {}
        reader.count(at(14));
        let used = reader.used;
        assert!(used >= ms, "{used:?}");
        reader.lent = None;
        reader.count(at(19));
        assert_eq!(reader.used, used, "what it runs by itself does not count");
        reader.count(at(20));
        assert_eq!(reader.used, Duration::ZERO);
    }
}
