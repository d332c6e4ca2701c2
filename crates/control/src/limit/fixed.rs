//! A limit that does not move: what an operator has found out already.

use super::{LimitPolicy, Sample};
use crate::time::Instant;

/// The same limit for ever.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub u32);

impl LimitPolicy for Fixed {
    fn on_sample(&mut self, _now: Instant, _sample: &Sample) {}

    fn limit(&self) -> u32 {
        self.0.max(1)
    }
}
