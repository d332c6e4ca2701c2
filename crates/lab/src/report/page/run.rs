//! One load over time.

use seawall_measure::Figures;

use super::{
    AT_LEAST, Mood, Page, Tile, cells, definitions, figures, latency, measured_on, tail_tile,
};
use crate::host::Host;
use crate::report::html::{escape, keep_units};
use crate::report::run::Report;
use crate::report::{charts, format};

/// The columns of the summary.
const COLUMNS: [&str; 16] = [
    "Class",
    "Offered|/s",
    "Goodput|/s",
    "of|offered",
    "Served|/s",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "longest",
    "Dropped|at client",
    "Refused|by server",
    "p99 of|refusals",
    "No|answer",
    "Cancelled",
    "Failed",
];

/// The page for this load, offered by this host.
pub fn render(run: &Report, host: &Host) -> String {
    let sentences = escape(&keep_units(&run.sentences().join(" ")));
    let page = Page {
        title: format!("load, {}", run.algorithm),
        heading: "One load over time",
        lead: measured_on(host),
        main: format!(
            "<section>\n{warnings}{tiles}<p class=\"verdict\">{sentences}</p>\n{charts}</section>\n\
             <section>\n<h2>All numbers</h2>\n{table}</section>\n\
             <section>\n<h2>What was offered</h2>\n{facts}</section>\n{method}",
            warnings = warnings(run),
            tiles = super::tiles(&tiles(run)),
            charts = figures(charts::run(run)),
            table = summary(run),
            facts = facts(run),
            method = super::method::of_run(run.bin_s),
        ),
    };
    page.render(host)
}

fn warnings(run: &Report) -> String {
    let warning = |text: &String| format!("<p class=\"warning\">{}</p>\n", escape(text));
    run.warnings.iter().map(warning).collect()
}

fn tiles(run: &Report) -> Vec<Tile> {
    let total = &run.summary.total;
    let share = format::percent_of(total.goodput, total.offered);
    let offered = format::rate(total.offered);
    let lateness = format::delay_or_nothing(run.summary.lateness_p99_us);
    let (mood, valid) =
        if run.summary.valid { (Mood::Good, "✓ valid") } else { (Mood::Bad, "✗ not valid") };
    vec![
        Tile::new(
            Mood::Neutral,
            format!("Goodput with {}", run.algorithm),
            format!("{}/s", format::rate(total.goodput)),
            format!("{share} of the {offered}/s offered"),
        ),
        tail_tile("p99 latency".into(), run.p99(), run.within_slo(), run.summary.slo_us),
        Tile::new(
            Mood::Neutral,
            "Dropped at the clients",
            format::percent(total.client_drop_rate),
            "of what was offered".into(),
        ),
        Tile::new(
            Mood::Neutral,
            "Refused by the servers",
            format::percent(total.server_drop_rate),
            "of what was sent".into(),
        ),
        Tile::new(mood, "Generator late by (p99)", lateness, valid.into()),
    ]
}

/// Every class, and all together where there are several.
fn summary(run: &Report) -> String {
    let classes = run.summary.classes.iter().map(|class| row(run, &class.name, &class.figures));
    let classes: String = classes.collect();
    let mut bodies = format!("<tbody>\n{classes}</tbody>\n");
    if run.summary.classes.len() != 1 {
        bodies += &format!("<tbody>\n{}</tbody>\n", row(run, "all", &run.summary.total));
    }
    format!(
        "{}<p class=\"fine\">Bold: above the SLO. {AT_LEAST} Dropped: share of the offered \
         requests. Refused: share of those sent.{}</p>\n",
        super::table("points", &COLUMNS, &bodies),
        reasons(&run.summary.total),
    )
}

