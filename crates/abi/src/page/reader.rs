//! The agent's side, and that of anybody who looks.
//!
//! Who made a page is not trusted. It is not mapped: its owner could cut the file at any time, and
//! whoever touches a mapped page beyond the end of its file ends with SIGBUS. A file behind a
//! name cannot be sealed against that (`F_SEAL_SHRINK` is for files without one). Plain reads and
//! writes return an error instead, take about a microsecond, and see the same memory.
//!
//! Linux copies aligned words of 8 bytes as such, so a counter is never half old and half new.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use thiserror::Error;

use super::description::{Description, Malformed, long};
use super::layout::{FIRST_SHARD, SHARD_SIZE, SHARDS, SIZE, at};
use super::orders::Orders;
use super::shard::{Counters, positive};
use crate::process::{self, Index, Process};

/// A service's page, seen from outside.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    description: Description,
    pid: u32,
    uid: u32,
}

/// Why a page is not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is a link, a folder, a pipe or a device.
    #[error("it is no ordinary file")]
    NotAFile,
    /// It is shorter or longer than a page, or was cut since.
    #[error("it has {0} bytes; a page has {SIZE}")]
    Size(u64),
    /// Its bytes are no page.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The file's name is not that of this service and process.
    #[error("its name does not begin with {expected:?}, which is what it says it is")]
    Misnamed {
        /// How its name should begin.
        expected: String,
    },
    /// Its process has gone, or the number is another process's by now.
    #[error("process {}, begun at {}, has gone", .0.pid, .0.start_ticks)]
    Gone(Process),
    /// The file belongs to somebody else than the process that it names.
    #[error("it belongs to user {uid}, and process {pid} does not act as that user")]
    Stranger {
        /// Owner of the file.
        uid: u32,
        /// Process, as numbered here.
        pid: u32,
    },
    /// The system does not let it be read, or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the service says besides its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceState {
    /// When it last said that it lives, monotonic nanoseconds.
    pub heartbeat_ns: u64,
    /// It boosts itself until then, monotonic nanoseconds.
    pub boosted_until_ns: u64,
    /// Requests that came later than they should have.
    pub late: u64,
    /// Times at which it could not ring the agent's doorbell.
    pub bells_lost: u64,
    /// Hints of senders that it does not believe.
    pub hints_distrusted: u64,
    /// For how long its virtual cores were occupied, nanoseconds; 0 where it models none.
    pub cpu_ns: u64,
    /// Times at which it stood still.
    pub pauses: u64,
    /// For how long, all together, nanoseconds.
    pub paused_ns: u64,
}

/// A service that stands still says so often that it lives. Who has said nothing for so long has
/// died, or was killed, and its last words do not count.
pub const PAUSE_BEAT_NS: u64 = 250_000_000;

/// A pause in which a service stands still, as when a collector stops the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Since then, monotonic nanoseconds.
    pub since_ns: u64,
    /// Until then, as predicted, monotonic nanoseconds. May have passed.
    pub ends_ns: u64,
}

impl Reader {
    /// Opens a page and looks whose it is.
    ///
    /// # Errors
    ///
    /// When it is no page, or its process has gone or is another user's. Whoever has the pages'
    /// folder may remove those that are [`Gone`](Unreadable::Gone).
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Unreadable> {
        Self::open_with(path, &mut Index::default())
    }

    /// The same for many pages, whose processes are looked for in one walk.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_with(path: impl Into<PathBuf>, index: &mut Index) -> Result<Self, Unreadable> {
        let path = path.into();
        let file = open(&path)?;
        let uid = file.metadata()?.uid();
        let description = Description::parse(&read(&file)?)?;
        let expected = format!("{}.{}.", description.name, description.process.pid);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(&expected) {
            return Err(Unreadable::Misnamed { expected });
        }
        let gone = || Unreadable::Gone(description.process);
        let pid = index.find(&description.process)?.ok_or_else(gone)?;
        // It may go between the two questions.
        if !process::acts_as(pid, uid).map_err(|_| gone())? {
            return Err(Unreadable::Stranger { uid, pid });
        }
        Ok(Self { file, path, description, pid, uid })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose page it is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The process as numbered here; in its container it may have another number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether its process still lives.
    pub fn is_alive(&self) -> bool {
        self.description.process.is(self.pid)
    }

    /// Whether its file still has the name by which it was opened.
    pub fn is_in_place(&self) -> bool {
        let there = fs::symlink_metadata(&self.path);
        let own = self.file.metadata();
        there.is_ok_and(|there| {
            own.is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        })
    }

    /// The user to whom its file belongs.
    pub fn owner(&self) -> u32 {
        self.uid
    }

    /// What the service has counted.
    ///
    /// # Errors
    ///
    /// When the file was cut or cannot be read any more.
    pub fn counters(&self) -> Result<Counters, Unreadable> {
        Ok(counters(&read(&self.file)?))
    }

    /// What the service says besides.
    ///
    /// # Errors
    ///
    /// As [`counters`](Self::counters).
    pub fn service(&self) -> Result<ServiceState, Unreadable> {
        Ok(state(&read(&self.file)?))
    }

    /// The pause in which the service stands still, if it does. Cheaper than all of the page.
    ///
    /// # Errors
    ///
    /// As [`counters`](Self::counters).
    pub fn pause(&self, now_ns: u64) -> Result<Option<Pause>, Unreadable> {
        const BEGIN: usize = at("service.heartbeat_ns");
        let mut block = [0; at("service.pause_ends_ns") + 8 - BEGIN];
        self.file.read_exact_at(&mut block, BEGIN as u64).map_err(cut)?;
        let word = |field: usize| long(&block, field - BEGIN);
        let [since_ns, ends_ns] =
            [at("service.paused_since_ns"), at("service.pause_ends_ns")].map(word);
        let is_alive = now_ns.saturating_sub(word(BEGIN)) < PAUSE_BEAT_NS;
        Ok((since_ns != 0 && is_alive).then_some(Pause { since_ns, ends_ns }))
    }

