//! What containers have, and what came of what was asked for them.

use super::actuator::{Actuator, ActuatorError, Settled};
use super::containers::{Tracked, units};
use super::look::trouble;
use super::status::Status;

/// What a container has; and if what was asked for it has come to an end, a change and what came of
/// it, for the log.
pub(super) fn read(
    cpu: &mut dyn Actuator,
    status: &mut Status,
    tracked: &mut Tracked,
    unit: u32,
) -> (Result<u32, ActuatorError>, Option<(String, String)>) {
    match cpu.settle(&tracked.target) {
        Some(Settled { result: Err(ActuatorError::Gone) }) => (Err(ActuatorError::Gone), None),
        Some(settled) => {
            let read = cpu.read(&tracked.target);
            let told = on_settled(status, tracked, settled, &read, unit);
            (read, Some(told))
        }
        None => (cpu.read(&tracked.target), None),
    }
}

/// What was asked for is in force, or is not: then what the container has is what counts. What is
/// told of it.
fn on_settled(
    status: &mut Status,
    tracked: &mut Tracked,
    settled: Settled,
    read: &Result<u32, ActuatorError>,
    unit: u32,
) -> (String, String) {
    let change = format!("milli {}", tracked.amount);
    match settled.result {
        Ok(took) => {
            tracked.told = None;
            (change, format!("in force after {} ms", took.as_millis()))
        }
        Err(error) => {
            if let Ok(amount) = read {
                tracked.amount = *amount;
                tracked.units = units(*amount, unit);
            }
            trouble(status, tracked, &error);
            (change, error.to_string())
        }
    }
}
