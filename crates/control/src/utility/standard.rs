//! The utilities that ship.

use core::time::Duration;

use super::{Measured, Utility};

/// Answers per second: the default of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Throughput;

impl Utility for Throughput {
    fn of(&self, measured: &Measured) -> f64 {
        measured.throughput
    }
}

/// Answers per second to requests that had stayed within their budget of queueing delay.
#[derive(Clone, Copy, Debug)]
pub struct Goodput;

impl Utility for Goodput {
    fn of(&self, measured: &Measured) -> f64 {
        measured.goodput
    }
}

/// Throughput as long as something stays below a bound, and a penalty beyond.
///
/// Beyond the bound less is better, whatever it is that is bounded, so that the pool shrinks until
/// the bound holds again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capped {
    /// Refusals cost what they are, and beyond this part of the requests nothing else counts
    /// (§5.3; 0.1 there).
    Drops(f64),
    /// Beyond this queueing delay throughput counts against the pool, as in the released code.
    Delay(Duration),
    /// Beyond this power in watts throughput counts against the pool, as in the released code.
    Power(f64),
}

impl Utility for Capped {
    fn of(&self, measured: &Measured) -> f64 {
        let Measured { throughput, drops, .. } = *measured;
        match *self {
            Self::Drops(most) if measured.drop_rate < most => throughput - drops,
            Self::Drops(_) => -drops,
            Self::Delay(most) if measured.queue_delay < most => throughput,
            Self::Power(most) if measured.power < most => throughput,
            Self::Delay(_) | Self::Power(_) => -throughput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: fn() -> Measured = || Measured {
        throughput: 900.0,
        goodput: 800.0,
        drops: 100.0,
        drop_rate: 0.1,
        queue_delay: Duration::from_micros(150),
        power: 55.0,
        ..Measured::default()
    };

    #[test]
    fn below_its_bound_each_is_throughput_and_beyond_a_penalty() {
        let value = |capped: Capped| capped.of(&MEASURED());
        assert_eq!(value(Capped::Drops(0.2)), 800.0);
        assert_eq!(value(Capped::Drops(0.1)), -100.0);
        assert_eq!(value(Capped::Delay(Duration::from_micros(151))), 900.0);
        assert_eq!(value(Capped::Delay(Duration::from_micros(150))), -900.0);
        assert_eq!(value(Capped::Power(56.0)), 900.0);
        assert_eq!(value(Capped::Power(55.0)), -900.0);
        assert_eq!((Throughput.of(&MEASURED()), Goodput.of(&MEASURED())), (900.0, 800.0));
    }
}
