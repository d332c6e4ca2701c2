//! How many jobs per second units suffice for, and where units do most.

use std::time::Duration;

use super::Graph;

/// The most jobs that a graph's CPUs can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Jobs per second at which the bottleneck never rests; infinite where nobody works.
    pub jobs_per_second: f64,
    /// The service that is busy first.
    pub bottleneck: String,
}

impl Graph {
    /// The capacity with the units that services have at first.
    pub fn capacity(&self) -> Capacity {
        let units: Vec<u32> = self.services.iter().map(|service| service.units).collect();
        self.capacity_with(&units)
    }

    /// The capacity with these units, in the table's order. A unit does one second of work in a
    /// second; connections are not counted.
    pub fn capacity_with(&self, units: &[u32]) -> Capacity {
        let each = self.work().into_iter().zip(units).map(|(work, units)| rate(work, *units));
        let (index, jobs_per_second) = each
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("a graph has at least one service");
        Capacity { jobs_per_second, bottleneck: self.services[index].name.clone() }
    }

    /// How to share out `total` units for the highest throughput, in the table's order: what
    /// SurgeGuard does with its 34 logical cores (§V, and appendix). Each service has at least one,
    /// and each further one goes to the bottleneck, the first of several; so there are never fewer
    /// than services.
    pub fn best_units(&self, total: u32) -> Vec<u32> {
        let work = self.work();
        let mut units = vec![1; work.len()];
        for _ in work.len() as u32..total {
            let rates = work.iter().zip(&units).map(|(work, units)| rate(*work, *units));
            let least = rates.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            let (bottleneck, _) = least.expect("a graph has at least one service");
            units[bottleneck] += 1;
        }
        units
    }

    /// CPU time that one job takes of each service, in the table's order.
    fn work(&self) -> Vec<Duration> {
        self.services.iter().map(|service| self.mean_work(&service.name)).collect()
    }
}

/// Jobs per second. Of whole numbers, so that equal rates are equal.
fn rate(work: Duration, units: u32) -> f64 {
    f64::from(units) * 1e9 / work.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        Graph::read(
            "name = 'three'
            [[service]]
            name = 'light'
            units = 1
            steps = [{ work = 'const:1ms' }, { call = 'heavy' }, { call = 'idle' }]
            [[service]]
            name = 'heavy'
            units = 2
            steps = [{ work = 'const:4ms' }]
            [[service]]
            name = 'idle'
            units = 1",
        )
        .unwrap()
    }

    #[test]
    fn the_bottleneck_sets_the_capacity() {
        let capacity = graph().capacity();
        assert_eq!(capacity, Capacity { jobs_per_second: 500.0, bottleneck: "heavy".into() });
        let capacity = graph().capacity_with(&[1, 5, 1]);
        assert_eq!(capacity, Capacity { jobs_per_second: 1_000.0, bottleneck: "light".into() });
    }

    #[test]
    fn units_go_where_they_raise_the_throughput() {
        assert_eq!(graph().best_units(0), [1, 1, 1], "nobody is without any");
        assert_eq!(graph().best_units(5), [1, 3, 1]);
        assert_eq!(graph().best_units(7), [2, 4, 1], "of equals the first");
        let least = |units: &[u32]| graph().capacity_with(units).jobs_per_second;
        // No other way to share out eight units is better.
        let best = least(&graph().best_units(8));
        for light in 1..=6 {
            assert!(least(&[light, 7 - light, 1]) <= best);
        }
    }
}
