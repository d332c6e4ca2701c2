//! The frequency of the CPUs that a container has.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::files::{self, parse_cpus};
use super::{Actuator, ActuatorError, Saved, Target, Write};

/// Between the lowest and the highest frequency, where the driver does not list those it has.
const STEP_KHZ: u64 = 100_000;

/// Writes `scaling_setspeed` of the CPUs in a container's `cpuset.cpus`.
#[derive(Debug)]
pub struct Cpufreq {
    folder: PathBuf,
    /// Kilohertz, lowest first.
    ladder: Vec<u64>,
    /// All CPUs whose frequency can be set.
    cpus: Vec<u32>,
}

/// Why frequencies cannot be set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoLadder {
    /// The kernel drives no frequencies: a virtual machine, or no driver.
    #[error(
        "{}/cpu0/cpufreq is not there: this machine, as virtual machines do, hides its \
         frequencies; use actuator.frequency = \"none\"",
        folder.display()
    )]
    NoDriver {
        /// The folder of the CPUs.
        folder: PathBuf,
    },
    /// Nobody but the driver may set them.
    #[error(
        "the frequency driver {driver} has no userspace governor (it has: {governors}); \
         intel_pstate and amd-pstate need intel_pstate=passive or amd_pstate=passive at boot"
    )]
    NoGovernor {
        /// Its name.
        driver: String,
        /// What it has.
        governors: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ActuatorError),
}

impl Cpufreq {
    /// Looks at the CPUs of the machine whose files are below `root`.
    ///
    /// # Errors
    ///
    /// If frequencies cannot be set here; says why, and what would help.
    pub fn open(root: &Path) -> Result<Self, NoLadder> {
        let folder = root.join("sys/devices/system/cpu");
        let first = folder.join("cpu0/cpufreq");
        if !first.exists() {
            return Err(NoLadder::NoDriver { folder });
        }
        let governors = files::read(&first.join("scaling_available_governors"))?;
        if !governors.split_whitespace().any(|governor| governor == "userspace") {
            let driver = files::read_if_there(&first.join("scaling_driver"))?;
            let driver = driver.unwrap_or_else(|| "of this machine".to_owned());
            return Err(NoLadder::NoGovernor { driver, governors });
        }
        let mut cpus: Vec<u32> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("cpufreq/scaling_setspeed").exists())
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(Self { ladder: ladder(&first)?, folder, cpus })
    }

    /// Steps of the ladder.
    pub fn levels(&self) -> u16 {
        self.ladder.len() as u16
    }

    /// Governor and speed of all CPUs: containers' CPUs change, so that all are put back together.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn save_all(&self) -> Result<Saved, ActuatorError> {
        self.save_cpus(&self.cpus)
    }

    fn save_cpus(&self, cpus: &[u32]) -> Result<Saved, ActuatorError> {
        let mut writes = Vec::new();
        for cpu in cpus {
            let folder = self.of(*cpu);
            let governor = folder.join("scaling_governor");
            let name = files::read(&governor)?;
            if name == "userspace" {
                let path = folder.join("scaling_setspeed");
                writes.push(Write { text: files::read(&path)?, path });
            }
            writes.push(Write { path: governor, text: name });
        }
        Ok(Saved::Files(writes))
    }

    fn of(&self, cpu: u32) -> PathBuf {
        self.folder.join(format!("cpu{cpu}/cpufreq"))
    }

    fn cpus_of(&self, target: &Target) -> Result<Vec<u32>, ActuatorError> {
        let group = target.cpuset.as_deref().ok_or_else(|| ActuatorError::Missing {
            what: "a group of the cpuset controller".to_owned(),
            hint: "a frequency is a CPU's: a container needs CPUs of its own",
        })?;
        let path = group.join("cpuset.cpus");
        let cpus = parse_cpus(&path, &files::read(&path)?)?;
        Ok(cpus.into_iter().filter(|cpu| self.cpus.contains(cpu)).collect())
    }
}

