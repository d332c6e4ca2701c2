//! The model of the credit mechanism, compiled anew around a server that has a bug.
//!
//! The model finds what it needs below `crate`; everything but `credit` is the real thing.

pub(crate) mod credit;
#[path = "../../crates/control/src/harness/model.rs"]
#[allow(dead_code, unreachable_pub, reason = "property tests use more of it, and from outside")]
pub(crate) mod model;

pub(crate) use seawall_control::{breakwater, client, controller, random, request, time};
