//! Virtual cores: slots in which jobs spend time instead of CPU, so that many fit on few CPUs.
//!
//! ```text
//!   queue ──► slot 1 ▐█quantum█▐█quantum█▐▌ done
//!   ▪▪▪▪▪     slot 2 ▐█quantum█▐█quantum█▐█ …
//!             slot 3 (given to others: its job waits ahead of the queue)
//! ```
//!
//! A job occupies one slot until its work is done; the others wait in order of arrival. How many
//! slots there are and how fast they are is looked up at the end of each quantum, so that a boost
//! acts on jobs that are under way. Who loses its slot goes on before those that never had one.
//!
//! Deviation: cores share time among all threads that can run; slots serve whom they have to the
//! end. Queues, concurrency and capacity are the same, the spread of latencies under load is
//! narrower.
//!
//! Nothing here reads a clock. Whoever does calls [`Slots::advance`] at [`Slots::next`], or as soon
//! after that as it wakes: what should have happened meanwhile is made up for at the times at which
//! it was due, so that late timers take no capacity away.

use std::collections::VecDeque;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::time::nanos;

/// What slots are worth from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How many there are, at least 1.
    pub slots: u32,
    /// Their speed in thousandths of the base frequency's, at least 1.
    pub speed_permille: u32,
}

impl Grant {
    /// So many at the base frequency.
    pub fn slots(slots: u32) -> Self {
        Self { slots, speed_permille: 1_000 }
    }
}

/// A job, as whoever submits it knows it.
pub type JobId = usize;

/// The slots of one service.
#[derive(Debug)]
pub struct Slots {
    quantum: Duration,
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
    /// For how long slots were occupied, all together, nanoseconds.
    occupied: u64,
}

#[derive(Debug)]
struct Waiting {
    job: JobId,
    /// Work left, nanoseconds at the base frequency.
    left: u64,
    /// It cannot begin before.
    since: Instant,
}

#[derive(Debug)]
struct Running {
    job: JobId,
    /// Work left at the end of the quantum.
    left: u64,
    /// End of the quantum.
    until: Instant,
}

impl Slots {
    /// Slots that look after so much time at what they are worth.
    ///
    /// # Panics
    ///
    /// If the quantum is zero: time would stand still.
    pub fn new(quantum: Duration) -> Self {
        assert!(!quantum.is_zero(), "a quantum takes time");
        Self { quantum, running: Vec::new(), waiting: VecDeque::new(), occupied: 0 }
    }

    /// A job comes that takes so long in a slot at the base frequency.
    pub fn submit(&mut self, now: Instant, job: JobId, work: Duration, grant: Grant) {
        self.waiting.push_back(Waiting { job, left: nanos(work), since: now });
        self.fill(now, grant);
    }

    /// When something happens next; `None` while nobody works.
    pub fn next(&self) -> Option<Instant> {
        self.running.iter().map(|running| running.until).min()
    }

    /// Lets all happen that is due by `now`; tells which jobs are done, in order. Slots that
    /// `grant` has in addition are used from `now` on.
    pub fn advance(&mut self, now: Instant, grant: Grant, mut done: impl FnMut(JobId)) {
        while let Some((place, until)) = self.earliest().filter(|(_, until)| *until <= now) {
            let Running { job, left, .. } = self.running.swap_remove(place);
            if left == 0 {
                done(job);
            } else {
                self.waiting.push_front(Waiting { job, left, since: until });
            }
            self.fill(until, grant);
        }
        self.fill(now, grant);
    }

    /// Jobs in slots, and jobs that wait for one.
    pub fn jobs(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }

    /// For how long slots were occupied since the beginning, all together: what CPU time is to
    /// cores. A quantum that has begun is counted to its end.
    pub fn occupied(&self) -> Duration {
        Duration::from_nanos(self.occupied)
    }

    fn earliest(&self) -> Option<(usize, Instant)> {
        let ends = self.running.iter().map(|running| running.until).enumerate();
        ends.min_by_key(|(_, until)| *until)
    }

