//! Where keys are.

use seawall_control::Rng;
use seawall_measure::Keys;

use crate::scenario::Scenario;

/// Multiplier of a permutation of 64-bit numbers that looks like chance (Fibonacci hashing).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Says which replicas have what a request asks for.
#[derive(Debug)]
pub(super) struct Placement {
    keys: Option<Keys>,
    replicas: u32,
    /// How many have each key; `None` for all.
    copies: Option<u32>,
}

impl Placement {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let replicas = scenario.server.speeds.len() as u32;
        let copies = scenario.workload.replication.filter(|copies| *copies < replicas);
        Self { keys: scenario.workload.keys, replicas, copies }
    }

    /// The replicas of the next request's key, as the bits of their numbers.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let all = u64::MAX >> (u64::BITS - self.replicas);
        let Some(copies) = self.copies else { return all };
        // Popular keys are neighbours by rank, and not in the ring.
        let replicas = u64::from(self.replicas);
        let scattered = |key: u64| (key.wrapping_mul(SCATTER) >> 32) % replicas;
        let first = match self.keys {
            Some(keys) => scattered(keys.sample(rng)) as u32,
            None => rng.below(replicas) as u32,
        };
        (0..copies).fold(0, |bits, next| bits | 1 << ((first + next) % self.replicas))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(workload: &str) -> Placement {
        let text = format!("server.speeds = [1.0, 1.0, 1.0, 1.0, 1.0]\nworkload = {workload}");
        Placement::new(&toml::from_str(&text).unwrap())
    }

    /// How many of 10,000 requests each replica has the key of.
    fn shares(placement: &Placement) -> Vec<u32> {
        let rng = &mut Rng::new(1);
        let mut shares = vec![0; 5];
        for _ in 0..10_000 {
            let bits = placement.draw(rng);
            (0..5).for_each(|server| shares[server] += u32::from(bits & 1 << server != 0));
        }
        shares
    }

    #[test]
    fn each_key_has_its_replicas_in_a_row() {
        let uniform = placement("{ replication = 3 }");
        let rng = &mut Rng::new(2);
        let rows = [0b00111, 0b01110, 0b11100, 0b11001, 0b10011];
        assert!((0..100).all(|_| rows.contains(&uniform.draw(rng))));
        assert!(shares(&uniform).iter().all(|share| (5_700..6_300).contains(share)));
    }

    #[test]
    fn popular_keys_make_popular_replicas() {
        let skewed = shares(&placement("{ replication = 3, keys = 'zipf:1000:1.2' }"));
        assert!(skewed.iter().max() > skewed.iter().min().map(|least| least * 5 / 4).as_ref());
        assert_eq!(shares(&placement("{ keys = 'zipf:1000:1.2' }")), [10_000; 5], "all have all");
    }
}
