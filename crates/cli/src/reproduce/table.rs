//! Claims as plain text: what the paper says, what was measured, and the verdict.

use seawall_sim::plan::Verdict;

use super::systems::{self, Elsewhere};
use crate::plans::claims::{Finding, measured, number, score};
use crate::report::{format, grid};

const HEAD: [&str; 6] = ["claim", "fig.", "what", "paper", "measured", "verdict"];

/// Columns for the words of a claim.
const WORDS: usize = 46;

const LEGEND: &str = "Measured: mean over the seeds, ± its standard error. Reproduced: the same \
    direction by more than three standard errors (no number given), at least half of the effect, \
    within a fifth of the number, or a bound that is kept; which of these, `--json` says.";

/// All claims, and how many were reproduced; with those that no simulator can judge, if that is
/// asked for.
pub(super) fn render(findings: &[Finding], elsewhere: bool) -> String {
    let mut text = String::new();
    let mut systems: Vec<&str> = findings.iter().map(|finding| &*finding.system).collect();
    systems.dedup();
    for system in systems {
        let findings: Vec<&Finding> = findings.iter().filter(|f| f.system == system).collect();
        let groups: Vec<Vec<Vec<String>>> =
            vec![findings.iter().flat_map(|finding| rows(finding)).collect()];
        let (held, all) = score(findings.iter().copied());
        text += &format!(
            "{}\n{system}: {held} of {all} claims reproduced\n\n",
            grid::render(&HEAD, 3, &groups),
        );
        text += &reasons(&findings);
        if elsewhere {
            let system = systems::chosen(Some(system));
            text += &not_simulated(system.flat_map(|system| system.elsewhere));
        }
    }
    text + &format::wrap(LEGEND, 100).into_iter().map(|line| line + "\n").collect::<String>()
}

/// Claims that are measured elsewhere.
fn not_simulated<'a>(claims: impl Iterator<Item = &'a Elsewhere>) -> String {
    let lines = claims.flat_map(|claim| item(&claim.to_string()));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("Not simulated:\n{lines}\n") }
}

/// An item of a list, in lines.
fn item(text: &str) -> Vec<String> {
    let lines = format::wrap(text, 96).into_iter().enumerate();
    lines
        .map(|(index, line)| format!("{}{line}\n", if index == 0 { "  " } else { "    " }))
        .collect()
}

/// What is known of why some were not.
fn reasons(findings: &[&Finding]) -> String {
    let known = findings.iter().filter(|finding| !finding.why.is_empty());
    let lines = known
        .flat_map(|finding| item(&format!("{}, {}: {}", finding.claim, finding.text, finding.why)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("Why, as far as it is known:\n{lines}\n") }
}

/// The lines of one claim: its words may need several.
fn rows(finding: &Finding) -> Vec<Vec<String>> {
    let verdict = match finding.verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "not reproduced",
    };
    let mut words = format::wrap(&finding.text, WORDS).into_iter();
    let first = vec![
        if finding.extra { format!("({})", finding.claim) } else { finding.claim.clone() },
        finding.figure.clone(),
        words.next().unwrap_or_default(),
        number(finding.paper, &finding.unit),
        measured(finding),
        verdict.into(),
    ];
    let rest = words.map(|line| {
        let mut row = vec![String::new(); HEAD.len()];
        row[2] = line;
        row
    });
    std::iter::once(first).chain(rest).collect()
}
