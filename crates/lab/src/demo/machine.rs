//! How busy the machine is before the demo begins.

use std::thread;
use std::time::Duration;

use seawall_rpc::clock;

use super::stalls::Canaries;
use crate::report::format;

/// How long it is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Processors that must be idle: the demo's server and generator take about half of one together.
const IDLE: f64 = 0.75;

/// A stall that is worth mentioning, and the part of the time that may be stalled.
const STALL: Duration = Duration::from_millis(5);
const STALLED: f64 = 0.01;

/// What stands in the first line of `/proc/stat`, in ticks of the clock, all processors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

/// If the machine is too busy for points that mean something: a sentence that says so, and what to
/// do about it.
pub(super) fn too_busy(canaries: &Canaries) -> Option<String> {
    let processors = thread::available_parallelism().map_or(1, usize::from) as f64;
    let (begin, before) = (clock::now(), ticks());
    thread::sleep(LOOK);
    let stalled = canaries.between(begin, clock::now(), STALL);
    // A system that does not tell is judged by its stalls.
    let idle = before.zip(ticks()).and_then(|(before, after)| idle_part(before, after));
    let idle = idle.map_or(processors, |part| part * processors);
    let is_stalled = stalled.total > LOOK.mul_f64(STALLED);
    if idle >= IDLE && !is_stalled {
        return None;
    }
    let stalls = match is_stalled {
        true => format!(
            ", and threads are woken up to {} late",
            format::delay_ms(stalled.longest.as_secs_f64() * 1e3)
        ),
        false => String::new(),
    };
    Some(format!(
        "This machine is busy: other programs leave {idle:.1} of its {processors} processors \
         idle{stalls}. Close them, or expect points that are measured twice."
    ))
}

fn ticks() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Reads `cpu user nice system idle iowait irq softirq steal ...` (proc(5)).
fn parse(stat: &str) -> Option<Ticks> {
    let counts = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let counts: Vec<u64> = counts.map(|count| count.parse().ok()).collect::<Option<_>>()?;
    let idle = counts.get(3)? + counts.get(4)?;
    Some(Ticks { idle, all: counts.iter().sum() })
}

/// The part of the time between two looks that processors were idle, 0 to 1.
fn idle_part(before: Ticks, after: Ticks) -> Option<f64> {
    let all = after.all.checked_sub(before.all).filter(|&all| all > 0)?;
    Some(after.idle.saturating_sub(before.idle) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_not_idle() {
        let stat = "cpu  100 10 50 800 40 0 5 95 0 0\ncpu0 1 2 3\n";
        let before = parse(stat).unwrap();
        assert_eq!(before, Ticks { idle: 840, all: 1_100 });
        let after = parse("cpu  130 10 50 830 40 0 5 135 0 0").unwrap();
        assert_eq!(idle_part(before, after), Some(0.3));
        assert_eq!(idle_part(before, before), None);
        assert_eq!(parse("intr 1 2 3"), None);
        assert_eq!(parse("cpu  1 2 x 4 5"), None);
    }
}
