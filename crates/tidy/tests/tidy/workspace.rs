//! Reads the workspace's crates, as cargo sees them.

use std::env;
use std::process::Command;

use serde_json::Value;

use crate::tree;

/// A crate of the workspace.
pub(crate) struct Package {
    /// From the root of the repository.
    pub(crate) folder: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a crate asks for.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// From the root of the repository, for a crate that is in it.
    pub(crate) folder: Option<String>,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Package {
    /// A crate that exists only in a test.
    pub(crate) fn example(folder: &str) -> Self {
        let dependencies = Vec::new();
        Self { folder: folder.into(), description: None, license: None, dependencies }
    }

    /// The same, depending on the crate in `folder`.
    pub(crate) fn with_local(mut self, kind: Kind, folder: &str) -> Self {
        let name = format!("seawall-{}", folder.rsplit('/').next().unwrap_or(folder));
        self.dependencies.push(Dependency { name, kind, folder: Some(folder.into()) });
        self
    }

    /// The same, depending on a crate from elsewhere.
    pub(crate) fn with_external(mut self, kind: Kind, name: &str) -> Self {
        self.dependencies.push(Dependency { name: name.into(), kind, folder: None });
        self
    }
}

/// All crates of the workspace.
pub(crate) fn packages() -> Vec<Package> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    read(&metadata)
}

fn read(metadata: &Value) -> Vec<Package> {
    let root = text(&metadata["workspace_root"]).expect("cargo metadata names the root");
    array(&metadata["packages"]).iter().map(|package| read_package(package, &root)).collect()
}

fn read_package(package: &Value, root: &str) -> Package {
    let manifest = text(&package["manifest_path"]).expect("each package has a manifest");
    let folder = manifest.strip_suffix("/Cargo.toml").unwrap_or(&manifest);
    let dependencies = array(&package["dependencies"])
        .iter()
        .map(|dependency| Dependency {
            name: text(&dependency["name"]).expect("each dependency has a name"),
            kind: match dependency["kind"].as_str() {
                Some("dev") => Kind::Dev,
                Some("build") => Kind::Build,
                _ => Kind::Normal,
            },
            folder: text(&dependency["path"]).map(|path| below(root, &path)),
        })
        .collect();
    Package {
        folder: below(root, folder),
        description: text(&package["description"]),
        license: text(&package["license"]),
        dependencies,
    }
}

/// `path` from `root`, or all of it if it is elsewhere.
fn below(root: &str, path: &str) -> String {
    path.strip_prefix(root).map_or(path, |rest| rest.trim_start_matches('/')).into()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn reads_what_cargo_prints() {
    let metadata = serde_json::json!({
        "workspace_root": "/src",
        "packages": [{
            "manifest_path": "/src/crates/rpc/Cargo.toml",
            "description": "RPC",
            "license": null,
            "dependencies": [
                { "name": "seawall-control", "kind": null, "path": "/src/crates/control" },
                { "name": "cc", "kind": "build" },
                { "name": "stray", "kind": "dev", "path": "/elsewhere" },
            ],
        }],
    });
    let packages = read(&metadata);
    assert_eq!(packages.len(), 1);
    assert_eq!(packages[0].folder, "crates/rpc");
    assert_eq!(packages[0].description.as_deref(), Some("RPC"));
    assert_eq!(packages[0].license, None);
    let dependencies: Vec<_> = packages[0]
        .dependencies
        .iter()
        .map(|dependency| (dependency.name.as_str(), dependency.kind, dependency.folder.as_deref()))
        .collect();
    assert_eq!(
        dependencies,
        [
            ("seawall-control", Kind::Normal, Some("crates/control")),
            ("cc", Kind::Build, None),
            ("stray", Kind::Dev, Some("/elsewhere")),
        ]
    );
}

#[test]
fn the_workspace_is_there() {
    let packages = packages();
    for folder in ["crates/control", "crates/tidy"] {
        assert!(packages.iter().any(|package| package.folder == folder), "{folder} is no member");
    }
}
