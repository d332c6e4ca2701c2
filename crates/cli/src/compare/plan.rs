//! Plans of comparisons: what is served, what load is offered, and what is compared.

use seawall_measure::{Load, Rates, Schedule};
use seawall_sim::outcome::check_metric_of_requests;
use seawall_sim::plan::{self, Claim, Figure, Params, PlanError, label, table};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::{Table, Value};

use super::arguments::{self, Key};
use super::noise::Noise;
use super::point;
use crate::load::engine::Offer;
use crate::plans::Open;
use crate::serve;

/// Most points of one comparison: days.
const POINTS_MAX: usize = 10_000;

/// Most processors of a server.
const CORES_MAX: usize = 1_024;

/// Most servers at a time.
const REPLICAS_MAX: usize = 64;

/// What tells the cases apart.
pub(super) const NAMES: [&str; 2] = ["variant", "rate"];

/// What to compare.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Plan {
    /// Another plan under this one.
    include: Option<String>,
    /// What it is about, for people.
    pub(super) title: String,
    /// Why its numbers are what they are, for people.
    pub(super) about: String,
    /// What is served. Default: the synthetic service.
    pub(super) app: App,
    /// How often each point runs, each time with other arrivals. Default 1.
    pub(super) rounds: u32,
    /// Processors of the server. Default 1, shared by reading, writing and serving.
    pub(super) cores: usize,
    /// Servers, each with all keys; they share the processors. Default 1. The load's clients are
    /// clients of all of them if `load.retry` says so.
    pub(super) replicas: usize,
    /// Processors that a replica and the noise beside it may use, together. Default: no limit.
    pub(super) limit: Option<f64>,
    /// What disturbs them.
    pub(super) noise: Vec<Noise>,
    /// The configuration of the server, as in a file of `seawall serve`.
    pub(super) serve: Table,
    /// What serves in place of `seawall serve`: a program and its arguments, from the folder in
    /// which this one was started. It prints `{"address":"127.0.0.1:PORT"}` in a line once it
    /// listens, and ends with its standard input; `serve` is not told to it.
    program: Vec<String>,
    /// Options of `seawall load`, without the dashes before them and with `_` for those within.
    pub(super) load: Table,
    /// Requests per second that `1x` means.
    capacity: Option<Value>,
    /// The rates that are offered, as `seawall load --rate` has them.
    pub(super) rates: Vec<Value>,
    /// What is compared.
    #[serde(rename = "variant")]
    pub(super) variants: Vec<Variant>,
    /// Metrics that the table of all points shows. Default: the usual ones.
    pub(super) columns: Vec<String>,
    /// What is drawn. Default: the usual metrics over the rate.
    #[serde(rename = "figure")]
    figures: Vec<Figure>,
    /// What the results should say.
    #[serde(rename = "claim")]
    pub(super) claims: Vec<Claim>,
}

/// What is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum App {
    #[default]
    Synthetic,
    Kv,
    /// Programs of others, which speak HTTP: there are only points that were saved.
    Http,
    Rocks,
    Columns,
    Search,
}

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    /// Its name in results and claims.
    pub(super) name: String,
    /// What goes over the plan's configuration of the server.
    #[serde(default)]
    serve: Table,
    /// In place of the plan's program.
    program: Option<Vec<String>>,
    /// What goes over the plan's load.
    #[serde(default)]
    load: Table,
    /// False where it runs without the plan's noise.
    #[serde(default = "yes")]
    noise: bool,
}

fn yes() -> bool {
    true
}

/// A variant, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    /// What each replica's `seawall serve` is told beyond core and address; or, if it is another
    /// program, that and its arguments.
    pub(super) serve: Vec<Vec<String>>,
    /// Whether it is.
    pub(super) is_program: bool,
    /// The load, but for servers, rates and seed.
    pub(super) offer: Offer,
    /// Whether the plan's noise disturbs it.
    pub(super) noise: bool,
}

/// A rate, ready to be offered.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    pub(super) label: String,
    pub(super) rates: Rates,
}

/// The parts of a plan that have a form of their own, read for messages with line and column.
#[derive(Deserialize)]
struct Forms {
    #[serde(default)]
    #[expect(dead_code, reason = "only the errors of reading it matter")]
    serve: serve::Config,
    #[serde(default)]
    #[expect(dead_code, reason = "only the errors of reading it matter")]
    load: std::collections::BTreeMap<Key, IgnoredAny>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            include: None,
            title: String::new(),
            about: String::new(),
            app: App::default(),
            rounds: 1,
            cores: 1,
            replicas: 1,
            limit: None,
            noise: Vec::new(),
            serve: Table::new(),
            program: Vec::new(),
            load: Table::new(),
            capacity: None,
            rates: Vec::new(),
            variants: Vec::new(),
            columns: Vec::new(),
            figures: Vec::new(),
            claims: Vec::new(),
        }
    }
}

