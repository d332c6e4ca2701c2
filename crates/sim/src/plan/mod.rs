//! Plans: what to simulate, how often, and what it shows.
//!
//! A plan is a TOML file. The smallest is an empty one: the default scenario, once.
//!
//! ```toml
//! title = "Two algorithms at three loads"
//! seeds = 3
//!
//! [scenario]                      # everything about one run, see `Scenario`
//! workload.clients = 100
//! run = { warm_up = "200ms", time = "300ms" }
//!
//! [[variant]]                     # what is compared: a name, and what differs from the scenario
//! name = "none"
//! scenario.admission.algorithm = "none"
//! [[variant]]
//! name = "breakwater"
//! scenario.admission.algorithm = "breakwater"
//!
//! [[sweep]]                       # each variant runs at each value; several sweeps multiply
//! key = "workload.load"
//! values = ["0.5x", "1x", "2x"]
//!
//! [[claim]]                       # what the results should say, see `Claim`
//! id = "A1"
//! text = "at twice the capacity, goodput is kept"
//! metric = "goodput"
//! at = { variant = "breakwater", load = "2x" }
//! over = { load = "1x" }
//! measure = "ratio"
//! paper = 0.95
//! band = "near"
//! ```
//!
//! Later parts go over earlier ones: scenario, points of sweeps, what was tuned for the variant,
//! the variant itself; each of the last two followed by what it has `for` the points' labels.

mod case;
mod claim;
mod figure;
mod judge;
mod measured;
pub mod table;
mod tune;

use std::collections::BTreeMap;

use seawall_control::config::ConfigError;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use case::{Case, Params, label};
pub use claim::{Band, Choice, Claim, Extreme, Measure, Pick};
pub use figure::{Drawn, Figure, Spot};
pub use judge::{Judgement, Verdict};
pub use measured::Measured;
pub use tune::{Best, Tune};

use crate::outcome;
use crate::scenario::Scenario;

/// Most runs of one plan.
const RUNS_MAX: usize = 100_000;

/// What is shown of cases that have a graph of services.
const GRAPH_COLUMNS: [&str; 8] = [
    "offered",
    "p50_us",
    "p98_us",
    "violation_volume",
    "excess_ms",
    "cores",
    "cores_peak",
    "energy",
];

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Another plan, under this one: what this one does not say is as there.
    #[serde(skip_serializing)]
    pub include: Option<String>,
    /// What it is about, for people.
    pub title: String,
    /// Why its numbers are what they are, for people.
    pub about: String,
    /// How often each case runs, each time with another seed. Default 1.
    pub seeds: u32,
    /// The scenario that all cases share.
    pub scenario: Table,
    /// What goes over everything else in long runs, as papers have them.
    pub full: Table,
    /// Whether these are to be long runs.
    #[serde(skip)]
    pub long: bool,
    /// What is compared. Default: the scenario as it is, named after its algorithm.
    #[serde(rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// What was found by tuning, by the name of the variant that has it: it goes under what the
    /// variant says itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tuned: BTreeMap<String, Tuned>,
    /// Of a plan that looks for the best parameters: whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tune: Option<Tune>,
    /// What is varied.
    #[serde(rename = "sweep", skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<Sweep>,
    /// Metrics that the table of all cases shows. Default: the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// What is drawn. Default: the usual metrics over the last sweep.
    #[serde(rename = "figure", skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// What the results should say.
    #[serde(rename = "claim", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in results and claims.
    pub name: String,
    /// What goes over the plan's scenario.
    #[serde(default)]
    pub scenario: Table,
    /// What goes over it at the points of sweeps that have these labels: a parameter that is tuned
    /// anew there.
    #[serde(default, rename = "for")]
    pub at_label: Table,
}

/// What was found by tuning a variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuned {
    /// What goes over the plan's scenario.
    pub scenario: Table,
    /// What goes over it at the points of sweeps that have these labels.
    #[serde(rename = "for")]
    pub at_label: Table,
}

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The scenario's key that takes the values; its last part names the sweep, unless `name`
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Its name in results and claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Instead of a key and its values: points at which several keys change together.
    #[serde(default, rename = "point", skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its label in results and claims.
    pub label: String,
    /// What goes over the plan's scenario.
    #[serde(default)]
    pub scenario: Table,
}

