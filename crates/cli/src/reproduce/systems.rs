//! The systems whose evaluations can be repeated, and their plans, which are part of the command.

use std::fmt;

use serde::Serialize;

/// One system.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// Name and text of each plan.
    pub(super) plans: &'static [(&'static str, &'static str)],
    /// Those that look for the baselines' parameters.
    pub(super) tuning: &'static [(&'static str, &'static str)],
    /// What the plans include.
    files: &'static [(&'static str, &'static str)],
    /// Claims that no simulator can judge.
    pub(super) elsewhere: &'static [Elsewhere],
}

/// A claim about a machine rather than an algorithm.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Elsewhere {
    claim: &'static str,
    /// What is claimed.
    text: &'static str,
    /// What measures it.
    how: &'static str,
}

/// Such a claim as a record beside those that were judged.
#[derive(Debug, Serialize)]
pub(super) struct NotSimulated {
    system: &'static str,
    #[serde(flatten)]
    claim: &'static Elsewhere,
    verdict: &'static str,
}

macro_rules! texts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../../experiments/", $folder, "/", $name, ".toml")),
        )),+]
    };
}

const SYSTEMS: [System; 5] = [BREAKWATER, PROTEGO, SVALINN, LIBROS, SURGEGUARD];

const BREAKWATER: System = System {
    name: "breakwater",
    plans: texts!("breakwater":
        "figure-01a", "figure-01b", "figure-03", "figure-04", "figure-05", "figure-06", "figure-07",
        "figure-08", "figure-09", "figure-10", "figure-11", "figure-12", "released", "shape-cpu",
        "shape-mixed",
    ),
    tuning: texts!("breakwater":
        "tune-codel", "tune-codel-threshold", "tune-window", "tune-dagor", "tune-dagor-memcached",
        "tune-seda-1us", "tune-seda-10us", "tune-seda-100us", "tune-seda-clients",
        "tune-seda-memcached",
    ),
    files: texts!("breakwater": "testbed", "memcached", "tuned"),
    elsewhere: &[],
};

const PROTEGO: System = System {
    name: "protego",
    plans: texts!("protego":
        "figure-02", "figure-03", "figure-05", "figure-06", "figure-07", "figure-08", "figure-09",
        "figure-10", "figure-11", "figure-12", "figure-13", "mixed", "paths", "released",
    ),
    tuning: texts!("protego":
        "tune-seda-1us", "tune-seda-10us", "tune-seda-100us", "tune-seda-search", "tune-seda-usr",
        "tune-seda-var",
    ),
    files: texts!("protego": "testbed", "memcached", "search", "usr", "tuned"),
    elsewhere: &[],
};

const SVALINN: System = System {
    name: "svalinn",
    plans: texts!("svalinn":
        "figure-01", "figure-02", "figure-04", "figure-05", "figure-07", "figure-08", "figure-09",
        "figure-10", "figure-11", "figure-12", "figure-13", "figure-14", "figure-16", "figure-17",
        "figure-18", "figure-19",
    ),
    tuning: texts!("svalinn":
        "tune-seda-synthetic", "tune-seda-rocks", "tune-seda-columns", "tune-seda-locks",
        "tune-seda-rocks-b", "tune-seda-go", "tune-seda-memcached",
    ),
    files: texts!("svalinn":
        "machine-a", "machine-b", "rocks", "rocks-b", "columns", "locks", "go", "memcached",
        "bandit", "tuned",
    ),
    elsewhere: &[],
};

