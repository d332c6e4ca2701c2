//! The graphs of SurgeGuard's evaluation.

use super::{Graph, GraphError};

/// Names of the graphs that come with Seawall, as SurgeGuard's Table III has them.
pub const NAMES: [&str; 5] =
    ["chain", "read-user-timeline", "compose-post", "search-hotel", "recommend-hotel"];

const TEXTS: [&str; 5] = [
    include_str!("chain.toml"),
    include_str!("read-user-timeline.toml"),
    include_str!("compose-post.toml"),
    include_str!("search-hotel.toml"),
    include_str!("recommend-hotel.toml"),
];

impl Graph {
    /// The graph of one of these [`NAMES`].
    ///
    /// # Errors
    ///
    /// Names those that there are.
    pub fn named(name: &str) -> Result<Self, GraphError> {
        let index = NAMES.iter().position(|known| *known == name);
        let index = index.ok_or_else(|| GraphError::Unknown { name: name.into() })?;
        Self::read(TEXTS[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Store;

    fn all() -> [Graph; 5] {
        NAMES.map(|name| Graph::named(name).unwrap())
    }

    #[test]
    fn graphs_are_known_by_their_names() {
        for (graph, name) in all().iter().zip(NAMES) {
            assert_eq!(graph.name, name);
            let again = Graph::read(&toml::to_string(graph).unwrap()).unwrap();
            assert_eq!(again, *graph, "what is written reads back");
        }
        let error = Graph::named("tree").unwrap_err().to_string();
        assert!(error.starts_with("there is no graph tree; allowed: chain, read-"), "{error}");
    }

    /// SurgeGuard §V: "to achieve the highest steady-state throughput using a total of 34 cores".
    #[test]
    fn units_are_shared_out_for_the_highest_throughput() {
        for graph in all() {
            let units: Vec<u32> = graph.services.iter().map(|service| service.units).collect();
            assert_eq!(units, graph.best_units(34), "{}", graph.name);
        }
    }

    /// Table III: social ones and CHAIN have pools of 512 everywhere, hotels have none.
    #[test]
    fn pools_are_those_of_the_paper() {
        for graph in all() {
            let size = if graph.name.ends_with("hotel") { None } else { Some(512) };
            for service in &graph.services {
                for callee in service.callees() {
                    let pool = service.pools.get(callee).copied();
                    assert_eq!(pool, size, "{}: {} to {callee}", graph.name, service.name);
                }
            }
        }
    }

    #[test]
    fn stores_are_where_the_applications_have_them() {
        for graph in all() {
            for service in &graph.services {
                let store = match service.name.rsplit_once('-') {
                    Some((_, "memcached")) => Some(Store::Memcached),
                    Some((_, "redis")) => Some(Store::Redis),
                    _ => None,
                };
                assert_eq!(service.store, store, "{}: {}", graph.name, service.name);
            }
        }
    }

    #[test]
    fn shapes_are_those_of_the_applications() {
        let [chain, read, compose, search, recommend] = all();
        assert_eq!((chain.services.len(), chain.depth("ping-4")), (5, 4));
        assert_eq!(read.services.len(), 6);
        assert_eq!((compose.services.len(), compose.depth("user-mention-mongodb")), (18, 3));
        assert_eq!(search.services.len(), 12);
        assert_eq!(recommend.services.len(), 5);
        // The hidden dependency of Fig. 14: whoever waits for post-storage does so in
        // user-timeline.
        let behind = ["post-storage", "post-storage-memcached", "post-storage-mongodb"];
        assert!(behind.iter().all(|name| read.downstream("user-timeline").contains(name)));
        for graph in [chain, read, compose, search, recommend] {
            let capacity = graph.capacity().jobs_per_second;
            assert!((10_000.0..35_000.0).contains(&capacity), "{}: {capacity}", graph.name);
        }
    }
}
