//! What raises one container, quickly.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use seawall_abi::page::Reader;
use seawall_control::Instant;

use crate::agent::actuator::{Actuator, ActuatorError, Cpufreq, QuotaLever, Target};

/// A container's CPU, speed or page, held so that it can be changed at once.
#[derive(Debug)]
pub(super) enum Lever {
    /// Thousandths of a CPU.
    Quota(QuotaLever),
    /// A step of the frequency ladder, and the one for boosts.
    Level(Cpufreq, Target, u32),
    /// The service obeys by itself, until then.
    Page(Reader),
}

impl Lever {
    /// Sets this amount; what then stands, as the actuator would read it.
    pub(super) fn write(&mut self, amount: u32) -> Result<u32, ActuatorError> {
        match self {
            Self::Quota(lever) => lever.write(amount),
            Self::Level(cpufreq, target, _) => {
                cpufreq.apply(target, amount)?;
                cpufreq.read(target)
            }
            Self::Page(_) => Ok(amount),
        }
    }

    /// Tells a service that obeys by itself until when.
    pub(super) fn until(&self, until: Instant) -> Result<(), ActuatorError> {
        let Self::Page(reader) = self else { return Ok(()) };
        let told = reader.boost_until(until.as_nanos());
        told.map_err(|error| ActuatorError::Remote(format!("{}: {error}", reader.path().display())))
    }
}

/// Bytes of such a file: two numbers.
const HELD_MAX: usize = 64;

/// A file of the kernel that stays open: to open it again takes longer than to write it.
#[derive(Debug)]
pub(in crate::agent) struct Held {
    path: PathBuf,
    file: File,
    /// Files of a recorded tree keep what is behind a shorter text; the kernel's have no length.
    is_ordinary: bool,
}

impl Held {
    pub(in crate::agent) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let is_ordinary = file.metadata()?.len() > 0;
        Ok(Self { path: path.to_owned(), file, is_ordinary })
    }

    pub(in crate::agent) fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds now.
    pub(in crate::agent) fn read(&self) -> std::io::Result<String> {
        let mut bytes = [0; HELD_MAX];
        let len = self.file.read_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes[..len]).trim_end().to_owned())
    }

    /// Writes in one call, which the kernel takes as one command.
    pub(in crate::agent) fn write(&self, text: &str) -> std::io::Result<()> {
        if self.is_ordinary {
            self.file.set_len(0)?;
        }
        self.file.write_all_at(text.as_bytes(), 0)
    }
}
