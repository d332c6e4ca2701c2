//! The flags of `seawall load`, and the load that they describe.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use seawall_control::config::duration;
use seawall_control::{admission, retry};
use seawall_measure::{KeyValueMix, Paths, Process, Schedule, ScheduleError};
use seawall_rpc::{ClientConfig, ClientTls};

use super::engine::Offer;
use super::web::{Protocol, Requests, Target};
use super::workload::{NamedBy, Workload};
use crate::options::{Settings, Sources, readable, text};

/// Longest run: a day, which nobody means to exceed.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How long one of several addresses of a server may take to accept.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most keys of a store that is filled before the measurement: a quarter of an hour.
const MOST_KEYS: u64 = 100_000_000;

/// Parts of the requests that need memory bandwidth, as in Svalinn's evaluation (§5.2).
#[cfg(feature = "rocks")]
const ROCKS_SHARE: f64 = 0.2;
#[cfg(feature = "columns")]
const COLUMNS_SHARE: f64 = 0.01;

const EXAMPLES: &str = "\
Examples:
  seawall load 127.0.0.1:7117 --rate 20k --sessions 100 --time 5s
  seawall load 127.0.0.1:7117 --rate 0s:0.5x,2s:2x --capacity 10k --html load.html
  seawall load 127.0.0.1:7117 --workload kv --mix usr --rate 50k --json
  seawall load 127.0.0.1:7117 127.0.0.1:7118 --rate 20k     two replicas
  seawall load 127.0.0.1:7117 127.0.0.1:7118 --retry        ... and what one refuses, the other gets
  seawall load http://127.0.0.1:8080/ --rate 500 --slo 100ms --deadline 100ms    any HTTP server
  seawall load grpc://127.0.0.1:50051/pkg.Service/Method --slo 100ms             or gRPC
  seawall load http://127.0.0.1:8080 --slo 100ms --requests hot:0.2:/hot,cold:0.8:/cold

Requests leave on schedule whatever the server answers, and latency counts from the scheduled \
time. Goodput is successes within the SLO; a refusal is never one. A point that the generator \
could not offer on time is marked as not valid.";

/// Options of `seawall load`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("config", |arg| {
        arg.help("Parameters of the algorithms' client halves (TOML), as under [server.admission]")
    }),
    mut_arg("set", |arg| arg.help("Set one of these parameters, such as client.expiry=1ms")),
)]
pub(crate) struct Options {
    /// The server's address; several replicas share the sessions in turns. With http:// before it,
    /// a server of HTTP/1.1, with grpc:// one of gRPC, and with the path to call behind it
    #[arg(required = true, value_name = "HOST:PORT")]
    servers: Vec<String>,

    /// What to call
    #[arg(long, value_enum, default_value = "synthetic")]
    workload: Kind,

    /// Requests of a kv workload: usr (99.8 % reads), usr-skewed (the same, with hot keys), var
    /// (82 % writes, hot keys), svalinn (82 % writes, 9 % reads of megabytes), or GETS/KEYS/VALUES
    /// such as 0.9/zipf:100000:0.99/uniform:5:1000 [default: usr]
    #[arg(long, value_name = "MIX")]
    mix: Option<KeyValueMix>,

    /// Requests of an http or grpc workload, by class: NAME:SHARE:PATH or NAME:SHARE:PATH:BODY,
    /// separated by commas. A body makes it a POST; {} in it stands for a number of its own in
    /// each. Bodies of gRPC are sent as google.protobuf.BytesValue [default: GET of the path behind
    /// the address]
    #[arg(long, value_name = "CLASSES")]
    requests: Option<Requests>,

    /// Codes of HTTP or gRPC that count as refusals [default: 429,503 and 8,14]
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    refusals: Vec<u16>,

    /// Requests of a synthetic workload name their data path, and are measured apart by it; those
    /// of rocks and columns are of two kinds in any case, by method unless this says otherwise
    /// [default: they name none]
    #[arg(long, value_enum, value_name = "HOW")]
    path_by: Option<NamedBy>,

    /// The data paths of a synthetic workload and how many requests take each, as the server's
    /// option --paths says, such as hot:0.5
    #[arg(long, value_name = "PATHS", requires = "path_by")]
    paths: Option<Paths>,

