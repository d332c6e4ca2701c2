//! The service's side.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::{fmt, process};

use memmap2::{MmapOptions, MmapRaw};
use thiserror::Error;

use super::description::{Description, Malformed, check_name};
use super::layout::{Page, SHARDS, SIZE};
use super::orders::Orders;
use super::reader;
use super::shard::Shard;

/// Anybody may read how a service fares; its owner and root may order.
const MODE: u32 = 0o644;

/// A service's own page, which is removed when this is dropped.
///
/// The file must not be cut while it is mapped: the service would end with SIGBUS when it counts.
/// Only its owner and root can do that, who can end it anyway.
pub struct Publisher {
    path: PathBuf,
    description: Description,
    /// Device and inode of the file, which tell it from another of the same name.
    file: (u64, u64),
    map: MmapRaw,
}

/// Why a service has no page.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unpublished {
    /// It cannot be described.
    #[error("{name:?} cannot have a page: {problem}")]
    Name {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: Malformed,
    },
    /// Another service of this name has a page of the same name, and it may be alive.
    #[error("another service has the page {}; give them different names", .0.display())]
    Taken(PathBuf),
    /// The file could not be made.
    #[error("cannot make the page {}: {problem}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        problem: io::Error,
    },
}

impl Publisher {
    /// Makes the page `<folder>/<name>.<pid>.page`. It appears complete: it is written under
    /// another name first. A page of the same name whose process has gone is replaced.
    ///
    /// # Errors
    ///
    /// When the name has other characters than [`Description::name`] allows, the folder is missing,
    /// full or may not be written, or another service has the page.
    pub fn create(folder: &Path, description: &Description) -> Result<Self, Unpublished> {
        let Description { name, process, .. } = description;
        check_name(name).map_err(|problem| Unpublished::Name { name: name.clone(), problem })?;
        // Two services of a process draft side by side.
        static DRAFTS: AtomicU32 = AtomicU32::new(0);
        let draft = DRAFTS.fetch_add(1, Relaxed);
        let draft = folder.join(format!(".{name}.{}.{draft}.draft", process.pid));
        let io = |path: &Path| {
            let path = path.to_owned();
            move |problem| Unpublished::Io { path, problem }
        };
        let drafted = write(&draft, description).map_err(io(&draft));
        let placed = drafted.and_then(|(file, map)| {
            // Containers may share a folder, and in each of them the service may be process 1.
            let path = folder.join(format!("{name}.{}.page", process.pid));
            let namespace = process.namespace;
            let longer = folder.join(format!("{name}.{}.{namespace}.page", process.pid));
            let path = if place(&draft, &path, description).map_err(io(&path))? {
                path
            } else if is_foreign(&path, description)
                && place(&draft, &longer, description).map_err(io(&longer))?
            {
                longer
            } else {
                return Err(Unpublished::Taken(path));
            };
            Ok(Self { path, description: description.clone(), file, map })
        });
        // It has a better name now, or has come to nothing.
        let _ = fs::remove_file(&draft);
        placed
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose page it is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Counters for one of several threads. Any number will do: there are [`SHARDS`] of them.
    pub fn shard(&self, number: usize) -> &Shard {
        &self.page().shards[number % SHARDS]
    }

    /// What the agent orders, whether or not it still lives: see [`Orders::standing`].
    pub fn orders(&self) -> Orders {
        Orders::load(&self.page().agent)
    }

    /// Says that the service lives.
    pub fn beat(&self, now_ns: u64) {
        self.page().service.heartbeat_ns.store(now_ns, Relaxed);
    }

    /// The service boosts itself until then, monotonic nanoseconds; an earlier time than before
    /// changes nothing.
    pub fn boost_until(&self, until_ns: u64) {
        self.page().service.boosted_until_ns.fetch_max(until_ns, Relaxed);
    }

    /// Speed at `now_ns` in thousandths of the base: as ordered, boosted by the agent or by the
    /// service itself. For services whose CPU is counted in virtual cores.
    pub fn speed(&self, now_ns: u64) -> u32 {
        let mut orders = self.orders().standing(now_ns);
        let own = self.page().service.boosted_until_ns.load(Relaxed);
        orders.boosted_until_ns = orders.boosted_until_ns.max(own);
        orders.speed(now_ns)
    }

    /// A request came later than it should have ([`Orders::expected_time_from_start_ns`]).
    pub fn on_late(&self) {
        self.page().service.late.fetch_add(1, Relaxed);
    }

    /// The agent's doorbell could not be rung.
    pub fn on_bell_lost(&self) {
        self.page().service.bells_lost.fetch_add(1, Relaxed);
    }

    /// Its virtual cores have been occupied for so long since it began, all together. A service
    /// that does not model its cores says nothing: the system counts its CPU time.
    pub fn set_cpu_time(&self, total_ns: u64) {
        self.page().service.cpu_ns.store(total_ns, Relaxed);
    }

    /// The service stands still since `since_ns`, and is predicted to until `ends_ns`; say so again
    /// when the prediction changes, and [beat](Self::beat) at least every
    /// [`PAUSE_BEAT_NS`](super::PAUSE_BEAT_NS).
    pub fn pause(&self, since_ns: u64, ends_ns: u64) {
        let service = &self.page().service;
        service.pause_ends_ns.store(ends_ns, Relaxed);
        // Who sees that it stands still sees until when.
        service.paused_since_ns.store(since_ns.max(1), Release);
    }

    /// The service goes on, and stood still for so long.
    pub fn resume(&self, paused_ns: u64) {
        let service = &self.page().service;
        service.paused_since_ns.store(0, Release);
        service.paused_ns.fetch_add(paused_ns, Relaxed);
        service.pauses.fetch_add(1, Relaxed);
    }

    /// A request's hint was not believed.
    pub fn on_hint_distrusted(&self) {
        self.page().service.hints_distrusted.fetch_add(1, Relaxed);
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping is of SIZE bytes, which is the size of a Page, begins at the begin of
        // a memory page, which is more than its alignment, and lives as long as self. Every bit
        // pattern is a Page, and all of it is atomic, whoever else writes it.
        unsafe { &*self.map.as_ptr().cast::<Page>() }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // A child that was forked has this too, and the page is not its own.
        let is_own = process::id() == self.description.process.pid;
        let is_same = || identity(&self.path).is_ok_and(|file| file == self.file);
        if is_own && is_same() {
            // Readers recognise a page whose process has gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Writes and maps a page that nobody knows yet.
fn write(draft: &Path, description: &Description) -> io::Result<((u64, u64), MmapRaw)> {
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(draft).or_else(
            |problem| {
                // Left by an earlier process of the same number that was killed while it drafted.
                if problem.kind() != io::ErrorKind::AlreadyExists {
                    return Err(problem);
                }
                fs::remove_file(draft)?;
                OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(draft)
            },
        )?;
    // All of it: a full disk is found here, and not when the first counter is touched.
    file.write_all(&description.to_page())?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    let metadata = file.metadata()?;
    let map = MmapOptions::new().len(SIZE).map_raw(&file)?;
    Ok(((metadata.dev(), metadata.ino()), map))
}

/// Gives the draft its name, unless somebody who may be alive has it.
fn place(draft: &Path, path: &Path, description: &Description) -> io::Result<bool> {
    match fs::hard_link(draft, path) {
        Ok(()) => Ok(true),
        Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {
            let is_stale = match reader::describe(path) {
                Ok(there) => {
                    there.process.namespace == description.process.namespace
                        && there.process.find()?.is_none()
                }
                // What is no page keeps nobody from having one.
                Err(_) => true,
            };
            if is_stale {
                fs::rename(draft, path)?;
            }
            Ok(is_stale)
        }
        Err(problem) => Err(problem),
    }
}

/// Whether a page belongs to another PID namespace, in which the same number is another process.
fn is_foreign(path: &Path, description: &Description) -> bool {
    reader::describe(path)
        .is_ok_and(|there| there.process.namespace != description.process.namespace)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
