//! Raises services by the packet: the FirstResponder (SurgeGuard §IV-A).
//!
//! ```text
//!   packet ─► netif_receive_skb ─► TCP of this machine
//!                │ eBPF: a late call, on a path that is not frozen?
//!                ├─► Boosts: a word for each service, in shared memory ─► virtual cores
//!                └─► ring buffer ─► worker ─► Boost ─► quotas, frequencies
//! ```
//!
//! `slack = expected - (now - start of the job)`; a request without slack raises its service and
//! those downstream of it on this node. Then its path is frozen: one request is noise, and the next
//! ones can only be better when the boost has worked (§IV-A, *Mitigating Frequent Updates*).
//!
//! Deviation: the paper has a kernel module with two threads on CPUs of their own. A program in the
//! kernel does the first one's work here, and of the second one's all that is a word in memory.

mod bell;
mod boosts;
mod clock;
mod config;
pub mod measure;
mod stats;
mod table;
mod unavailable;
mod worker;

use std::fmt;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};

use seawall_control::Instant;

pub use bell::{Bell, BellError, BellStats};
pub use boosts::Boosts;
pub use clock::monotonic_now;
pub(crate) use config::DURATION_MAX as EXPECTED_MAX;
pub use config::{Config, Path, Protocol, RAISED_MAX, Refused, SERVICES_MAX, Service};
pub use stats::Stats;
pub use table::{Services, Slot};
pub use unavailable::Unavailable;
pub use worker::{Boost, Decision, WorkerConfig, WorkerStats};

use crate::Cost;
use crate::programs::first_responder::{FirstResponderSkel, FirstResponderSkelBuilder, types};
use crate::refusal;
use table::Table;
use worker::Worker;

/// As the program numbers them.
const NATIVE: u32 = 0;
const THRIFT: u32 = 1;
const BY_ADDRESS: u32 = 1 << 31;

/// The program in the kernel. It is detached when this is dropped, and boosts end by themselves.
pub struct FirstResponder {
    /// Before the program: it ends first.
    worker: Option<Worker>,
    programs: FirstResponderSkel<'static>,
    table: Table,
    reads_tai: bool,
}

impl FirstResponder {
    /// Loads the program. Until [services](Self::set_services) are set it passes all packets by.
    ///
    /// # Errors
    ///
    /// What is missing, if the kernel does not take it; what is wrong with the configuration.
    pub fn load(config: &Config) -> Result<Self, Unavailable> {
        config.validate()?;
        refusal::log();
        // The programs refer to it for as long as they are loaded, and it is small.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let loading = Unavailable::from_loading;
        let open = FirstResponderSkelBuilder::default().open(object).map_err(loading)?;
        let programs = open.load().map_err(loading)?;
        let clock = programs.progs.reads_tai.test_run(ProgramInput::default()).map_err(loading)?;
        let reads_tai = clock.return_value != 0;
        let mut it = Self { worker: None, programs, table: Table::default(), reads_tai };
        let shared = it.shared();
        store(&mut shared.window_ns, nanos(config.window));
        store(&mut shared.boost_ns, nanos(config.boost));
        store(&mut shared.age_max_ns, nanos(config.age_max));
        store(&mut shared.late_max_ns, nanos(config.late_max));
        store(&mut shared.boosted_max_ns, nanos(config.boosted_max));
        it.refresh_clock();
        it.programs.links.on_packet = Some(it.programs.progs.on_packet.attach().map_err(loading)?);
        Ok(it)
    }

    /// From now on these services are watched, and no others. Those that were watched before keep
    /// their slots. A packet that comes at this moment may still be judged by what held before.
    ///
    /// # Errors
    ///
    /// If they are refused, and then nothing has changed.
    pub fn set_services(&mut self, services: &[Service]) -> Result<(), Refused> {
        let next = Services(self.table.next(services)?);
        self.follow(&next);
        Ok(())
    }

