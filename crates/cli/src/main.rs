//! The `seawall` command.

mod compare;
mod graph;
mod groups;
mod live;
mod load;
#[cfg(feature = "node")]
mod node;
mod options;
#[cfg(feature = "otel")]
mod otel;
mod pauses;
mod plans;
mod proxy;
mod reproduce;
mod serve;
mod sim;
mod top;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use seawall_lab::{child, cores, demo, descriptors, host, output, pin, progress, report};

/// Keeps services fast when more work arrives than they can do.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    /// What to log on standard error, such as `info` or `seawall_rpc=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "SEAWALL_LOG", default_value = "warn")]
    log: String,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  seawall demo                              overload real servers on this machine
  seawall serve synthetic                   run a server at 127.0.0.1:7117 ...
  seawall load 127.0.0.1:7117 --rate 20k    ... and offer it more than it can do

`seawall COMMAND --help` has examples of each command.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what overload does to a service, and what Seawall does about it (80 seconds)
    Demo(demo::Options),
    /// Run a server: a synthetic one that spends CPU time, or a key-value store
    Serve(Box<serve::Options>),
    /// Offer a load to a server, whatever it answers, and measure
    Load(Box<load::Options>),
    /// Put a sidecar or gateway in front of a service that speaks HTTP or gRPC
    Proxy(Box<proxy::Options>),
    /// Compare algorithms side by side on live servers, as a plan describes
    Compare(compare::Options),
    /// Run microservice graphs under surges, and compare who moves CPU between services
    Graph(graph::Options),
    /// Simulate what a plan describes: any number of clients and cores, on this machine
    Sim(sim::Options),
    /// Repeat the papers' evaluations in the simulator, and judge their claims
    Reproduce(reproduce::Options),
    /// See how well the pauses of a Java service's collector were predicted
    Pauses(pauses::Options),
    /// Watch a server, proxy or node agent live, in this terminal
    Top(top::Options),
    /// Look at this machine's CPUs: who waits, and for how long
    #[cfg(feature = "node")]
    Node(node::Options),
}

/// Commands that not every build has, which takes a feature of the same name.
const OPTIONAL: [(&str, bool); 4] = [
    ("node", cfg!(feature = "node")),
    ("search", cfg!(feature = "search")),
    ("rocks", cfg!(feature = "rocks")),
    ("columns", cfg!(feature = "columns")),
];

/// The command that somebody asked for and this build lacks.
fn lacking(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    OPTIONAL.iter().find(|(name, is_built)| !is_built && name == asked).map(|(name, _)| *name)
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let Some(name) = lacking(&error) else { error.exit() };
            eprintln!(
                "error: this program was built without `{name}`; to have it: cargo build \
                 --release -p seawall-cli --features {name}"
            );
            return ExitCode::from(2);
        }
    };
    let filter = match tracing_subscriber::EnvFilter::try_new(&cli.log) {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("error: --log {}: {error}; write a level such as info", cli.log);
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    #[cfg(feature = "node")]
    {
        seawall_rpc::install_bouncer(seawall_node::Bounce::for_server);
        seawall_rpc::install_cpu_delay(seawall_node::Foresight::for_server);
    }
    let done = match cli.command {
        Command::Demo(options) => match demo::run(&options, &["demo"]) {
            Ok(false) => return ExitCode::FAILURE, // what it printed says why
            done => done.map(|_| ()),
        },
        Command::Serve(options) => serve::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Proxy(options) => proxy::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Graph(options) => graph::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Reproduce(options) => reproduce::run(&options),
        Command::Pauses(options) => pauses::run(&options),
        Command::Top(options) => top::run(&options),
        #[cfg(feature = "node")]
        Command::Node(options) => node::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", message(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes on one line. Some errors repeat their cause in their own text.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        let cause = cause.trim_end();
        if message.is_empty() {
            message = cause.to_owned();
        } else if !message.contains(cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    /// The lines below "Examples:" of a command and of all below it, without the remarks.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let line = |line: &str| {
            let line = line.strip_prefix("  seawall")?;
            let line = line.split("  ").next().unwrap_or(line);
            let line = line.split(" > ").next().unwrap_or(line);
            Some(format!("seawall{line}"))
        };
        let mut examples: Vec<String> = help.lines().filter_map(line).collect();
        assert!(!examples.is_empty(), "{} has no examples", command.get_name());
        let own = command.get_subcommands().filter(|command| command.get_name() != "help");
        examples.extend(own.flat_map(self::examples));
        examples
    }

    #[test]
    fn examples_are_right() {
        let examples = examples(&<Cli as clap::CommandFactory>::command());
        assert!(examples.len() > 15, "{examples:?}");
        for example in examples {
            let parsed = Cli::try_parse_from(example.split(' '));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn commands_for_what_is_not_simulated_are_right() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let commands: Vec<&str> = reproduce::commands_elsewhere().collect();
        assert!(commands.len() > 5, "{commands:?}");
        for command in commands {
            if let Err(error) = Cli::try_parse_from(command.split(' ')) {
                assert!(lacking(&error).is_some(), "{command}: {error}");
            }
            let plans = command.split(' ').filter(|word| word.ends_with(".toml"));
            for plan in plans {
                assert!(std::fs::exists(format!("{root}{plan}")).unwrap(), "{command}");
            }
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("port in use\n").context("no server: port in use").context("at start");
        assert_eq!(message(&error), "at start: no server: port in use");
        assert_eq!(message(&anyhow!("one\n  ^ here\n")), "one\n  ^ here");
    }
}
