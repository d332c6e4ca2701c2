//! Late requests of which services tell: where the kernel takes no program, or cannot read them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use seawall_abi::responder::{DOORBELL, LATE_SIZE, Late};
use seawall_control::Instant;
use seawall_control::scaling::responder;
use thiserror::Error;

use super::clock::monotonic_now;
use super::config::{Config, Path, Refused, Service, allowed};
use super::table::{Services, Slot, Table};
use super::worker::{Boost, Decision, Raised, Shared, WorkerConfig, WorkerStats, enter};

/// Rings that are heard in a [`PAUSE`]. Then the thread, which has real-time priority, sleeps for
/// one: who rings without end takes no CPU from others.
const RINGS_MAX: u32 = 64;

/// The socket holds what comes while the thread sleeps, or has no room for it.
const PAUSE: Duration = Duration::from_millis(1);

/// The agent's end of the doorbell (docs/metrics-page.md): a thread that listens, freezes paths as
/// the program in the kernel does, and raises. It ends when this is dropped, and lowers what is
/// still raised.
///
/// Slots are given as [`FirstResponder`](super::FirstResponder) gives them: who tells both the same
/// services in the same order has the same slots.
#[derive(Debug)]
pub struct Bell {
    ear: Arc<Mutex<Ear>>,
    shared: Arc<Shared>,
    heard: Arc<Heard>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

/// What has been heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BellStats {
    /// Datagrams.
    pub rung: u64,
    /// Those that led to no decision.
    pub ignored: u64,
    /// By why: see [`ignored_by`](Self::ignored_by).
    by: [u64; REASONS.len()],
    /// What was done.
    pub worker: WorkerStats,
}

/// Why a ring leads to no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ignored {
    NoRecord,
    NoService,
    Absurd,
    Frozen,
    Share,
}

/// In the order of [`Ignored`].
const REASONS: [&str; 5] = ["no_record", "no_service", "absurd", "frozen", "share"];

