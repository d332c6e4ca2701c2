//! How a container was before the agent touched it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::kubernetes::{Resize, Restorer};
use super::{ActuatorError, files, published};

/// All that is needed to put a container back, by a process that knows nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saved {
    /// What stood in files of the kernel.
    Files(Vec<Write>),
    /// What stood in a metrics page.
    Page {
        /// The page.
        path: PathBuf,
        /// CPU given, in thousandths of one; 0 if none was.
        granted_milli: u32,
        /// Speed, in thousandths of the base.
        speed_permille: u32,
    },
    /// What a pod said of its container.
    Pod(Box<Resize>),
}

/// One file and what it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The file.
    pub path: PathBuf,
    /// What it held.
    pub text: String,
}

impl Saved {
    /// Puts the container back.
    ///
    /// # Errors
    ///
    /// The first that remains after as many rounds as there are files: one file may refuse its
    /// value until another has its own (a burst above the quota, a share above the parent's).
    pub fn restore(&self) -> Result<(), ActuatorError> {
        self.restore_with(&mut Restorer::default())
    }

    /// The same for one of many, which share connections.
    ///
    /// # Errors
    ///
    /// Those of [`restore`](Self::restore).
    pub fn restore_with(&self, restorer: &mut Restorer) -> Result<(), ActuatorError> {
        match self {
            Self::Pod(resize) => restorer.restore(resize),
            Self::Files(writes) => restore_files(writes),
            Self::Page { path, granted_milli, speed_permille } => {
                published::restore(path, *granted_milli, *speed_permille)
            }
        }
    }
}

/// One group, or one CPU, after the other: what one refuses takes nothing from the next.
fn restore_files(writes: &[Write]) -> Result<(), ActuatorError> {
    let folders = writes.chunk_by(|one, next| one.path.parent() == next.path.parent());
    let failed = folders.filter_map(|folder| restore_folder(folder).err()).collect::<Vec<_>>();
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// All of these files, or none: part of a quota and its period may be next to nothing.
fn restore_folder(writes: &[Write]) -> Result<(), ActuatorError> {
    let now = |Write { path, .. }: &Write| {
        files::read(path).map(|text| Write { path: path.clone(), text })
    };
    let before: Result<Vec<Write>, _> = writes.iter().map(now).collect();
    put(writes).inspect_err(|error| {
        if let Ok(before) = before
            && !error.is_gone()
            && let Err(error) = put(&before)
        {
            tracing::warn!(%error, "part of what was saved stands");
        }
    })
}

fn put(writes: &[Write]) -> Result<(), ActuatorError> {
    let mut left: Vec<&Write> = writes.iter().collect();
    for _ in 0..writes.len() {
        let mut failed = None;
        left.retain(|Write { path, text }| match files::write(path, text) {
            Ok(()) => false,
            Err(error) => {
                failed.get_or_insert(error);
                true
            }
        });
        match failed {
            None => return Ok(()),
            Some(error @ ActuatorError::Refused { .. }) if left.len() == writes.len() => {
                // Nothing moved: another round would not either.
                return Err(error);
            }
            Some(ActuatorError::Refused { .. }) => {}
            Some(error) => return Err(error),
        }
    }
    // Each round wrote something, and the last file is still refused.
    left.first().map_or(Ok(()), |Write { path, text }| files::write(path, text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_files_are_written_back() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::write(&path, "changed by us, and longer").unwrap();
            Write { path, text: text.to_owned() }
        };
        let saved = Saved::Files(vec![write("a", "1"), write("b", "2")]);
        saved.restore().unwrap();
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(root.path().join("b")).unwrap(), "2");
        fs::remove_dir_all(root.path()).unwrap();
        assert!(saved.restore().unwrap_err().is_gone());
    }

    #[test]
    fn it_survives_being_written_down() {
        let write = Write { path: "/sys/a".into(), text: "-1".to_owned() };
        let saved = Saved::Files(vec![write]);
        let text = serde_json::to_string(&saved).unwrap();
        assert_eq!(text, r#"{"files":[{"path":"/sys/a","text":"-1"}]}"#);
        assert_eq!(serde_json::from_str::<Saved>(&text).unwrap(), saved);
    }
}
