//! The server side, by itself and behind axum, hyper and tonic.

mod axum;
mod completions;
mod hyper;
mod mock;
mod service;
mod support;
mod tonic;
mod tonic_tls;
