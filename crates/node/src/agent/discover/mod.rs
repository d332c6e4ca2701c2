//! Which containers there are: a walk through the groups of the `cpu` controller.

mod names;

use std::fs;
use std::io;
use std::path::Path;

use glob::{MatchOptions, Pattern};

pub use names::Kind;
pub(super) use names::kubernetes as pod_of;

use super::config::Config;
use super::hierarchy::Hierarchy;

/// Groups nested deeper than this are not looked at: a kubelet needs five levels.
const DEPTH_MAX: usize = 12;

/// Containers of one node. A kubelet allows 110 pods by default, and its limit is in the hundreds.
pub const CONTAINERS_MAX: usize = 10_000;

/// Groups looked at in one walk, containers or not.
const GROUPS_MAX: usize = 100_000;

/// A container that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is called in logs and metrics.
    pub name: String,
    /// Who keeps it.
    pub kind: Kind,
    /// Its group, as `/proc/PID/cgroup` tells it.
    pub group: String,
    /// Which entry of the configuration's `containers` it matches.
    pub rule: Option<usize>,
}

/// What a walk brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Containers in the order of their groups.
    pub found: Vec<Found>,
    /// Groups that could not be listed for another reason than that they had gone.
    pub unreadable: u64,
    /// There are more groups or containers than are looked at.
    pub is_cut: bool,
}

/// Walks through the groups.
#[derive(Debug)]
pub struct Finder {
    hierarchy: Hierarchy,
    is_kubernetes: bool,
    is_docker: bool,
    systemd: Vec<Pattern>,
    /// Patterns of the groups of `containers`, by their places there.
    rules: Vec<(usize, Pattern)>,
}

/// A star does not match a slash, as in a shell; two stars do.
pub(crate) const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Finder {
    /// Looks for what the configuration, which is valid, asks for.
    pub fn new(config: &Config, hierarchy: Hierarchy) -> Self {
        let pattern = |glob: &String| Pattern::new(glob).ok();
        let rules = config.containers.iter().enumerate();
        Self {
            hierarchy,
            is_kubernetes: config.discovery.kubernetes,
            is_docker: config.discovery.docker,
            systemd: config.discovery.systemd.iter().filter_map(pattern).collect(),
            rules: rules
                .filter_map(|(place, rule)| Some((place, pattern(rule.cgroup.as_ref()?)?)))
                .collect(),
        }
    }

    /// Lists the containers that there are now. One that goes meanwhile is left out, or is found to
    /// be gone when it is read.
    pub fn scan(&self) -> Scan {
        let mut scan = Scan::default();
        let mut left = GROUPS_MAX;
        let root = self.hierarchy.root.trim_end_matches('/').to_owned();
        self.walk(&self.hierarchy.mount, &root, DEPTH_MAX, &mut left, &mut scan);
        scan.found.sort_by(|a, b| a.group.cmp(&b.group));
        scan
    }

    fn walk(&self, folder: &Path, group: &str, depth: usize, left: &mut usize, scan: &mut Scan) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                scan.unreadable += u64::from(!is_gone(&error));
                return;
            }
        };
        for entry in entries.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            // A group whose name is not UTF-8 is nobody's container.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if *left == 0 || scan.found.len() == CONTAINERS_MAX {
                scan.is_cut = true;
                return;
            }
            *left -= 1;
            let group = format!("{group}/{name}");
            // What is in a container's group is the container's own business.
            match self.container(&group) {
                Some(found) => scan.found.push(found),
                None if depth > 0 => {
                    self.walk(&entry.path(), &group, depth - 1, left, scan);
                }
                None => scan.is_cut = true,
            }
        }
    }

    fn container(&self, group: &str) -> Option<Found> {
        let matching = |(_, pattern): &&(usize, Pattern)| pattern.matches_with(group, GLOB);
        let rule = self.rules.iter().find(matching).map(|(place, _)| *place);
        let kind = self.kind(group).or(rule.map(|_| Kind::Configured))?;
        Some(Found { name: name(&kind, group), kind, group: group.to_owned(), rule })
    }

    fn kind(&self, group: &str) -> Option<Kind> {
        if self.is_kubernetes
            && let Some(kind) = names::kubernetes(group)
        {
            return Some(kind);
        }
        if self.is_docker
            && let Some(kind) = names::docker(group)
        {
            return Some(kind);
        }
        names::systemd(group).filter(|kind| match kind {
            Kind::Systemd { unit } => {
                self.systemd.iter().any(|pattern| pattern.matches_with(unit, GLOB))
            }
            _ => false,
        })
    }
}

/// What it is called if the configuration does not say.
fn name(kind: &Kind, group: &str) -> String {
    let short = |id: &str| id.chars().take(12).collect::<String>();
    match kind {
        Kind::Kubernetes { pod, container } => format!("{pod}/{}", short(container)),
        Kind::Docker { container } => format!("docker/{}", short(container)),
        Kind::Systemd { unit } => unit.clone(),
        Kind::Configured => group.trim_start_matches('/').to_owned(),
    }
}

/// Whether the error says that a group has been removed.
pub(super) fn is_gone(error: &io::Error) -> bool {
    // A file that was opened before its group went says ENODEV.
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}
