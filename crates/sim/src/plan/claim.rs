//! What results should say, and how it is measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::PlanError;
use super::case::Params;

/// A statement about the results of a plan, usually a paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name; several claims may share one.
    pub id: String,
    /// The figure that shows it, if any.
    #[serde(default)]
    pub figure: String,
    /// What is claimed, in words.
    pub text: String,
    /// The number that is claimed; without one, only the direction counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// What `paper` and the measured number count. Default: what the measure does.
    #[serde(default)]
    pub unit: String,
    /// What of each run is looked at: `goodput`, `p99_us`, `shift2.stable_after_ms`, …
    pub metric: String,
    /// The cases that it is about: labels by the names of sweeps, and `variant`. What is not named
    /// may be anything.
    #[serde(default)]
    pub at: BTreeMap<String, Choice>,
    /// The cases that those are compared with; each has the labels of the case itself, but for
    /// these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub over: BTreeMap<String, Choice>,
    /// Labels for the same comparison elsewhere, whose number is subtracted: the claim is that an
    /// effect is larger here than there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub than: BTreeMap<String, String>,
    /// How both make one number. Default `value`.
    #[serde(default)]
    pub measure: Measure,
    /// Instead of case with case: the highest or lowest metric of all cases `at` these labels with
    /// that of all cases with the labels of `over`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extreme: Option<Extreme>,
    /// Whether the metric's means over the seeds are compared, rather than seed with seed: a ratio
    /// says nothing where single runs have next to none of the metric. Default false.
    #[serde(default)]
    pub means: bool,
    /// Which case is taken when `at` and `over` leave several. Default `least`, which says that it
    /// holds for all of them.
    #[serde(default)]
    pub pick: Pick,
    /// Which numbers count as reproduced.
    pub band: Band,
    /// True when the claim is that the number is small. Default false.
    #[serde(default)]
    pub lower: bool,
    /// An extra row, of a variant that the claim is not about: it is judged, and not counted.
    #[serde(default)]
    pub extra: bool,
    /// What is known of why it is not reproduced; shown where it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// One label or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choice {
    /// This label.
    One(String),
    /// Any of these.
    Any(Vec<String>),
}

/// How the metric of a case, and that of what it is compared with, make one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The metric itself; nothing to compare.
    #[default]
    Value,
    /// Case over comparison.
    Ratio,
    /// How much more the case has, in percent of the comparison.
    Gain,
    /// Case less comparison.
    Difference,
}

/// Which of several numbers is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The least favourable: the claim is about all cases.
    #[default]
    Least,
    /// The most favourable: a paper's "up to".
    Most,
    /// The mean.
    Mean,
}

/// Which of many cases speaks for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extreme {
    /// The one with the highest metric.
    Highest,
    /// The one with the lowest.
    Lowest,
}

/// Which numbers count as reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// The same direction by more than three standard errors over the seeds.
    Dir,
    /// At least half of the effect that is claimed.
    Half,
    /// Within a fifth of the number.
    Near,
    /// The number is a bound, and it is kept.
    Abs,
}

impl Choice {
    pub(super) fn allows(&self, label: &str) -> bool {
        match self {
            Self::One(one) => one == label,
            Self::Any(any) => any.iter().any(|one| one == label),
        }
    }

    pub(super) fn labels(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Any(any) => any,
        }
    }
}

impl Claim {
    /// The pairs of cases that are compared; without anything to compare with, only the first of
    /// each is there.
    pub(super) fn pairs(&self, cases: &[&Params]) -> Vec<(usize, Option<usize>)> {
        let mut pairs = Vec::new();
        for (index, case) in cases.iter().enumerate().filter(|(_, case)| meets(case, &self.at)) {
            if self.over.is_empty() {
                pairs.push((index, None));
                continue;
            }
            let alike = |other: &Params| {
                case.0.iter().all(|(name, label)| {
                    self.over.contains_key(name) || other.0.get(name) == Some(label)
                })
            };
            let others = cases.iter().enumerate();
            let others = others.filter(|(_, other)| meets(other, &self.over) && alike(other));
            pairs.extend(others.map(|(other, _)| (index, Some(other))));
        }
        pairs
    }

    /// The cases whose runs have a part in its number.
    pub(super) fn concerned(&self, cases: &[&Params]) -> Vec<Params> {
        if self.extreme.is_some() {
            let sides = Self::cases(cases, &self.at).chain(Self::cases(cases, &self.over));
            return sides.cloned().collect();
        }
        let pairs = self.pairs(cases).into_iter().flat_map(|(case, other)| [Some(case), other]);
        let mut concerned: Vec<_> = pairs.flatten().map(|case| cases[case].clone()).collect();
        if !self.than.is_empty() {
            let there: Vec<_> = concerned.iter().map(|case| self.there(case)).collect();
            concerned.extend(there);
        }
        concerned
    }

    /// The same case with the labels of `than`.
    pub(super) fn there(&self, case: &Params) -> Params {
        let mut there = case.clone();
        there.0.extend(self.than.clone());
        there
    }

    /// The cases that meet `wanted`.
    pub(super) fn cases<'a>(
        cases: &'a [&'a Params],
        wanted: &'a BTreeMap<String, Choice>,
    ) -> impl Iterator<Item = &'a Params> {
        cases.iter().copied().filter(|case| meets(case, wanted))
    }

    /// Checks it against the cases of its plan; `known` says whether there is such a metric, and
    /// what is allowed.
    ///
    /// # Errors
    ///
    /// Names the field that makes no sense, and what is allowed.
    pub fn check(
        &self,
        cases: &[&Params],
        known: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), PlanError> {
        let refuse = |field: &str, problem: String| {
            Err(PlanError::field(format!("claim {}: {field}", self.id), problem))
        };
        if let Err(problem) = known(&self.metric) {
            return refuse("metric", problem);
        }
        if self.paper.is_none() && self.band != Band::Dir {
            return refuse("paper", "without a number, the band can only be dir".into());
        }
        if self.over.is_empty() != (self.measure == Measure::Value) {
            return refuse(
                "over",
                "a value has nothing, all else something to compare with".into(),
            );
        }
        if self.measure == Measure::Value && self.band == Band::Dir {
            return refuse("band", "a value by itself has no direction".into());
        }
        let chosen = self.at.iter().chain(&self.over);
        let labels =
            chosen.flat_map(|(name, choice)| choice.labels().iter().map(move |l| (name, l)));
        for (name, label) in labels.chain(&self.than) {
            if !cases.iter().any(|params| params.0.get(name) == Some(label)) {
                let problem = format!("no case has the {name} {label}");
                return refuse("at, over, than", problem);
            }
        }
        if self.extreme.is_some() && !self.than.is_empty() {
            return refuse("than", "it goes with cases, not with extremes".into());
        }
        if self.means && (self.extreme.is_some() || self.measure == Measure::Value) {
            return refuse("means", "it goes with cases that are compared".into());
        }
        if self.extreme.is_some() && self.measure == Measure::Value {
            return refuse("extreme", "a value has nothing to compare with".into());
        }
        if self.extreme.is_none() && self.pairs(cases).is_empty() {
            return refuse("at, over", "no cases meet both".into());
        }
        Ok(())
    }
}

fn meets(params: &Params, wanted: &BTreeMap<String, Choice>) -> bool {
    let meets = |(name, choice): (&String, &Choice)| {
        params.0.get(name).is_some_and(|label| choice.allows(label))
    };
    wanted.iter().all(meets)
}
