//! The metrics that services publish, and which container each service is in.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_abi::page::{Counters, Orders, Reader, Unreadable};

use super::hierarchy::{Hierarchy, Version};

/// Pages of one folder. More would be those of somebody who makes pages for the agent's sake.
const PAGES_MAX: usize = 20_000;

/// The folder of the pages.
#[derive(Debug)]
pub struct Pages {
    folder: PathBuf,
    /// Where `/proc` is, which knows the groups of processes.
    proc: PathBuf,
    /// A page whose service has not said for so long that it lives is not believed.
    silence: Duration,
    pages: BTreeMap<PathBuf, Page>,
    /// Pages that were refused, with when the file was last changed: told once, and not tried
    /// again as long as they are the same.
    refused: BTreeMap<PathBuf, Option<std::time::SystemTime>>,
}

/// One service's page.
#[derive(Debug)]
pub struct Page {
    reader: Reader,
    group: Option<String>,
}

/// What a look into the folder brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Pages that are read.
    pub pages: usize,
    /// Files called pages that are not read.
    pub refused: usize,
}

impl Pages {
    /// Pages in `folder`, of services whose groups `root/proc` tells.
    pub fn new(folder: &Path, root: &Path, silence: Duration) -> Self {
        Self {
            folder: folder.to_owned(),
            proc: root.join("proc"),
            silence,
            pages: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Looks which pages there are now.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed; that it does not exist only means that nobody publishes.
    pub fn scan(&mut self, hierarchy: Option<&Hierarchy>) -> io::Result<Sight> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.pages.clear();
                return Ok(Sight::default());
            }
            Err(error) => return Err(error),
        };
        let is_page = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "page");
        let found: BTreeSet<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(is_page).take(PAGES_MAX).collect();
        self.pages.retain(|path, page| found.contains(path) && page.reader.is_alive());
        self.refused.retain(|path, _| found.contains(path));
        for path in found {
            self.open(path, hierarchy);
        }
        Ok(Sight { pages: self.pages.len(), refused: self.refused.len() })
    }

    fn open(&mut self, path: PathBuf, hierarchy: Option<&Hierarchy>) {
        let Entry::Vacant(place) = self.pages.entry(path) else { return };
        let path = place.key().clone();
        let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        if self.refused.get(&path).is_some_and(|before| *before == changed) {
            return;
        }
        match Reader::open(&path) {
            Ok(reader) => {
                self.refused.remove(&path);
                let group =
                    hierarchy.and_then(|hierarchy| group_of(&self.proc, reader.pid(), hierarchy));
                tracing::info!(page = %path.display(), ?group, "a service publishes");
                place.insert(Page { reader, group });
            }
            // It went while it was looked at, or its service died and left it behind.
            Err(Unreadable::Gone(_)) => {
                self.refused.insert(path, changed);
            }
            Err(Unreadable::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(page = %path.display(), %error, "a page is not read");
                self.refused.insert(path, changed);
            }
        }
    }

    /// The pages, by their files.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Page)> {
        self.pages.iter().map(|(path, page)| (path.as_path(), page))
    }

    /// The page in this file.
    pub fn page(&self, path: &Path) -> Option<&Page> {
        self.pages.get(path)
    }

    /// What the service has counted, unless it has stopped to say that it lives.
    pub fn counters(&self, path: &Path, now_ns: u64) -> Option<Counters> {
        let page = self.pages.get(path)?;
        let heartbeat_ns = page.reader.service().ok()?.heartbeat_ns;
        // A publisher may not beat at all; then it counts as long as its process lives. A beat from
        // the future is one of another clock, or a lie: it proves no life.
        let silence = self.silence.as_nanos() as u64;
        let is_silent = heartbeat_ns != 0 && now_ns.abs_diff(heartbeat_ns) > silence;
        if is_silent { None } else { page.reader.counters().ok() }
    }
}

impl Page {
    /// The service that it names.
    pub fn service(&self) -> &str {
        &self.reader.description().name
    }

    /// The group that its process is in.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Says that the agent lives.
    ///
    /// # Errors
    ///
    /// If the page cannot be written any more.
    pub fn beat(&self, now_ns: u64) -> Result<(), Unreadable> {
        self.reader.beat(now_ns)
    }

