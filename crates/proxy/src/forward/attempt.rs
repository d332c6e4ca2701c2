//! Sends a request to replicas until one answers, as often as that is allowed.

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, Uri, Version};
use seawall_control::replica::Answered;
use seawall_control::request::Rejected;
use seawall_control::retry::{End, Failed, Verdict};
use seawall_control::{fields, gate};
use seawall_tower::client::{Recording, Refusal};
use seawall_tower::clock;
use tokio::time::{Instant as TokioInstant, sleep_until};

use super::body::{Broken, RequestBody, Source, Upload};
use super::deadline::Deadline;
use super::exchange::Exchange;
use super::failure::Failure;
use super::headers;
use super::refusal;
use crate::admit::Permit;
use crate::listen::Connection;
use crate::route::Route;
use crate::shared::State;
use crate::upstream::{Attempt, ConnectError, Lease, Replica, Tried, Wants};

/// A connection that was idle for so long may have been closed by its server just now: that a
/// request was lost on it says more about the connection than about the request.
const STALE: Duration = Duration::from_millis(500);

/// What is to be sent of a request's body.
#[derive(Debug)]
pub(super) enum Content {
    /// There is none.
    Empty,
    /// It is sent once; `None` when it was.
    Once(Option<RequestBody>, Arc<Upload>),
    /// It is kept, as far as that is allowed.
    Kept(Recording<Source>, Arc<Upload>),
}

impl Content {
    pub(super) fn once(source: Source) -> Self {
        let upload = source.upload().clone();
        Self::Once(Some(RequestBody::once(source)), upload)
    }

    pub(super) fn kept(source: Source, most: usize) -> Self {
        let upload = source.upload().clone();
        Self::Kept(Recording::new(source, most), upload)
    }

    fn upload(&self) -> Option<&Arc<Upload>> {
        match self {
            Self::Empty => None,
            Self::Once(_, upload) | Self::Kept(_, upload) => Some(upload),
        }
    }

    /// Whether it could be sent now, from its beginning.
    fn is_whole(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Once(body, _) => body.is_some(),
            Self::Kept(kept, _) => kept.can_play(),
        }
    }

    fn take(&mut self) -> Option<RequestBody> {
        match self {
            Self::Empty => Some(RequestBody::empty()),
            Self::Once(body, _) => body.take(),
            Self::Kept(kept, _) => kept.can_play().then(|| RequestBody::replay(kept.play())),
        }
    }
}

/// A request that is to be answered.
pub(super) struct Call<'a> {
    pub(super) connection: &'a Arc<Connection>,
    pub(super) state: &'a State,
    pub(super) route: &'a Route,
    pub(super) deadline: Deadline,
    /// What the request says in Seawall's own field.
    pub(super) own: fields::Request,
    pub(super) is_grpc: bool,
    pub(super) is_idempotent: bool,
    /// Whether it asks to switch to another protocol.
    pub(super) switches: bool,
}

/// What a replica answered.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) exchange: Exchange,
    /// How long the replica took until it began.
    latency: Duration,
}

/// How an attempt ended without an answer that can be passed on as it is.
enum Ended {
    /// No connection.
    Unreachable(Failure),
    /// Nothing of the request was sent, or nothing of it was looked at.
    Unsent(String),
    /// Nobody knows what became of it.
    Lost(String),
    /// It was refused before it did anything.
    Refused(Box<(Answer, Refusal)>),
    /// The replica stands still, for longer than the request can wait.
    Paused(Rejected),
    /// It is of no use any more, or will never be whole.
    Over(Failure),
}

