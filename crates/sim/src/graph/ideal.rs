//! The ideal controller of SurgeGuard's Fig. 4: it knows each surge, but late.
//!
//! "An ideal controller that, on detecting a surge, allocates the exact amount of cores needed to
//! overcome it" (§III-A). The exact amount is what keeps each container as busy as it was before
//! the surge, and what does the backlog in a given time beside.
//!
//! Deviation: the paper does not say how fast its controller works the backlog off; the plan does.

use std::time::Duration;

use seawall_control::Instant;
use seawall_measure::Process;

use super::{Event, World};

impl World<'_> {
    /// Surges are announced to the meters, and to the ideal controller.
    pub(super) fn schedule_surges(&mut self) {
        let Process::Bursts(bursts) = self.scenario.workload.arrivals else { return };
        let (mut at, end) = (Instant::ORIGIN, self.window.end);
        while at < end {
            at = at + bursts.period();
            let begin = at - bursts.length();
            self.events.push(begin.min(end), Event::Surge { on: true });
            self.events.push(at.min(end), Event::Surge { on: false });
            let Some(ideal) = self.config.ideal else { continue };
            let seen = begin + ideal.delay;
            self.events.push(seen, Event::Ideal { surge: true });
            // The backlog is done by then, if it is done as planned.
            if ideal.drain < bursts.length() {
                self.events.push(seen + ideal.drain, Event::Ideal { surge: true });
            }
            self.events.push(at + ideal.delay, Event::Ideal { surge: false });
        }
    }

    /// A surge is seen, or its end.
    pub(super) fn ideal(&mut self, surge: bool) {
        let Some(ideal) = self.config.ideal else { return };
        let Process::Bursts(bursts) = self.scenario.workload.arrivals else { return };
        let factor = if surge { bursts.factor() } else { 1.0 };
        // Jobs that are there beyond those that would be if there had been no surge.
        let usual = self.usual_jobs() * factor;
        let backlog = (self.requests.jobs.len() as f64 - usual).max(0.0);
        let drained = backlog / ideal.drain.as_secs_f64();
        let Ok(graph) = self.config.graph() else { return };
        let needed = graph.services.iter().zip(&self.machine.containers).map(|(service, has)| {
            let work = graph.mean_work(&service.name).as_secs_f64() * 2.0 / self.config.smt_gain;
            (f64::from(has.floor) * factor + drained * work).ceil() as u32
        });
        let needed: Vec<u32> = needed.collect();
        for (at, &units) in (0..).zip(&needed) {
            let has = self.machine.containers[usize::from(at)].cpu.units();
            self.machine.set_units(at, self.now, units.min(has));
        }
        // Not more than the node has.
        for (at, &units) in (0..).zip(&needed) {
            let container = &self.machine.containers[usize::from(at)];
            let (node, has) = (container.node, container.cpu.units());
            let free = self.config.node_units - self.machine.units_of(node);
            self.machine.set_units(at, self.now, units.min(has + free));
        }
        self.meters.units_changed(self.now, &self.machine);
        (0..self.nodes.len() as u16).for_each(|node| self.check_units(node));
    }

    /// Jobs that are there at the base load, by Little's law: a little more than the profile says,
    /// since that is of a low load.
    fn usual_jobs(&self) -> f64 {
        self.scenario.rates().map_or(0.0, |rates| rates.at(Duration::ZERO))
            * self.meters.latency_at_low_load().as_secs_f64()
    }
}
