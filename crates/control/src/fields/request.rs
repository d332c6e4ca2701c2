//! What a client tells about a request.

use core::fmt;
use core::time::Duration;

use super::dictionary::Value;
use super::{Fields, Name, Reading, Writer, put};
use crate::request::{Claims, Priority, Tenant};
use crate::time::nanos;

/// The field of a request. Everything in it is a claim of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// `client`: whose credits the request uses, over however many connections. Without it there
    /// are no credits.
    pub client: Option<Name>,
    /// `demand`: requests that still wait at the client, this one not counted.
    pub demand: Option<u32>,
    /// `ack`: the newest window that the client had applied when it sent this.
    pub ack: Option<u32>,
    /// `priority`: how important it is; lower is more important.
    pub priority: Option<u8>,
    /// `tenant`: whom the work is charged to.
    pub tenant: Option<u32>,
    /// `attempt`: 0 for the first try, then 1, 2, …
    pub attempt: Option<u8>,
    /// `droppable`: false for requests that no stage may refuse.
    pub droppable: Option<bool>,
    /// `deadline`: time left until the response is worthless.
    pub deadline: Option<Duration>,
    /// `budget`: queueing delay that the request may still meet.
    pub budget: Option<Duration>,
    /// `age`: time since the first service of all took up the job.
    pub age: Option<Duration>,
    /// `hops`: services downstream of this one that should be given more CPU (SurgeGuard §3).
    pub hops: Option<u16>,
    /// `path`: which path through the service graph the request takes (SurgeGuard §4).
    pub path: Option<u16>,
}

impl Request {
    /// All keys, in the order in which they are written.
    pub const KEYS: [&str; 12] = [
        "client",
        "demand",
        "ack",
        "priority",
        "tenant",
        "attempt",
        "droppable",
        "deadline",
        "budget",
        "age",
        "hops",
        "path",
    ];

    /// Reads all lines of the header, of which there may be none.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Reading<Self> {
        super::read(lines)
    }

    /// What it claims, at a server whose realtime clock shows `realtime_ns`. Number, method and
    /// time of sending are not in the field.
    pub fn claims(&self, realtime_ns: u64) -> Claims {
        let start = |age| realtime_ns.saturating_sub(nanos(age)).max(1); // 0 is "unknown"
        Claims {
            priority: self.priority.map_or(Priority::default(), Priority),
            tenant: self.tenant.map_or(Tenant::default(), Tenant),
            attempt: self.attempt.unwrap_or(0),
            droppable: self.droppable.unwrap_or(true),
            deadline: self.deadline,
            budget: self.budget,
            upscale_hops: self.hops.unwrap_or(0),
            path: self.path.unwrap_or(0),
            start_time_ns: self.age.map_or(0, start),
            ..Claims::default()
        }
    }

    /// The field that makes `claims`, at a client whose realtime clock shows `realtime_ns`. What is
    /// as if it had not been said is left out.
    #[must_use]
    pub fn of(claims: &Claims, realtime_ns: u64) -> Self {
        let age = realtime_ns.saturating_sub(claims.start_time_ns);
        Self {
            priority: unless(claims.priority, Priority::default()).map(|it| it.0),
            tenant: unless(claims.tenant, Tenant::default()).map(|it| it.0),
            attempt: unless(claims.attempt, 0),
            droppable: unless(claims.droppable, true),
            deadline: claims.deadline,
            budget: claims.budget,
            age: (claims.start_time_ns != 0).then(|| Duration::from_nanos(age)),
            hops: unless(claims.upscale_hops, 0),
            path: unless(claims.path, 0),
            ..Self::default()
        }
    }
}

/// `value` if it says more than its default.
fn unless<T: PartialEq + Copy>(value: T, default: T) -> Option<T> {
    (value != default).then_some(value)
}

