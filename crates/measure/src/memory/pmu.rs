//! Counters of memory controllers, as sysfs describes them (`Documentation/ABI/testing/
//! sysfs-bus-event_source-devices-*` of Linux).
//!
//! ```text
//!   devices/uncore_imc_0/type      78                       which PMU
//!                        cpumask   0,40                     one CPU of each socket
//!                        events/cas_count_read        event=0x04,umask=0x0f
//!                        events/cas_count_read.scale  6.103515625e-5
//!                        events/cas_count_read.unit   MiB
//!                        format/umask                 config:8-15
//! ```

use std::path::Path;

use super::Unavailable;
use crate::kernel;

/// What a transfer of a memory controller moves: a line of the cache.
const LINE: f64 = 64.0;

/// Pairs of events of Intel's controllers, for what is read and written. Which there are depends on
/// the model; of a controller with several pairs the first counts.
const READ_WRITE: [[&str; 2]; 4] = [
    ["cas_count_read", "cas_count_write"],
    ["read", "write"],
    ["data_read", "data_write"],
    ["data_reads", "data_writes"],
];

/// All column accesses of a controller of Zen 4 and later (`umc_cas_cmd.all` of perf).
const UMC_ACCESSES: &str = "event=0x0a";

/// Requests with data of each memory channel that a data fabric of Zen to Zen 3 has
/// (`dram_channel_data_controller_0` to `_7` of perf).
const DF_CHANNELS: [&str; 8] = [
    "event=0x07,umask=0x38",
    "event=0x47,umask=0x38",
    "event=0x87,umask=0x38",
    "event=0xc7,umask=0x38",
    "event=0x107,umask=0x38",
    "event=0x147,umask=0x38",
    "event=0x187,umask=0x38",
    "event=0x1c7,umask=0x38",
];

/// How the data fabrics number their events to which that applies.
const DF_FORMAT: &str = "config:0-7,32-35,59-60";

/// A counter that can be opened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The PMU's name.
    pub pmu: String,
    /// The PMU's number, `perf_event_attr.type`.
    pub kind: u32,
    /// The event, `perf_event_attr.config`, `config1` and `config2`.
    pub config: [u64; 3],
    /// The CPU on which it is opened, one for each socket.
    pub cpu: u32,
    /// Bytes for each count.
    pub bytes: f64,
}

/// Kinds of PMUs, best first. Where there are several, each counts all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// A controller of an Intel processor.
    Imc,
    /// The same with counters that always run.
    ImcFreeRunning,
    /// A controller of an AMD processor.
    Umc,
    /// The network between all parts of an AMD processor.
    Df,
}

impl Family {
    const ALL: [Self; 4] = [Self::Imc, Self::ImcFreeRunning, Self::Umc, Self::Df];

    fn of(pmu: &str) -> Option<Self> {
        let name = pmu.trim_end_matches(|last: char| last.is_ascii_digit());
        Some(match name.trim_end_matches('_') {
            "uncore_imc" => Self::Imc,
            "uncore_imc_free_running" => Self::ImcFreeRunning,
            "amd_umc" => Self::Umc,
            "amd_df" => Self::Df,
            _ => return None,
        })
    }
}

