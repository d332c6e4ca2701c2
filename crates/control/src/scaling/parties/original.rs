//! Parties as its authors' code has it (`manager/PARTIES.py`): a state machine with trial and
//! revert.

use alloc::collections::VecDeque;

use super::Config;
use crate::random::Rng;
use crate::scaling::intake::Measured;
use crate::scaling::ledger::Ledger;
use crate::scaling::roster::Roster;
use crate::scaling::scaler::Policy;
use crate::scaling::{ContainerId, Reason};
use crate::time::Instant;

/// Changes one resource of one container at a time, and watches what comes of it.
#[derive(Debug)]
pub(super) struct Original {
    config: Config,
    rng: Rng,
    states: Roster<State>,
    watch: Option<Watch>,
}

/// Which resource is changed next. The original has a third, cache ways, between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Units,
    Level,
}

impl Resource {
    fn next(self) -> Self {
        match self {
            Self::Units => Self::Level,
            Self::Level => Self::Units,
        }
    }
}

/// Which way a container went last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// What is changed next, while it goes on this way. Another way begins with any.
    next: Option<(Direction, Resource)>,
    /// The latest slacks, [`Config::slack_window`] of them.
    slacks: VecDeque<f64>,
    /// Intervals for which nothing is taken from it.
    rest: u32,
}

/// An action whose effect is awaited.
#[derive(Clone, Copy, Debug)]
struct Watch {
    container: ContainerId,
    action: Action,
    remaining: u32,
    /// Good intervals less bad ones.
    balance: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// It got more, when its latency was this multiple of what is expected.
    Upsized(f64),
    /// It gave this back.
    Downsized(Resource),
    /// And got it again. Twice as long is waited if the first half did not help.
    Reverted { again: bool },
}

impl State {
    /// The resource that is next on this way.
    fn resource(&mut self, direction: Direction, rng: &mut Rng) -> Resource {
        match self.next {
            Some((last, resource)) if last == direction => resource,
            _ => {
                let resource = if rng.chance(0.5) { Resource::Units } else { Resource::Level };
                self.next = Some((direction, resource));
                resource
            }
        }
    }

    /// The other resource is next.
    fn advance(&mut self) {
        if let Some((_, resource)) = &mut self.next {
            *resource = resource.next();
        }
    }
}

/// `(target - latency) / target`; a container without requests has all of it.
fn slack(container: &Measured) -> Option<f64> {
    if container.is_idle { Some(1.0) } else { container.latency_ratio().map(|ratio| 1.0 - ratio) }
}

impl Policy for Original {
    fn decide(&mut self, _now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        self.states.align(containers.iter().map(|container| container.id), |_| State::default());
        for (at, container) in containers.iter().enumerate() {
            let state = &mut self.states[at];
            state.rest = state.rest.saturating_sub(1);
            if let Some(slack) = slack(container) {
                if state.slacks.len() >= self.config.slack_window as usize {
                    state.slacks.pop_front();
                }
                state.slacks.push_back(slack);
            }
        }
        self.nominate(containers, ledger);
        if let Some(watch) = self.watch.take() {
            self.watch = self.on_watched(watch, containers, ledger);
        }
        // The interval that ends a watch is that of the next action: one in 500 ms (SurgeGuard
        // table I).
        if self.watch.is_some() {
            return;
        }
        // Nobody gives anything back while somebody needs more.
        self.watch = match self.neediest(containers) {
            Some(at) => self.upsize(at, containers, ledger),
            None => self.downsize(containers, ledger),
        };
    }
}

impl Original {
    pub(super) fn new(config: Config, seed: u64) -> Self {
        Self { config, rng: Rng::new(seed), states: Roster::default(), watch: None }
    }

    /// The slack of this interval, and the mean one.
    fn slacks(&self, at: usize, container: &Measured) -> Option<(f64, f64)> {
        let slacks = &self.states[at].slacks;
        let mean = slacks.iter().sum::<f64>() / slacks.len().max(1) as f64;
        Some((slack(container)?, mean))
    }

    fn needs_more(&self, at: usize, container: &Measured) -> Option<f64> {
        let (now, mean) = self.slacks(at, container)?;
        (now < self.config.slack_up && mean < self.config.slack_up).then_some(mean)
    }

    /// All that need more, the one with the least slack first. All but the first wait for their
    /// turn, but that is this algorithm's choice: nothing is short.
    fn nominate(&self, containers: &[Measured], ledger: &mut Ledger<'_>) {
        let needs = |(at, container)| self.needs_more(at, container).map(|mean| (at, mean));
        let mut slow: alloc::vec::Vec<(usize, f64)> =
            containers.iter().enumerate().filter_map(needs).collect();
        slow.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        for (at, _) in slow {
            let container = &containers[at];
            let is_full = container.units >= container.limit || ledger.free() == 0;
            let is_unmet = is_full && container.level >= ledger.level_max();
            ledger.nominate(at, 1, None, is_unmet);
        }
    }

