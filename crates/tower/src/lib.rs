//! Layers that put Seawall around services that speak HTTP or gRPC, whatever serves them.

pub mod client;
pub mod clock;
pub mod server;
