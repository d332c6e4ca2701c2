//! The primitives as services use them.

#![cfg(not(loom))]

mod memory;
mod model;
mod privileges;
mod rpc;
