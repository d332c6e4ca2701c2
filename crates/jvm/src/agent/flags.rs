//! Options of the virtual machine, as it has settled them.

use super::structs::{Structs, Unknown, at, text_at};

/// Flags that say which collector there is, and what is said of it.
const COLLECTORS: [(&str, Collector); 6] = [
    ("UseParallelGC", Collector::Parallel),
    ("UseG1GC", Collector::G1),
    ("UseSerialGC", Collector::Serial),
    ("UseZGC", Collector::Z),
    ("UseShenandoahGC", Collector::Shenandoah),
    ("UseEpsilonGC", Collector::Epsilon),
];

/// A collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collector {
    Parallel,
    G1,
    Serial,
    Z,
    Shenandoah,
    Epsilon,
}

/// What is known of the collector before it collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `None` for one that is not known here.
    pub(crate) collector: Option<Collector>,
    /// Threads that collect while the world stands still.
    pub(crate) workers: u16,
}

impl Collector {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Parallel => "Parallel",
            Self::G1 => "G1",
            Self::Serial => "Serial",
            Self::Z => "ZGC",
            Self::Shenandoah => "Shenandoah",
            Self::Epsilon => "Epsilon",
        }
    }

    /// It stops the world while it collects.
    pub(crate) const fn stops_the_world(self) -> bool {
        matches!(self, Self::Parallel | Self::G1 | Self::Serial)
    }
}

impl Flags {
    /// Reads them.
    pub(crate) fn read(structs: &Structs) -> Result<Self, Unknown> {
        let first = structs.address("JVMFlag", "flags")?;
        let count = structs.address("JVMFlag", "numFlags")?;
        let [name, address] =
            [structs.offset(&["JVMFlag"], "_name")?, structs.offset(&["JVMFlag"], "_addr")?];
        let size = structs.size("JVMFlag")?;
        // SAFETY: the tables say that these are the flags, so many of this size, each with a name
        // and the address of its value. They are there before any agent is.
        let flags = unsafe {
            let (first, count): (usize, usize) = (at(first), at(count));
            let all = (0..count).map(move |index| first + index * size);
            all.filter_map(move |flag| {
                Some((text_at(at::<usize>(flag + name))?, at::<usize>(flag + address)))
            })
        };
        let (mut collector, mut workers) = (None, 1);
        for (name, value) in flags.filter(|(_, value)| *value != 0) {
            if let Some((_, known)) = COLLECTORS.iter().find(|(flag, _)| *flag == name) {
                // SAFETY: the flags of collectors are of one byte.
                if unsafe { at::<u8>(value) } != 0 {
                    collector = Some(*known);
                }
            } else if name == "ParallelGCThreads" {
                // SAFETY: it is an unsigned number of four bytes.
                workers = unsafe { at::<u32>(value) };
            }
        }
        if collector == Some(Collector::Serial) {
            workers = 1;
        }
        Ok(Self { collector, workers: u16::try_from(workers).unwrap_or(u16::MAX).max(1) })
    }
}
