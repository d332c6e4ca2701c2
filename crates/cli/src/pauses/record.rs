//! What the agent for Java writes down of each pause.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The columns that are read; others may stand between them.
const COLUMNS: [&str; 4] = ["kind", "ransac_ns", "ols_ns", "real_ns"];

/// How many fits there are.
pub(super) const FITS: [&str; 2] = ["RANSAC", "OLS"];

/// One pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// What the collection examined.
    pub(super) kind: String,
    /// What each fit said; `None` before the first pause of its kind.
    pub(super) predicted: [Option<Duration>; FITS.len()],
    /// How long it was.
    pub(super) real: Duration,
}

/// Reads a record.
///
/// # Errors
///
/// Names the file, and the line that makes no sense.
pub(super) fn read(path: &Path) -> Result<Vec<Pause>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Pause>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| head.iter().position(|column| *column == name);
    let Some(places) = COLUMNS.iter().map(|name| place(name)).collect::<Option<Vec<_>>>() else {
        bail!(
            "its first line names no {}: this is no record of the agent's (record=FILE)",
            COLUMNS.join(", ")
        );
    };
    let pause = |(number, line): (usize, &str)| {
        let cells: Vec<&str> = line.split(',').collect();
        ensure!(cells.len() == head.len(), "line {number}: it has another number of columns");
        let time = |column: usize| match cells[places[column]] {
            "" => Ok(None),
            nanos => {
                let nanos = nanos.parse();
                let nanos = nanos.with_context(|| format!("line {number}: {}", COLUMNS[column]))?;
                anyhow::Ok(Some(Duration::from_nanos(nanos)))
            }
        };
        let real = time(3)?.with_context(|| format!("line {number}: there is no real_ns"))?;
        Ok(Pause { kind: cells[places[0]].to_owned(), predicted: [time(1)?, time(2)?], real })
    };
    (2..).zip(lines).map(pause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_record_is_read_whatever_else_it_says() {
        let text = "since_ns,kind,eden,ransac_ns,ols_ns,real_ns\n\
                    5,young,1,,,2000000\n6,full,1,3000000,4000000,5000000\n";
        let pauses = parse(text).unwrap();
        let first = Pause { kind: "young".into(), predicted: [None; 2], real: MS(2) };
        let predicted = [Some(MS(3)), Some(MS(4))];
        assert_eq!(pauses, [first, Pause { kind: "full".into(), predicted, real: MS(5) }]);
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(error("").contains("no record of the agent's"));
        let head = "kind,ransac_ns,ols_ns,real_ns\n";
        assert!(error(&format!("{head}young,1,2,3\nyoung,1")).contains("line 3: "));
        assert!(error(&format!("{head}young,1,x,3")).contains("line 2: ols_ns"));
        assert!(error(&format!("{head}young,1,2,")).contains("line 2: there is no real_ns"));
    }
}