    /// Changes its orders.
    ///
    /// # Errors
    ///
    /// If the page cannot be read or written any more.
    pub fn order(&self, change: impl FnOnce(&mut Orders)) -> Result<(), Unreadable> {
        let before = self.reader.orders()?;
        let mut orders = before;
        change(&mut orders);
        if (Orders { heartbeat_ns: before.heartbeat_ns, ..orders }) == before {
            return self.reader.beat(orders.heartbeat_ns);
        }
        self.reader.set_orders(&orders)
    }
}

/// The group of a process in this hierarchy: `4:cpu,cpuacct:/a/b`, or `0::/a/b` in version 2.
fn group_of(proc: &Path, pid: u32, hierarchy: &Hierarchy) -> Option<String> {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match hierarchy.version {
            Version::V1 => controllers.split(',').any(|controller| controller == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        is_it.then(|| group.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use seawall_abi::page::{Description, Publisher, Sample};

    use super::*;

    const SILENCE: Duration = Duration::from_secs(2);

    fn hierarchy(version: Version) -> Hierarchy {
        Hierarchy { version, mount: PathBuf::from("/x"), root: "/".to_owned() }
    }

    fn publisher(folder: &Path, name: &str) -> Publisher {
        Publisher::create(folder, &Description::of_this_process(name, 7117).unwrap()).unwrap()
    }

    #[test]
    fn a_page_is_joined_to_the_group_of_its_process() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("proc").join(std::process::id().to_string());
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cgroup"), "5:memory:/m\n4:cpu,cpuacct:/a:b/c\n0::/v2\n").unwrap();
        let publisher = publisher(root.path(), "cart");
        publisher.shard(0).on_arrival();
        publisher.shard(0).on_completion(&Sample { exec_ns: 5, ..Sample::default() });
        for (version, group) in [(Version::V1, "/a:b/c"), (Version::V2, "/v2")] {
            let mut pages = Pages::new(root.path(), root.path(), SILENCE);
            let sight = pages.scan(Some(&hierarchy(version))).unwrap();
            assert_eq!(sight, Sight { pages: 1, refused: 0 });
            let page = pages.page(publisher.path()).unwrap();
            assert_eq!((page.service(), page.group()), ("cart", Some(group)));
            assert_eq!(pages.counters(publisher.path(), 0).unwrap().exec_ns, 5);
        }
    }

    #[test]
    fn a_page_that_stops_beating_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let publisher = publisher(root.path(), "cart");
        publisher.beat(1_000_000_000);
        let mut pages = Pages::new(root.path(), root.path(), SILENCE);
        pages.scan(None).unwrap();
        assert!(pages.counters(publisher.path(), 2_900_000_000).is_some());
        assert!(pages.counters(publisher.path(), 3_100_000_000).is_none());
        publisher.beat(u64::MAX);
        assert!(pages.counters(publisher.path(), 3_100_000_000).is_none(), "a lie proves no life");
    }

    #[test]
    fn what_is_no_page_is_counted_and_what_goes_is_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let mut pages = Pages::new(&root.path().join("none"), root.path(), SILENCE);
        assert_eq!(pages.scan(None).unwrap(), Sight::default());
        let cart = publisher(root.path(), "cart");
        fs::write(root.path().join("junk.1.page"), "junk").unwrap();
        fs::write(root.path().join("notes.txt"), "no page").unwrap();
        let mut pages = Pages::new(root.path(), root.path(), SILENCE);
        assert_eq!(pages.scan(None).unwrap(), Sight { pages: 1, refused: 1 });
        drop(cart);
        assert_eq!(pages.scan(None).unwrap(), Sight { pages: 0, refused: 1 });
    }

    #[test]
    fn orders_change_and_hold() {
        let root = tempfile::tempdir().unwrap();
        let publisher = publisher(root.path(), "cart");
        let mut pages = Pages::new(root.path(), root.path(), SILENCE);
        pages.scan(None).unwrap();
        let page = pages.page(publisher.path()).unwrap();
        page.order(|orders| {
            orders.hint = 3;
            orders.lease_ns = 100;
            orders.heartbeat_ns = 1_000;
        })
        .unwrap();
        assert_eq!(publisher.orders().hint, 3);
        page.order(|orders| orders.heartbeat_ns = 2_000).unwrap();
        let orders = publisher.orders();
        assert!(orders.hint == 3 && orders.hold(2_050) && !orders.hold(2_100));
    }
}