    /// Both, of one moment.
    ///
    /// # Errors
    ///
    /// As [`counters`](Self::counters).
    pub fn look(&self) -> Result<(ServiceState, Counters), Unreadable> {
        let page = read(&self.file)?;
        Ok((state(&page), counters(&page)))
    }

    /// What stands in the page as ordered, as far as it makes sense.
    ///
    /// # Errors
    ///
    /// As [`counters`](Self::counters).
    pub fn orders(&self) -> Result<Orders, Unreadable> {
        Ok(Orders::parse(&read(&self.file)?))
    }

    /// Orders anew, all but [`boosted_until_ns`](Orders::boosted_until_ns): whoever boosts is
    /// faster than who orders, and must not be overtaken by what was decided before.
    ///
    /// # Errors
    ///
    /// When the page may not be written.
    pub fn set_orders(&self, orders: &Orders) -> Result<(), Unreadable> {
        self.file.write_all_at(&orders.to_bytes(), at("agent.boost_permille") as u64)?;
        let [heartbeat, lease] = [orders.heartbeat_ns, orders.lease_ns].map(u64::to_le_bytes);
        self.file.write_all_at(&[heartbeat, lease].concat(), at("agent.heartbeat_ns") as u64)?;
        Ok(())
    }

    /// Says that the agent lives: its orders stand for another lease.
    ///
    /// # Errors
    ///
    /// When the page may not be written.
    pub fn beat(&self, now_ns: u64) -> Result<(), Unreadable> {
        Ok(self.file.write_all_at(&now_ns.to_le_bytes(), at("agent.heartbeat_ns") as u64)?)
    }

    /// Boosts the service until then, monotonic nanoseconds, at the speed of the orders.
    ///
    /// # Errors
    ///
    /// When the page may not be written.
    pub fn boost_until(&self, until_ns: u64) -> Result<(), Unreadable> {
        Ok(self.file.write_all_at(&until_ns.to_le_bytes(), at("agent.boosted_until_ns") as u64)?)
    }
}

fn counters(page: &[u8; SIZE]) -> Counters {
    let sum = |field: &str| {
        let offset = at(field);
        let shard = |number: usize| long(page, FIRST_SHARD + number * SHARD_SIZE + offset);
        (0..SHARDS).map(shard).fold(0, u64::wrapping_add)
    };
    let requests = sum("shard.served");
    let shed = sum("shard.shed");
    let unserved = sum("shard.unserved");
    let ended = requests.wrapping_add(shed).wrapping_add(unserved);
    Counters {
        requests,
        // A request may end between its arrival's count and its end's.
        in_flight: sum("shard.arrived").saturating_sub(ended),
        exec_ns: sum("shard.exec_ns"),
        pool_wait_ns: sum("shard.pool_wait_ns"),
        started: sum("shard.started"),
        time_from_start_ns: sum("shard.time_from_start_ns"),
        upstream_exec_ns: sum("shard.upstream_exec_ns"),
        hinted: sum("shard.hinted"),
        shed,
        unserved,
        // It may be in another shard that a wait has ended.
        waiting: positive(sum("shard.waiting")),
        waiting_since_ns: sum("shard.waiting_since_ns"),
    }
}

fn state(page: &[u8; SIZE]) -> ServiceState {
    ServiceState {
        heartbeat_ns: long(page, at("service.heartbeat_ns")),
        boosted_until_ns: long(page, at("service.boosted_until_ns")),
        late: long(page, at("service.late")),
        bells_lost: long(page, at("service.bells_lost")),
        hints_distrusted: long(page, at("service.hints_distrusted")),
        cpu_ns: long(page, at("service.cpu_ns")),
        pauses: long(page, at("service.pauses")),
        paused_ns: long(page, at("service.paused_ns")),
    }
}

/// What a page says of itself, whether or not its process lives.
pub(super) fn describe(path: &Path) -> Result<Description, Unreadable> {
    Ok(Description::parse(&read(&open(path)?)?)?)
}

fn open(path: &Path) -> Result<File, Unreadable> {
    // Opening a device may do something: look first.
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(Unreadable::NotAFile);
    }
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let with = |is_writing: bool| {
        OpenOptions::new().read(true).write(is_writing).custom_flags(flags).open(path)
    };
    // Those who only look may be others than those who order.
    let opened = with(true).or_else(|problem| match problem.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => with(false),
        _ => Err(problem),
    });
    let file = opened.map_err(|problem| match problem.raw_os_error() {
        Some(code) if code == nix::libc::ELOOP => Unreadable::NotAFile,
        _ => problem.into(),
    })?;
    if !file.metadata()?.is_file() {
        return Err(Unreadable::NotAFile);
    }
    Ok(file)
}

fn read(file: &File) -> Result<[u8; SIZE], Unreadable> {
    let length = file.metadata()?.len();
    if length != SIZE as u64 {
        return Err(Unreadable::Size(length));
    }
    let mut page = [0; SIZE];
    file.read_exact_at(&mut page, 0).map_err(cut)?;
    Ok(page)
}

/// Why a page was not read to its end: it was cut since it was opened.
fn cut(problem: io::Error) -> Unreadable {
    match problem.kind() {
        io::ErrorKind::UnexpectedEof => Unreadable::Size(0),
        _ => problem.into(),
    }
}