    /// Part of the requests of rocks and columns that are of the kind which takes memory
    /// bandwidth, 0 to 1 [default: 0.2 for rocks, 0.01 for columns]
    #[cfg(any(feature = "rocks", feature = "columns"))]
    #[arg(long, value_name = "SHARE")]
    large_share: Option<f64>,

    /// Rows of which each maximum of a columns workload is, at random places of a series as
    /// `seawall-columns build` makes it
    #[cfg(feature = "columns")]
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    rows: u32,

    /// How many keys of a rocks workload have small values and how many large ones, as
    /// `seawall-rocks build` wrote them: SMALL:LARGE
    #[cfg(feature = "rocks")]
    #[arg(long, value_name = "COUNTS", default_value_t = seawall_rocks::data::Counts::default())]
    keys: seawall_rocks::data::Counts,

    /// The words of a search workload and how often each occurs, as `seawall-search build` wrote
    /// them: words.tsv
    #[cfg(feature = "search")]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,

    /// Requests per second, or a schedule of rates such as 0s:5k,2s:20k whose times count from the
    /// begin of the warm-up; with --capacity also 0.5x
    #[arg(long, value_name = "SCHEDULE", default_value = "1000")]
    rate: Schedule,

    /// What 1x of the rate means, in requests per second, such as 10k
    #[arg(long, value_name = "RATE", value_parser = per_second)]
    capacity: Option<f64>,

    /// How requests are spread in time: poisson, constant, bursts:FACTOR:PERIOD:LENGTH,
    /// surges:FACTOR:PERIOD:LENGTH
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    arrivals: Process,

    /// Client sessions, each a connection of its own (1 to 60000)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    sessions: u32,

    /// Each session becomes a client of all servers, which sends to another one what one of them
    /// refuses, gives no credit for in time, or answers late; see --set client.retry.budget=1,
    /// client.retry.hedge.percentile=0.98, client.replicas.choose=c3. Requests of workloads may
    /// run twice
    #[arg(long)]
    retry: bool,

    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    time: Duration,

    /// How long to offer the load before measuring
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    warm_up: Duration,

    /// Latency that counts as good [default: what the server says]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    slo: Option<Duration>,

    /// Tell the server that a reply is worthless this long after its scheduled time; over HTTP, the
    /// client gives up then [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    deadline: Option<Duration>,

    /// Tell the server how long a request may wait there: if it predicts a longer wait, it refuses
    /// at once, and with --retry the request goes to another one [default: what the server says]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    budget: Option<Duration>,

    /// Fail unless the servers run this algorithm; clients always use the server's
    #[arg(long, value_name = "NAME",
        value_parser = PossibleValuesParser::new(admission::NAMES))]
    algorithm: Option<String>,

    /// Threads that offer the load, each with its share of the sessions (1 to 256)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Sleep while nothing is due, for tens of microseconds too long, instead of watching the
    /// clock: it leaves the core to what shares it
    #[arg(long)]
    sleep: bool,

    /// Keep all threads of the load on this core (they count from 0)
    #[arg(long, value_name = "CORE")]
    pub(super) pin: Option<usize>,

    /// Seed of arrivals and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A token that proves who the clients are
    #[arg(long, env = "SEAWALL_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Speak TLS; server certificates must come from these authorities (PEM file)
    #[arg(long, value_name = "FILE")]
    tls_authorities: Option<PathBuf>,

    /// The name in the server's certificate
    #[arg(long, value_name = "NAME", default_value = "localhost", requires = "tls_authorities")]
    tls_name: String,

    /// The clients' own certificate chain, for mutual TLS (PEM file)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_authorities"])]
    tls_certificate: Option<PathBuf>,

    /// The key that goes with it (PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    #[command(flatten)]
    sources: Sources,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Add the run over time to that, in bins
    #[arg(long, requires = "json")]
    pub(super) bins: bool,

    /// Write a page with charts over time here
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// `seawall serve synthetic`
    Synthetic,
    /// `seawall serve kv`; all keys are written before the measurement
    Kv,
    /// Any server of HTTP/1.1, the same as http:// before its address; --sessions are connections
    Http,
    /// Any server of unary gRPC, the same as grpc:// before its address
    Grpc,
    /// `seawall serve rocks`; small and large values, as --large-share says
    #[cfg(feature = "rocks")]
    Rocks,
    /// `seawall serve columns`; maxima and smoothing, as --large-share says
    #[cfg(feature = "columns")]
    Columns,
    /// `seawall serve search`; --words says what is searched for
    #[cfg(feature = "search")]
    Search,
}

