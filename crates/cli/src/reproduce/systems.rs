//! The systems whose evaluations can be repeated, and their plans, which are part of the command.

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
}

macro_rules! texts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../../experiments/", $folder, "/", $name, ".toml")),
        )),+]
    };
}

const SYSTEMS: [System; 3] = [BREAKWATER, PROTEGO, SVALINN];

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
};

/// The systems' names.
pub(super) fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|system| system.name).collect()
}

/// The system of this name, or all.
pub(super) fn chosen(name: Option<&str>) -> impl Iterator<Item = &'static System> {
    SYSTEMS.iter().filter(move |system| name.is_none_or(|name| name == system.name))
}

impl System {
    /// The text of a file that a plan includes.
    pub(super) fn file(&self, name: &str) -> Result<String, String> {
        let file = self.files.iter().find(|(known, _)| name.strip_suffix(".toml") == Some(known));
        file.map(|(_, text)| (*text).to_owned()).ok_or(format!("{name} is not part of the command"))
    }
}