impl BellStats {
    /// Rings that led to no decision: they are no record, of a port of no service, absurd, of a
    /// frozen path, or all whom they would have boosted had had their share of time.
    pub fn ignored_by(&self) -> [(&'static str, u64); REASONS.len()] {
        std::array::from_fn(|place| (REASONS[place], self.by[place]))
    }

    /// Rings that were believed to be of late requests.
    pub fn late(&self) -> u64 {
        let [_, _, _, frozen, share] = self.by;
        self.worker.decisions + frozen + share
    }
}

/// Why nothing is heard.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BellError {
    /// It cannot be told that.
    #[error("the FirstResponder's configuration is refused")]
    Config(#[from] Refused),
    /// Another agent is there.
    #[error("somebody listens at {0} already; stop it, or give this agent another folder of pages")]
    Taken(PathBuf),
    /// There is no socket to be had.
    #[error("cannot listen at {path}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[derive(Debug, Default)]
struct Heard {
    rung: AtomicU64,
    ignored: [AtomicU64; REASONS.len()],
}

impl Bell {
    /// Listens beside the pages in `folder`. A socket that a dead agent has left is replaced.
    ///
    /// # Errors
    ///
    /// If another agent listens there, or there is no socket to be had.
    pub fn listen(
        folder: &FilePath,
        config: &Config,
        worker: WorkerConfig,
        boost: Box<dyn Boost>,
    ) -> Result<Self, BellError> {
        config.validate()?;
        let path = folder.join(DOORBELL);
        let failed = |source| BellError::Io { path: path.clone(), source };
        let socket = bind(&path).map_err(failed)?.ok_or_else(|| BellError::Taken(path.clone()))?;
        let (ear, shared) = (Arc::new(Mutex::new(Ear::new(config))), Arc::new(Shared::default()));
        let heard = Arc::new(Heard::default());
        let its = (ear.clone(), shared.clone(), heard.clone());
        let thread = thread::Builder::new().name("doorbell".into()).spawn(move || {
            let (ear, shared, heard) = its;
            shared.is_realtime.store(enter(worker), Ordering::Relaxed);
            if let Err(error) = listen(&socket, &ear, &shared, &heard, boost) {
                tracing::error!("the doorbell is not heard any more: {error}");
            }
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { ear, shared, heard, thread, path })
    }

    /// From now on these services may ring, and no others.
    ///
    /// # Errors
    ///
    /// If they are refused, and then nothing has changed.
    pub fn set_services(&self, services: &[Service]) -> Result<(), Refused> {
        let mut ear = lock(&self.ear);
        ear.table = ear.table.next(services)?;
        Ok(())
    }

    /// The same with a table that others have, too.
    pub fn follow(&self, services: &Services) {
        let mut ear = lock(&self.ear);
        let slots = &services.0.slots;
        let known: Vec<Slot> = slots.values().copied().collect();
        ear.turns.retain(|slot, _| known.contains(slot));
        ear.table = services.0.clone();
    }

    /// Sets for how long paths are frozen that have no window of their own.
    ///
    /// # Errors
    ///
    /// If it is refused, and then nothing has changed.
    pub fn set_window(&self, window: Duration) -> Result<(), Refused> {
        allowed("window", window)?;
        lock(&self.ear).config.window = window;
        Ok(())
    }

    /// Hears nothing more; what it had raised is lowered.
    pub fn rest(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that has been reported.
            let _ = thread.join();
        }
    }

    /// Sets for how long these paths are frozen; the others keep what they have.
    ///
    /// # Errors
    ///
    /// If a window is refused, and then nothing has changed.
    pub fn set_paths(&self, paths: &[Path]) -> Result<(), Refused> {
        paths.iter().try_for_each(Path::validate)?;
        lock(&self.ear).windows.extend(paths.iter().map(|path| (path.number, path.window)));
        Ok(())
    }

    /// The slot of a service.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        lock(&self.ear).table.slots.get(name).copied()
    }

    /// What has been heard and done.
    pub fn stats(&self) -> BellStats {
        let by = self.heard.ignored.each_ref().map(|count| count.load(Ordering::Relaxed));
        BellStats {
            rung: self.heard.rung.load(Ordering::Relaxed),
            ignored: by.iter().sum(),
            by,
            worker: self.shared.stats(),
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.rest();
        // Somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock(ear: &Mutex<Ear>) -> MutexGuard<'_, Ear> {
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` if somebody listens there.
fn bind(path: &FilePath) -> io::Result<Option<UnixDatagram>> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A service that may make files beside the pages is no agent.
            let owner = fs::symlink_metadata(path)?.uid();
            let is_agents = owner == 0 || owner == geteuid().as_raw();
            if is_agents && UnixDatagram::unbound()?.connect(path).is_ok() {
                return Ok(None);
            }
            fs::remove_file(path)?;
            open(path).map(Some)
        }
        bound => bound.map(Some),
    }
}

/// The socket, at which whoever may put a page beside it may ring: services of other users, too.
///
/// Its mode comes from the mask of the process. To change that of the path afterwards would be to
/// change what somebody has put there meanwhile.
fn open(path: &FilePath) -> io::Result<UnixDatagram> {
    static MASK: Mutex<()> = Mutex::new(());
    let folder = path.parent().map(fs::metadata).transpose()?;
    let writes = folder.map_or(0, |folder| folder.mode() & 0o022);
    let _turn = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let before = umask(Mode::from_bits_truncate(0o022 & !writes));
    let bound = UnixDatagram::bind(path);
    umask(before);
    bound
}

fn listen(
    socket: &UnixDatagram,
    ear: &Mutex<Ear>,
    shared: &Shared,
    heard: &Heard,
    boost: Box<dyn Boost>,
) -> io::Result<()> {
    let mut raised = Raised::new(boost, shared);
    let mut bytes = [0; LATE_SIZE + 1];
    let (mut since, mut rings) = (monotonic_now(), 0);
    while !shared.stop.load(Ordering::Relaxed) {
        let now = monotonic_now();
        let sleep = raised.lower_until(now);
        if now.since(since) >= PAUSE {
            (since, rings) = (now, 0);
        } else if rings >= RINGS_MAX {
            thread::sleep(PAUSE);
            continue;
        }
        rings += 1;
        socket.set_read_timeout(Some(sleep))?;
        let len = match socket.recv(&mut bytes) {
            Ok(len) => len,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => continue,
                _ => return Err(error),
            },
        };
        heard.rung.fetch_add(1, Ordering::Relaxed);
        match lock(ear).hear(monotonic_now(), &bytes[..len]) {
            Ok(decision) => raised.raise(&decision),
            Err(why) => _ = heard.ignored[why as usize].fetch_add(1, Ordering::Relaxed),
        }
    }
    raised.lower_until(Instant::from_nanos(u64::MAX));
    Ok(())
}

/// Decides, and does nothing.
#[derive(Debug)]
struct Ear {
    table: Table,
    config: Config,
    windows: BTreeMap<u16, Duration>,
    responder: responder::Responder,
    turns: BTreeMap<Slot, responder::Turn>,
}

impl Ear {
    fn new(config: &Config) -> Self {
        Self {
            table: Table::default(),
            config: config.clone(),
            windows: BTreeMap::new(),
            responder: responder::Responder::new(),
            turns: BTreeMap::new(),
        }
    }

    fn hear(&mut self, now: Instant, bytes: &[u8]) -> Result<Decision, Ignored> {
        let late = Late::parse(bytes).map_err(|_| Ignored::NoRecord)?;
        // Services of several addresses cannot be told apart by their port.
        let slot = self.table.ports.get(&late.port).ok_or(Ignored::NoService)?;
        let mut raised = self.table.rows.get(slot).ok_or(Ignored::NoService)?.raised.clone();
        let late_by = Duration::from_nanos(late.late_by_ns);
        let window = self.windows.get(&late.path).copied().unwrap_or(self.config.window);
        // The service has taken off what is expected.
        let expected = Some(Duration::ZERO);
        let config = responder::Config { expected, window, age_max: self.config.age_max };
        if responder::lateness(late_by, &config).is_none() {
            return Err(Ignored::Absurd);
        }
        let late_by = self.responder.on_arrival(now, late.path, late_by, &config);
        let late_by = late_by.ok_or(Ignored::Frozen)?;
        let mut until = now + self.config.boost;
        let (wanted, boosted_max) = (until, self.config.boosted_max);
        raised.retain(|slot| {
            let end = self.turns.entry(*slot).or_default().grant(now, wanted, boosted_max);
            until = until.min(end.unwrap_or(until));
            end.is_some()
        });
        if raised.is_empty() {
            return Err(Ignored::Share);
        }
        Ok(Decision { at: now, until, late_by, path: late.path, raised })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::sync::mpsc::{Sender, channel};

    use seawall_abi::responder::Doorbell;

    use super::super::Protocol;
    use super::*;

    fn services() -> [Service; 2] {
        let service = |name: &str, port, downstream: &[&str]| Service {
            name: name.into(),
            port,
            addresses: Vec::new(),
            protocol: Protocol::Native,
            expected: Duration::from_millis(1),
            downstream: downstream.iter().map(ToString::to_string).collect(),
        };
        [service("front", 80, &["back"]), service("back", 81, &[])]
    }

    fn late(path: u16, port: u16, late_by_ns: u64) -> Late {
        Late { path, port, late_by_ns, ..Late::default() }
    }

    #[test]
    fn a_ring_raises_once_per_path_and_window() {
        let mut ear = Ear::new(&Config::default());
        ear.table = ear.table.next(&services()).unwrap();
        ear.windows.insert(7, Duration::from_millis(5));
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        let mut hear = |ms, late: Late| ear.hear(at(ms), &late.to_bytes());
        let decision = hear(0, late(1, 80, 9)).unwrap();
        assert_eq!((decision.raised.len(), decision.until), (2, at(100)));
        assert_eq!(decision.late_by, Duration::from_nanos(9));
        assert_eq!(hear(19, late(1, 81, 9)), Err(Ignored::Frozen));
        assert_eq!(hear(20, late(1, 81, 9)).unwrap().raised.len(), 1);
        assert!(hear(0, late(7, 80, 9)).is_ok() && hear(4, late(7, 80, 9)).is_err());
        assert!(hear(5, late(7, 80, 9)).is_ok());
        assert_eq!(hear(50, late(3, 99, 9)), Err(Ignored::NoService));
        for absurd in [late(3, 80, 0), late(3, 80, u64::MAX)] {
            assert_eq!(hear(50, absurd), Err(Ignored::Absurd), "{absurd:?}");
        }
        // Both began their turns at 0, which end after half a second.
        assert_eq!(hear(450, late(4, 80, 9)).unwrap().until, at(500));
        assert_eq!(hear(500, late(4, 80, 9)), Err(Ignored::Share));
        assert_eq!(hear(1_100, late(4, 80, 9)).unwrap().until, at(1_200));
        assert_eq!(ear.hear(at(60), b"SWLT"), Err(Ignored::NoRecord));
    }

    struct Teller(Sender<Vec<Slot>>);

    impl Boost for Teller {
        fn raise(&mut self, decision: &Decision) -> io::Result<()> {
            self.0.send(decision.raised.clone()).map_err(io::Error::other)
        }

        fn lower(&mut self, slot: Slot) -> io::Result<()> {
            self.0.send(vec![slot]).map_err(io::Error::other)
        }
    }

    #[test]
    fn who_may_publish_may_ring() {
        let folder = tempfile::tempdir().unwrap();
        for (folder_mode, mode) in [(0o1777, 0o777), (0o770, 0o775), (0o755, 0o755)] {
            let mode_of = |path: &FilePath| fs::metadata(path).unwrap().mode() & 0o777;
            let permissions = fs::Permissions::from_mode(folder_mode);
            fs::set_permissions(folder.path(), permissions).unwrap();
            let worker = WorkerConfig { priority: None };
            let (tell, _told) = channel();
            let boost = Box::new(Teller(tell));
            let bell = Bell::listen(folder.path(), &Config::default(), worker, boost).unwrap();
            assert_eq!(mode_of(&folder.path().join(DOORBELL)), mode, "{folder_mode:o}");
            drop(bell);
        }
    }

    #[test]
    fn a_service_that_listens_there_keeps_no_agent_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DOORBELL);
        let _its = UnixDatagram::bind(&path).unwrap();
        if chown(&path, Some(65_534), None).is_err() {
            eprintln!("not tested: only root makes another user's socket");
            return;
        }
        let (tell, _told) = channel();
        let (worker, boost) = (WorkerConfig { priority: None }, Box::new(Teller(tell)));
        let bell = Bell::listen(folder.path(), &Config::default(), worker, boost).unwrap();
        assert!(Doorbell::new(folder.path()).unwrap().ring(&late(1, 80, 9)));
        drop(bell);
    }

    #[test]
    fn a_service_that_rings_is_raised_and_lowered_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3_600);
        let config = Config { boost: hour, boosted_max: hour, ..Config::default() };
        let (tell, told) = channel();
        let worker = WorkerConfig { priority: None };
        let listen = |tell| {
            Bell::listen(folder.path(), &config, worker, Box::new(Teller(tell)) as Box<dyn Boost>)
        };
        // What a dead agent has left.
        drop(UnixDatagram::bind(folder.path().join(DOORBELL)).unwrap());
        let bell = listen(tell.clone()).unwrap();
        assert!(matches!(listen(tell), Err(BellError::Taken(_))));
        bell.set_services(&services()).unwrap();
        let (front, back) = (bell.slot("front").unwrap(), bell.slot("back").unwrap());

        let service = Doorbell::new(folder.path()).unwrap();
        assert!(service.ring(&late(1, 99, 9)));
        assert!(service.ring(&late(1, 80, 9)));
        let wait = || told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(wait(), [front, back]);
        let stats = bell.stats();
        assert_eq!((stats.rung, stats.ignored, stats.worker.decisions), (2, 1, 1));
        drop(bell);
        let mut lowered = [wait(), wait()].concat();
        lowered.sort_unstable();
        let mut both = [front, back];
        both.sort_unstable();
        assert_eq!(lowered, both);
        assert!(!service.ring(&late(1, 80, 9)), "nobody is there");
    }
}
