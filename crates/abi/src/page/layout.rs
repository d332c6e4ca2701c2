//! Where everything lies in a page.
//!
//! Each block begins its own cache lines: what the agent writes does not disturb who counts, and
//! shards do not disturb each other.

use std::mem::{offset_of, size_of};
use std::sync::atomic::AtomicU64;

use super::shard::Shard;

/// Bytes of a page.
pub const SIZE: usize = 4096;

/// `SWPAGE` and the end of a line, so that a file that was mangled as text is told apart.
pub const MAGIC: [u8; 8] = *b"SWPAGE\r\n";

/// The layout described here.
pub const VERSION: u32 = 1;

/// Shards of a page.
pub const SHARDS: usize = 16;

/// Longest name of a service, in bytes.
pub const NAME_MAX: usize = 63;

/// The page in memory. Others may write any of it at any time, so that all of it is atomic.
#[repr(C)]
pub(super) struct Page {
    /// As [`Described`]; a publisher does not look at it again.
    description: [AtomicU64; 32],
    pub(super) service: Service,
    pub(super) agent: Agent,
    spare: [AtomicU64; 32],
    pub(super) shards: [Shard; SHARDS],
    spare_end: [AtomicU64; 128],
}

/// Written once, before the page has its name.
#[repr(C)]
struct Described {
    magic: [u8; 8],
    version: u32,
    size: u32,
    pid: u32,
    port: u32,
    start_ticks: u64,
    namespace: u64,
    shards: u32,
    spare: [u32; 5],
    name: [u8; NAME_MAX + 1],
    spare_end: [u64; 16],
}

/// Written by the service.
#[repr(C)]
pub(super) struct Service {
    pub(super) heartbeat_ns: AtomicU64,
    pub(super) boosted_until_ns: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) bells_lost: AtomicU64,
    pub(super) hints_distrusted: AtomicU64,
    pub(super) cpu_ns: AtomicU64,
    pub(super) paused_since_ns: AtomicU64,
    pub(super) pause_ends_ns: AtomicU64,
    pub(super) pauses: AtomicU64,
    pub(super) paused_ns: AtomicU64,
    spare: [AtomicU64; 22],
}

/// Written by the agent.
#[repr(C)]
pub(super) struct Agent {
    pub(super) heartbeat_ns: AtomicU64,
    pub(super) lease_ns: AtomicU64,
    pub(super) boosted_until_ns: AtomicU64,
    pub(super) boost_permille: AtomicU64,
    pub(super) speed_permille: AtomicU64,
    pub(super) granted_milli: AtomicU64,
    pub(super) hint: AtomicU64,
    pub(super) expected_time_from_start_ns: AtomicU64,
    pub(super) freeze_ns: AtomicU64,
    pub(super) growing_until_ns: AtomicU64,
    spare: [AtomicU64; 22],
}

impl Agent {
    /// The block as it stands in a page that was read.
    pub(super) fn copied(page: &[u8; SIZE]) -> Self {
        const { assert!(offset_of!(Page, agent) + size_of::<Self>() <= SIZE) };
        // SAFETY: the block lies within the page, and every bit pattern is one.
        unsafe { page.as_ptr().add(offset_of!(Page, agent)).cast::<Self>().read_unaligned() }
    }
}

const _: () = assert!(size_of::<Page>() == SIZE && size_of::<Shard>() == 128);
const _: () = assert!(size_of::<Described>() == offset_of!(Page, service));

/// A field of the page: what writers in other languages need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, with its block: `agent.hint`.
    pub name: &'static str,
    /// From the start of the page, or from the start of the shard for `shard.*`.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

macro_rules! fields {
    ($($name:literal $base:expr, $block:ty, $field:ident $type:ty;)*) => {
        &[$(Field {
            name: $name,
            offset: $base + offset_of!($block, $field),
            size: size_of::<$type>(),
        }),*]
    };
}

const SERVICE: usize = offset_of!(Page, service);
const AGENT: usize = offset_of!(Page, agent);

/// Where the first shard begins; the others follow at distances of 128 bytes.
pub const FIRST_SHARD: usize = offset_of!(Page, shards);

/// Bytes of a shard.
pub const SHARD_SIZE: usize = size_of::<Shard>();

/// All fields, in the order in which they lie.
pub const FIELDS: &[Field] = fields! {
    "magic" 0, Described, magic [u8; 8];
    "version" 0, Described, version u32;
    "size" 0, Described, size u32;
    "pid" 0, Described, pid u32;
    "port" 0, Described, port u32;
    "start_ticks" 0, Described, start_ticks u64;
    "namespace" 0, Described, namespace u64;
    "shards" 0, Described, shards u32;
    "name" 0, Described, name [u8; NAME_MAX + 1];
    "service.heartbeat_ns" SERVICE, Service, heartbeat_ns u64;
    "service.boosted_until_ns" SERVICE, Service, boosted_until_ns u64;
    "service.late" SERVICE, Service, late u64;
    "service.bells_lost" SERVICE, Service, bells_lost u64;
    "service.hints_distrusted" SERVICE, Service, hints_distrusted u64;
    "service.cpu_ns" SERVICE, Service, cpu_ns u64;
    "service.paused_since_ns" SERVICE, Service, paused_since_ns u64;
    "service.pause_ends_ns" SERVICE, Service, pause_ends_ns u64;
    "service.pauses" SERVICE, Service, pauses u64;
    "service.paused_ns" SERVICE, Service, paused_ns u64;
    "agent.heartbeat_ns" AGENT, Agent, heartbeat_ns u64;
    "agent.lease_ns" AGENT, Agent, lease_ns u64;
    "agent.boosted_until_ns" AGENT, Agent, boosted_until_ns u64;
    "agent.boost_permille" AGENT, Agent, boost_permille u64;
    "agent.speed_permille" AGENT, Agent, speed_permille u64;
    "agent.granted_milli" AGENT, Agent, granted_milli u64;
    "agent.hint" AGENT, Agent, hint u64;
    "agent.expected_time_from_start_ns" AGENT, Agent, expected_time_from_start_ns u64;
    "agent.freeze_ns" AGENT, Agent, freeze_ns u64;
    "agent.growing_until_ns" AGENT, Agent, growing_until_ns u64;
    "shard.arrived" 0, Shard, arrived u64;
    "shard.served" 0, Shard, served u64;
    "shard.shed" 0, Shard, shed u64;
    "shard.unserved" 0, Shard, unserved u64;
    "shard.exec_ns" 0, Shard, exec_ns u64;
    "shard.pool_wait_ns" 0, Shard, pool_wait_ns u64;
    "shard.time_from_start_ns" 0, Shard, time_from_start_ns u64;
    "shard.upstream_exec_ns" 0, Shard, upstream_exec_ns u64;
    "shard.hinted" 0, Shard, hinted u64;
    "shard.started" 0, Shard, started u64;
    "shard.waiting" 0, Shard, waiting u64;
    "shard.waiting_since_ns" 0, Shard, waiting_since_ns u64;
};

/// Where the field called `name` lies. Known when compiling: a wrong name does not compile.
pub(super) const fn at(name: &str) -> usize {
    let mut index = 0;
    while index < FIELDS.len() {
        if is_same(FIELDS[index].name.as_bytes(), name.as_bytes()) {
            return FIELDS[index].offset;
        }
        index += 1;
    }
    panic!("no field has this name")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}
