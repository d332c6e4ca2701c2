//! One call: a replica, and another one if that refuses it.

use std::error::Error as StdError;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Buf;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body as HttpBody;
use seawall_control::Instant;
use seawall_control::controller::DropReason;
use seawall_control::retry::{End, Failed, Verdict, Why};
use tower_service::Service;

use super::Shared;
use super::members::{Chosen, Picked};
use crate::client::answer::{Fate, Refusal};
use crate::client::attempt::{Attempt, Attempted};
use crate::client::body::{Body, Call};
use crate::client::error::{BoxError, Error, Refused};
use crate::client::future::tell;
use crate::client::outgoing::Outgoing;
use crate::client::replay::{Recording, Replay};
use crate::client::retry::{Attempts, Failure};
use crate::clock;

/// Bytes of a refusal's body that are read so that its connection can be used again.
const DRAINED_MAX: usize = 16 << 10;

/// A call of which not all attempts are known yet.
#[derive(Debug)]
struct Course {
    outgoing: Outgoing,
    /// The replicas that were tried, by number.
    tried: Vec<usize>,
    sent: u8,
    /// Of the replicas that refused it, the one that predicted to be free first, and when.
    soonest: Option<(usize, Instant)>,
}

/// What became of an attempt.
enum Judged<R> {
    Served(Response<R>, Call),
    Lost(Loss<R>),
}

/// An attempt that has failed, and what its caller gets if it was the last.
struct Loss<R> {
    end: End,
    refusal: Option<Box<Refusal>>,
    what: What<R>,
}

enum What<R> {
    Answered(Response<R>, Call),
    Refused(Refused),
    Failed(BoxError),
    Late,
}

/// What comes after an attempt that has failed.
enum Next<S> {
    /// The request goes there, after a pause.
    To(Chosen<S>, Duration),
    GiveUp(Option<Why>),
}

pub(super) async fn call<S, B, R>(
    shared: Arc<Shared<S>>,
    request: Request<B>,
) -> Result<Response<Body<R>>, Error>
where
    S: Service<Request<Replay<B>>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody,
    B::Error: Into<BoxError>,
    R: HttpBody,
{
    let (parts, body) = request.into_parts();
    let Parts { method, headers, extensions, .. } = &parts;
    let custom = shared.config.custom();
    let outgoing = Outgoing::of(clock::now(), method, headers, extensions, custom);
    let recording = Recording::new(body, shared.config.replay_max);
    let mut course = Course { outgoing, tried: Vec::new(), sent: 0, soonest: None };
    shared.policy.lock().on_call();
    let mut chosen = shared.members.choose(&[]).ok_or(Error::NoReplica)?;
    loop {
        let Chosen { picked, member, others } = chosen;
        let index = picked.index;
        course.tried.push(index);
        let attempted = {
            let request = Request::from_parts(parts.clone(), recording.play());
            let patience = if others > 0 { shared.patience } else { Duration::MAX };
            match member.session.submit(&course.outgoing, patience) {
                Some(ticket) => {
                    let (outgoing, sent) = (course.outgoing, course.sent);
                    let service = member.service.clone();
                    Attempt::new(ticket, service, request, outgoing, (sent, patience)).await
                }
                None => {
                    let left = course.outgoing.left(clock::now());
                    Attempted::Refused(Refused::new(DropReason::Expired, Duration::ZERO, left))
                }
            }
        };
        let loss = match course.judge(attempted, picked) {
            Judged::Lost(loss) => loss,
            Judged::Served(mut response, call) => {
                shared.members.on_reached(index, true);
                let attempts = Attempts { sent: course.sent, given_up: None };
                response.extensions_mut().insert(attempts);
                return Ok(response.map(|body| Body::new(body, Some(call))));
            }
        };
        shared.members.on_reached(index, loss.end != End::Unreachable);
        match shared.next(&mut course, &loss, &member.key, &parts, recording.can_play()) {
            Next::GiveUp(why) => return shared.give_up(loss, &course, why),
            Next::To(next, pause) => {
                loss.discard();
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                chosen = next;
            }
        }
    }
}

impl Course {
    /// An attempt at the replica that was picked has ended.
    fn judge<R>(&mut self, attempted: Attempted<R>, mut picked: Picked) -> Judged<R> {
        let was_sent = match &attempted {
            Attempted::Refused(_) | Attempted::Unready(_) => false,
            Attempted::Failed(error) => !never_left(error),
            Attempted::Answered { .. } | Attempted::DeadlineExceeded => true,
        };
        self.sent = self.sent.saturating_add(u8::from(was_sent));
        let lost = |end, refusal, what| Judged::Lost(Loss { end, refusal, what });
        match attempted {
            Attempted::Answered { response, flight, news, answered } => match news.fate {
                Fate::Served => {
                    picked.on_reply(answered);
                    Judged::Served(response, Call { flight, picked: Some(picked) })
                }
                Fate::Refused(refusal) => {
                    self.on_refusal(picked.index, &refusal);
                    picked.on_refusal(&refusal);
                    let call = Call { flight, picked: Some(picked) };
                    lost(End::Refused, Some(refusal), What::Answered(response, call))
                }
                Fate::Unsure => {
                    picked.on_nothing();
                    let call = Call { flight, picked: Some(picked) };
                    lost(End::Unknown, None, What::Answered(response, call))
                }
            },
            // That it was silent is told when this is dropped.
            Attempted::DeadlineExceeded => lost(End::Final, None, What::Late),
            Attempted::Refused(refused) => {
                picked.on_nothing();
                lost(End::NoCredit, None, What::Refused(refused))
            }
            Attempted::Unready(error) | Attempted::Failed(error) => {
                picked.on_nothing();
                let end = if was_sent { End::Unknown } else { End::Unreachable };
                lost(end, None, What::Failed(error))
            }
        }
    }

