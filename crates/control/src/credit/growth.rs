//! Additive increase of a pool, and what is left of a credit.

/// How much larger a pool gets in one step: a part of the sessions, and at least one credit.
///
/// In proportion to the sessions, because each may hold a credit that it does not use (Breakwater's
/// equation 3; Protego §3.3). Parts of a credit are kept for the next step.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    part: f64,
    carry: f64,
}

impl Growth {
    /// Growth by `part` credits for each session.
    pub(crate) const fn new(part: f64) -> Self {
        Self { part, carry: 0.0 }
    }

    /// One step further than `pool`.
    pub(crate) fn grow(&mut self, pool: u32, sessions: u32) -> u32 {
        let growth = (self.part * f64::from(sessions)).max(1.0) + self.carry;
        let whole = libm::floor(growth);
        self.carry = growth - whole;
        pool.saturating_add(whole as u32)
    }

    /// `pool` times `factor`, of which parts of a credit are kept as well: two per cent of a small
    /// pool are less than one.
    pub(crate) fn scale(&mut self, pool: u32, factor: f64) -> u32 {
        let scaled = (f64::from(pool) + self.carry) * factor;
        let whole = libm::floor(scaled);
        self.carry = scaled - whole;
        whole as u32
    }

    /// Forgets what is kept: the pool shrinks.
    pub(crate) fn reset(&mut self) {
        self.carry = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_a_part_of_the_sessions_and_at_least_by_one() {
        assert_eq!(Growth::new(0.001).grow(40, 100), 41);
        assert_eq!(Growth::new(0.001).grow(40, 10_000), 50);
        assert_eq!(Growth::new(1.0).grow(u32::MAX, u32::MAX), u32::MAX);
    }

    #[test]
    fn shrinks_by_parts_of_a_credit_too() {
        let growth = &mut Growth::new(0.001);
        assert_eq!((0..50).fold(40, |pool, _| growth.scale(pool, 0.98)), 14); // 40 * 0.98^50
        assert_eq!(growth.grow(14, 100), 15, "of 15.57");
    }

    #[test]
    fn parts_of_a_credit_add_up_until_the_pool_shrinks() {
        let growth = &mut Growth::new(0.0015);
        let steps = |growth: &mut Growth, steps| (0..steps).fold(40, |p, _| growth.grow(p, 1_000));
        assert_eq!(steps(growth, 4), 46);
        assert_eq!(steps(growth, 1), 41);
        growth.reset();
        assert_eq!(steps(growth, 1), 41);
    }
}
