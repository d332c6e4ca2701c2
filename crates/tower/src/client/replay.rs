//! A request's body that can be sent again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use thiserror::Error;

use super::error::BoxError;

/// Why a body cannot be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The request is being sent again, and what is left of its body goes there.
    #[error("the request is sent again elsewhere")]
    Superseded,
    /// The body itself has failed.
    #[error("{0}")]
    Inner(#[source] BoxError),
}

/// The body of one attempt. What it reads of the request's body is kept, up to a bound, so that the
/// next attempt begins with that and goes on with the rest.
#[derive(Debug)]
pub struct Replay<B> {
    tape: Arc<Mutex<Tape<B>>>,
    attempt: u32,
    /// Frames that it has given out.
    position: usize,
    trailers_given: bool,
}

/// The body of a request, as long as it is being sent, to make the body of each attempt.
#[derive(Debug)]
pub struct Recording<B> {
    tape: Arc<Mutex<Tape<B>>>,
}

#[derive(Debug)]
struct Tape<B> {
    source: Pin<Box<B>>,
    frames: Vec<Bytes>,
    len: usize,
    len_max: usize,
    trailers: Option<HeaderMap>,
    /// The source has ended.
    ended: bool,
    /// Something was read of it.
    begun: bool,
    /// More came than is kept, or it has failed.
    lost: bool,
    /// The newest attempt: only it may read the source.
    attempt: u32,
    /// Of who waits for the source.
    waker: Option<Waker>,
}

impl<B: Body> Recording<B> {
    /// The body of a request, of which `len_max` bytes are kept.
    pub fn new(source: B, len_max: usize) -> Self {
        // What says of itself that it is too long need not be kept at all.
        let lost = source.size_hint().lower() > len_max as u64;
        Self {
            tape: Arc::new(Mutex::new(Tape {
                source: Box::pin(source),
                frames: Vec::new(),
                len: 0,
                len_max,
                trailers: None,
                ended: false,
                begun: false,
                lost,
                attempt: 0,
                waker: None,
            })),
        }
    }

    /// The body of the next attempt. An earlier one, if it still reads, is told to stop.
    pub fn play(&self) -> Replay<B> {
        let mut tape = self.tape.lock();
        tape.attempt += 1;
        let (attempt, waker) = (tape.attempt, tape.waker.take());
        drop(tape);
        if let Some(waker) = waker {
            waker.wake();
        }
        Replay { tape: self.tape.clone(), attempt, position: 0, trailers_given: false }
    }

    /// True if all that was read of it is still there.
    pub fn can_play(&self) -> bool {
        let tape = self.tape.lock();
        !tape.lost || !tape.begun
    }
}

impl<B: Body> Tape<B> {
    fn keep(&mut self, data: &Bytes) {
        self.len = self.len.saturating_add(data.len());
        self.lost |= self.len > self.len_max;
        if self.lost {
            self.frames = Vec::new();
        } else {
            self.frames.push(data.clone());
        }
    }
}

impl<B> Body for Replay<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = ReplayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplayError>>> {
        let this = &mut *self;
        let tape = &mut *this.tape.lock();
        if tape.attempt != this.attempt {
            return Poll::Ready(Some(Err(ReplayError::Superseded)));
        }
        if let Some(frame) = tape.frames.get(this.position) {
            this.position += 1;
            return Poll::Ready(Some(Ok(Frame::data(frame.clone()))));
        }
        while !tape.ended {
            tape.waker = Some(cx.waker().clone());
            let read = ready!(tape.source.as_mut().poll_frame(cx));
            tape.begun = true;
            match read {
                None => tape.ended = true,
                Some(Err(error)) => {
                    (tape.ended, tape.lost) = (true, true);
                    return Poll::Ready(Some(Err(ReplayError::Inner(error.into()))));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(mut data) => {
                        let data = data.copy_to_bytes(data.remaining());
                        tape.keep(&data);
                        this.position = tape.frames.len();
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(frame) => {
                        tape.trailers = frame.into_trailers().ok();
                        tape.ended = true;
                    }
                },
            }
        }
        let trailers = tape.trailers.clone().filter(|_| !this.trailers_given);
        this.trailers_given = true;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        let tape = self.tape.lock();
        let source_over = if tape.ended {
            tape.trailers.is_none() || self.trailers_given
        } else {
            tape.source.is_end_stream()
        };
        tape.attempt == self.attempt && self.position >= tape.frames.len() && source_over
    }

    fn size_hint(&self) -> SizeHint {
        let tape = self.tape.lock();
        let kept = tape.frames.iter().skip(self.position).map(|frame| frame.len() as u64).sum();
        let source = if tape.ended { SizeHint::with_exact(0) } else { tape.source.size_hint() };
        let mut hint = SizeHint::new();
        hint.set_lower(source.lower().saturating_add(kept));
        if let Some(upper) = source.upper().and_then(|upper| upper.checked_add(kept)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    type Frames = Vec<Result<Frame<Bytes>, Infallible>>;

    fn in_parts(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
        let mut frames: Frames =
            parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
        let mut trailers = HeaderMap::new();
        trailers.insert("checksum", "7".parse().unwrap());
        frames.push(Ok(Frame::trailers(trailers)));
        StreamBody::new(futures_util::stream::iter(frames))
    }

    fn all<B: Body<Data = Bytes>>(body: B) -> Option<(Bytes, bool)>
    where
        B::Error: std::fmt::Debug,
    {
        let collected = body.collect().now_or_never()?.ok()?;
        let trailers = collected.trailers().is_some();
        Some((collected.to_bytes(), trailers))
    }

    #[test]
    fn a_body_is_sent_again_from_its_beginning() {
        let recording = Recording::new(in_parts(&["ab", "cd", "ef"]), 64);
        let mut first = recording.play();
        let frame = first.frame().now_or_never().unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "ab");
        assert!(recording.can_play());
        assert_eq!(all(recording.play()), Some(("abcdef".into(), true)));
        assert_eq!(all(recording.play()), Some(("abcdef".into(), true)));
        let stopped = first.frame().now_or_never().unwrap().unwrap();
        assert!(matches!(stopped, Err(ReplayError::Superseded)));
    }

    #[test]
    fn its_length_is_known_as_before() {
        let recording = Recording::new(Full::new(Bytes::from_static(b"hello")), 64);
        for _ in 0..2 {
            let mut body = recording.play();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(5), false));
            body.frame().now_or_never().unwrap().unwrap().unwrap();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
        }
        let empty = Recording::new(http_body_util::Empty::<Bytes>::new(), 0);
        assert!(empty.play().is_end_stream() && empty.can_play());
    }

    #[test]
    fn what_is_too_long_is_sent_once() {
        let recording = Recording::new(in_parts(&["abc", "def"]), 5);
        assert!(recording.can_play());
        assert_eq!(all(recording.play()), Some(("abcdef".into(), true)));
        assert!(!recording.can_play());
        let known = Recording::new(Full::new(Bytes::from_static(b"abcdef")), 5);
        assert!(known.can_play(), "nothing of it was sent");
        let body = known.play();
        assert!(known.can_play(), "nor is any of it sent yet");
        assert_eq!(all(body), Some(("abcdef".into(), false)));
        assert!(!known.can_play());
    }
}
