//! What is known of a node when a decision is due.

use alloc::vec::Vec;
use core::time::Duration;

/// Names a container as long as it lives. The caller chooses it and does not use it again for
/// another container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub u64);

/// All that a policy may look at, taken at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The machine.
    pub node: Node,
    /// Its containers, in any order; those that are absent have gone.
    pub containers: Vec<Container>,
}

/// What a node has to give.
///
/// CPU is given in whole *units*: a physical core where there are many, a twentieth of a CPU where
/// there are two. Policies count units; what they are made of is the actuator's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Units that containers may have in total. What the containers do not have is free.
    pub units: u32,
    /// What a unit is worth, in thousandths of a CPU: compared with the CPU time that containers
    /// have used. 1000 by default, a whole CPU.
    pub unit_milli: u32,
    /// Steps of the frequency ladder, 0 the lowest; 1 when the frequency cannot be changed.
    pub levels: u16,
    /// The level that containers have when nothing is wrong; a policy does not go below it.
    pub level_base: u16,
}

impl Default for Node {
    fn default() -> Self {
        Self { units: 0, unit_milli: 1_000, levels: 1, level_base: 0 }
    }
}

/// One container as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Which one.
    pub id: ContainerId,
    /// Units that it has, as read back from whoever enforces them.
    pub units: u32,
    /// It never has fewer units. At least 1.
    pub floor: u32,
    /// It never has more units.
    pub limit: u32,
    /// Its frequency level.
    pub level: u16,
    /// Hops of the upscale hint that it puts on the requests it sends, as last decided.
    pub hint: u16,
    /// Services that a request passes before this one, for the residual form of the hint (the
    /// artifact's: the delay since the job's start that nobody's execution explains, per hop).
    /// 0 for the first service.
    pub depth: u16,
    /// CPU time it has used since it began, if that is counted.
    pub cpu_time: Option<Duration>,
    /// What is expected of it. Learned at low load where it is absent.
    pub expected: Expected,
    /// What it says of its requests.
    pub report: Report,
}

/// What a container's requests take when all is well, times two (SurgeGuard §IV).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Execution without waits for connections (`expectedExecMetric`).
    pub exec: Option<Duration>,
    /// From the start of the job to its arrival here (`expectedTimeFromStart`).
    pub time_from_start: Option<Duration>,
}

/// In which form a container reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Report {
    /// Not at all, or nothing new: its publisher has stopped.
    #[default]
    None,
    /// Running sums; what they grew by in an interval counts.
    Counters(Counters),
    /// Averages that the container made itself.
    Averages(Averages),
}

/// Sums since the container began. They only grow; smaller ones mean that it began anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were served.
    pub requests: u64,
    /// Requests in it now: this one is no sum.
    pub in_flight: u64,
    /// Execution of these requests: from arrival to reply, without waits for downstream services'
    /// replies, with waits for a free connection to them (`execTime`), nanoseconds.
    pub exec_ns: u64,
    /// Waits for a free connection within that (`timeWaitingForFreeConn`), nanoseconds.
    pub pool_wait_ns: u64,
    /// Those of the requests that say when their job began, and are believed.
    pub started: u64,
    /// From the start of their jobs to the arrivals of these, nanoseconds.
    pub time_from_start_ns: u64,
    /// Execution at the services before this one of these, as far as they say, nanoseconds.
    pub upstream_exec_ns: u64,
    /// Requests that arrived with an upscale hint above zero.
    pub hinted: u64,
    /// Requests refused because there was no CPU for them in time: demand that was shed.
    pub shed: u64,
    /// Requests that wait for a free connection now: no sum. Waits that have not ended are in none
    /// of the sums.
    pub waiting: u64,
    /// For how long these have waited so far, together, nanoseconds: no sum.
    pub waiting_ns: u64,
}

/// Averages over a container's latest requests, nanoseconds. While all of them stay exactly as they
/// are, there are no requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages {
    /// Mean execution without waits for connections (`execMetric`).
    pub exec_metric_ns: f64,
    /// Mean execution with them (`execTime`).
    pub exec_time_ns: f64,
    /// Mean time from the start of the job to the arrival.
    pub time_from_start_ns: f64,
    /// Whether requests have carried a hint since the last snapshot.
    pub is_hinted: bool,
}
