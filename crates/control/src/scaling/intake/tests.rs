//! What is believed, and what is counted instead.

use std::time::Duration;
use std::vec::Vec;

use super::{Config, Intake, Measured};
use crate::scaling::fixture::container;
use crate::scaling::{Absurd, Averages, Container, Counters, Node, Report, Snapshot};
use crate::time::Instant;

const MS: u64 = 1_000_000;

/// An intake of one container that is read every 10 ms.
struct Reader {
    intake: Intake,
    now: Instant,
    container: Container,
}

impl Reader {
    fn new() -> Self {
        let mut reader = Self {
            intake: Intake::new(Config::default()),
            now: Instant::from_nanos(MS),
            container: container(1, 3),
        };
        reader.read();
        reader
    }

    fn read(&mut self) -> Measured {
        self.now = self.now + Duration::from_millis(10);
        let node = Node { units: 10, ..Node::default() };
        let snapshot = Snapshot { node, containers: Vec::from([self.container.clone()]) };
        self.intake.read(self.now, &snapshot).remove(0)
    }

    /// So many requests of 1 ms, of which a quarter is a wait.
    fn serve(&mut self, requests: u64) -> Measured {
        let counters = self.counters();
        counters.requests += requests;
        counters.exec_ns += requests * MS;
        counters.pool_wait_ns += requests * MS / 4;
        self.read()
    }

    fn counters(&mut self) -> &mut Counters {
        match &mut self.container.report {
            Report::Counters(counters) => counters,
            other => unreachable!("{other:?}"),
        }
    }

