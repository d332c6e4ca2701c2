//! What the policy has learned of containers, by their names, so that it outlives the agent.
//!
//! It is worth having, and nothing depends on it: a file that cannot be read is told and left out.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use seawall_control::scaling::memory::{CONTAINERS_MAX, Memory, Remembered};
use serde::{Deserialize, Serialize};

use super::Agent;
use super::status::Status;

const FILE: &str = "learned.json";

/// The version of the file's format.
const VERSION: u32 = 1;

/// How often it is written.
pub(super) const EVERY_NS: u64 = 10_000_000_000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    containers: BTreeMap<String, Remembered>,
}

/// The file.
#[derive(Debug)]
pub(super) struct Learned {
    path: PathBuf,
    /// Of containers that have not come yet, and of those that have gone.
    kept: BTreeMap<String, Remembered>,
    /// When it was last written.
    pub(super) written_ns: Option<u64>,
}

impl Learned {
    /// Reads what was learned before. Also what is wrong with the file, if anything is.
    pub(super) fn open(folder: &Path) -> (Self, Option<String>) {
        let path = folder.join(FILE);
        let (kept, problem) = match read(&path) {
            Ok(kept) => (kept, None),
            Err(problem) => (BTreeMap::new(), Some(format!("{}: {problem}", path.display()))),
        };
        (Self { path, kept, written_ns: None }, problem)
    }

    /// What is known of a container that has come, under its number of today.
    pub(super) fn recall(&self, name: &str, id: u64) -> Option<Memory> {
        let entry = Remembered { id, ..self.kept.get(name)?.clone() };
        Some(Memory { containers: vec![entry] })
    }

    /// Writes what is known now; of others, what was known before.
    pub(super) fn write(
        &mut self,
        memory: Memory,
        names: &BTreeMap<u64, String>,
    ) -> io::Result<()> {
        for entry in memory.containers {
            if let Some(name) = names.get(&entry.id) {
                self.kept.insert(name.clone(), entry);
            }
        }
        while self.kept.len() > CONTAINERS_MAX {
            let is_there = |name: &&String| names.values().any(|there| there == *name);
            let Some(gone) = self.kept.keys().find(|name| !is_there(name)).cloned() else { break };
            self.kept.remove(&gone);
        }
        let document = Document { version: VERSION, containers: self.kept.clone() };
        let draft = self.path.with_extension("json.draft");
        fs::write(&draft, serde_json::to_vec(&document)?)?;
        fs::rename(draft, &self.path)
    }
}

impl Agent {
    /// Writes down what the policy has learned.
    pub(super) fn remember(&mut self) {
        let Some(learned) = &mut self.learned else { return };
        let names = self.containers.values().map(|one| (one.id.0, one.name.clone())).collect();
        if let Err(error) = learned.write(self.policy.memory(), &names) {
            self.status.error("learned");
            tracing::debug!(%error, "what was learned is not written down");
        }
    }
}

/// What an agent before has learned.
pub(super) fn remembered(folder: &Path, status: &mut Status) -> Learned {
    let (learned, problem) = Learned::open(folder);
    if let Some(problem) = problem {
        status.error("learned");
        tracing::warn!(%problem, "what an agent before has learned is lost");
    }
    learned
}

fn read(path: &Path) -> Result<BTreeMap<String, Remembered>, String> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.to_string()),
    };
    let document: Document = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        return Err(format!("it is of version {}; this is version {VERSION}", document.version));
    }
    Ok(document.containers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(id: u64, exec_ns: f64) -> Memory {
        let exec_avg = vec![(3, exec_ns)];
        let entry = Remembered { id, exec_ns: Some(exec_ns), exec_avg, ..Remembered::default() };
        Memory { containers: vec![entry] }
    }

    fn names(all: &[(u64, &str)]) -> BTreeMap<u64, String> {
        all.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
    }

    #[test]
    fn it_is_found_again_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let (mut learned, problem) = Learned::open(folder.path());
        assert_eq!(problem, None);
        learned.write(memory(1, 5e6), &names(&[(1, "cart")])).unwrap();
        // Another agent numbers anew, and keeps what it knows of those that are not there.
        let (mut learned, problem) = Learned::open(folder.path());
        assert_eq!(problem, None);
        assert_eq!(learned.recall("cart", 9), Some(memory(9, 5e6)));
        assert_eq!(learned.recall("user", 9), None);
        learned.write(memory(2, 1e6), &names(&[(2, "user")])).unwrap();
        let (learned, _) = Learned::open(folder.path());
        assert_eq!(learned.recall("cart", 3), Some(memory(3, 5e6)));
        assert_eq!(learned.recall("user", 4), Some(memory(4, 1e6)));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_told_and_left_out() {
        for text in ["{", r#"{"version":7,"containers":{}}"#, "\u{0}"] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(FILE), text).unwrap();
            let (mut learned, problem) = Learned::open(folder.path());
            assert!(problem.unwrap().contains(FILE));
            assert_eq!(learned.recall("cart", 1), None);
            learned.write(memory(1, 5e6), &names(&[(1, "cart")])).unwrap();
            assert_eq!(Learned::open(folder.path()).1, None);
        }
    }
}
