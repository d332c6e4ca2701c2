//! What a server tells with a response.

use core::fmt;
use core::time::Duration;

use super::dictionary::Value;
use super::{Fields, Name, Reading, Writer, put};
use crate::controller::Feedback;

/// The field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// `window` and `seq`: how many requests the client may have outstanding, and the number of
    /// that window, to be acknowledged. Or `level`: the threshold of a priority scheme.
    pub feedback: Feedback,
    /// `stage`: the name of the place that refused the request; only on refusals.
    pub stage: Option<Name>,
    /// `predicted`: the wait that the stage predicted.
    pub predicted: Option<Duration>,
    /// `queue`: the server's queueing delay now.
    pub queue: Option<Duration>,
    /// `retry-after`: how long the stage expects to stay congested; nothing where the request's
    /// deadline has passed, so that it has nothing to come back for.
    pub retry_after: Option<Duration>,
    /// `service`: from the start of the handler to its response, without its waits at stages.
    pub service: Option<Duration>,
}

/// The members as they stand, before those that belong together are put together.
#[derive(Default)]
struct Members {
    window: Option<u32>,
    seq: Option<u32>,
    level: Option<u16>,
    stage: Option<Name>,
    predicted: Option<Duration>,
    queue: Option<Duration>,
    retry_after: Option<Duration>,
    service: Option<Duration>,
}

impl Response {
    /// All keys, in the order in which they are written.
    pub const KEYS: [&str; 8] =
        ["window", "seq", "level", "stage", "predicted", "queue", "retry-after", "service"];

    /// Reads all lines of the header, of which there may be none.
    ///
    /// A window without its number, or a number without its window, is ignored. Beside a window a
    /// level is: no algorithm has both.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Reading<Self> {
        let Reading { fields: members, mut ignored, malformed } = super::read::<Members>(lines);
        let feedback = match (members.window, members.seq, members.level) {
            (Some(size), Some(seq), level) => {
                ignored += u32::from(level.is_some());
                Feedback::Window { size, seq }
            }
            (window, seq, level) => {
                ignored += u32::from(window.is_some() || seq.is_some());
                level.map_or(Feedback::None, Feedback::Level)
            }
        };
        let Members { stage, predicted, queue, retry_after, service, .. } = members;
        let fields = Self { feedback, stage, predicted, queue, retry_after, service };
        Reading { fields, ignored, malformed }
    }
}

impl Default for Response {
    fn default() -> Self {
        Self {
            feedback: Feedback::None,
            stage: None,
            predicted: None,
            queue: None,
            retry_after: None,
            service: None,
        }
    }
}

impl Fields for Members {
    fn set(&mut self, key: &str, value: Value<'_>) -> bool {
        match key {
            "window" => put(&mut self.window, value.number()),
            "seq" => put(&mut self.seq, value.number()),
            "level" => put(&mut self.level, value.number()),
            "stage" => put(&mut self.stage, value.name()),
            "predicted" => put(&mut self.predicted, value.micros()),
            "queue" => put(&mut self.queue, value.micros()),
            "retry-after" => put(&mut self.retry_after, value.micros()),
            "service" => put(&mut self.service, value.micros()),
            _ => false,
        }
    }
}

/// As the value of the header; empty if it says nothing, and then there is to be no header.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut to = Writer::new(f);
        match self.feedback {
            Feedback::None => {}
            Feedback::Window { size, seq } => {
                to.member("window", Some(size))?;
                to.member("seq", Some(seq))?;
            }
            Feedback::Level(level) => to.member("level", Some(level))?,
        }
        to.member("stage", self.stage)?;
        to.micros("predicted", self.predicted)?;
        to.micros("queue", self.queue)?;
        to.micros("retry-after", self.retry_after)?;
        to.micros("service", self.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn read(text: &str) -> Reading<Response> {
        Response::read([text.as_bytes()])
    }

    #[test]
    fn all_keys_are_read_and_written() {
        let rest = "stage=\"lock:orders\", predicted=900, queue=850, retry-after=12000, service=40";
        for feedback in ["window=12, seq=18", "level=7"] {
            let text = alloc::format!("{feedback}, {rest}");
            let Reading { fields, ignored, malformed } = read(&text);
            assert_eq!((ignored, malformed), (0, false));
            assert_eq!(fields.to_string(), text);
        }
        let all = alloc::format!("window=12, seq=18, level=7, {rest}");
        let keys = all.split(", ").filter_map(|member| member.split('=').next());
        assert!(keys.eq(Response::KEYS));
    }

    #[test]
    fn a_window_counts_only_with_its_number() {
        for (text, feedback, ignored) in [
            ("window=12", Feedback::None, 1),
            ("seq=18, level=3", Feedback::Level(3), 1),
            ("window=12, seq=18, level=3", Feedback::Window { size: 12, seq: 18 }, 1),
            ("window=-1, seq=18", Feedback::None, 2),
            ("level=65536, queue=5", Feedback::None, 1),
        ] {
            let read = read(text);
            assert_eq!((read.fields.feedback, read.ignored), (feedback, ignored), "{text}");
        }
    }
}
