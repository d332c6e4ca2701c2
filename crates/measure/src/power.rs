//! What the processors draw: RAPL, through the powercap class of sysfs.
//!
//! A utility function may ask for power as well as for throughput (Svalinn §3.1). Counters are
//! those of whole packages; cores and memory controllers are parts of them, and `psys` is more.
//!
//! ```
//! use std::path::Path;
//! use seawall_control::Instant;
//! use seawall_measure::power::Power;
//!
//! match Power::open(Path::new("/sys/class/powercap")) {
//!     Ok(mut power) => {
//!         power.watts(Instant::from_micros(0));
//!         // … some milliseconds later
//!         println!("{:?} W", power.watts(Instant::from_micros(10_000)));
//!     }
//!     Err(reason) => println!("no power: {reason}"),
//! }
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::steer::{Meter, Rate};

use crate::kernel;
pub use crate::kernel::Unavailable;

/// Over which time the counters, which are updated about every millisecond, are right to some
/// percent.
const UPDATES: Duration = Duration::from_millis(20);

/// Energy of all packages, in microjoules.
///
/// The counters wrap around after some kilojoules: read them at least once a minute.
#[derive(Debug)]
pub struct Energy {
    packages: Vec<Package>,
    total: u64,
}

#[derive(Debug)]
struct Package {
    energy: PathBuf,
    /// What its counter can show at most before it begins again at 0.
    range: u64,
    last: u64,
}

/// Power of all packages.
#[derive(Debug)]
pub struct Power {
    energy: Energy,
    rate: Rate,
}

impl Energy {
    /// Opens the counters in the folder `powercap`, by default `/sys/class/powercap`.
    ///
    /// # Errors
    ///
    /// When there are none (most virtual machines), or they may not be read: since Linux 5.10 only
    /// root may.
    pub fn open(powercap: &Path) -> Result<Self, Unavailable> {
        let zones = kernel::list(powercap).into_iter().filter(|(name, _)| is_zone(name));
        let packages: Result<Vec<_>, _> = zones
            .map(|(_, zone)| Ok((kernel::read(&zone.join("name"))?, zone)))
            .filter(|zone| !matches!(zone, Ok((name, _)) if !name.starts_with("package-")))
            .map(|zone| Package::open(&zone?.1))
            .collect();
        let packages = packages?;
        if packages.is_empty() {
            return Err(Unavailable::at(powercap, "no package of intel-rapl is in it"));
        }
        Ok(Self { packages, total: 0 })
    }
}

impl Package {
    fn open(zone: &Path) -> Result<Self, Unavailable> {
        let energy = zone.join("energy_uj");
        let range = kernel::read_number(&zone.join("max_energy_range_uj"))?;
        Ok(Self { last: kernel::read_number(&energy)?, energy, range })
    }

    /// What was used since the last reading.
    fn used(&mut self) -> Option<u64> {
        let now = kernel::read_number(&self.energy).ok()?;
        let used = match now.checked_sub(self.last) {
            Some(used) => used,
            None => self.range.checked_sub(self.last)? + now,
        };
        self.last = now;
        Some(used)
    }
}

impl Meter for Energy {
    fn name(&self) -> &str {
        "energy of packages"
    }

    fn total(&mut self) -> Option<u64> {
        for package in &mut self.packages {
            self.total = self.total.wrapping_add(package.used()?);
        }
        Some(self.total)
    }

    fn resolution(&self) -> Duration {
        UPDATES
    }
}

impl Power {
    /// Opens the counters in the folder `powercap`, by default `/sys/class/powercap`.
    ///
    /// # Errors
    ///
    /// As [`Energy::open`].
    pub fn open(powercap: &Path) -> Result<Self, Unavailable> {
        Ok(Self { energy: Energy::open(powercap)?, rate: Rate::default() })
    }

    /// Mean power since the last call, in watts; `None` at the first, and when a counter cannot be
    /// read.
    pub fn watts(&mut self, now: Instant) -> Option<f64> {
        let total = self.energy.total();
        self.rate.on_reading(now, total).map(|microwatts| microwatts / 1e6)
    }
}

/// Whether that is a zone of its own, not a part of another (`intel-rapl:0:0`), and not a second
/// view of one (`intel-rapl-mmio:0`). AMD's processors are called so, too.
fn is_zone(name: &str) -> bool {
    name.strip_prefix("intel-rapl:").is_some_and(|number| number.parse::<u32>().is_ok())
}
