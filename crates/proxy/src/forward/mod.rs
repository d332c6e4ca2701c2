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
mod claims;
mod deadline;
mod exchange;
mod failure;
mod headers;
mod refusal;
mod tunnel;

pub(crate) use body::{Body, RequestBody};

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use metrics::counter;
use seawall_control::Instant;
use seawall_measure::names;
use seawall_tower::clock;
use seawall_tower::headers::{GRPC_STATUS, write_field};
use seawall_tower::server::parts::Told;

use attempt::{Answer, Call, Content};
use body::Source;
use deadline::Deadline;
use failure::Failure;

use crate::admit::Arriving;
use crate::listen::Connection;
use crate::route::Route;
use crate::shared::State;

/// Answers a request with what the upstream answers, or says why there is no such answer.
pub(crate) async fn handle(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let now = clock::now();
    let told = Told::read(request.headers());
    let state = connection.shared.state.load_full();
    let mut taken = None;
    let forwarded = forward(&connection, &state, request, &told, now, &mut taken).await;
    let response = forwarded.unwrap_or_else(|failure| {
        tracing::debug!(?failure, "no response to pass on");
        failure.count();
        failure.response(told.grpc.as_ref())
    });
    if let Some(route) = taken {
        route.books.responded(response.status());
    }
    Ok(response)
}

async fn forward<'a>(
    connection: &Arc<Connection>,
    state: &'a State,
    mut request: Request<Incoming>,
    told: &Told,
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
    let deadline = Deadline::of(told, &route.config, now);
    let most = config.limits.body_bytes;
    if most.is_some_and(|most| content_length(&parts).is_some_and(|length| length > most)) {
        return Err(Failure::TooLong);
    }
    let identified = state.senders.identify(&mut parts.headers, &connection.certificate);
    let Some(sender) = identified else {
        counter!(names::PROTOCOL_ERRORS.name, "kind" => "unidentified").increment(1);
        return Err(Failure::Unidentified);
    };
    let arriving = Arriving {
        parts: &parts,
        route: (route.number, route.config.label()),
        class: route.class,
        claims: claims::believed(told, sender, route, deadline.left(now)),
        told,
        sender,
        rest: route.upstream.stands_still(now),
    };
    let admission = &route.upstream.admission;
    let entered = admission.enter(now, &arriving).await;
    let permit = entered.map_err(|refusal| Failure::Refused(refusal, config.status))?;
    let mut own = told.fields;
    let is_ours = admission.gives_credits() || route.upstream.replicas().len() > 1;
    if is_ours && own.client.is_some() {
        // Credits are between two: each replica would give some of its own beside ours, and the
        // client could not tell them apart.
        (own.client, own.demand, own.ack) = (None, None, None);
        write_field(&mut parts.headers, &own);
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
        is_grpc: told.grpc.is_some(),
        is_idempotent,
        switches: upgrade.is_some(),
    };
    let answer = call.run(parts, content, permit).await?;
    Ok(pass_on(connection, answer, told.grpc.is_some(), upgrade.map(|(_, client)| client)))
}

/// The length that a request's head announces.
fn content_length(parts: &Parts) -> Option<u64> {
    parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The upstream's response as the client gets it.
fn pass_on(
    connection: &Connection,
    Answer { mut response, exchange, .. }: Answer,
    is_grpc: bool,
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
    // What can be told at the end of a call of gRPC is told there: by then more is known.
    let has_trailers = is_grpc && !parts.headers.contains_key(GRPC_STATUS);
    if !has_trailers || incoming.is_end_stream() {
        exchange.tell(&mut parts.headers);
    }
    let body = if switched {
        exchange.switch();
        Body::empty()
    } else {
        Body::upstream(incoming, exchange)
    };
    Response::from_parts(parts, body)
}
