//! Where the kernel handles its ticks.

use std::fs;
use std::time::Duration;

use crate::Unavailable;

/// The handler's name since Linux 6.9, and before.
const HANDLERS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// The address of the function that the timer of ticks calls.
pub(crate) fn handler() -> Result<u64, Unavailable> {
    let symbols = fs::read_to_string("/proc/kallsyms").map_err(Unavailable::Proc)?;
    find(&symbols).ok_or_else(Unavailable::no_ticks)
}

fn find(symbols: &str) -> Option<u64> {
    let address = |handler: &&str| {
        symbols.lines().find_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            (rest.split_whitespace().nth(1) == Some(handler)).then_some(address)
        })
    };
    let address = u64::from_str_radix(HANDLERS.iter().find_map(address)?, 16).ok()?;
    // Who may not see addresses sees zeros.
    (address != 0).then_some(address)
}

/// From `now` until the next tick, if one was due at `some`, in nanoseconds of the same clock.
pub(crate) fn until_next(now: u64, some: u64, period: Duration) -> Duration {
    let period = i128::try_from(period.as_nanos()).unwrap_or(i128::MAX).max(1);
    let passed = (i128::from(now) - i128::from(some)).rem_euclid(period);
    Duration::from_nanos(u64::try_from(period - passed).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handler_is_found_if_addresses_are_shown() {
        let symbols =
            "ffffffff81435200 t tick_nohz_handler_x\nffffffff814352e0 t tick_nohz_handler\n";
        assert_eq!(find(symbols), Some(0xffff_ffff_8143_52e0));
        assert_eq!(find("ffffffff814352e1 t tick_sched_timer [m]\n"), Some(0xffff_ffff_8143_52e1));
        assert_eq!(find("0000000000000000 t tick_nohz_handler\n"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn ticks_come_at_even_intervals() {
        let ms = Duration::from_millis;
        let until = |now: u64, some: u64| until_next(now * 1_000_000, some * 1_000_000, ms(4));
        assert_eq!(until(101, 100), ms(3));
        assert_eq!(until(100, 100), ms(4));
        assert_eq!(until(1_003, 100), ms(1));
        assert_eq!(until(99, 100), ms(1), "the clock was read just before");
        assert_eq!(until_next(5, u64::MAX, Duration::ZERO), Duration::from_nanos(1));
    }
}
