//! A page between a service and those who read it, across processes where that matters.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{
    Counters, Description, Malformed, Orders, PAUSE_BEAT_NS, Pause, Publisher, Reader, SIZE,
    Sample, Unpublished, Unreadable,
};
use tempfile::TempDir;

const SAMPLE: Sample = Sample {
    exec_ns: 100,
    pool_wait_ns: 20,
    time_from_start_ns: Some(3000),
    upstream_exec_ns: 400,
    is_hinted: true,
};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn publish(folder: &Path, name: &str) -> Publisher {
    Publisher::create(folder, &Description::of_this_process(name, 8080).unwrap()).unwrap()
}

/// What becomes of a page when `change` has been done to a copy of its bytes.
fn opened_after(change: impl FnOnce(&mut Vec<u8>)) -> Unreadable {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let mut bytes = fs::read(page.path()).unwrap();
    change(&mut bytes);
    let path = folder.path().join("copy").join(page.path().file_name().unwrap());
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    Reader::open(path).unwrap_err()
}

#[test]
fn what_is_counted_is_read_whatever_the_shard() {
    let folder = folder();
    let page = publish(folder.path(), "user-timeline");
    for number in 0..40 {
        page.shard(number).on_arrival();
        page.shard(number + 7).on_completion(&SAMPLE);
    }
    for number in 0..5 {
        page.shard(number).on_arrival();
    }
    page.shard(1).on_shed();
    page.shard(2).on_unserved();
    // Three wait, since 100, 200 and 300; one does no longer, as another shard knows.
    for since in [100, 200, 250, 300] {
        page.shard(3).on_wait(since);
    }
    page.shard(4).on_waited(250);

    let reader = Reader::open(page.path()).unwrap();
    assert_eq!(reader.description().name, "user-timeline");
    assert_eq!(reader.description().port, 8080);
    assert_eq!(reader.pid(), std::process::id());
    let counters = Counters {
        requests: 40,
        in_flight: 3,
        exec_ns: 4000,
        pool_wait_ns: 800,
        started: 40,
        time_from_start_ns: 120_000,
        upstream_exec_ns: 16_000,
        hinted: 40,
        shed: 1,
        unserved: 1,
        waiting: 3,
        waiting_since_ns: 600,
    };
    assert_eq!(reader.counters().unwrap(), counters);
    assert_eq!((counters.waiting_ns(1_000), counters.waiting_ns(100)), (2_400, 0));
    // Read between the two counts of one that ends.
    page.shard(4).on_waited(100);
    page.shard(4).on_waited(200);
    page.shard(4).on_waited(300);
    page.shard(4).on_waited(0);
    assert_eq!(reader.counters().unwrap().waiting, 0);
}

#[test]
fn the_file_has_its_name_mode_and_size_and_goes_with_its_publisher() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let path = folder.path().join(format!("service.{}.page", std::process::id()));
    assert_eq!(page.path(), path);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o7777, metadata.len()), (0o644, SIZE as u64));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    drop(page);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn orders_reach_the_service_and_expire() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    assert_eq!(page.orders(), Orders::default());

    let reader = Reader::open(page.path()).unwrap();
    let orders = Orders {
        heartbeat_ns: 1_000,
        lease_ns: 500,
        hint: 3,
        granted_milli: 250,
        speed_permille: 1100,
        boost_permille: 1900,
        boosted_until_ns: 0,
        expected_time_from_start_ns: 7_000_000,
        freeze_ns: 9_000_000,
        growing_until_ns: 1_200,
    };
    reader.set_orders(&orders).unwrap();
    assert_eq!(page.orders(), orders);
    assert_eq!(reader.orders().unwrap(), orders);
    assert_eq!((page.speed(1_499), page.speed(1_500)), (1100, 1000));

    reader.boost_until(1_600).unwrap();
    reader.set_orders(&orders).unwrap();
    assert_eq!(page.orders().boosted_until_ns, 1_600, "orders do not end a boost");
    assert_eq!(page.speed(1_499), 1900);
    reader.beat(1_400).unwrap();
    assert_eq!((page.speed(1_599), page.speed(1_600)), (1900, 1100));
}

