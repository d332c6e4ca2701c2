//! Runs as plain text, one row for each case, and what became of the plan's claims.

use seawall_sim::plan::{Claim, Judgement, Measured, Params, Verdict};

use crate::report::{format, grid};

/// What is shown of each case, between its parameters and the number of its runs.
const HEAD: [&str; 8] =
    ["offered", "goodput", "served", "p50", "p99", "dropped", "refused", "busy"];

/// What is shown.
pub(crate) struct Shown<'a, R> {
    /// What the plan is about.
    pub(crate) title: &'a str,
    /// Names of the labels that tell the cases apart.
    pub(crate) names: &'a [&'a str],
    /// The cases, in order.
    pub(crate) cases: &'a [Params],
    /// What the results should say.
    pub(crate) claims: &'a [Claim],
    /// The runs, in any order.
    pub(crate) runs: &'a [R],
    /// What tells runs of one case apart: seeds or rounds.
    pub(crate) repeats: &'static str,
}

impl<R: Measured> Shown<'_, R> {
    /// Everything about a plan's runs.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            text += &lines(self.title);
        }
        text += &grid::render(&self.head(), self.names.len(), &[self.rows()]);
        text.push('\n');
        for claim in self.claims {
            text += &lines(&sentence(&claim.judge(self.runs)));
        }
        text + &lines(&self.legend())
    }

    /// Names of the columns.
    pub(crate) fn head(&self) -> Vec<&str> {
        self.names.iter().copied().chain(HEAD).chain([self.repeats]).collect()
    }

    /// The cells of each case.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.cases.iter().map(|case| self.row(case)).collect()
    }

    /// What the columns mean.
    pub(crate) fn legend(&self) -> String {
        let invalid = if self.runs.iter().all(Measured::is_valid) {
            ""
        } else {
            " With *: this many runs are not valid, because the load could not be offered; do not \
             believe such a row."
        };
        format!(
            "Offered, goodput (within the SLO) and served: requests per second. Dropped: share of \
             the offered requests that the clients gave up unsent. Refused: share of the sent ones \
             that the server refused. Busy: part of the server's cores' time. >: at least. All are \
             means over the {}.{invalid}",
            self.repeats,
        )
    }

    fn row(&self, params: &Params) -> Vec<String> {
        let runs: Vec<&R> = self.runs.iter().filter(|run| run.params() == params).collect();
        let mean = |name: &str| {
            let values: Option<Vec<f64>> = runs.iter().map(|run| run.metric(name)).collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| format::NOTHING.into());
        let rate = |name| or_nothing(mean(name).map(format::rate));
        let share = |name| or_nothing(mean(name).map(format::percent));
        let censored = mean("latency_censored").unwrap_or_default();
        let labels = self.names.iter().map(|name| params.0.get(*name).cloned().unwrap_or_default());
        let numbers = [
            rate("offered"),
            rate("goodput"),
            rate("throughput"),
            format::quantile(mean("p50_us"), 0.5, censored),
            format::quantile(mean("p99_us"), 0.99, censored),
            share("client_drop_rate"),
            share("server_drop_rate"),
            share("busy"),
            match runs.iter().filter(|run| !run.is_valid()).count() {
                0 => runs.len().to_string(),
                invalid => format!("{} *{invalid}", runs.len()),
            },
        ];
        labels.chain(numbers).collect()
    }
}

/// What a claim says, and what was measured.
fn sentence(judgement: &Judgement<'_>) -> String {
    let claim = judgement.claim;
    let number = |number: Option<f64>| number.map_or("–".into(), |number| format!("{number:.4}"));
    let verdict = match judgement.verdict {
        _ if !judgement.valid => "not to be judged, for points that are not valid",
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

/// The text in lines.
pub(crate) fn lines(text: &str) -> String {
    format::wrap(text, 100).into_iter().map(|line| line + "\n").collect()
}
