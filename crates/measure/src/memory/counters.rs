//! Counters that the kernel reads for us, by `perf_event_open`.

use std::fmt;
use std::io;

use super::{Event, Unavailable};

/// What a counter shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Its value since it was opened.
    pub value: u64,
    /// Nanoseconds since it was opened.
    pub enabled: u64,
    /// Nanoseconds of those in which it really counted: less, if there are more events than the
    /// hardware has counters, which then take turns.
    pub running: u64,
}

/// An open counter.
pub trait Counter: Send {
    /// What it shows now.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    fn count(&mut self) -> io::Result<Count>;
}

/// Opens the counter of an event.
pub type OpenCounter<'a> = dyn FnMut(&Event) -> io::Result<Box<dyn Counter>> + 'a;

/// Counters whose bytes are added up.
pub struct Counters {
    open: Vec<Open>,
    total: f64,
}

struct Open {
    counter: Box<dyn Counter>,
    bytes: f64,
    last: Count,
}

impl Counters {
    /// Opens all of `events`, or none.
    ///
    /// # Errors
    ///
    /// What went wrong with the first that cannot be opened, and what may help.
    pub fn open(events: &[Event], open: &mut OpenCounter<'_>) -> Result<Self, Unavailable> {
        let open_one = |event: &Event| {
            let counter = open(event).map_err(|error| explain(event, &error))?;
            Ok(Open { counter, bytes: event.bytes, last: Count::default() })
        };
        let open: Result<_, _> = events.iter().map(open_one).collect();
        Ok(Self { open: open?, total: 0.0 })
    }

    /// Bytes since they were opened; `None` when one of them cannot be read.
    ///
    /// What a counter missed while it was not its turn is taken to be like what it saw. One that
    /// has not had a turn since the last reading adds nothing, and twice as much later.
    pub fn total(&mut self) -> Option<u64> {
        for open in &mut self.open {
            let now = open.counter.count().ok()?;
            let running = now.running.saturating_sub(open.last.running);
            if running == 0 {
                continue;
            }
            let counted = now.value.wrapping_sub(open.last.value) as f64;
            let enabled = now.enabled.saturating_sub(open.last.enabled);
            self.total += counted * open.bytes * (enabled as f64 / running as f64);
            open.last = now;
        }
        Some(self.total as u64)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters")
            .field("open", &self.open.len())
            .field("total", &self.total)
            .finish()
    }
}

fn explain(event: &Event, error: &io::Error) -> Unavailable {
    let hint = if error.kind() == io::ErrorKind::PermissionDenied {
        "; it takes CAP_PERFMON, or 0 in /proc/sys/kernel/perf_event_paranoid"
    } else {
        ""
    };
    Unavailable::new(format!("{} on CPU {}: {error}{hint}", event.pmu, event.cpu))
}

#[cfg(target_os = "linux")]
impl Counter for perf_event::Counter {
    fn count(&mut self) -> io::Result<Count> {
        let read = self.read_count_and_time()?;
        let (enabled, running) = (read.time_enabled, read.time_running);
        Ok(Count { value: read.count, enabled, running })
    }
}

/// Opens the counter of an event by `perf_event_open`.
#[cfg(target_os = "linux")]
pub(super) fn open(event: &Event) -> io::Result<Box<dyn Counter>> {
    use perf_event::Builder;
    use perf_event::events::Raw;

    let [config, config1, config2] = event.config;
    let mut builder = Builder::new(Raw::new(config).config1(config1).config2(config2));
    builder.attrs_mut().type_ = event.kind;
    // Nobody's in particular, and all there is: these counters know of no processes or modes.
    builder.any_pid().one_cpu(event.cpu as usize).include_kernel().include_hv().enabled(true);
    Ok(Box::new(builder.build()?))
}

/// Opens no counter: other systems have no `perf_event_open`.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Event) -> io::Result<Box<dyn Counter>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has perf_event_open"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The clock of a CPU, which every Linux has as a counter: nanoseconds.
    fn clock() -> Event {
        Event { pmu: "software".into(), kind: 1, config: [0; 3], cpu: 0, bytes: 2.0 }
    }

    #[test]
    fn the_kernel_counts_for_who_may_know() {
        match Counters::open(&[clock()], &mut open) {
            Ok(mut counters) => {
                let first = counters.total().unwrap();
                std::hint::black_box((0..100_000).sum::<u64>());
                let second = counters.total().unwrap();
                assert!(0 < first && first < second, "{first} to {second}");
            }
            Err(reason) => {
                let said = reason.to_string();
                assert!(said.contains("perf_event_paranoid"), "{said}");
            }
        }
    }

    #[test]
    fn what_there_is_not_is_named() {
        let event = Event { kind: u32::MAX, ..clock() };
        let said = Counters::open(&[event], &mut open).unwrap_err().to_string();
        assert!(said.starts_with("software on CPU 0: "), "{said}");
    }
}
