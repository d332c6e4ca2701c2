//! A lock, a semaphore or a pool: how long until a request that joins now gets its turn.
//!
//! ```text
//!   holder ──── held ────┐      waiters: [oldest … newest]   request
//!                        └ turns ahead: the holder's, and one for each waiter
//! ```

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::nanos;

/// What is known of a stage at which a request is about to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// Age of the oldest waiter; zero when nobody waits.
    pub age: Duration,
    /// Turns that end before the request has its own: the present holder's and those of all who
    /// wait. Where n hold at once, each waiter is 1/n of a turn.
    pub turns: f64,
    /// How long a turn lasts, on average; zero when that is not known yet.
    pub hold: Duration,
    /// For how long the present turn is known to last already.
    pub held: Duration,
    /// How long it still takes, if its holder [said](super::hold) what it does.
    pub rest: Option<Duration>,
}

/// How the wait at a lock is predicted. Selectable, because no rule is best everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimate {
    /// The age of the oldest waiter (Protego §3.2). It needs no history, and it is late: of a
    /// burst that finds a free queue all are let in, however long the holder takes.
    OldestWaiter,
    /// Turns ahead × mean time of a turn, the holder's included. It sees a burst at once, and knows
    /// of a stall only what the holder's own time tells.
    QueuedWork,
    /// The larger of the two. The default.
    #[default]
    Larger,
}

/// What a request does that comes to a lock which somebody has. Services offer it as an option, so
/// that kinds of locks can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// It waits, however long, and its budget knows nothing of it: an ordinary mutex.
    Plain,
    /// It is refused.
    Try,
    /// It is refused if the [oldest waiter](Estimate::OldestWaiter) has waited longer than it may.
    OldestWaiter,
    /// It is refused if the [queued work](Estimate::QueuedWork) takes longer than it may wait.
    QueuedWork,
    /// It is refused if the [longer](Estimate::Larger) of these two is longer than it may wait. The
    /// default.
    #[default]
    Larger,
}

impl LockKind {
    /// All kinds by name, as configuration spells them.
    pub const NAMED: [(&str, Self); 5] = [
        ("plain", Self::Plain),
        ("try", Self::Try),
        ("oldest-waiter", Self::OldestWaiter),
        ("queued-work", Self::QueuedWork),
        ("larger", Self::Larger),
    ];

    /// How its waits are predicted. Of kinds that ask for no prediction, the one that reports show.
    pub const fn estimate(self) -> Estimate {
        match self {
            Self::OldestWaiter => Estimate::OldestWaiter,
            Self::QueuedWork => Estimate::QueuedWork,
            Self::Plain | Self::Try | Self::Larger => Estimate::Larger,
        }
    }
}

impl Estimate {
    /// The wait of a request that joins behind `backlog`.
    pub fn wait(self, backlog: &Backlog) -> Duration {
        let wait = match self {
            Self::OldestWaiter => backlog.age,
            Self::QueuedWork => backlog.work(),
            Self::Larger => backlog.age.max(backlog.work()),
        };
        wait.max(backlog.rest.unwrap_or_default())
    }
}

impl Backlog {
    /// The turns ahead, as long as they are on average.
    pub fn queued(&self) -> Duration {
        Duration::from_nanos((self.turns.max(0.0) * nanos(self.hold) as f64) as u64)
    }

    /// Turns ahead × mean time of a turn. A holder that has exceeded the mean counts with what it
    /// took: who is late already will hardly be done at once.
    fn work(&self) -> Duration {
        if self.turns <= 0.0 {
            return Duration::ZERO;
        }
        if let Some(rest) = self.rest {
            let others = (self.turns - 1.0).max(0.0) * nanos(self.hold) as f64;
            return rest.saturating_add(Duration::from_nanos(others as u64));
        }
        let ahead = self.turns * nanos(self.hold) as f64;
        Duration::from_nanos(ahead as u64).saturating_add(self.held.saturating_sub(self.hold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn kinds_of_locks_are_spelt_as_they_are_named() {
        #[derive(Serialize, Deserialize)]
        struct Config {
            locks: LockKind,
        }
        for (name, locks) in LockKind::NAMED {
            let text = alloc::format!("locks = \"{name}\"\n");
            assert_eq!(toml::to_string(&Config { locks }).unwrap(), text);
            assert_eq!(toml::from_str::<Config>(&text).unwrap().locks, locks);
        }
    }

    #[test]
    fn the_oldest_waiter_knows_nothing_of_a_burst_and_the_work_does() {
        let burst = Backlog { age: us(1), turns: 20.0, hold: us(10), held: us(2), rest: None };
        assert_eq!(Estimate::OldestWaiter.wait(&burst), us(1));
        assert_eq!(Estimate::QueuedWork.wait(&burst), us(200));
        assert_eq!(Estimate::Larger.wait(&burst), us(200));
    }

    #[test]
    fn a_stalled_holder_counts_with_what_it_took() {
        let stall = Backlog { age: us(450), turns: 2.0, hold: us(10), held: us(500), rest: None };
        assert_eq!(Estimate::QueuedWork.wait(&stall), us(20 + 490));
        assert_eq!(Estimate::Larger.wait(&stall), us(510));
        assert_eq!(Estimate::OldestWaiter.wait(&stall), us(450));
    }

    #[test]
    fn a_holder_that_says_what_it_does_is_believed() {
        let rest = Some(us(25_000));
        let rebalance = Backlog { age: us(1), turns: 3.0, hold: us(10), held: us(2), rest };
        assert_eq!(Estimate::QueuedWork.wait(&rebalance), us(25_020));
        assert_eq!(Estimate::OldestWaiter.wait(&rebalance), us(25_000));
    }

    #[test]
    fn a_waiter_for_one_of_many_permits_is_a_part_of_a_turn() {
        let four_at_once = Backlog { turns: 3.0 / 4.0, hold: us(100), ..Backlog::default() };
        assert_eq!(Estimate::QueuedWork.wait(&four_at_once), us(75));
    }

    #[test]
    fn nothing_is_predicted_where_nothing_is_ahead_or_known() {
        let free = Backlog { hold: us(10), ..Backlog::default() };
        let unknown = Backlog { turns: 3.0, ..Backlog::default() };
        assert_eq!([free, unknown].map(|it| Estimate::Larger.wait(&it)), [us(0); 2]);
        let endless = Backlog { turns: f64::MAX, hold: Duration::MAX, ..Backlog::default() };
        assert_eq!(Estimate::QueuedWork.wait(&endless), Duration::from_nanos(u64::MAX));
    }
}