    /// Who needs more and has the least slack.
    fn neediest(&self, containers: &[Measured]) -> Option<usize> {
        let needs = |(at, container)| self.needs_more(at, container).map(|mean| (at, mean));
        let least = containers.iter().enumerate().filter_map(needs);
        least.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    fn upsize(
        &mut self,
        at: usize,
        containers: &[Measured],
        ledger: &mut Ledger<'_>,
    ) -> Option<Watch> {
        let container = &containers[at];
        let ratio = container.latency_ratio().unwrap_or(0.0);
        let reason = Reason::Slow(ratio);
        for _ in 0..2 {
            let resource = self.states[at].resource(Direction::Up, &mut self.rng);
            let is_moved = match resource {
                Resource::Level => ledger.set_level(at, container.level.saturating_add(1), reason),
                Resource::Units => {
                    ledger.give(at, 1, reason) > 0 || self.rob(at, containers, ledger, reason)
                }
            };
            if is_moved {
                let action = Action::Upsized(ratio);
                let remaining = self.config.watch;
                return Some(Watch { container: container.id, action, remaining, balance: 0 });
            }
            // What cannot move makes way for the other resource.
            self.states[at].advance();
        }
        None
    }

    /// A unit of the container with the largest slack, for the one at `at`.
    fn rob(
        &mut self,
        at: usize,
        containers: &[Measured],
        ledger: &mut Ledger<'_>,
        reason: Reason,
    ) -> bool {
        // What is taken must be given then.
        if ledger.room(at) == 0 || ledger.is_overdrawn() {
            return false;
        }
        let victims = containers.iter().enumerate().filter(|(other, container)| {
            *other != at && container.units > container.floor && container.units <= container.limit
        });
        let richest = victims
            .filter_map(|(other, container)| Some((other, slack(container)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((victim, _)) = richest else { return false };
        if ledger.take(victim, 1, Reason::Victim) == 0 {
            return false;
        }
        if self.states[victim].next == self.states[at].next {
            self.states[victim].advance();
        }
        ledger.give(at, 1, reason) > 0
    }

    fn downsize(&mut self, containers: &[Measured], ledger: &mut Ledger<'_>) -> Option<Watch> {
        let spare = |(at, container): (usize, &Measured)| {
            let (now, mean) = self.slacks(at, container)?;
            let least = self.config.slack_down;
            let has_more =
                container.units > container.floor || container.level > ledger.level_base();
            (has_more && now > least && mean > least && self.states[at].rest == 0)
                .then_some((at, now))
        };
        let most = containers.iter().enumerate().filter_map(spare);
        let (at, slack) = most.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let container = &containers[at];
        let reason = Reason::AtEase(1.0 - slack);
        for _ in 0..2 {
            let resource = self.states[at].resource(Direction::Down, &mut self.rng);
            let is_moved = match resource {
                Resource::Units => ledger.take(at, 1, reason) > 0,
                Resource::Level => {
                    container.level > ledger.level_base()
                        && ledger.set_level(at, container.level - 1, reason)
                }
            };
            if is_moved {
                let action = Action::Downsized(resource);
                let remaining = self.config.watch;
                return Some(Watch { container: container.id, action, remaining, balance: 0 });
            }
            self.states[at].advance();
        }
        None
    }

    /// One interval after an action.
    fn on_watched(
        &mut self,
        mut watch: Watch,
        containers: &[Measured],
        ledger: &mut Ledger<'_>,
    ) -> Option<Watch> {
        // Who is watched may have gone.
        let at = containers.binary_search_by_key(&watch.container, |it| it.id).ok()?;
        let (container, config) = (&containers[at], self.config);
        let are_all_well =
            || containers.iter().filter_map(slack).all(|slack| slack >= config.slack_up);
        let is_good = match watch.action {
            Action::Upsized(before) => container.latency_ratio().is_none_or(|now| now < before),
            Action::Downsized(_) | Action::Reverted { .. } => are_all_well(),
        };
        watch.balance += if is_good { 1 } else { -1 };
        watch.remaining = watch.remaining.saturating_sub(1);
        if watch.remaining > 0 {
            return Some(watch);
        }
        let again = |action| Some(Watch { action, remaining: config.watch, balance: 0, ..watch });
        let state = &mut self.states[at];
        match watch.action {
            Action::Upsized(_) => {
                // It keeps what it got; next time it gets something else.
                let is_top = matches!(state.next, Some((_, Resource::Level)))
                    && container.level >= ledger.level_max();
                if watch.balance <= 0 || is_top {
                    state.advance();
                }
                None
            }
            Action::Downsized(resource) if watch.balance <= 0 => {
                // What others got in the meantime is gone.
                match resource {
                    Resource::Units => _ = ledger.give(at, 1, Reason::Reverted),
                    Resource::Level => {
                        let level = container.level.saturating_add(1);
                        ledger.set_level(at, level, Reason::Reverted);
                    }
                }
                state.advance();
                state.rest = config.rest;
                again(Action::Reverted { again: true })
            }
            Action::Reverted { again: true } if watch.balance <= 0 => {
                again(Action::Reverted { again: false })
            }
            Action::Downsized(_) | Action::Reverted { .. } => None,
        }
    }
}
