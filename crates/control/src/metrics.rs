//! What a controller lets others see, in one vocabulary for every screen.

/// A name and its value. Names are shared with `seawall-measure`'s table of metric names.
pub type Gauge = (&'static str, f64);

/// A snapshot of a controller's state: a handful of named numbers.
///
/// A fixed array, so that taking one allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    gauges: [Option<Gauge>; Self::MOST],
    len: usize,
}

impl Metrics {
    /// How many values a snapshot holds at most.
    pub const MOST: usize = 16;

    /// An empty snapshot.
    pub const fn new() -> Self {
        Self { gauges: [None; Self::MOST], len: 0 }
    }

    /// The snapshot with one more value.
    ///
    /// # Panics
    ///
    /// If there are more than [`MOST`](Self::MOST): the controller shows too much.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        self.gauges[self.len] = Some((name, value));
        self.len += 1;
        self
    }

    /// All values, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Gauge> + '_ {
        self.gauges.iter().flatten().copied()
    }

    /// One value by its name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
