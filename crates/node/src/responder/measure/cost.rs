//! Nanoseconds per packet, as the kernel counts them.

use std::fs;
use std::io;
use std::time::Duration;

use super::super::{Boost, Config, Decision, FirstResponder, Slot, WorkerConfig, nanos};
use super::MeasureError;
use super::link::{Link, call, late};

const SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// What the program does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Too short for a request: acknowledgements and short answers.
    Short,
    /// To a port that is none of ours.
    Other,
    /// To a service, and no call.
    NoCall,
    /// A call in time.
    InTime,
    /// A late call on a frozen path.
    Frozen,
    /// A late call that raises a word in memory.
    Raised,
    /// A late call that raises a word in memory and tells the worker.
    Told,
}

impl Case {
    /// All, from the cheapest.
    pub const ALL: [Self; 7] = [
        Self::Short,
        Self::Other,
        Self::NoCall,
        Self::InTime,
        Self::Frozen,
        Self::Raised,
        Self::Told,
    ];

    /// In a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Short => "no data, or little",
            Self::Other => "to a port that is not ours",
            Self::NoCall => "ours, no call begins in it",
            Self::InTime => "ours, in time",
            Self::Frozen => "ours, late, path frozen",
            Self::Raised => "ours, late, word raised",
            Self::Told => "ours, late, word raised and worker told",
        }
    }
}

/// What packets of one kind cost.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketCosts {
    /// Of which kind.
    pub case: Case,
    /// Mean nanoseconds per packet, of each round.
    pub rounds: Vec<f64>,
}

/// Sends so many packets of each kind in each round.
///
/// The kernel counts time and runs together for all packets. Half of them are short answers, whose
/// cost is measured by itself and taken off. Two readings of a clock are a part of every figure.
///
/// # Errors
///
/// What is missing here.
pub fn costs(rounds: usize, packets: usize) -> Result<Vec<PacketCosts>, MeasureError> {
    let _counting = Counting::begin()?;
    super::keep_to(false)?;
    let mut measured: Vec<PacketCosts> = Vec::new();
    for case in Case::ALL {
        let mut bench = Bench::of(case)?;
        bench.round(packets)?;
        let short = measured.first().map(|short| median(&short.rounds));
        let round = |_| {
            bench.round(packets).map(|(time, runs)| match short {
                None => time / runs,
                Some(_) if case == Case::Other => time / runs,
                Some(short) => (time - (runs - packets as f64) * short) / packets as f64,
            })
        };
        let rounds = (0..rounds).map(round).collect::<Result<_, _>>()?;
        measured.push(PacketCosts { case, rounds });
    }
    Ok(measured)
}

/// The kernel measures its programs while this lives.
struct Counting {
    before: String,
}

impl Counting {
    fn begin() -> Result<Self, MeasureError> {
        let failed = |source| MeasureError::Statistics { path: SETTING, source };
        let before = fs::read_to_string(SETTING).map_err(failed)?;
        fs::write(SETTING, "1").map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SETTING, self.before.trim()) {
            tracing::warn!("{SETTING} remains 1: {error}");
        }
    }
}

/// A connection over which packets of one kind go.
struct Bench {
    case: Case,
    responder: FirstResponder,
    link: Link,
}

impl Bench {
    fn of(case: Case) -> Result<Self, MeasureError> {
        let long = Duration::from_secs(3_600);
        let window = if case == Case::Frozen { long } else { Duration::from_micros(1) };
        let config = Config {
            window,
            late_max: long,
            age_max: long,
            // Or half of the late calls would raise nobody.
            boosted_max: long,
            ..Config::default()
        };
        let mut responder = FirstResponder::load(&config)?;
        let link = Link::open()?;
        if !matches!(case, Case::Short | Case::Other) {
            responder.set_services(&[link.service()?])?;
        }
        if case == Case::Told {
            responder.work(WorkerConfig::default(), Box::new(Nothing))?;
        }
        Ok(Self { case, responder, link })
    }

    /// Nanoseconds and runs of the program in one round.
    fn round(&mut self, packets: usize) -> Result<(f64, f64), MeasureError> {
        let request = match self.case {
            Case::Short => vec![0],
            Case::Other | Case::Frozen | Case::Raised | Case::Told => late(1),
            Case::NoCall => vec![7; 64],
            Case::InTime => call(1, Duration::ZERO),
        };
        let answer = if self.case == Case::Other { &request[..] } else { &[0] };
        let before = self.cost()?;
        for _ in 0..packets {
            // A call in time is late a moment later.
            let fresh = (self.case == Case::InTime).then(|| call(1, Duration::ZERO));
            self.link.exchange(fresh.as_ref().unwrap_or(&request), answer)?;
        }
        let after = self.cost()?;
        Ok((after.0 - before.0, after.1 - before.1))
    }

    fn cost(&self) -> Result<(f64, f64), MeasureError> {
        let cost = self.responder.cost();
        let cost = cost.ok_or(MeasureError::Lost("the kernel does not know its program"))?;
        Ok((nanos(cost.time) as f64, cost.runs as f64))
    }
}

/// Carries nothing out.
struct Nothing;

impl Boost for Nothing {
    fn raise(&mut self, _: &Decision) -> io::Result<()> {
        Ok(())
    }

    fn lower(&mut self, _: Slot) -> io::Result<()> {
        Ok(())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
