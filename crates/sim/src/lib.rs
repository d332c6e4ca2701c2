//! A deterministic simulator that runs the very code of `seawall-control`, at any scale.

mod queue;
pub mod scenario;
pub mod world;

pub use scenario::Scenario;
pub use world::World;
