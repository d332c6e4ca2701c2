//! A deterministic simulator that runs the very code of `seawall-control`, at any scale.

mod outcome;
pub mod plan;
mod queue;
mod runs;
pub mod scenario;
pub mod world;

pub use outcome::{Run, Shift};
pub use plan::Plan;
pub use runs::RunError;
pub use scenario::Scenario;
pub use world::World;
