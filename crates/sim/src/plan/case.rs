//! The cases of a plan: each variant at each point of the sweeps.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{Plan, PlanError, Sweep, table};
use crate::scenario::Scenario;

/// What tells a case from the others: the variant's name, and a label for each sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub BTreeMap<String, String>);

/// One scenario of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Where it stands among the others.
    pub params: Params,
    /// What is run.
    pub scenario: Scenario,
}

impl Plan {
    /// All cases, the sweeps' last one varying fastest.
    ///
    /// # Errors
    ///
    /// Names the case and the field that is out of range, and what is allowed.
    pub fn cases(&self) -> Result<Vec<Case>, PlanError> {
        let mut points = vec![(Params::default(), self.scenario.clone())];
        for sweep in &self.sweeps {
            let mut next = Vec::new();
            for (params, scenario) in &points {
                for (label, over) in sweep.settings()? {
                    let (mut params, mut scenario) = (params.clone(), scenario.clone());
                    params.0.insert(sweep.name(), label);
                    table::lay(&mut scenario, &over);
                    next.push((params, scenario));
                }
            }
            points = next;
        }
        let mut cases = Vec::new();
        for (params, scenario) in points {
            if self.variants.is_empty() {
                let mut case = self.case(params, scenario)?;
                let scenario = &case.scenario;
                let name = match &scenario.graph {
                    Some(graph) if graph.ideal.is_some() => "ideal".into(),
                    Some(_) => scenario.scaling.policy.clone(),
                    None => scenario.admission.algorithm.clone(),
                };
                case.params.0.insert("variant".into(), name);
                cases.push(case);
                continue;
            }
            for variant in &self.variants {
                let (mut params, mut scenario) = (params.clone(), scenario.clone());
                // Who looks for the best does not begin with what was found before.
                let tuned = self.tuned.get(&variant.name).filter(|_| self.tune.is_none());
                let tuned = tuned.map(|tuned| (&tuned.scenario, &tuned.at_label));
                for (over, at_label) in
                    tuned.into_iter().chain([(&variant.scenario, &variant.at_label)])
                {
                    table::lay(&mut scenario, over);
                    for label in params.0.values() {
                        if let Some(Value::Table(over)) = at_label.get(label) {
                            table::lay(&mut scenario, over);
                        }
                    }
                }
                params.0.insert("variant".into(), variant.name.clone());
                cases.push(self.case(params, scenario)?);
            }
        }
        Ok(cases)
    }

    fn case(&self, params: Params, mut scenario: Table) -> Result<Case, PlanError> {
        if self.long {
            table::lay(&mut scenario, &self.full);
        }
        let problem = |problem: String| PlanError::Case { case: params.to_string(), problem };
        let scenario = Scenario::deserialize(scenario)
            .map_err(|error| problem(error.to_string().trim_end().replace('\n', " ")))?;
        scenario.validate().map_err(|error| PlanError::case(&params, &error))?;
        Ok(Case { params, scenario })
    }
}

impl Sweep {
    /// Labels of the points, and what each changes.
    pub(super) fn settings(&self) -> Result<Vec<(String, Table)>, PlanError> {
        let Some(key) = &self.key else {
            let points = self.points.iter();
            return Ok(points.map(|point| (point.label.clone(), point.scenario.clone())).collect());
        };
        let point = |value: &Value| {
            let mut over = Table::new();
            table::insert(&mut over, key, value.clone())
                .map_err(|error| PlanError::field("sweep.key", error.to_string()))?;
            Ok((label(value), over))
        };
        self.values.iter().map(point).collect()
    }
}

/// A value as a label: a text without quotes.
pub fn label(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.0.iter().map(|(name, label)| format!("{name} {label}"));
        f.write_str(&parts.next().unwrap_or_default())?;
        parts.try_for_each(|part| write!(f, ", {part}"))
    }
}
