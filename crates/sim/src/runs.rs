//! The runs of a plan, side by side on all cores.

use rayon::prelude::*;
use seawall_control::config::ConfigError;

use crate::graph;
use crate::outcome::Run;
use crate::plan::{Case, Figure, Params, Plan, PlanError};
use crate::world::{Violation, World};

/// Why a plan's runs ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A rule was broken: a bug, in an algorithm or in the simulator.
    #[error("a bug: {violation} (in the case {case}, seed {seed})")]
    Violation {
        /// Parameters of the case.
        case: String,
        /// Its seed.
        seed: u64,
        /// The rule.
        violation: Violation,
    },
}

impl Plan {
    /// Runs all cases with all seeds; `progress` hears of each run that begins. The results are in
    /// the order of the [cases](Plan::cases), and of the seeds within each.
    ///
    /// # Errors
    ///
    /// When the plan makes no sense, or a rule was broken.
    pub fn run(&self, progress: impl Fn(&Params, u64) + Sync) -> Result<Vec<Run>, RunError> {
        let cases = self.cases()?;
        let runs: Vec<(&Case, u64)> = cases
            .iter()
            .flat_map(|case| (1..=u64::from(self.seeds)).map(move |seed| (case, seed)))
            .collect();
        // One by one, as they differ in length by far.
        let runs = runs.into_par_iter().with_max_len(1);
        let latencies = self.figures.iter().any(Figure::shows_latencies);
        runs.map(|(case, seed)| {
            progress(&case.params, seed);
            run(case, seed, latencies)
        })
        .collect()
    }

    /// How many runs there are.
    ///
    /// # Errors
    ///
    /// When the plan makes no sense.
    pub fn runs(&self) -> Result<usize, PlanError> {
        Ok(self.cases()?.len() * self.seeds as usize)
    }
}

/// Runs one case; `latencies` asks for the distribution of the latencies too.
fn run(case: &Case, seed: u64, latencies: bool) -> Result<Run, RunError> {
    let failed = |violation| RunError::Violation { case: case.params.to_string(), seed, violation };
    let refused = |error: ConfigError| PlanError::Case {
        case: case.params.to_string(),
        problem: error.to_string(),
    };
    if case.scenario.graph.is_some() {
        let world = graph::World::new(&case.scenario, seed).map_err(refused)?;
        return world.run(case.params.clone(), seed).map_err(failed);
    }
    let world = World::new(&case.scenario, seed).map_err(refused)?;
    let report = world.run().map_err(failed)?;
    let ccdf = if latencies { report.recorder.latencies().ccdf() } else { Vec::new() };
    Ok(Run { ccdf, ..Run::new(case.params.clone(), seed, &case.scenario, &report) })
}