    /// Puts those who wait into free slots, from `at` on.
    fn fill(&mut self, at: Instant, grant: Grant) {
        while self.running.len() < grant.slots.max(1) as usize {
            let Some(Waiting { job, left, since }) = self.waiting.pop_front() else { return };
            let speed = u128::from(grant.speed_permille.max(1));
            // Rounded up, so that no job needs a quantum of nothing.
            let needs = (u128::from(left) * 1_000).div_ceil(speed);
            let span = needs.min(self.quantum.as_nanos()) as u64;
            let progress = (u128::from(span) * speed / 1_000).min(u128::from(left)) as u64;
            let left = if u128::from(span) == needs { 0 } else { left - progress };
            self.occupied += span;
            let until = at.max(since) + Duration::from_nanos(span);
            self.running.push(Running { job, left, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTUM: Duration = Duration::from_millis(1);

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Lets all happen at its time; gives when each job was done, in microseconds.
    fn run(slots: &mut Slots, until: u64, grant: impl Fn(u64) -> Grant) -> Vec<(JobId, u64)> {
        let mut done = Vec::new();
        while let Some(next) = slots.next().filter(|next| *next <= at(until)) {
            let now = next.as_nanos() / 1_000;
            slots.advance(next, grant(now), |job| done.push((job, now)));
        }
        done
    }

    #[test]
    fn jobs_are_served_in_order_by_as_many_slots() {
        let mut slots = Slots::new(QUANTUM);
        for job in 0..5 {
            slots.submit(at(0), job, us(2_500), Grant::slots(2));
        }
        assert_eq!(slots.jobs(), (2, 3));
        let done = run(&mut slots, 100_000, |_| Grant::slots(2));
        assert_eq!(done, [(0, 2_500), (1, 2_500), (2, 5_000), (3, 5_000), (4, 7_500)]);
        assert_eq!(slots.next(), None);
    }

    #[test]
    fn a_boost_acts_on_a_job_under_way() {
        let boost =
            |now| Grant { slots: 1, speed_permille: if now < 2_000 { 1_000 } else { 2_000 } };
        let mut slots = Slots::new(QUANTUM);
        slots.submit(at(0), 7, us(5_000), boost(0));
        // 2 ms as it was, and the other 3 ms of work twice as fast.
        assert_eq!(run(&mut slots, 100_000, boost), [(7, 3_500)]);
        assert_eq!(slots.occupied(), us(3_500), "time in a slot, however fast it is");
    }

    #[test]
    fn a_slot_that_is_taken_away_stops_at_the_end_of_its_quantum() {
        let grant = |now| Grant::slots(if (1_000..4_000).contains(&now) { 1 } else { 2 });
        let mut slots = Slots::new(QUANTUM);
        slots.submit(at(0), 0, us(3_000), grant(0));
        slots.submit(at(0), 1, us(3_000), grant(0));
        slots.submit(at(100), 2, us(1_000), grant(100));
        // At 1 ms one of them has to wait, and goes on before the third, which came later.
        let done = run(&mut slots, 100_000, grant);
        let ends: Vec<u64> = done.iter().map(|(_, end)| *end).collect();
        assert_eq!(done.iter().map(|(job, _)| *job).max(), Some(2));
        assert_eq!(done.last().unwrap().0, 2, "{done:?}");
        assert!(ends.iter().all(|end| *end >= 3_000), "{done:?}");
    }

    #[test]
    fn late_timers_take_no_capacity_away() {
        let mut slots = Slots::new(QUANTUM);
        for job in 0..4 {
            slots.submit(at(0), job, us(1_500), Grant::slots(1));
        }
        let mut done = Vec::new();
        // Nobody looked for 10 ms. All was done in time, and is told now.
        slots.advance(at(10_000), Grant::slots(1), |job| done.push(job));
        assert_eq!(done, [0, 1, 2, 3]);
        // Who comes later does not begin earlier.
        slots.submit(at(10_000), 9, us(500), Grant::slots(1));
        assert_eq!(slots.next(), Some(at(10_500)));
    }

    #[test]
    fn more_slots_are_used_at_once() {
        let mut slots = Slots::new(QUANTUM);
        for job in 0..3 {
            slots.submit(at(0), job, us(10_000), Grant::slots(1));
        }
        slots.advance(at(500), Grant::slots(3), |_| panic!("nobody can be done yet"));
        assert_eq!(slots.jobs(), (3, 0));
    }

    #[test]
    fn work_of_nothing_is_done_at_once() {
        let mut slots = Slots::new(QUANTUM);
        slots.submit(at(5), 1, Duration::ZERO, Grant { slots: 0, speed_permille: 0 });
        assert_eq!(run(&mut slots, 5, |_| Grant::slots(1)), [(1, 5)]);
    }

    proptest! {
        /// Whatever is granted when: every job ends, none faster than at the highest speed, and all
        /// together no sooner than the slots can do that much work.
        #[test]
        fn work_is_conserved(
            jobs in prop::collection::vec((0..20_000_u64, 0..9_000_u64), 1..40),
            grants in prop::collection::vec((1..5_u32, 500..3_000_u32), 1..8),
            late in 0..3_000_u64,
        ) {
            let grant = |now: u64| {
                let (slots, speed_permille) = grants[(now / 3_000) as usize % grants.len()];
                Grant { slots, speed_permille }
            };
            let mut slots = Slots::new(QUANTUM);
            let mut jobs = jobs;
            jobs.sort_unstable();
            let mut ends = vec![None; jobs.len()];
            let mut coming = jobs.iter().enumerate().peekable();
            let mut now = 0;
            loop {
                let due = slots.next().map(|next| next.as_nanos().div_ceil(1_000) + late);
                let comes = coming.peek().map(|(_, (time, _))| *time);
                now = match (due, comes) {
                    (None, None) => break,
                    (Some(due), Some(comes)) => due.min(comes).max(now),
                    (Some(one), None) | (None, Some(one)) => one.max(now),
                };
                let mut finished = Vec::new();
                slots.advance(at(now), grant(now), |job| finished.push(job));
                for job in finished {
                    prop_assert!(ends[job].replace(now).is_none(), "{job} ended twice");
                }
                while let Some((job, (_, work))) = coming.next_if(|(_, (time, _))| *time <= now) {
                    slots.submit(at(now), job, us(*work), grant(now));
                }
            }
            let fastest = grants.iter().map(|(_, speed)| u64::from(*speed)).max().unwrap();
            let most = grants.iter().map(|(slots, _)| u64::from(*slots)).max().unwrap();
            for ((came, work), end) in jobs.iter().zip(&ends) {
                let end = end.expect("every job ends");
                prop_assert!((end - came) * fastest + 1_000 >= work * 1_000, "{end} {came} {work}");
            }
            let all: u64 = jobs.iter().map(|(_, work)| work).sum();
            let last = ends.iter().flatten().max().unwrap() - jobs[0].0;
            prop_assert!((last + 3) * fastest * most >= all * 1_000);
        }
    }
}
