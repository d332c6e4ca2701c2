//! The log of decisions: one in JSON a line, in files of bounded size and number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since 1970.
    pub time: f64,
    /// The container's name.
    pub container: String,
    /// What was decided: `units 3 -> 4`.
    pub change: String,
    /// Why.
    pub reason: String,
    /// What became of it: `applied`, `dry run`, or what went wrong.
    pub result: String,
    /// How many conditions the container fulfilled, if it was a candidate for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<u32>,
    /// What it rested on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// What a container said of its requests since the decision before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests that were served.
    pub requests: u64,
    /// Requests in it.
    pub in_flight: u64,
    /// Mean execution without waits for connections, microseconds (`execMetric`).
    pub exec_metric_us: f64,
    /// Mean execution with them, microseconds (`execTime`).
    pub exec_time_us: f64,
    /// Mean time from the start of the job to the arrival, microseconds.
    pub time_from_start_us: f64,
    /// Requests that arrived with a hint.
    pub hinted: u64,
    /// Requests that were refused for want of CPU.
    pub shed: u64,
}

/// The files.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    bytes_max: u64,
    files_max: u32,
    open: Option<(File, u64)>,
}

impl Audit {
    /// Writes to `path`, and when that has `bytes_max`, renames it to `path.1`, that to `path.2`,
    /// and so on to `files_max`. The file is made when there is something to write.
    pub fn new(path: &Path, bytes_max: u64, files_max: u32) -> Self {
        Self { path: path.to_owned(), bytes_max, files_max, open: None }
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes these entries.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; the next call tries again.
    pub fn write(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        let (mut file, length) = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let (mut file, length) = if length > 0 && length + lines.len() as u64 > self.bytes_max {
            file.flush()?;
            drop(file);
            self.rotate()?;
            self.begin()?
        } else {
            (file, length)
        };
        file.write_all(&lines)?;
        self.open = Some((file, length + lines.len() as u64));
        Ok(())
    }

    fn begin(&self) -> io::Result<(File, u64)> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&self.path)?;
        let mut length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        // A line that was cut, because the disk was full, takes nothing of the next one.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            length += 1;
        }
        Ok((file, length))
    }

    fn rotate(&self) -> io::Result<()> {
        if self.files_max == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.files_max).rev() {
            let from = self.numbered(number);
            if from.exists() {
                fs::rename(from, self.numbered(number + 1))?;
            }
        }
        fs::rename(&self.path, self.numbered(1))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32) -> Entry {
        Entry {
            time: f64::from(number),
            container: "cart".to_owned(),
            change: "units 3 -> 4".to_owned(),
            reason: "scored 1: slow".to_owned(),
            result: "applied".to_owned(),
            score: Some(1),
            measured: Some(Measured { requests: 5, ..Measured::default() }),
        }
    }

    fn read(path: &Path) -> Vec<Entry> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log/audit.jsonl");
        let mut audit = Audit::new(&path, 1 << 20, 1);
        audit.write(&[]).unwrap();
        assert!(!path.exists());
        audit.write(&[entry(1), entry(2)]).unwrap();
        drop(audit);
        Audit::new(&path, 1 << 20, 1).write(&[entry(3)]).unwrap();
        assert_eq!(read(&path), [entry(1), entry(2), entry(3)]);
    }

    #[test]
    fn a_line_that_was_cut_takes_nothing_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, "{\"time\":1.0,\"cont").unwrap();
        Audit::new(&path, 1 << 20, 1).write(&[entry(2)]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let last = text.lines().next_back().unwrap();
        assert_eq!(serde_json::from_str::<Entry>(last).unwrap(), entry(2));
    }

    #[test]
    fn files_are_bounded_in_size_and_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let bytes_max = 3 * serde_json::to_string(&entry(1)).unwrap().len() as u64;
        let mut audit = Audit::new(&path, bytes_max, 2);
        for number in 0..100 {
            audit.write(&[entry(number)]).unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
        names.sort();
        let expected = ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"];
        assert_eq!(names, expected.map(|name| folder.path().join(name)));
        for name in &names {
            assert!(fs::metadata(name).unwrap().len() <= bytes_max);
        }
        assert_eq!(read(&path).last(), Some(&entry(99)));
    }
}
