//! What a handler knows about the request it serves.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::request;

use crate::clock;

/// The request context, as handlers see it: cheap to clone and to hand to stages.
#[derive(Clone, Debug)]
pub struct Context(Arc<request::Context>);

impl Context {
    pub(crate) fn new(context: request::Context) -> Self {
        Self(Arc::new(context))
    }

    /// What the request has left, now: the smaller of its delay budget and its time to the deadline.
    pub fn remaining_now(&self) -> Duration {
        self.0.remaining(clock::now())
    }
}

impl Deref for Context {
    type Target = request::Context;

    fn deref(&self) -> &request::Context {
        &self.0
    }
}
