//! The node agent itself, `seawall node run`, as it runs beside any services.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use seawall_control::config::duration;
use serde_json::Value;
use toml::Table;

use super::agent::{Agent, Done};
use super::calibration::Usual;
use super::plan::{Contender, Plan};
use super::services::{Services, is_quota};
use crate::groups::Groups;

/// A running agent. It ends, and puts back what it changed, when this is dropped and when the
/// thread that started it dies.
pub(super) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    begun: Instant,
}

impl Process {
    /// Starts an agent for these services, which keeps its files in `folder`, and waits until it
    /// manages them.
    ///
    /// # Errors
    ///
    /// If it does not; what it has to say of errors stands on our own standard error.
    pub(super) fn start(
        plan: &Plan,
        contender: &Contender,
        (services, usual): (&Services, &[Usual]),
        (seed, folder): (u64, &Path),
        groups: Option<&Groups>,
    ) -> Result<Self> {
        let file = folder.join("node.toml");
        let config = config(plan, contender, (services, usual), (seed, folder), groups)?;
        std::fs::write(&file, toml::to_string(&config)?)?;
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(program)
            .args(["node", "run", "--json", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the node agent by setpriv")?;
        let output = child.stdout.take().context("the agent's output is not connected")?;
        let mut agent = Self { child, output: BufReader::new(output), begun: Instant::now() };
        let mut line = String::new();
        agent.output.read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let (found, all) = (ready["containers"].as_u64(), services.iter().count() as u64);
        if found != Some(all) {
            bail!("the node agent found {found:?} of {all} services; it says above why");
        }
        Ok(agent)
    }

    fn end(&self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
    }
}

impl Agent for Process {
    fn finish(mut self: Box<Self>) -> Result<Done> {
        let ran = self.begun.elapsed();
        self.end();
        let mut words = String::new();
        self.output.read_to_string(&mut words).context("cannot read what the agent says")?;
        self.child.wait()?;
        let said: Value = serde_json::from_str(&words)
            .with_context(|| format!("the agent's last words are {words:?}"))?;
        let looks = said["passes"].as_u64().unwrap_or(0);
        let kinds = said["decisions"].as_object().into_iter().flat_map(serde_json::Map::values);
        let interval_ms = ran.as_secs_f64() * 1e3 / looks.max(1) as f64;
        Ok(Done { decisions: kinds.filter_map(Value::as_u64).sum(), looks, interval_ms })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

/// What the agent is told.
fn config(
    plan: &Plan,
    contender: &Contender,
    (services, usual): (&Services, &[Usual]),
    (seed, folder): (u64, &Path),
    groups: Option<&Groups>,
) -> Result<Table> {
    let path = |name: &str| folder.join(name).display().to_string();
    let initial: u32 = services.iter().map(|service| service.units).sum();
    let containers = services.iter().zip(usual).enumerate().map(|(index, (service, usual))| {
        let mut rule = toml::toml! { depth = 0 };
        let milli = service.units * plan.unit_milli;
        rule.insert("name".into(), service.name.clone().into());
        rule.insert("service".into(), service.name.clone().into());
        if let Some(groups) = groups {
            rule.insert("cgroup".into(), groups.of(index).name().into());
        }
        rule.insert("floor_milli".into(), i64::from(milli).into());
        rule.insert("initial_milli".into(), i64::from(milli).into());
        rule.insert("expected_exec".into(), duration::format(usual.expected_exec).into());
        let from_start = duration::format(usual.expected_time_from_start);
        rule.insert("expected_time_from_start".into(), from_start.into());
        rule.insert("depth".into(), i64::from(service.depth).into());
        rule.insert("calls".into(), service.callees.clone().into());
        toml::Value::Table(rule)
    });
    let mut config = Table::new();
    config.insert("unit_milli".into(), i64::from(plan.unit_milli).into());
    config.insert("units".into(), i64::from(initial + plan.units_spare).into());
    config.insert("pages".into(), path("pages").into());
    config.insert("state".into(), path("state").into());
    config.insert("seed".into(), seed.cast_signed().into());
    config.insert("scaling".into(), toml::Value::try_from(plan.scaling(contender)?)?);
    let responder = contender.responder.clone();
    let responder = responder.unwrap_or_else(|| toml::toml! { way = "off" });
    config.insert("responder".into(), responder.into());
    let mut actuator = Table::new();
    actuator.insert("cpu".into(), if is_quota(plan) { "quota" } else { "virtual" }.into());
    if plan.speeds_permille.len() > 1 {
        actuator.insert("frequency".into(), "virtual".into());
        actuator.insert("speeds_permille".into(), plan.speeds_permille.clone().into());
    }
    config.insert("actuator".into(), toml::Value::Table(actuator));
    config.insert("containers".into(), toml::Value::Array(containers.collect()));
    Ok(config)
}
