//! The choice, and what it rests on.

use alloc::vec::Vec;
use core::time::Duration;

use super::c3::Estimates;
use super::snitch::Snitch;
use super::{Config, Selection};
use crate::random::Rng;
use crate::request::Stage;
use crate::time::Instant;

/// A replica is never avoided longer for one refusal, whatever it predicted.
const AVOIDED_MAX: Duration = Duration::from_secs(1);

/// A reply, as far as it tells about its replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// From sending the request to the reply.
    pub latency: Duration,
    /// Time that the handler took.
    pub service: Duration,
    /// The replica's queueing delay when the reply left.
    pub queue_delay: Duration,
}

/// Chooses among the replicas of one client.
///
/// Each [`on_submit`](Self::on_submit) is followed by exactly one [`on_end`](Self::on_end), before
/// or after what else is reported of the request.
#[derive(Clone, Debug)]
pub struct Selector {
    config: Config,
    replicas: Vec<Replica>,
    snitch: Option<Snitch>,
    /// Whose turn it was last.
    turn: usize,
    rng: Rng,
    /// Those to choose among; kept for its memory.
    open: Vec<usize>,
    /// Numbers of replicas that have gone.
    free: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct Replica {
    outstanding: u32,
    busy_until: Instant,
    c3: Estimates,
}

impl Selector {
    /// For so many replicas, about which nothing is known. Equal seeds make equal choices.
    pub fn new(config: &Config, replicas: usize, seed: u64) -> Self {
        let snitch = (config.choose == Selection::Snitch).then(|| Snitch::new(replicas));
        Self {
            config: *config,
            replicas: alloc::vec![Replica::default(); replicas],
            snitch,
            turn: 0,
            rng: Rng::new(seed),
            open: Vec::with_capacity(replicas),
            free: Vec::new(),
        }
    }

    /// One more replica, about which nothing is known, and its number: that of one that has gone
    /// and has no request any more, or the next.
    pub fn add(&mut self) -> usize {
        let idle = |replica: &usize| self.replicas[*replica].outstanding == 0;
        if let Some(place) = self.free.iter().position(idle) {
            return self.free.swap_remove(place);
        }
        self.replicas.push(Replica::default());
        if let Some(snitch) = &mut self.snitch {
            snitch.add();
        }
        self.replicas.len() - 1
    }

    /// A replica has gone. The caller does not let it be chosen any more; requests that are there
    /// may still end.
    pub fn remove(&mut self, replica: usize) {
        let outstanding = self.replicas[replica].outstanding;
        self.replicas[replica] = Replica { outstanding, ..Replica::default() };
        if let Some(snitch) = &mut self.snitch {
            snitch.forget(replica);
        }
        self.free.push(replica);
    }

    /// A replica for a request, of those that are `eligible`; `None` if none is.
    pub fn choose(&mut self, now: Instant, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        self.open.clear();
        self.open.extend((0..self.replicas.len()).filter(|replica| eligible(*replica)));
        let busy_until = |replica: &usize| self.replicas[*replica].busy_until;
        let soonest = self.open.iter().copied().min_by_key(busy_until)?;
        if busy_until(&soonest) > now {
            return Some(soonest); // all are busy, this one for the shortest time
        }
        let replicas = &self.replicas;
        self.open.retain(|replica| replicas[*replica].busy_until <= now);
        Some(match self.open[..] {
            [only] => only,
            _ => self.choose_idle(now),
        })
    }

