//! What a process does, live: a listener of its own with the metrics as text and a page that draws
//! them.
//!
//! ```text
//! /metrics ◄── fetched, parsed and differenced by ── the page at /, `seawall top`, Prometheus
//!    ▲
//!    └── what the process records through the `metrics` facade: no second counter anywhere
//! ```

mod buckets;
mod fetch;
mod hosts;
mod http;
mod listener;
mod page;
mod picture;
mod source;
mod text;
mod told;
mod verdict;

pub(crate) use buckets::Quantile;
pub(crate) use hosts::Hosts;
pub(crate) use listener::Live;
pub(crate) use picture::{Class, Container, Picture, Replica, Sample, Stage, Upstream};
pub(crate) use source::{Asks, Source, asks};
pub(crate) use told::Target;
pub(crate) use verdict::{Level, Verdict, words};

use std::sync::Arc;

use parking_lot::Mutex;

/// What is shown, and to whom.
#[derive(Debug)]
pub(crate) struct View {
    /// Where the text of `/metrics` comes from.
    pub(crate) source: Source,
    /// What runs here.
    pub(crate) about: About,
    /// Who may ask.
    pub(crate) hosts: Hosts,
}

/// One line that says what runs here. It may change; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct About(Arc<Mutex<String>>);

impl About {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(Arc::new(Mutex::new(line.into())))
    }

    pub(crate) fn set(&self, line: impl Into<String>) {
        *self.0.lock() = line.into();
    }

    pub(crate) fn line(&self) -> String {
        self.0.lock().clone()
    }
}
