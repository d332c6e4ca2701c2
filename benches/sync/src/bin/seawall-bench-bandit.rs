//! Prints how many decisions the bandit of a memory semaphore takes to find the best capacity, from
//! the start and after what requests need has changed.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use seawall_control::Rng;
use seawall_control::bandit::{Bandit, Config};

/// How often everything is repeated, each time with another seed.
const SEEDS: u64 = 100;

/// What memory gives at most, whatever the unit.
const MOST: f64 = 45.0;

/// Decisions after which a search that has found nothing is given up, and from which to which the
/// mean capacity is taken.
const DECISIONS_MAX: u32 = 2_000;

/// A machine and what its requests need: the bandwidth is used up by that many holders, one after
/// the other.
struct Case {
    cores: u32,
    enough: &'static [u32],
    noise: f64,
}

/// What one phase of one run showed.
struct Phase {
    /// Decisions until the best capacity was taken for the best.
    found: Option<u32>,
    /// Mean capacity from then on.
    mean: f64,
}

fn main() {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "cores",
        "noise",
        "best",
        "mean",
        "p95",
        "most",
        "mean ms",
        "not found",
        "capacity",
    ]);
    for column in 0..9 {
        table.column_mut(column).expect("it has a header").set_cell_alignment(CellAlignment::Right);
    }
    let paper: &[u32] = &[6, 13, 6];
    for noise in [0.0, 0.02, 0.05] {
        for (cores, enough) in [(18, paper), (45, &[16, 24, 16])] {
            add_rows(&mut table, &Case { cores, enough, noise });
        }
    }
    println!("{table}");
    println!(
        "Decisions from the start, or from a change of what requests need, until the capacity that \
         just uses memory up has the highest reward; of {SEEDS} seeds. Capacity is the mean of \
         what was played from then to decision {DECISIONS_MAX}. Parameters are the defaults, \
         noise is normal and relative."
    );
}

fn add_rows(table: &mut Table, case: &Case) {
    let runs: Vec<Vec<Phase>> = (0..SEEDS).map(|seed| run(case, seed)).collect();
    let mut before = 1;
    for (index, enough) in case.enough.iter().enumerate() {
        let phases = || runs.iter().map(|phases| &phases[index]);
        let mut found: Vec<u32> = phases().filter_map(|phase| phase.found).collect();
        found.sort_unstable();
        let mean = f64::from(found.iter().sum::<u32>()) / found.len().max(1) as f64;
        let at = |part: f64| found.get((part * found.len() as f64) as usize).copied();
        let interval = Config::default().interval.as_secs_f64() * 1e3;
        let capacity = phases().map(|phase| phase.mean).sum::<f64>() / runs.len() as f64;
        table.add_row([
            case.cores.to_string(),
            format!("{:.0} %", 100.0 * case.noise),
            format!("{before} → {enough}"),
            format!("{mean:.0}"),
            at(0.95).map_or("–".into(), |p95| p95.to_string()),
            found.last().map_or("–".into(), u32::to_string),
            format!("{:.0}", mean * interval),
            (runs.len() - found.len()).to_string(),
            format!("{capacity:.1}"),
        ]);
        before = *enough;
    }
}

fn run(case: &Case, seed: u64) -> Vec<Phase> {
    let mut bandit = Bandit::new(&Config::default(), case.cores, seed);
    let mut rng = Rng::new(!seed);
    case.enough.iter().map(|enough| phase(&mut bandit, &mut rng, *enough, case.noise)).collect()
}

fn phase(bandit: &mut Bandit, rng: &mut Rng, enough: u32, noise: f64) -> Phase {
    let (mut found, mut sum, mut count) = (None, 0, 0);
    for decision in 1..=DECISIONS_MAX {
        let holders = bandit.capacity().min(enough);
        let bandwidth = MOST * f64::from(holders) / f64::from(enough);
        bandit.on_interval((bandwidth * (1.0 + noise * rng.normal())).max(0.0));
        if found.is_none() && best(bandit) == enough {
            found = Some(decision);
        }
        if found.is_some() {
            (sum, count) = (sum + bandit.capacity(), count + 1);
        }
    }
    Phase { found, mean: f64::from(sum) / f64::from(count.max(1)) }
}

/// The capacity with the highest reward.
fn best(bandit: &Bandit) -> u32 {
    let rewards = bandit.rewards().iter().copied().zip(1..);
    let first = (f64::NEG_INFINITY, 0);
    rewards.fold(first, |best, arm| if arm.0 > best.0 { arm } else { best }).1
}