    /// One of several that are not busy.
    fn choose_idle(&mut self, now: Instant) -> usize {
        let open = &mut self.open;
        let count = open.len() as u64;
        let load = |replica: usize| self.replicas[replica].outstanding;
        match self.config.choose {
            Selection::First => open[0],
            Selection::Random => open[self.rng.below(count) as usize],
            Selection::RoundRobin => {
                let next = open.iter().copied().find(|replica| *replica > self.turn);
                self.turn = next.unwrap_or(open[0]);
                self.turn
            }
            Selection::TwoChoices => {
                let one = self.rng.below(count);
                // Of the others, so that it is not the same again.
                let other = (one + 1 + self.rng.below(count - 1)) % count;
                let (one, other) = (open[one as usize], open[other as usize]);
                if load(other) < load(one) { other } else { one }
            }
            Selection::Snitch => {
                let first = self.rng.below(count) as usize;
                open.rotate_left(first);
                let snitch = self.snitch.as_mut().expect("this selection has one");
                snitch.choose(now, open)
            }
            Selection::C3 => {
                // Of equal scores not always the first.
                let first = self.rng.below(count) as usize;
                open.rotate_left(first);
                let score =
                    |replica: usize| self.replicas[replica].c3.score(self.config.c3, load(replica));
                let best = open.iter().copied().min_by(|a, b| score(*a).total_cmp(&score(*b)));
                best.expect("several are open")
            }
        }
    }

    /// A request is given to a replica; it may still have to wait for a credit.
    pub fn on_submit(&mut self, replica: usize) {
        self.replicas[replica].outstanding += 1;
    }

    /// It is no longer there, whatever became of it.
    pub fn on_end(&mut self, replica: usize) {
        let outstanding = &mut self.replicas[replica].outstanding;
        *outstanding = outstanding.checked_sub(1).expect("each end follows a submission");
    }

    /// A replica has served a request.
    pub fn on_reply(&mut self, now: Instant, replica: usize, reply: Answered) {
        self.observe_latency(now, replica, reply.latency);
        self.replicas[replica].c3.observe(reply.latency, reply.service, reply.queue_delay);
    }

    /// A replica has not answered for so long, and nobody waits any more.
    pub fn on_silence(&mut self, now: Instant, replica: usize, waited: Duration) {
        self.observe_latency(now, replica, waited);
    }

    fn observe_latency(&mut self, now: Instant, replica: usize, latency: Duration) {
        if let Some(snitch) = &mut self.snitch {
            snitch.observe(now, replica, latency, &mut self.rng);
        }
    }

    /// A replica has refused a request at `stage`, where it would have waited for so long.
    pub fn on_refusal(
        &mut self,
        now: Instant,
        replica: usize,
        stage: Stage,
        predicted_delay: Duration,
    ) {
        if self.config.guided && stage.concerns_all() {
            let busy_until = &mut self.replicas[replica].busy_until;
            *busy_until = (*busy_until).max(now + predicted_delay.min(AVOIDED_MAX));
        }
    }

