//! An actuator whose containers may be boosted: the agent sees and sets what stands without.

use std::path::PathBuf;
use std::sync::Arc;

use super::board::Board;
use crate::agent::actuator::{Actuator, ActuatorError, Saved, Settled, Target};

/// Around the actuator that boosts act on as well.
#[derive(Debug)]
pub(in crate::agent) struct Boosted {
    inner: Box<dyn Actuator>,
    board: Arc<Board>,
}

impl Boosted {
    pub(super) fn new(inner: Box<dyn Actuator>, board: Arc<Board>) -> Self {
        Self { inner, board }
    }
}

/// What names a container on the board.
pub(super) fn key(target: &Target) -> PathBuf {
    target.cpu.as_ref().or(target.page.as_ref()).cloned().unwrap_or_default()
}

impl Actuator for Boosted {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let Some(row) = self.board.row(&key(target)) else { return self.inner.read(target) };
        let mut state = row.lock();
        let amount = self.inner.read(target)?;
        if state.written == Some(amount) {
            return Ok(state.base);
        }
        // It is not boosted, or somebody else has set it meanwhile.
        self.board.cancel(&mut state);
        state.base = amount;
        Ok(amount)
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        let Some(row) = self.board.row(&key(target)) else { return self.inner.save(target) };
        let mut state = row.lock();
        if state.written.is_some() {
            self.inner.apply(target, state.base)?;
        }
        let saved = self.inner.save(target);
        self.board.again(&mut state)?;
        saved
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let Some(row) = self.board.row(&key(target)) else {
            return self.inner.apply(target, amount);
        };
        let mut state = row.lock();
        self.inner.apply(target, amount)?;
        state.base = self.inner.read(target)?;
        self.board.again(&mut state)
    }

    fn is_deferred(&self) -> bool {
        self.inner.is_deferred()
    }

    fn settle(&mut self, target: &Target) -> Option<Settled> {
        self.inner.settle(target)
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn least(&mut self, target: &Target) -> u32 {
        self.inner.least(target)
    }

    fn ceiling(&mut self, target: &Target) -> Option<(u32, PathBuf)> {
        self.inner.ceiling(target)
    }

    fn forget(&mut self, target: &Target) {
        self.board.forget(&key(target));
        self.inner.forget(target);
    }
}