#[test]
fn a_service_boosts_itself_as_fast_as_the_agent_orders() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    page.boost_until(900);
    page.boost_until(100);
    assert_eq!(page.speed(800), 1000, "without an agent there is no boost");
    let reader = Reader::open(page.path()).unwrap();
    let orders = Orders { heartbeat_ns: 1, lease_ns: 5000, boost_permille: 1500, ..page.orders() };
    reader.set_orders(&orders).unwrap();
    assert_eq!((page.speed(899), page.speed(900)), (1500, 1000));
    page.beat(77);
    page.on_late();
    page.on_bell_lost();
    page.on_hint_distrusted();
    let state = reader.service().unwrap();
    assert_eq!((state.heartbeat_ns, state.boosted_until_ns), (77, 900));
    assert_eq!((state.late, state.bells_lost, state.hints_distrusted), (1, 1, 1));
}

#[test]
fn absurd_orders_are_brought_back() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let file = fs::OpenOptions::new().write(true).open(page.path()).unwrap();
    file.write_all_at(&[0xff; 80], 512).unwrap();
    let orders = page.orders();
    assert_eq!((orders.hint, orders.speed_permille), (u16::MAX, 100_000));
    assert!(!orders.hold(monotonic_ns()), "a heartbeat of the far future");
}

#[test]
fn names_that_would_leave_the_folder_are_refused() {
    let folder = folder();
    for name in ["", "../etc", "a b", ".hidden", "-o", "a/b", "ü", &"x".repeat(64)] {
        let description = Description::of_this_process(name, 1).unwrap();
        let refused = Publisher::create(folder.path(), &description).unwrap_err();
        assert!(matches!(&refused, Unpublished::Name { .. }), "{name:?}: {refused}");
        assert!(refused.to_string().contains("A-Z a-z 0-9 . _ -"), "{refused}");
    }
    let longest = publish(folder.path(), &"x".repeat(63));
    assert_eq!(Reader::open(longest.path()).unwrap().description(), longest.description());
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let folder = folder();
    let description = Description::of_this_process("service", 1).unwrap();
    let missing = folder.path().join("missing");
    let refused = Publisher::create(&missing, &description).unwrap_err().to_string();
    assert!(refused.contains("missing") && refused.contains("No such file"), "{refused}");
}

#[test]
fn two_services_of_a_name_in_one_process_have_no_page_together() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let description = Description::of_this_process("service", 2).unwrap();
    let refused = Publisher::create(folder.path(), &description).unwrap_err();
    assert!(matches!(refused, Unpublished::Taken(ref path) if path == page.path()), "{refused}");
    assert!(Reader::open(page.path()).is_ok(), "the first keeps its page");
    publish(folder.path(), "other");
}

#[test]
fn a_page_of_a_process_that_has_gone_is_recognised_and_replaced() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let path = page.path().to_owned();
    // As a process of the same number that began earlier would have left it.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&1_u64.to_le_bytes(), 24).unwrap();
    let stale = Reader::open(&path).unwrap_err();
    assert!(matches!(stale, Unreadable::Gone(process) if process.start_ticks == 1), "{stale}");

    let next = publish(folder.path(), "service");
    drop(page);
    assert!(Reader::open(&path).is_ok(), "the earlier publisher does not remove the later page");
    assert_eq!(next.path(), path);
}

#[test]
fn a_page_of_another_container_is_not_replaced() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let file = fs::OpenOptions::new().write(true).open(page.path()).unwrap();
    file.write_all_at(&5_u64.to_le_bytes(), 32).unwrap();

    let next = publish(folder.path(), "service");
    let Description { process, .. } = next.description();
    let longer = format!("service.{}.{}.page", process.pid, process.namespace);
    assert_eq!(next.path(), folder.path().join(longer));
    assert!(Reader::open(next.path()).is_ok());
    assert!(page.path().exists());
}

