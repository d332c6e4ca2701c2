//! What services and jobs take at low load, and what is expected of them from that.

use std::time::Duration;

use anyhow::{Result, bail};
use seawall_abi::page::Counters;
use seawall_measure::duration::scaled;

/// What is usual for one service, and expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// `expectedExecMetric` (SurgeGuard §IV).
    pub(super) expected_exec: Duration,
    /// `expectedTimeFromStart`.
    pub(super) expected_time_from_start: Duration,
}

impl Usual {
    /// Of a service that counted this in the calibration: `factor` times the means.
    ///
    /// # Errors
    ///
    /// Names the service where no request came by.
    pub(super) fn of(name: &str, counted: &Counters, factor: f64) -> Result<Self> {
        if counted.requests == 0 {
            bail!("no request came to {name} in the calibration; let it take longer");
        }
        if counted.started == 0 {
            bail!("no request to {name} says when its job began");
        }
        let mean = |sum: u64, of: u64| scaled(Duration::from_nanos(sum / of), factor);
        let exec_metric = counted.exec_ns.saturating_sub(counted.pool_wait_ns);
        Ok(Self {
            // A service that takes nothing would be late for ever.
            expected_exec: mean(exec_metric, counted.requests).max(Duration::from_micros(1)),
            expected_time_from_start: mean(counted.time_from_start_ns, counted.started)
                .max(Duration::from_micros(1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_is_a_multiple_of_the_mean_without_waits_for_connections() {
        let counted = Counters {
            requests: 4,
            started: 2,
            exec_ns: 50_000,
            pool_wait_ns: 10_000,
            time_from_start_ns: 4_000,
            ..Counters::default()
        };
        let usual = Usual::of("ping", &counted, 2.0).unwrap();
        assert_eq!(usual.expected_exec, Duration::from_micros(20));
        assert_eq!(usual.expected_time_from_start, Duration::from_micros(4));
        let error = Usual::of("ping", &Counters::default(), 2.0).unwrap_err().to_string();
        assert!(error.starts_with("no request came to ping"), "{error}");
        let silent = Counters { started: 0, time_from_start_ns: 0, ..counted };
        let error = Usual::of("ping", &silent, 2.0).unwrap_err().to_string();
        assert_eq!(error, "no request to ping says when its job began");
    }
}
