//! What is shown to users can be used: configurations in documents and manifests.

use std::fs;
use std::path::Path;

use seawall_proxy::config::from_layers;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_documents_configurations_can_be_used() {
    for name in ["docs/proxy.md", "docs/java.md"] {
        let document = text(name);
        let blocks = document.split("```toml\n").skip(1);
        let blocks: Vec<_> = blocks.filter_map(|block| block.split("```").next()).collect();
        let whole = blocks.iter().filter(|block| block.starts_with("# proxy.toml"));
        assert!(whole.clone().count() > 0);
        for block in whole {
            from_layers(Some((name, block)), &[]).unwrap();
        }
    }
}

#[test]
fn the_document_names_all_there_is_to_choose_from() {
    let document = text("docs/proxy.md");
    let row = |key: &str| {
        let begin = format!("| `{key}` |");
        document.lines().find(|line| line.starts_with(&begin)).unwrap().to_owned()
    };
    for name in seawall_control::limit::NAMES {
        assert!(row("gate.limit.policy").contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_sidecar_has_a_configuration_that_can_be_used() {
    let manifest = text("deploy/kubernetes/sidecar.yaml");
    let (_, rest) = manifest.split_once("proxy.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let file = lines.map(|line| format!("{}\n", line.trim_start())).collect::<String>();
    let config = from_layers(Some(("proxy.toml", &file)), &[]).unwrap();
    assert!(config.upstreams.contains_key("shop"), "{file}");
    assert!(manifest.contains(&format!("containerPort: {}", config.listen.port())));
    let metrics = config.metrics.listen.unwrap();
    assert!(manifest.contains(&format!("containerPort: {}", metrics.port())));
}
