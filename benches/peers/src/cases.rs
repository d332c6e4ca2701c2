//! What is asked of them: workloads, protocols and loads.

use crate::serve::{Kind, Protocol};

/// Loads under one workload and one protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experiment {
    /// Its name in results, and of its files.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// What the load speaks.
    pub protocol: Protocol,
    /// What requests do.
    pub work: Kind,
    /// What is asked for, as `seawall load --requests` has it.
    pub requests: &'static str,
    /// Requests per second that 1x means: what a service time of 2 ms allows of a core or a lock.
    pub capacity: f64,
    /// What is offered, as `seawall load --rate` has it.
    pub loads: &'static [&'static str],
    /// Those of a quick run.
    pub quick: &'static [&'static str],
    /// Share of the requests that fail for reasons of their own.
    pub errors: f64,
    /// Keep the runs over time.
    pub over_time: bool,
    /// It is about cost: only some rows, and no deadline is near.
    pub is_overhead: bool,
}

/// A rise to two and a half times what can be served, four seconds long.
pub const SPIKE: &str = "0s:0.5x,10s:2.5x,14s:0.5x";

const ALL_HTTP: &str = "all:1:/work";
const ALL_GRPC: &str = "all:1:/peers.Work/Work";
const PATHS_HTTP: &str = "hot:0.5:/hot,cold:0.5:/cold";
const PATHS_GRPC: &str = "hot:0.5:/peers.Work/Hot,cold:0.5:/peers.Work/Cold";
const DATA_HTTP: &str = "hot:0.5:/work:h{},cold:0.5:/work:c{}";
const DATA_GRPC: &str = "hot:0.5:/peers.Work/Work:h{},cold:0.5:/peers.Work/Work:c{}";

const CPU: Experiment = Experiment {
    name: "cpu",
    title: "2 ms of CPU",
    protocol: Protocol::Http,
    work: Kind::Cpu,
    requests: ALL_HTTP,
    capacity: 500.0,
    loads: &["0.5x", "1x", "2x", "3x"],
    quick: &["0.5x", "2x"],
    errors: 0.0,
    over_time: false,
    is_overhead: false,
};

const LOCK: Experiment =
    Experiment { name: "lock", title: "2 ms under one lock", work: Kind::Lock, ..CPU };

/// A lock is saturated at 1x, when half of the requests need it.
const MIX: Experiment = Experiment {
    name: "mix-path",
    title: "half of the requests need one lock, as their paths tell",
    work: Kind::Mix,
    requests: PATHS_HTTP,
    capacity: 1000.0,
    loads: &["0.5x", "1x", "1.6x", "2x", "3x"],
    quick: &["0.5x", "1.6x"],
    ..CPU
};

const DATA: Experiment = Experiment {
    name: "mix-data",
    title: "half of the requests need one lock, which only their data tell",
    requests: DATA_HTTP,
    ..MIX
};

const ERRORS: Experiment = Experiment {
    name: "errors",
    title: "2 ms of CPU, and 1 % of the requests fail",
    loads: &["0.5x"],
    quick: &["0.5x"],
    errors: 0.01,
    ..CPU
};

const SPIKE_CPU: Experiment = Experiment {
    name: "spike",
    title: "2 ms of CPU: from 0.5x to 2.5x for four seconds, and back",
    loads: &[SPIKE],
    quick: &[],
    over_time: true,
    ..CPU
};

const SPIKE_LOCK: Experiment = Experiment {
    name: "spike-lock",
    title: "2 ms under one lock: from 0.5x to 2.5x for four seconds, and back",
    work: Kind::Lock,
    ..SPIKE_CPU
};

const IDLE: Experiment = Experiment {
    name: "overhead",
    title: "requests that do nothing, at low load",
    work: Kind::Idle,
    capacity: 1000.0,
    loads: &["0.2x", "1x"],
    quick: &["0.2x"],
    is_overhead: true,
    ..CPU
};

const fn grpc(
    experiment: Experiment,
    name: &'static str,
    requests: &'static str,
    loads: &'static [&'static str],
) -> Experiment {
    Experiment { name, protocol: Protocol::Grpc, requests, loads, quick: &[], ..experiment }
}

/// All of them, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    CPU,
    LOCK,
    MIX,
    DATA,
    ERRORS,
    IDLE,
    SPIKE_CPU,
    SPIKE_LOCK,
    grpc(CPU, "grpc-cpu", ALL_GRPC, &["0.5x", "2x"]),
    grpc(LOCK, "grpc-lock", ALL_GRPC, &["0.5x", "2x"]),
    grpc(MIX, "grpc-mix-path", PATHS_GRPC, &["0.5x", "1.6x"]),
    grpc(DATA, "grpc-mix-data", DATA_GRPC, &["0.5x", "1.6x"]),
    grpc(ERRORS, "grpc-errors", ALL_GRPC, &["0.5x"]),
    grpc(IDLE, "grpc-overhead", ALL_GRPC, &["0.2x"]),
];

/// The experiment with this name.
pub fn experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Connections that the load may have: as many requests of HTTP/1.1 at a time, or enough of
    /// gRPC for each to be a client of its own.
    pub fn connections(&self) -> u32 {
        match self.protocol {
            Protocol::Http => 200,
            Protocol::Grpc => 8,
        }
    }

    /// The name of the protocol, as servers take it.
    pub fn proto(&self) -> &'static str {
        match self.protocol {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }

    /// The name of the work, as servers take it.
    pub fn work(&self) -> &'static str {
        match self.work {
            Kind::Idle => "idle",
            Kind::Cpu => "cpu",
            Kind::Lock => "lock",
            Kind::Mix => "mix",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_those_of_the_command() {
        for experiment in EXPERIMENTS {
            for load in experiment.loads {
                let schedule: seawall_measure::Schedule = load.parse().unwrap();
                assert!(schedule.rates(Some(experiment.capacity)).is_ok(), "{load}");
            }
            let is_known = |load| experiment.loads.contains(load);
            assert!(experiment.quick.iter().all(is_known), "{}", experiment.name);
        }
    }

    #[test]
    fn every_experiment_has_its_own_name() {
        for (index, one) in EXPERIMENTS.iter().enumerate() {
            assert!(EXPERIMENTS[..index].iter().all(|other| other.name != one.name));
        }
    }
}
