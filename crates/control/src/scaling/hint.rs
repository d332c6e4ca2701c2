//! The upscale hint that requests carry (SurgeGuard §IV, `pkt.upscale`).
//!
//! A container whose requests wait for connections puts a number of hops on the requests that it
//! sends. Each service that receives one takes one hop off and passes the rest on, so that a
//! limited number of services behind the one that waits are scaled up, wherever they run.

/// No hint goes further: what a sender claims beyond that is cut. Longer than the deepest call path
/// of the paper's workloads (11, table III).
pub const HOPS_MAX: u16 = 16;

/// The hops to put on a request that is sent while a request with `incoming` hops is served, when
/// this container's own hint is `own`.
pub const fn forwarded(incoming: u16, own: u16) -> u16 {
    let incoming = if incoming > HOPS_MAX { HOPS_MAX } else { incoming };
    let own = if own > HOPS_MAX { HOPS_MAX } else { own };
    let rest = incoming.saturating_sub(1);
    if rest > own { rest } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_reaches_as_many_services_as_it_has_hops() {
        let mut hops = forwarded(0, 3);
        let mut reached = 0;
        while hops > 0 {
            reached += 1;
            hops = forwarded(hops, 0);
        }
        assert_eq!(reached, 3);
    }

    #[test]
    fn the_larger_of_two_hints_goes_on_and_none_is_endless() {
        assert_eq!(forwarded(3, 3), 3);
        assert_eq!(forwarded(5, 3), 4);
        assert_eq!((forwarded(u16::MAX, 0), forwarded(0, u16::MAX)), (HOPS_MAX - 1, HOPS_MAX));
    }
}
