//! The agent: from being loaded to the end of the virtual machine.

mod claim;
mod flags;
mod halters;
mod heap;
mod jvmti;
mod options;
mod perf;
mod record;
mod state;
mod structs;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_abi::page::{Description, Publisher};
use seawall_control::predict::pause::Pauses;

use flags::Flags;
pub(crate) use halters::tell;
use heap::Heap;
pub(crate) use jvmti::Vm;
use jvmti::{Callbacks, Event, Jvmti};
use options::Options;
use perf::Perf;
use record::Record;
pub(crate) use state::Account;
use state::{Parts, State, Task};
use structs::Structs;

/// What is predicted is said anew so often in a pause.
const IN_PAUSE: Duration = Duration::from_millis(1);

/// And so often it is said that the service lives, else.
const IDLE: Duration = Duration::from_millis(100);

const OK: c_int = 0;
const FAILED: c_int = -1;

/// The agent of this process, from when it was loaded.
static AGENT: OnceLock<Agent> = OnceLock::new();

struct Agent {
    options: Options,
    jvmti: Jvmti,
    running: OnceLock<Running>,
}

// SAFETY: the tool interface may be used by all threads of the virtual machine.
unsafe impl Send for Agent {}
// SAFETY: the same.
unsafe impl Sync for Agent {}

struct Running {
    state: Mutex<State>,
    thread: Thread,
    is_over: AtomicBool,
}

/// Called by the virtual machine when it starts with `-agentpath`.
///
/// # Safety
///
/// As JVM TI has it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnLoad(
    vm: *const c_void,
    options: *const c_char,
    _reserved: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    guarded(FAILED, || unsafe { load(vm.cast(), options, Since::Start) })
}

/// Called by the virtual machine when it is attached to (`jcmd PID JVMTI.agent_load`).
///
/// # Safety
///
/// As JVM TI has it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Agent_OnAttach(
    vm: *const c_void,
    options: *const c_char,
    _reserved: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    guarded(FAILED, || unsafe { load(vm.cast(), options, Since::Later) })
}

/// Since when there is an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    /// The start of the virtual machine, which has no heap then.
    Start,
    Later,
}

/// # Safety
///
/// `vm` and `options` are what a virtual machine gave.
unsafe fn load(vm: Vm, options: *const c_char, since: Since) -> c_int {
    let text = if options.is_null() {
        String::new()
    } else {
        // SAFETY: the caller's promise: it ends with a zero.
        unsafe { CStr::from_ptr(options) }.to_string_lossy().into_owned()
    };
    let begun = Options::parse(&text).map_err(|error| error.to_string()).and_then(|mut options| {
        if AGENT.get().is_some() || !claim::claim() {
            say("the agent was loaded before; this time it does nothing");
            return Ok(());
        }
        // Not so where a server is in this process, which has a page of its own.
        options.pages = options.folder();
        // SAFETY: the caller's promise.
        unsafe { begin(vm, options, since) }
    });
    match begun {
        Ok(()) => OK,
        Err(problem) => {
            say(format!("the agent cannot be loaded: {problem}"));
            FAILED
        }
    }
}

/// Loads the agent into the virtual machine that runs, for the servers of this copy of the library.
///
/// Where another copy is the agent already, this one leaves it to that to say what it sees. Where
/// there can be no agent, that is said, and servers do without.
///
/// # Errors
///
/// Says what is wrong with the options.
pub(crate) fn attach(vm: &jni::JavaVM, options: &str) -> Result<(), String> {
    let mut options = Options::parse(options).map_err(|error| error.to_string())?;
    if AGENT.get().is_some() {
        return Ok(());
    }
    if !claim::claim() {
        (options.pages, options.record) = (None, None);
    }
    // SAFETY: the virtual machine is one.
    if let Err(problem) = unsafe { begin(vm.get_raw().cast(), options, Since::Later) } {
        say(format!("pauses of the collector are not seen: {problem}"));
    }
    Ok(())
}

/// What is known of pauses; `None` without an agent.
pub(crate) fn account() -> Option<Account> {
    let running = AGENT.get()?.running.get()?;
    Some(running.state.lock().account())
}

/// # Safety
///
/// `vm` is a virtual machine.
unsafe fn begin(vm: Vm, options: Options, since: Since) -> Result<(), String> {
    // SAFETY: the caller's promise.
    let jvmti = unsafe { Jvmti::get(vm) }.map_err(|error| error.to_string())?;
    let agent = AGENT.get_or_init(|| Agent { options, jvmti, running: OnceLock::new() });
    agent.begin(since)
}

impl Agent {
    /// Has events reported; the rest waits for the virtual machine to have a heap, if it does not
    /// run yet.
    fn begin(&self, since: Since) -> Result<(), String> {
        let callbacks =
            Callbacks { init: on_init, death: on_death, start: on_start, finish: on_finish };
        let all = || {
            self.jvmti.want_collections()?;
            self.jvmti.set_callbacks(&callbacks)?;
            self.jvmti.enable(Event::VmDeath)?;
            if since == Since::Later { Ok(()) } else { self.jvmti.enable(Event::VmInit) }
        };
        all().map_err(|error| error.to_string())?;
        if since == Since::Later {
            self.run();
        }
        Ok(())
    }