    /// The same with a table that others have, too.
    pub fn follow(&mut self, services: &Services) {
        let before = std::mem::replace(&mut self.table, services.0.clone());
        self.forget(&before);
        let table = self.table.clone();
        let shared = self.shared();
        for (&slot, row) in &table.rows {
            let place = &mut shared.services[usize::from(slot)];
            if before.rows.get(&slot) == Some(row) {
                continue;
            }
            store(&mut place.expected_ns, row.expected_ns);
            let protocol = if row.protocol == Protocol::Thrift { THRIFT } else { NATIVE };
            store(&mut place.protocol, protocol);
            for (place, &slot) in place.slots.iter_mut().zip(&row.raised) {
                store(place, slot);
            }
            store(&mut place.raised, u32::try_from(row.raised.len()).unwrap_or(0));
        }
        self.write_ports(&before, &table);
    }

    /// Sets for how long paths are frozen that have no window of their own.
    ///
    /// # Errors
    ///
    /// If it is refused, and then nothing has changed.
    pub fn set_window(&mut self, window: Duration) -> Result<(), Refused> {
        config::allowed("window", window)?;
        store(&mut self.shared().window_ns, nanos(window));
        Ok(())
    }

    /// Sets for how long these paths are frozen; the others keep what they have.
    ///
    /// # Errors
    ///
    /// If a window is refused, and then nothing has changed.
    pub fn set_paths(&mut self, paths: &[Path]) -> Result<(), Refused> {
        paths.iter().try_for_each(Path::validate)?;
        let shared = self.shared();
        for path in paths {
            store(&mut shared.paths[usize::from(path.number)].window_ns, nanos(path.window));
        }
        Ok(())
    }

    /// Starts the worker that tells of each decision, in place of the one before.
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub fn work(&mut self, config: WorkerConfig, boost: Box<dyn Boost>) -> io::Result<()> {
        self.rest();
        let events = MapHandle::try_from(&self.programs.maps.events).map_err(io::Error::other)?;
        self.worker = Some(Worker::start(events, config, boost)?);
        store(&mut self.shared().is_worker_there, 1);
        Ok(())
    }

    /// Ends the worker; what it had raised is lowered.
    pub fn rest(&mut self) {
        store(&mut self.shared().is_worker_there, 0);
        self.worker = None;
    }

    /// Tells the program how the kernel's clocks differ. To be called every second or so.
    ///
    /// Where the kernel has `bpf_ktime_get_tai_ns` (Linux 6.1), steps of the clock need no call,
    /// only leap seconds do. Elsewhere, after a step, requests are misjudged until the next call.
    pub fn refresh_clock(&mut self) {
        let ahead =
            if self.reads_tai { clock::tai_ahead_ns() } else { clock::monotonic_ahead_ns() };
        store(&mut self.shared().clock_ahead_ns, ahead);
    }

    /// Ends the boost of a service at once.
    pub fn end_boost(&mut self, slot: Slot) {
        self.set_boost(slot, 0);
    }

