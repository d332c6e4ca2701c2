//! The file of a page.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Checks, before anything is measured for minutes, that a page can be written to `path`.
///
/// # Errors
///
/// Names the file and what is in its way.
pub fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        bail!("cannot write {shown}: it is a folder; name a file");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        bail!("cannot write {shown}: its folder does not exist");
    }
    Ok(())
}

/// Writes a page, and says on standard error where it is.
///
/// # Errors
///
/// Names the file.
pub fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("page with charts: {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_file_is_told_before() {
        let folder = std::env::temp_dir();
        assert!(check(&folder).unwrap_err().to_string().contains("it is a folder"));
        let nowhere = folder.join("no-such-folder").join("page.html");
        assert!(check(&nowhere).unwrap_err().to_string().contains("does not exist"));
        check(Path::new("page.html")).unwrap();
        check(&folder.join("page.html")).unwrap();
    }
}
