//! Both sides of the crate, by themselves, together, and behind and in front of what others wrote.

mod client;
mod client_http;
mod client_server;
mod server;
