//! Which meter counts, by the names in configurations.

use seawall_control::steer::Meter;
use serde::{Deserialize, Serialize};

use super::{Controllers, Declared, Detected, OpenCounter, Resctrl, Roots, Unavailable, counters};

/// What counts the bytes from and to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The first of the others that works, in their order. The default.
    #[default]
    Auto,
    /// [`Controllers`]: what memory controllers transfer.
    Uncore,
    /// [`Resctrl`]: what goes through the last caches.
    Resctrl,
    /// [`Declared`]: what the application says that it moves.
    Declared,
}

impl Source {
    /// The names in configurations, in the order of the variants.
    pub const NAMES: [&str; 4] = ["auto", "uncore", "resctrl", "declared"];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Opens it. `declared` is where the application declares its bytes, if it does.
    ///
    /// What [`Auto`](Self::Auto) passed over is among the findings. It finds nothing only where the
    /// application declares nothing either.
    ///
    /// # Errors
    ///
    /// When another one was named and does not work here: why.
    pub fn open(
        self,
        roots: &Roots,
        declared: Option<&'static Declared>,
    ) -> Result<Detected, Unavailable> {
        self.open_with(roots, declared, &mut counters::open)
    }

    /// The same with another way to open counters.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        self,
        roots: &Roots,
        declared: Option<&'static Declared>,
        open: &mut OpenCounter<'_>,
    ) -> Result<Detected, Unavailable> {
        let mut detected = Detected { meter: None, findings: Vec::new() };
        let wants = |source| self == Self::Auto || self == source;
        if wants(Self::Uncore) {
            detected.consider(Self::Uncore, || Controllers::open(&roots.sysfs, open));
        }
        if wants(Self::Resctrl) {
            detected.consider(Self::Resctrl, || Resctrl::open(&roots.resctrl));
        }
        if wants(Self::Declared) {
            let missing = || Unavailable::new("the application declares none");
            detected.consider(Self::Declared, || declared.ok_or_else(missing));
        }
        match detected.findings.pop() {
            Some((_, Err(reason))) if self != Self::Auto => Err(reason),
            last => {
                detected.findings.extend(last);
                Ok(detected)
            }
        }
    }

    /// What it counts by, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Auto => "the best there is",
            Self::Uncore => "memory controllers",
            Self::Resctrl => "resctrl",
            Self::Declared => "declared bytes",
        }
    }
}

impl Detected {
    /// Takes that meter if none was found before and it can be read.
    pub(super) fn consider<M: Meter + Send + 'static>(
        &mut self,
        source: Source,
        open: impl FnOnce() -> Result<M, Unavailable>,
    ) {
        if self.meter.is_some() {
            return;
        }
        let meter = open().and_then(|mut meter| match meter.total() {
            Some(_) => Ok(meter),
            None => Err(Unavailable::new(format!("{} cannot be read", meter.name()))),
        });
        self.findings
            .push((source, meter.as_ref().map(|meter| meter.name().into()).map_err(Clone::clone)));
        self.meter = meter.ok().map(|meter| Box::new(meter) as Box<dyn Meter + Send>);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_configurations() {
        #[derive(Deserialize)]
        struct Wrap {
            source: Source,
        }
        for name in Source::NAMES {
            let read: Wrap = toml::from_str(&format!("source = '{name}'")).unwrap();
            assert_eq!(read.source.name(), name);
        }
        let error = toml::from_str::<Wrap>("source = 'pcm'").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`auto`, `uncore`, `resctrl`, `declared`"), "{error}");
    }
}