/// Why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is no TOML, or not of the schema; the text names line, column and what is allowed.
    #[error("{0}")]
    Syntax(String),
    /// A part of it makes no sense.
    #[error("{field}: {problem}")]
    Field {
        /// Which part.
        field: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// The scenario of a case makes no sense.
    #[error("{in_case}{problem}", in_case = in_case(case))]
    Case {
        /// Its parameters; empty if the plan has but one case.
        case: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

/// Where a problem is.
fn in_case(case: &str) -> String {
    if case.is_empty() { String::new() } else { format!("in the case {case}: ") }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            include: None,
            title: String::new(),
            about: String::new(),
            seeds: 1,
            scenario: Table::new(),
            full: Table::new(),
            long: false,
            variants: Vec::new(),
            tuned: BTreeMap::new(),
            tune: None,
            sweeps: Vec::new(),
            columns: Vec::new(),
            figures: Vec::new(),
            claims: Vec::new(),
        }
    }
}

impl Plan {
    /// Reads a plan, and lays `settings` over it: keys with dots, of the scenario or, with `plan.`
    /// in front, of the plan itself. `open` gives the text of a plan that it includes.
    ///
    /// # Errors
    ///
    /// Names line and column, key or field, and what is allowed.
    pub fn read(
        text: &str,
        settings: &[(String, Value)],
        open: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, PlanError> {
        let mut table = with_included(text, parse, open)?;
        for (key, value) in settings {
            let path = match key.strip_prefix("plan.") {
                Some(key) => key.to_owned(),
                None => format!("scenario.{key}"),
            };
            table::insert(&mut table, &path, value.clone())
                .map_err(|error| PlanError::field(key, error.to_string()))?;
        }
        let plan = Self::deserialize(table).map_err(|error| PlanError::syntax(&error))?;
        let set: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
        plan.check(&set)?;
        Ok(plan)
    }

    /// The same with its long runs.
    #[must_use]
    pub fn full(mut self) -> Self {
        self.long = true;
        self
    }

    /// What tells its cases apart: the names of the sweeps, and `variant`.
    pub fn params(&self) -> Vec<String> {
        let sweeps = self.sweeps.iter().map(Sweep::name);
        std::iter::once("variant".to_owned()).chain(sweeps).collect()
    }

    /// Metrics that the table of all cases shows: none where the usual ones do.
    pub fn columns(&self) -> Vec<String> {
        let cases = self.cases().unwrap_or_default();
        let is_graph = cases.iter().any(|case| case.scenario.graph.is_some());
        if self.columns.is_empty() && is_graph {
            return GRAPH_COLUMNS.map(String::from).to_vec();
        }
        self.columns.clone()
    }

    fn check(&self, set: &[&str]) -> Result<(), PlanError> {
        if !(1..=1_000).contains(&self.seeds) {
            return Err(PlanError::field("seeds", "allowed is 1 to 1000"));
        }
        let mut runs = self.variants.len().max(1) * self.seeds as usize;
        for sweep in &self.sweeps {
            sweep.check()?;
            if let Some(key) = &sweep.key
                && set.contains(&key.as_str())
            {
                let problem = "the plan sweeps it; set plan.sweep, or another key";
                return Err(PlanError::field(key, problem));
            }
            runs = runs.saturating_mul(sweep.len());
        }
        if runs > RUNS_MAX {
            let problem = format!("they make {runs} runs; allowed are {RUNS_MAX}");
            return Err(PlanError::field("sweep", problem));
        }
        let names = self.variants.iter().map(|variant| &variant.name);
        if let Some(twice) = repeated(names) {
            return Err(PlanError::field("variant.name", format!("{twice} is there twice")));
        }
        if let Some(twice) = repeated(self.params().iter()) {
            return Err(PlanError::field("sweep.name", format!("{twice} is there twice")));
        }
        if let Some(tune) = &self.tune {
            tune.check(self)?;
        }
        let cases = self.cases()?;
        let mut classes: Vec<String> = Vec::new();
        for class in cases.iter().flat_map(|case| case.scenario.workload.classes()) {
            if !classes.contains(&class.name) {
                classes.push(class.name);
            }
        }
        let mut services: Vec<String> = Vec::new();
        for graph in cases.iter().filter_map(|case| case.scenario.graph.as_ref()) {
            let names = graph.graph().map(|graph| graph.services).unwrap_or_default().into_iter();
            services.extend(names.map(|service| service.name));
        }
        services.sort_unstable();
        services.dedup();
        let known = |metric: &str| outcome::check_metric(metric, &classes, &services);
        for column in &self.columns {
            known(column).map_err(|problem| PlanError::field("columns", problem))?;
        }
        self.figures
            .iter()
            .try_for_each(|figure| figure.check(&self.params(), &services, known))?;
        let params: Vec<&Params> = cases.iter().map(|case| &case.params).collect();
        self.claims.iter().try_for_each(|claim| claim.check(&params, known))
    }
}

impl Sweep {
    /// Its name in results and claims.
    pub fn name(&self) -> String {
        match (&self.name, &self.key) {
            (Some(name), _) => name.clone(),
            (None, Some(key)) => key.rsplit('.').next().unwrap_or(key).to_owned(),
            (None, None) => String::new(),
        }
    }

