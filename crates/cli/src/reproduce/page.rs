//! One page with each figure, drawn as its paper draws it, and the claims about it.

use super::Experiment;
use crate::plans::claims::{self, Finding};
use crate::plans::plot;
use crate::report::data::Host;
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on, paragraphs};

/// The whole page.
pub(super) fn render(experiments: &[Experiment], findings: &[Finding], host: &Host) -> String {
    let (held, all) = claims::score(findings.iter());
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
            claims::html(&super::findings(experiment)),
            figures(charts.collect()),
        )
    });
    let main = sections.collect();
    Page { title: "evaluations".into(), heading: "What the papers claim", lead, main }.render(host)
}
