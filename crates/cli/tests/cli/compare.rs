//! `seawall compare`: live servers side by side, and what came of them kept and shown again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{fail, file, file_with, succeed, until};

/// Two variants at one rate; over in a moment, with an SLO that no machine is too slow for.
const PLAN: &str = "
    title = 'A small comparison'
    about = 'Why it is so small.'
    rates = [300]
    [serve]
    server.slo = '5s'
    synthetic = { service = 'const:0us', wait = 'const:10ms', paths = 'hot:0.9' }
    [load]
    path_by = 'method'
    sessions = 4
    warm_up = '50ms'
    time = '300ms'
    [[variant]]
    name = 'plain'
    serve = { server.admission.algorithm = 'none', synthetic.locks = 'plain' }
    [[variant]]
    name = 'try'
    serve = { server.admission.algorithm = 'none', synthetic.locks = 'try' }
    [[claim]]
    id = 'L1'
    text = 'who only tries is refused'
    metric = 'class.first.server_drop_rate'
    at = { variant = 'try' }
    over = { variant = 'plain' }
    measure = 'difference'
    band = 'dir'
";

#[test]
fn variants_are_measured_saved_and_shown_again() {
    let plan = file_with("small.toml", PLAN);
    let folder = file("compared");
    let folder = folder.to_str().unwrap();
    let results = succeed(&["compare", &plan, "--json", "--save", folder]);
    assert!(results.stderr.contains("[2/2] round 1: 300/s, "), "{results:?}");
    let results = results.json();
    for key in ["title", "host", "notes"] {
        assert!(!results[key].is_null(), "{key}: {results}");
    }
    let points = results["points"].as_array().unwrap();
    let names = points.iter().map(|point| point["params"]["variant"].as_str());
    assert!(names.eq([Some("plain"), Some("try")]), "{results}");
    for point in points {
        check(point);
    }
    assert_eq!(points[0]["classes"][0]["server_drop_rate"], 0.0, "{results}");
    assert!(points[1]["classes"][0]["server_drop_rate"].as_f64() > Some(0.0), "{results}");
    let lock = &points[0]["stages"][0];
    assert_eq!((&lock["name"], &lock["kind"]), (&"first_lock".into(), &"mutex".into()));
    assert!(lock["waits"].as_u64() > Some(0) && lock["waited_s"].as_f64() > Some(0.0), "{lock}");

    // Valid or not is the machine's affair; what is shown of it is not.
    let saved = format!("{folder}/small.json");
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(kept["points"].as_array().unwrap().len(), 2);
    for (index, valid) in [false, true].into_iter().enumerate() {
        kept["points"][index]["valid"] = valid.into();
        kept["points"][index]["invalid_reason"] = if valid { Value::Null } else { "late".into() };
    }
    std::fs::write(&saved, kept.to_string()).unwrap();
    shown_again(&plan, folder);
}

#[test]
fn the_distribution_of_the_latencies_is_kept_where_a_figure_shows_it() {
    let shown = "columns = ['mean_us', 'p80_us', 'busy']
        [[figure]]
        x = 'latency'
        y = 'slower'";
    let plan = file_with("latency.toml", &PLAN.replace("[[claim]]", "[[figure]]\n[[claim]]"));
    fail(&["compare", &plan], &["missing field `x`"]);
    let (head, rest) = PLAN.split_once("rates").unwrap();
    let (columns, figure) = shown.split_once("[[figure]]").unwrap();
    let text = format!("{head}{columns}rates{rest}[[figure]]{figure}");
    let plan = file_with("latency.toml", &text);
    let (folder, pictures) = (file("latencies"), file("latencies/pictures"));
    let (folder, pictures) = (folder.to_str().unwrap(), pictures.to_str().unwrap());
    let first = succeed(&["compare", &plan, "--save", folder, "--plot", pictures]).stdout;
    let head = first.lines().find(|line| line.starts_with("variant")).unwrap();
    let names: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(names, ["variant", "rate", "mean", "p80", "busy", "rounds"], "{first}");
    let saved = std::fs::read_to_string(format!("{folder}/latency.json")).unwrap();
    let saved: Value = serde_json::from_str(&saved).unwrap();
    for point in saved["points"].as_array().unwrap() {
        let ccdf = point["ccdf"].as_array().unwrap();
        assert!(ccdf.len() > 50, "{point}");
        let least = ccdf[0]["than_us"].as_f64().unwrap();
        assert!(ccdf[0]["share"] == 1.0 && least < point["figures"]["p50_us"].as_f64().unwrap());
    }
    let svg = std::fs::read_to_string(format!("{pictures}/01-slower.svg")).unwrap();
    assert!(svg.contains("plain") && svg.contains("try") && svg.contains("100 %"), "{svg}");
}

