//! Why a request was refused, as one of a few words.

use core::fmt;

/// What a refusal is for. Beside the stage that refused it says why: of requests refused at the run
/// queue some could not have met their deadlines, and others had used their delay budget up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The stage is too busy: the algorithm lets no more in, or what it needs is taken and it was
    /// not to wait, or the queue is as long as is of use ([`Standing`](crate::standing::Standing)).
    Overload,
    /// The client sent more than its window allows.
    WindowExceeded,
    /// Too many requests at once claimed the privilege of not being droppable.
    PrivilegeExceeded,
    /// The predicted wait is longer than the time to its deadline.
    Deadline,
    /// The predicted wait is longer than what is left of its delay budget.
    Budget,
    /// The server is about to stop.
    Shutdown,
}

impl RefusalReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Overload,
        Self::WindowExceeded,
        Self::PrivilegeExceeded,
        Self::Deadline,
        Self::Budget,
        Self::Shutdown,
    ];

    /// The word for it in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::WindowExceeded => "window",
            Self::PrivilegeExceeded => "privilege",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
