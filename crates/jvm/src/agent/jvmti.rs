//! The part of the tool interface (JVM TI 1.2) that the agent needs.
//!
//! The interface is a table of functions, which its specification numbers from 1; so it does of
//! events, from 50. All versions since have added to the ends.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use thiserror::Error;

/// `JavaVM*`: the invocation interface, a pointer to a table of functions.
pub(crate) type Vm = *const *const Invocation;

/// The invocation interface (JNI specification, chapter 5): three words of reserve, then functions.
#[repr(C)]
pub(crate) struct Invocation {
    reserved: [*const c_void; 3],
    destroy: *const c_void,
    attach: *const c_void,
    detach: *const c_void,
    get_env: unsafe extern "system" fn(Vm, *mut *mut c_void, c_int) -> c_int,
}

/// `jvmtiEnv*`.
type Raw = *const *const [*const c_void; FUNCTIONS];

/// A function that an event calls, of whatever signature.
type Callback = *const c_void;

/// Functions of JVM TI 1.2, of which only some are looked at.
const FUNCTIONS: usize = 153;

/// `JVMTI_VERSION_1_2`.
const VERSION: c_int = 0x3001_0200;

const SET_EVENT_NOTIFICATION_MODE: usize = 2;
const SET_EVENT_CALLBACKS: usize = 122;
const ADD_CAPABILITIES: usize = 142;

/// Of the capabilities, bit 31 of the first word is `can_generate_garbage_collection_events`.
const COLLECTION_EVENTS: c_uint = 1 << 31;

const FIRST_EVENT: usize = 50;
const LAST_EVENT: usize = 84;

/// An event that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    VmInit = 50,
    VmDeath = 51,
    CollectionStart = 81,
    CollectionFinish = 82,
}

/// What to call at which event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks {
    /// The virtual machine has a heap and runs.
    pub(crate) init: unsafe extern "system" fn(*mut c_void, *mut c_void, *mut c_void),
    /// It ends.
    pub(crate) death: unsafe extern "system" fn(*mut c_void, *mut c_void),
    /// The world stands still.
    pub(crate) start: unsafe extern "system" fn(*mut c_void),
    /// It goes on.
    pub(crate) finish: unsafe extern "system" fn(*mut c_void),
}

/// The tool interface of a virtual machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jvmti(Raw);

/// Why it cannot be used.
#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum JvmtiError {
    /// There is none.
    #[error("this Java has no tool interface of version 1.2 (JNI error {0})")]
    Missing(c_int),
    /// A function of it failed.
    #[error("JVM TI function {function} failed with error {code}")]
    Failed {
        /// Number of the function.
        function: usize,
        /// `jvmtiError`.
        code: c_int,
    },
}

impl Jvmti {
    /// Asks the virtual machine for it.
    ///
    /// # Safety
    ///
    /// `vm` is what a virtual machine gave.
    pub(crate) unsafe fn get(vm: Vm) -> Result<Self, JvmtiError> {
        let mut env: *mut c_void = ptr::null_mut();
        // SAFETY: the caller's promise; GetEnv may be called from any attached thread.
        let code = unsafe { ((**vm).get_env)(vm, &raw mut env, VERSION) };
        if code != 0 || env.is_null() {
            return Err(JvmtiError::Missing(code));
        }
        Ok(Self(env as Raw))
    }

    /// Has collections reported.
    pub(crate) fn want_collections(self) -> Result<(), JvmtiError> {
        // `jvmtiCapabilities` is of 128 bits.
        let capabilities: [c_uint; 4] = [COLLECTION_EVENTS, 0, 0, 0];
        type Add = unsafe extern "system" fn(Raw, *const c_uint) -> c_int;
        // SAFETY: the function of this number has this signature.
        let add: Add = unsafe { std::mem::transmute(self.function(ADD_CAPABILITIES)) };
        // SAFETY: the capabilities live for the call.
        check(ADD_CAPABILITIES, unsafe { add(self.0, capabilities.as_ptr()) })
    }

    /// Says what to call from now on.
    pub(crate) fn set_callbacks(self, callbacks: &Callbacks) -> Result<(), JvmtiError> {
        let mut table: [Callback; LAST_EVENT + 1 - FIRST_EVENT] = [ptr::null(); _];
        table[Event::VmInit as usize - FIRST_EVENT] = callbacks.init as Callback;
        table[Event::VmDeath as usize - FIRST_EVENT] = callbacks.death as Callback;
        table[Event::CollectionStart as usize - FIRST_EVENT] = callbacks.start as Callback;
        table[Event::CollectionFinish as usize - FIRST_EVENT] = callbacks.finish as Callback;
        type Set = unsafe extern "system" fn(Raw, *const Callback, c_int) -> c_int;
        // SAFETY: the function of this number has this signature.
        let set: Set = unsafe { std::mem::transmute(self.function(SET_EVENT_CALLBACKS)) };
        let size = size_of_val(&table) as c_int;
        // SAFETY: the table lives for the call, which copies it.
        check(SET_EVENT_CALLBACKS, unsafe { set(self.0, table.as_ptr(), size) })
    }

    /// Has `event` reported from now on.
    pub(crate) fn enable(self, event: Event) -> Result<(), JvmtiError> {
        const ENABLE: c_int = 1;
        type Set = unsafe extern "C" fn(Raw, c_int, c_int, *const c_void, ...) -> c_int;
        // SAFETY: the function of this number has this signature.
        let set: Set = unsafe { std::mem::transmute(self.function(SET_EVENT_NOTIFICATION_MODE)) };
        // SAFETY: a null thread is all threads.
        let code = unsafe { set(self.0, ENABLE, event as c_int, ptr::null()) };
        check(SET_EVENT_NOTIFICATION_MODE, code)
    }

    fn function(self, number: usize) -> *const c_void {
        // SAFETY: the table of this version has so many functions, and lives as long as the
        // virtual machine.
        unsafe { (**self.0)[number - 1] }
    }
}

fn check(function: usize, code: c_int) -> Result<(), JvmtiError> {
    if code == 0 { Ok(()) } else { Err(JvmtiError::Failed { function, code }) }
}
