//! What containers report and nobody can believe, counted by kind.

use core::fmt;

/// How a report, or what is said of a container, is absurd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Absurd {
    /// An average is negative, infinite or no number.
    NotANumber,
    /// More execution than the requests that were there could have had in that time.
    ExecTooLong,
    /// Waits for connections that are longer than the execution which contains them.
    PoolWaitTooLong,
    /// Jobs that began in the future, or so long ago that the clock must be wrong.
    Clock,
    /// More hinted requests than requests.
    HintedTooMany,
    /// More requests that say when their job began than requests.
    StartedTooMany,
    /// More requests that wait for connections than requests that are there.
    WaitingTooMany,
    /// Requests that nothing can serve so fast.
    RequestsTooMany,
    /// A container that is listed twice; the first counts.
    Duplicate,
    /// A floor of zero, or above the limit.
    Bounds,
    /// Units that lie outside of floor and limit, because somebody else has changed them. They are
    /// taken as they are.
    UnitsChanged,
    /// A frequency level above the ladder. It is taken for the highest.
    Level,
}

impl Absurd {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::NotANumber,
        Self::ExecTooLong,
        Self::PoolWaitTooLong,
        Self::Clock,
        Self::HintedTooMany,
        Self::StartedTooMany,
        Self::WaitingTooMany,
        Self::RequestsTooMany,
        Self::Duplicate,
        Self::Bounds,
        Self::UnitsChanged,
        Self::Level,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotANumber => "not_a_number",
            Self::ExecTooLong => "exec_too_long",
            Self::PoolWaitTooLong => "pool_wait_too_long",
            Self::Clock => "clock",
            Self::HintedTooMany => "hinted_too_many",
            Self::StartedTooMany => "started_too_many",
            Self::WaitingTooMany => "waiting_too_many",
            Self::RequestsTooMany => "requests_too_many",
            Self::Duplicate => "duplicate",
            Self::Bounds => "bounds",
            Self::UnitsChanged => "units_changed",
            Self::Level => "level",
        }
    }
}

impl fmt::Display for Absurd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How often each kind was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Absurd::ALL.len()]);

impl Refusals {
    pub(super) fn count(&mut self, kind: Absurd) {
        self.0[kind as usize] = self.0[kind as usize].saturating_add(1);
    }

    /// How often it was this kind.
    pub fn of(&self, kind: Absurd) -> u64 {
        self.0[kind as usize]
    }

    /// How often in total.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Each kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Absurd, u64)> + '_ {
        Absurd::ALL.into_iter().map(|kind| (kind, self.of(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_place_of_its_own() {
        let mut refusals = Refusals::default();
        for (times, kind) in (1..).zip(Absurd::ALL) {
            (0..times).for_each(|_| refusals.count(kind));
        }
        assert!(refusals.iter().map(|(_, count)| count).eq(1..=Absurd::ALL.len() as u64));
        assert_eq!(refusals.total(), 78);
    }
}
