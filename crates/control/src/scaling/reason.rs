//! Why something was decided, in words that a log can show.

use core::fmt;

/// Why a container's share changes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It is a candidate for more.
    Scored {
        /// How many conditions it fulfils.
        score: u32,
        /// Which.
        causes: Causes,
    },
    /// It does with less than is expected of it: its execution time as a multiple of that.
    AtEase(f64),
    /// It has no requests.
    Idle,
    /// The unit that it loses was worth this share of its execution time.
    Insensitive(f64),
    /// Its requests wait for connections: execution with these waits as a multiple of that
    /// without, compared with the same at low load.
    QueueBuildup(f64),
    /// They do not wait any longer, or only as at low load.
    QueueGone(f64),
    /// Its latency is this multiple of what is expected of it.
    Slow(f64),
    /// A change did not bring what it was tried for, and is taken back.
    Reverted,
    /// Another container needs the unit more.
    Victim,
    /// It had less than its floor, because others took it.
    Floor,
    /// What it used, in units, with a margin.
    Usage(f64),
}

/// The conditions that a candidate fulfils.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Its execution is longer than expected.
    pub slow: bool,
    /// Requests bring an upscale hint.
    pub hinted: bool,
    /// Requests are late for reasons that no service before it explains: the hint's residual form.
    pub late: bool,
    /// It refuses requests for want of CPU.
    pub sheds: bool,
}

impl Causes {
    /// How many they are.
    pub fn count(self) -> u32 {
        self.named().iter().filter(|(_, holds)| *holds).count() as u32
    }

    fn named(self) -> [(&'static str, bool); 4] {
        [("slow", self.slow), ("hinted", self.hinted), ("late", self.late), ("sheds", self.sheds)]
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, _) in self.named().into_iter().filter(|(_, holds)| *holds) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scored { score, causes } => write!(f, "scored {score}: {causes}"),
            Self::AtEase(ratio) => write!(f, "at ease: {ratio:.2} of what is expected"),
            Self::Idle => f.write_str("idle"),
            Self::Insensitive(worth) => {
                write!(f, "insensitive: its last unit saves {:.1} %", 100.0 * worth)
            }
            Self::QueueBuildup(ratio) => {
                write!(f, "waits for connections: queue buildup {ratio:.2}")
            }
            Self::QueueGone(ratio) => write!(f, "connections are free: queue buildup {ratio:.2}"),
            Self::Slow(ratio) => write!(f, "slow: {ratio:.2} of what is expected"),
            Self::Reverted => f.write_str("taken back: the change did not help"),
            Self::Victim => f.write_str("another container needs it more"),
            Self::Floor => f.write_str("it had less than its floor"),
            Self::Usage(units) => write!(f, "usage: {units:.2} units"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn reads_as_a_sentence() {
        let causes = Causes { slow: true, hinted: true, ..Causes::default() };
        assert_eq!(causes.count(), 2);
        let scored = Reason::Scored { score: 2, causes };
        assert_eq!(scored.to_string(), "scored 2: slow, hinted");
        let revoked = Reason::Insensitive(0.013);
        assert_eq!(revoked.to_string(), "insensitive: its last unit saves 1.3 %");
    }
}
