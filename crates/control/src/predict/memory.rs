//! What a request does that comes to draw on memory bandwidth.

use serde::{Deserialize, Serialize};

/// How the [memory semaphore](crate::request::Stage::MEMORY) is used (Svalinn §4), for services and
/// the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPolicy {
    /// There is none: whoever comes draws. The default.
    #[default]
    None,
    /// It is refused while as many draw as may (`try_wait`, the published evaluation's).
    Try,
    /// It waits for its turn, if the predicted wait is within what it has left of budget and
    /// deadline, and is refused if not (`wait_if_uncongested`).
    Wait,
}

impl MemoryPolicy {
    /// The names in configurations.
    pub const NAMES: [&str; 3] = ["none", "try", "wait"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn names_are_those_of_configurations() {
        #[derive(Deserialize)]
        struct Wrap {
            policy: MemoryPolicy,
        }
        let read = |name| toml::from_str::<Wrap>(&format!("policy = '{name}'")).unwrap().policy;
        let all = [MemoryPolicy::None, MemoryPolicy::Try, MemoryPolicy::Wait];
        assert_eq!(MemoryPolicy::NAMES.map(read), all);
    }
}
