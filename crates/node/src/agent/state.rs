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
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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

/// What stands in the lock's file behind the process that holds it, while that restores.
const RESTORES: &str = "restores";

/// How long that may take: a server that does not answer is asked five times, each time for 30 s at
/// most, with waits in between.
const RESTORING_MAX: Duration = Duration::from_secs(300);

/// How often a lock is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// The folder, while nobody else may use it.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    saved: BTreeMap<String, Vec<Saved>>,
    lock: Flock<File>,
}

/// Why the folder cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another agent runs, or puts containers back.
    #[error("{}", locked(path, *pid, *restores))]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Its process.
        pid: Option<u32>,
        /// Whether it puts containers back.
        restores: bool,
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

fn locked(path: &Path, pid: Option<u32>, restores: bool) -> String {
    let who = pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
    let lock = path.display();
    if restores {
        format!("an agent or its watchdog{who} puts containers back; it holds {lock} until then")
    } else {
        format!(
            "another agent runs{who}: it holds {lock}; stop it, or give this one another folder \
             and other containers"
        )
    }
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
        let lock = lock.map_err(|(_, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let mut words = text.split_whitespace();
                let pid = words.next().and_then(|pid| pid.parse().ok());
                let restores = words.next() == Some(RESTORES);
                StateError::Locked { path: path.clone(), pid, restores }
            }
            error => io_error(&path, error.into()),
        })?;
        let saved = read(&folder.join(FILE))?;
        let state = Self { folder: folder.to_owned(), saved, lock };
        state.say("");
        Ok(state)
    }

    /// The same, and waits for somebody who holds the lock and is about to let it go: a watchdog or
    /// an agent that puts containers back. An API server that is slow or away may make that long.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), if the lock is still held after `patience`, or after five
    /// minutes where who holds it puts containers back.
    pub fn open_patiently(folder: &Path, patience: Duration) -> Result<Self, StateError> {
        let begun = Instant::now();
        let mut is_told = false;
        loop {
            let opened = Self::open(folder);
            let Err(StateError::Locked { pid, restores, .. }) = opened else { return opened };
            if begun.elapsed() >= if restores { RESTORING_MAX } else { patience } {
                return opened;
            }
            if restores && !std::mem::replace(&mut is_told, true) {
                tracing::info!(pid, "waits until containers have been put back");
            }
            std::thread::sleep(RETRY);
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
        self.say(RESTORES);
        let mut left = BTreeMap::new();
        let pods = self.saved.values().flatten().filter_map(|saved| match saved {
            Saved::Pod(resize) => Some(&**resize),
            _ => None,
        });
        let mut restorer = Restorer::all(pods);
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
        self.say("");
        done
    }

    /// Tells whoever finds the lock taken what goes on.
    fn say(&self, what: &str) {
        let text = format!("{} {what}", std::process::id());
        let text = format!("{}\n", text.trim_end());
        let said = self.lock.set_len(0).and_then(|()| self.lock.write_all_at(text.as_bytes(), 0));
        if let Err(error) = said {
            tracing::debug!(%error, "others do not know what goes on");
        }
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
    fn who_puts_containers_back_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let wait = || State::open_patiently(folder.path(), Duration::ZERO);
        assert!(matches!(wait(), Err(StateError::Locked { restores: false, .. })));
        state.say(RESTORES);
        let error = State::open(folder.path()).unwrap_err().to_string();
        let pid = format!("as process {} puts containers back", std::process::id());
        assert!(error.contains(&pid), "{error}");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            drop(state);
            waiting.join().unwrap().unwrap();
        });
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