impl Actuator for Cpufreq {
    fn name(&self) -> &'static str {
        "cpufreq"
    }

    /// The level of the slowest of its CPUs; the lowest while another governor chooses.
    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let mut level = None;
        for cpu in self.cpus_of(target)? {
            // `<unsupported>` while the governor is another one.
            let speed = files::read(&self.of(cpu).join("scaling_setspeed"))?;
            let speed = speed.parse::<u64>().unwrap_or(0);
            let step = self.ladder.partition_point(|khz| *khz <= speed).saturating_sub(1);
            level = Some(level.map_or(step, |level: usize| level.min(step)));
        }
        Ok(level.unwrap_or(0) as u32)
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        self.save_cpus(&self.cpus_of(target)?)
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let step = (amount as usize).min(self.ladder.len() - 1);
        let speed = self.ladder[step].to_string();
        for cpu in self.cpus_of(target)? {
            let folder = self.of(cpu);
            let governor = folder.join("scaling_governor");
            if files::read(&governor)? != "userspace" {
                files::write(&governor, "userspace")?;
            }
            files::write(&folder.join("scaling_setspeed"), &speed)?;
        }
        Ok(())
    }
}

fn ladder(folder: &Path) -> Result<Vec<u64>, ActuatorError> {
    let path = folder.join("scaling_available_frequencies");
    let mut ladder: Vec<u64> = match files::read_if_there(&path)? {
        Some(text) => text
            .split_whitespace()
            .map(|khz| khz.parse().map_err(|_| files::garbled(&path, khz, "kilohertz")))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    if ladder.is_empty() {
        let bound = |name: &str| files::number(&folder.join(name)).map(|khz| khz.max(1) as u64);
        let (least, most) = (bound("cpuinfo_min_freq")?, bound("cpuinfo_max_freq")?);
        ladder = (least..most).step_by(STEP_KHZ as usize).chain([most]).collect();
    }
    ladder.sort_unstable();
    ladder.dedup();
    Ok(ladder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two CPUs as acpi-cpufreq shows it.
    fn machine(governors: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..2 {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in [
                ("scaling_available_governors", governors),
                ("scaling_available_frequencies", "3100000 2300000 1600000 "),
                ("scaling_governor", "schedutil"),
                ("scaling_setspeed", "<unsupported>"),
                ("scaling_driver", "acpi-cpufreq"),
                ("cpuinfo_min_freq", "1600000"),
                ("cpuinfo_max_freq", "1950000"),
            ] {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        fs::create_dir_all(root.path().join("group")).unwrap();
        fs::write(root.path().join("group/cpuset.cpus"), "1\n").unwrap();
        root
    }

    fn holds(root: &Path, cpu: u32, name: &str) -> String {
        let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
        files::read(&folder.join(name)).unwrap()
    }

    #[test]
    fn only_the_containers_own_cpus_change_and_all_are_put_back() {
        let root = machine("performance userspace schedutil");
        let mut cpufreq = Cpufreq::open(root.path()).unwrap();
        assert_eq!(cpufreq.levels(), 3);
        let target = Target { cpuset: Some(root.path().join("group")), ..Target::default() };
        let saved = cpufreq.save_all().unwrap();
        assert_eq!(cpufreq.read(&target).unwrap(), 0);
        cpufreq.apply(&target, 2).unwrap();
        assert_eq!(holds(root.path(), 1, "scaling_setspeed"), "3100000");
        assert_eq!(holds(root.path(), 1, "scaling_governor"), "userspace");
        assert_eq!(holds(root.path(), 0, "scaling_governor"), "schedutil");
        assert_eq!(cpufreq.read(&target).unwrap(), 2);
        cpufreq.apply(&target, 9).unwrap();
        assert_eq!(cpufreq.read(&target).unwrap(), 2);
        saved.restore().unwrap();
        assert_eq!(holds(root.path(), 1, "scaling_governor"), "schedutil");
    }

    #[test]
    fn a_driver_that_lists_no_frequencies_has_steps() {
        let root = machine("userspace");
        let folder = root.path().join("sys/devices/system/cpu/cpu0/cpufreq");
        fs::remove_file(folder.join("scaling_available_frequencies")).unwrap();
        assert_eq!(
            ladder(&folder).unwrap(),
            [1_600_000, 1_700_000, 1_800_000, 1_900_000, 1_950_000]
        );
    }

    #[test]
    fn what_is_lacking_is_said() {
        let error = Cpufreq::open(machine("performance powersave").path()).unwrap_err().to_string();
        assert!(error.contains("acpi-cpufreq has no userspace governor"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let error = Cpufreq::open(empty.path()).unwrap_err().to_string();
        assert!(error.contains("hides its frequencies"), "{error}");
    }
}