    /// Until when a replica is avoided.
    pub fn busy_until(&self, replica: usize) -> Instant {
        self.replicas[replica].busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const ALL: fn(usize) -> bool = |_| true;

    fn selector(choose: Selection) -> Selector {
        Selector::new(&Config { choose, ..Config::default() }, 3, 7)
    }

    fn ms(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn chosen(selector: &mut Selector, at: Instant) -> Vec<usize> {
        (0..6).map(|_| selector.choose(at, ALL).unwrap()).collect()
    }

    #[test]
    fn in_turns_and_always_the_first() {
        assert_eq!(chosen(&mut selector(Selection::RoundRobin), ms(0)), [1, 2, 0, 1, 2, 0]);
        assert_eq!(chosen(&mut selector(Selection::First), ms(0)), [0; 6]);
        let selector = &mut selector(Selection::First);
        assert_eq!(selector.choose(ms(0), |replica| replica > 0), Some(1));
        assert_eq!(selector.choose(ms(0), |_| false), None);
    }

    #[test]
    fn two_choices_never_take_the_busiest() {
        let selector = &mut selector(Selection::TwoChoices);
        (0..5).for_each(|_| selector.on_submit(1));
        assert!((0..100).all(|_| selector.choose(ms(0), ALL) != Some(1)));
        (0..5).for_each(|_| selector.on_end(1));
        assert!((0..100).any(|_| selector.choose(ms(0), ALL) == Some(1)));
    }

    #[test]
    fn a_replica_is_avoided_for_as_long_as_it_said_if_all_requests_meet_that() {
        let selector = &mut selector(Selection::First);
        let delay = Duration::from_millis(8);
        selector.on_refusal(ms(1), 0, Stage(Stage::FIRST_OWN), delay);
        assert_eq!(selector.choose(ms(2), ALL), Some(0), "one lock of many");
        selector.on_refusal(ms(1), 0, Stage::CPU, delay);
        assert_eq!(selector.choose(ms(8), ALL), Some(1));
        assert_eq!(selector.choose(ms(8), |replica| replica == 0), Some(0), "there is no other");
        assert_eq!(selector.choose(ms(9), ALL), Some(0));
        selector.on_refusal(ms(9), 0, Stage::CPU, Duration::from_secs(3_600));
        assert_eq!(selector.busy_until(0), ms(1_009), "a prediction is not believed for ever");
    }

    #[test]
    fn a_number_is_given_again_once_nothing_of_it_is_left() {
        let selector = &mut selector(Selection::Snitch);
        selector.on_submit(1);
        selector.on_refusal(ms(0), 1, Stage::CPU, Duration::from_millis(9));
        selector.remove(1);
        assert_eq!(selector.add(), 3, "a request of the old one is still under way");
        selector.on_end(1);
        assert_eq!((selector.add(), selector.add()), (1, 4));
        assert_eq!(selector.busy_until(1), Instant::ORIGIN, "nothing is known of the new one");
        assert_eq!(selector.choose(ms(1), |replica| replica == 4), Some(4));
    }

    #[test]
    fn where_all_are_busy_the_one_that_is_free_first_gets_it() {
        let selector = &mut selector(Selection::TwoChoices);
        for (replica, delay) in [(0, 9), (1, 3), (2, 5)] {
            let delay = Duration::from_millis(delay);
            selector.on_refusal(ms(0), replica, Stage::RUN_QUEUE, delay);
        }
        assert_eq!(chosen(selector, ms(1)), [1; 6]);
    }

    #[test]
    fn without_guidance_refusals_are_forgotten() {
        let config = Config { guided: false, choose: Selection::First, ..Config::default() };
        let mut selector = Selector::new(&config, 2, 1);
        selector.on_refusal(ms(0), 0, Stage::CPU, Duration::from_millis(9));
        assert_eq!(selector.choose(ms(1), ALL), Some(0));
    }

    #[test]
    fn the_slower_replica_is_left_to_the_others() {
        for choose in [Selection::Snitch, Selection::C3] {
            let selector = &mut selector(choose);
            let us = Duration::from_micros;
            for replica in 0..3 {
                let service = us(if replica == 2 { 5_000 } else { 100 });
                let latency = service + us(50);
                let reply = Answered { latency, service, queue_delay: Duration::ZERO };
                (0..20).for_each(|_| selector.on_reply(ms(500), replica, reply));
            }
            assert!(!chosen(selector, ms(600)).contains(&2), "{choose:?}");
        }
    }

    proptest! {
        /// Whatever happened, an eligible replica is chosen if there is one.
        #[test]
        fn somebody_is_chosen_if_anybody_may_be(
            choose in prop::sample::select(alloc::vec![
                Selection::First, Selection::Random, Selection::RoundRobin,
                Selection::TwoChoices, Selection::Snitch, Selection::C3,
            ]),
            steps in prop::collection::vec((0_usize..3, 0_u64..50, 0_u8..8), 1..50),
        ) {
            let selector = &mut selector(choose);
            let mut now = ms(0);
            for (replica, delay, eligible) in steps {
                now = now + Duration::from_millis(delay);
                let delay = Duration::from_millis(delay);
                selector.on_refusal(now, replica, Stage::CPU, delay);
                let reply = Answered { latency: delay, service: delay, queue_delay: delay };
                selector.on_reply(now, replica, reply);
                let chosen = selector.choose(now, |replica| eligible & (1 << replica) != 0);
                prop_assert_eq!(chosen.is_some(), eligible & 7 != 0);
                prop_assert!(chosen.is_none_or(|chosen| eligible & (1 << chosen) != 0));
            }
        }
    }
}