impl App {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Kv => "kv",
            Self::Http => "http",
            Self::Rocks => "rocks",
            Self::Columns => "columns",
            Self::Search => "search",
        }
    }

    /// Whether this build has it.
    fn is_there(self) -> bool {
        match self {
            Self::Synthetic | Self::Kv | Self::Http => true,
            Self::Rocks => cfg!(feature = "rocks"),
            Self::Columns => cfg!(feature = "columns"),
            Self::Search => cfg!(feature = "search"),
        }
    }
}

impl Plan {
    /// Reads a plan and lays `settings` over it, keys with dots.
    ///
    /// # Errors
    ///
    /// Names line and column, key or field, and what is allowed.
    pub(super) fn read(
        text: &str,
        settings: &[(String, Value)],
        open: Open<'_>,
    ) -> Result<Self, PlanError> {
        let mut whole = plan::with_included(text, parse, open)?;
        for (key, value) in settings {
            table::insert(&mut whole, key, value.clone())
                .map_err(|error| PlanError::field(key, error.to_string()))?;
        }
        let plan = Self::deserialize(whole).map_err(|error| PlanError::syntax(&error))?;
        plan.check()?;
        Ok(plan)
    }

    /// The same with these variants and rates alone, if any are named; claims that need others are
    /// left out.
    ///
    /// # Errors
    ///
    /// Names the variant that is not there, or the rate that is none.
    pub(super) fn only(mut self, names: &[String], rates: &[String]) -> Result<Self, PlanError> {
        if let Some(name) =
            names.iter().find(|name| !self.variants.iter().any(|v| v.name == **name))
        {
            let known: Vec<&str> = self.variants.iter().map(|variant| &*variant.name).collect();
            let problem = format!("there is no {name}; allowed: {}", known.join(", "));
            return Err(PlanError::field("--only", problem));
        }
        if !names.is_empty() {
            self.variants.retain(|variant| names.contains(&variant.name));
        }
        if !rates.is_empty() {
            self.rates = rates.iter().cloned().map(Value::String).collect();
        }
        let cases = self.cases();
        let cases: Vec<&Params> = cases.iter().collect();
        self.claims.retain(|claim| claim.check(&cases, |_| Ok(())).is_ok());
        self.check()?;
        Ok(self)
    }

    /// Labels of all cases: each rate, and at each all variants.
    pub(super) fn cases(&self) -> Vec<Params> {
        let of_rate = |rate: &Value| {
            let rate = label(rate);
            self.variants.iter().map(move |variant| case(&variant.name, &rate))
        };
        self.rates.iter().flat_map(of_rate).collect()
    }

    /// Its figures, or the usual ones.
    pub(super) fn figures(&self) -> Vec<Figure> {
        if self.figures.is_empty() { Figure::usual("rate") } else { self.figures.clone() }
    }

    /// Whether any of them shows runs over time.
    pub(super) fn shows_time(&self) -> bool {
        self.figures.iter().any(Figure::shows_time)
    }

    /// Whether any of them shows the distribution of the latencies.
    pub(super) fn shows_latencies(&self) -> bool {
        self.figures.iter().any(Figure::shows_latencies)
    }

    /// The variants, each with its server and its load.
    ///
    /// # Errors
    ///
    /// Names the variant and the field that makes no sense, and what is allowed.
    pub(super) fn subjects(&self) -> Result<Vec<Subject>, PlanError> {
        self.variants.iter().map(|variant| self.subject(variant)).collect()
    }

    /// The rates.
    ///
    /// # Errors
    ///
    /// Names the one that is none, and what is allowed.
    pub(super) fn rates(&self) -> Result<Vec<Rate>, PlanError> {
        let capacity = match self.capacity.as_ref().map(|value| label(value).parse()) {
            None => None,
            Some(Ok(Load::PerSecond(rate))) if rate > 0.0 => Some(rate),
            Some(_) => {
                let problem = "write requests per second, such as 850 or 10k; allowed: above 0";
                return Err(PlanError::field("capacity", problem));
            }
        };
        let rate = |value: &Value| {
            let label = label(value);
            let problem = |text: String| PlanError::field("rates", format!("{label}: {text}"));
            let schedule: Schedule = label
                .parse()
                .map_err(|e: <Schedule as std::str::FromStr>::Err| problem(e.to_string()))?;
            let rates = schedule.rates(capacity).map_err(|error| problem(error.to_string()))?;
            Ok(Rate { label, rates })
        };
        self.rates.iter().map(rate).collect()
    }

