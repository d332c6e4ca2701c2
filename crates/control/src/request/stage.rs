//! Names for the places where a request can wait.

use core::fmt;

/// A place where a request can wait or be refused, as one byte on the wire.
///
/// Numbers below [`Stage::FIRST_OWN`] are Seawall's; a server numbers its own stages (locks, pools,
/// semaphores) from there and tells their names in its settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stage(pub u8);

impl Stage {
    /// Nowhere in particular: the reply names no stage.
    pub const NONE: Self = Self(0);
    /// The client's own queue, before a credit allowed the request to leave.
    pub const CLIENT: Self = Self(1);
    /// The server's entry: admission by the active algorithm.
    pub const ADMISSION: Self = Self(2);
    /// Received bytes that no thread has read yet.
    pub const SOCKET: Self = Self(3);
    /// The queue of runnable request handlers.
    pub const RUN_QUEUE: Self = Self(4);
    /// The handler itself, or what it called.
    pub const HANDLER: Self = Self(5);
    /// The memory semaphore, which bounds how many use the memory's bandwidth at once (Svalinn
    /// §3.2).
    pub const MEMORY: Self = Self(6);
    /// The CPU: the whole process is runnable, and others run (LIBROS §IV).
    pub const CPU: Self = Self(7);
    /// A free connection to another service, or leave to send on one (SurgeGuard §III-A).
    pub const CONNECTION: Self = Self(8);
    /// A place at the service behind a proxy, which lets in so many at once (see
    /// [`gate`](crate::gate)).
    pub const GATE: Self = Self(9);
    /// The world stands still: a garbage collector has stopped all threads of the application
    /// (LIBROS §V).
    pub const PAUSE: Self = Self(10);
    /// The number of the first stage that an application may name.
    pub const FIRST_OWN: u8 = 16;

    /// True if all requests of a server meet it, and not only those that need one thing of many.
    pub const fn concerns_all(self) -> bool {
        matches!(self, Self::ADMISSION | Self::SOCKET | Self::RUN_QUEUE | Self::CPU | Self::PAUSE)
    }

    /// The name of one of Seawall's own stages; `None` for an application's.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "none",
            Self::CLIENT => "client",
            Self::ADMISSION => "admission",
            Self::SOCKET => "socket",
            Self::RUN_QUEUE => "run_queue",
            Self::HANDLER => "handler",
            Self::MEMORY => "memory",
            Self::CPU => "cpu",
            Self::CONNECTION => "connection",
            Self::GATE => "gate",
            Self::PAUSE => "pause",
            _ => return None,
        })
    }

    /// The stage that shows itself as `name`: one of Seawall's own, or `stage N`.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("stage ") {
            return number.parse().ok().map(Self);
        }
        (0..Self::FIRST_OWN).map(Self).find(|stage| stage.name() == Some(name))
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "stage {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn all_stages_are_found_by_what_they_show() {
        for stage in (0..=u8::MAX).map(Stage) {
            assert_eq!(Stage::named(&stage.to_string()), Some(stage));
        }
        for other in ["", "stage", "stage 256", "stage x", "orders"] {
            assert_eq!(Stage::named(other), None, "{other}");
        }
    }
}
