//! Who is behind whom, and how often a job comes by.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Graph, Service, Step};
use crate::duration::scaled;
use crate::service::{ServiceTime, Shape};
use crate::spec::SpecError;

impl Graph {
    /// All services that requests to this one go on to, directly or not, in the table's order:
    /// those that a late packet's boost is for (SurgeGuard §IV-A). Empty for an unknown name.
    pub fn downstream(&self, name: &str) -> Vec<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.service(name).map(Service::callees).unwrap_or_default();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.service(next).map(Service::callees).unwrap_or_default());
            }
        }
        let names = self.services.iter().map(|service| &*service.name);
        names.filter(|name| reached.contains(name)).collect()
    }

    /// Services that a request passes before this one, on the longest way; 0 for the first, and
    /// for an unknown name.
    pub fn depth(&self, name: &str) -> usize {
        let index = self.services.iter().position(|service| service.name == name);
        index.map_or(0, |index| self.depths()[index])
    }

    /// The depth of each service, in the table's order.
    pub(super) fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.services.len()];
        // Each round settles what is one call further; there are no circles.
        for _ in 1..self.services.len() {
            for (caller, service) in self.services.iter().enumerate() {
                for callee in service.callees() {
                    let callee = self.services.iter().position(|other| other.name == callee);
                    if let Some(callee) = callee {
                        depths[callee] = depths[callee].max(depths[caller] + 1);
                    }
                }
            }
        }
        depths
    }

    /// Services in a row behind a pool, on the longest way: so far has a hint to go to reach the
    /// end. 0 where there are no pools.
    pub fn hops_behind_pools(&self) -> usize {
        let behind = |callee: &String| 1 + self.height(callee);
        self.services.iter().flat_map(|service| service.pools.keys()).map(behind).max().unwrap_or(0)
    }

    /// Services that a request passes after this one, on the longest way.
    fn height(&self, name: &str) -> usize {
        let callees = self.service(name).map(Service::callees).unwrap_or_default();
        callees.into_iter().map(|callee| 1 + self.height(callee)).max().unwrap_or(0)
    }

    /// Mean time that a request to this service takes at the base frequency while nobody waits for
    /// anything, those that it calls among it. Of branches the one with the longest mean counts,
    /// so that it may be a little less. Nothing for an unknown name.
    pub fn mean_latency(&self, name: &str) -> Duration {
        self.service(name).map_or(Duration::ZERO, |service| self.latency_of(&service.steps))
    }

    fn latency_of(&self, steps: &[Step]) -> Duration {
        let one = |step: &Step| {
            let work = step.work.map_or(Duration::ZERO, |work| work.mean());
            let call = step.call.as_ref().map(|callee| self.mean_latency(callee));
            let longest = step.parallel.iter().map(|branch| self.latency_of(branch)).max();
            scaled(
                work + call.unwrap_or_default() + longest.unwrap_or_default(),
                step.chance.unwrap_or(1.0),
            )
        };
        steps.iter().map(one).sum()
    }

    /// Requests that each service gets for one job, on average, in the table's order. Chances
    /// count; one visit to the first service is one job.
    pub fn visits(&self) -> Vec<f64> {
        let depths = self.depths();
        let mut order: Vec<usize> = (0..self.services.len()).collect();
        order.sort_by_key(|&index| depths[index]);
        let mut visits = vec![0.0; self.services.len()];
        visits[0] = 1.0;
        // Callers stand before callees, so that a service's own visits are known when it calls.
        for from in order {
            let own = visits[from];
            each(&self.services[from].steps, 1.0, &mut |step, chance| {
                let to =
                    |callee: &String| self.services.iter().position(|other| other.name == *callee);
                if let Some(to) = step.call.as_ref().and_then(to) {
                    visits[to] += own * chance;
                }
            });
        }
        visits
    }

    /// Mean CPU time that one job takes of a service, at the base frequency; nothing of an unknown
    /// one.
    pub fn mean_work(&self, name: &str) -> Duration {
        let index = self.services.iter().position(|service| service.name == name);
        index.map_or(Duration::ZERO, |index| {
            scaled(self.services[index].mean_work(), self.visits()[index])
        })
    }

    /// The same graph with all work so many times as long: a table in microseconds, run where
    /// timers are in milliseconds.
    #[must_use]
    pub fn stretched(mut self, time_scale: f64) -> Self {
        self.remake(&|work| ServiceTime::new(work.shape(), scaled(work.mean(), time_scale)));
        self
    }

    /// The same graph with work of another shape and the same means. Constant work stays so.
    ///
    /// # Errors
    ///
    /// When a parameter of the shape is out of range.
    pub fn shaped(mut self, shape: Shape) -> Result<Self, SpecError> {
        ServiceTime::new(shape, Duration::ZERO)?;
        self.remake(&|work| match work.shape() {
            Shape::Constant => Ok(work),
            _ => ServiceTime::new(shape, work.mean()),
        });
        Ok(self)
    }

    fn remake(&mut self, change: &impl Fn(ServiceTime) -> Result<ServiceTime, SpecError>) {
        self.services.iter_mut().for_each(|service| remake(&mut service.steps, change));
    }
}

