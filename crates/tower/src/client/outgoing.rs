//! What a request tells its server, in the headers in which it is told.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName};
use http::{Extensions, Method};
use seawall_control::Instant;
use seawall_control::client::Report;
use seawall_control::fields::{self, Name, timeout};
use seawall_control::request::Claims;

use super::options::{CallOptions, Deadline};
use crate::headers::{ENVOY_TIMEOUT, GRPC_TIMEOUT, envoy_timeout, is_grpc, lines, write_field};
use crate::server::Deadlines;
use crate::{Context, clock};

/// How often a gRPC call was sent before (gRFC A6).
const GRPC_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// A request, as far as its headers and extensions say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// Its claims, but for the deadline and the attempt, which are told as they are when it leaves.
    pub(super) claims: Claims,
    pub(super) deadline: Instant,
    pub(super) idempotent: bool,
    pub(super) is_grpc: bool,
    tells_envoy: bool,
}

/// What is put on all requests of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Custom {
    /// The deadline of requests that have none.
    pub(super) deadline: Option<Duration>,
    /// Whether Envoy's header is written even if it was not there.
    pub(super) tells_envoy: bool,
}

impl Outgoing {
    /// Reads a request that is about to be sent.
    ///
    /// Of a `seawall` field that it has already only the deadline counts: a service that copies
    /// headers from the request that it serves must not lend its name to claims of strangers.
    pub(super) fn of(
        now: Instant,
        method: &Method,
        headers: &HeaderMap,
        extensions: &Extensions,
        custom: Custom,
    ) -> Self {
        let options = extensions.get::<CallOptions>().copied().unwrap_or_default();
        let context = extensions.get::<Context>().cloned().or_else(Context::current);
        let mut claims = match &context {
            Some(context) => context.onward().claims(clock::realtime_ns()),
            None => Claims::default(),
        };
        apply(&options, &mut claims);

        let told = [
            fields::Request::read(lines(headers)).fields.deadline,
            headers.get(GRPC_TIMEOUT).and_then(|value| timeout::parse(value.as_bytes())),
            headers.get(ENVOY_TIMEOUT).and_then(|value| envoy_timeout(value.as_bytes())),
            claims.deadline,
        ];
        let told = told.into_iter().flatten().map(|left| now + left);
        let asked = extensions.get::<Deadline>().map(|deadline| deadline.instant());
        let custom_deadline = || custom.deadline.map(|left| now + left);
        let deadline = told.chain(asked).min().or_else(custom_deadline).unwrap_or(Instant::NEVER);
        Self {
            claims,
            deadline,
            idempotent: options.idempotent.unwrap_or(method.is_idempotent()),
            is_grpc: is_grpc(headers),
            tells_envoy: custom.tells_envoy
                || headers.contains_key(ENVOY_TIMEOUT)
                || context.is_some_and(|context| context.deadlines().envoy),
        }
    }

    /// What is left until its deadline.
    pub(super) fn left(&self, now: Instant) -> Duration {
        match self.deadline {
            Instant::NEVER => Duration::MAX,
            deadline => deadline.since(now),
        }
    }

    /// Writes all of it, as it is at `now`; the request was sent `sent` times before.
    pub(super) fn write(
        &self,
        now: Instant,
        realtime_ns: u64,
        (client, report): (Name, Report),
        sent: u8,
        headers: &mut HeaderMap,
    ) {
        let left = (self.deadline != Instant::NEVER).then(|| self.deadline.since(now));
        let attempt = self.claims.attempt.saturating_add(sent);
        let claims = Claims { deadline: left, attempt, ..self.claims };
        let mut told = fields::Request::of(&claims, realtime_ns);
        told.client = Some(client);
        told.demand = (report.demand > 0).then_some(report.demand);
        told.ack = (report.window_ack > 0).then_some(report.window_ack);
        write_field(headers, &told);
        if self.is_grpc && attempt > 0 {
            headers.insert(GRPC_ATTEMPTS, u16::from(attempt).into());
        }
        if let Some(left) = left {
            let mut deadlines = Deadlines::default();
            (deadlines.grpc, deadlines.envoy) = (self.is_grpc, self.tells_envoy);
            deadlines.write(left, headers);
        }
    }
}

fn apply(options: &CallOptions, claims: &mut Claims) {
    claims.priority = options.priority.unwrap_or(claims.priority);
    claims.tenant = options.tenant.unwrap_or(claims.tenant);
    claims.droppable = options.droppable.unwrap_or(claims.droppable);
    claims.budget = options.budget.into_iter().chain(claims.budget).min();
    claims.upscale_hops = options.upscale_hops.unwrap_or(0).max(claims.upscale_hops);
    claims.path = options.path.unwrap_or(claims.path);
}
