//! Runs as plain text, one row for each case, and what became of the plan's claims.

use seawall_sim::plan::{Judgement, Params, Verdict};
use seawall_sim::{Plan, Run};

use crate::report::{format, grid};

/// What is shown of each case, after its parameters.
const HEAD: [&str; 9] =
    ["offered", "goodput", "served", "p50", "p99", "dropped", "refused", "busy", "seeds"];

const LEGEND: &str = "Offered, goodput (within the SLO) and served: requests per second. Dropped: \
    share of the offered requests that the clients gave up unsent. Refused: share of the sent ones \
    that the server refused. Busy: part of the cores' time. All are means over the seeds.";

/// Everything about a plan's runs.
pub(super) fn render(plan: &Plan, runs: &[Run]) -> String {
    let mut text = String::new();
    if !plan.title.is_empty() {
        text += &lines(&plan.title);
    }
    let names: Vec<String> = plan.params();
    let head: Vec<&str> = names.iter().map(String::as_str).chain(HEAD).collect();
    let rows =
        plan.cases().unwrap_or_default().into_iter().map(|case| row(&names, &case.params, runs));
    text += &grid::render(&head, names.len(), &[rows.collect()]);
    text.push('\n');
    for claim in &plan.claims {
        text += &lines(&sentence(&claim.judge(runs)));
    }
    text + &lines(LEGEND)
}

fn row(names: &[String], params: &Params, runs: &[Run]) -> Vec<String> {
    let runs: Vec<&Run> = runs.iter().filter(|run| run.params == *params).collect();
    let mean = |name: &str| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.metric(name)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    let rate = |name| mean(name).map_or_else(|| format::NOTHING.into(), format::rate);
    let share = |name| mean(name).map_or_else(|| format::NOTHING.into(), format::percent);
    let labels = names.iter().map(|name| params.0.get(name).cloned().unwrap_or_default());
    let numbers = [
        rate("offered"),
        rate("goodput"),
        rate("throughput"),
        format::delay_or_nothing(mean("p50_us")),
        format::delay_or_nothing(mean("p99_us")),
        share("client_drop_rate"),
        share("server_drop_rate"),
        share("busy"),
        runs.len().to_string(),
    ];
    labels.chain(numbers).collect()
}

/// What a claim says, and what was measured.
fn sentence(judgement: &Judgement<'_>) -> String {
    let claim = judgement.claim;
    let number = |number: Option<f64>| number.map_or("–".into(), |number| format!("{number:.4}"));
    let verdict = match judgement.verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "not reproduced",
    };
    format!(
        "{}: {}. Claimed {} {unit}, measured {} {unit}: {verdict}.",
        claim.id,
        claim.text,
        number(claim.paper),
        number(judgement.measured),
        unit = claim.unit,
    )
}

fn lines(text: &str) -> String {
    format::wrap(text, 100).into_iter().map(|line| line + "\n").collect()
}
