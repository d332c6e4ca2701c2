//! How much a collection will find alive, before it looks.

use crate::estimate::Ewma;

use super::{Kind, Spaces};

/// Weight of the newest collection in the part that survives.
const WEIGHT: f64 = 0.25;

/// Estimates live bytes, from what was alive in earlier collections of the same kind.
///
/// Deviation: the paper's virtual machine traverses the object graph at the start of a collection
/// and counts (LIBROS §V-B). One that is not modified does not say. What it says is how full its
/// spaces are, and what was left after.
#[derive(Clone, Debug)]
pub(super) struct LiveBytes {
    /// The part of the examined bytes that survived, 0 to 1, by kind.
    survival: [Ewma; Kind::COUNT],
}

impl Default for LiveBytes {
    fn default() -> Self {
        Self { survival: core::array::from_fn(|_| Ewma::new(WEIGHT)) }
    }
}

impl LiveBytes {
    /// Bytes that a collection of `kind` will find alive, if `before` is what there is. `None`
    /// before the first.
    pub(super) fn estimate(&self, kind: Kind, before: &Spaces) -> Option<f64> {
        let part = self.survival[kind as usize].value()?;
        Some(examined(kind, before) * part)
    }

    /// A collection of `kind` made `after` of `before`.
    pub(super) fn observe(&mut self, kind: Kind, before: &Spaces, after: &Spaces) {
        let examined = examined(kind, before);
        let left = match kind {
            Kind::Young => {
                // What was old is not looked at, and what has become old was alive.
                let promoted = after.old.saturating_sub(before.old);
                after.eden as f64 + after.survivor as f64 + promoted as f64
            }
            Kind::Full | Kind::Mark => after.sum() as f64,
        };
        if examined > 0.0 {
            self.survival[kind as usize].observe((left / examined).min(1.0));
        }
    }
}

/// Bytes in the spaces that a collection of `kind` examines.
fn examined(kind: Kind, spaces: &Spaces) -> f64 {
    match kind {
        Kind::Young => spaces.eden as f64 + spaces.survivor as f64,
        Kind::Full | Kind::Mark => spaces.sum() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn spaces(eden: u64, survivor: u64, old: u64) -> Spaces {
        Spaces { eden: eden * MB, survivor: survivor * MB, old: old * MB }
    }

    #[test]
    fn what_survives_of_the_young_is_what_is_left_or_has_become_old() {
        let mut live = LiveBytes::default();
        let before = spaces(90, 10, 500);
        assert_eq!(live.estimate(Kind::Young, &before), None);
        live.observe(Kind::Young, &before, &spaces(0, 15, 505));
        let later = live.estimate(Kind::Young, &spaces(40, 10, 900));
        assert_eq!(later, Some((10 * MB) as f64));
        assert_eq!(live.estimate(Kind::Full, &before), None, "of another kind");
    }

    #[test]
    fn a_full_collection_examines_all() {
        let mut live = LiveBytes::default();
        live.observe(Kind::Full, &spaces(100, 0, 300), &spaces(0, 0, 100));
        assert_eq!(live.estimate(Kind::Full, &spaces(0, 0, 800)), Some((200 * MB) as f64));
    }

    #[test]
    fn numbers_that_cannot_be_do_no_harm() {
        let mut live = LiveBytes::default();
        live.observe(Kind::Young, &spaces(0, 0, 0), &spaces(5, 5, 5));
        live.observe(Kind::Young, &spaces(10, 0, 100), &spaces(50, 50, 50));
        assert_eq!(live.estimate(Kind::Young, &spaces(10, 0, 0)), Some((10 * MB) as f64));
    }
}
