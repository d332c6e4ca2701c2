//! Where something was measured, and by which command.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// What stands where a secret was.
const HIDDEN: &str = "...";

/// Where and how it was measured: the foot of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub cpu_model: String,
    /// Processors (hardware threads) that the system offers.
    pub cores: usize,
    /// The kernel's name and release.
    pub kernel: String,
    /// When it was measured, as it is to be shown.
    pub date: String,
    /// Seawall's version.
    pub version: String,
    /// The command that was run.
    pub command_line: String,
}

/// What can be told about this machine and this run.
pub fn describe() -> Host {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    // Not those that this process may use: it may keep itself to one.
    let processors = info.lines().filter(|line| line.starts_with("processor")).count();
    Host {
        cpu_model: model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned(),
        cores: processors.max(1),
        kernel: first_line("uname", &["-sr"]),
        date: first_line("date", &["+%Y-%m-%d %H:%M %Z"]),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(std::env::args()),
    }
}

/// What a system command prints, or nothing where it does not exist.
fn first_line(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The command as one can type it again, without the token: pages are shown to others.
fn command_line(arguments: impl IntoIterator<Item = String>) -> String {
    let mut words = Vec::new();
    let mut secret = false;
    for argument in arguments {
        words.push(match argument.strip_prefix("--token=") {
            _ if secret => HIDDEN.to_owned(),
            Some(_) => format!("--token={HIDDEN}"),
            None => quoted(&argument),
        });
        secret = argument == "--token";
    }
    words.join(" ")
}

/// The word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        command_line(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn it_can_be_typed_again() {
        assert_eq!(line(&["seawall", "load", "--rate", "0s:1k"]), "seawall load --rate 0s:1k");
        assert_eq!(line(&["a b", "", "it's"]), r"'a b' '' 'it'\''s'");
    }

    #[test]
    fn secrets_are_hidden() {
        let words = ["load", "--token", "s3cret", "--json", "--token=s3cret", "--token"];
        assert_eq!(line(&words), "load --token ... --json --token=... --token");
    }
}
