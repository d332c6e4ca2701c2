//! The least that a call can cost: a length, a payload, and replies in the order of the requests.
//!
//! It is meant as a good implementation of little: all that a read brings is answered in one write,
//! payloads are not copied on their way to the caller, and no system call is made in vain.

mod client;
mod frames;
mod server;

pub(super) use client::Client;
pub(super) use server::serve;
