//! Tries what a configuration names, without forwarding anything.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::config::{self, Config, Endpoint};
use crate::proxy::StartError;
use crate::tls;
use crate::upstream::Replica;

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Findings {
    /// The address to listen at cannot be had now.
    pub listen: Option<String>,
    /// The replicas of each upstream, with what is wrong with them now.
    pub replicas: Vec<(String, Endpoint, Option<String>)>,
}

impl Findings {
    /// Whether everything that was tried went well.
    pub fn is_fine(&self) -> bool {
        self.listen.is_none() && self.replicas.iter().all(|(_, _, problem)| problem.is_none())
    }
}

/// Checks values and files, listens for a moment, connects to each replica, and asks it as its
/// probe does.
///
/// # Errors
///
/// Names what would keep the proxy from starting: values, certificates, keys. That somebody else
/// listens, or that a replica is not there, is only a finding: it may be otherwise when the proxy
/// starts.
pub fn check(config: &Config) -> Result<Findings, StartError> {
    config.validate()?;
    config.tls.as_ref().map(tls::acceptor).transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listen = {
        let _in_runtime = runtime.enter();
        crate::listen::listen(config.listen).err().map(|error| error.to_string())
    };
    let mut replicas = Vec::new();
    for (name, upstream) in &config.upstreams {
        for endpoint in &upstream.replicas {
            let replica = Replica::new(name, endpoint, upstream, 0)?;
            let problem =
                runtime.block_on(ask(&replica, &upstream.health, config.timeouts.connect));
            replicas.push((name.clone(), endpoint.clone(), problem));
        }
    }
    Ok(Findings { listen, replicas })
}

/// Connects, asks as the probe does, and says what is wrong.
async fn ask(replica: &Replica, health: &config::Health, patience: Duration) -> Option<String> {
    if let Err(error) = replica.dialer.dial(false, patience).await {
        return Some(error.to_string());
    }
    let problem = replica.probe(health).await.err()?;
    Some(format!("{problem}, so it would not count as well"))
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.listen {
            writeln!(f, "  cannot listen now: {problem}")?;
        }
        for (upstream, endpoint, problem) in &self.replicas {
            match problem {
                None => writeln!(f, "  {upstream}: {endpoint} is there")?,
                Some(problem) => writeln!(f, "  {upstream}: {endpoint}: {problem}")?,
            }
        }
        Ok(())
    }
}
