//! The store, its protocol, and its server.

mod conversation;
mod eviction;
mod model;
mod server;
mod stream;
mod stress;
