//! A folder for what a run needs and nobody wants afterwards.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use anyhow::{Context, Result};

/// Waits until its input ends, and then removes the folder: again while there are processes that
/// were started with files in it, for an agent that ends writes there.
const CLEAN: &str = r#"
cat > /dev/null
for try in $(seq 200); do
  rm -rf "$0" 2> /dev/null
  pgrep -f "$0/" > /dev/null 2>&1 || { rm -rf "$0" && exit; }
  sleep 0.02
done
"#;

/// It is removed when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Who does that.
    cleaner: Child,
}

impl Folder {
    pub(super) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("seawall-graph-{}", process::id()));
        fs::create_dir(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        let cleaner = Command::new("sh")
            .args(["-c", CLEAN])
            .arg(&path)
            .stdin(Stdio::piped())
            .process_group(0) // so that Ctrl-C does not end it, too
            .spawn()
            .context("cannot start a shell")?;
        Ok(Self { path, cleaner })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}
