//! What the demo measures, in which order, and for how long.

use std::time::Duration;

use super::result::NO_CONTROL;
use super::service::Service;
use crate::cores::Cores;

/// Requests that a point is to serve: their number, by chance alone, varies by 6 % (95 % of the
/// time).
const ENOUGH: f64 = 1_000.0;

/// How long a point is measured at least and at most, in terms of [`Plan::second`].
const SHORTEST: f64 = 2.0;
const LONGEST: f64 = 4.0;

/// How long the controller has to settle before a point.
const WARM_UP: f64 = 0.5;

/// How long a capacity is measured.
const CAPACITY: f64 = 1.5;

/// How long a spike is watched before the load rises, and after it.
const BEFORE_SPIKE: f64 = 1.0;
const AFTER_SPIKE: f64 = 3.0;

/// The loads of a service with classes, of all that are asked for: what matters of it is told by
/// fewer.
const WITH_CLASSES: [f64; 3] = [0.9, 2.0, 3.0];

/// What to measure.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) services: Vec<Service>,
    pub(super) algorithm: String,
    pub(super) sessions: u32,
    pub(super) loads: Vec<f64>,
    /// All times are multiples of this.
    pub(super) second: Duration,
    pub(super) cores: Cores,
    /// What this program is called with before the options of the demo.
    pub(super) command: &'static [&'static str],
}

impl Plan {
    /// No control, then the algorithm.
    pub(super) fn controls(&self) -> [&str; 2] {
        [NO_CONTROL, &self.algorithm]
    }

    /// The loads of a service, lowest first.
    pub(super) fn loads(&self, service: Service) -> Vec<f64> {
        let few =
            service.classes().len() > 1 && WITH_CLASSES.iter().all(|l| self.loads.contains(l));
        let mut loads = if few { WITH_CLASSES.to_vec() } else { self.loads.clone() };
        loads.sort_by(f64::total_cmp);
        loads
    }

    /// Whether the load of this service also rises at once: only that of one kind of requests.
    pub(super) fn has_spike(service: Service) -> bool {
        service.classes().len() == 1
    }

    /// How many steps all services take.
    pub(super) fn steps(&self) -> u64 {
        let of = |&service: &Service| {
            1 + 2 * (self.loads(service).len() as u64 + u64::from(Self::has_spike(service)))
        };
        self.services.iter().map(of).sum()
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.second.mul_f64(WARM_UP)
    }

    pub(super) fn capacity(&self) -> Duration {
        self.second.mul_f64(CAPACITY)
    }

    /// How long to measure a point at which so many requests come in a second, of which at most
    /// `capacity` can be served.
    pub(super) fn point(&self, rate: f64, capacity: f64) -> Duration {
        let seconds = (ENOUGH / rate.min(capacity)).clamp(SHORTEST, LONGEST);
        self.second.mul_f64(seconds)
    }

    /// How long the load is low before it rises, and how long it is high.
    pub(super) fn spike(&self) -> (Duration, Duration) {
        (self.second.mul_f64(BEFORE_SPIKE), self.second.mul_f64(AFTER_SPIKE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Apart;

    fn plan() -> Plan {
        Plan {
            services: vec![Service::Worker, Service::Lock],
            algorithm: "breakwater".into(),
            sessions: 1,
            loads: vec![0.5, 0.9, 1.2, 2.0, 3.0],
            second: Duration::from_secs(1),
            cores: Cores { server: 0, load: 1, apart: Apart::Cores },
            command: &[],
        }
    }

    #[test]
    fn points_last_until_enough_is_served() {
        let plan = plan();
        let seconds = |rate| plan.point(rate, 500.0).as_secs_f64();
        assert_eq!([100.0, 400.0, 5_000.0].map(seconds), [4.0, 2.5, 2.0]);
    }

    #[test]
    fn a_service_with_classes_takes_fewer_loads() {
        let mut plan = plan();
        assert_eq!(plan.loads(Service::Worker).len(), 5);
        assert_eq!(plan.loads(Service::Lock), WITH_CLASSES);
        // 1 + 5 loads + spike, and 1 + 3 loads; all but the first without control and with it.
        assert_eq!(plan.steps(), 1 + 2 * 6 + 1 + 2 * 3);
        plan.loads = vec![4.0, 1.5];
        assert_eq!(plan.loads(Service::Lock), [1.5, 4.0]);
    }
}