impl Kind {
    /// Whether its requests are of two kinds that can be told apart.
    fn has_paths(self) -> bool {
        match self {
            Self::Synthetic => true,
            Self::Kv | Self::Http | Self::Grpc => false,
            #[cfg(feature = "rocks")]
            Self::Rocks => true,
            #[cfg(feature = "columns")]
            Self::Columns => true,
            #[cfg(feature = "search")]
            Self::Search => false,
        }
    }
}

impl Options {
    /// The load.
    ///
    /// # Errors
    ///
    /// Names the flag that is wrong, and what is allowed.
    pub(crate) fn offer(&self) -> Result<Offer> {
        self.check()?;
        let rates = self.rate.rates(self.capacity).map_err(|error| match error {
            ScheduleError::NoCapacity(_) => anyhow!(
                "--rate {} is a multiple of the capacity; say with --capacity what 1x is, in \
                 requests per second",
                self.rate
            ),
            other => anyhow!("--rate {}: {other}", self.rate),
        })?;
        let servers: Result<Vec<SocketAddr>> =
            self.servers.iter().map(|name| resolve(Address::of(name).host)).collect();
        let protocol = self.protocol()?;
        let workload = match self.workload {
            _ if protocol.is_some() => Workload::Web(self.requests()?),
            Kind::Synthetic => match self.path_by {
                None => Workload::Synthetic,
                Some(by) => Workload::Paths { by, paths: self.paths.unwrap_or_default() },
            },
            Kind::Kv => Workload::Kv(self.mix.unwrap_or_else(KeyValueMix::usr)),
            Kind::Http | Kind::Grpc => unreachable!("they have a protocol"),
            #[cfg(feature = "rocks")]
            Kind::Rocks => Workload::Rocks {
                keys: self.keys,
                by: self.path_by.unwrap_or(NamedBy::Method),
                large: self.large_share.unwrap_or(ROCKS_SHARE),
            },
            #[cfg(feature = "columns")]
            Kind::Columns => Workload::Columns {
                rows: self.rows,
                by: self.path_by.unwrap_or(NamedBy::Method),
                large: self.large_share.unwrap_or(COLUMNS_SHARE),
            },
            #[cfg(feature = "search")]
            Kind::Search => Workload::Search(self.words()?.into()),
        };
        Ok(Offer {
            servers: servers?,
            client: self.client()?,
            web: protocol.map(|protocol| Target {
                protocol,
                host: Address::of(&self.servers[0]).host.to_owned(),
                refusals: self.refusals.clone(),
            }),
            workload,
            sessions: self.sessions,
            retries: self.retry,
            threads: self.threads,
            sleep: self.sleep,
            process: self.arrivals,
            rates,
            warm_up: self.warm_up,
            time: self.time,
            slo: self.slo,
            deadline: self.deadline,
            budget: self.budget,
            algorithm: self.algorithm.clone(),
            seed: self.seed,
            linger: None,
            violation: None,
        })
    }

