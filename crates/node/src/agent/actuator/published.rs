//! CPU and speed of services that model their cores: numbers in their metrics pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seawall_abi::page::{Orders, Reader, Unreadable};

use super::{Actuator, ActuatorError, Saved, Target, UNLIMITED};

/// Pages that are open.
#[derive(Debug, Default)]
struct Open(BTreeMap<PathBuf, Reader>);

impl Open {
    fn reader(&mut self, target: &Target) -> Result<&Reader, ActuatorError> {
        let path = target.page.as_ref().ok_or_else(|| ActuatorError::Missing {
            what: "a metrics page".to_owned(),
            hint: "the service has to publish one: docs/metrics-page.md",
        })?;
        if !self.0.contains_key(path) {
            let reader = Reader::open(path).map_err(|error| unreadable(path, error))?;
            self.0.insert(path.clone(), reader);
        }
        Ok(&self.0[path])
    }

    fn orders(&mut self, target: &Target) -> Result<Orders, ActuatorError> {
        let reader = self.reader(target)?;
        reader.orders().map_err(|error| unreadable(reader.path(), error))
    }

    fn change(
        &mut self,
        target: &Target,
        change: impl FnOnce(&mut Orders),
    ) -> Result<(), ActuatorError> {
        let mut orders = self.orders(target)?;
        change(&mut orders);
        let reader = self.reader(target)?;
        reader.set_orders(&orders).map_err(|error| unreadable(reader.path(), error))
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        let orders = self.orders(target)?;
        Ok(Saved::Page {
            path: target.page.clone().unwrap_or_default(),
            granted_milli: orders.granted_milli,
            speed_permille: orders.speed_permille,
        })
    }

    fn forget(&mut self, target: &Target) {
        if let Some(path) = &target.page {
            self.0.remove(path);
        }
    }
}

/// Cores that services model: `granted_milli`, where 0 means that nobody has given any.
#[derive(Debug, Default)]
pub struct VirtualCpu(Open);

impl VirtualCpu {
    /// For any pages.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Actuator for VirtualCpu {
    fn name(&self) -> &'static str {
        "virtual"
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let granted = self.0.orders(target)?.granted_milli;
        Ok(if granted == 0 { UNLIMITED } else { granted })
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        self.0.save(target)
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        self.0.change(target, |orders| orders.granted_milli = amount)
    }

    fn forget(&mut self, target: &Target) {
        self.0.forget(target);
    }
}

/// Speeds of cores that services model: `speed_permille`.
#[derive(Debug)]
pub struct VirtualSpeed {
    open: Open,
    /// Slowest first, at least one.
    speeds: Vec<u16>,
}

impl VirtualSpeed {
    /// With this ladder, which the configuration has checked.
    pub fn new(speeds: &[u16]) -> Self {
        Self { open: Open::default(), speeds: speeds.to_vec() }
    }
}

impl Actuator for VirtualSpeed {
    fn name(&self) -> &'static str {
        "virtual"
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let speed = self.open.orders(target)?.speed_permille;
        let steps = self.speeds.partition_point(|step| u32::from(*step) <= speed);
        Ok(steps.saturating_sub(1) as u32)
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        self.open.save(target)
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let step = (amount as usize).min(self.speeds.len() - 1);
        let speed = u32::from(self.speeds[step]);
        self.open.change(target, |orders| orders.speed_permille = speed)
    }

    fn forget(&mut self, target: &Target) {
        self.open.forget(target);
    }
}

/// Puts a page back. Orders that nobody renews do not count anyway; this ends them at once.
pub(super) fn restore(path: &Path, granted: u32, speed: u32) -> Result<(), ActuatorError> {
    let put = || {
        let reader = Reader::open(path)?;
        let orders = reader.orders()?;
        reader.set_orders(&Orders {
            heartbeat_ns: 0,
            hint: 0,
            growing_until_ns: 0,
            granted_milli: granted,
            speed_permille: speed,
            ..orders
        })
    };
    put().map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: Unreadable) -> ActuatorError {
    match error {
        Unreadable::Gone(_) => ActuatorError::Gone,
        Unreadable::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            ActuatorError::Gone
        }
        error => ActuatorError::Remote(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use seawall_abi::page::{Description, Publisher};

    use super::*;

    #[test]
    fn services_see_what_they_are_given_and_get_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let description = Description::of_this_process("chain", 1).unwrap();
        let publisher = Publisher::create(folder.path(), &description).unwrap();
        let page = Some(publisher.path().to_owned());
        let target = Target { name: "chain".to_owned(), page, ..Target::default() };
        let (mut cpu, mut speed) = (VirtualCpu::new(), VirtualSpeed::new(&[1_000, 1_500]));
        assert_eq!(cpu.read(&target).unwrap(), UNLIMITED);
        assert_eq!(speed.read(&target).unwrap(), 0);
        let saved = cpu.save(&target).unwrap();
        cpu.apply(&target, 3_000).unwrap();
        speed.apply(&target, 1).unwrap();
        let orders = publisher.orders();
        assert_eq!((orders.granted_milli, orders.speed_permille), (3_000, 1_500));
        assert_eq!((cpu.read(&target).unwrap(), speed.read(&target).unwrap()), (3_000, 1));
        saved.restore().unwrap();
        let orders = publisher.orders();
        assert_eq!((orders.granted_milli, orders.speed_permille), (0, 1_000));
        drop(publisher);
        assert!(saved.restore().unwrap_err().is_gone());
    }
}
