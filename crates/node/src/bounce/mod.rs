//! Answers calls for a server that waits for a CPU, in the receive path of its connections.
//!
//! ```text
//!   client ─► TCP ─► parse ─► judge ─┬─ passes ──────► the server's queue
//!                                    ├─ header ──────► rewritten as a refusal, to the client
//!                                    └─ body of that ► dropped
//!   sched_switch, sched_wakeup ─► do the server's threads run, or wait for that, and since when?
//! ```
//!
//! The stream parser's traps, and what is done about each, are told in `docs/guardian.md`.

mod connection;
#[expect(unsafe_code, reason = "system calls for what no safe binding has")]
mod socket;
mod unavailable;

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use seawall_control::bounce::{Bounced, Bouncer, Problem};

pub use unavailable::BounceUnavailable;

use crate::programs::bounce::{BounceSkel, BounceSkelBuilder};
use crate::refusal;
use connection::Connection;

/// The programs in the kernel that answer for one server.
///
/// They end with it, and with the last of its connections.
#[derive(Clone)]
pub struct Bounce {
    programs: Arc<BounceSkel<'static>>,
}

impl Bounce {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// What is missing, if the kernel does not take them.
    pub fn open() -> Result<Self, BounceUnavailable> {
        refusal::log();
        // The programs refer to it for as long as they are loaded, and it is small.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let loading = BounceUnavailable::from_loading;
        let open = BounceSkelBuilder::default().open(object).map_err(loading)?;
        let mut programs = open.load().map_err(loading)?;
        let progs = &programs.progs;
        programs.links.on_switch = Some(progs.on_switch.attach().map_err(loading)?);
        programs.links.on_wakeup = Some(progs.on_wakeup.attach().map_err(loading)?);
        let sockets = programs.maps.sockets.as_fd().as_raw_fd();
        progs.parse.attach_sockmap(sockets).map_err(BounceUnavailable::Attach)?;
        progs.judge.attach_sockmap(sockets).map_err(BounceUnavailable::Attach)?;
        Ok(Self { programs: Arc::new(programs) })
    }

    /// The same, as what a server asks for.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn for_server() -> Result<Arc<dyn Bouncer>, Problem> {
        Ok(Arc::new(Self::open()?))
    }
}

impl Bouncer for Bounce {
    fn enlist(&self) -> Result<(), Problem> {
        // The kernel's number of a thread is not the one that it has in a container.
        let ran = self.programs.progs.enlist.test_run(ProgramInput::default())?;
        if ran.return_value != 0 {
            return Err("there are too many threads".into());
        }
        Ok(())
    }

    fn adopt(&self, socket: i32) -> Result<Box<dyn Bounced>, Problem> {
        Ok(Box::new(Connection::adopt(self.programs.clone(), socket)?))
    }

    #[expect(unsafe_code, reason = "the kernel writes there at any time")]
    fn refused(&self) -> u64 {
        let Some(shared) = self.programs.maps.bss_data.as_deref() else { return 0 };
        // SAFETY: it is memory of the programs', mapped for as long as they are loaded, aligned,
        // and may change at any time: what is read is one number, which is whole.
        unsafe { ptr::read_volatile(&raw const shared.refused) }
    }
}

impl fmt::Debug for Bounce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounce").field("refused", &self.refused()).finish_non_exhaustive()
    }
}
