//! One page with each figure, drawn as its paper draws it, and the claims about it.

use super::table::{measured, number};
use super::{Experiment, Finding};
use crate::report::data::Host;
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on};
use crate::sim::plot;
use seawall_sim::plan::Verdict;

/// The whole page.
pub(super) fn render(experiments: &[Experiment], findings: &[Finding], host: &Host) -> String {
    let held = findings.iter().filter(|finding| finding.verdict == Verdict::Reproduced).count();
    let lead = format!(
        "{held} of {} claims were reproduced, in a simulator that runs the algorithms of Seawall \
         at the papers' scale. {}",
        findings.len(),
        measured_on(host)
    );
    let sections = experiments.iter().enumerate().map(|(index, experiment)| {
        let plan = &experiment.plan;
        let charts = plan.figures().into_iter().enumerate().map(|(number, figure)| {
            plot::lines(&figure, &experiment.runs, &format!("p{index}f{number}")).chart()
        });
        let claims: Vec<Finding> = super::findings(experiment);
        format!(
            "<section>\n<h2>{}</h2>\n<p>{}</p>\n{}{}</section>\n",
            escape(&plan.title),
            escape(plan.about.trim()),
            claims_table(&claims),
            figures(charts.collect()),
        )
    });
    let main = sections.collect();
    Page { title: "evaluations".into(), heading: "What the papers claim", lead, main }.render(host)
}

fn claims_table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let row = |finding: &Finding| {
        let (class, verdict) = match finding.verdict {
            Verdict::Reproduced => ("good", "reproduced"),
            Verdict::NotReproduced => ("bad", "not reproduced"),
        };
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>\n",
            escape(&finding.claim),
            escape(&finding.figure),
            escape(&finding.text),
            escape(&number(finding.paper, &finding.unit)),
            escape(&measured(finding)),
        )
    };
    let rows: String = findings.iter().map(row).collect();
    format!(
        "<table>\n<thead><tr><th>claim</th><th>figure</th><th>what</th><th>paper</th>\
         <th>measured</th><th>verdict</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}
