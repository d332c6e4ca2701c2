//! The `seawall` field of HTTP requests and responses, which is also a key of gRPC metadata.
//!
//! ```text
//!   seawall: client="web-7", demand=3, ack=17, deadline=250000        a request's
//!   seawall: window=12, seq=18, queue=850                             its response's
//! ```
//!
//! It is a Dictionary of Structured Fields (RFC 9651), so that whoever does not know it ignores it
//! safely, and one pass reads all of it. Times are whole microseconds and relative: nobody's clock
//! has to agree with anybody else's. Normative text: `docs/http.md`.
//!
//! Nothing that a peer can write is an error here. What is not understood is left out and counted:
//! unknown keys, values of a wrong type or out of range, and headers that are no dictionary at all.
//!
//! ```
//! use core::time::Duration;
//! use seawall_control::fields::{Name, Request};
//!
//! let read = Request::read([&b"client=\"web-7\", deadline=250000, colour=red"[..]]);
//! assert_eq!(read.fields.client, Name::new("web-7"));
//! assert_eq!(read.fields.deadline, Some(Duration::from_millis(250)));
//! assert_eq!(read.ignored, 1); // nobody here knows about colours
//!
//! assert_eq!(read.fields.to_string(), "client=\"web-7\", deadline=250000");
//! ```

mod dictionary;
mod name;
mod request;
mod response;
pub mod timeout;

pub use name::Name;
pub use request::Request;
pub use response::Response;

use core::fmt;
use core::time::Duration;

use dictionary::Value;

/// The name of the field, of its trailer, and of its key in gRPC metadata.
pub const NAME: &str = "seawall";

/// The largest integer of a structured field (RFC 9651 §3.3.1).
const INTEGER_MAX: i64 = 999_999_999_999_999;

/// What a header said, and how much of it was not understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading<T> {
    /// All that was understood.
    pub fields: T,
    /// Keys that nobody here knows, and values that are of a wrong type or out of range.
    pub ignored: u32,
    /// The header is no dictionary. Then nothing of it counts (RFC 9651 §4.2).
    pub malformed: bool,
}

/// What can be read from the members of a dictionary.
trait Fields: Default {
    /// Takes one member; false if it is not understood. Of two with the same key the later counts.
    fn set(&mut self, key: &str, value: Value<'_>) -> bool;
}

/// Reads all lines of a header.
fn read<'a, T: Fields>(lines: impl IntoIterator<Item = &'a [u8]>) -> Reading<T> {
    let mut reading = Reading { fields: T::default(), ignored: 0, malformed: false };
    for line in lines {
        let whole = dictionary::read(line, |key, value| {
            if !reading.fields.set(key, value) {
                reading.ignored = reading.ignored.saturating_add(1);
            }
        });
        if whole.is_none() {
            return Reading { fields: T::default(), ignored: 0, malformed: true };
        }
    }
    reading
}

/// Puts what was understood in its place, and its absence where nothing was.
fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

impl Value<'_> {
    /// A whole number within the range of `T`.
    fn number<T: TryFrom<i64>>(self) -> Option<T> {
        match self {
            Self::Integer(number) => T::try_from(number).ok(),
            _ => None,
        }
    }

    /// A time in microseconds.
    fn micros(self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn boolean(self) -> Option<bool> {
        match self {
            Self::Boolean(boolean) => Some(boolean),
            _ => None,
        }
    }

    fn name(self) -> Option<Name> {
        match self {
            Self::String(quoted) => Name::unquote(quoted),
            _ => None,
        }
    }
}

/// Writes members with commas between them.
struct Writer<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
    is_first: bool,
}

impl<'a, 'f> Writer<'a, 'f> {
    fn new(to: &'a mut fmt::Formatter<'f>) -> Self {
        Self { to, is_first: true }
    }

    /// Writes a member that is there.
    fn member(&mut self, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        if !core::mem::take(&mut self.is_first) {
            self.to.write_str(", ")?;
        }
        write!(self.to, "{key}={value}")
    }

    /// Writes a time in whole microseconds, rounded down: what is left of a deadline is never
    /// stretched.
    fn micros(&mut self, key: &str, time: Option<Duration>) -> fmt::Result {
        let most = INTEGER_MAX as u128;
        self.member(key, time.map(|time| time.as_micros().min(most)))
    }
}
