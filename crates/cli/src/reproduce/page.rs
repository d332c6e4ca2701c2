//! One page with each figure, drawn as its paper draws it, and the claims about it.

use super::{Experiment, systems};
use crate::host::Host;
use crate::plans::claims::{self, Finding};
use crate::plans::plot;
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
    let mut main: String = sections.collect();
    main += &elsewhere(experiments);
    Page { title: "evaluations".into(), heading: "What the papers claim", lead, main }.render(host)
}

/// Claims of the systems that no simulator can judge.
fn elsewhere(experiments: &[Experiment]) -> String {
    let mut names: Vec<&str> = experiments.iter().map(|experiment| experiment.system).collect();
    names.dedup();
    let systems = names.into_iter().flat_map(|name| systems::chosen(Some(name)));
    let claims = systems.flat_map(|system| system.elsewhere);
    let items: String =
        claims.map(|claim| format!("<li>{}</li>\n", escape(&claim.to_string()))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<section>\n<h2>Not simulated</h2>\n<ul class=\"fine\">\n{items}</ul>\n</section>\n")
}
