//! `seawall sim` and `seawall reproduce`: equal plans give equal results, and verdicts come from
//! them.

use serde_json::Value;

use crate::support::{fail, file, file_with, succeed};

/// Two algorithms at two loads, with a shift, a lock and a crash; over in a moment.
const PLAN: &str = "
    title = 'A small plan'
    seeds = 2
    [scenario]
    run = { warm_up = '5ms', time = '20ms', bin = '2ms' }
    server.cores = 2
    network.delay = 'exp:5us'
    [scenario.workload]
    clients = 20
    class = [
        { name = 'free', share = 3.0, steps = [{ cpu = 'exp:10us' }] },
        { name = 'held', share = 1.0, steps = [
            { cpu = 'exp:5us', wait = 'exp:10us', lock = 'hot' },
        ] },
    ]
    crash = [{ at = '12ms', share = 0.5, away = '1ms' }]
    [[variant]]
    name = 'breakwater'
    [[variant]]
    name = 'seda'
    scenario.admission = { algorithm = 'seda', seda.rate_min = 1000.0 }
    [[sweep]]
    key = 'workload.load'
    values = ['0.5x', '0s:0.9x,15ms:2x']
    [[claim]]
    id = 'C1'
    text = 'throughput grows with the load'
    metric = 'throughput'
    at = { load = '0s:0.9x,15ms:2x' }
    over = { load = '0.5x' }
    measure = 'ratio'
    band = 'dir'
";

#[test]
fn two_processes_give_equal_bytes() {
    let plan = file_with("twin.toml", PLAN);
    let json = || succeed(&["sim", &plan, "--json"]).stdout;
    let first = json();
    assert_eq!(first, json());
    let trace = |name: &str| {
        let out = file(name);
        succeed(&["sim", &plan, "--trace", out.to_str().unwrap()]);
        std::fs::read_to_string(out).unwrap()
    };
    let first_trace = trace("twin-1.trace");
    assert!(first_trace.lines().count() > 10_000, "{}", first_trace.lines().count());
    assert!(first_trace == trace("twin-2.trace"), "the traces differ");
    // A figure of the machine or of the clock would tell the twins apart only some day.
    for word in ["date", "host", "kernel", "elapsed", "wall"] {
        assert!(!first.contains(word), "{word}");
    }
}

