//! What outlives the agent: how containers were before it touched them, and the lock that keeps a
//! second agent out.
//!
//! ```text
//!   agent       lock ─ restore what a crash left ─ save, change, save, change … ─ restore ─ forget
//!   watchdog                                 agent's pipe closes ─ lock ─ restore ─ forget
//! ```
//!
//! Only who holds the lock restores. The system drops the lock of a process that dies, so that
//! either the watchdog or the next agent gets it, and the other finds nothing left to do.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::actuator::kubernetes::Restorer;
use super::actuator::{ActuatorError, Saved};

const FILE: &str = "allocations.json";
const LOCK: &str = "lock";

/// The version of the file's format.
const VERSION: u32 = 1;

/// How often a lock is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// The folder, while nobody else may use it.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    saved: BTreeMap<String, Vec<Saved>>,
    _lock: Flock<File>,
}

/// Why the folder cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another agent runs.
    #[error(
        "another agent runs{}: it holds {}; stop it, or give this one another folder and other \
         containers",
        describe(pid),
        path.display()
    )]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Its process.
        pid: Option<u32>,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not one of ours.
    #[error(
        "{} cannot be understood ({problem}); it holds what containers had before an agent changed \
         them: put them back by hand, then remove it",
        path.display()
    )]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn describe(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" as process {pid}"))
}

/// Why one container is not put back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PutBackError {
    /// It cannot be changed.
    #[error(transparent)]
    Actuator(#[from] ActuatorError),
    /// The state cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    /// The saved state of each container, by its key.
    containers: BTreeMap<String, Vec<Saved>>,
}

/// How a restoration went.
#[derive(Debug, Default)]
pub struct Restored {
    /// Containers that have again what they had.
    pub restored: usize,
    /// Those that have gone meanwhile.
    pub gone: usize,
    /// Those that could not be put back, and why.
    pub failed: Vec<(String, String)>,
}