impl Service {
    /// Services that it calls itself, in order of their first calls.
    pub fn callees(&self) -> Vec<&str> {
        let mut callees: Vec<&str> = Vec::new();
        each(&self.steps, 1.0, &mut |step, _| {
            if let Some(callee) = step.call.as_deref().filter(|callee| !callees.contains(callee)) {
                callees.push(callee);
            }
        });
        callees
    }

    /// Mean CPU time of one request, at the base frequency, what others do for it left out.
    pub fn mean_work(&self) -> Duration {
        let mut sum = Duration::ZERO;
        each(&self.steps, 1.0, &mut |step, chance| {
            sum += step.work.map_or(Duration::ZERO, |work| scaled(work.mean(), chance));
        });
        sum
    }
}

/// Tells of each step, also in branches, and of its probability.
fn each<'a>(steps: &'a [Step], chance: f64, tell: &mut impl FnMut(&'a Step, f64)) {
    for step in steps {
        let chance = chance * step.chance.unwrap_or(1.0);
        tell(step, chance);
        for branch in &step.parallel {
            each(branch, chance, tell);
        }
    }
}

fn remake(steps: &mut [Step], change: &impl Fn(ServiceTime) -> Result<ServiceTime, SpecError>) {
    for step in steps {
        if let Some(work) = &mut step.work {
            *work = change(*work).expect("the shape has been checked");
        }
        step.parallel.iter_mut().for_each(|branch| remake(branch, change));
    }
}

#[cfg(test)]
mod tests {
    use super::super::NAMES;
    use super::*;

    /// The front works 2 ms, asks the side at half of the jobs, and, beside its other work, the
    /// back; the side asks the back twice.
    const DIAMOND: &str = "
        name = 'diamond'
        [[service]]
        name = 'front'
        units = 4
        steps = [
            { work = 'const:2ms' },
            { chance = 0.5, parallel = [
                [{ call = 'side' }],
                [{ work = 'const:4ms', chance = 0.25 }, { call = 'back' }],
            ] },
        ]
        [[service]]
        name = 'back'
        units = 1
        steps = [{ work = 'exp:1ms' }]
        [[service]]
        name = 'side'
        units = 2
        steps = [{ work = 'const:3ms' }, { call = 'back' }, { call = 'back', chance = 0.5 }]
        pools = { back = 3 }";

    #[test]
    fn visits_and_work_count_chances_and_branches() {
        let graph = Graph::read(DIAMOND).unwrap();
        assert_eq!(graph.services[0].callees(), ["side", "back"]);
        assert_eq!(graph.visits(), [1.0, 0.5 + 0.5 * 1.5, 0.5]);
        assert_eq!(graph.mean_work("front"), Duration::from_micros(2_500));
        assert_eq!(graph.mean_work("back"), Duration::from_micros(1_250));
        assert_eq!(graph.mean_work("side"), Duration::from_micros(1_500));
        assert_eq!(graph.mean_work("nobody"), Duration::ZERO);
    }

    #[test]
    fn downstream_and_depth_follow_the_calls() {
        let graph = Graph::read(DIAMOND).unwrap();
        assert_eq!(graph.downstream("front"), ["back", "side"]);
        assert_eq!(graph.downstream("side"), ["back"]);
        assert!(graph.downstream("back").is_empty());
        assert!(graph.downstream("nobody").is_empty());
        let depths = ["front", "side", "back"].map(|name| graph.depth(name));
        assert_eq!(depths, [0, 1, 2], "the longest way counts");
    }

    #[test]
    fn what_is_behind_a_pool_takes_hops_and_time() {
        let graph = Graph::read(DIAMOND).unwrap();
        assert_eq!(graph.hops_behind_pools(), 1);
        assert_eq!(graph.mean_latency("back"), Duration::from_millis(1));
        assert_eq!(graph.mean_latency("side"), Duration::from_micros(4_500));
        // 2 ms, and at half of the jobs the side, which takes longer than what goes on beside it.
        assert_eq!(graph.mean_latency("front"), Duration::from_micros(4_250));
        assert_eq!(graph.mean_latency("nobody"), Duration::ZERO);
        let hops = NAMES.map(|name| Graph::named(name).unwrap().hops_behind_pools());
        // chain, read-user-timeline, compose-post, and the hotels, which have no pools.
        assert_eq!(hops, [4, 2, 3, 0, 0]);
    }

    #[test]
    fn a_stretched_graph_differs_in_its_times_alone() {
        let graph = Graph::read(DIAMOND).unwrap();
        let stretched = graph.clone().stretched(2.5);
        assert_eq!(stretched.mean_work("front"), Duration::from_micros(6_250));
        assert_eq!(stretched.visits(), graph.visits());
        assert_eq!(stretched.services[1].steps[0].work.unwrap().to_string(), "exp:2.5ms");
    }
}
