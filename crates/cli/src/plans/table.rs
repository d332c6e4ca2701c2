//! Runs as plain text, one row for each case, and what became of the plan's claims.

use seawall_sim::plan::{Claim, Judgement, Measured, Params, Verdict};

use super::plot;
use crate::report::charts::lines::Unit;
use crate::report::{format, grid};

/// What is shown of each case, between its parameters and the number of its runs.
const HEAD: [&str; 8] =
    ["offered", "goodput", "served", "p50", "p99", "dropped", "refused", "busy"];

/// How many of these are known of a class: cores are busy for all of them.
const OF_CLASS: usize = HEAD.len() - 1;

/// Quantiles that a plan may ask for, by their names.
const QUANTILES: [(&str, f64); 7] = [
    ("p50_us", 0.5),
    ("p80_us", 0.8),
    ("p90_us", 0.9),
    ("p95_us", 0.95),
    ("p98_us", 0.98),
    ("p99_us", 0.99),
    ("p999_us", 0.999),
];

/// What is shown.
pub(crate) struct Shown<'a, R> {
    /// What the plan is about.
    pub(crate) title: &'a str,
    /// Names of the labels that tell the cases apart.
    pub(crate) names: &'a [&'a str],
    /// Metrics that are shown of each case; the usual ones if none is named.
    pub(crate) columns: &'a [String],
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
        text += &self.by_class();
        for claim in self.claims {
            text += &lines(&sentence(&claim.judge(self.runs)));
        }
        text + &lines(&self.legend())
    }

    /// A table of the cases for each class of requests; nothing where there are no several.
    fn by_class(&self) -> String {
        let classes = self.classes();
        if classes.len() < 2 {
            return String::new();
        }
        let rows = self.class_rows(&classes);
        format!("\n{}\n\n", grid::render(&self.class_head(), 1 + self.names.len(), &rows))
    }

    /// Names of the classes that were measured apart.
    pub(crate) fn classes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for class in self.runs.iter().flat_map(Measured::classes) {
            if !names.contains(&&*class.name) {
                names.push(&class.name);
            }
        }
        names
    }

    /// Names of the columns.
    pub(crate) fn head(&self) -> Vec<&str> {
        let names = self.names.iter().copied();
        names.chain(self.measured(HEAD.len())).chain([self.repeats]).collect()
    }

    /// Names of the columns with numbers; `usual` of the usual ones.
    fn measured(&self, usual: usize) -> Vec<&str> {
        if self.columns.is_empty() {
            return HEAD[..usual].to_vec();
        }
        self.columns.iter().map(|name| name.trim_end_matches("_us")).collect()
    }

    /// The cells of each case.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.cases.iter().map(|case| self.row(case)).collect()
    }

    /// Names of the columns of [`class_rows`](Self::class_rows).
    pub(crate) fn class_head(&self) -> Vec<&str> {
        let names = std::iter::once("class").chain(self.names.iter().copied());
        names.chain(self.measured(OF_CLASS)).collect()
    }

    /// The cells of each case for each of these classes of requests.
    pub(crate) fn class_rows(&self, classes: &[&str]) -> Vec<Vec<Vec<String>>> {
        let row = |class: &str, case| {
            let mark = if self.invalid(case) == 0 { "" } else { " *" };
            let labels = std::iter::once(format!("{class}{mark}")).chain(self.labels(case));
            let numbers = self.numbers(case, &format!("class.{class}."));
            let count = self.measured(OF_CLASS).len();
            labels.chain(numbers.into_iter().take(count)).collect()
        };
        let rows = |class: &&str| self.cases.iter().map(|case| row(class, case)).collect();
        classes.iter().map(rows).collect()
    }

    /// What the columns mean.
    pub(crate) fn legend(&self) -> String {
        let invalid = if self.runs.iter().all(Measured::is_valid) {
            ""
        } else {
            " With *: this many runs are not valid, because the load could not be offered; do not \
             believe such a row."
        };
        if !self.columns.is_empty() {
            return format!("All are means over the {}. >: at least.{invalid}", self.repeats);
        }
        format!(
            "Offered, goodput (within the SLO) and served: requests per second. Dropped: share of \
             the offered requests that the clients gave up unsent. Refused: share of the sent ones \
             that the server refused. Busy: part of the server's cores' time. >: at least. All are \
             means over the {}.{invalid}",
            self.repeats,
        )
    }

    fn row(&self, case: &Params) -> Vec<String> {
        let runs = self.runs.iter().filter(|run| run.params() == case).count();
        let count = match self.invalid(case) {
            0 => runs.to_string(),
            invalid => format!("{runs} *{invalid}"),
        };
        self.labels(case).chain(self.numbers(case, "")).chain([count]).collect()
    }

    /// How many runs of a case are not valid.
    fn invalid(&self, case: &Params) -> usize {
        self.runs.iter().filter(|run| run.params() == case && !run.is_valid()).count()
    }

    fn labels(&self, case: &Params) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| case.0.get(*name).cloned().unwrap_or_default())
    }

    /// Of metrics whose names have this in front.
    fn numbers(&self, case: &Params, front: &str) -> Vec<String> {
        let runs: Vec<&R> = self.runs.iter().filter(|run| run.params() == case).collect();
        let mean = |name: &str| {
            let name = format!("{front}{name}");
            let values: Option<Vec<f64>> = runs.iter().map(|run| run.metric(&name)).collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| format::NOTHING.into());
        let rate = |name| or_nothing(mean(name).map(format::rate));
        let share = |name| or_nothing(mean(name).map(format::percent));
        let censored = mean("latency_censored").unwrap_or_default();
        if !self.columns.is_empty() {
            let cell = |name: &String| match QUANTILES.iter().find(|(known, _)| known == name) {
                Some((_, q)) => format::quantile(mean(name), *q, censored),
                None => or_nothing(mean(name).map(|number| written(name, number))),
            };
            return self.columns.iter().map(cell).collect();
        }
        vec![
            rate("offered"),
            rate("goodput"),
            rate("throughput"),
            format::quantile(mean("p50_us"), 0.5, censored),
            format::quantile(mean("p99_us"), 0.99, censored),
            share("client_drop_rate"),
            share("server_drop_rate"),
            share("busy"),
        ]
    }
}

/// A metric as its unit is written.
fn written(metric: &str, number: f64) -> String {
    match plot::unit(metric) {
        Unit::Share | Unit::Tail => format::percent(number),
        Unit::Delay => format::delay(number),
        Unit::Rate | Unit::Number => format::rate(number),
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
