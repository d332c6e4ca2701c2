//! Which nodes of a cluster have which keys: a ring of tokens.
//!
//! ```text
//!        ─── A ──── B ── A ───── C ── B ───►  tokens, in the order of their places
//!      key ▲
//!          └ the first token behind its hash, and then the next of other nodes: A, B
//! ```
//!
//! Tokens are placed at random, and then moved until nodes have about equal parts. All of it
//! follows from three numbers, so nodes that were told the same numbers agree.

use seawall_control::Rng;

/// Where the tokens of each node are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// In the order of their places.
    tokens: Vec<Token>,
    nodes: u16,
    replicas: u16,
}

/// The end of a range of hashes that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    at: u64,
    node: u16,
}

impl Ring {
    /// A ring of `nodes` nodes with so many tokens each, where each key is at `replicas` nodes, or
    /// at all if there are fewer. It takes [`work`](Self::work) steps to balance it.
    ///
    /// # Panics
    ///
    /// If one of the numbers is 0.
    pub fn new(nodes: u16, tokens: u32, replicas: u16) -> Self {
        assert!(nodes > 0 && tokens > 0 && replicas > 0, "a ring needs all three");
        let mut ring = Self::scattered(nodes, tokens, replicas);
        for _ in 0..tokens {
            ring.balance();
        }
        ring
    }

    /// Steps that balancing such a ring takes.
    pub fn work(nodes: u16, tokens: u32) -> u64 {
        u64::from(nodes) * u64::from(tokens) * u64::from(tokens)
    }

    fn scattered(nodes: u16, tokens: u32, replicas: u16) -> Self {
        let mut rng = Rng::new(0x5ea_3a11);
        let all = (0..nodes).flat_map(|node| (0..tokens).map(move |_| node));
        let mut tokens: Vec<Token> = all.map(|node| Token { at: rng.next_u64(), node }).collect();
        tokens.sort_unstable();
        Self { tokens, nodes, replicas: replicas.min(nodes) }
    }

    /// Moves a token of the node that has least into the middle of the longest range of the one
    /// that has most.
    fn balance(&mut self) {
        let shares = self.shares();
        let by_share = |node: &u16| shares[usize::from(*node)];
        let most = (0..self.nodes).max_by_key(by_share).expect("there are nodes");
        let least = (0..self.nodes).min_by_key(by_share).expect("there are nodes");
        if most == least {
            return;
        }
        let (length, longest) = self.ranges(most).max().expect("each node has tokens");
        let (_, shortest) = self.ranges(least).min().expect("each node has tokens");
        let at = self.tokens[longest].at.wrapping_sub(length / 2);
        self.tokens.remove(shortest);
        let place = self.tokens.partition_point(|token| token.at < at);
        self.tokens.insert(place, Token { at, node: least });
    }

    /// The ranges of a node, each as its length and the number of its token.
    fn ranges(&self, node: u16) -> impl Iterator<Item = (u64, usize)> {
        let of_node = self.tokens.iter().enumerate().filter(move |(_, token)| token.node == node);
        of_node.map(|(index, _)| (self.length(index), index))
    }

    /// Hashes between a token and the one before it; 0 stands for all.
    fn length(&self, index: usize) -> u64 {
        let before = index.checked_sub(1).unwrap_or(self.tokens.len() - 1);
        self.tokens[index].at.wrapping_sub(self.tokens[before].at)
    }

    /// Hashes for which each node comes first.
    fn shares(&self) -> Vec<u128> {
        let mut shares = vec![0; usize::from(self.nodes)];
        for (index, token) in self.tokens.iter().enumerate() {
            shares[usize::from(token.node)] += u128::from(self.length(index));
        }
        shares
    }

    /// Whether `node` has the key.
    pub fn has(&self, node: u16, key: &[u8]) -> bool {
        self.replicas == self.nodes && node < self.nodes
            || self.nodes_of(key).any(|owner| owner == node)
    }

    /// The nodes that have the key, the first of them first.
    pub fn nodes_of(&self, key: &[u8]) -> impl Iterator<Item = u16> {
        let hash = hash(key);
        let first = self.tokens.partition_point(|token| token.at < hash);
        let (before, behind) = self.tokens.split_at(first);
        let mut seen = Vec::with_capacity(usize::from(self.replicas));
        let around = behind.iter().chain(before);
        around
            .filter_map(move |token| {
                let is_new = !seen.contains(&token.node);
                is_new.then(|| {
                    seen.push(token.node);
                    token.node
                })
            })
            .take(usize::from(self.replicas))
    }
}

/// FNV-1a with a finish that spreads short keys: the same on all machines, for ever.
fn hash(key: &[u8]) -> u64 {
    let fnv = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    Rng::new(fnv).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(ring: &Ring) -> f64 {
        let shares = ring.shares();
        let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
        *most as f64 / *least as f64
    }

    #[test]
    fn balancing_evens_parts_out() {
        let scattered = spread(&Ring::scattered(10, 32, 3));
        let balanced = spread(&Ring::new(10, 32, 3));
        assert!(scattered > 1.2, "{scattered}");
        assert!(balanced < 1.0 + (scattered - 1.0) / 2.0, "{balanced} instead of {scattered}");
    }

    #[test]
    fn each_key_has_its_replicas() {
        let ring = Ring::new(5, 16, 3);
        assert_eq!(ring, Ring::new(5, 16, 3), "nodes agree");
        let mut firsts = [0; 5];
        for key in 0..1_000_u32 {
            let key = key.to_le_bytes();
            let nodes: Vec<u16> = ring.nodes_of(&key).collect();
            assert_eq!(nodes.len(), 3);
            assert!(nodes[0] != nodes[1] && nodes[1] != nodes[2] && nodes[0] != nodes[2]);
            (0..5).for_each(|node| assert_eq!(ring.has(node, &key), nodes.contains(&node)));
            firsts[usize::from(nodes[0])] += 1;
        }
        assert!(firsts.iter().all(|count| (100..320).contains(count)), "{firsts:?}");
        assert!(!ring.has(5, b"key"), "there is no such node");
    }

    #[test]
    fn tokens_stay_in_order_and_are_as_many() {
        let mut ring = Ring::scattered(4, 8, 2);
        for _ in 0..100 {
            ring.balance();
            assert!(ring.tokens.is_sorted());
            assert_eq!(ring.tokens.len(), 32);
        }
    }

    #[test]
    fn few_nodes_have_everything() {
        let ring = Ring::new(2, 4, 3);
        assert!(ring.has(0, b"a") && ring.has(1, b"a") && !ring.has(2, b"a"));
        assert_eq!(Ring::new(1, 1, 1).nodes_of(b"a").collect::<Vec<_>>(), [0]);
        assert_eq!(Ring::work(3, 100), 30_000);
    }
}
