//! Who a client is, and what that brings: trust, tokens, TLS and client certificates.

mod certificates;
mod files;
mod mutual;
mod tls;
mod trust;
