//! Who is boosted with a late container.

use std::collections::BTreeSet;

use seawall_control::scaling::ContainerId;

use crate::responder::RAISED_MAX;

/// All containers that `container` calls, directly or not, by who calls whom. The nearest are
/// first; itself is left out; and there are no more than fit into one decision with it.
pub(super) fn downstream(
    calls: &[(ContainerId, ContainerId)],
    container: ContainerId,
) -> Vec<ContainerId> {
    let mut seen = BTreeSet::from([container]);
    let mut found = Vec::new();
    let mut layer = vec![container];
    while !layer.is_empty() && found.len() < RAISED_MAX - 1 {
        let called = calls.iter().filter(|(from, _)| layer.contains(from)).map(|(_, to)| *to);
        layer = called.filter(|to| seen.insert(*to)).collect();
        found.extend(&layer);
    }
    found.truncate(RAISED_MAX - 1);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_downstream_is_found_once_and_not_too_much() {
        let id = ContainerId;
        let calls = [(1, 2), (2, 3), (1, 4), (4, 3), (3, 1), (5, 6)];
        let calls = calls.map(|(from, to)| (id(from), id(to)));
        assert_eq!(downstream(&calls, id(1)), [id(2), id(4), id(3)]);
        assert_eq!(downstream(&calls, id(6)), []);
        let chain: Vec<_> = (0..100).map(|n| (id(n), id(n + 1))).collect();
        assert_eq!(downstream(&chain, id(0)).len(), RAISED_MAX - 1);
    }
}
