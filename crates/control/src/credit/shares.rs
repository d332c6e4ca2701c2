//! How the pool is shared between tenants.

use alloc::vec::Vec;

use crate::request::{Identity, Tenant};

/// One tenant with open sessions.
#[derive(Debug)]
struct Share {
    tenant: Tenant,
    weight: u32,
    sessions: u32,
    issued: u32,
}

/// What each tenant holds, against what its weight entitles it to.
///
/// While the pool has free credits any tenant may take them. Once it has none, those above their
/// share shrink and those below it grow, so that holdings converge to the weights. With one tenant
/// the share is the pool, and the rules are exactly Breakwater's equations 5 and 6.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// At most one row for each open session; rows without sessions are reused.
    rows: Vec<Share>,
    weight_total: u32,
}

impl Shares {
    /// A session of this identity opened; gives the row that it is charged to. The weight of a
    /// tenant is what its newest session brought.
    pub(super) fn open(&mut self, identity: Identity) -> u32 {
        let known =
            self.rows.iter().position(|row| row.tenant == identity.tenant && row.sessions > 0);
        let index = known.or_else(|| self.rows.iter().position(|row| row.sessions == 0));
        let index = index.unwrap_or_else(|| {
            self.rows.push(Share { tenant: identity.tenant, weight: 0, sessions: 0, issued: 0 });
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        let before = if row.sessions > 0 { row.weight } else { 0 };
        row.tenant = identity.tenant;
        row.weight = identity.weight.clamp(1, 1 << 16);
        row.sessions += 1;
        self.weight_total = self.weight_total - before + row.weight;
        index as u32
    }

    /// A session of `row` closed; its credits must have been returned before.
    pub(super) fn close(&mut self, row: u32) {
        let row = &mut self.rows[row as usize];
        row.sessions -= 1;
        if row.sessions == 0 {
            assert_eq!(row.issued, 0, "a tenant without sessions holds no credits");
            self.weight_total -= row.weight;
        }
    }

    /// A session of `row` now holds `after` instead of `before` credits.
    pub(super) fn exchange(&mut self, row: u32, before: u32, after: u32) {
        let row = &mut self.rows[row as usize];
        row.issued = row.issued - before + after;
    }

    /// How the holdings of `row` compare with its share of `pool`.
    pub(super) fn compare(&self, row: u32, pool: u32) -> core::cmp::Ordering {
        let row = &self.rows[row as usize];
        let entitled = u64::from(pool) * u64::from(row.weight);
        (u64::from(row.issued) * u64::from(self.weight_total)).cmp(&entitled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering::{Equal, Greater, Less};

    fn identity(tenant: u32, weight: u32) -> Identity {
        Identity { tenant: Tenant(tenant), weight, ..Identity::default() }
    }

    #[test]
    fn one_tenant_is_entitled_to_the_whole_pool() {
        let mut shares = Shares::default();
        let row = shares.open(identity(0, 1));
        shares.exchange(row, 0, 40);
        assert_eq!([39, 40, 41].map(|pool| shares.compare(row, pool)), [Greater, Equal, Less]);
    }

    #[test]
    fn weights_split_the_pool_and_rows_are_reused() {
        let mut shares = Shares::default();
        let (a, b) = (shares.open(identity(1, 3)), shares.open(identity(2, 1)));
        shares.exchange(a, 0, 60);
        shares.exchange(b, 0, 40);
        assert_eq!((shares.compare(a, 100), shares.compare(b, 100)), (Less, Greater));
        shares.exchange(b, 40, 0);
        shares.close(b);
        assert_eq!(shares.compare(a, 60), Equal);
        assert_eq!(shares.open(identity(9, 1)), b);
    }
}