impl Fields for Request {
    fn set(&mut self, key: &str, value: Value<'_>) -> bool {
        match key {
            "client" => put(&mut self.client, value.name()),
            "demand" => put(&mut self.demand, value.number()),
            "ack" => put(&mut self.ack, value.number()),
            "priority" => put(&mut self.priority, value.number()),
            "tenant" => put(&mut self.tenant, value.number()),
            "attempt" => put(&mut self.attempt, value.number()),
            "droppable" => put(&mut self.droppable, value.boolean()),
            "deadline" => put(&mut self.deadline, value.micros()),
            "budget" => put(&mut self.budget, value.micros()),
            "age" => put(&mut self.age, value.micros()),
            "hops" => put(&mut self.hops, value.number()),
            "path" => put(&mut self.path, value.number()),
            _ => false,
        }
    }
}

/// As the value of the header; empty if it says nothing, and then there is to be no header.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut to = Writer::new(f);
        to.member("client", self.client)?;
        to.member("demand", self.demand)?;
        to.member("ack", self.ack)?;
        to.member("priority", self.priority)?;
        to.member("tenant", self.tenant)?;
        to.member("attempt", self.attempt)?;
        to.member("droppable", self.droppable.map(|it| if it { "?1" } else { "?0" }))?;
        to.micros("deadline", self.deadline)?;
        to.micros("budget", self.budget)?;
        to.micros("age", self.age)?;
        to.member("hops", self.hops)?;
        to.member("path", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const ALL: &str = "client=\"web-7\", demand=3, ack=17, priority=2, tenant=7, attempt=1, \
                       droppable=?0, deadline=250000, budget=1500, age=90000, hops=2, path=5";

    fn read(text: &str) -> Reading<Request> {
        Request::read([text.as_bytes()])
    }

    #[test]
    fn all_keys_are_read_and_written() {
        let Reading { fields, ignored, malformed } = read(ALL);
        assert_eq!((ignored, malformed), (0, false));
        assert_eq!(fields.to_string(), ALL);
        let keys = ALL.split(", ").filter_map(|member| member.split('=').next());
        assert!(keys.eq(Request::KEYS));
    }

    #[test]
    fn what_is_not_understood_is_left_out_and_counted() {
        for bad in [
            "colour=red",
            "demand=-1",
            "ack=4294967296",
            "priority=256",
            "attempt=\"1\"",
            "droppable",
            "deadline=1.5",
            "client=web",
            "client=\"\"",
            "hops=(1 2)",
            "age=@5",
        ] {
            let read = read(&alloc::format!("tenant=7, {bad}"));
            // A key without a value is true, which `droppable` understands.
            let ignored = u32::from(bad != "droppable");
            assert_eq!((read.ignored, read.malformed), (ignored, false), "{bad}");
            assert_eq!(read.fields.tenant, Some(7), "{bad}");
        }
    }

    #[test]
    fn of_two_members_and_of_two_lines_the_later_counts() {
        let read = Request::read([&b"demand=1, demand=2, ack=5"[..], b"demand=3", b"ack=?1"]);
        assert_eq!((read.fields.demand, read.fields.ack), (Some(3), None));
        assert_eq!(read.ignored, 1);
        let read = Request::read([&b"demand=1"[..], b"demand=1,"]);
        assert_eq!(read, Reading { malformed: true, ..Reading::default() });
        assert_eq!(Request::read([]), Reading::default());
    }

    #[test]
    fn claims_go_and_come_back() {
        let fields = read(ALL).fields;
        let now = 1_700_000_000_000_000_000;
        let claims = fields.claims(now);
        assert_eq!(claims.start_time_ns, now - 90_000_000);
        let again = Request::of(&claims, now);
        assert_eq!(again, Request { client: None, demand: None, ack: None, ..fields });
        assert_eq!(Request::of(&Claims::default(), now), Request::default());
        assert_eq!(Request::default().claims(now), Claims::default());
    }

    #[test]
    fn what_is_left_is_never_stretched() {
        let deadline = Some(Duration::from_nanos(1_999));
        let fields = Request { deadline, age: Some(Duration::MAX), ..Request::default() };
        assert_eq!(fields.to_string(), "deadline=1, age=999999999999999");
    }
}