/// Table, page and pictures of two points of which the first is not valid.
#[track_caller]
fn shown_again(plan: &str, folder: &str) {
    let (page, pictures) = (format!("{folder}/page.html"), format!("{folder}/pictures"));
    let from = ["compare", plan, "--from", folder, "--html", &page, "--plot", &pictures];
    let said = succeed(&from).stdout;
    for part in [
        "A small comparison",
        "1 *1",
        "* plain at 300/s, round 1: late",
        "first *",
        "first_lock",
        "not to be judged",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("* try"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in
        ["Why it is so small.", "1 of 2 points", "point invalid", "<svg", "points are not valid"]
    {
        assert!(page.contains(part), "{part}");
    }
    let svg = std::fs::read_to_string(format!("{pictures}/01-goodput.svg")).unwrap();
    assert!(svg.contains("not valid: load not offered"), "{svg}");

    let later = succeed(&["compare", plan, "--from", folder, "--set", "load.time=9s"]).stdout;
    assert!(later.contains("what --set says now had no part in them"), "{later}");
    let only = ["compare", plan, "--from", folder, "--only", "try"];
    let said = succeed(&only).stdout;
    assert!(!said.contains("plain") && !said.contains("L1"), "it needs what is not there: {said}");
    fail(
        &["compare", plan, "--from", folder, "--rates", "7"],
        &["there is no point with rate 7, variant plain"],
    );
}

/// A point as its readers know it.
#[track_caller]
fn check(point: &Value) {
    assert_eq!(point["params"]["rate"], "300");
    assert_eq!((&point["round"], &point["algorithm"]), (&1.into(), &"none".into()));
    assert!(point["valid"].is_boolean() && point["lateness_p99_us"].is_number(), "{point}");
    assert!(point["busy"].as_f64().is_some_and(|busy| (0.0..=1.5).contains(&busy)), "{point}");
    for figure in ["offered", "goodput", "throughput", "p99_us", "server_drop_rate"] {
        assert!(point["figures"][figure].is_number(), "{figure}: {point}");
    }
    let classes = point["classes"].as_array().unwrap();
    assert!(classes.iter().map(|class| class["name"].as_str()).eq([Some("first"), Some("second")]));
    // What only a simulator counts is not there, not even as zero.
    for unknown in ["received", "sent", "credits", "counts", "events", "series"] {
        assert!(point.get(unknown).is_none(), "{unknown}: {point}");
    }
}

#[test]
fn a_bad_plan_is_told_where() {
    let wrong = |name: &str, from: &str, to: &str, expected: &[&str]| {
        assert!(PLAN.contains(from), "{from}");
        let plan = file_with(name, &PLAN.replacen(from, to, 1));
        fail(&["compare", &plan], &[&[plan.as_str()], expected].concat());
    };
    let part = ["line 4, column 5", "unknown field `rate`", "`rates`"];
    wrong("c-part.toml", "rates = [300]", "rate = [300]", &part);
    let key = ["line 6, column 12", "unknown field `slow`", "`slo`"];
    wrong("c-key.toml", "server.slo", "server.slow", &key);
    let option = ["line 9, column 5", "unknown option `path` of the load", "path_by, paths"];
    wrong("c-option.toml", "path_by", "path", &option);
    let elsewhere = ["unknown option `rate` of the load"];
    wrong("c-rate.toml", "sessions = 4", "rate = 3", &elsewhere);
    let value = ["variant plain", "load: invalid value 'long' for '--time <DURATION>'"];
    wrong("c-value.toml", "'300ms'", "'long'", &value);
    let range = ["variant plain", "share is 9", "0 to 1"];
    wrong("c-range.toml", "sessions = 4", "paths = 'hot:9'", &range);
    let over = ["variant plain", "serve: unknown field `lock`"];
    wrong("c-over.toml", "synthetic.locks = 'plain'", "synthetic.lock = 'plain'", &over);
    let multiple = ["rates: 2x", "capacity"];
    wrong("c-rates.toml", "[300]", "['2x']", &multiple);
    let metric =
        ["claim L1: metric: credits is unknown", "class.NAME.goodput (classes: first, second)"];
    wrong("c-metric.toml", "class.first.server_drop_rate", "credits", &metric);
    let label = ["claim L1", "no case has the variant tried"];
    wrong("c-label.toml", "at = { variant = 'try' }", "at = { variant = 'tried' }", &label);
    let twice = ["variant.name: try is there twice"];
    wrong("c-twice.toml", "name = 'plain'", "name = 'try'", &twice);
    wrong("c-rounds.toml", "rates = [300]", "rates = [300]\nrounds = 0", &["rounds: allowed is 1"]);
    let app = ["line 5", "unknown variant `cache`", "`kv`"];
    wrong("c-app.toml", "rates = [300]", "rates = [300]\napp = 'cache'", &app);

    let plan = file_with("c-fine.toml", PLAN);
    fail(&["compare", &plan, "--only", "seda"], &["--only: there is no seda", "plain, try"]);
    fail(&["compare", &plan, "--rates", "many"], &["rates: many"]);
    fail(&["compare", &plan, "--set", "load.time"], &["--set load.time: write KEY=VALUE"]);
    fail(&["compare", &plan, "--from", "/nowhere"], &["cannot read /nowhere/c-fine.json"]);
    fail(&["compare", "/nowhere.toml"], &["cannot read the plan /nowhere.toml"]);
}

/// Processes that `parent` has started and that have not ended.
fn children(parent: u32) -> Vec<String> {
    let stat = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, of) = (fields.next()?, fields.next()?);
        let runs = state != "Z" && of == parent.to_string();
        runs.then(|| entry.file_name().to_string_lossy().into_owned())
    };
    std::fs::read_dir("/proc").expect("this is Linux").filter_map(stat).collect()
}

