//! How many files this process may have open: each connection is one.

use anyhow::{Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files besides connections: standard streams, and what is read and written now and then.
const OTHERS: u64 = 64;

/// Files of a thread that talks to the network: what its runtime waits at and is woken by.
const PER_THREAD: u64 = 4;

/// Raises the limit as far as the system lets everybody, and gives it. The usual 1,024 is there for
/// programs that call select(2), which this one does not.
pub fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    if soft == hard || setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// Raises the limit, and makes sure that it is enough for so many sessions, shared by `threads`.
///
/// # Errors
///
/// If it is not; says what to do.
pub fn suffice(sessions: u32, threads: u32) -> Result<()> {
    let needed = u64::from(sessions) + u64::from(threads) * PER_THREAD + OTHERS;
    let allowed = raise();
    if needed > allowed {
        bail!(
            "--sessions {sessions} takes {needed} open files, and the system allows this process \
             {allowed}; ask for fewer sessions, or raise the limit (as root: `ulimit -n {needed}`)"
        );
    }
    Ok(())
}
