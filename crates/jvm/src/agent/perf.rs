//! Which kind a collection is: HotSpot's own counters (`jvmstat`), which say what has begun and
//! what has ended.
//!
//! Their numbers of bytes do not change in a pause; the times at which collections begin do.

use seawall_control::predict::pause::Kind;

use super::structs::{Structs, Unknown, at};

/// What the counters' memory begins with (`PerfDataPrologue`).
const MAGIC: u32 = 0xc0c0_feca;
const PROLOGUE: usize = 32;
const FIRST_ENTRY: usize = 24;
const ENTRIES: usize = 28;

/// Collectors have numbers: 0 collects the young, 1 all of the heap, 2 marks beside the program.
const KINDS: [Kind; 3] = [Kind::Young, Kind::Full, Kind::Mark];

/// Counters of each collector.
#[derive(Debug, Default)]
pub(crate) struct Perf {
    collectors: Vec<Counters>,
    /// What they said when the last pause had ended. Not when this one began: a step of marking is
    /// counted before its start is told.
    before: Vec<Said>,
}

/// Addresses.
#[derive(Clone, Copy, Debug)]
struct Counters {
    kind: Kind,
    invocations: usize,
    entered: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    invocations: u64,
    entered: u64,
}

impl Perf {
    /// Finds the counters.
    pub(crate) fn find(structs: &Structs) -> Result<Self, Unknown> {
        // SAFETY: it is a number.
        let is_there: i32 = unsafe { at(structs.address("PerfMemory", "_initialized")?) };
        if is_there == 0 {
            return Err(Unknown::counters());
        }
        // SAFETY: it is an address.
        let start: usize = unsafe { at(structs.address("PerfMemory", "_start")?) };
        let all = entries(start).ok_or_else(Unknown::counters)?;
        let value = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, at)| *at);
        let collectors = KINDS.iter().enumerate().filter_map(|(number, kind)| {
            let of = |what: &str| value(&format!("sun.gc.collector.{number}.{what}"));
            let [invocations, entered] = [of("invocations")?, of("lastEntryTime")?];
            Some(Counters { kind: *kind, invocations, entered })
        });
        let collectors: Vec<_> = collectors.collect();
        if collectors.is_empty() {
            return Err(Unknown::counters());
        }
        let before = collectors.iter().map(Counters::say).collect();
        Ok(Self { collectors, before })
    }

    /// A pause has ended.
    pub(crate) fn on_finish(&mut self) {
        self.before.clear();
        self.before.extend(self.collectors.iter().map(Counters::say));
    }

    /// What the pause is known to be by now: the largest of what has begun in it. `None` if nothing
    /// has said so.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let both = self.collectors.iter().zip(&self.before);
        let begun = both.filter(|(collector, before)| collector.say() != **before);
        begun.map(|(collector, _)| collector.kind).max_by_key(|kind| match kind {
            Kind::Mark => 0,
            Kind::Young => 1,
            Kind::Full => 2,
        })
    }
}

impl Counters {
    fn say(&self) -> Said {
        // SAFETY: both are numbers of eight bytes in the counters' memory, which lives as long as
        // the virtual machine.
        unsafe { Said { invocations: at(self.invocations), entered: at(self.entered) } }
    }
}

/// Names of all counters that are numbers, and where they are; `None` if this is not their memory.
fn entries(start: usize) -> Option<Vec<(String, usize)>> {
    /// `PerfDataEntry`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Entry {
        length: u32,
        name: u32,
        vector: u32,
        kind: u8,
        flags: u8,
        units: u8,
        variability: u8,
        data: u32,
    }
    const LONG: u8 = b'J';
    // SAFETY: the memory begins with a prologue of 32 bytes, which says where the entries begin and
    // how many there are; each says how long it is.
    unsafe {
        if at::<u32>(start) != MAGIC {
            return None;
        }
        let mut entry = start + at::<u32>(start + FIRST_ENTRY) as usize;
        if entry < start + PROLOGUE {
            return None;
        }
        let mut all = Vec::new();
        for _ in 0..at::<u32>(start + ENTRIES) {
            let Entry { length, name, kind, vector, data, .. } = at(entry);
            if length == 0 {
                break;
            }
            if kind == LONG && vector == 0 {
                let text = std::ffi::CStr::from_ptr((entry + name as usize) as *const _);
                all.push((text.to_string_lossy().into_owned(), entry + data as usize));
            }
            entry += length as usize;
        }
        Some(all)
    }
}
