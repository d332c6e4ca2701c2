//! What measures Seawall: nothing of it runs in production.
//!
//! ```text
//!   demo ──┬─► load       requests on schedule, whatever the server answers; what came of them
//!          ├─► child      a server in a process of its own, often of the synthetic service
//!          └─► report     numbers as tables, charts and pages
//! ```
//!
//! The commands of `seawall` that measure are made of these parts. What one latency or one good
//! answer is stands in [`seawall_measure`], for simulated runs, too.

pub mod child;
pub mod cores;
pub mod demo;
pub mod descriptors;
pub mod host;
pub mod load;
pub mod output;
pub mod pin;
pub mod progress;
pub mod report;
pub mod synthetic;