#[test]
fn what_is_no_page_is_refused_by_name() {
    use Malformed::{Magic, Name, Port, Shards, Size, Version};
    let put = |at: usize, new: &'static [u8]| {
        opened_after(move |bytes| bytes[at..at + new.len()].copy_from_slice(new))
    };
    let is = |refused: Unreadable, expected: Malformed| match refused {
        Unreadable::Malformed(found) => assert_eq!(found, expected),
        other => panic!("{other} instead of {expected}"),
    };
    is(put(0, b"SWPAGE\n\n"), Magic);
    is(put(8, &[2]), Version(2));
    is(put(12, &[1]), Size(4097));
    is(put(40, &[17]), Shards(17));
    is(put(22, &[1]), Port(0x1_0000 + 8080));
    is(put(64, &[0]), Name);
    is(put(64, b"../../x"), Name);
    is(put(64, &[0xff]), Name);
    is(put(127, b"x"), Name);
    is(put(64, &[b'n'; 64]), Name);

    assert!(matches!(put(16, &[0xff; 4]), Unreadable::Misnamed { .. }));
    assert!(matches!(put(64, b"another"), Unreadable::Misnamed { .. }));
    assert!(matches!(opened_after(|bytes| bytes.truncate(4095)), Unreadable::Size(4095)));
    assert!(matches!(opened_after(|bytes| bytes.push(0)), Unreadable::Size(4097)));
    assert!(matches!(opened_after(Vec::clear), Unreadable::Size(0)));
}

#[test]
fn links_folders_and_pipes_are_no_pages() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let link = folder.path().join("link.1.page");
    symlink(page.path(), &link).unwrap();
    let pipe = folder.path().join("pipe.1.page");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [link.as_path(), folder.path(), &pipe] {
        let refused = Reader::open(path).unwrap_err();
        assert!(matches!(refused, Unreadable::NotAFile), "{}: {refused}", path.display());
    }
}

#[test]
fn a_page_that_is_cut_while_it_is_read_is_an_error_and_no_signal() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    let reader = Reader::open(page.path()).unwrap();
    fs::OpenOptions::new().write(true).open(page.path()).unwrap().set_len(100).unwrap();
    assert!(matches!(reader.counters(), Err(Unreadable::Size(100))));
    // The publisher is not touched again, but to be dropped.
}

#[test]
fn a_page_of_another_user_is_refused() {
    let folder = folder();
    let page = publish(folder.path(), "service");
    if std::os::unix::fs::chown(page.path(), Some(54_321), None).is_err() {
        eprintln!("not run: only root can give files away");
        return;
    }
    let refused = Reader::open(page.path()).unwrap_err();
    assert!(matches!(refused, Unreadable::Stranger { uid: 54_321, .. }), "{refused}");
}

/// A child that serves until its standard input ends.
struct Service(Child, BufReader<std::process::ChildStdout>);

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self(child, stdout)
    }

    /// The path that it prints, whatever the test harness prints before.
    fn path(&mut self) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the child ended");
            if let Some(at) = line.find('/') {
                return line[at..].trim_end().into();
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }
}

const PAGES: &str = "SEAWALL_ABI_TEST_PAGES";

#[test]
#[ignore = "is the other process of the test below"]
fn child() {
    let page = publish(Path::new(&std::env::var(PAGES).unwrap()), "child");
    page.shard(0).on_arrival();
    println!("{}", page.path().display());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(page.orders().hint, 2);
    page.shard(9).on_completion(&SAMPLE);
    println!("served");
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn another_process_is_read_ordered_and_found_dead() {
    let folder = folder();
    let mut child = Service::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(PAGES, folder.path()),
    );
    let path = child.path();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.pid(), child.0.id());
    assert_eq!(reader.counters().unwrap().in_flight, 1);

    reader.set_orders(&Orders { hint: 2, ..Orders::default() }).unwrap();
    writeln!(child.0.stdin.as_mut().unwrap(), "go on").unwrap();
    assert_eq!(child.line(), "served\n");
    let counters = reader.counters().unwrap();
    assert_eq!((counters.requests, counters.in_flight, counters.exec_ns), (1, 0, 100));

    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert!(!reader.is_alive());
    assert!(matches!(Reader::open(&path), Err(Unreadable::Gone(_))), "it is left behind");
    assert_eq!(reader.counters().unwrap().requests, 1, "and still tells");
}

