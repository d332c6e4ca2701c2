//! What each service does, flattened: sequences of operations by number.

use seawall_measure::graph::Step;
use seawall_measure::{Graph, ServiceTime};

/// All that the services of a graph do.
#[derive(Debug)]
pub(super) struct Program {
    sequences: Vec<Vec<Op>>,
    /// The sequence of each service, in the graph's order.
    entries: Vec<u16>,
    /// Sizes of the pools of connections, by number.
    pub(super) pools: Vec<u32>,
}

/// One thing that is done.
#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Probability that it is done at all; 1 where nothing is said.
    pub(super) chance: f64,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// CPU time at the base frequency.
    Work(ServiceTime),
    /// A request to a service, over a connection of a pool if there is one.
    Call { service: u16, pool: Option<u16> },
    /// Sequences that go on side by side.
    Fork(Vec<u16>),
}

impl Program {
    /// What the services of a checked graph do.
    pub(super) fn new(graph: &Graph) -> Self {
        let mut program = Self { sequences: Vec::new(), entries: Vec::new(), pools: Vec::new() };
        for service in &graph.services {
            let mut edges: Vec<(&str, u16)> = Vec::new();
            for (callee, &size) in &service.pools {
                edges.push((callee, program.pools.len() as u16));
                program.pools.push(size);
            }
            let entry = program.sequence(graph, &service.steps, &edges);
            program.entries.push(entry);
        }
        program
    }

    fn sequence(&mut self, graph: &Graph, steps: &[Step], edges: &[(&str, u16)]) -> u16 {
        let ops = steps.iter().filter_map(|step| {
            let action = if let Some(work) = step.work {
                Action::Work(work)
            } else if let Some(callee) = &step.call {
                let known = |service: &seawall_measure::graph::Service| service.name == *callee;
                let service = graph.services.iter().position(known)? as u16;
                let pool = edges.iter().find(|(name, _)| name == callee).map(|(_, pool)| *pool);
                Action::Call { service, pool }
            } else {
                let branches = step.parallel.iter();
                Action::Fork(branches.map(|steps| self.sequence(graph, steps, edges)).collect())
            };
            Some(Op { chance: step.chance.unwrap_or(1.0), action })
        });
        let ops = ops.collect();
        self.sequences.push(ops);
        self.sequences.len() as u16 - 1
    }

    /// Where a service begins.
    pub(super) fn entry(&self, service: u16) -> u16 {
        self.entries[usize::from(service)]
    }

    /// The operation at this place; none behind the end.
    pub(super) fn op(&self, sequence: u16, at: u16) -> Option<&Op> {
        self.sequences[usize::from(sequence)].get(usize::from(at))
    }
}
