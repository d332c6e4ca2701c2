//! A request's way: route, replica, and back.
//!
//! ```text
//!   request ─► check ─► route ─► fields ─► replica ─► connection ─► sent ─► response ─► fields ─►
//!                                   ▲                    │            │
//!                                   └─ another replica ──┴─ unsent ───┴─ refused, or lost and
//!                                                                        idempotent
//! ```

mod attempt;
mod body;
mod deadline;
mod exchange;
mod failure;
mod headers;
mod refusal;
mod replay;
mod tunnel;

pub(crate) use body::{Body, RequestBody};

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use seawall_control::request::{Claims, Priority};
use seawall_control::{Instant, fields};

use attempt::{Answer, Call, Content};
use body::Source;
use deadline::Deadline;
use failure::Failure;

use crate::admit::Arriving;
use crate::clock;
use crate::config::{Config, Trust};
use crate::listen::Connection;
use crate::route::Route;
use crate::shared::State;

const OWN: HeaderName = HeaderName::from_static(fields::NAME);

/// Answers a request with what the upstream answers, or says why there is no such answer.
pub(crate) async fn handle(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let now = clock::now();
    let is_grpc = is_grpc(request.headers());
    let state = connection.shared.state.load_full();
    let mut taken = None;
    let forwarded = forward(&connection, &state, request, is_grpc, now, &mut taken).await;
    let response = forwarded.unwrap_or_else(|failure| {
        tracing::debug!(?failure, "no response to pass on");
        failure.count();
        failure.response(is_grpc)
    });
    if let Some(route) = taken {
        route.books.responded(response.status());
    }
    Ok(response)
}

/// Whether a message is gRPC's: `application/grpc`, perhaps with a suffix.
fn is_grpc(headers: &HeaderMap) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let content = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content.and_then(|content| content.strip_prefix(TYPE));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

async fn forward<'a>(
    connection: &Arc<Connection>,
    state: &'a State,
    mut request: Request<Incoming>,
    is_grpc: bool,
    now: Instant,
    taken: &mut Option<&'a Route>,
) -> Result<Response<Body>, Failure> {
    let config = &state.config;
    // Taken before anything is done to the request: it is how the connection is got hold of.
    let on_upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (mut parts, incoming) = request.into_parts();
    headers::check(&parts)?;
    let host = headers::host(&parts).unwrap_or_default();
    let fits = |route: &&Route| route.takes(host, parts.uri.path(), &parts.method);
    let route = state.routes.iter().find(fits).ok_or(Failure::NoRoute)?;
    *taken = Some(route);
    let mut own = fields::Request::read(own_lines(&parts.headers)).fields;
    let deadline = Deadline::of(&parts.headers, &own, &route.config, now);
    let most = config.limits.body_bytes;
    if most.is_some_and(|most| content_length(&parts).is_some_and(|length| length > most)) {
        return Err(Failure::TooLong);
    }
    let arriving = Arriving {
        parts: &parts,
        route: (route.number, route.config.label()),
        class: route.class,
        claims: claims(&own, config, route, deadline.left(now)),
    };
    let entered = route.upstream.admission.enter(now, &arriving).await;
    let permit = entered.map_err(|refusal| Failure::Refused { refusal, status: config.status })?;
    if route.upstream.replicas().len() > 1 && own.client.is_some() {
        // Each replica would give credits of its own, and the client could not tell them apart.
        (own.client, own.demand, own.ack) = (None, None, None);
        deadline::write_own(&mut parts.headers, &own);
    }
    let upgrade = headers::upgrade(&parts, config).zip(on_upgrade);
    headers::to_upstream(&mut parts, connection, config, upgrade.as_ref().map(|(name, _)| name));
    let content = if incoming.is_end_stream() || upgrade.is_some() {
        Content::Empty
    } else {
        let source = Source::new(incoming, config.timeouts.stall, most);
        if route.upstream.has_choice() && config.limits.retry_bytes > 0 {
            Content::kept(source, config.limits.retry_bytes)
        } else {
            Content::once(source)
        }
    };
    let is_idempotent = route.config.idempotent.unwrap_or_else(|| parts.method.is_idempotent());
    let call = Call {
        connection,
        state,
        route,
        deadline,
        own,
        is_grpc,
        is_idempotent,
        switches: upgrade.is_some(),
    };
    let answer = call.run(parts, content, permit).await?;
    Ok(pass_on(connection, answer, upgrade.map(|(_, client)| client)))
}

/// What of a request's claims counts, with so much time left.
fn claims(own: &fields::Request, config: &Config, route: &Route, left: Option<Duration>) -> Claims {
    let mut claims = match config.trust {
        Trust::Everybody => own.claims(0),
        Trust::Nobody => {
            let mut believed = fields::Request::default();
            (believed.attempt, believed.budget) = (own.attempt, own.budget);
            believed.claims(0)
        }
    };
    claims.deadline = left;
    claims.priority = route.config.priority.map_or(claims.priority, Priority);
    claims.droppable &= route.config.droppable;
    claims
}

/// The lines of the field that Seawall's own clients and servers write.
fn own_lines(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(OWN).into_iter().map(HeaderValue::as_bytes)
}

/// The length that a request's head announces.
fn content_length(parts: &Parts) -> Option<u64> {
    parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The upstream's response as the client gets it.
fn pass_on(
    connection: &Connection,
    Answer { mut response, exchange, .. }: Answer,
    client: Option<OnUpgrade>,
) -> Response<Body> {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if let Some(client) = client.filter(|_| switched) {
        let upstream = hyper::upgrade::on(&mut response);
        tunnel::start(&connection.shared.tasks, client, upstream);
    }
    let (mut parts, incoming) = response.into_parts();
    parts.version = Version::HTTP_11; // that of the client's connection is set where it is written
    parts.extensions.clear();
    headers::to_client(&mut parts.headers, switched);
    let body = if switched {
        exchange.switch();
        Body::empty()
    } else {
        Body::upstream(incoming, exchange)
    };
    Response::from_parts(parts, body)
}