const LIBROS: System = System {
    name: "libros",
    plans: texts!("libros": "figure-03", "figure-04", "figure-05a", "figure-05b"),
    tuning: &[],
    files: texts!("libros": "cluster"),
    elsewhere: &[
        Elsewhere {
            claim: "L1",
            text: "tails of a store under real noise, and what is left of them",
            how: "live, as root and with stress-ng: `seawall compare \
                  experiments/live/replicas.toml`, `replicas-each.toml` beside it, of a lock \
                  `replicas-lock.toml`, of a Java runtime's pauses `java.toml` and `java-g1.toml`, \
                  and of all of it at once `java-all.toml`",
        },
        Elsewhere {
            claim: "L8",
            text: "how precise the predicted wait for a CPU is, by what the predictor knows",
            how: "live, as root: `seawall node precision`, of a build with `--features node`",
        },
        Elsewhere {
            claim: "L9",
            text: "how precise predicted pauses of a Java runtime are",
            how: "live, with Java: `scripts/java-pauses precision`; the agent writes down what it \
                  predicted, and `seawall pauses FILE` compares",
        },
        Elsewhere {
            claim: "L10",
            text: "a hold is predicted from the items to rebalance: 25 ms of 32, 130 ms of 256",
            how: "live: `seawall compare experiments/live/holds.toml`",
        },
        Elsewhere {
            claim: "L11",
            text: "less than 1 % of CPU time for all of it",
            how: "live: `cargo run --release -p seawall-bench-rpc --bin seawall-bench-guardian \
                  -- --cost-at 1000,5000 --guardians off,patrol` has the CPU time of a server \
                  without and with a guardian; `seawall node precision` that of the programs in \
                  the kernel, with `sysctl kernel.bpf_stats_enabled=1`",
        },
        Elsewhere {
            claim: "L12",
            text: "CPU noise makes pauses of a Java runtime longer",
            how: "live, with Java and stress-ng: `scripts/java-pauses noise`",
        },
    ],
};

const SURGEGUARD: System = System {
    name: "surgeguard",
    plans: texts!("surgeguard":
        "figure-04", "figure-05", "figure-10a", "figure-10b", "figure-11", "figure-12", "figure-13",
        "figure-14", "figure-15", "choices",
    ),
    tuning: &[],
    files: texts!("surgeguard": "testbed"),
    elsewhere: &[
        Elsewhere {
            claim: "G2",
            text: "with real processes, connections and small pools, too",
            how: "live: `seawall graph run experiments/live/graph-chain.toml`, and \
                  `graph-chain-unbounded.toml` beside it, without pools",
        },
        Elsewhere {
            claim: "G9",
            text: "with real processes and stores, too",
            how: "live: `seawall graph run experiments/live/graph-read-user-timeline.toml`",
        },
        Elsewhere {
            claim: "G10",
            text: "with real processes and stores, too",
            how: "live: `seawall graph run experiments/live/graph-read-user-timeline.toml`: \
                  it has the parts of Escalator as contenders",
        },
        Elsewhere {
            claim: "G11",
            text: "0.26 µs for each packet, and less than 3 % of a CPU for the controller",
            how: "live, as root, of a build with `--features node`: `seawall node responder` has \
                  the time of a packet, `seawall node overhead` that of the agent",
        },
        Elsewhere {
            claim: "G14",
            text: "the load-latency curve at steady state is the same with and without the agent",
            how: "live: `seawall graph run experiments/live/graph-steady.toml`, with a `--set \
                  load.rate=360` for each point of the curve",
        },
    ],
};

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}.", self.claim, self.text, self.how)
    }
}

/// The commands that measure what no simulator can judge.
#[cfg(test)]
pub(crate) fn commands_elsewhere() -> impl Iterator<Item = &'static str> {
    let all = SYSTEMS.iter().flat_map(|system| system.elsewhere);
    let quoted = all.flat_map(|elsewhere| elsewhere.how.split('`').skip(1).step_by(2));
    quoted.filter(|quoted| quoted.starts_with("seawall "))
}

/// The systems' names.
pub(super) fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|system| system.name).collect()
}

/// The system of this name, or all.
pub(super) fn chosen(name: Option<&str>) -> impl Iterator<Item = &'static System> {
    SYSTEMS.iter().filter(move |system| name.is_none_or(|name| name == system.name))
}

impl System {
    /// Its claims that no simulator can judge, as records.
    pub(super) fn not_simulated(&self) -> impl Iterator<Item = NotSimulated> {
        let system = self.name;
        let record = move |claim| NotSimulated { system, claim, verdict: "not simulated" };
        self.elsewhere.iter().map(record)
    }

    /// The text of a file that a plan includes.
    pub(super) fn file(&self, name: &str) -> Result<String, String> {
        let file = self.files.iter().find(|(known, _)| name.strip_suffix(".toml") == Some(known));
        file.map(|(_, text)| (*text).to_owned()).ok_or(format!("{name} is not part of the command"))
    }
}
