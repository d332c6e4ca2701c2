//! The programs in the kernel, and what they say.

use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use seawall_control::Instant;
use seawall_control::predict::cpu::Shadow;

use crate::programs::run_queue::{RunQueueSkel, RunQueueSkelBuilder, types};
use crate::{Unavailable, convert, refusal, tick};

/// To run a program on the CPU that is named with it (`BPF_F_TEST_RUN_ON_CPU`).
const ON_CPU: u32 = 1;

/// What most kernels are built with (`CONFIG_HZ=250`): the tick until two of them were seen.
const TICK: Duration = Duration::from_millis(4);

/// The run queues of this machine's CPUs.
pub struct RunQueues {
    programs: RunQueueSkel<'static>,
    cpus: u32,
}

/// The run queue of one CPU at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// Of which CPU.
    pub cpu: u32,
    /// When, on the system's monotonic clock.
    pub taken: Instant,
    /// The queue.
    pub shadow: Shadow,
    /// Threads and groups that the copy had no space for.
    pub lost: u32,
    /// The thread that is [watched](RunQueues::watch), if one waits.
    pub watched: Option<u64>,
}

/// When a watched thread got a CPU, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watched {
    /// When, on the system's monotonic clock.
    pub ran: Instant,
    /// Where; not always the CPU on which it waited.
    pub cpu: u32,
}

/// What a program has cost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// The program's name.
    pub program: String,
    /// How often it ran, while the sysctl `kernel.bpf_stats_enabled` was 1.
    pub runs: u64,
    /// The time that took.
    pub time: Duration,
}

impl RunQueues {
    /// Loads the programs; habits are learnt from now on, until this is dropped.
    ///
    /// # Errors
    ///
    /// What is missing, if the kernel does not show its run queues.
    pub fn open() -> Result<Self, Unavailable> {
        refusal::log();
        // The programs refer to it for as long as they are loaded, and it is small.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            RunQueueSkelBuilder::default().open(object).map_err(Unavailable::from_loading)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.tick_function = tick::handler()?;
        }
        let mut programs = open.load().map_err(Unavailable::from_loading)?;
        let progs = &programs.progs;
        for (program, link) in [
            (&progs.on_switch, &mut programs.links.on_switch),
            (&progs.on_wakeup, &mut programs.links.on_wakeup),
            (&progs.on_timer, &mut programs.links.on_timer),
        ] {
            *link = Some(program.attach().map_err(Unavailable::from_loading)?);
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { programs, cpus: u32::try_from(cpus).unwrap_or(u32::MAX) })
    }

    /// A copy of the run queue of a CPU.
    ///
    /// # Errors
    ///
    /// If there is no such CPU.
    pub fn copy(&mut self, cpu: u32) -> Result<Sample, Unavailable> {
        let source = ProgramInput { cpu, flags: ON_CPU, ..ProgramInput::default() };
        let program = &self.programs.progs.take_snapshot;
        program.test_run(source).map_err(|source| Unavailable::NoCpu { cpu, source })?;
        let data = self.data();
        let copy = &data.snapshot;
        let period = Some(data.tick_gap).filter(|&gap| gap > 0);
        let period = period.map_or(TICK, Duration::from_nanos);
        Ok(Sample {
            cpu,
            taken: Instant::from_nanos(copy.now),
            shadow: convert::shadow(copy, period, self.cpus),
            lost: copy.lost,
            watched: Some(u64::from(copy.chosen)).filter(|&tid| tid > 0),
        })
    }

    /// A copy of the run queue of a CPU; and of the threads in it that wait and belong to the
    /// process (0: any), one at random is watched from that moment on.
    ///
    /// # Errors
    ///
    /// If there is no such CPU.
    pub fn watch(&mut self, cpu: u32, process: u32) -> Result<Sample, Unavailable> {
        if let Some(data) = self.programs.maps.bss_data.as_deref_mut() {
            data.watched_process = process;
            data.watching = 1;
        }
        self.copy(cpu)
    }

    /// When the thread that is watched got a CPU; `None` while it waits.
    #[allow(unsafe_code, reason = "memory that the kernel writes")]
    pub fn watched(&self) -> Option<Watched> {
        let watch = &raw const self.data().watch;
        // SAFETY: it points to a live mapping of plain numbers. The kernel writes `ran` last, and
        // then nothing until the next thread is watched, which takes `&mut self`.
        let watch: types::watch = unsafe { watch.read_volatile() };
        let ran = Watched { ran: Instant::from_nanos(watch.ran), cpu: watch.cpu };
        (watch.ran > 0).then_some(ran)
    }

    /// What the programs have cost so far, all CPUs together.
    pub fn costs(&self) -> Vec<Cost> {
        let names = ["on_switch", "on_wakeup", "on_timer", "take_snapshot"];
        libbpf_rs::query::ProgInfoIter::default()
            .filter_map(|info| {
                let program = info.name.to_str()?;
                names.contains(&program).then(|| Cost {
                    program: program.to_owned(),
                    runs: info.run_cnt,
                    time: Duration::from_nanos(info.run_time_ns),
                })
            })
            .collect()
    }

    fn data(&self) -> &types::bss {
        self.programs.maps.bss_data.as_deref().expect("the programs have variables")
    }
}

impl std::fmt::Debug for RunQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunQueues").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}