impl State {
    /// Takes the lock, and reads what an agent that died has left.
    ///
    /// # Errors
    ///
    /// If another process holds the lock, or the folder cannot be written or understood.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
        let path = folder.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| io_error(&path, source))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let mut lock = lock.map_err(|(_, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => {
                let pid = fs::read_to_string(&path).ok().and_then(|pid| pid.trim().parse().ok());
                StateError::Locked { path: path.clone(), pid }
            }
            error => io_error(&path, error.into()),
        })?;
        let write = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        write.map_err(|source| io_error(&path, source))?;
        let saved = read(&folder.join(FILE))?;
        Ok(Self { folder: folder.to_owned(), saved, _lock: lock })
    }

    /// The same, and waits for somebody who holds the lock and is about to let it go: a watchdog
    /// that restores, or an agent that is ending.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), if the lock is still held after `patience`.
    pub fn open_patiently(folder: &Path, patience: Duration) -> Result<Self, StateError> {
        let begun = Instant::now();
        loop {
            match Self::open(folder) {
                Err(StateError::Locked { .. }) if begun.elapsed() < patience => {
                    std::thread::sleep(RETRY);
                }
                opened => return opened,
            }
        }
    }

    /// Whether nothing has to be put back.
    pub fn is_empty(&self) -> bool {
        self.saved.is_empty()
    }

    /// Whether this container has been saved.
    pub fn contains(&self, key: &str) -> bool {
        self.saved.contains_key(key)
    }

    /// Keeps how containers are, on the disk when this returns: call it before they are changed.
    ///
    /// # Errors
    ///
    /// If it cannot be written; then the containers must not be changed.
    pub fn save(
        &mut self,
        containers: impl IntoIterator<Item = (String, Vec<Saved>)>,
    ) -> Result<(), StateError> {
        self.saved.extend(containers);
        self.write()
    }

    /// Containers that have gone, or that are not the agent's business any more.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn forget<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), StateError> {
        let before = self.saved.len();
        for key in keys {
            self.saved.remove(key);
        }
        if self.saved.len() == before { Ok(()) } else { self.write() }
    }

    /// Puts one back, if it was saved, and forgets it if that worked or is in vain.
    ///
    /// # Errors
    ///
    /// If it cannot be put back: then it is kept for the end. If the rest cannot be written.
    pub fn put_back(&mut self, key: &str) -> Result<(), PutBackError> {
        let Some(saved) = self.saved.get(key) else { return Ok(()) };
        let failed = saved.iter().filter_map(|saved| saved.restore().err());
        match failed.into_iter().find(|error| !error.is_gone()) {
            Some(error) => Err(error.into()),
            None => Ok(self.forget([key])?),
        }
    }

    /// Puts all containers back, and forgets those for which that worked or is in vain.
    pub fn restore(&mut self) -> Restored {
        let mut done = Restored::default();
        let (mut left, mut restorer) = (BTreeMap::new(), Restorer::default());
        for (key, saved) in std::mem::take(&mut self.saved) {
            let put = saved.iter().map(|saved| saved.restore_with(&mut restorer));
            let failed = put.filter_map(Result::err).collect::<Vec<_>>();
            match failed.iter().find(|error| !error.is_gone()) {
                Some(error) => {
                    done.failed.push((key.clone(), error.to_string()));
                    left.insert(key, saved);
                }
                None if failed.is_empty() => done.restored += 1,
                None => done.gone += 1,
            }
        }
        self.saved = left;
        let path = self.folder.join(FILE);
        let written = if self.saved.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error(&path, error)),
                _ => Ok(()),
            }
        } else {
            self.write()
        };
        if let Err(error) = written {
            done.failed.push((path.display().to_string(), error.to_string()));
        }
        done
    }

    /// Replaces the file at once or not at all.
    fn write(&self) -> Result<(), StateError> {
        let document = Document { version: VERSION, containers: self.saved.clone() };
        let text = serde_json::to_vec(&document).unwrap_or_default();
        let (path, draft) = (self.folder.join(FILE), self.folder.join(format!("{FILE}.draft")));
        let put = || {
            let mut file = File::create(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        put().map_err(|source| io_error(&path, source))
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Vec<Saved>>, StateError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(io_error(path, source)),
    };
    let garbled = |problem: String| StateError::Garbled { path: path.to_owned(), problem };
    let document: Document =
        serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
    if document.version != VERSION {
        return Err(garbled(format!("it is of version {}", document.version)));
    }
    Ok(document.containers)
}

fn io_error(path: &Path, source: io::Error) -> StateError {
    StateError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::actuator::Write;

    fn saved(path: &Path, text: &str) -> Vec<Saved> {
        vec![Saved::Files(vec![Write { path: path.to_owned(), text: text.to_owned() }])]
    }

    #[test]
    fn what_a_crash_left_is_put_back_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let quota = folder.path().join("quota");
        fs::write(&quota, "900").unwrap();
        let mut state = State::open(&folder.path().join("state")).unwrap();
        let gone = folder.path().join("gone/quota");
        state
            .save([("a".to_owned(), saved(&quota, "500")), ("b".to_owned(), saved(&gone, "1"))])
            .unwrap();
        drop(state);

        let mut state = State::open(&folder.path().join("state")).unwrap();
        assert!(state.contains("a"));
        let done = state.restore();
        assert_eq!((done.restored, done.gone, done.failed.len()), (1, 1, 0));
        assert_eq!(fs::read_to_string(&quota).unwrap(), "500");
        drop(state);
        assert!(State::open(&folder.path().join("state")).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_put_back_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        // A folder where a file should be cannot be written.
        let quota = folder.path().join("quota");
        fs::create_dir(&quota).unwrap();
        let mut state = State::open(folder.path()).unwrap();
        state.save([("a".to_owned(), saved(&quota, "500"))]).unwrap();
        let done = state.restore();
        assert_eq!((done.restored, done.failed.len()), (0, 1));
        drop(state);
        assert!(State::open(folder.path()).unwrap().contains("a"));
    }

    #[test]
    fn two_agents_exclude_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let error = State::open(folder.path()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        drop(state);
        State::open(folder.path()).unwrap();
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["{", r#"{"version":2,"containers":{}}"#] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = State::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("by hand"), "{error}");
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        }
    }

    #[test]
    fn what_is_forgotten_is_not_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let quota = folder.path().join("quota");
        fs::write(&quota, "900").unwrap();
        let mut state = State::open(folder.path()).unwrap();
        state.save([("a".to_owned(), saved(&quota, "500"))]).unwrap();
        state.forget(["a", "b"]).unwrap();
        assert_eq!(state.restore().restored, 0);
        assert_eq!(fs::read_to_string(&quota).unwrap(), "900");
    }
}
