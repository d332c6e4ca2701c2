//! Where a server publishes what it counts.

use std::path::PathBuf;
use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use serde::{Deserialize, Serialize};

/// Names the folder of pages where the configuration does not.
const FOLDER: &str = "SEAWALL_PAGES";

/// Longest grace that may be set: nobody waits longer for a core.
const GRACE_MAX: Duration = Duration::from_secs(60);

/// The page of metrics that a server shares with the node agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageConfig {
    /// Folder in which the agent looks for pages. Default: what the environment variable
    /// `SEAWALL_PAGES` says; where that is not set either, there is no page.
    pub folder: Option<PathBuf>,
    /// Name of the service, the same for all replicas: 1 to 63 of `A-Z a-z 0-9 . _ -`. Default:
    /// the program's name.
    pub service: Option<String>,
    /// How much longer than its delay budget a request may wait while the agent says that more CPU
    /// is to come; never beyond its deadline. Default: the target delay; at most 60s. 0s refuses as
    /// if nothing could grow.
    #[serde(with = "duration::option")]
    pub grace: Option<Duration>,
}

impl PageConfig {
    /// Checks all ranges.
    pub(in crate::server) fn validate(&self) -> Result<(), ConfigError> {
        match self.grace {
            Some(grace) if grace > GRACE_MAX => {
                let (grace, most) = (duration::format(grace), duration::format(GRACE_MAX));
                let problem = format!("{grace} is out of range; allowed is 0s to {most}");
                Err(ConfigError::new("page.grace", problem))
            }
            _ => Ok(()),
        }
    }

    /// The folder, from here or from the environment.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os(FOLDER).map(PathBuf::from);
        let folder = self.folder.clone().or_else(from_environment);
        folder.filter(|folder| !folder.as_os_str().is_empty())
    }

    /// The service's name.
    pub(super) fn service(&self) -> String {
        let program = || {
            let path = std::env::current_exe().ok()?;
            Some(path.file_stem()?.to_string_lossy().into_owned())
        };
        self.service.clone().or_else(program).unwrap_or_else(|| "seawall".into())
    }
}