    fn len(&self) -> usize {
        self.values.len().max(self.points.len())
    }

    fn check(&self) -> Result<(), PlanError> {
        let problem = match (&self.key, self.points.is_empty()) {
            (Some(_), true) if self.values.is_empty() => "it has no values",
            (Some(_), true) => return Ok(()),
            (None, false) if self.name.is_none() => "give it a name",
            (None, false) if self.values.is_empty() => {
                let labels = self.points.iter().map(|point| &point.label);
                let Some(twice) = repeated(labels) else { return Ok(()) };
                return Err(PlanError::field("sweep.point", format!("{twice} is there twice")));
            }
            _ => "give either a key and values, or a name and points",
        };
        Err(PlanError::field("sweep", problem))
    }
}

impl PlanError {
    /// A part makes no sense.
    pub fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }

    /// A text is no TOML, or not of the schema.
    pub fn syntax(error: &toml::de::Error) -> Self {
        Self::Syntax(error.to_string().trim_end().to_owned())
    }

    fn within(file: &str, error: &Self) -> Self {
        Self::Syntax(format!("in {file}: {error}"))
    }

    fn case(case: &Params, error: &ConfigError) -> Self {
        Self::Case { case: case.to_string(), problem: error.to_string() }
    }
}

/// The table of a plan, laid over that of the plan which it includes, if any, and so on. `parse`
/// reads the text of one plan, and `open` gives that of one that is included.
///
/// # Errors
///
/// Names the plan that cannot be had or read, and what is wrong with it.
pub fn with_included(
    text: &str,
    parse: impl Fn(&str) -> Result<Table, PlanError>,
    open: impl Fn(&str) -> Result<String, String>,
) -> Result<Table, PlanError> {
    let mut table = parse(text)?;
    let mut included = Vec::new();
    while let Some(name) = table.remove("include") {
        let name = label(&name);
        let problem = |problem| PlanError::field("include", problem);
        if included.contains(&name) {
            return Err(problem(format!("{name} includes itself")));
        }
        let text = open(&name).map_err(problem)?;
        let mut under = parse(&text).map_err(|error| PlanError::within(&name, &error))?;
        table::lay(&mut under, &table);
        table = under;
        included.push(name);
    }
    Ok(table)
}

/// A plan's table. Its text is also read as a whole, and its scenarios as such, for messages with
/// line and column.
fn parse(text: &str) -> Result<Table, PlanError> {
    let _: Plan = toml::from_str(text).map_err(|error| PlanError::syntax(&error))?;
    let _: Scenarios = toml::from_str(text).map_err(|error| PlanError::syntax(&error))?;
    text.parse().map_err(|error| PlanError::syntax(&error))
}

/// The parts of a plan that are scenarios, read as such.
#[derive(Deserialize)]
struct Scenarios {
    #[serde(default)]
    #[expect(dead_code, reason = "only the errors of reading it matter")]
    scenario: Scenario,
    #[serde(default)]
    #[expect(dead_code, reason = "only the errors of reading it matter")]
    full: Scenario,
}

/// A name that occurs twice.
pub fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
