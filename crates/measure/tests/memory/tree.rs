//! A tree of files, written out from a list of `path = content`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use seawall_measure::memory::Roots;

/// Files in a folder of their own, which goes away with this.
pub(crate) struct Tree(PathBuf);

impl Tree {
    /// The files of `<name>.tree`.
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let folder = format!("memory-{}-{number}", process::id());
        let tree = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder));
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory");
        let text = fs::read_to_string(recorded.join(format!("{name}.tree"))).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (path, content) = line.split_once(" = ").expect("a line is `path = content`");
            tree.write(path, content);
        }
        tree
    }

    /// Writes a file, as the kernel does, with the end of a line.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    /// Takes a file or a folder away.
    pub(crate) fn remove(&self, path: &str) {
        let path = self.0.join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
    }

    /// Where something in the tree is, as text.
    pub(crate) fn path(&self, path: &str) -> String {
        self.0.join(path).display().to_string()
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots { sysfs: self.0.join("sys"), resctrl: self.0.join("resctrl") }
    }

    pub(crate) fn powercap(&self) -> PathBuf {
        self.0.join("sys/class/powercap")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Whatever is left over lies in the build's folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