#[test]
fn no_server_is_left_behind() {
    let plan = file_with("endless.toml", &PLAN.replace("'300ms'", "'10m'"));
    // A shell that runs tests in the background has them ignore this signal.
    let mut comparison: Child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_seawall"), "compare", &plan])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut servers = Vec::new();
    until("a server is started", || {
        servers = children(comparison.id());
        !servers.is_empty()
    });
    // To it alone: a terminal would send it to all.
    kill(Pid::from_raw(comparison.id().cast_signed()), Signal::SIGINT).unwrap();
    assert!(!comparison.wait().unwrap().success());
    until("the server ends", || {
        let runs = |server: &&String| {
            let command = std::fs::read_to_string(format!("/proc/{server}/cmdline"));
            command.is_ok_and(|command| command.contains("until-stdin-ends"))
        };
        servers.iter().find(runs).is_none()
    });
}

/// A program of somebody else's serves, and one replica of it has more to do.
#[test]
fn a_program_serves_in_place_of_our_own() {
    let seawall = env!("CARGO_BIN_EXE_seawall");
    let plan = format!(
        "
        replicas = 2
        rates = [100]
        program = ['{seawall}', 'serve', '--listen=127.0.0.1:0', '--until-stdin-ends',
            '--set=server.admission.algorithm=\"none\"', 'synthetic', '--service=const:0us']
        [[noise]]
        replicas = [1]
        program = ['--wait=const:50ms']
        [load]
        retry = true
        sessions = 2
        warm_up = '0s'
        time = '500ms'
        set.client.replicas.choose = 'random'
        [[variant]]
        name = 'quiet'
        noise = false
        [[variant]]
        name = 'slow'
    "
    );
    let results = succeed(&["compare", &file_with("program.toml", &plan), "--json"]).json();
    let mean = |point: usize| results["points"][point]["figures"]["mean_us"].as_f64();
    let mean = |point| mean(point).unwrap_or_else(|| panic!("{results}"));
    assert!(mean(1) - mean(0) > 10_000.0, "half of the calls wait 50 ms: {results}");
}