    /// What was asked for, as it is shown on a page.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let workload = match (self.workload, &self.mix) {
            _ if Address::of(&self.servers[0]).protocol.is_some() => self.web_facts(),
            (Kind::Http | Kind::Grpc, _) => self.web_facts(),
            (Kind::Synthetic, _) => match self.path_by {
                None => "synthetic: requests that spend CPU time".into(),
                Some(_) => format!("synthetic: paths {}", self.paths.unwrap_or_default()),
            },
            #[cfg(feature = "rocks")]
            (Kind::Rocks, _) => {
                let share = self.large_share.unwrap_or(ROCKS_SHARE);
                format!("rocks: {share} of the requests for large values, {} keys", self.keys)
            }
            #[cfg(feature = "columns")]
            (Kind::Columns, _) => {
                let share = self.large_share.unwrap_or(COLUMNS_SHARE);
                format!("columns: {share} of the requests smooth a column")
            }
            #[cfg(feature = "search")]
            (Kind::Search, _) => "search: one word each, as likely as it is frequent".into(),
            (Kind::Kv, mix) => format!("kv: {}", mix.unwrap_or_else(KeyValueMix::usr)),
        };
        let capacity = self.capacity.map_or(String::new(), |rate| format!(", 1x is {rate}/s"));
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        let mut facts = vec![
            ("Servers", self.servers.join(", ")),
            ("Workload", workload),
            ("Rate", format!("{} requests/s{capacity}, {}", self.rate, self.arrivals)),
            (
                "Time",
                format!(
                    "{} after a warm-up of {}",
                    duration::format(self.time),
                    duration::format(self.warm_up),
                ),
            ),
            ("Generator", format!("{} {threads}, seed {}", self.threads, self.seed)),
        ];
        if let Some(deadline) = self.deadline {
            facts.push(("Deadline", duration::format(deadline)));
        }
        if let Some(budget) = self.budget {
            facts.push(("Budget", duration::format(budget)));
        }
        facts
    }

    fn web_facts(&self) -> String {
        let requests = self.requests().map(|requests| requests.to_string()).unwrap_or_default();
        format!("requests {requests}")
    }

    /// What the servers speak, if not the native protocol.
    fn protocol(&self) -> Result<Option<Protocol>> {
        let named = match self.workload {
            Kind::Http => Some(Protocol::Http),
            Kind::Grpc => Some(Protocol::Grpc),
            _ => None,
        };
        let protocol = Address::of(&self.servers[0]).protocol.or(named);
        let other = |name: &&String| Address::of(name).protocol.or(named) != protocol;
        if let Some(other) = self.servers.iter().find(other) {
            bail!("{} and {other} are servers of different protocols", self.servers[0]);
        }
        if protocol.is_none() && (self.requests.is_some() || !self.refusals.is_empty()) {
            bail!("--requests and --refusals are about HTTP; write http:// before the address");
        }
        if protocol.is_some() {
            let native = [
                ("--retry", self.retry),
                ("--budget", self.budget.is_some()),
                ("--algorithm", self.algorithm.is_some()),
                ("--tls-authorities", self.tls_authorities.is_some()),
                ("--mix", self.mix.is_some()),
                ("--path-by", self.path_by.is_some()),
            ];
            if let Some((flag, _)) = native.iter().find(|(_, is_there)| *is_there) {
                bail!("{flag} is about servers of the native protocol, without http:// or grpc://");
            }
        }
        Ok(protocol)
    }

    /// What is asked of servers of HTTP.
    fn requests(&self) -> Result<Requests> {
        let path = Address::of(&self.servers[0]).path;
        match &self.requests {
            Some(_) if path.len() > 1 => {
                bail!("--requests names the paths; leave {path} behind the address away")
            }
            Some(requests) => Ok(requests.clone()),
            None => Ok(Requests::all(if path.is_empty() { "/" } else { path })),
        }
    }

    /// What clap cannot check.
    fn check(&self) -> Result<()> {
        if self.mix.is_some() && self.workload != Kind::Kv {
            bail!("--mix says what a key-value store is asked; add --workload kv");
        }
        if let Some(keys) = self.mix.map(|mix| mix.key_count()).filter(|&keys| keys > MOST_KEYS) {
            bail!("--mix has {keys} keys, all to be written before; allowed: 1 to {MOST_KEYS}");
        }
        if self.path_by.is_some() && !self.workload.has_paths() {
            bail!("--path-by is about requests of several kinds; leave --workload away");
        }
        if self.workload == Kind::Synthetic && self.path_by.is_some() && self.paths.is_none() {
            bail!("--path-by needs --paths, which says how many requests take which path: hot:0.5");
        }
        if self.paths.is_some() && self.workload != Kind::Synthetic {
            bail!("--paths is about synthetic requests; leave --workload away");
        }
        #[cfg(any(feature = "rocks", feature = "columns"))]
        if let Some(share) = self.large_share {
            if self.workload == Kind::Synthetic || !self.workload.has_paths() {
                bail!("--large-share is about rocks and columns; choose one with --workload");
            }
            if !(0.0..=1.0).contains(&share) {
                bail!("--large-share is {share}; allowed: 0 to 1");
            }
        }
        if self.time.is_zero() {
            bail!("--time is 0s; allowed: above 0s");
        }
        let run = self.time.saturating_add(self.warm_up);
        if run > LONGEST {
            let (run, longest) = (duration::format(run), duration::format(LONGEST));
            bail!("--warm-up and --time are {run} together; allowed: up to {longest}");
        }
        if self.slo.is_some_and(|slo| slo.is_zero()) {
            bail!("--slo is 0s; allowed: above 0s");
        }
        if self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            bail!("--deadline is 0s, which no request meets; allowed: above 0s");
        }
        if self.threads > 1 && self.arrivals == Process::Constant {
            bail!("--arrivals constant needs --threads 1: those of several threads would coincide");
        }
        let files = [&self.tls_authorities, &self.tls_certificate, &self.tls_key];
        let flags = ["--tls-authorities", "--tls-certificate", "--tls-key"];
        for (flag, file) in flags.iter().zip(files) {
            file.as_deref().map_or(Ok(()), |file| readable(flag, file))?;
        }
        Ok(())
    }

    /// What is searched for.
    #[cfg(feature = "search")]
    fn words(&self) -> Result<seawall_search::words::Words> {
        let Some(file) = &self.words else {
            bail!("--workload search needs --words, which says what is searched for: words.tsv");
        };
        let words = seawall_search::words::Words::read(file);
        words.map_err(|error| anyhow!("--words {}: {error}", file.display()))
    }

    fn client(&self) -> Result<ClientConfig> {
        let flags = [("algorithm", text(self.algorithm.as_ref()))];
        let mut admission: admission::Config = self.sources.read(&Settings::default(), &flags)?;
        admission.build_with(seawall_measure::utility::read)?;
        if self.retry && admission.client.retry == retry::Config::NEVER {
            admission.client.retry = retry::Config::default();
        }
        let tls = self.tls_authorities.as_ref().map(|authorities| ClientTls {
            authorities: authorities.clone(),
            identity: self.tls_certificate.clone().zip(self.tls_key.clone()),
            server_name: self.tls_name.clone(),
        });
        Ok(ClientConfig {
            name: "seawall load".into(),
            token: self.token.clone().map(Into::into),
            tls,
            admission,
            ..ClientConfig::default()
        })
    }
}