    fn subject(&self, variant: &Variant) -> Result<Subject, PlanError> {
        let problem = |problem: String| PlanError::Case {
            case: format!("variant {}", variant.name),
            problem,
        };
        let (mut serve, mut load) = (self.serve.clone(), self.load.clone());
        table::lay(&mut serve, &variant.serve);
        table::lay(&mut load, &variant.load);
        let offer = arguments::offer(self.app, &serve, &load).map_err(problem)?;
        let program = variant.program.as_ref().unwrap_or(&self.program);
        let replica = |replica| {
            let mut serve = serve.clone();
            let noise = self.noise.iter().filter(|noise| noise.replicas.contains(&replica));
            let noise = noise.filter(|_| variant.noise);
            if !program.is_empty() {
                let more = noise.flat_map(|noise| &noise.program);
                return Ok(program.iter().chain(more).cloned().collect());
            }
            noise.for_each(|noise| table::lay(&mut serve, &noise.serve));
            let config = serve::Config::deserialize(serve.clone())
                .map_err(|error| problem(format!("serve: {}", one_line(&error))))?;
            config.validate().map_err(|error| problem(format!("serve.{error}")))?;
            Ok(arguments::serve(self.app, &serve))
        };
        let serve = (0..self.replicas).map(replica).collect::<Result<_, PlanError>>()?;
        let (name, is_program) = (variant.name.clone(), !program.is_empty());
        Ok(Subject { name, serve, is_program, offer, noise: variant.noise })
    }

    fn check(&self) -> Result<(), PlanError> {
        let refuse = |field: &str, problem: String| Err(PlanError::field(field, problem));
        if !(1..=1_000).contains(&self.rounds) {
            return refuse("rounds", "allowed is 1 to 1000".into());
        }
        if !(1..=CORES_MAX).contains(&self.cores) {
            return refuse("cores", format!("allowed is 1 to {CORES_MAX}"));
        }
        if !(1..=REPLICAS_MAX).contains(&self.replicas) {
            return refuse("replicas", format!("allowed is 1 to {REPLICAS_MAX}"));
        }
        if self.limit.is_some_and(|limit| !(0.01..=1024.0).contains(&limit)) {
            return refuse("limit", "allowed is 0.01 to 1024 processors".into());
        }
        for noise in &self.noise {
            noise.check(self.replicas).or_else(|problem| refuse("noise", problem))?;
        }
        if self.variants.is_empty() {
            return refuse("variant", "there is nothing to compare".into());
        }
        if self.rates.is_empty() {
            return refuse("rates", "there are none; write such as rates = [400, \"1.6k\"]".into());
        }
        if let Some(twice) = plan::repeated(self.variants.iter().map(|variant| &variant.name)) {
            return refuse("variant.name", format!("{twice} is there twice"));
        }
        let rates = self.rates()?;
        if let Some(twice) = plan::repeated(rates.iter().map(|rate| &rate.label)) {
            return refuse("rates", format!("{twice} is there twice"));
        }
        let points = rates.len() * self.variants.len() * self.rounds as usize;
        if points > POINTS_MAX {
            return refuse("rounds", format!("they make {points} points; allowed: {POINTS_MAX}"));
        }
        let subjects = self.subjects()?;
        let programs = subjects.iter().filter(|subject| subject.is_program).count();
        for noise in &self.noise {
            if !noise.program.is_empty() && programs == 0 {
                return refuse("noise.program", "no variant has a program that takes them".into());
            }
            if !noise.serve.is_empty() && programs == subjects.len() {
                return refuse("noise.serve", "programs serve in place of `seawall serve`".into());
            }
        }
        let mut classes: Vec<String> = Vec::new();
        for class in subjects.iter().flat_map(|subject| subject.offer.workload.classes()) {
            if !classes.iter().any(|known| known == class) {
                classes.push(class.to_owned());
            }
        }
        let known = |metric: &str| check_metric_of_requests(metric, &classes, &point::METRICS);
        for column in &self.columns {
            known(column).map_err(|problem| PlanError::field("columns", problem))?;
        }
        self.figures
            .iter()
            .try_for_each(|figure| figure.check(&NAMES.map(str::to_owned), &[], known))?;
        let cases = self.cases();
        let cases: Vec<&Params> = cases.iter().collect();
        self.claims.iter().try_for_each(|claim| claim.check(&cases, known))
    }
}

/// The labels of a case.
pub(super) fn case(variant: &str, rate: &str) -> Params {
    let labels = [("variant", variant), ("rate", rate)];
    Params(labels.map(|(name, label)| (name.to_owned(), label.to_owned())).into())
}

