//! What the FirstResponder of this node is told (SurgeGuard §IV-A).

use std::time::Duration;

use seawall_control::config::duration;
use serde::{Deserialize, Serialize};

use crate::agent::config::{ConfigError, refuse, within};
use crate::responder;

/// Who sees late requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The kernel, where it takes the program; otherwise services, which ring the doorbell.
    #[default]
    Auto,
    /// The kernel; where it does not take the program, the agent does not begin.
    Kernel,
    /// Services: for those behind TLS, which the kernel cannot read.
    Doorbell,
    /// Nobody.
    Off,
}

/// Raises services by the packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Responder {
    /// Who sees late requests.
    pub way: Way,
    /// How long a boost lasts; about as long as the policy needs to see a surge. From 1ms to 10s.
    #[serde(with = "duration")]
    pub boost: Duration,
    /// For how long a path is frozen after a decision. By default twice the end-to-end latency, as
    /// far as expected times are known, and 20ms until then. From 100us to 10s.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// Windows of single paths.
    pub paths: Vec<PathWindow>,
    /// A boosted quota, as a multiple of what the container has, and of its limit. From 1 to 10.
    pub quota_factor: f64,
    /// A boosted quota has so many units more instead. From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_units: Option<u32>,
    /// Units that boosts together may give beyond those of the node; half of these by default. CPU
    /// that nobody uses may well be used for a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_units: Option<u32>,
    /// The boosted speed of services that model their cores, in thousandths of the base. From 1000
    /// to 100000.
    pub speed_permille: u32,
    /// The boosted step of the frequency ladder; its top by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u16>,
    /// Requests whose job began longer ago are not judged. From 1ms to 1h.
    #[serde(with = "duration")]
    pub age_max: Duration,
    /// When all requests of a service were late for so long, they are not believed until one is in
    /// time. From 1ms to 1h.
    #[serde(with = "duration")]
    pub late_max: Duration,
}

/// For how long one path is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathWindow {
    /// Its number, as in requests.
    pub path: u16,
    /// Twice its end-to-end latency. From 100us to 10s.
    #[serde(with = "duration")]
    pub window: Duration,
}

impl Default for Responder {
    fn default() -> Self {
        let responder::Config { boost, age_max, late_max, .. } = responder::Config::default();
        Self {
            way: Way::default(),
            boost,
            window: None,
            paths: Vec::new(),
            quota_factor: 2.0,
            quota_units: None,
            over_units: None,
            speed_permille: 2_000,
            level: None,
            age_max,
            late_max,
        }
    }
}

impl Responder {
    /// As the program in the kernel and the doorbell are told.
    pub(super) fn responder(&self) -> responder::Config {
        let default = responder::Config::default();
        responder::Config {
            window: self.window.unwrap_or(default.window),
            boost: self.boost,
            age_max: self.age_max,
            late_max: self.late_max,
            ..default
        }
    }

    /// Checks each field by itself.
    ///
    /// # Errors
    ///
    /// Names the field that is out of its range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(10));
        within("responder.boost", self.boost, least, most)?;
        let shortest = Duration::from_micros(100);
        if let Some(window) = self.window {
            within("responder.window", window, shortest, most)?;
        }
        for (place, path) in self.paths.iter().enumerate() {
            within(&format!("responder.paths[{place}].window"), path.window, shortest, most)?;
        }
        if !(1.0..=10.0).contains(&self.quota_factor) {
            return refuse("responder.quota_factor", &self.quota_factor, "allowed: 1 to 10");
        }
        if self.quota_units == Some(0) {
            return refuse("responder.quota_units", &0, "at least 1, or leave it out");
        }
        if !(1_000..=100_000).contains(&self.speed_permille) {
            let allowed = "allowed: 1000 to 100000";
            return refuse("responder.speed_permille", &self.speed_permille, allowed);
        }
        let hour = Duration::from_secs(3_600);
        within("responder.age_max", self.age_max, least, hour)?;
        within("responder.late_max", self.late_max, least, hour)
    }
}
