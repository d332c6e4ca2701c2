//! `seawall node log`: decisions of the agent, for people.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use seawall_node::agent::audit::Entry;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  seawall node log /var/lib/seawall/audit.jsonl                     all decisions
  seawall node log /var/lib/seawall/audit.jsonl --container cart    those about one container

Older decisions are in audit.jsonl.1 and so on.";

/// Options of `seawall node log`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The log
    file: PathBuf,

    /// Only what was decided about this container
    #[arg(long, value_name = "NAME")]
    container: Option<String>,
}

/// Runs `seawall node log`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let name = options.file.display();
    let file = File::open(&options.file).with_context(|| match options.file.exists() {
        true => format!("cannot read {name}"),
        false => format!("there is no {name}; the agent makes it at its first decision"),
    })?;
    let mut first = None;
    for (number, line) in (1..).zip(BufReader::new(file).split(b'\n')) {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        let read = serde_json::from_slice::<Entry>(&line)
            .with_context(|| format!("{name}, line {number} is no decision"));
        let entry = match read {
            Ok(entry) => entry,
            // The disk was full, or the machine went down: those behind it are whole.
            Err(problem) if first.is_some() => {
                eprintln!("{problem:#}");
                continue;
            }
            Err(problem) => return Err(problem),
        };
        let first = *first.get_or_insert(entry.time);
        if options.container.as_ref().is_none_or(|wanted| *wanted == entry.container) {
            output::print(&(describe(&entry, first) + "\n"))?;
        }
    }
    Ok(())
}

/// One decision on a line, its time in seconds after the first.
fn describe(entry: &Entry, first: f64) -> String {
    let Entry { container, change, reason, result, measured, .. } = entry;
    let mut line = format!("{:>10.3}s  {container}: {change} ({reason})", entry.time - first);
    if let Some(measured) = measured {
        line += &format!(
            "; {} requests, {:.0} us each, {:.0} us with waits for connections",
            measured.requests, measured.exec_metric_us, measured.exec_time_us
        );
    }
    if result != "applied" {
        line += &format!(" [{result}]");
    }
    line
}

#[cfg(test)]
mod tests {
    use seawall_node::agent::audit::Measured;

    use super::*;

    #[test]
    fn a_decision_is_a_line() {
        let measured = Measured {
            requests: 7,
            exec_metric_us: 900.4,
            exec_time_us: 1200.0,
            ..Measured::default()
        };
        let entry = Entry {
            time: 12.5,
            container: "cart".to_owned(),
            change: "units 3 -> 4".to_owned(),
            reason: "scored 1: slow".to_owned(),
            result: "dry run".to_owned(),
            score: Some(1),
            measured: Some(measured),
        };
        assert_eq!(
            describe(&entry, 10.0),
            "     2.500s  cart: units 3 -> 4 (scored 1: slow); 7 requests, 900 us each, 1200 us \
             with waits for connections [dry run]"
        );
    }
}
