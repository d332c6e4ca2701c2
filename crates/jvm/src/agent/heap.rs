//! How full the heap is, read while the world stands still.
//!
//! What the virtual machine counts for others (`hsperfdata`) is as old as the last collection, and
//! does not change in a pause. Its own structures are what they are.

use seawall_control::predict::pause::Spaces;

use super::flags::Collector;
use super::structs::{Structs, Unknown, at};

/// Where a collector's spaces are.
#[derive(Debug)]
pub(crate) enum Heap {
    Generations(Generations),
    Regions(Regions),
}

/// Parallel and Serial: a space each.
#[derive(Debug)]
pub(crate) struct Generations {
    /// Addresses of pointers to the spaces: eden, survivors, old.
    eden: usize,
    survivor: usize,
    old: usize,
    bottom: usize,
    top: usize,
}

/// G1: many regions, each of one kind at a time.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Address of the table of pointers to regions, and how many there are.
    table: usize,
    length: usize,
    bottom: usize,
    top: usize,
    tag: usize,
    eden: u32,
    survivor: u32,
}

impl Heap {
    /// Finds the spaces of `collector`, once the virtual machine has made them.
    pub(crate) fn find(structs: &Structs, collector: Collector) -> Result<Self, Unknown> {
        match collector {
            Collector::Parallel => parallel(structs).map(Self::Generations),
            Collector::Serial => serial(structs).map(Self::Generations),
            Collector::G1 => g1(structs).map(Self::Regions),
            Collector::Z | Collector::Shenandoah | Collector::Epsilon => {
                unreachable!("who does not stop the world is not asked")
            }
        }
    }

    /// Bytes used.
    ///
    /// # Safety
    ///
    /// The world stands still, and no collector runs yet, or no more: this is called in an event of
    /// a collection's start or finish.
    pub(crate) unsafe fn spaces(&self) -> Spaces {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Generations(generations) => generations.spaces(),
                Self::Regions(regions) => regions.spaces(),
            }
        }
    }
}

impl Generations {
    unsafe fn spaces(&self) -> Spaces {
        // SAFETY: each is the address of a pointer to a space, which has bottom and top.
        let used = |space: usize| unsafe {
            let space: usize = at(space);
            let [bottom, top] = [self.bottom, self.top].map(|field| at::<usize>(space + field));
            top.saturating_sub(bottom) as u64
        };
        Spaces { eden: used(self.eden), survivor: used(self.survivor), old: used(self.old) }
    }
}

impl Regions {
    unsafe fn spaces(&self) -> Spaces {
        let mut spaces = Spaces::default();
        // SAFETY: the table has so many pointers to regions; those that were never used are null.
        unsafe {
            let (table, length): (usize, usize) = (at(self.table), at(self.length));
            for index in 0..length {
                let region: usize = at(table + index * size_of::<usize>());
                if region == 0 {
                    continue;
                }
                let [bottom, top] =
                    [self.bottom, self.top].map(|field| at::<usize>(region + field));
                let used = top.saturating_sub(bottom) as u64;
                let tag: u32 = at(region + self.tag);
                if tag == self.eden {
                    spaces.eden += used;
                } else if tag == self.survivor {
                    spaces.survivor += used;
                } else {
                    spaces.old += used;
                }
            }
        }
        spaces
    }
}

fn parallel(structs: &Structs) -> Result<Generations, Unknown> {
    let young = structs.address("ParallelScavengeHeap", "_young_gen")?;
    let old = structs.address("ParallelScavengeHeap", "_old_gen")?;
    // SAFETY: both are pointers to generations, which are there once the machine runs.
    let [young, old]: [usize; 2] = unsafe { [at(young), at(old)] };
    Ok(Generations {
        eden: young + structs.offset(&["PSYoungGen"], "_eden_space")?,
        survivor: young + structs.offset(&["PSYoungGen"], "_from_space")?,
        old: old + structs.offset(&["PSOldGen"], "_object_space")?,
        bottom: structs.offset(&["MutableSpace"], "_bottom")?,
        top: structs.offset(&["MutableSpace"], "_top")?,
    })
}

fn serial(structs: &Structs) -> Result<Generations, Unknown> {
    let types = ["SerialHeap", "GenCollectedHeap"];
    let heap = heap(structs)?;
    let [young, old] = [structs.offset(&types, "_young_gen")?, structs.offset(&types, "_old_gen")?];
    // SAFETY: both are pointers to generations, which are there once the machine runs.
    let [young, old]: [usize; 2] = unsafe { [at(heap + young), at(heap + old)] };
    Ok(Generations {
        eden: young + structs.offset(&["DefNewGeneration"], "_eden_space")?,
        survivor: young + structs.offset(&["DefNewGeneration"], "_from_space")?,
        old: old + structs.offset(&["TenuredGeneration"], "_the_space")?,
        bottom: structs.offset(&["ContiguousSpace", "Space"], "_bottom")?,
        top: structs.offset(&["ContiguousSpace"], "_top")?,
    })
}

fn g1(structs: &Structs) -> Result<Regions, Unknown> {
    let manager = heap(structs)? + structs.offset(&["G1CollectedHeap"], "_hrm")?;
    let managers = ["G1HeapRegionManager", "HeapRegionManager"];
    let regions = manager + structs.offset(&managers, "_regions")?;
    let region = ["G1HeapRegion", "HeapRegion"];
    let types = ["G1HeapRegionType", "HeapRegionType"];
    let tag = |names| structs.constant(names).map(|tag| tag as u32);
    Ok(Regions {
        table: regions + structs.offset(&["G1HeapRegionTable"], "_base")?,
        length: regions + structs.offset(&["G1HeapRegionTable"], "_length")?,
        bottom: structs.offset(&region, "_bottom")?,
        top: structs.offset(&region, "_top")?,
        tag: structs.offset(&region, "_type")? + structs.offset(&types, "_tag")?,
        eden: tag(&["G1HeapRegionType::EdenTag", "HeapRegionType::EdenTag"])?,
        survivor: tag(&["G1HeapRegionType::SurvTag", "HeapRegionType::SurvTag"])?,
    })
}

/// The heap, whatever it is.
fn heap(structs: &Structs) -> Result<usize, Unknown> {
    // SAFETY: it is the address of a pointer.
    let heap: usize = unsafe { at(structs.address("Universe", "_collectedHeap")?) };
    if heap == 0 { Err(Unknown::heap()) } else { Ok(heap) }
}