/// All counters that together count what goes from and to memory.
pub(super) fn events(sysfs: &Path) -> Result<Vec<Event>, Unavailable> {
    let folder = sysfs.join("bus/event_source/devices");
    let devices = kernel::list(&folder);
    let mut problem = None;
    for family in Family::ALL {
        let of_family = devices.iter().filter(|(name, _)| Family::of(name) == Some(family));
        let events: Result<Vec<_>, _> =
            of_family.map(|(name, path)| of_device(family, name, path)).collect();
        match events.map(|events| events.concat()) {
            Ok(events) if !events.is_empty() => return Ok(events),
            Ok(_) => {}
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.unwrap_or_else(|| {
        let names: Vec<_> = devices.iter().map(|(name, _)| name.as_str()).collect();
        let others = if names.is_empty() { "nothing".into() } else { names.join(", ") };
        Unavailable::at(&folder, format!("no counters of a memory controller, only {others}"))
    }))
}

fn of_device(family: Family, name: &str, device: &Path) -> Result<Vec<Event>, Unavailable> {
    let described: Vec<(String, f64)> = match family {
        Family::Imc | Family::ImcFreeRunning => {
            let events = device.join("events");
            let pair = READ_WRITE.iter().find(|pair| pair.iter().all(|e| events.join(e).is_file()));
            let Some(pair) = pair else {
                return Err(Unavailable::at(&events, "none that count what is read and written"));
            };
            pair.iter().map(|event| with_scale(&events, event)).collect::<Result<_, _>>()?
        }
        Family::Umc => vec![(UMC_ACCESSES.into(), LINE)],
        Family::Df => {
            let format = device.join("format/event");
            if kernel::read(&format)? != DF_FORMAT {
                let problem = "a data fabric of Zen 4 or later, and no amd_umc (since Linux 6.8)";
                return Err(Unavailable::at(&format, problem));
            }
            DF_CHANNELS.map(|event| (event.into(), LINE)).into()
        }
    };
    let kind = device.join("type");
    let number = kernel::read_number(&kind)?;
    let kind = u32::try_from(number).map_err(|_| Unavailable::at(&kind, "too large"))?;
    let cpus = cpus(&device.join("cpumask"))?;
    let mut all = Vec::new();
    for (event, bytes) in described {
        let config = config(&device.join("format"), &event)?;
        let on = |cpu: &u32| Event { pmu: name.into(), kind, config, cpu: *cpu, bytes };
        all.extend(cpus.iter().map(on));
    }
    Ok(all)
}

/// An event's description, and how many bytes each of it stands for.
fn with_scale(events: &Path, event: &str) -> Result<(String, f64), Unavailable> {
    let file = events.join(format!("{event}.scale"));
    let scale: f64 =
        kernel::read(&file)?.parse().map_err(|_| Unavailable::at(&file, "it is no number"))?;
    let file = events.join(format!("{event}.unit"));
    let unit = match kernel::read(&file)?.as_str() {
        "Bytes" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        other => return Err(Unavailable::at(&file, format!("{other:?} is no unit of bytes"))),
    };
    Ok((kernel::read(&events.join(event))?, scale * unit))
}

/// A list of CPUs such as `0,40` or `0-3`.
fn cpus(file: &Path) -> Result<Vec<u32>, Unavailable> {
    let text = kernel::read(file)?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    let cpus: Vec<_> = ranges.into_iter().flatten().flatten().collect();
    if cpus.is_empty() {
        return Err(Unavailable::at(file, format!("{text:?} names no CPU")));
    }
    Ok(cpus)
}

/// Puts the terms of an event, such as `event=0x04,umask=0x0f`, into the words that the kernel
/// takes, where the files in `format` say.
fn config(format: &Path, event: &str) -> Result<[u64; 3], Unavailable> {
    let mut words = [0; 3];
    for term in event.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let file = format.join(name);
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let is_put =
            value.ok().and_then(|value| put(&mut words, &kernel::read(&file).ok()?, value));
        if is_put.is_none() {
            return Err(Unavailable::at(&file, format!("{term:?} does not fit in there")));
        }
    }
    Ok(words)
}

/// Puts `value`, lowest bits first, where `place` says, such as `config1:0-7,32-35`. `None` if it
/// does not fit.
fn put(words: &mut [u64; 3], place: &str, value: u64) -> Option<()> {
    let (word, ranges) = place.split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
    let mut left = value;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
        let width = high.checked_sub(low).filter(|_| high < u64::BITS)? + 1;
        let mask = u64::MAX >> (u64::BITS - width);
        words[word] |= (left & mask) << low;
        left = left.checked_shr(width).unwrap_or(0);
    }
    (left == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_the_format_says() {
        let put_into = |place, value| {
            let mut words = [0; 3];
            put(&mut words, place, value).map(|()| words)
        };
        assert_eq!(put_into("config:0-7", 0x0a), Some([0x0a, 0, 0]));
        assert_eq!(put_into("config:8-15,32-55", 0x1cf), Some([0x1_0000_cf00, 0, 0]));
        assert_eq!(put_into("config:0-7,32-35,59-60", 0x1c7), Some([0x1_0000_00c7, 0, 0]));
        assert_eq!(put_into("config1:18", 1), Some([0, 1 << 18, 0]));
        assert_eq!(put_into("config2:0-63", u64::MAX), Some([0, 0, u64::MAX]));
        for (place, value) in [
            ("config:0-7", 0x100),
            ("config9:0", 1),
            ("config:7-0", 1),
            ("config:60-64", 1),
            ("", 1),
        ] {
            assert_eq!(put_into(place, value), None, "{place} {value}");
        }
    }

    #[test]
    fn controllers_are_told_from_what_is_named_like_them() {
        let family = Family::of;
        assert_eq!(family("uncore_imc_11"), Some(Family::Imc));
        assert_eq!(family("uncore_imc"), Some(Family::Imc));
        assert_eq!(family("uncore_imc_free_running_0"), Some(Family::ImcFreeRunning));
        assert_eq!(family("amd_umc_7"), Some(Family::Umc));
        assert_eq!(family("amd_df"), Some(Family::Df));
        for other in ["uncore_m2m_0", "uncore_cha_3", "amd_l3", "uncore_imcx", "cpu", "42"] {
            assert_eq!(family(other), None, "{other}");
        }
    }
}
