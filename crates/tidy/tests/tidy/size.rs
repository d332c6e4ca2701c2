//! Small rooms: files and lines stay short.

use crate::tree::{self, File};

/// A longer file holds more than one thing.
const LINES_MAX: usize = 600;

/// Two files fit side by side. rustfmt keeps to it except in comments, strings and macros.
const COLUMNS_MAX: usize = 100;

fn check(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!(
            "{}: {lines} lines, at most {LINES_MAX}; split it by what it holds",
            file.path
        ));
    }
    for (index, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        // An address cannot be broken.
        if columns > COLUMNS_MAX && !line.contains("://") {
            complaints.push(format!(
                "{}:{}: {columns} columns, at most {COLUMNS_MAX}",
                file.path,
                index + 1
            ));
        }
    }
    complaints
}

#[test]
fn files_and_lines_are_short() {
    let complaints: Vec<_> = tree::rust_files().iter().flat_map(check).collect();
    tree::expect_none("long files and lines", &complaints);
}

#[test]
fn a_long_file_is_named() {
    assert!(check(&File::example("a.rs", &"\n".repeat(LINES_MAX))).is_empty());
    assert_eq!(
        check(&File::example("a.rs", &"\n".repeat(LINES_MAX + 1))),
        ["a.rs: 601 lines, at most 600; split it by what it holds"]
    );
}

#[test]
fn a_long_line_is_named_unless_it_holds_an_address() {
    // Columns are characters, not bytes.
    assert!(check(&File::example("a.rs", &"µ".repeat(COLUMNS_MAX))).is_empty());
    let long = format!("\n{}\n", "x".repeat(COLUMNS_MAX + 1));
    assert_eq!(check(&File::example("a.rs", &long)), ["a.rs:2: 101 columns, at most 100"]);
    let address = format!("// https://example.org/{}", "x".repeat(COLUMNS_MAX));
    assert!(check(&File::example("a.rs", &address)).is_empty());
}