    /// The virtual machine runs. What does not work is said, and left out: a service is not stopped
    /// for it.
    fn run(&self) {
        let structs = Structs::read();
        let known = structs.as_ref().map_err(Clone::clone);
        let flags = known.clone().and_then(Flags::read);
        let collector = flags.as_ref().ok().and_then(|flags| flags.collector);
        let stops = collector.is_none_or(flags::Collector::stops_the_world);
        let heap = match (known.clone(), collector) {
            (Ok(structs), Some(collector)) if stops => Some(Heap::find(structs, collector)),
            (Err(unknown), _) => Some(Err(unknown)),
            _ => None,
        };
        let heap = heap.and_then(|heap| {
            heap.inspect_err(|error| {
                say(format!("{error}; pauses are predicted without how full the heap is"));
            })
            .ok()
        });
        let perf = known.and_then(Perf::find).inspect_err(|error| {
            say(format!("{error}; all pauses are taken for those of one kind"));
        });
        let Options { prediction, record, .. } = &self.options;
        let record = record.as_ref().and_then(|path| {
            let made = Record::create(path);
            made.inspect_err(|error| say(format!("{}: {error}", path.display()))).ok()
        });
        let state = State::new(Parts {
            pauses: Pauses::new(prediction, u64::from(std::process::id())).expect("was checked"),
            heap,
            perf: perf.ok(),
            workers: flags.map_or(1, |flags| flags.workers),
            page: self.publish(),
            is_recorded: record.is_some(),
        });
        let spawned = thread::Builder::new().name("seawall-pause".into()).spawn(|| watch(record));
        let thread = match spawned {
            Ok(handle) => handle.thread().clone(),
            Err(error) => return say(format!("there is no thread for the agent: {error}")),
        };
        let (state, is_over) = (Mutex::new(state), AtomicBool::new(false));
        let _ = self.running.set(Running { state, thread, is_over });
        if !stops {
            let name = collector.map_or("the collector", flags::Collector::name);
            return say(format!("{name} does not stop the world; there is nothing to predict"));
        }
        // In this order: who is told of a start is told of its finish.
        for event in [Event::CollectionFinish, Event::CollectionStart] {
            if let Err(error) = self.jvmti.enable(event) {
                say(format!("{error}; pauses are not seen"));
            }
        }
    }

    /// The page of the service, if there is a folder for it.
    fn publish(&self) -> Option<Publisher> {
        let folder = self.options.pages.clone()?;
        let service = self.options.service.as_deref().unwrap_or("jvm");
        let described = Description::of_this_process(service, self.options.port);
        let described = described.map_err(|error| error.to_string());
        let made = described.and_then(|description| {
            Publisher::create(&folder, &description).map_err(|error| error.to_string())
        });
        made.inspect_err(|error| say(format!("nobody is told of pauses: {error}"))).ok()
    }
}

/// The thread that goes on while the world stands still.
fn watch(mut record: Option<Record>) {
    let Some(running) = AGENT.get().map(|agent| agent.running.wait()) else { return };
    while !running.is_over.load(Relaxed) {
        let task = running.state.lock().look();
        match task {
            Task::Refuse => {
                halters::refuse();
                thread::park_timeout(IN_PAUSE);
            }
            Task::Record(rows) => {
                if let Some(to) = &mut record
                    && let Err(error) = to.add(&rows)
                {
                    say(format!("{}: no more is written: {error}", to.path().display()));
                    record = None;
                }
                thread::park_timeout(IDLE);
            }
        }
    }
}

unsafe extern "system" fn on_init(_: *mut c_void, _: *mut c_void, _: *mut c_void) {
    guarded((), || AGENT.get().into_iter().for_each(Agent::run));
}

unsafe extern "system" fn on_death(_: *mut c_void, _: *mut c_void) {
    with_running(|running| {
        running.is_over.store(true, Relaxed);
        running.state.lock().end();
    });
}

unsafe extern "system" fn on_start(_: *mut c_void) {
    with_running(|running| {
        // SAFETY: this is the event of a collection's start.
        unsafe { running.state.lock().on_start() };
        running.thread.unpark();
    });
}

unsafe extern "system" fn on_finish(_: *mut c_void) {
    with_running(|running| {
        // SAFETY: this is the event of a collection's finish.
        unsafe { running.state.lock().on_finish() };
        running.thread.unpark();
    });
}

fn with_running(act: impl FnOnce(&'static Running)) {
    guarded((), || {
        if let Some(running) = AGENT.get().and_then(|agent| agent.running.get()) {
            act(running);
        }
    });
}

/// Says so on standard error, if anybody reads it.
fn say(what: impl Display) {
    _ = writeln!(io::stderr(), "seawall: {what}");
}

/// Nothing unwinds into the virtual machine.
fn guarded<T>(otherwise: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        say("the agent has a defect, and leaves the service alone");
        otherwise
    })
}
