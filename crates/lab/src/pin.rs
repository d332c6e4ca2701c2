//! Keeping a process on some of the machine's cores.

use anyhow::{Context, Result};
use core_affinity::CoreId;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The highest number that the system has for a core (glibc's `CPU_SETSIZE`), plus one.
const MOST_CORES: usize = 1_024;

/// The cores that this process may use.
pub fn available() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// The processors that are hardware threads of the same core as `processor`, itself among them.
/// Where the system does not say, only itself.
pub fn siblings(processor: usize) -> Vec<usize> {
    let folder = format!("/sys/devices/system/cpu/cpu{processor}/topology");
    let list = std::fs::read_to_string(format!("{folder}/thread_siblings_list"));
    list.ok().and_then(|list| parse(&list)).unwrap_or_else(|| vec![processor])
}

/// Reads a list such as `0-1,4`.
fn parse(list: &str) -> Option<Vec<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = list.trim().split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// Keeps this thread, and the threads and processes that it starts from now on, on these cores.
///
/// # Errors
///
/// If the process may not use them.
pub fn to_cores(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    let kept = cores.iter().try_for_each(|&core| set.set(core));
    kept.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .with_context(|| format!("the system does not let this process keep to cores {cores:?}"))
}

/// Keeps this thread, and the threads that it starts from now on, on `core`.
///
/// # Errors
///
/// If the process may not use that core.
pub fn to_core(core: usize) -> Result<()> {
    // Not checked against the cores that are allowed now: a parent may have kept itself to one.
    let kept = core < MOST_CORES && core_affinity::set_for_current(CoreId { id: core });
    kept.then_some(()).with_context(|| {
        format!(
            "the system does not let this process keep to core {core}; cores count from 0, and \
             `nproc` tells how many there are"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse("0-1,4\n"), Some(vec![0, 1, 4]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0-x"), None);
    }

    #[test]
    fn a_processor_is_its_own_sibling() {
        for processor in available() {
            assert!(siblings(processor).contains(&processor));
        }
        assert_eq!(siblings(1_000_000), [1_000_000]);
    }
}