/// A server as it is named on the command line.
struct Address<'a> {
    protocol: Option<Protocol>,
    /// Host and port.
    host: &'a str,
    /// From its slash on; empty if there is none.
    path: &'a str,
}

impl<'a> Address<'a> {
    fn of(name: &'a str) -> Self {
        let Some((protocol, rest)) = Protocol::of_url(name) else {
            return Self { protocol: None, host: name, path: "" };
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self { protocol: Some(protocol), host, path }
    }
}

fn resolve(name: &str) -> Result<SocketAddr> {
    match name.to_socket_addrs() {
        Ok(addresses) => {
            choose(&addresses.collect::<Vec<_>>()).with_context(|| format!("{name} has no address"))
        }
        Err(error) => bail!(
            "cannot find the server {name} ({error}); write HOST:PORT, such as 127.0.0.1:7117"
        ),
    }
}

/// The first of a server's addresses that accepts, since it need not listen at all of them:
/// `localhost` is ::1 as well as 127.0.0.1. The first if none does, for the error to name.
fn choose(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    match addresses {
        [] | [_] => addresses.first().copied(),
        several => several.iter().find(accepts).or(several.first()).copied(),
    }
}

/// Reads a rate such as `10k`.
fn per_second(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seawall_measure::Load::PerSecond(rate)) if rate > 0.0 => Ok(rate),
        _ => Err("write requests per second, such as 850 or 10k; allowed: above 0 to 1000M".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn of_several_addresses_the_first_that_accepts_is_taken() {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (first, second) = (listen(), listen());
        let deserted = listen().local_addr().unwrap();
        let [first, second] = [&first, &second].map(|server| server.local_addr().unwrap());
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[deserted]), Some(deserted));
        assert_eq!(choose(&[deserted, deserted]), Some(deserted));
        assert_eq!(choose(&[deserted, second, first]), Some(second));
    }
}
