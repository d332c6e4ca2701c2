//! Pauses, written down.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_control::predict::pause::{Fit, Kind, Spaces};

/// What the first line says.
const HEADER: &str = "since_ns,kind,eden,survivor,old,eden_after,survivor_after,old_after,workers,\
                      live_per_worker,ransac_ns,ols_ns,real_ns";

/// A pause that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) since_ns: u64,
    pub(super) kind: Kind,
    pub(super) before: Spaces,
    pub(super) after: Spaces,
    pub(super) workers: u16,
    /// Live bytes for each worker, as estimated.
    pub(super) load: f64,
    pub(super) predicted: [Option<Duration>; Fit::ALL.len()],
    pub(super) real: Duration,
}

/// The file in which pauses are written down.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// Begins one.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        writeln!(file, "{HEADER}")?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes pauses down.
    pub(super) fn add(&mut self, rows: &[Row]) -> io::Result<()> {
        let lines: String = rows.iter().map(|row| row.to_line() + "\n").collect();
        self.file.write_all(lines.as_bytes())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Row {
    fn to_line(self) -> String {
        let Self { since_ns, kind, before, after, workers, load, predicted, real } = self;
        let spaces = |spaces: Spaces| format!("{},{},{}", spaces.eden, spaces.survivor, spaces.old);
        let kind = match kind {
            Kind::Young => "young",
            Kind::Full => "full",
            Kind::Mark => "mark",
        };
        let [ransac, ols] = predicted.map(|predicted| {
            predicted.map_or_else(String::new, |predicted| predicted.as_nanos().to_string())
        });
        let (before, after) = (spaces(before), spaces(after));
        let real = real.as_nanos();
        format!("{since_ns},{kind},{before},{after},{workers},{load:.0},{ransac},{ols},{real}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_what_the_first_names() {
        let row = Row {
            since_ns: 7,
            kind: Kind::Mark,
            before: Spaces { eden: 1, survivor: 2, old: 3 },
            after: Spaces::default(),
            workers: 2,
            load: 1.5,
            predicted: [None, Some(Duration::from_micros(1))],
            real: Duration::from_millis(1),
        };
        assert_eq!(row.to_line(), "7,mark,1,2,3,0,0,0,2,2,,1000,1000000");
        assert_eq!(row.to_line().split(',').count(), HEADER.split(',').count());
    }
}