/// One replica balances its ring, announced or not.
#[test]
fn predicted_holds_stand_beside_real_ones() {
    let plan = "
        app = 'kv'
        replicas = 2
        rates = [100]
        [[noise]]
        replicas = [1]
        serve.kv.cluster.rebalance = { pause = 'const:1ms', tokens = [8, 64] }
        [load]
        sessions = 2
        mix = '1/uniform:100/const:9'
        retry = true
        warm_up = '0s'
        time = '300ms'
        [[variant]]
        name = 'announced'
        [[variant]]
        name = 'silent'
        serve.kv.cluster.announce = false
    ";
    let (plan, folder) = (file_with("holds.toml", plan), file("holds"));
    let folder = folder.to_str().unwrap();
    let results = succeed(&["compare", &plan, "--json", "--save", folder]).json();
    let forecasts = |point: usize| -> Vec<Value> {
        let stages = results["points"][point]["stages"].as_array().cloned().unwrap_or_default();
        let of_stages = stages.iter().filter_map(|stage| stage["forecasts"].as_array().cloned());
        of_stages.flatten().collect()
    };
    let [announced] = &forecasts(0)[..] else { panic!("one replica balances: {results}") };
    assert_eq!(announced["work"], "rebalance");
    assert!(announced["predictions"].as_u64() > Some(1), "{announced}");
    assert!(announced["hold_us"].as_f64() > Some(0.0), "{announced}");
    assert!(announced["within_4ms"].as_f64() <= announced["within_8ms"].as_f64(), "{announced}");
    assert!(forecasts(1).is_empty(), "nothing is said: {results}");

    let page = file("holds.html");
    let page = page.to_str().unwrap();
    let shown = succeed(&["compare", &plan, "--from", folder, "--html", page]);
    assert!(shown.stdout.contains("Holds of a stage that were predicted"), "{shown:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains("<h3>Predicted holds</h3>"));
}

/// The plan with noise beside the second of two replicas, for so long.
fn noisy(time: &str) -> String {
    let noise = "
    replicas = 2
    limit = 0.4
    rates = [300]
    [[noise]]
    replicas = [1]
    command = ['sh', '-c', 'while :; do :; done']
    pauses = 'const:20ms'
    lasts = 'const:20ms'";
    PLAN.replace("rates = [300]", noise).replace("'300ms'", &format!("'{time}'"))
}

/// The control group of a comparison with this process number, if the system lets it have one.
fn group(comparison: u32) -> Option<PathBuf> {
    let name = format!("seawall-{comparison}");
    let mounts = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let folders = mounts.map(|mount| mount.path()).chain(["/sys/fs/cgroup".into()]);
    folders.map(|folder| folder.join(&name)).find(|group| group.exists())
}

#[test]
fn noise_and_its_groups_end_with_the_comparison_even_if_that_is_killed() {
    let plan = file_with("noisy-endless.toml", &noisy("10m"));
    let errors = std::fs::File::create(file("noisy.errors")).unwrap();
    let mut comparison = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["compare", &plan])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap();
    let mut noise = None;
    until("there is noise, or an error", || {
        let second = group(comparison.id()).map(|group| group.join("replica-1/cgroup.procs"));
        let processes = second.and_then(|file| std::fs::read_to_string(file).ok());
        // The server, and what it has beside it.
        noise = processes.filter(|processes| processes.lines().count() == 2);
        noise.is_some() || comparison.try_wait().unwrap().is_some()
    });
    if noise.is_none() {
        let error = std::fs::read_to_string(file("noisy.errors")).unwrap();
        assert!(
            error.contains("which takes root") || error.contains("none are mounted"),
            "{error}"
        );
        return;
    }
    kill(Pid::from_raw(comparison.id().cast_signed()), Signal::SIGKILL).unwrap();
    comparison.wait().unwrap();
    until("nothing is left", || group(comparison.id()).is_none());
    let runs = |process: &str| std::path::Path::new("/proc").join(process).exists();
    until("the noise ends", || !noise.as_deref().unwrap().lines().any(runs));

    let results = succeed(&["compare", &file_with("noisy.toml", &noisy("300ms")), "--json"]);
    assert_eq!(results.json()["points"].as_array().unwrap().len(), 2);
}
