//! Whose page it is.

use std::io;

use thiserror::Error;

use super::layout::{MAGIC, NAME_MAX, SHARDS, SIZE, VERSION, at};
use crate::process::Process;

/// Whose page it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the service: 1 to 63 of `A-Z a-z 0-9 . _ -`, beginning with a letter or a digit.
    /// Replicas share it.
    pub name: String,
    /// Port on which it listens; 0 if it has none.
    pub port: u16,
    /// The process that publishes.
    pub process: Process,
}

impl Description {
    /// A service of this process.
    ///
    /// # Errors
    ///
    /// Where `/proc` is not mounted.
    pub fn of_this_process(name: impl Into<String>, port: u16) -> io::Result<Self> {
        Ok(Self { name: name.into(), port, process: Process::this()? })
    }

    /// The page's first bytes; everything after them begins as zero.
    pub(super) fn to_page(&self) -> [u8; SIZE] {
        let mut page = [0; SIZE];
        let mut put = |offset: usize, bytes: &[u8]| {
            page[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(at("magic"), &MAGIC);
        put(at("version"), &VERSION.to_le_bytes());
        put(at("size"), &(SIZE as u32).to_le_bytes());
        put(at("pid"), &self.process.pid.to_le_bytes());
        put(at("port"), &u32::from(self.port).to_le_bytes());
        put(at("start_ticks"), &self.process.start_ticks.to_le_bytes());
        put(at("namespace"), &self.process.namespace.to_le_bytes());
        put(at("shards"), &(SHARDS as u32).to_le_bytes());
        put(at("name"), self.name.as_bytes());
        page
    }

    /// Reads what [`to_page`](Self::to_page) wrote, or what anybody else did.
    pub(super) fn parse(page: &[u8; SIZE]) -> Result<Self, Malformed> {
        if page[at("magic")..][..MAGIC.len()] != MAGIC {
            return Err(Malformed::Magic);
        }
        let version = word(page, at("version"));
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let size = word(page, at("size"));
        if size as usize != SIZE {
            return Err(Malformed::Size(size));
        }
        let shards = word(page, at("shards"));
        if shards as usize != SHARDS {
            return Err(Malformed::Shards(shards));
        }
        let port = word(page, at("port"));
        let port = u16::try_from(port).map_err(|_| Malformed::Port(port))?;
        let field = &page[at("name")..][..NAME_MAX + 1];
        let end = field.iter().position(|byte| *byte == 0).ok_or(Malformed::Name)?;
        if field[end..].iter().any(|byte| *byte != 0) {
            return Err(Malformed::Name);
        }
        let name = str::from_utf8(&field[..end]).map_err(|_| Malformed::Name)?;
        check_name(name)?;
        let process = Process {
            pid: word(page, at("pid")),
            start_ticks: long(page, at("start_ticks")),
            namespace: long(page, at("namespace")),
        };
        Ok(Self { name: name.into(), port, process })
    }
}

/// Why a page is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It does not begin as one.
    #[error("it does not begin with SWPAGE")]
    Magic,
    /// It is of a version that is not known here.
    #[error("it is of version {0}; this program knows version {VERSION}")]
    Version(u32),
    /// It says that it has another size.
    #[error("it says that it has {0} bytes; a page has {SIZE}")]
    Size(u32),
    /// It says that it has another number of shards.
    #[error("it says that it has {0} shards; a page has {SHARDS}")]
    Shards(u32),
    /// Its port is none.
    #[error("{0} is no port; ports are 0 to 65535")]
    Port(u32),
    /// Its name is none.
    #[error(
        "its name is not 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"
    )]
    Name,
}

/// Names become names of files and of metrics, so they are of harmless characters.
pub(super) fn check_name(name: &str) -> Result<(), Malformed> {
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_fine = name.len() <= NAME_MAX
        && name.bytes().all(is_harmless)
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if is_fine { Ok(()) } else { Err(Malformed::Name) }
}

pub(super) fn word(page: &[u8; SIZE], offset: usize) -> u32 {
    u32::from_le_bytes(page[offset..offset + 4].try_into().expect("four bytes"))
}

pub(super) fn long(page: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(page[offset..offset + 8].try_into().expect("eight bytes"))
}
