//! No unfinished work, and no ignored test without a reason.

use crate::source::{Source, words};
use crate::tree::{self, File};

const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];
const MARKS: [&str; 2] = ["FIXME", "XXX"];

fn check(file: &File) -> Vec<String> {
    let source = Source::parse(&file.text);
    let mut complaints = Vec::new();
    for (index, (code, comment)) in source.code.lines().zip(source.comments.lines()).enumerate() {
        let mut complain = |what: &str| {
            complaints.push(format!("{}:{}: {what}", file.path, index + 1));
        };
        for (end, word) in words(code) {
            if MACROS.contains(&word) && is_call(&code[end..]) {
                complain(&format!("{word}! is left over"));
            }
        }
        for (_, word) in words(code).chain(words(comment)) {
            if MARKS.contains(&word) {
                complain(&format!("{word} is left over; finish it, or open an issue"));
            }
        }
        if ignores_without_reason(code) {
            complain("an ignored test says why: #[ignore = \"reason\"]");
        }
    }
    complaints
}

/// Whether what follows a word makes it the call of a macro.
fn is_call(after: &str) -> bool {
    let after = after.trim_start();
    after.starts_with('!') && !after.starts_with("!=")
}

/// Whether the line has the attribute `ignore`, alone or behind a condition, and no reason in it.
fn ignores_without_reason(code: &str) -> bool {
    words(code).filter(|(_, word)| *word == "ignore").any(|(end, word)| {
        let before = code[..end - word.len()].trim_end();
        let after = code[end..].trim_start();
        let is_attribute =
            before.ends_with("#[") || (before.contains("#[cfg_attr") && before.ends_with(','));
        is_attribute && after.starts_with([']', ')'])
    })
}

#[test]
fn nothing_is_left_over() {
    let complaints: Vec<_> = tree::rust_files().iter().flat_map(check).collect();
    tree::expect_none("leftovers", &complaints);
}

#[test]
fn leftovers_are_found() {
    let text =
        "// FIXME: later\nfn f() { todo!() }\nlet x = dbg!(1);\n/* XXX */ unimplemented! {}\n";
    assert_eq!(
        check(&File::example("a.rs", text)),
        [
            "a.rs:1: FIXME is left over; finish it, or open an issue",
            "a.rs:2: todo! is left over",
            "a.rs:3: dbg! is left over",
            "a.rs:4: unimplemented! is left over",
            "a.rs:4: XXX is left over; finish it, or open an issue",
        ]
    );
}

#[test]
fn words_that_only_look_like_leftovers_are_not() {
    let text = "let todo = 1; // dbg!(x) shows it\nlet s = \"FIXME todo!()\";\nif todo != 2 {}\n";
    let complaints = check(&File::example("a.rs", text));
    assert_eq!(complaints, Vec::<String>::new());
}

#[test]
fn an_ignored_test_needs_a_reason() {
    for bad in ["#[ignore]", "#[ ignore ]", "#[test] #[ignore]", "#[cfg_attr(miri, ignore)]"] {
        assert_eq!(check(&File::example("a.rs", bad)).len(), 1, "{bad}");
    }
    for good in
        ["#[ignore = \"runs for minutes\"]", "#[cfg_attr(miri, ignore = \"slow\")]", "f(a, ignore)"]
    {
        assert!(check(&File::example("a.rs", good)).is_empty(), "{good}");
    }
}
