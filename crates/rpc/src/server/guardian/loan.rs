//! Real-time priority on loan: a thread that reads gets it while it is starved, does what cannot
//! wait, and gives it back.
//!
//! ```text
//!            lend                       repay                   take back
//!   own ────────────► lent (bell rings) ─────► done (patrol is ─────────► own
//!    ▲                 │                        woken)
//!    └─────────────────┘ taken back, when its share is used up
//! ```

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;

use nix::sys::eventfd::{EfdFlags, EventFd};
use thiserror::Error;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadId, ThreadPriority,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::arrivals::Arrivals;

const FIFO: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
const OTHER: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);

/// The thread has its own priority.
const OWN: u8 = 0;
/// It has a borrowed one.
const LENT: u8 = 1;
/// It needs the borrowed one no longer.
const DONE: u8 = 2;

/// How often a thread that has repaid lets others go ahead until it is taken back. The patrol,
/// which is above it, takes some microseconds; if it has ended, the thread goes on.
const YIELDS: u32 = 10_000;

/// Why a server has no patrol.
#[derive(Clone, Debug, Error)]
#[error(
    "the system does not permit real-time priority {priority}: {problem}. It takes CAP_SYS_NICE, \
     or RLIMIT_RTPRIO of {priority} or more (`ulimit -r`, LimitRTPRIO= of systemd); where the \
     kernel groups real-time threads, a cgroup of the cpu controller also needs cpu.rt_runtime_us \
     above 0. guardian.way = \"off\" does without"
)]
pub struct RealtimeError {
    priority: u8,
    problem: String,
}

/// The loan of one thread that reads.
#[derive(Debug)]
pub(in crate::server) struct Loan {
    state: AtomicU8,
    bell: EventFd,
    debtor: Debtor,
    arrivals: Arc<Arrivals>,
}

/// Who borrows. The patrol ends, and is waited for, before the threads are.
#[derive(Clone, Copy, Debug)]
struct Debtor {
    thread: ThreadId,
    policy: ThreadSchedulePolicy,
}

/// Rings on the reactor that it was made on.
#[derive(Debug)]
pub(super) struct Bell(AsyncFd<Descriptor>);

#[derive(Debug)]
struct Descriptor(Arc<Loan>);

/// Gives the thread that calls real-time priority, for good.
pub(super) fn enter(priority: u8) -> Result<(), RealtimeError> {
    let refused = |problem: String| RealtimeError { priority, problem };
    let level = ThreadPriority::try_from(priority).map_err(|why| refused(why.to_owned()))?;
    let set = set_thread_priority_and_policy(thread_native_id(), level, FIFO);
    set.map_err(|why| match why {
        thread_priority::Error::OS(code) => refused(io::Error::from_raw_os_error(code).to_string()),
        other => refused(other.to_string()),
    })
}

impl Loan {
    /// Of the thread that calls, from a patrol that waits for `arrivals`.
    pub(super) fn of_this_thread(arrivals: Arc<Arrivals>) -> io::Result<Self> {
        let policy = thread_schedule_policy().unwrap_or(OTHER);
        Ok(Self {
            state: AtomicU8::new(OWN),
            bell: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            debtor: Debtor { thread: thread_native_id(), policy },
            arrivals,
        })
    }

