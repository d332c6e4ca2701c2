//! What the FirstResponder is told: of itself, of paths and of services.

use std::net::IpAddr;
use std::time::Duration;

use seawall_control::scaling::responder::BOOSTED_MAX;
use thiserror::Error;

/// Services of a node; `SERVICES_MAX` of the program.
pub const SERVICES_MAX: usize = 4096;

/// Services that one decision raises: the late one and those downstream of it; `RAISED_MAX` of the
/// program. The paper's graphs have at most ten containers.
pub const RAISED_MAX: usize = 16;

/// How the FirstResponder acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// For how long a path is frozen after a decision, unless [`Path`] says otherwise. Twice the
    /// end-to-end latency works well (SurgeGuard §IV-A). Default 20 ms.
    pub window: Duration,
    /// How long a boost lasts if nobody ends it before. As long as it takes the slower controller
    /// to see the surge itself: its interval. Default 100 ms.
    pub boost: Duration,
    /// Requests whose job began longer ago than this are not judged: nobody waits for them any
    /// more, or the sender's clock is wrong. Default 10 s.
    pub age_max: Duration,
    /// When all requests of a service have been late for that long, they are not believed until
    /// one is in time: then the clocks disagree, or it is no surge. Default 10 s; the longest
    /// surge of the paper's evaluation takes 5 s.
    pub late_max: Duration,
    /// A service is boosted for at most this of each time twice as long, whoever is late. Default
    /// 500 ms: half of any second. Where one sender's clock is behind and others' requests are in
    /// time, nothing else would end it.
    pub boosted_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(20),
            boost: Duration::from_millis(100),
            age_max: Duration::from_secs(10),
            late_max: Duration::from_secs(10),
            boosted_max: BOOSTED_MAX,
        }
    }
}

impl Config {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    ///
    /// Names the field and what is allowed.
    pub fn validate(&self) -> Result<(), Refused> {
        let fields = [
            ("window", self.window),
            ("boost", self.boost),
            ("age_max", self.age_max),
            ("late_max", self.late_max),
            ("boosted_max", self.boosted_max),
        ];
        fields.into_iter().try_for_each(|(field, value)| allowed(field, value))
    }
}

/// More is a mistake, and nanoseconds must not overflow.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(3600);

/// Where a request's header tells the job's start and its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// Seawall's own (WIRE.md).
    #[default]
    Native,
    /// Thrift's framed transport with the strict binary protocol. Calls have the paper's leading
    /// arguments: the path (`i8`) as field 1 and the job's start (`i64`, nanoseconds) as field 2.
    Thrift,
}

/// A service of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Names it as long as it is there.
    pub name: String,
    /// Where requests come in.
    pub port: u16,
    /// At which addresses of this node, if another service has the same port at others. Empty:
    /// at any address at which no other has it.
    pub addresses: Vec<IpAddr>,
    /// What its requests look like.
    pub protocol: Protocol,
    /// What the time from the start of a job to the arrival here is when all is well, times two
    /// (`expectedTimeFromStart`).
    pub expected: Duration,
    /// Services on this node that it calls, directly or not; raised with it.
    pub downstream: Vec<String>,
}

/// A path through the graph of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// As in requests.
    pub number: u16,
    /// For how long it is frozen after a decision: about twice its end-to-end latency.
    pub window: Duration,
}

/// What the FirstResponder cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// Too short or too long.
    #[error("{field} = {value:?} is not allowed: more than 0 and at most one hour is")]
    Duration {
        /// Of the configuration, a path or a service.
        field: &'static str,
        /// As given.
        value: Duration,
    },
    /// More than there is space for.
    #[error("{count} services are too many: at most {SERVICES_MAX} are allowed")]
    Services {
        /// How many.
        count: usize,
    },
    /// Nothing comes in at port 0.
    #[error("service {name}: port 0 is not allowed; 1 to 65535 are")]
    Port {
        /// The service's name.
        name: String,
    },
    /// Names are used once.
    #[error("service {name} is there twice; each name is allowed once")]
    Twice {
        /// The service's name.
        name: String,
    },
    /// A request belongs to one service.
    #[error(
        "services {one} and {other} have the same port {port} at the same address; give each its \
         own port, or its own addresses"
    )]
    SamePort {
        /// One of them.
        one: String,
        /// The other.
        other: String,
        /// Their port.
        port: u16,
    },
    /// Services downstream are services of this node.
    #[error("service {name}: {downstream}, downstream of it, is no service of this node")]
    Unknown {
        /// The service's name.
        name: String,
        /// That is not there.
        downstream: String,
    },
    /// More than one decision can raise.
    #[error(
        "service {name}: {count} services downstream are too many; at most {} are allowed",
        RAISED_MAX - 1
    )]
    Downstream {
        /// The service's name.
        name: String,
        /// How many.
        count: usize,
    },
}

impl Path {
    pub(super) fn validate(&self) -> Result<(), Refused> {
        allowed("window of a path", self.window)
    }
}

/// A duration that is neither zero nor a mistake.
pub(super) fn allowed(field: &'static str, value: Duration) -> Result<(), Refused> {
    if value.is_zero() || value > DURATION_MAX {
        return Err(Refused::Duration { field, value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(Config::default().validate(), Ok(()));
        let config = Config { boost: Duration::ZERO, ..Config::default() };
        assert!(config.validate().unwrap_err().to_string().starts_with("boost = 0ns"));
        let config = Config { late_max: Duration::MAX, ..Config::default() };
        assert!(config.validate().unwrap_err().to_string().starts_with("late_max"));
        assert!(Path { number: 1, window: Duration::ZERO }.validate().is_err());
    }
}
