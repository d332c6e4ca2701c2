//! Requests to a Java service do not wait for a garbage collector (LIBROS §V).
//!
//! ```text
//!   virtual machine                         this agent
//!   collection starts ── JVM TI ─► how full is the heap? predict ─► page ─► who sends requests
//!   (the world stands still)        a thread that goes on renews it each millisecond
//!   collection ends   ── JVM TI ─► learn
//! ```
//!
//! The virtual machine is not modified: `java -agentpath:/usr/lib/libseawall_jvm.so=service=shop`.
//!
//! It changes nothing in the program, calls none of its code, and starts one thread.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

#[allow(
    unsafe_code,
    unreachable_pub,
    reason = "it reads the memory of the virtual machine, and is called by it, by name"
)]
mod agent;

#[allow(unsafe_code, unreachable_pub, reason = "Java calls it by name, and is called by it")]
mod library;
