//! A folder in which anybody may make pages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use seawall_abi::page::{Description, FIELDS, NAME_MAX, Publisher};
use seawall_abi::process::Process;
use seawall_node::agent::hierarchy::{Hierarchy, Version};
use seawall_node::agent::pages::{Pages, Sight};

use crate::passes::publisher;

const SILENCE: Duration = Duration::from_secs(2);

/// A process that does nothing, and a page that it might have made.
struct Service {
    process: Child,
    page: Publisher,
}

impl Service {
    fn start(folder: &Path, name: &str) -> Self {
        let process = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let described = Process::of(process.id()).unwrap();
        let description = Description { name: name.to_owned(), port: 7, process: described };
        Self { process, page: Publisher::create(folder, &description).unwrap() }
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Copies of a page, each with a name of its own, as its owner may make them.
fn copies(of: &Publisher, prefix: &str, count: usize) -> Vec<PathBuf> {
    let bytes = fs::read(of.path()).unwrap();
    let offset = FIELDS.iter().find(|field| field.name == "name").unwrap().offset;
    let copy = |number: usize| {
        let name = format!("{prefix}{number}");
        let mut bytes = bytes.clone();
        bytes[offset..=offset + NAME_MAX].fill(0);
        bytes[offset..offset + name.len()].copy_from_slice(name.as_bytes());
        let pid = of.description().process.pid;
        let path = of.path().with_file_name(format!("{name}.{pid}.page"));
        fs::write(&path, bytes).unwrap();
        path
    };
    (0..count).map(copy).collect()
}

/// Thousands of files take a disk minutes.
fn in_memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).unwrap()
}

/// Files of this folder that are open.
fn files_open(folder: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let paths = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(folder)).count()
}

#[test]
fn thousands_of_pages_of_one_process_take_no_room_from_others() {
    let folder = in_memory();
    let early = Service::start(folder.path(), "early");
    let hostile = publisher(folder.path(), "hostile");
    let mut pages = Pages::new(folder.path(), Path::new("/"), SILENCE);
    assert_eq!(pages.scan(None).unwrap().pages, 2);
    copies(&hostile, "hostile", 5_000);
    for number in 0..5_000 {
        fs::write(folder.path().join(format!("junk{number}.1.page")), "junk").unwrap();
    }
    let late = Service::start(folder.path(), "late");
    let before = files_open(folder.path());
    // Each scan opens so many files and no more; after some of them each had its turn.
    let mut sight = Sight::default();
    for _ in 0..20 {
        sight = pages.scan(None).unwrap();
        assert!(pages.page(early.page.path()).is_some(), "an open page keeps its place");
    }
    assert!(pages.page(late.page.path()).is_some());
    assert_eq!(sight.pages, 2 + 16);
    assert!(files_open(folder.path()) - before < 64, "of ten thousand");
    // The service that goes is forgotten, and a new one finds its place.
    drop(early);
    let later = Service::start(folder.path(), "later");
    for _ in 0..20 {
        pages.scan(None).unwrap();
    }
    assert!(pages.page(later.page.path()).is_some());
}

#[test]
fn pages_of_one_container_are_bounded_however_many_processes_it_has() {
    let root = in_memory();
    let hierarchy =
        Hierarchy { version: Version::V2, mount: PathBuf::from("/x"), root: "/".to_owned() };
    let services: Vec<Service> =
        (0..20).map(|number| Service::start(root.path(), &format!("worker{number}-"))).collect();
    for service in &services {
        let process = root.path().join(format!("proc/{}", service.process.id()));
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("cgroup"), "0::/hostile\n").unwrap();
        copies(&service.page, service.page.description().name.as_str(), 20);
    }
    let mut pages = Pages::new(root.path(), root.path(), SILENCE);
    let mut sight = Sight::default();
    for _ in 0..5 {
        sight = pages.scan(Some(&hierarchy)).unwrap();
    }
    assert_eq!((sight.pages, sight.cut), (256, 20 * 21 - 256));
    let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!((sight.pages as u64) < files);
}

#[test]
fn pages_of_services_that_have_died_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Service::start(folder.path(), "cart");
    let alive = publisher(folder.path(), "alive");
    let page = service.page.path().to_owned();
    // What only looks like it: a link to such a page, a file that is no page.
    let pid = service.process.id();
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept.page");
    fs::copy(&page, &kept).unwrap();
    let link = folder.path().join(format!("cart.{pid}.1.page"));
    symlink(&kept, &link).unwrap();
    let junk = folder.path().join("junk.1.page");
    fs::write(&junk, "junk").unwrap();
    let misnamed = folder.path().join("other.1.page");
    fs::copy(&page, &misnamed).unwrap();

    let mut pages = Pages::new(folder.path(), Path::new("/"), SILENCE).tidied();
    assert_eq!(pages.scan(None).unwrap().pages, 2);
    service.end();
    let mut looks = Pages::new(folder.path(), Path::new("/"), SILENCE);
    assert_eq!(looks.scan(None).unwrap().removed, 0);
    assert!(page.exists(), "who only looks removes nothing");
    let sight = pages.scan(None).unwrap();
    assert_eq!((sight.pages, sight.removed), (1, 1));
    assert!(!page.exists() && alive.path().exists());
    assert!(link.is_symlink() && kept.exists() && junk.exists() && misnamed.exists());
}

#[test]
fn a_page_whose_process_could_not_be_seen_from_here_stays() {
    let folder = tempfile::tempdir().unwrap();
    let this = Process::this().unwrap();
    let page = |name: &str, namespace: u64| {
        let process = Process { namespace, start_ticks: this.start_ticks + 1, ..this };
        let description = Description { name: name.to_owned(), port: 7, process };
        Publisher::create(folder.path(), &description).unwrap()
    };
    // It could not tell its namespace: it may live in another one.
    let unknown = page("unknown", 0);
    let dead = page("dead", this.namespace);
    let mut pages = Pages::new(folder.path(), Path::new("/"), SILENCE).tidied();
    assert_eq!(pages.scan(None).unwrap().removed, 1);
    assert!(unknown.path().exists() && !dead.path().exists());
}
