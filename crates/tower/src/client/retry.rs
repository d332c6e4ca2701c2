//! Who may object to a retry, and who hears of it.

use std::fmt;

use http::{Method, Uri};
use seawall_control::retry::{End, Verdict, Why};

use super::answer::Refusal;
use super::error::BoxError;

/// An attempt that has failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The replica that was asked.
    pub replica: &'a str,
    /// How it failed.
    pub end: End,
    /// The refusal, if it was refused.
    pub refusal: Option<&'a Refusal>,
    /// The error, if there was no response.
    pub error: Option<&'a BoxError>,
    /// How often the request was sent so far.
    pub sent: u8,
    /// The request may run twice without harm.
    pub idempotent: bool,
    /// The request's method.
    pub method: &'a Method,
    /// Whom and what it was sent to.
    pub uri: &'a Uri,
}

/// A hook into retries: it may forbid one that the policy would allow, and hears of all failures.
///
/// A closure that takes a [`Failure`] and says whether it may be tried again is one.
pub trait Hook: Send + Sync {
    /// False if this request must not be sent again. Asked before the retry budget is.
    fn allows(&self, _failure: &Failure<'_>) -> bool {
        true
    }

    /// The policy has decided so.
    fn on_verdict(&self, _failure: &Failure<'_>, _verdict: Verdict) {}
}

impl<F> Hook for F
where
    F: Fn(&Failure<'_>) -> bool + Send + Sync,
{
    fn allows(&self, failure: &Failure<'_>) -> bool {
        self(failure)
    }
}

/// Objects to nothing.
pub(super) struct NoHook;

impl Hook for NoHook {}

impl fmt::Debug for dyn Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// How often a request was sent, and why no more: in the extensions of responses that
/// [`Replicas`](super::Replicas) give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempts {
    /// How often it was sent.
    pub sent: u8,
    /// Why it was not sent again, if it has failed: what the policy objected to, if it did.
    pub given_up: Option<Why>,
}
