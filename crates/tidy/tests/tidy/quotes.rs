//! What a document of an application quotes of its code stands there. The front page's Rust is
//! compiled instead, by the tests of `seawall-sync`.

use crate::tree::{File, expect_none, read, root, rust_files};

/// Lines of Rust in a document that no file beside it has.
fn check(document: &File, sources: &[File]) -> Vec<String> {
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = || sources.iter().filter(|file| file.path.starts_with(folder));
    let stands = |line: &str| beside().any(|file| file.text.lines().any(|own| own.trim() == line));
    let mut is_rust = false;
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(document.text.lines().map(str::trim)) {
        if line.starts_with("```") {
            is_rust = line == "```rust";
        } else if is_rust && !line.is_empty() && !stands(line) {
            complaints.push(format!("{}:{number}: no code has this line", document.path));
        }
    }
    complaints
}

#[test]
fn what_is_quoted_stands_in_the_code() {
    let sources = rust_files();
    let apps = std::fs::read_dir(root().join("apps")).expect("there are applications");
    let names = apps.map(|app| app.expect("it can be listed").file_name());
    let documents = names.map(|name| format!("apps/{}/README.md", name.to_string_lossy()));
    let documents: Vec<File> =
        documents.filter(|path| root().join(path).is_file()).map(|path| read(&path)).collect();
    let quoted = documents.iter().filter(|document| document.text.contains("```rust"));
    assert!(quoted.count() > 1, "nothing is quoted");
    let complaints: Vec<String> =
        documents.iter().flat_map(|document| check(document, &sources)).collect();
    expect_none("quoted code", &complaints);
}

#[test]
fn what_stands_nowhere_is_found() {
    let sources = [
        File::example("apps/one/src/a.rs", "fn f() {\n    let x = 1;\n}"),
        File::example("apps/two/src/b.rs", "    let y = 2;"),
    ];
    let document = |quote: &str| {
        let text = format!("As in\n\n```rust\n{quote}\n```\n\nand\n\n```text\nlet z = 3;\n```\n");
        File::example("apps/one/README.md", &text)
    };
    assert!(check(&document("let x = 1;"), &sources).is_empty());
    for quote in ["let x = 2;", "let y = 2;", "x"] {
        let complaints = check(&document(quote), &sources);
        assert_eq!(complaints, ["apps/one/README.md:4: no code has this line"]);
    }
}