    fn refused(&self) -> Vec<(Absurd, u64)> {
        self.intake.refusals().iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[test]
fn few_samples_are_kept_until_they_are_enough() {
    let mut reader = Reader::new();
    assert!(reader.serve(4).block.is_none());
    let measured = reader.serve(4);
    assert!(measured.block.is_none() && measured.recent.is_none());
    let measured = reader.serve(4);
    let block = measured.block.expect("twelve");
    assert_eq!((block.requests, block.means.exec_time), (12, 1e6));
    assert_eq!(block.means.exec_metric, 0.75e6);
    assert!((block.means.queue_buildup() - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!(reader.now.since(block.began), Duration::from_millis(30));
    assert_eq!(measured.recent, Some(block.means));
}

#[test]
fn what_comes_after_a_rest_did_not_begin_with_it() {
    let mut reader = Reader::new();
    reader.serve(20);
    for _ in 0..5_000 {
        reader.read();
    }
    let block = reader.serve(20).block.expect("enough");
    assert_eq!(reader.now.since(block.began), Duration::from_millis(10));
}

#[test]
fn averages_weigh_by_time() {
    let mut reader = Reader::new();
    reader.serve(20);
    // 3 ms each, in 20 ms: the window, so that this weighs 1 - 1/e.
    for _ in 0..2 {
        let counters = reader.counters();
        counters.requests += 5;
        counters.exec_ns += 15 * MS;
        reader.read();
    }
    let exec = reader.read().recent.unwrap().exec_time / 1e6;
    assert!((exec - (3.0 - 2.0 * (-1.0_f64).exp())).abs() < 1e-9, "{exec}");
}

#[test]
fn sums_that_shrink_begin_anew() {
    let mut reader = Reader::new();
    reader.serve(20);
    *reader.counters() = Counters { requests: 5, exec_ns: 5 * MS, ..Counters::default() };
    let measured = reader.read();
    assert!(measured.is_restarted && measured.recent.is_none() && measured.block.is_none());
    assert_eq!(reader.serve(12).block.unwrap().requests, 12);
    assert_eq!(reader.refused(), []);
}

#[test]
fn each_absurdity_is_counted_by_its_kind() {
    type Lie = fn(&mut Counters);
    let lies: [(&str, Absurd, Lie); 6] = [
        ("exec", Absurd::ExecTooLong, |it| it.exec_ns = u64::MAX),
        ("requests", Absurd::RequestsTooMany, |it| it.requests = u64::MAX),
        ("hints", Absurd::HintedTooMany, |it| (it.requests, it.hinted) = (100, 200)),
        ("waits", Absurd::PoolWaitTooLong, |it| {
            (it.requests, it.exec_ns, it.pool_wait_ns) = (100, 100 * MS, 120 * MS);
        }),
        ("starts", Absurd::Clock, |it| {
            (it.requests, it.started, it.time_from_start_ns) = (100, 10, 10 * 61_000 * MS);
        }),
        ("started", Absurd::StartedTooMany, |it| (it.requests, it.started) = (100, 200)),
    ];
    for (name, kind, lie) in lies {
        let mut reader = Reader::new();
        lie(reader.counters());
        let measured = reader.read();
        assert!(measured.block.is_none() && measured.recent.is_none(), "{name}");
        assert_eq!(reader.refused(), [(kind, 1)], "{name}");
        // The next report counts from there.
        if !matches!(kind, Absurd::ExecTooLong | Absurd::RequestsTooMany) {
            assert!(reader.serve(20).block.is_some(), "{name}");
            assert_eq!(reader.intake.refusals().total(), 1, "{name}");
        }
    }
}

#[test]
fn long_requests_that_were_in_flight_are_believed() {
    let mut reader = Reader::new();
    reader.counters().in_flight = 20;
    for _ in 0..500 {
        reader.read();
    }
    // 5 s each.
    let counters = reader.counters();
    (counters.in_flight, counters.requests, counters.exec_ns) = (0, 20, 20 * 5_000 * MS);
    assert!(reader.read().block.is_some());
    // As much again cannot be: they came within 10 ms.
    for _ in 0..100 {
        let counters = reader.counters();
        (counters.requests, counters.exec_ns) = (counters.requests + 20, counters.exec_ns * 2);
        reader.read();
        if reader.intake.refusals().total() > 0 {
            break;
        }
    }
    assert_eq!(reader.refused(), [(Absurd::ExecTooLong, 1)]);
}

/// Most of a request's time it waits for others, and does not execute.
#[test]
fn time_in_which_nothing_executes_is_no_allowance_for_ever() {
    let mut reader = Reader::new();
    for _ in 0..1_000 {
        reader.counters().in_flight = 1_000;
        reader.serve(20);
    }
    // They have gone, and what is said then is of the few that may have ended meanwhile.
    reader.counters().in_flight = 0;
    for _ in 0..20 {
        reader.serve(20);
    }
    reader.counters().requests += 20;
    reader.counters().exec_ns += 9_000_000 * MS;
    assert!(reader.read().block.is_none());
    assert_eq!(reader.refused(), [(Absurd::ExecTooLong, 1)]);
}

#[test]
fn no_request_takes_longer_than_the_longest() {
    let mut reader = Reader::new();
    // Ten thousand that were there may have executed for as long as they like, but not ten.
    reader.counters().in_flight = 10_000;
    reader.read();
    reader.read();
    let counters = reader.counters();
    (counters.requests, counters.exec_ns) = (20, 21 * 60_000 * MS);
    assert!(reader.read().block.is_none());
    assert_eq!(reader.refused(), [(Absurd::ExecTooLong, 1)]);
}

#[test]
fn waits_count_while_they_last() {
    let mut reader = Reader::new();
    for _ in 0..10 {
        reader.serve(20);
    }
    // All of a sudden nobody gets a connection: 40 requests, each a little later than the other.
    let buildups: Vec<f64> = (1..=200)
        .map(|step| {
            let counters = reader.counters();
            (counters.in_flight, counters.waiting, counters.waiting_ns) =
                (40, 40, 40 * step * 9 * MS);
            let measured = reader.read();
            assert!(measured.block.is_none() && !measured.is_idle);
            measured.queue_ratio().expect("what waits is known")
        })
        .collect();
    assert!(buildups.is_sorted(), "{buildups:?}");
    // 20 requests in 10 ms make 32 in the window of 20 ms, of which 31 are left after 0.6 of it.
    assert!((6.0..9.0).contains(&buildups[0]), "{}", buildups[0]);
    assert!((2_390.0..2_410.0).contains(&buildups[199]), "also when averages are forgotten");
    // They have got it: their waits are in the sums.
    let counters = reader.counters();
    (counters.in_flight, counters.waiting, counters.waiting_ns) = (0, 0, 0);
    counters.requests += 40;
    counters.exec_ns += 40 * 1_801 * MS;
    counters.pool_wait_ns += 40 * 1_800 * MS;
    let ratio = reader.read().queue_ratio().unwrap();
    assert!((1_790.0..1_810.0).contains(&ratio), "{ratio}");
    assert_eq!(reader.refused(), []);
}

#[test]
fn waits_grow_no_faster_than_time_and_are_of_requests_that_are_there() {
    let mut reader = Reader::new();
    reader.serve(20);
    let counters = reader.counters();
    // Read while one began: its start was not there yet.
    (counters.in_flight, counters.waiting, counters.waiting_ns) = (20, 20, u64::MAX);
    let ratio = reader.read().queue_ratio().unwrap();
    assert!(ratio < 17.0, "12 ms at most, after 0.75 ms of execution: {ratio}");
    reader.counters().waiting = 90;
    assert!((reader.read().queue_ratio().unwrap() - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!(reader.refused(), [(Absurd::WaitingTooMany, 1)]);
}

#[test]
fn a_clock_that_lags_says_that_jobs_begin_when_they_come() {
    let mut reader = Reader::new();
    reader.serve(20);
    assert_eq!(reader.refused(), [], "it may be that nobody says when jobs begin");
    reader.counters().started += 20;
    reader.counters().time_from_start_ns += 20 * MS;
    assert_eq!(reader.serve(20).block.unwrap().means.time_from_start, Some(1e6));
    reader.counters().started += 20;
    assert!(reader.serve(20).block.is_none());
    assert_eq!(reader.refused(), [(Absurd::Clock, 1)]);
}

#[test]
fn who_does_not_say_when_its_job_began_has_no_part_in_the_mean() {
    let mut reader = Reader::new();
    let counters = reader.counters();
    (counters.started, counters.time_from_start_ns) = (5, 20 * MS);
    counters.upstream_exec_ns = 10 * MS;
    let means = reader.serve(20).block.unwrap().means;
    assert_eq!((means.time_from_start, means.residual), (Some(4e6), Some(2e6)));
    let measured = reader.serve(20);
    let means = measured.block.unwrap().means;
    assert_eq!((means.time_from_start, means.residual), (None, None), "nobody says");
    assert_eq!(measured.recent.unwrap().time_from_start, Some(4e6), "what was known stays");
    assert_eq!(reader.refused(), []);
}

#[test]
fn averages_are_taken_as_they_are() {
    let mut reader = Reader::new();
    let good = Averages {
        exec_metric_ns: 1e6,
        exec_time_ns: 2e6,
        time_from_start_ns: 3e6,
        is_hinted: true,
    };
    let mut read = |averages| {
        reader.container.report = Report::Averages(averages);
        let measured = reader.read();
        (measured.block.is_some(), reader.refused())
    };
    assert_eq!(read(good), (false, Vec::new()), "they may be old");
    assert!(read(Averages { exec_time_ns: 4e6, ..good }).0);
    assert!(!read(Averages { exec_time_ns: 4e6, ..good }).0, "nothing new");
    for (averages, kind) in [
        (Averages { exec_metric_ns: f64::NAN, ..good }, Absurd::NotANumber),
        (Averages { exec_time_ns: -1.0, ..good }, Absurd::NotANumber),
        (Averages { exec_metric_ns: f64::INFINITY, ..good }, Absurd::NotANumber),
        (Averages { exec_time_ns: 0.5e6, ..good }, Absurd::PoolWaitTooLong),
        (Averages { exec_time_ns: 1e300, ..good }, Absurd::ExecTooLong),
        (Averages { time_from_start_ns: -5.0, ..good }, Absurd::Clock),
        (Averages { time_from_start_ns: 1e15, ..good }, Absurd::Clock),
    ] {
        let count = |refused: &[(Absurd, u64)]| {
            refused.iter().find(|(it, _)| *it == kind).map_or(0, |(_, count)| *count)
        };
        let before = count(&read(good).1);
        let (is_new, refused) = read(averages);
        assert!(!is_new, "{averages:?}");
        assert_eq!(count(&refused), before + 1, "{averages:?}");
    }
}

#[test]
fn bounds_are_made_sound_and_changes_by_others_are_taken_as_they_are() {
    let mut intake = Intake::new(Config::default());
    let zero_floor = Container { floor: 0, ..container(1, 3) };
    let crossed = Container { floor: 5, limit: 2, ..container(2, 5) };
    let foreign = Container { units: 200, ..container(3, 0) };
    let level = Container { level: 9, ..container(4, 1) };
    let double = Container { units: 77, ..container(4, 1) };
    let containers = Vec::from([level, double, foreign, crossed, zero_floor]);
    let node = Node { units: 10, ..Node::default() };
    let measured = intake.read(Instant::ORIGIN, &Snapshot { node, containers });
    let bounds: Vec<_> =
        measured.iter().map(|it| (it.id.0, it.units, it.floor, it.limit)).collect();
    assert_eq!(bounds, [(1, 3, 1, 100), (2, 5, 5, 5), (3, 200, 1, 100), (4, 1, 1, 100)]);
    assert_eq!(measured[3].level, 0);
    let refusals = intake.refusals();
    for (kind, count) in
        [(Absurd::Bounds, 2), (Absurd::UnitsChanged, 1), (Absurd::Level, 1), (Absurd::Duplicate, 1)]
    {
        assert_eq!(refusals.of(kind), count, "{kind}");
    }
}

#[test]
fn hints_and_what_is_shed_count_for_a_window() {
    let mut reader = Reader::new();
    reader.counters().requests += 1;
    reader.counters().hinted += 1;
    reader.counters().shed += 1;
    let state = |measured: Measured| (measured.is_hinted, measured.is_shedding);
    assert_eq!(state(reader.read()), (true, true));
    assert_eq!(state(reader.read()), (true, true));
    assert_eq!(state(reader.read()), (true, true), "after 20 ms");
    assert_eq!(state(reader.read()), (false, false));
}

#[test]
fn cpu_time_is_told_in_units() {
    let mut reader = Reader::new();
    reader.container.cpu_time = Some(Duration::from_millis(5));
    assert!(reader.read().used.is_none());
    reader.container.cpu_time = Some(Duration::from_millis(25));
    assert_eq!(reader.read().used.unwrap().units, 2.0);
    // Less than before: another container's counter.
    reader.container.cpu_time = Some(Duration::from_millis(1));
    assert!(reader.read().used.is_none());
}

#[test]
fn idle_is_not_the_same_as_silent() {
    let mut reader = Reader::new();
    reader.serve(20);
    reader.counters().in_flight = 1;
    for _ in 0..200 {
        assert!(!reader.read().is_idle, "one request is still in it");
    }
    assert!(reader.read().recent.is_none(), "but what was measured is old");
    reader.counters().in_flight = 0;
    let idle = (0..200).position(|_| reader.read().is_idle);
    assert_eq!(idle, Some(99), "after one second");
    reader.container.report = Report::None;
    assert!(!reader.read().is_idle, "nobody knows");
}

#[test]
fn averages_that_stay_as_they_are_are_of_nobody() {
    let mut reader = Reader::new();
    let mut averages = Averages { exec_metric_ns: 1e6, exec_time_ns: 2e6, ..Averages::default() };
    averages.is_hinted = true;
    for _ in 0..200 {
        averages.exec_time_ns += 1.0;
        reader.container.report = Report::Averages(averages);
        let measured = reader.read();
        assert!(!measured.is_idle && measured.is_hinted);
    }
    let idle = (0..200).position(|_| reader.read().is_idle);
    assert_eq!(idle, Some(99), "after one second");
    let measured = reader.read();
    assert!(measured.recent.is_none() && !measured.is_hinted, "it is old, too");
    averages.exec_time_ns += 1.0;
    reader.container.report = Report::Averages(averages);
    assert!(!reader.read().is_idle);
}