fn row(run: &Report, class: &str, figures: &Figures) -> String {
    let latency = |us, q| latency((us, q), figures.latency_censored, run.summary.slo_us);
    let count = |count: u64| format::rate(count as f64);
    let cells = cells(&[
        format::rate(figures.offered),
        format::rate(figures.goodput),
        format::percent_of(figures.goodput, figures.offered),
        format::rate(figures.throughput),
        latency(figures.p50_us, 0.5),
        latency(figures.p90_us, 0.9),
        latency(figures.p99_us, 0.99),
        latency(figures.p999_us, 0.999),
        latency(figures.max_us, 1.0),
        format::percent(figures.client_drop_rate),
        format::percent(figures.server_drop_rate),
        format::delay_or_nothing(figures.reject_p99_us),
        count(figures.unanswered),
        count(figures.cancelled),
        count(figures.failed),
    ]);
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(class))
}

/// Why the clients dropped what they dropped.
fn reasons(total: &Figures) -> String {
    let reasons: Vec<String> = total
        .client_drops
        .iter()
        .map(|(reason, count)| {
            format!("{} {}", reason.name().replace('_', " "), format::rate(*count as f64))
        })
        .collect();
    if reasons.is_empty() {
        return String::new();
    }
    format!(" Requests dropped at the clients by reason: {}.", reasons.join(", "))
}

fn facts(run: &Report) -> String {
    let slo = format::delay(run.summary.slo_us);
    let source = if run.slo_chosen { "chosen" } else { "as the servers say" };
    let late = format::delay_or_nothing(run.summary.lateness_p99_us);
    let validity = match &run.summary.invalid_reason {
        None => format!("valid: the load was offered, and on time (late by {late}, p99)"),
        Some(reason) => format!("not valid: {reason}"),
    };
    let mut facts = vec![
        ("Algorithm", escape(&run.algorithm)),
        ("Sessions", run.sessions.to_string()),
        ("SLO", format!("{slo} ({source})")),
    ];
    facts.extend(run.facts.iter().map(|(name, fact)| (*name, escape(fact))));
    if let Some(share) = run.hit_share {
        facts.push(("Hits", format!("{} of the lookups found something", format::percent(share))));
    }
    facts.push(("Measurement", escape(&validity)));
    definitions(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::tests::check;
    use crate::report::sample;

    #[test]
    fn it_is_a_page_with_all_classes_and_charts() {
        let run = sample::run();
        let page = render(&run, &sample::host());
        check(&page);
        for class in ["get", "set", "all"] {
            assert!(page.contains(&format!("<th scope=\"row\">{class}</th>")), "{class}");
        }
        assert_eq!(page.matches("<svg").count(), 4);
        assert!(page.contains("✓ valid") && !page.contains("class=\"warning\""), "{page}");
        assert!(page.contains("expired 1.2"), "{page}");
        assert!(page.contains("75 % of the lookups found something"), "{page}");
    }

    #[test]
    fn one_class_needs_no_total() {
        let mut run = sample::run();
        run.summary.classes.truncate(1);
        let page = render(&run, &sample::host());
        assert!(!page.contains("<th scope=\"row\">all</th>"));
    }

    #[test]
    fn what_is_not_valid_says_so_first() {
        let mut run = sample::run();
        run.summary.valid = false;
        run.summary.invalid_reason = Some("offered 5 of 9 <requests>".into());
        run.warnings = vec!["this point is not valid: 5 < 9".into()];
        let page = render(&run, &sample::host());
        check(&page);
        let warning = page.find("5 &lt; 9").unwrap();
        assert!(warning < page.find("<svg").unwrap());
        assert!(page.contains("✗ not valid") && page.contains("of 9 &lt;requests&gt;"));
    }

    #[test]
    fn nothing_makes_a_page_too() {
        let mut run = sample::run();
        run.summary.total = Figures::default();
        run.summary.classes.clear();
        (run.bins, run.shifts) = (Vec::new(), Vec::new());
        let page = render(&run, &sample::host());
        check(&page);
        assert!(page.contains("Nothing was served."));
    }
}
