//! Notices that a configuration, or a certificate that it names, has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Config;

/// What a set of files looked like at one time.
///
/// Files are looked at by name and through links, and not held on to by the kernel's notifications:
/// orchestrators renew them by putting a link elsewhere, of which the file itself is never told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched(Vec<(PathBuf, Option<Look>)>);

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    modified: Option<SystemTime>,
    changed_ns: (i64, i64),
    length: u64,
    inode: u64,
}

impl Watched {
    /// Looks at the configuration's own file and at those that it names.
    pub fn look(file: &Path, config: &Config) -> Self {
        let mut paths = vec![file.to_owned()];
        if let Some(tls) = &config.tls {
            paths.extend([tls.certificate.clone(), tls.key.clone()]);
            paths.extend(tls.client_authorities.clone());
        }
        for upstream in config.upstreams.values() {
            let tls = &upstream.tls;
            let files = [&tls.authorities, &tls.certificate, &tls.key];
            paths.extend(files.into_iter().flatten().cloned());
        }
        let look = |path: PathBuf| {
            let look = std::fs::metadata(&path).ok().as_ref().map(Look::of);
            (path, look)
        };
        Self(paths.into_iter().map(look).collect())
    }

    /// The same looks, at the files that `config` names; those that were not looked at are now.
    #[must_use]
    pub fn with(&self, file: &Path, config: &Config) -> Self {
        let mut next = Self::look(file, config);
        for (path, look) in &mut next.0 {
            if let Some((_, before)) = self.0.iter().find(|(known, _)| known == path) {
                *look = *before;
            }
        }
        next
    }

    /// Looks at the same files again.
    #[must_use]
    pub fn again(&self) -> Self {
        let look = |(path, _): &(PathBuf, Option<Look>)| {
            (path.clone(), std::fs::metadata(path).ok().as_ref().map(Look::of))
        };
        Self(self.0.iter().map(look).collect())
    }
}

impl Look {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            inode: metadata.ino(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_change_or_are_replaced_or_go_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("proxy.toml");
        let link = folder.path().join("link.toml");
        std::fs::write(&file, "a").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let config = Config::default();
        let first = Watched::look(&link, &config);
        assert_eq!(first.again(), first);
        std::fs::write(&file, "ab").unwrap();
        let second = first.again();
        assert_ne!(second, first);
        let other = folder.path().join("other.toml");
        std::fs::write(&other, "ab").unwrap();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let third = second.again();
        assert_ne!(third, second, "the link leads elsewhere");
        std::fs::remove_file(&other).unwrap();
        assert_ne!(third.again(), third);
    }
}