impl Call<'_> {
    /// Sends it until it is answered.
    pub(super) async fn run(
        &self,
        mut parts: Parts,
        mut content: Content,
        mut permit: Permit,
    ) -> Result<Answer, Failure> {
        let upstream = &self.route.upstream;
        upstream.on_call();
        let (mut tried, mut sent) = (Tried::default(), 0_u8);
        // Attempts to connect to the last replica that is left, beyond the first.
        let mut waits = 0_u8;
        let mut replica = upstream.choose(clock::now(), &tried).expect("none was tried");
        loop {
            tried.insert(replica);
            let attempt = self.attempt(replica, &mut parts, &mut content, &mut sent, &permit);
            let ended = match attempt.await {
                Ok(mut answer) => {
                    permit.answered(answer.latency);
                    answer.exchange.will_end(refusal::end_of(&answer.response));
                    answer.exchange.keep(permit);
                    return Ok(answer);
                }
                Err(ended) => ended,
            };
            let now = clock::now();
            let end = match &ended {
                Ended::Unreachable(_) | Ended::Unsent(_) => End::Unreachable,
                Ended::Lost(_) => End::Unknown,
                Ended::Refused(refused) => {
                    let (_, refused) = &**refused;
                    upstream.on_refusal(now, replica, &refused.rejected);
                    permit.refused_behind(refused.stage.as_ref().map_or("", |name| name.as_str()));
                    if refused.may_retry { End::Refused } else { End::Final }
                }
                Ended::Paused(rejected) => {
                    upstream.on_refusal(now, replica, rejected);
                    End::Refused
                }
                Ended::Over(_) => End::Final,
            };
            match &ended {
                Ended::Unreachable(_) | Ended::Unsent(_) => {
                    upstream.on_lost(now, replica, Attempt::Unsent);
                }
                Ended::Lost(_) => upstream.on_lost(now, replica, Attempt::Lost),
                Ended::Over(Failure::TimedOut) => {
                    upstream.on_lost(now, replica, Attempt::TimedOut);
                }
                Ended::Refused(..) | Ended::Paused(_) | Ended::Over(_) => {}
            }
            let mut failed = Failed::new(end, self.deadline.at);
            failed.sent = sent;
            failed.others = if content.is_whole() { upstream.others(now, &tried) } else { 0 };
            failed.idempotent = self.is_idempotent && !self.switches;
            let verdict =
                if end == End::Final { None } else { Some(upstream.on_failure(now, &failed)) };
            if verdict == Some(Verdict::Again)
                && let Some(next) = upstream.choose(now, &tried)
            {
                tracing::debug!(?end, next, "sent to another replica");
                replica = next;
                continue;
            }
            // Nobody else is left, and nothing was sent: who accepts slowly may do so now.
            let may_wait =
                matches!(ended, Ended::Unreachable(Failure::Connect(ConnectError::TimedOut(_))))
                    && failed.others == 0
                    && content.is_whole();
            if may_wait && waits + 1 < upstream.config.retry.attempts && !self.deadline.is_over(now)
            {
                waits += 1;
                continue;
            }
            let failure = match ended {
                // The refusal is the upstream's own answer.
                Ended::Refused(refused) => {
                    let (mut answer, _) = *refused;
                    answer.exchange.will_end(gate::End::Refused);
                    answer.exchange.keep(permit);
                    return Ok(answer);
                }
                Ended::Paused(rejected) => {
                    let route = (self.route.number, self.route.config.label());
                    let refusal = permit.refuse(route, rejected);
                    return Err(Failure::Refused(refusal, self.state.config.status));
                }
                Ended::Unreachable(failure) | Ended::Over(failure) => failure,
                Ended::Unsent(error) | Ended::Lost(error) => Failure::Lost(error),
            };
            permit.end(if failure.is_the_clients() {
                gate::End::Cancelled
            } else {
                gate::End::Failed
            });
            return Err(failure);
        }
    }

    /// Sends it to one replica. What was not sent is put back.
    async fn attempt(
        &self,
        index: usize,
        parts: &mut Parts,
        content: &mut Content,
        sent: &mut u8,
        permit: &Permit,
    ) -> Result<Answer, Ended> {
        let upstream = &self.route.upstream;
        let replica = &upstream.replicas()[index];
        let mut is_fresh = false;
        loop {
            let worker = self.connection.worker;
            let mut exchange = Exchange::begin(upstream, index, worker, self.deadline);
            let lease = self.lease(replica, is_fresh).await?;
            let idle_for = lease.idle_for;
            let is_stale = idle_for.is_some_and(|idle| idle >= STALE);
            // A copy costs something, so it is made only where it may be needed.
            let may_repeat = upstream.has_choice()
                || (is_stale && self.is_idempotent && matches!(content, Content::Empty));
            let Some(body) = content.take() else {
                return Err(Ended::Lost("the body cannot be sent again".into()));
            };
            let head = if may_repeat { parts.clone() } else { take(parts) };
            let mut sender = lease.sender;
            let is_http2 = sender.is_http2();
            let request = self.request(head, body, replica, is_http2)?;
            let began = clock::now();
            *sent = sent.saturating_add(1);
            let sending = self.in_time(sender.send(request), content.upload(), replica, permit);
            let mut error = match sending.await? {
                Ok(response) => {
                    exchange.sent(sender, content.upload().cloned());
                    return self.answered(index, began, response, exchange, content);
                }
                Err(error) => error,
            };
            if let Some(over) = self.client_failed(content) {
                return Err(Ended::Over(over));
            }
            if let Some(request) = error.take_message() {
                // Nothing was sent: the connection was closed before.
                *sent -= 1;
                let (head, body) = request.into_parts();
                *parts = head;
                if let Content::Once(place, _) = content {
                    *place = Some(body);
                }
                if idle_for.is_none() {
                    return Err(Ended::Unsent(describe(&error.into_error())));
                }
                continue;
            }
            let error = error.into_error();
            if self.deadline.is_over(clock::now()) {
                return Err(Ended::Over(Failure::Expired));
            }
            if was_not_processed(&error) {
                return Err(Ended::Unsent(describe(&error)));
            }
            if is_stale && !is_fresh && self.is_idempotent && matches!(content, Content::Empty) {
                is_fresh = true;
                continue;
            }
            return Err(Ended::Lost(describe(&error)));
        }
    }

    async fn lease(&self, replica: &Arc<Replica>, is_fresh: bool) -> Result<Lease, Ended> {
        let wants = match (self.switches, self.is_grpc) {
            (true, _) => Wants::Http1,
            (false, true) => Wants::Http2,
            (false, false) => Wants::Any,
        };
        let config = &self.state.config;
        let patience = config.timeouts.connect;
        let pool = replica.pool(self.connection.worker);
        let leasing = pool.lease(replica, wants, is_fresh, patience, &config.limits);
        match self.deadline.left(clock::now()) {
            None => leasing.await,
            Some(left) => match tokio::time::timeout(left, leasing).await {
                Ok(leased) => leased,
                Err(_) => return Err(Ended::Over(Failure::Expired)),
            },
        }
        .map_err(|error| Ended::Unreachable(Failure::Connect(error)))
    }

    /// What is sent, in the form of the connection's version of HTTP.
    fn request(
        &self,
        mut parts: Parts,
        body: RequestBody,
        replica: &Replica,
        is_http2: bool,
    ) -> Result<Request<RequestBody>, Ended> {
        let bad = || Ended::Over(Failure::Bad("the target or the host cannot be passed on"));
        self.deadline.write(&mut parts.headers, &self.own, clock::now());
        let own_host = self.route.upstream.config.host.as_deref();
        let path = parts.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if is_http2 {
            let authority = match own_host {
                Some(host) => host.parse::<Authority>().ok(),
                None => headers::host(&parts).and_then(|host| host.parse().ok()),
            };
            let authority = match authority {
                Some(authority) => authority,
                None => replica.dialer.authority().parse().map_err(|_| bad())?,
            };
            parts.headers.remove(HOST);
            let scheme = if replica.dialer.speaks_tls() { Scheme::HTTPS } else { Scheme::HTTP };
            let mut uri = hyper::http::uri::Parts::default();
            (uri.scheme, uri.authority) = (Some(scheme), Some(authority));
            uri.path_and_query = Some(path);
            parts.uri = Uri::from_parts(uri).map_err(|_| bad())?;
            parts.version = Version::HTTP_2;
        } else {
            let host = match (own_host, parts.uri.authority()) {
                (Some(host), _) => Some(HeaderValue::from_str(host).map_err(|_| bad())?),
                (None, Some(authority)) => {
                    Some(HeaderValue::from_str(authority.as_str()).map_err(|_| bad())?)
                }
                (None, None) if parts.headers.contains_key(HOST) => None,
                (None, None) => {
                    Some(HeaderValue::from_str(replica.dialer.authority()).map_err(|_| bad())?)
                }
            };
            if let Some(host) = host {
                parts.headers.insert(HOST, host);
            }
            if parts.uri.authority().is_some() {
                parts.uri = Uri::from(path);
            }
            headers::for_http1(&mut parts);
            parts.version = Version::HTTP_11;
        }
        Ok(Request::from_parts(parts, body))
    }

    /// Waits for the head of the response, as long as the route and the deadline allow. The route's
    /// time begins when the whole body was sent.
    async fn in_time<T>(
        &self,
        response: impl Future<Output = T>,
        upload: Option<&Arc<Upload>>,
        replica: &Replica,
        permit: &Permit,
    ) -> Result<T, Ended> {
        let mut response = pin!(response);
        let (now, started) = (clock::now(), TokioInstant::now());
        let expires = self.deadline.left(now).map(|left| started + left);
        let mut times_out = started + self.route.timeout;
        loop {
            let until = expires.map_or(times_out, |expires| expires.min(times_out));
            tokio::select! {
                biased;
                response = &mut response => return Ok(response),
                // What may have begun may not go elsewhere, unless it may run twice.
                () = replica.pause.stands(), if self.is_idempotent && !self.switches => {
                    let rest = replica.pause.rest().unwrap_or_default();
                    permit.admit(rest).map_err(Ended::Paused)?;
                    continue;
                }
                () = sleep_until(until) => {}
            }
            if expires.is_some_and(|expires| expires <= TokioInstant::now()) {
                return Err(Ended::Over(Failure::Expired));
            }
            let since = match upload.map(|upload| upload.ended()) {
                None => now,
                Some(Some(ended)) => ended.max(now),
                Some(None) => clock::now(), // the body is still on its way
            };
            let left = self.route.timeout.saturating_sub(clock::now().since(since));
            if left.is_zero() {
                return Err(Ended::Over(Failure::TimedOut));
            }
            times_out = TokioInstant::now() + left;
        }
    }

    /// A response has begun.
    fn answered(
        &self,
        index: usize,
        began: seawall_control::Instant,
        response: Response<Incoming>,
        exchange: Exchange,
        content: &Content,
    ) -> Result<Answer, Ended> {
        let now = clock::now();
        let refused = refusal::read(&response);
        // A client that sends slowly does not make the replica slow.
        let since = match content.upload().and_then(|upload| upload.ended()) {
            Some(ended) => ended.max(began),
            None => began,
        };
        let latency = now.since(since);
        let answer = Answer { response, exchange, latency };
        if let Some(refused) = refused {
            return Err(Ended::Refused(Box::new((answer, refused))));
        }
        let reply = Answered { latency, service: latency, ..Answered::default() };
        self.route.upstream.on_reply(now, index, reply);
        Ok(answer)
    }

    /// What the client did wrong while its body was read.
    fn client_failed(&self, content: &Content) -> Option<Failure> {
        Some(match content.upload()?.broken()? {
            Broken::Stalled => Failure::ClientStalled,
            Broken::TooLong => Failure::TooLong,
            Broken::Gone | Broken::Abandoned => Failure::ClientGone,
        })
    }
}

/// The head, of which nothing is needed any more.
fn take(parts: &mut Parts) -> Parts {
    let (empty, ()) = Request::new(()).into_parts();
    std::mem::replace(parts, empty)
}

/// Whether the replica says that it has not looked at the request: the stream was refused, or is
/// beyond those that a closing connection still serves (RFC 9113 §8.7).
fn was_not_processed(error: &hyper::Error) -> bool {
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return false;
    };
    error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || (error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR))
}

/// An error and its causes.
fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
