//! One page with each figure, drawn as its paper draws it, and the claims about it.

use super::table::{measured, number};
use super::{Experiment, Finding};
use crate::report::data::Host;
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on, table};
use crate::sim::plot;
use seawall_sim::plan::Verdict;

/// The whole page.
pub(super) fn render(experiments: &[Experiment], findings: &[Finding], host: &Host) -> String {
    let (held, all) = super::score(findings.iter());
    let lead = format!(
        "{held} of {all} claims were reproduced, in a simulator that runs the algorithms of \
         Seawall at the papers' scale. {}",
        measured_on(host)
    );
    let mut said = Vec::new();
    let sections = experiments.iter().enumerate().map(|(index, experiment)| {
        let plan = &experiment.plan;
        let charts = plan.figures().into_iter().enumerate().map(|(number, figure)| {
            plot::lines(&figure, &experiment.runs, &format!("p{index}f{number}")).chart()
        });
        // Plans that include one another say the same about themselves.
        let about = plan.about.trim();
        let about = if said.contains(&about) { "" } else { about };
        said.push(about);
        format!(
            "<section>\n<h2>{}</h2>\n{}{}{}</section>\n",
            escape(&plan.title),
            paragraphs(about),
            claims_table(&super::findings(experiment)),
            figures(charts.collect()),
        )
    });
    let main = sections.collect();
    Page { title: "evaluations".into(), heading: "What the papers claim", lead, main }.render(host)
}

/// Text with an empty line between two paragraphs.
fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect()
}

fn claims_table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let row = |finding: &Finding| {
        let (class, verdict) = match finding.verdict {
            Verdict::Reproduced => ("good", "✓ reproduced"),
            Verdict::NotReproduced => ("bad", "✗ not reproduced"),
        };
        let id = escape(&finding.claim);
        let id = if finding.extra { format!("({id})") } else { id };
        let why = match finding.why.as_str() {
            "" => String::new(),
            why => format!("<br><small>{}</small>", escape(why)),
        };
        format!(
            "<tr><td>{id}</td><td>{}</td><td>{}{why}</td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>\n",
            escape(&finding.figure),
            escape(&finding.text),
            escape(&number(finding.paper, &finding.unit)),
            escape(&measured(finding)),
        )
    };
    let rows: String = findings.iter().map(row).collect();
    table(
        "claims",
        &["claim", "figure", "what", "paper", "measured", "verdict"],
        &format!("<tbody>\n{rows}</tbody>\n"),
    )
}