#[test]
fn runs_as_json_have_the_swept_parameters_and_the_figures() {
    let plan = file_with("json.toml", PLAN);
    let runs = succeed(&["sim", &plan, "--json", "--set", "plan.seeds=1"]).json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let params: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| {
            let label = |name: &str| run["params"][name].as_str().unwrap();
            (label("variant"), label("load"))
        })
        .collect();
    assert_eq!(params[..2], [("breakwater", "0.5x"), ("seda", "0.5x")]);
    for run in runs {
        assert_eq!(run["seed"], 1);
        for figure in ["offered", "goodput", "throughput", "p99_us", "server_drop_rate"] {
            assert!(run["figures"][figure].is_number(), "{figure}: {run}");
        }
        let classes = run["classes"].as_array().unwrap();
        assert!(
            classes.iter().map(|class| class["name"].as_str()).eq([Some("free"), Some("held")])
        );
        assert!(!run["series"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_table_and_pictures() {
    let plan = file_with("table.toml", PLAN);
    let pictures = file("pictures");
    let said = succeed(&["sim", &plan, "--plot", pictures.to_str().unwrap()]);
    for part in ["A small plan", "variant", "goodput", "0s:0.9x,15ms:2x", "C1: throughput grows"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    for class in ["free", "held"] {
        let rows = said.stdout.lines().filter(|line| line.starts_with(class));
        assert!(rows.count() > 1, "a row for each case: {}", said.stdout);
    }
    let svg = std::fs::read_to_string(pictures.join("01-goodput.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("seda"), "{svg}");
}

/// The README's example: what the operator seeks moves the operating point.
#[test]
fn an_expression_on_the_command_line_is_what_is_sought() {
    let figures = |expression: &str| {
        let utility = format!("admission.svalinn.utility.expression='{expression}'");
        let short = ["plan.seeds=1", "run.warm_up=1s", "run.time=200ms", &utility];
        let set = short.iter().flat_map(|key| ["--set", key]);
        let plan = ["sim", "../../experiments/utility.toml", "--json"];
        let run = succeed(&plan.into_iter().chain(set).collect::<Vec<_>>()).json();
        let figure = |name: &str| run[0]["figures"][name].as_f64().unwrap();
        (figure("goodput"), figure("p99_us"), figure("server_drop_rate"))
    };
    let (goodput, p99, refused) = figures("throughput");
    assert!(refused > 0.1, "{refused}");
    let fewer = figures("throughput - 3 * drops");
    assert!(fewer.2 < 0.8 * refused, "{} of {refused}", fewer.2);
    let sooner = figures("throughput * (queue_delay < 300e-6)");
    assert!(sooner.1 < 0.8 * p99 && sooner.0 > goodput, "{sooner:?}");
}

/// LIBROS's figure 4, shorter and once: predictions beat waiting for a timeout.
#[test]
fn refusals_in_time_beat_copies_after_a_time() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/libros/figure-04.toml");
    let short = ["plan.seeds=1", "run.warm_up=100ms", "run.time=2s"];
    let set = short.iter().flat_map(|key| ["--set", key]);
    let arguments: Vec<&str> = ["sim", plan, "--json"].into_iter().chain(set).collect();
    let runs = succeed(&arguments).json();
    let of = |variant: &str| {
        let runs = runs.as_array().unwrap();
        runs.iter().find(|run| run["params"]["variant"] == variant).unwrap().clone()
    };
    let p90 = |variant: &str| of(variant)["figures"]["p90_us"].as_f64().unwrap();
    for part in ["85", "90", "95"] {
        let (libros, copies) = (format!("LIBROS-{part}"), format!("SR-{part}"));
        assert!(p90(&libros) < 0.8 * p90(&copies), "{} {}", p90(&libros), p90(&copies));
        let sent_again = |variant: &str, share: &str| of(variant)[share].as_f64().unwrap();
        assert!(sent_again(&copies, "copy_share") > 0.01);
        assert!(sent_again(&libros, "retry_share") > 0.01);
        assert!(of(&libros)["counts"]["refused_at_cpu"].as_u64().unwrap() > 100);
    }
    assert!(p90("best") < p90("L85+SR98") && p90("L85+SR98") < p90("raw"));
    let ccdf = of("raw")["ccdf"].as_array().unwrap().clone();
    let shares: Vec<f64> = ccdf.iter().map(|point| point["share"].as_f64().unwrap()).collect();
    assert!(shares.len() > 200 && shares.is_sorted_by(|a, b| a > b), "{}", shares.len());
}

#[test]
fn a_bad_plan_is_told_where() {
    let wrong = |name: &str, text: &str, expected: &[&str]| {
        let plan = file_with(name, text);
        fail(&["sim", &plan], &[&[plan.as_str()], expected].concat());
    };
    let unknown = "[scenario]\nworkload.client = 3\n";
    wrong(
        "unknown-key.toml",
        unknown,
        &["line 2, column 10", "unknown field `client`", "`clients`"],
    );
    let kind = "[scenario.server]\ncores = 'many'\n";
    wrong("kind.toml", kind, &["line 2, column 9", "invalid type", "u32"]);
    let range = "[scenario.server]\ncores = 0\n";
    wrong("range.toml", range, &["server.cores", "0 is out of range; allowed is 1 to"]);
    let utility = "[scenario.admission]\nalgorithm = 'svalinn'\n\
        svalinn.utility.expression = 'thruput'\n";
    wrong("utility.toml", utility, &["toml: svalinn.utility: \"thruput\" is no metric", "pool"]);
    let service = "[scenario.workload]\nservice = 'pareto:1us'\n";
    wrong("service.toml", service, &["line 2, column 11", "`pareto`; allowed: const:MEAN"]);
    let sweep = "[[sweep]]\nkey = 'workload.load'\n";
    wrong("sweep.toml", sweep, &["sweep: it has no values"]);
    let swept = "[[sweep]]\nkey = 'workload.lod'\nvalues = ['1x']\n";
    wrong("swept.toml", swept, &["in the case", "unknown field `lod`", "`load`"]);
    let claim = "[[claim]]\nid = 'C'\ntext = ''\nmetric = 'speed'\nband = 'abs'\npaper = 1.0\n";
    wrong(
        "claim.toml",
        claim,
        &["claim C: metric: speed is unknown; allowed are offered, goodput"],
    );
    let label = claim.replace("'speed'", "'goodput'\nat = { load = '7x' }");
    wrong("label.toml", &label, &["claim C", "no case has the load 7x"]);
    let figure = "[[figure]]\nx = 'load'\ny = 'goodput'\n";
    wrong("figure.toml", figure, &["figure.x: load is no sweep; allowed: time, latency, variant"]);
    wrong("columns.toml", "columns = ['speed']", &["columns: speed is unknown; allowed are"]);
    wrong("include.toml", "include = 'none.toml'", &["include", "none.toml"]);
    let round = file_with("round.toml", "include = 'round.toml'");
    fail(&["sim", &round], &["include: round.toml includes itself"]);
    fail(&["sim", "/nowhere.toml"], &["cannot read the plan /nowhere.toml"]);
    let plan = file_with("set.toml", PLAN);
    fail(&["sim", &plan, "--set", "workload.load=1x"], &["the plan sweeps it"]);
    fail(&["sim", &plan, "--set", "server.cores"], &["--set server.cores: write KEY=VALUE"]);
}

/// Runs that `seawall sim` printed are what `seawall reproduce` judges.
#[test]
fn verdicts_come_from_the_runs_that_sim_prints() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/breakwater/figure-10.toml");
    let short = ["run.warm_up=5ms", "run.time=10ms", "workload.clients=20"];
    let set = short.iter().flat_map(|set| ["--set", set]);
    let arguments: Vec<&str> = ["sim", plan, "--json"].into_iter().chain(set).collect();
    let runs = succeed(&arguments);
    let folder = file("runs");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("breakwater-figure-10.json"), &runs.stdout).unwrap();

    let page = file("claims.html");
    let arguments = ["reproduce", "breakwater", "--figure", "10", "--json", "--from"];
    let html = ["--html", page.to_str().unwrap()];
    let arguments = [&arguments[..], &[folder.to_str().unwrap()], &html].concat();
    let claims = succeed(&arguments).json();
    let claims = claims.as_array().unwrap();
    assert_eq!(claims.len(), 4);
    for claim in claims {
        for key in ["system", "figure", "claim", "paper", "measured", "unit", "band", "verdict"] {
            assert!(claim.get(key).is_some(), "{key}: {claim}");
        }
        let verdict = claim["verdict"].as_str().unwrap();
        assert!(["reproduced", "not reproduced"].contains(&verdict), "{verdict}");
    }

    // The first claim is about the drops at one point, and counts when it is within a fifth.
    let runs = runs.json();
    let at = |run: &&Value| run["params"]["parameters"] == "0.1 %, 8 %";
    let drops = runs.as_array().unwrap().iter().filter(at);
    let drops: Vec<f64> =
        drops.map(|run| run["figures"]["server_drop_rate"].as_f64().unwrap()).collect();
    let mean = drops.iter().sum::<f64>() / drops.len() as f64;
    let (measured, paper) = (claims[0]["measured"].as_f64().unwrap(), claims[0]["paper"].as_f64());
    assert!((measured - mean).abs() < 1e-12, "{measured} {mean}");
    assert_eq!(paper, Some(0.007));
    let near = (mean - 0.007).abs() <= 0.2 * 0.007;
    assert_eq!(claims[0]["verdict"] == "reproduced", near, "{mean}");

    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("Figure 10a"), "{}", page.len());
    let missing = ["reproduce", "breakwater", "--figure", "4", "--from", folder.to_str().unwrap()];
    fail(&missing, &["cannot read", "breakwater-figure-04.json"]);
    fail(&["reproduce", "breakwater", "--figure", "99"], &["--figure", "no plan of 99"]);
    fail(&["reproduce", "windbreak"], &["'windbreak'", "breakwater"]);
}

/// What only live systems can tell stands beside what was judged, with what measures it.
#[test]
fn claims_that_are_not_simulated_are_records_too() {
    let folder = file("no-runs");
    std::fs::create_dir_all(&folder).unwrap();
    for figure in ["03", "04", "05a", "05b"] {
        std::fs::write(folder.join(format!("libros-figure-{figure}.json")), "[]").unwrap();
    }
    let (folder, page) = (folder.to_str().unwrap(), file("not-simulated.html"));
    let html = ["--html", page.to_str().unwrap()];
    let all = ["reproduce", "libros", "--json", "--from", folder];
    let claims = succeed(&[&all[..], &html].concat()).json();
    let claims = claims.as_array().unwrap();
    let (elsewhere, judged): (Vec<&Value>, Vec<&Value>) =
        claims.iter().partition(|claim| claim["verdict"] == "not simulated");
    assert!(judged.iter().all(|claim| claim["figure"].is_string()), "{judged:?}");
    let named: Vec<&str> = elsewhere.iter().map(|claim| claim["claim"].as_str().unwrap()).collect();
    assert_eq!(named, ["L1", "L8", "L9", "L10", "L11", "L12"]);
    for claim in &elsewhere {
        assert_eq!(claim["system"], "libros");
        for key in ["text", "how"] {
            assert!(claim[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {claim}");
        }
    }
    // They are those of the table.
    let table = succeed(&[&["reproduce", "libros", "--from", folder][..], &html].concat()).stdout;
    let table = table.split_once("Not simulated:").unwrap().1.replace("\n    ", " ");
    for claim in &elsewhere {
        let [name, text, how] = ["claim", "text", "how"].map(|key| claim[key].as_str().unwrap());
        assert!(table.contains(&format!("{name}, {text}: {how}.")), "{claim}\n{table}");
    }
    // Who asks for one figure gets what is in it.
    let one = [&all[..], &html, &["--figure", "3"]].concat();
    let claims = succeed(&one).json();
    assert!(claims.as_array().unwrap().iter().all(|claim| claim["figure"].is_string()));
}