#[test]
fn the_publisher_in_the_documentation_publishes() {
    let documentation = include_str!("../../../docs/metrics-page.md");
    let (_, rest) = documentation.split_once("```python\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("not run: python3 is not installed");
        return;
    }
    let folder = folder();
    let mut service =
        Service::start(Command::new("python3").args(["-c", example]).arg(folder.path()));
    let path = service.path();
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.description().name.as_str(), reader.description().port), ("example", 8080));
    let expected = Counters {
        requests: 3,
        exec_ns: 6_000_000,
        started: 3,
        time_from_start_ns: 15_000_000,
        ..Counters::default()
    };
    assert_eq!(reader.counters().unwrap(), expected);

    reader.set_orders(&Orders { hint: 4, ..Orders::default() }).unwrap();
    writeln!(service.0.stdin.as_mut().unwrap(), "go on").unwrap();
    assert_eq!(service.line(), "hint 4\n");
    assert!(service.0.wait().unwrap().success());
    assert!(!Path::new(&path).exists());
}

#[test]
#[ignore = "is the other process of the test below"]
fn on_a_full_disk() {
    let folder = std::env::var(PAGES).unwrap();
    let description = Description::of_this_process("service", 1).unwrap();
    let refused = Publisher::create(Path::new(&folder), &description).unwrap_err();
    assert!(refused.to_string().contains("No space left"), "{refused}");
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["fill"], "no draft is left");
    println!("refused on /");
}

#[test]
fn a_full_disk_is_found_when_the_page_is_made_and_not_when_it_is_used() {
    let folder = folder();
    let script = r#"mount -t tmpfs -o size=4096 none "$0" && head -c 4096 /dev/zero > "$0/fill" &&
        exec "$1" --exact on_a_full_disk --ignored --nocapture"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .args([folder.path(), &std::env::current_exe().unwrap()])
        .env(PAGES, folder.path())
        .output();
    let Ok(output) = output else { return eprintln!("not run: unshare is not installed") };
    let (told, problem) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if told.is_empty() {
        return eprintln!("not run: {problem}");
    }
    assert!(output.status.success() && told.contains("refused on /"), "{told}{problem}");
}

#[test]
fn a_pause_counts_while_its_service_says_that_it_lives() {
    let folder = folder();
    let page = publish(folder.path(), "cassandra");
    let reader = Reader::open(page.path()).unwrap();
    let (now, ms) = (monotonic_ns(), 1_000_000);
    page.beat(now);
    assert_eq!(reader.pause(now).unwrap(), None);
    page.pause(now, now + 40 * ms);
    let pause = Pause { since_ns: now, ends_ns: now + 40 * ms };
    assert_eq!(reader.pause(now + 30 * ms).unwrap(), Some(pause));
    page.pause(now, now + 90 * ms);
    let longer = Pause { ends_ns: now + 90 * ms, ..pause };
    assert_eq!(reader.pause(now + 60 * ms).unwrap(), Some(longer));
    assert_eq!(reader.pause(now + PAUSE_BEAT_NS).unwrap(), None, "it has died");
    page.beat(now + 100 * ms);
    assert_eq!(reader.pause(now + PAUSE_BEAT_NS).unwrap(), Some(longer));
    page.resume(70 * ms);
    assert_eq!(reader.pause(now + 100 * ms).unwrap(), None);
    let state = reader.service().unwrap();
    assert_eq!((state.pauses, state.paused_ns), (1, 70 * ms));
    fs::OpenOptions::new().write(true).open(page.path()).unwrap().set_len(300).unwrap();
    assert!(matches!(reader.pause(now), Err(Unreadable::Size(0))));
}
