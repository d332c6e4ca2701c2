//! `--retune`: looks again for the baselines' best parameters.

use anyhow::{Context, Result};
use seawall_sim::Plan;
use seawall_sim::plan::Best;
use serde::Serialize;
use toml::{Table, Value};

use super::systems::System;
use crate::report::format;
use crate::sim;

const HEAD: &str = "\
# What was found by tuning: of each plan tune-*, the setting with the highest goodput. Written by
# `seawall reproduce --retune`.
";

/// The best setting that a plan found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Setting {
    system: &'static str,
    plan: &'static str,
    #[serde(flatten)]
    best: Best,
}

/// Runs those plans of a system that tune something.
pub(super) fn retune(system: &System, wanted: impl Fn(&str) -> bool) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for &(plan, text) in system.tuning.iter().filter(|(plan, _)| wanted(plan)) {
        let parsed = Plan::read(text, &[], |file| system.file(file))
            .with_context(|| format!("in experiments/{}/{plan}.toml", system.name))?;
        let runs = sim::simulate(&parsed, &format!("{} {plan}", system.name))?;
        let found = parsed.best(&runs)?.into_iter();
        settings.extend(found.map(|best| Setting { system: system.name, plan, best }));
    }
    Ok(settings)
}

/// The settings as the part of a plan that they are.
pub(super) fn render(settings: &[Setting]) -> Result<String> {
    let mut text = HEAD.to_owned();
    for Setting { plan, best, .. } in settings {
        text += &format!(
            "\n# {plan}: {}/s with the best of {} candidates, {}/s with the worst\n{}",
            format::rate(best.goodput),
            best.candidates,
            format::rate(best.worst),
            toml::to_string(&part(best))?
        );
    }
    Ok(text)
}

/// `tuned.VARIANT.scenario`, or `tuned.VARIANT.for.LABEL`, with the setting in it.
fn part(best: &Best) -> Table {
    let table = |key: &str, value| Table::from_iter([(key.to_owned(), Value::Table(value))]);
    let of_variant = match &best.label {
        Some(label) => table("for", table(label, best.scenario.clone())),
        None => table("scenario", best.scenario.clone()),
    };
    table("tuned", table(&best.variant, of_variant))
}

#[cfg(test)]
mod tests {
    use seawall_sim::plan::Case;

    use super::super::systems;
    use super::*;

    #[test]
    fn what_was_found_is_what_plans_include() {
        let best = |label: Option<&str>, delay: &str| Best {
            variant: "dagor".into(),
            label: label.map(str::to_owned),
            scenario: format!("admission.dagor.overload_delay = '{delay}'").parse().unwrap(),
            goodput: 812_345.0,
            worst: 64_000.0,
            candidates: 12,
        };
        let setting = |best| Setting { system: "breakwater", plan: "tune-dagor", best };
        let text = render(&[setting(best(None, "30us")), setting(best(Some("1us"), "10us"))]);
        let text = text.unwrap();
        assert!(
            text.contains("tune-dagor: 812k/s with the best of 12 candidates, 64.0k/s"),
            "{text}"
        );
        let plan = "include = 'found'
            variant = [{ name = 'dagor', scenario.admission.algorithm = 'dagor' }]
            sweep = [{ name = 'service', point = [{ label = 'any' }, { label = '1us' }] }]";
        let plan = Plan::read(plan, &[], |_| Ok(text.clone())).unwrap();
        let delay = |case: &Case| case.scenario.admission.dagor.overload_delay.unwrap().as_micros();
        let delays: Vec<u128> = plan.cases().unwrap().iter().map(delay).collect();
        assert_eq!(delays, [30, 10]);
    }

    #[test]
    fn every_plan_that_tunes_can_be_read() {
        for system in systems::chosen(None) {
            for (name, text) in system.tuning {
                let plan = Plan::read(text, &[], |file| system.file(file));
                let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(plan.tune.is_some(), "{name}");
            }
        }
    }
}