    /// The slot of a service.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.table.slots.get(name).copied()
    }

    /// The boosts, as the program writes them.
    ///
    /// # Errors
    ///
    /// If they cannot be mapped.
    pub fn boosts(&self) -> Result<Boosts, Unavailable> {
        let map = self.programs.maps.boosts.as_fd().try_clone_to_owned();
        map.and_then(Boosts::from_fd).map_err(Unavailable::Shared)
    }

    /// Judges a request without a packet, as if it were now these times: to see that the program
    /// decides as others do. It counts, boosts and freezes as a packet does.
    ///
    /// # Errors
    ///
    /// If the program cannot be run.
    pub fn rehearse(&self, rehearsal: &Rehearsal) -> io::Result<()> {
        let mut context = rehearsal.bytes();
        let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
        let ran = self.programs.progs.rehearse.test_run(input).map_err(io::Error::other)?;
        assert_eq!(ran.return_value, 0, "slots are in range");
        Ok(())
    }

    /// What the program has seen.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        let found = self.programs.maps.counters.lookup_percpu(&[0; 4], MapFlags::ANY);
        for bytes in found.ok().flatten().unwrap_or_default() {
            stats.add(&counters(&bytes));
        }
        stats
    }

    /// What the worker has done; `None` if there is none.
    pub fn worker_stats(&self) -> Option<WorkerStats> {
        self.worker.as_ref().map(Worker::stats)
    }

    /// What the program has cost so far, while the sysctl `kernel.bpf_stats_enabled` was 1.
    pub fn cost(&self) -> Option<Cost> {
        let id = program_id(self.programs.progs.on_packet.as_fd().as_raw_fd())?;
        let info = libbpf_rs::query::ProgInfoIter::default().find(|info| info.id == id)?;
        Some(Cost {
            program: "on_packet".into(),
            runs: info.run_cnt,
            time: Duration::from_nanos(info.run_time_ns),
        })
    }

    /// Services that are not there any more, or elsewhere, are not found from now on.
    fn forget(&mut self, before: &Table) {
        for (name, &slot) in &before.slots {
            if self.table.slots.get(name) != Some(&slot) {
                self.set_boost(slot, 0);
                store(&mut self.shared().late_since[usize::from(slot)], 0);
                store(&mut self.shared().turns[usize::from(slot)], 0);
            }
        }
        for port in before.ports.keys().chain(before.addresses.keys().map(|(port, _)| port)) {
            if !self.table.has_port(*port) {
                store(&mut self.shared().ports[usize::from(*port)], 0);
            }
        }
    }

    fn write_ports(&mut self, before: &Table, table: &Table) {
        let addresses = &self.programs.maps.addresses;
        for (key, slot) in &table.addresses {
            let slot = u32::from(*slot).to_ne_bytes();
            // There are no more of them than services, unless one has many.
            if let Err(error) = addresses.update(&table::key(key), &slot, MapFlags::ANY) {
                tracing::warn!("a service at {}, port {} is not watched: {error}", key.1, key.0);
            }
        }
        for key in before.addresses.keys().filter(|key| !table.addresses.contains_key(key)) {
            let _ = addresses.delete(&table::key(key));
        }
        // What is found through a port must be there before the port is.
        fence(Ordering::Release);
        let shared = self.shared();
        for port in table.all_ports() {
            let alone = table.ports.get(&port).map_or(0, |&slot| u32::from(slot) + 1);
            let several = if table.has_addresses(port) { BY_ADDRESS } else { 0 };
            store(&mut shared.ports[usize::from(port)], alone | several);
        }
    }

    fn set_boost(&mut self, slot: Slot, until_ns: u64) {
        let key = u32::from(slot).to_ne_bytes();
        let boosts = &self.programs.maps.boosts;
        // It fails only for slots that are not there.
        let _ = boosts.update(&key, &until_ns.to_ne_bytes(), MapFlags::ANY);
    }

    fn shared(&mut self) -> &mut types::bss {
        self.programs.maps.bss_data.as_deref_mut().expect("the program has variables")
    }
}

/// A request that is judged without a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// The service that it comes to.
    pub slot: Slot,
    /// Its path.
    pub path: u16,
    /// When its job began, nanoseconds since the epoch.
    pub start_time_ns: u64,
    /// When it is, nanoseconds since the epoch.
    pub now_ns: u64,
    /// The same on the monotonic clock.
    pub now: Instant,
}

impl Rehearsal {
    fn bytes(&self) -> [u8; size_of::<types::rehearsal>()] {
        let mut bytes = [0; size_of::<types::rehearsal>()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(types::rehearsal, request.start_ns), &self.start_time_ns.to_ne_bytes());
        put(offset_of!(types::rehearsal, request.path), &self.path.to_ne_bytes());
        put(offset_of!(types::rehearsal, real), &self.now_ns.to_ne_bytes());
        put(offset_of!(types::rehearsal, monotonic), &self.now.as_nanos().to_ne_bytes());
        put(offset_of!(types::rehearsal, slot), &u32::from(self.slot).to_ne_bytes());
        bytes
    }
}

impl fmt::Debug for FirstResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstResponder")
            .field("services", &self.table.slots.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Writes what the program reads meanwhile.
fn store<T>(place: &mut T, value: T) {
    // SAFETY: it is a reference; the other side, in the kernel, only copies.
    unsafe { ptr::write_volatile(place, value) }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn counters(bytes: &[u8]) -> types::counters {
    assert!(bytes.len() >= size_of::<types::counters>());
    // SAFETY: it is a record of plain numbers, and there are enough bytes.
    unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// The kernel's number of a program, by what `/proc` says of its descriptor.
fn program_id(fd: i32) -> Option<u32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().parse().ok()
}
