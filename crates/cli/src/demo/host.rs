//! Where the demo runs.

use std::process::Command;

use crate::report::data::Host;

/// What can be told about this machine and this run.
pub(super) fn describe() -> Host {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Host {
        cpu_model: model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned(),
        cores: crate::pin::available().len(),
        kernel: first_line("uname", &["-sr"]),
        date: first_line("date", &["+%Y-%m-%d %H:%M %Z"]),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: std::env::args().collect::<Vec<_>>().join(" "),
    }
}

/// What a system command prints, or nothing where it does not exist.
fn first_line(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