    fn on_refusal(&mut self, index: usize, refusal: &Refusal) {
        let free_at = clock::now() + refusal.rejected.predicted_delay;
        if self.soonest.is_none_or(|(_, soonest)| free_at < soonest) {
            self.soonest = Some((index, free_at));
        }
    }
}

impl<S: Clone> Shared<S> {
    /// Decides about a call whose newest attempt has failed.
    fn next<R>(
        &self,
        course: &mut Course,
        loss: &Loss<R>,
        replica: &str,
        parts: &Parts,
        can_play: bool,
    ) -> Next<S> {
        let Outgoing { idempotent, deadline, .. } = course.outgoing;
        let (end, sent, refusal) = (loss.end, course.sent, loss.refusal.as_deref());
        let error = match &loss.what {
            What::Failed(error) => Some(error),
            _ => None,
        };
        let (method, uri) = (&parts.method, &parts.uri);
        let failure = Failure { replica, end, refusal, error, sent, idempotent, method, uri };
        let wanted = refusal.is_none_or(|refusal| refusal.may_retry);
        if !can_play || !wanted || !self.hook.allows(&failure) {
            return Next::GiveUp(None);
        }
        let others = self.members.others(&course.tried);
        let here = if others == 0 { self.pause_here(loss) } else { None };
        let failed = Failed {
            sent,
            others: others + usize::from(here.is_some()),
            idempotent,
            rtt: self.config.rtt + here.unwrap_or_default(),
            ..Failed::new(end, deadline)
        };
        let verdict = self.policy.lock().on_failure(clock::now(), &failed);
        self.meters.on_verdict(verdict, !matches!(end, End::NoCredit | End::Unreachable));
        self.hook.on_verdict(&failure, verdict);
        let chosen = match (verdict, here) {
            (Verdict::Again, None) => self.members.choose(&course.tried),
            (Verdict::Again, Some(_)) => {
                course.tried.last().and_then(|last| self.members.choose_again(*last))
            }
            (Verdict::Enough(why), _) => {
                return match self.last_resort(course, end, why) {
                    Some(chosen) => Next::To(chosen, Duration::ZERO),
                    None => Next::GiveUp(Some(why)),
                };
            }
        };
        // It may have been removed meanwhile.
        chosen.map_or(Next::GiveUp(Some(Why::Replicas)), |chosen| {
            Next::To(chosen, here.unwrap_or_default())
        })
    }

    /// After which pause the request may go to the same replica once more, if it may.
    fn pause_here<R>(&self, loss: &Loss<R>) -> Option<Duration> {
        let pause = match (loss.end, &loss.refusal) {
            (End::Refused, Some(refusal)) => refusal.rejected.retry_after,
            (End::Unknown, _) => self.config.rtt,
            _ => return None,
        };
        (self.config.in_place && pause <= self.config.pause_max).then_some(pause)
    }

    /// The replica that gets the request although all have refused it, if one does; it has no
    /// budget then.
    fn last_resort(&self, course: &mut Course, end: End, why: Why) -> Option<Chosen<S>> {
        let (soonest, _) = course.soonest?;
        if end != End::Refused || course.outgoing.claims.budget.is_none() {
            return None;
        }
        let chosen = self.members.choose_again(soonest)?;
        let again = self.policy.lock().on_refused_everywhere(why);
        again.then(|| {
            self.meters.on_last_resort();
            course.outgoing.claims.budget = None;
            chosen
        })
    }

    /// What the caller gets.
    fn give_up<R>(
        &self,
        loss: Loss<R>,
        course: &Course,
        given_up: Option<Why>,
    ) -> Result<Response<Body<R>>, Error> {
        let attempts = Attempts { sent: course.sent, given_up };
        let mut response = match loss.what {
            What::Answered(response, call) => response.map(|body| Body::new(body, Some(call))),
            What::Refused(refused) => {
                self.meters.on_drop(refused.reason);
                tell(refused, course.outgoing.is_grpc, self.config.dropped)?
            }
            What::Failed(error) => return Err(Error::Inner(error)),
            What::Late => return Err(Error::DeadlineExceeded),
        };
        response.extensions_mut().insert(attempts);
        Ok(response)
    }
}

impl<R: HttpBody> Loss<R> {
    /// Another attempt takes its place. What has come of a response is read, since a connection of
    /// HTTP/1 can be used again only then.
    fn discard(self) {
        let What::Answered(response, call) = self.what else { return };
        let mut body = pin!(Body::new(response.into_body(), Some(call)));
        let mut context = Context::from_waker(Waker::noop());
        let mut read = 0;
        while read < DRAINED_MAX
            && let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context)
        {
            read += frame.data_ref().map_or(0, Buf::remaining);
        }
    }
}

/// True if nobody can have got the request, since nobody listens.
fn never_left(error: &BoxError) -> bool {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&**error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}
