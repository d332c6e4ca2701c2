//! Who sent a request, and how much it matters.

use serde::{Deserialize, Serialize};

/// A paying party or team whose sessions share a weighted part of the pool. Zero is "nobody named".
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tenant(pub u32);

/// Business importance: **lower is more important**, as in DAGOR (SoCC '18). Defaults to the
/// middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u8);

impl Priority {
    /// How many bands [`Priority::band`] tells apart.
    pub const BANDS: usize = 8;

    /// The band used for counting, `0..BANDS`: 32 neighbouring priorities share one.
    pub const fn band(self) -> usize {
        (self.0 >> 5) as usize
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(128)
    }
}

/// A kind of request that is measured apart, `0..Class::COUNT`; the server derives it from the
/// method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Class(pub u8);

impl Class {
    /// How many classes are told apart. Small, because every window keeps one row for each.
    pub const COUNT: usize = 8;

    /// The row of this class, `0..COUNT`; a class beyond the last shares the last row.
    pub const fn row(self) -> usize {
        let row = self.0 as usize;
        if row < Self::COUNT { row } else { Self::COUNT - 1 }
    }
}

/// What the listener believes about the peer of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whom the session's requests are charged to.
    pub tenant: Tenant,
    /// The tenant's share of the pool relative to other tenants; at least 1.
    pub weight: u32,
    /// False for clients of protocols that know no credits: they send without asking.
    pub speaks_credits: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Self { tenant: Tenant::default(), weight: 1, speaks_credits: true }
    }
}