    /// Its bell, on the reactor that this is called on.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that do not live as long: this does"
    )]
    pub(super) fn bell(self: &Arc<Self>) -> io::Result<Bell> {
        let descriptor = Descriptor(self.clone());
        Ok(Bell(AsyncFd::with_interest(descriptor, Interest::READABLE)?))
    }

    /// True from when it is lent until it is back: no handler may begin.
    pub(in crate::server) fn is_open(&self) -> bool {
        self.state.load(SeqCst) != OWN
    }

    /// The debtor has done what it was lent for, and waits until it gets the CPU by itself.
    pub(super) fn repay(&self) {
        if self.state.compare_exchange(LENT, DONE, SeqCst, SeqCst).is_err() {
            return;
        }
        self.arrivals.tell_repaid();
        for _ in 0..YIELDS {
            if self.state.load(SeqCst) != DONE {
                return;
            }
            thread::yield_now();
        }
    }

    /// Lends `priority`; the patrol, which calls, is above it.
    pub(super) fn lend(&self, priority: u8) {
        self.state.store(LENT, SeqCst);
        self.raise(priority);
        // It is full after 2^64 - 1 rings that nobody heard.
        _ = self.bell.write(1);
    }

    /// Raises the debtor again, in case that it and the patrol have met.
    pub(super) fn raise(&self, priority: u8) {
        let Ok(level) = ThreadPriority::try_from(priority) else { return };
        set(self.debtor.thread, level, FIFO);
    }

    /// True if the debtor has repaid.
    pub(super) fn is_done(&self) -> bool {
        self.state.load(SeqCst) == DONE
    }

    /// Gives the debtor its own priority again.
    pub(super) fn take_back(&self) {
        // The lowest, which will be the patrol's own niceness: the debtor's is not touched.
        set(self.debtor.thread, ThreadPriority::Min, self.debtor.policy);
        self.state.store(OWN, SeqCst);
    }
}

impl Bell {
    /// Waits until it rings. Rings that were missed are one.
    pub(super) async fn rings(&self) -> io::Result<()> {
        self.0.async_io(Interest::READABLE, |loan| Ok(loan.0.bell.read().map(drop)?)).await
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.bell.as_raw_fd()
    }
}

fn set(thread: ThreadId, priority: ThreadPriority, policy: ThreadSchedulePolicy) {
    if let Err(error) = set_thread_priority_and_policy(thread, priority, policy) {
        // It was permitted before. If the process has given that up, it is an ordinary one now.
        tracing::debug!(%error, "cannot change a thread's priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn loan_of_this_thread() -> Loan {
        Loan::of_this_thread(Arc::new(Arrivals::new().unwrap())).unwrap()
    }

    #[test]
    fn what_is_lent_comes_back() {
        let may = thread::spawn(|| enter(11).is_ok()).join().unwrap();
        if !may {
            return; // not permitted here, which tests of the whole server tell of
        }
        let (tell, told) = channel();
        let (go, wait) = channel::<()>();
        let debtor = thread::spawn(move || {
            let loan = Arc::new(loan_of_this_thread());
            tell.send(loan.clone()).unwrap();
            wait.recv().unwrap();
            assert_eq!(thread_schedule_policy().unwrap(), FIFO);
            assert!(loan.is_open());
            loan.repay();
            assert!(!loan.is_open());
            assert_eq!(thread_schedule_policy().unwrap(), OTHER);
            loan.repay(); // of nothing
        });
        let patrol = thread::spawn(move || {
            enter(11).unwrap();
            let loan = told.recv().unwrap();
            loan.lend(10);
            go.send(()).unwrap();
            while !loan.is_done() {
                loan.arrivals.wait(std::time::Duration::from_millis(1), false);
            }
            loan.take_back();
        });
        patrol.join().unwrap();
        debtor.join().unwrap();
    }

    #[tokio::test]
    async fn a_bell_rings_once_for_all_that_was_missed() {
        let loan = Arc::new(loan_of_this_thread());
        let bell = loan.bell().unwrap();
        loan.bell.write(1).unwrap();
        loan.bell.write(1).unwrap();
        bell.rings().await.unwrap();
        let silence = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(silence, bell.rings()).await.is_err());
    }

    #[test]
    fn a_refusal_says_what_it_takes() {
        let text = RealtimeError { priority: 11, problem: "EPERM".into() }.to_string();
        for word in ["CAP_SYS_NICE", "RLIMIT_RTPRIO of 11", "cpu.rt_runtime_us", "EPERM", "off"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
