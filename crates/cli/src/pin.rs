//! Keeping a process on some of the machine's cores.

use anyhow::{Context, Result};
use core_affinity::CoreId;

/// The highest number that the system has for a core (glibc's `CPU_SETSIZE`), plus one.
const MOST_CORES: usize = 1_024;

/// The cores that this process may use.
pub(crate) fn available() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Keeps this thread, and the threads that it starts from now on, on `core`.
///
/// # Errors
///
/// If the process may not use that core.
pub(crate) fn to_core(core: usize) -> Result<()> {
    // Not checked against the cores that are allowed now: a parent may have kept itself to one.
    let kept = core < MOST_CORES && core_affinity::set_for_current(CoreId { id: core });
    kept.then_some(()).with_context(|| {
        format!(
            "the system does not let this process keep to core {core}; cores count from 0, and \
             `nproc` tells how many there are"
        )
    })
}
