//! Claims, judged by results.

use serde::{Deserialize, Serialize};

use super::case::Params;
use super::claim::{Band, Claim, Extreme, Measure, Pick};
use super::measured::Measured;

/// Standard errors that a direction must be away from nothing.
const CLEAR: f64 = 3.0;

/// How far from the number still counts as near, as a part of it.
const NEAR: f64 = 0.2;

/// Whether results say what a claim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// They do.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// They do not.
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

/// A claim, the number that was measured, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Mean over the seeds; `None` when a run has no such number.
    pub measured: Option<f64>,
    /// Its standard error, when there are several seeds.
    pub error: Option<f64>,
    /// The case that was taken.
    pub case: Option<Params>,
    /// What follows.
    pub verdict: Verdict,
    /// Whether all runs behind it are valid. If not, the verdict must not be believed.
    pub valid: bool,
}

/// The number of one pair of cases.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    mean: f64,
    error: Option<f64>,
}

impl Claim {
    /// Judges the claim by the runs of its plan, in any order.
    pub fn judge(&self, runs: &[impl Measured]) -> Judgement<'_> {
        let mut cases: Vec<&Params> = runs.iter().map(Measured::params).collect();
        cases.sort_unstable();
        cases.dedup();
        let taken = match self.extreme {
            Some(extreme) => self.extremes(runs, &cases, extreme).map(|number| (number, None)),
            None => self.best_of_pairs(runs, &cases),
        };
        let concerned = self.concerned(&cases);
        let holds = taken.as_ref().is_some_and(|(number, _)| self.holds(*number));
        Judgement {
            claim: self,
            measured: taken.as_ref().map(|(number, _)| number.mean),
            error: taken.as_ref().and_then(|(number, _)| number.error),
            case: taken.and_then(|(_, case)| case),
            verdict: if holds { Verdict::Reproduced } else { Verdict::NotReproduced },
            valid: runs.iter().all(|run| run.is_valid() || !concerned.contains(run.params())),
        }
    }

    /// The number of the pair that is to be taken.
    fn best_of_pairs(
        &self,
        runs: &[impl Measured],
        cases: &[&Params],
    ) -> Option<(Number, Option<Params>)> {
        let number = |(case, other): (usize, Option<usize>)| {
            let seeds = runs.iter().filter(|run| run.params() == cases[case]).map(Measured::seed);
            let seeds: Vec<u64> = seeds.collect();
            let number = |seeds: &[u64]| {
                let here =
                    self.number(runs, cases[case], other.map(|other| cases[other]), seeds)?;
                if self.than.is_empty() {
                    return Some(here);
                }
                let (case, other) = (self.there(cases[case]), other.map(|o| self.there(cases[o])));
                Some(here - self.number(runs, &case, other.as_ref(), seeds)?)
            };
            let number = if self.means {
                jackknife(&seeds, number)
            } else {
                mean(seeds.iter().map(|&seed| number(&[seed])))
            };
            Some((number?, cases[case]))
        };
        let numbers: Option<Vec<_>> = self.pairs(cases).into_iter().map(number).collect();
        self.take(&numbers?)
    }

    /// What a case and what it is compared with make, of the mean of these seeds.
    fn number(
        &self,
        runs: &[impl Measured],
        case: &Params,
        other: Option<&Params>,
        seeds: &[u64],
    ) -> Option<f64> {
        let mean = |params: &Params| {
            let sum: Option<f64> = seeds.iter().map(|&seed| self.metric(runs, params, seed)).sum();
            Some(sum? / seeds.len() as f64)
        };
        let value = mean(case)?;
        match other {
            Some(other) => Some(self.set(value, mean(other)?)),
            None => Some(value),
        }
    }

    /// The number of the extremes on both sides.
    fn extremes(
        &self,
        runs: &[impl Measured],
        cases: &[&Params],
        extreme: Extreme,
    ) -> Option<Number> {
        let of = |wanted, seed| {
            let metrics = Self::cases(cases, wanted).map(|case| self.metric(runs, case, seed));
            metrics.collect::<Option<Vec<f64>>>()?.into_iter().reduce(match extreme {
                Extreme::Highest => f64::max,
                Extreme::Lowest => f64::min,
            })
        };
        let mut seeds: Vec<u64> = runs.iter().map(Measured::seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        mean(
            seeds
                .into_iter()
                .map(|seed| Some(self.set(of(&self.at, seed)?, of(&self.over, seed)?))),
        )
    }

    /// The metric of one run.
    fn metric(&self, runs: &[impl Measured], params: &Params, seed: u64) -> Option<f64> {
        let run = runs.iter().find(|run| run.seed() == seed && run.params() == params)?;
        run.metric(&self.metric)
    }

    /// One metric set against another, of equal seeds: these have equal arrivals.
    fn set(&self, value: f64, other: f64) -> f64 {
        match self.measure {
            Measure::Value => value,
            // Also where there is nothing on both sides.
            Measure::Ratio if value == other => 1.0,
            Measure::Gain if value == other => 0.0,
            Measure::Ratio => value / other,
            Measure::Gain => (value / other - 1.0) * 100.0,
            Measure::Difference => value - other,
        }
    }

    fn take<'a>(&self, numbers: &[(Number, &'a Params)]) -> Option<(Number, Option<Params>)> {
        let favour = |number: &Number| if self.lower { -number.mean } else { number.mean };
        let by_favour = |a: &&(Number, &'a Params), b: &&(Number, &'a Params)| {
            favour(&a.0).total_cmp(&favour(&b.0))
        };
        let named = |(number, case): &(Number, &Params)| (*number, Some((*case).clone()));
        match self.pick {
            Pick::Least => numbers.iter().min_by(by_favour).map(named),
            Pick::Most => numbers.iter().max_by(by_favour).map(named),
            Pick::Mean => {
                let count = numbers.len() as f64;
                let mean = numbers.iter().map(|(number, _)| number.mean).sum::<f64>() / count;
                let squares = |(number, _): &(Number, _)| Some(number.error?.powi(2));
                let error: Option<f64> = numbers.iter().map(squares).sum();
                let error = error.map(|sum| sum.sqrt() / count);
                (count > 0.0).then_some((Number { mean, error }, None))
            }
        }
    }

    fn holds(&self, number: Number) -> bool {
        // What is measured when there is no effect at all.
        let ratio = self.measure == Measure::Ratio && self.than.is_empty();
        let neutral = if ratio { 1.0 } else { 0.0 };
        let sign = if self.lower { -1.0 } else { 1.0 };
        let effect = sign * (number.mean - neutral);
        match (self.band, self.paper) {
            (Band::Dir, _) => effect > CLEAR * number.error.unwrap_or(0.0) && effect > 0.0,
            (Band::Half, Some(paper)) => effect >= sign * (paper - neutral) / 2.0,
            (Band::Near, Some(paper)) => (number.mean - paper).abs() <= NEAR * paper.abs(),
            (Band::Abs, Some(paper)) if self.lower => number.mean <= paper,
            (Band::Abs, Some(paper)) => number.mean >= paper,
            (_, None) => false,
        }
    }
}

/// Mean and standard error over the seeds; `None` when one of them has no number.
fn mean(numbers: impl Iterator<Item = Option<f64>>) -> Option<Number> {
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let error = (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt());
    mean.is_finite().then_some(Number { mean, error })
}

/// The number of all seeds together, with the standard error that it has by leaving each of them
/// out once; `None` when there is no number without one of them.
fn jackknife(seeds: &[u64], number: impl Fn(&[u64]) -> Option<f64>) -> Option<Number> {
    let all = number(seeds).filter(|number| number.is_finite())?;
    if seeds.len() < 2 {
        return Some(Number { mean: all, error: None });
    }
    let without = |left_out: &u64| {
        let rest: Vec<u64> = seeds.iter().copied().filter(|seed| seed != left_out).collect();
        number(&rest).filter(|number| number.is_finite())
    };
    let parts: Vec<f64> = seeds.iter().map(without).collect::<Option<_>>()?;
    let count = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
    Some(Number { mean: all, error: Some((squares * (count - 1.0) / count).sqrt()) })
}
