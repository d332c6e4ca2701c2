//! Microservice graphs as tables: who does how much work, and whom it asks.
//!
//! A live run starts a process for each service, a simulated one a model of it, from the same
//! table.
//!
//! ```
//! use seawall_measure::Graph;
//!
//! let graph = Graph::read("
//!     name = 'two'
//!     [[service]]
//!     name = 'front'
//!     units = 3
//!     steps = [{ work = 'const:5ms' }, { call = 'back' }]
//!     pools = { back = 12 }
//!     [[service]]
//!     name = 'back'
//!     units = 3
//!     steps = [{ work = 'const:5ms' }]
//! ")?;
//! assert_eq!(graph.entry().name, "front");
//! assert_eq!(graph.downstream("front"), ["back"]);
//! // Three units do three times 5 ms of work in 5 ms.
//! assert_eq!(graph.capacity().jobs_per_second, 600.0);
//! # Ok::<(), seawall_measure::graph::GraphError>(())
//! ```
//!
//! [`Graph::named`] has the five graphs of SurgeGuard's evaluation (Table III).

mod capacity;
mod check;
mod shipped;
mod walk;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::service::ServiceTime;

pub use capacity::Capacity;
pub use check::{
    BRANCH_DEPTH_MAX, CALL_DEPTH_MAX, POOL_MAX, SERVICES_MAX, STEPS_MAX, UNITS_MAX, VISITS_MAX,
    WORK_MAX,
};
pub use shipped::NAMES;

/// A graph of services that serves one kind of job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// What it is called: `chain`, `read-user-timeline`.
    pub name: String,
    /// The services. The first is where jobs begin.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
}

/// One service: a container of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name, unique in the graph: lower case, digits and dashes.
    pub name: String,
    /// Units of CPU that it has at first, at least 1. What a unit is, the run says.
    pub units: u32,
    /// What it does for each request, in this order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Most connections to a service that it calls, one request on each at a time. Those that are
    /// absent are called over a new connection, or stream, for each request.
    #[serde(default)]
    pub pools: BTreeMap<String, u32>,
    /// The real store that a live run puts behind this service's name; the simulator, and a live
    /// run without that store, use its steps.
    #[serde(default)]
    pub store: Option<Store>,
}

/// One thing that a service does for a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct Step {
    /// CPU time at the base frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<ServiceTime>,
    /// A service that is asked, and waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Branches that go on side by side; the step ends with the last of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parallel: Vec<Vec<Step>>,
    /// Probability of the step, 0 to 1; absent means always. A cache that misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// Stores that Debian carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Store {
    /// memcached: a get of one key.
    Memcached,
    /// redis: a range of a sorted set.
    Redis,
}

/// Why a text is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// It is not the TOML of a graph.
    #[error("{0}")]
    Syntax(String),
    /// There is no graph of that name among ours.
    #[error("there is no graph {name}; allowed: {}", NAMES.join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// It describes what cannot be.
    #[error("{at}: {problem}")]
    Nonsense {
        /// The service, and the step.
        at: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
}

impl Graph {
    /// Reads the table of a graph.
    ///
    /// # Errors
    ///
    /// Names the service and the step, what is wrong with it and what is allowed.
    pub fn read(text: &str) -> Result<Self, GraphError> {
        let graph: Self =
            toml::from_str(text).map_err(|error| GraphError::Syntax(error.to_string()))?;
        graph.check()?;
        Ok(graph)
    }

    /// The service where jobs begin.
    pub fn entry(&self) -> &Service {
        &self.services[0]
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Units of all services at first.
    pub fn units(&self) -> u32 {
        self.services.iter().map(|service| service.units).sum()
    }
}
