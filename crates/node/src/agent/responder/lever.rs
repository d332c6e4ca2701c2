//! What raises one container, quickly.

use seawall_abi::page::Reader;
use seawall_control::Instant;

use crate::agent::actuator::{Actuator, ActuatorError, Cpufreq, QuotaLever, Target};

/// A container's CPU, speed or page, held so that it can be changed at once.
#[derive(Debug)]
pub(super) enum Lever {
    /// Thousandths of a CPU.
    Quota(QuotaLever),
    /// A step of the frequency ladder, and the one for boosts.
    Level(Cpufreq, Target, u32),
    /// The service obeys by itself, until then.
    Page(Reader),
}

impl Lever {
    /// Sets this amount; what then stands, as the actuator would read it.
    pub(super) fn write(&mut self, amount: u32) -> Result<u32, ActuatorError> {
        match self {
            Self::Quota(lever) => lever.write(amount),
            Self::Level(cpufreq, target, _) => {
                cpufreq.apply(target, amount)?;
                cpufreq.read(target)
            }
            Self::Page(_) => Ok(amount),
        }
    }

    /// Tells a service that obeys by itself until when.
    pub(super) fn until(&self, until: Instant) -> Result<(), ActuatorError> {
        let Self::Page(reader) = self else { return Ok(()) };
        let told = reader.boost_until(until.as_nanos());
        told.map_err(|error| ActuatorError::Remote(format!("{}: {error}", reader.path().display())))
    }
}
