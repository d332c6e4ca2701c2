//! What became of a plan's claims: as records, and as a table of a page.

use seawall_sim::plan::{Band, Claim, Measured, Verdict};
use serde::Serialize;

use crate::report::format;
use crate::report::html::escape;
use crate::report::page::table;

/// What became of one claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// Whose claim it is.
    pub(crate) system: String,
    pub(crate) figure: String,
    pub(crate) claim: String,
    pub(crate) text: String,
    pub(crate) paper: Option<f64>,
    pub(crate) measured: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) standard_error: Option<f64>,
    pub(crate) unit: String,
    pub(crate) band: Band,
    pub(crate) verdict: Verdict,
    /// Points behind it are not valid, so that the verdict must not be believed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) doubtful: bool,
    /// An extra row, of a released variant; not counted.
    pub(crate) extra: bool,
    /// What is known of why it is not reproduced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
}

/// What became of all claims of a plan.
pub(crate) fn judge(system: &str, claims: &[Claim], runs: &[impl Measured]) -> Vec<Finding> {
    let finding = |claim: &Claim| {
        let judgement = claim.judge(runs);
        Finding {
            system: system.to_owned(),
            figure: claim.figure.clone(),
            claim: claim.id.clone(),
            text: claim.text.clone(),
            paper: claim.paper,
            measured: judgement.measured,
            standard_error: judgement.error,
            unit: claim.unit.clone(),
            band: claim.band,
            verdict: judgement.verdict,
            doubtful: !judgement.valid,
            extra: claim.extra,
            why: match judgement.verdict {
                Verdict::Reproduced => String::new(),
                Verdict::NotReproduced => claim.why.trim().replace('\n', " "),
            },
        }
    };
    claims.iter().map(finding).collect()
}

/// How many claims were reproduced, and of how many.
pub(crate) fn score<'a>(findings: impl Iterator<Item = &'a Finding>) -> (usize, usize) {
    let counted = findings.filter(|finding| !finding.extra);
    counted.fold((0, 0), |(held, all), finding| {
        (held + usize::from(finding.verdict == Verdict::Reproduced), all + 1)
    })
}

/// The claims as a table of a page; nothing without any.
pub(crate) fn html(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let row = |finding: &Finding| {
        let (class, verdict) = match finding.verdict {
            _ if finding.doubtful => ("bad", "points are not valid"),
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

/// A number with its unit.
pub(crate) fn number(number: Option<f64>, unit: &str) -> String {
    match number {
        None => format::NOTHING.into(),
        Some(number) => format!("{} {unit}", digits(number)).trim_end().to_owned(),
    }
}

/// What was measured, with its standard error.
pub(crate) fn measured(finding: &Finding) -> String {
    let text = number(finding.measured, &finding.unit);
    match finding.standard_error.filter(|error| error.is_finite() && *error > 0.0) {
        Some(error) => format!("{text} ±{}", digits(error)),
        None => text,
    }
}

/// About three digits.
fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 10_000.0 => format::rate(number),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 1.0 => format!("{number:.1}"),
        size if size >= 0.1 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}
