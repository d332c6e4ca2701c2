//! A table in memory, and what can be computed with it.

use std::sync::Arc;

use arrow_array::{Array as _, Float64Array};
use parking_lot::Mutex;
use seawall_control::config::ConfigError;
use seawall_control::request::{Context, Rejected};
use seawall_measure::memory::Declared;
use seawall_sync::{MemoryPolicy, MemorySemaphore};
use serde::{Deserialize, Serialize};

use crate::maximum::max;
use crate::native::{Computed, Request};
use crate::smoothing::smooth;

/// Most columns' worth of memory that is kept while nobody uses it: more than requests that smooth
/// at the same time.
const IDLE_MAX: usize = 64;

/// How the store computes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// What a request does that is about to write a column. Default: `none`; any of
    /// [`MemoryPolicy`].
    pub semaphore: MemoryPolicy,
}

/// A table of two columns: the closing prices, and what they were last smoothed to.
#[derive(Debug)]
pub struct Store {
    close: Float64Array,
    smoothed: Mutex<Arc<Float64Array>>,
    /// Memory of columns that were replaced. What is freshly allocated would be mapped and cleared
    /// by the system first, which costs as much as to write it.
    idle: Mutex<Vec<Vec<f64>>>,
    config: StoreConfig,
}

impl StoreConfig {
    /// Checks every field against its range: each of them has only choices that make sense.
    ///
    /// # Errors
    ///
    /// None so far.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { semaphore: _ } = self;
        Ok(())
    }
}

impl Store {
    /// A table with these closing prices, smoothed to themselves.
    ///
    /// # Panics
    ///
    /// If there are none, or rows without a value: [`read_close`](crate::file::read_close) refuses
    /// both.
    pub fn new(close: Float64Array, config: &StoreConfig) -> Self {
        assert!(!close.is_empty() && close.null_count() == 0, "a price in each row");
        let smoothed = Mutex::new(Arc::new(close.clone()));
        Self { close, smoothed, idle: Mutex::default(), config: config.clone() }
    }

    /// Carries out `request`.
    ///
    /// # Errors
    ///
    /// It would write a column, and there is no room for that. Nothing has changed then.
    pub async fn compute(&self, ctx: &Context, request: Request) -> Result<Computed, Rejected> {
        match request {
            Request::Max { first, rows } => {
                let (all, first) = (self.close.values(), first as usize);
                let end = first.saturating_add(rows as usize).min(all.len());
                let part = &all[first.min(end)..end];
                Ok(Computed { rows: part.len() as u32, value: max(part) })
            }
            Request::Smooth { span } => {
                let _permit = MemorySemaphore::shared().enter(self.config.semaphore, ctx).await?;
                let column = size_of_val(&self.close.values()[..]) as u64;
                Declared::shared().add(2 * column); // read, and written
                Ok(Computed { rows: self.close.len() as u32, value: self.smooth(span) })
            }
        }
    }

    /// The closing prices.
    pub fn close(&self) -> &Float64Array {
        &self.close
    }

    /// What they were last smoothed to.
    pub fn smoothed(&self) -> Arc<Float64Array> {
        self.smoothed.lock().clone()
    }

    /// Replaces the column, and gives its last value. Readers see one column or another, never
    /// parts of two.
    fn smooth(&self, span: u32) -> f64 {
        let idle = self.idle.lock().pop(); // and unlocked before it is written
        let mut values = idle.unwrap_or_default();
        smooth(self.close.values(), span, &mut values);
        let last = values[values.len() - 1];
        let column = Arc::new(Float64Array::from(values));
        let replaced = std::mem::replace(&mut *self.smoothed.lock(), column);
        self.reuse(replaced);
        last
    }

    /// Keeps the memory of a column that nobody reads any more.
    fn reuse(&self, column: Arc<Float64Array>) {
        let Ok(column) = Arc::try_unwrap(column) else { return };
        let (_, values, _) = column.into_parts();
        let Ok(values) = values.into_inner().into_vec::<f64>() else { return };
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use seawall_control::Instant;
    use seawall_control::request::Claims;

    use super::*;

    fn compute(store: &Store, request: Request) -> Computed {
        let ctx = Context::new(Claims::default(), Instant::ORIGIN);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.compute(&ctx, request)).unwrap()
    }

    fn smoothed(store: &Store) -> Vec<f64> {
        store.smoothed().values().to_vec()
    }

    proptest! {
        #[test]
        fn the_maximum_is_that_of_a_loop(
            prices in vec(-1e9..1e9_f64, 1..300),
            first in 0..310_u32,
            rows in prop_oneof![0..310_u32, Just(u32::MAX)],
        ) {
            let store = Store::new(prices.clone().into(), &StoreConfig::default());
            let expected = |part: &[f64]| {
                let value = part.iter().copied().fold(f64::MIN, f64::max);
                Computed { rows: part.len() as u32, value }
            };
            prop_assert_eq!(compute(&store, Request::max()), expected(&prices));
            let part: Vec<f64> =
                prices.iter().copied().skip(first as usize).take(rows as usize).collect();
            prop_assert_eq!(compute(&store, Request::Max { first, rows }), expected(&part));
        }

        #[test]
        fn what_is_smoothed_is_written_back(
            prices in vec(0.5..2.0_f64, 1..300),
            span in 1..99_u32,
        ) {
            let store = Store::new(prices.clone().into(), &StoreConfig::default());
            prop_assert_eq!(smoothed(&store), prices.clone());
            let mut expected = Vec::new();
            smooth(&prices, span, &mut expected);
            for _ in 0..3 {
                let last = compute(&store, Request::Smooth { span }).value;
                prop_assert_eq!(last, expected[prices.len() - 1]);
                prop_assert_eq!(smoothed(&store), expected.clone());
            }
            prop_assert_eq!(&store.close().values()[..], &prices[..]);
        }
    }

    #[test]
    fn memory_is_used_again_unless_somebody_reads_it() {
        let store = Store::new(vec![1.0; 100].into(), &StoreConfig::default());
        let smooth = || {
            compute(&store, Request::Smooth { span: 3 });
            store.smoothed().values().as_ptr()
        };
        let (first, second) = (smooth(), smooth());
        assert_ne!(first, second);
        assert_eq!([smooth(), smooth()], [first, second]);
        let read = store.smoothed();
        assert_eq!(smooth(), first);
        assert_ne!(smooth(), second, "somebody still reads that");
        assert_eq!(read.values()[..], [1.0; 100]);
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(toml::from_str::<StoreConfig>("semaphores = 'try'").is_err());
        let bounded: StoreConfig = toml::from_str("semaphore = 'wait'").unwrap();
        assert_eq!(bounded.semaphore, MemoryPolicy::Wait);
        bounded.validate().unwrap();
    }
}
