//! Plans: what goes over what, and how claims and tuning judge results.

use std::sync::LazyLock;

use seawall_measure::latency::Slower;
use seawall_measure::{Bin, ClassSummary};
use seawall_sim::plan::{Choice, Claim, Figure, Measured, Params, Spot, Verdict};
use seawall_sim::{Plan, Run};

fn plan(text: &str) -> Plan {
    Plan::read(text, &[], |file| Err(format!("{file} is not there")))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A run with these labels and this goodput; all else is of a run that was short.
fn run(labels: &[(&str, &str)], seed: u64, goodput: f64) -> Run {
    static SHORT: LazyLock<Run> = LazyLock::new(|| {
        let text = "scenario.workload.clients = 2
            scenario.run = { warm_up = '1ms', time = '1ms' }";
        plan(text).run(|_, _| {}).unwrap().remove(0)
    });
    let mut run = SHORT.clone();
    let own = |&(name, label): &(&str, &str)| (name.to_owned(), label.to_owned());
    run.params = Params(labels.iter().map(own).collect());
    (run.seed, run.figures.goodput) = (seed, goodput);
    run
}

/// Two systems at two loads with two seeds; goodput of each seed.
fn table(cells: [(&str, &str, [f64; 2]); 4]) -> Vec<Run> {
    let runs = cells.iter().flat_map(|(variant, load, goodputs)| {
        let labels = [("variant", *variant), ("load", *load)];
        [1, 2].map(|seed| run(&labels, seed, goodputs[seed as usize - 1]))
    });
    runs.collect()
}

const RESULTS: [(&str, &str, [f64; 2]); 4] = [
    ("ours", "1x", [100.0, 102.0]),
    ("theirs", "1x", [100.0, 100.0]),
    ("ours", "2x", [98.0, 100.0]),
    ("theirs", "2x", [50.0, 50.0]),
];

fn claim(text: &str) -> Claim {
    toml::from_str(&format!("id = 'C'\ntext = ''\nmetric = 'goodput'\n{text}")).unwrap()
}

#[track_caller]
fn judged(claim_text: &str, expected: f64, reproduced: bool) {
    let claim = claim(claim_text);
    let runs = table(RESULTS);
    let judgement = claim.judge(&runs);
    let measured = judgement.measured.unwrap();
    assert!((measured - expected).abs() < 1e-9, "{measured}");
    assert_eq!(judgement.verdict == Verdict::Reproduced, reproduced, "{judgement:?}");
}

#[test]
fn later_parts_go_over_earlier_ones() {
    let text = "
        scenario.server.cores = 1
        scenario.workload.clients = 1
        [[variant]]
        name = 'plain'
        [[variant]]
        name = 'own'
        scenario.server.cores = 4
        for.many.workload.clients = 5
        [tuned.own]
        scenario = { server.cores = 3, workload.clients = 3 }
        for.many.workload.clients = 4
        [tuned.plain.for]
        few.server.cores = 9
        [[sweep]]
        name = 'crowd'
        [[sweep.point]]
        label = 'few'
        scenario.workload.clients = 2
        [[sweep.point]]
        label = 'many'
        scenario.server.cores = 2";
    let cases = plan(text).cases().unwrap();
    let numbers: Vec<(u32, u32)> = cases
        .iter()
        .map(|case| (case.scenario.server.cores, case.scenario.workload.clients))
        .collect();
    // By point, and at each plain before own.
    assert_eq!(numbers, [(9, 2), (4, 3), (2, 1), (4, 5)]);
    let long = plan(&format!("full.server.cores = 8\n{text}")).full().cases().unwrap();
    assert!(long.iter().all(|case| case.scenario.server.cores == 8));
}

#[test]
fn a_plan_goes_over_what_it_includes_and_that_over_what_it_includes() {
    let open = |file: &str| match file {
        "middle" => Ok("include = 'bottom'\nseeds = 2\nscenario.server.cores = 2".to_owned()),
        "bottom" => Ok("seeds = 3\ntitle = 'bottom'\nscenario.workload.clients = 7".to_owned()),
        _ => Err("unknown".into()),
    };
    let plan = Plan::read("include = 'middle'\nscenario.server.cores = 3", &[], open).unwrap();
    let scenario = &plan.cases().unwrap()[0].scenario;
    assert_eq!((plan.seeds, plan.title.as_str()), (2, "bottom"));
    assert_eq!((scenario.server.cores, scenario.workload.clients), (3, 7));
}

#[test]
fn a_value_is_near_or_a_bound() {
    let ours = "at = { variant = 'ours', load = '1x' }";
    judged(&format!("{ours}\nband = 'near'\npaper = 85.0"), 101.0, true);
    judged(&format!("{ours}\nband = 'near'\npaper = 84.0"), 101.0, false);
    judged(&format!("{ours}\nband = 'abs'\npaper = 101.5"), 101.0, false);
    judged(&format!("{ours}\nband = 'abs'\npaper = 101.5\nlower = true"), 101.0, true);
}

#[test]
fn an_effect_is_half_there_or_has_a_direction() {
    let at =
        |load| format!("at = {{ variant = 'ours', load = '{load}' }}\nover.variant = 'theirs'");
    let twice = at("2x");
    judged(&format!("{twice}\nmeasure = 'ratio'\nband = 'half'\npaper = 2.9"), 1.98, true);
    judged(&format!("{twice}\nmeasure = 'ratio'\nband = 'half'\npaper = 3.0"), 1.98, false);
    judged(&format!("{twice}\nmeasure = 'gain'\nband = 'dir'"), 98.0, true);
    judged(&format!("{twice}\nmeasure = 'gain'\nband = 'dir'\nlower = true"), 98.0, false);
    // At the capacity the lead is 1 ± 1: no direction.
    judged(&format!("{}\nmeasure = 'difference'\nband = 'dir'", at("1x")), 1.0, false);
}

#[test]
fn of_several_cases_the_least_favourable_is_taken() {
    let all = "at.variant = 'ours'\nover.variant = 'theirs'\nmeasure = 'gain'\nband = 'dir'";
    judged(all, 1.0, false);
    judged(&format!("{all}\npick = 'most'"), 98.0, true);
    judged(&format!("{all}\npick = 'mean'"), 49.5, true);
}

#[test]
fn an_effect_may_be_larger_than_elsewhere() {
    let lead = "at = { variant = 'ours', load = '2x' }\nover.variant = 'theirs'\n\
        measure = 'gain'\nband = 'dir'\nthan.load = '1x'";
    // By seed: 96 - 0, and 100 - 2.
    judged(lead, 97.0, true);
}

#[test]
fn means_may_be_compared_where_single_runs_have_next_to_nothing() {
    let runs = table([
        ("ours", "1x", [0.0, 4.0]),
        ("theirs", "1x", [0.0, 16.0]),
        ("ours", "2x", [3.0, 1.0]),
        ("theirs", "2x", [0.0, 8.0]),
    ]);
    let judge = |load: &str, means: bool| {
        let text = format!(
            "at = {{ variant = 'ours', load = '{load}' }}\nover.variant = 'theirs'\n\
             measure = 'gain'\nlower = true\nband = 'dir'\nmeans = {means}"
        );
        let claim = claim(&text);
        let judgement = claim.judge(&runs);
        (judgement.measured, judgement.error)
    };
    // Nothing on both sides is no gain: one by one it is 0 and -75 %.
    assert_eq!(judge("1x", false), (Some(-37.5), Some(37.5)));
    // Without the first seed it is -75 %, too, and without the second nothing.
    assert_eq!(judge("1x", true), (Some(-75.0), Some(37.5)));
    assert_eq!(judge("2x", false), (None, None), "three against nothing is no number");
    assert_eq!(judge("2x", true), (None, None), "and it would hang on one run");
}

#[test]
fn a_figure_has_an_slo_if_all_that_it_shows_have_the_same() {
    let mut runs = table(RESULTS);
    for run in &mut runs {
        run.slo_us = if run.params.0["load"] == "1x" { 10.0 } else { 20.0 };
    }
    let figure = |at: &str| -> Figure {
        toml::from_str(&format!("x = 'variant'\ny = 'p99_us'\n{at}")).unwrap()
    };
    assert_eq!(figure("at.load = '2x'").slo_us(&runs), Some(20.0));
    assert_eq!(figure("").slo_us(&runs), None);
    assert_eq!(figure("at.load = '3x'").slo_us(&runs), None);
}

/// A run of which only a number over time is known.
struct Timed(Params, u64, Vec<(f64, f64)>);

impl Measured for Timed {
    fn params(&self) -> &Params {
        &self.0
    }
    fn seed(&self) -> u64 {
        self.1
    }
    fn slo_us(&self) -> f64 {
        0.0
    }
    fn metric(&self, _name: &str) -> Option<f64> {
        None
    }
    fn classes(&self) -> &[ClassSummary] {
        &[]
    }
    fn series(&self) -> &[Bin] {
        &[]
    }
    fn over_time(&self, _name: &str) -> Vec<(f64, f64)> {
        self.2.clone()
    }
    fn ccdf(&self) -> &[Slower] {
        &[]
    }
}

#[test]
fn time_goes_on_also_where_the_first_run_has_a_hole() {
    let run = |seed, points| Timed(Params::default(), seed, points);
    let runs =
        [run(1, vec![(9.0, 5.0), (11.0, 5.0)]), run(2, vec![(9.0, 7.0), (10.0, 1.0), (11.0, 7.0)])];
    let figure: Figure = toml::from_str("x = 'time'\ny = 'p99_us'").unwrap();
    let drawn = figure.draw(&runs);
    assert_eq!(drawn.labels, ["9.000000", "10.000000", "11.000000"]);
    let spot = |x, y| Spot { x, y, valid: true };
    assert_eq!(drawn.lines[0].1, [spot(0.0, 6.0), spot(1.0, 1.0), spot(2.0, 6.0)]);
}

#[test]
fn extremes_stand_for_all_cases() {
    let worst = "at.variant = 'ours'\nover.variant = 'theirs'\nextreme = 'lowest'\n\
        measure = 'difference'\nband = 'dir'";
    judged(worst, 49.0, true);
}

#[test]
fn without_a_number_nothing_is_reproduced() {
    let mut runs = table(RESULTS);
    runs.iter_mut().for_each(|run| run.figures.p99_us = None);
    let claim = claim("band = 'abs'\npaper = 1e9\nlower = true\nat.variant = 'ours'");
    let claim = Claim { metric: "p99_us".into(), ..claim };
    let judgement = claim.judge(&runs);
    assert_eq!((judgement.measured, judgement.verdict), (None, Verdict::NotReproduced));
}

#[test]
fn tuning_takes_the_highest_goodput_over_what_one_setting_serves() {
    let text = "
        tune = { variant = 'seda', each = 'service', base = 'exp:10us' }
        tuned.seda.scenario.server.cores = 77      # of an earlier time: not where it is tuned
        [[variant]]
        name = 'seda'
        scenario.admission.algorithm = 'seda'
        [[sweep]]
        key = 'workload.service'
        values = ['exp:1us', 'exp:10us']
        [[sweep]]
        key = 'admission.seda.target'
        values = ['1ms', '2ms']
        [[sweep]]
        key = 'workload.load'
        values = ['1x', '2x']";
    let plan = plan(text);
    let goodput = |service: &str, target: &str, load: &str| match (service, target, load) {
        ("exp:1us", "1ms", "1x") => 90.0,
        ("exp:1us", _, _) => 60.0,
        (_, "2ms", _) => 70.0,
        _ => 50.0,
    };
    let runs: Vec<Run> = plan
        .cases()
        .unwrap()
        .iter()
        .map(|case| {
            assert_ne!(case.scenario.server.cores, 77);
            let label = |name: &str| case.params.0[name].as_str();
            let goodput = goodput(label("service"), label("target"), label("load"));
            Run { params: case.params.clone(), ..run(&[], 1, goodput) }
        })
        .collect();
    let best = plan.best(&runs).unwrap();
    let found: Vec<(Option<&str>, String, f64)> = best
        .iter()
        .map(|best| (best.label.as_deref(), best.scenario.to_string(), best.goodput))
        .collect();
    let target = |target: &str| format!("[admission.seda]\ntarget = \"{target}\"\n");
    assert_eq!(found, [(Some("exp:1us"), target("1ms"), 75.0), (None, target("2ms"), 70.0)]);
    assert!(best.iter().all(|best| best.candidates == 2));
}

#[test]
fn figures_have_a_line_for_each_thing_compared() {
    let runs = table(RESULTS);
    let figure = |text: &str| toml::from_str::<Figure>(text).unwrap();
    let drawn = figure("x = 'load'\ny = 'goodput'").draw(&runs);
    assert_eq!(drawn.labels, ["1x", "2x"]);
    let spot = |x, y| Spot { x, y, valid: true };
    let line = |name: &str, points: [f64; 2]| {
        (name.to_owned(), vec![spot(0.0, points[0]), spot(1.0, points[1])])
    };
    assert_eq!(drawn.lines, [line("ours", [101.0, 99.0]), line("theirs", [100.0, 50.0])]);
    let mut across = figure("x = 'variant'\ny = 'goodput'");
    across.at.insert("load".into(), Choice::One("2x".into()));
    assert_eq!(across.draw(&runs).lines, [line("", [99.0, 50.0])]);
    let scatter = figure("x = 'goodput'\ny = 'goodput'").draw(&runs);
    let points = |name: &str, a, b| (name.to_owned(), vec![spot(a, a), spot(b, b)]);
    assert_eq!(scatter.lines, [points("ours", 101.0, 99.0), points("theirs", 100.0, 50.0)]);
    assert!(scatter.labels.is_empty());
}

#[test]
fn the_documentation_shows_plans_that_can_be_read() {
    let text = include_str!("../../../../docs/plans.md");
    let blocks: Vec<&str> = text.split("```toml\n").skip(1).collect();
    assert!(blocks.len() > 3, "{}", blocks.len());
    for block in blocks {
        let block = block.split("```").next().unwrap();
        // Those without a sweep are parts, whose labels are elsewhere.
        if block.contains("[[sweep]]") {
            plan(block);
        } else {
            toml::from_str::<Plan>(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        }
    }
}

#[test]
fn a_figure_over_the_latency_is_what_is_left_of_the_distribution() {
    let text = "
        seeds = 2
        scenario.workload = { clients = 2, load = '0.5x' }
        scenario.run = { warm_up = '1ms', time = '20ms' }
        [[variant]]
        name = 'one'
        [[variant]]
        name = 'other'
        scenario.server.cores = 1
        [[figure]]
        x = 'latency'
        y = 'slower'";
    let plan = plan(text);
    let runs = plan.run(|_, _| {}).unwrap();
    let drawn = plan.figures[0].draw(&runs);
    assert!(drawn.labels.is_empty());
    let names: Vec<&str> = drawn.lines.iter().map(|line| &*line.0).collect();
    assert_eq!(names, ["one", "other"]);
    for (name, points) in &drawn.lines {
        assert!(points.is_sorted_by(|a, b| a.x <= b.x && a.y > b.y), "{name}: {points:?}");
        assert!((points[0].y - 1.0).abs() < 1e-9, "all are slower than nothing: {points:?}");
        let median = points.iter().find(|point| point.y <= 0.5).unwrap();
        let of_case = runs.iter().filter(|run| run.params.0["variant"] == *name);
        let p50: Vec<f64> = of_case.map(|run| run.figures.p50_us.unwrap()).collect();
        let mean = p50.iter().sum::<f64>() / p50.len() as f64;
        assert!((median.x / mean - 1.0).abs() < 0.05, "{name}: {} for {mean}", median.x);
    }
    let other = text.replace("slower", "goodput");
    let error = Plan::read(&other, &[], |_| Err(String::new())).unwrap_err().to_string();
    assert!(error.contains("goodput is not known over the latency; allowed: slower"), "{error}");
}