fn parse(text: &str) -> Result<Table, PlanError> {
    let plan: Plan = toml::from_str(text).map_err(|error| PlanError::syntax(&error))?;
    // Before it is told that the server's configuration knows nothing of it.
    if !plan.app.is_there() {
        let name = plan.app.name();
        let how = format!("{name} is not in this build; build with `--features {name}`");
        return Err(PlanError::field("app", how));
    }
    let _: Forms = toml::from_str(text).map_err(|error| PlanError::syntax(&error))?;
    text.parse().map_err(|error| PlanError::syntax(&error))
}

fn one_line(error: &toml::de::Error) -> String {
    error.to_string().trim_end().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn nothing(name: &str) -> Result<String, String> {
        Err(format!("{name} is not there"))
    }

    #[test]
    fn the_documentation_shows_a_plan_that_can_be_read() {
        let text = include_str!("../../../../docs/comparisons.md");
        let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let plan = Plan::read(block.unwrap(), &[], &nothing).unwrap();
        assert_eq!((plan.variants.len(), plan.rates.len(), plan.claims.len()), (2, 3, 1));
    }

    #[test]
    fn every_plan_of_ours_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/live");
        let open = |name: &str| {
            std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
        };
        let mut count = 0;
        for file in std::fs::read_dir(&folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            // Those are of `seawall graph`.
            if name.starts_with("graph-") {
                continue;
            }
            match Plan::read(&open(&name).unwrap(), &[], &open) {
                Ok(plan) => {
                    let variants = match &*name {
                        "holds.toml" => 6,
                        "replicas-lock.toml" => 12,
                        name if name.starts_with("replicas") => 11,
                        _ => 8,
                    };
                    assert_eq!(plan.variants.len(), variants, "{name}");
                    count += 1;
                }
                // What the others include offers no rates by itself.
                Err(error) if name == "synthetic.toml" => {
                    assert!(error.to_string().starts_with("rates: "), "{error}");
                }
                // It needs an index, and a build with it.
                Err(error) if name == "search.toml" => {
                    let error = error.to_string();
                    assert!(error.contains("search is not in") || error.contains("words.tsv"));
                }
                Err(error) if ["rocks.toml", "columns.toml"].contains(&&*name) => {
                    assert!(error.to_string().contains("is not in this build"), "{error}");
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let others = [cfg!(feature = "rocks"), cfg!(feature = "columns")];
        assert_eq!(count, 14 + others.into_iter().filter(|is_there| *is_there).count());
    }

    #[test]
    fn a_program_takes_what_noise_gives_to_programs() {
        let read = |text: &str| Plan::read(text, &[], &|_| Err("none".into()));
        let with = |noise: &str, program: &str| {
            let head = format!("replicas = 2\nrates = [1]\n{program}\n[load]\nretry = true\n");
            read(&format!("{head}[[noise]]\nreplicas = [1]\n{noise}\n[[variant]]\nname = 'a'"))
        };
        let (batch, java) = ("program = ['--batch', '7']", "program = ['java', 'Store']");
        let subjects = with(batch, java).unwrap().subjects().unwrap();
        assert!(subjects[0].is_program);
        assert_eq!(subjects[0].serve[0], ["java", "Store"]);
        assert_eq!(subjects[0].serve[1], ["java", "Store", "--batch", "7"]);
        let error = |noise, program| with(noise, program).unwrap_err().to_string();
        assert!(error(batch, "").starts_with("noise.program: "), "{}", error(batch, ""));
        let serve = "serve.server.slo = '1s'";
        assert!(error(serve, java).starts_with("noise.serve: "), "{}", error(serve, java));
        let both = format!("{batch}\n{serve}");
        assert!(error(&both, java).contains("either"), "{}", error(&both, java));
    }

    #[test]
    fn what_a_variant_says_goes_over_the_plan() {
        let text = "rates = [1, '2k']
            [serve.server]
            budget = { fixed = '5ms' }
            [load]
            sessions = 3
            [[variant]]
            name = 'off'
            serve.server.budget = 'off'
            [[variant]]
            name = 'crowd'
            load.sessions = 4";
        let plan = Plan::read(text, &[("load.time".into(), "2s".into())], &nothing).unwrap();
        let subjects = plan.subjects().unwrap();
        assert_eq!(subjects[0].serve[0], ["--json", "--set=server.budget=\"off\"", "synthetic"]);
        let sessions: Vec<u32> = subjects.iter().map(|subject| subject.offer.sessions).collect();
        assert_eq!(sessions, [3, 4]);
        assert_eq!(subjects[1].offer.time.as_secs(), 2);
        let cases: Vec<String> = plan.cases().iter().map(ToString::to_string).collect();
        assert_eq!(cases[..2], ["rate 1, variant off", "rate 1, variant crowd"]);
        let alone = plan.only(&["crowd".into()], &["5".into()]).unwrap();
        assert_eq!(alone.cases(), [case("crowd", "5")]);
    }
}
