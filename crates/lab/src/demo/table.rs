//! The numbers for a terminal: one table of at most 80 columns.

use super::result::{Demo, Measured, Numbers, Point};
use crate::report::{format, grid};

/// Width of all that is printed.
const WIDTH: usize = 80;

/// Rows that a reader looks at; the page has all.
const ROWS: usize = 12;

/// The columns: of what, at which load; then without control, and with it.
const HEAD: [&str; 8] =
    ["requests", "load", "offered", "good", "p99", "with: good", "p99", "rejected"];

/// The table and what it says; ends with a line break.
pub(super) fn render(demo: &Demo) -> String {
    let mut groups: Vec<Vec<Row>> = demo.services.iter().map(rows).collect();
    let mut room = ROWS;
    for group in &mut groups {
        group.truncate(room);
        room -= group.len();
    }
    let mut text = grid::render(&HEAD, 1, &groups) + "\n\n";
    text += &wrapped(&legend(demo));
    for (number, sentence) in demo.sentences.iter().enumerate() {
        text += &format!("\n{}", numbered(number + 1, sentence));
    }
    text += "\n";
    if !demo.warnings.is_empty() {
        text += &wrapped(&format!("{}; the page lists them.", counted(demo.warnings.len())));
    }
    for unmet in &demo.unmet {
        text += &wrapped(&format!("NOT AS EXPECTED: {unmet}."));
    }
    text
}

/// One row.
type Row = [String; HEAD.len()];

fn rows(service: &Measured) -> Vec<Row> {
    let pairs: Vec<(&Point, &Point)> = service
        .points(false)
        .filter_map(|without| {
            let with = service.points(true).find(|with| with.load == without.load)?;
            Some((without, with))
        })
        .collect();
    let of = |class: &&'static str| {
        let class = *class;
        pairs.iter().map(move |(without, with)| row(class, without, with)).collect::<Vec<_>>()
    };
    service.service.classes().iter().flat_map(of).collect()
}

fn row(class: &str, without: &Point, with: &Point) -> Row {
    let (before, after) = (without.class(class), with.class(class));
    [
        class.into(),
        format::load(without.load),
        format::rate(after.offered),
        format::rate(before.goodput),
        tail(before, without),
        format::rate(after.goodput),
        tail(after, with),
        format::percent(after.rejected()),
    ]
}

fn tail(numbers: &Numbers, point: &Point) -> String {
    let bound = if numbers.p99_is_bound { ">" } else { "" };
    let mark = if point.valid { "" } else { "*" };
    match numbers.p99_us {
        Some(us) => format!("{mark}{bound}{}", format::delay(us)),
        None => format!("{mark}{}", format::NOTHING),
    }
}

fn legend(demo: &Demo) -> String {
    let slo = demo.services.iter().map(|service| format::delay(service.slo_us));
    let mut slos: Vec<String> = slo.collect();
    slos.dedup();
    let points = demo.services.iter().flat_map(|service| {
        service.points(true).map(|point| point.goodput_interval / service.capacity)
    });
    let widest = points.fold(0.0, f64::max);
    format!(
        "Per second; good: answered within the SLO ({}). Load: multiple of the capacity. With: {}. \
         Goodput with it is known to ±{} of the capacity (95 % confidence).",
        slos.join(", "),
        demo.algorithm,
        format::percent(widest),
    )
}

fn counted(warnings: usize) -> String {
    match warnings {
        1 => "1 warning".into(),
        many => format!("{many} warnings"),
    }
}

fn wrapped(text: &str) -> String {
    format::wrap(text, WIDTH).into_iter().map(|line| line + "\n").collect()
}

fn numbered(number: usize, sentence: &str) -> String {
    let mut text = String::new();
    for (index, line) in format::wrap(sentence, WIDTH - 3).into_iter().enumerate() {
        let lead = if index == 0 { format!("{number}. ") } else { "   ".into() };
        text += &format!("{lead}{line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::sample;
    use crate::demo::service::Service;

    #[test]
    fn it_fits_a_terminal() {
        let mut services = vec![sample::service(Service::Worker), sample::service(Service::Lock)];
        for service in &mut services {
            for point in &mut service.points {
                (point.all.offered, point.all.goodput) = (99_900.0, 99_900.0);
                (point.all.p99_us, point.all.p99_is_bound) = (Some(99.9e6), true);
                (point.all.rejected_by_server, point.valid) = (0.999, false);
            }
        }
        for demo in [sample::demo(), sample::of(services)] {
            let text = render(&demo);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
                assert_eq!(line.trim_end(), line);
            }
        }
    }

    #[test]
    fn it_has_a_row_for_each_load_and_class_but_at_most_twelve() {
        let mut demo = sample::demo();
        let rows = |demo: &Demo| {
            let text = render(demo);
            text.lines()
                .filter(|line| line.starts_with("one worker") || line.starts_with("lock:"))
                .count()
        };
        assert_eq!(rows(&demo), 3 + 2 * 3);
        for _ in 0..3 {
            demo.services.push(sample::service(Service::Worker));
        }
        assert_eq!(rows(&demo), ROWS);
    }

    #[test]
    fn what_is_not_as_expected_is_said() {
        let mut service = sample::service(Service::Worker);
        service.points.iter_mut().for_each(|point| point.valid = false);
        let text = render(&sample::of(vec![service]));
        assert!(text.contains("NOT AS EXPECTED: worker at 0.9×") && text.contains('*'), "{text}");
        assert!(!render(&sample::demo()).contains("NOT AS EXPECTED"));
    }
}
