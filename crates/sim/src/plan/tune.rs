//! Plans that look for the parameters with the highest goodput.
//!
//! Such a plan sweeps parameters of one variant, over workloads that are tuned each for itself, and
//! over loads that one setting has to serve alike:
//!
//! ```toml
//! [tune]
//! variant = "dagor"
//! each = "service"                            # tuned at each of its points
//! base = "exp:10us"                           # which of them is for all else
//!
//! [[sweep]]
//! key = "admission.dagor.overload_delay"      # sweeps of `admission` are the candidates
//! values = ["20us", "40us", "80us"]
//! ```

use serde::{Deserialize, Serialize};
use toml::Table;

use super::{Plan, PlanError, Sweep, table};
use crate::outcome::Run;

/// Sweeps of these keys are what is looked for.
const CANDIDATES: &str = "admission.";

/// Whose parameters a plan looks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// The variant's name.
    pub variant: String,
    /// The sweep at whose points the variant is tuned, at each anew. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// The label at which it is tuned for all that is not tuned by itself. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// The best parameters of a variant, at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// Whose they are.
    pub variant: String,
    /// Label of the point; none if it is the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The part of a scenario that they are.
    pub scenario: Table,
    /// Mean over loads and seeds, in requests per second.
    pub goodput: f64,
    /// The same of the worst candidate.
    pub worst: f64,
    /// How many candidates there were.
    pub candidates: usize,
}

impl Plan {
    /// What its runs say is best: the candidate whose goodput has the highest mean over all that
    /// one setting has to serve. Empty when it is no plan for tuning.
    ///
    /// # Errors
    ///
    /// When a sweep makes no sense.
    pub fn best(&self, runs: &[Run]) -> Result<Vec<Best>, PlanError> {
        let Some(tune) = &self.tune else { return Ok(Vec::new()) };
        let each = self.sweeps.iter().find(|sweep| tune.each == Some(sweep.name()));
        let labels = match each {
            Some(sweep) => sweep.settings()?.into_iter().map(|(label, _)| Some(label)).collect(),
            None => vec![None],
        };
        let candidates = self.candidates()?;
        let best = |label: Option<String>| {
            let at = tune.each.iter().zip(&label);
            let goodput = |candidate: &Candidate| {
                let labels = candidate.labels.iter().map(|(name, label)| (name, label));
                mean_goodput(runs, &labels.chain(at.clone()).collect::<Vec<_>>())
            };
            let goodputs: Vec<f64> = candidates.iter().map(goodput).collect();
            let ranked = || candidates.iter().zip(&goodputs);
            // The first of equals: `max_by` would take the last.
            let (first, &goodput) = ranked().rev().max_by(|a, b| a.1.total_cmp(b.1))?;
            Some(Best {
                variant: tune.variant.clone(),
                label: label.clone().filter(|label| tune.base.as_ref() != Some(label)),
                scenario: first.scenario.clone(),
                goodput,
                worst: goodputs.iter().copied().fold(f64::INFINITY, f64::min),
                candidates: candidates.len(),
            })
        };
        Ok(labels.into_iter().filter_map(best).collect())
    }

    /// All settings of the sweeps that are looked for.
    fn candidates(&self) -> Result<Vec<Candidate>, PlanError> {
        let mut candidates = vec![Candidate::default()];
        for sweep in self.sweeps.iter().filter(|sweep| sweep.has_candidates()) {
            let mut next = Vec::new();
            for candidate in &candidates {
                for (label, over) in sweep.settings()? {
                    let mut candidate = candidate.clone();
                    candidate.labels.push((sweep.name(), label));
                    table::lay(&mut candidate.scenario, &over);
                    next.push(candidate);
                }
            }
            candidates = next;
        }
        Ok(candidates)
    }
}

/// One setting.
#[derive(Clone, Debug, Default)]
struct Candidate {
    labels: Vec<(String, String)>,
    scenario: Table,
}

impl Sweep {
    fn has_candidates(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.starts_with(CANDIDATES))
    }
}

impl Tune {
    pub(super) fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        if plan.variants.len() != 1 || plan.variants[0].name != self.variant {
            let problem = format!("the plan should have one variant, {}", self.variant);
            return Err(PlanError::field("tune.variant", problem));
        }
        if let Some(each) = self.each.as_ref().filter(|each| !plan.params().contains(each)) {
            return Err(PlanError::field("tune.each", format!("{each} is no sweep")));
        }
        if let Some(base) = &self.base {
            let each = plan.sweeps.iter().find(|sweep| self.each == Some(sweep.name()));
            let labels = each.map(Sweep::settings).transpose()?.unwrap_or_default();
            if !labels.iter().any(|(label, _)| label == base) {
                let problem = format!("{base} is no label of the sweep that `each` names");
                return Err(PlanError::field("tune.base", problem));
            }
        }
        if !plan.sweeps.iter().any(Sweep::has_candidates) {
            let problem = format!("the plan sweeps no key that begins with {CANDIDATES}");
            return Err(PlanError::field("tune", problem));
        }
        Ok(())
    }
}

/// Mean goodput of the runs that have these labels.
fn mean_goodput(runs: &[Run], labels: &[(&String, &String)]) -> f64 {
    let has =
        |run: &&Run| labels.iter().all(|(name, label)| run.params.0.get(*name) == Some(label));
    let goodputs: Vec<f64> = runs.iter().filter(has).map(|run| run.figures.goodput).collect();
    goodputs.iter().sum::<f64>() / goodputs.len().max(1) as f64
}
