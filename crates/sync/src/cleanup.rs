//! What must be undone if a request is refused after it has started.

use std::fmt;

/// Undoes something when it is dropped, unless it was kept.
///
/// A request that is refused halfway leaves through `?`, and whatever it holds is dropped on the
/// way: guards and permits are given back by themselves. For effects that have no guard there is
/// this. It also runs when the handler panics or its future is dropped.
///
/// ```
/// use std::cell::Cell;
/// use seawall_control::request::{Context, Rejected};
/// use seawall_sync::{Cleanup, Mutex};
///
/// async fn order(
///     stock: &Cell<u32>,
///     ledger: &Mutex<Vec<u32>>,
///     ctx: &Context,
/// ) -> Result<(), Rejected> {
///     stock.set(stock.get() - 1);
///     let put_back = Cleanup::new(|| stock.set(stock.get() + 1));
///     ledger.lock(ctx).await?.push(1); // refused: the item is put back
///     put_back.keep();
///     Ok(())
/// }
/// ```
#[must_use = "what is dropped at once undoes at once"]
pub struct Cleanup<F: FnOnce()> {
    undo: Option<F>,
}

impl<F: FnOnce()> Cleanup<F> {
    /// Will call `undo`.
    pub fn new(undo: F) -> Self {
        Self { undo: Some(undo) }
    }

    /// Nothing is to be undone any more.
    pub fn keep(mut self) {
        self.undo = None;
    }
}

impl<F: FnOnce()> Drop for Cleanup<F> {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            undo();
        }
    }
}

impl<F: FnOnce()> fmt::Debug for Cleanup<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleanup").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn undoes_on_every_way_out_but_the_good_one() {
        let undone = Cell::new(0);
        let cleanup = || Cleanup::new(|| undone.set(undone.get() + 1));
        drop(cleanup());
        assert_eq!(undone.get(), 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _cleanup = cleanup();
            panic!("on purpose");
        }));
        assert_eq!((panicked.is_err(), undone.get()), (true, 2));
        cleanup().keep();
        assert_eq!(undone.get(), 2);
    }
}
