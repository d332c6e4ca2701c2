//! The metrics that services publish, and which container each service is in.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, Metadata, ReadDir};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use seawall_abi::page::{Counters, Orders, Reader, Unreadable};
use seawall_abi::process::Index;

use super::hierarchy::{Hierarchy, Version};

/// Pages of one folder, if descriptors suffice: a kubelet's limit of containers is in the hundreds.
const PAGES_MAX: usize = 20_000;

/// Files that an open page may take: here, for each of the two actuators, for boosts, and three of
/// its group.
const FILES_PER_PAGE: u64 = 7;

/// Files for everything else.
const FILES_OTHERS: u64 = 256;

/// Pages of one process: services that share one are few.
const PAGES_PER_PROCESS: usize = 16;

/// Pages of one group, which a container is: a service with many worker processes has one for each.
const PAGES_PER_GROUP: usize = 256;

/// One user may have this part of all pages: the half.
const OWNER_PART: usize = 2;

/// Names that are listed in one scan. The next goes on where this one ended.
const LISTED_MAX: usize = 50_000;

/// Files that are opened in one scan, which takes some tens of microseconds for each.
const OPENED_MAX: usize = 2_000;

/// The same for files of one user, so that those of others have their turn.
const OPENED_PER_OWNER: usize = 1_000;

/// Refused files that are remembered; others are opened again when it is their turn.
const REFUSED_MAX: usize = 20_000;

/// The folder of the pages. Whoever may make files in it is not trusted: what one container puts
/// there takes nothing from others, and little time.
#[derive(Debug)]
pub struct Pages {
    folder: PathBuf,
    /// Where `/proc` is, which knows the groups of processes.
    proc: PathBuf,
    /// A page whose service has not said for so long that it lives is not believed.
    silence: Duration,
    /// Whether pages of services that have died are removed.
    is_tidy: bool,
    most: usize,
    pages: BTreeMap<PathBuf, Page>,
    /// Pages that were refused, with when the file was last changed: told once, and not tried
    /// again as long as they are the same.
    refused: BTreeMap<PathBuf, Option<SystemTime>>,
    /// Where the list of files goes on, if it was too long for one scan.
    listing: Option<ReadDir>,
    /// Files whose turn it is.
    waiting: VecDeque<PathBuf>,
    /// Files that there was no room for since the list began.
    cut: usize,
    is_cut_told: bool,
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
    /// Pages that are not read because their process, container or owner has too many.
    pub cut: usize,
    /// Pages of services that have died, removed now.
    pub removed: usize,
}

/// What is counted in one scan.
#[derive(Default)]
struct Count {
    index: Index,
    opened: usize,
    /// Pages and attempts by user.
    owners: HashMap<u32, (usize, usize)>,
    processes: HashMap<u32, usize>,
    groups: HashMap<String, usize>,
    removed: usize,
}

/// What became of a file.
enum Turn {
    Over,
    /// There is no time for it in this scan.
    Later,
    /// Others of its kind have taken its room.
    Cut,
}

impl Pages {
    /// Pages in `folder`, of services whose groups `root/proc` tells.
    pub fn new(folder: &Path, root: &Path, silence: Duration) -> Self {
        let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
        let room = files.saturating_sub(FILES_OTHERS) / FILES_PER_PAGE;
        Self {
            folder: folder.to_owned(),
            proc: root.join("proc"),
            silence,
            is_tidy: false,
            most: PAGES_MAX.min(room.max(1) as usize),
            pages: BTreeMap::new(),
            refused: BTreeMap::new(),
            listing: None,
            waiting: VecDeque::new(),
            cut: 0,
            is_cut_told: false,
        }
    }

    /// The same, and pages of services that have died are removed, for nobody else does it.
    #[must_use]
    pub fn tidied(self) -> Self {
        Self { is_tidy: true, ..self }
    }

    /// Looks which pages there are now.
    ///
    /// Those that are open keep their places, whatever else is in the folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed; that it does not exist only means that nobody publishes.
    pub fn scan(&mut self, hierarchy: Option<&Hierarchy>) -> io::Result<Sight> {
        self.pages.retain(|_, page| page.reader.is_in_place() && page.reader.is_alive());
        if let Err(error) = self.list() {
            (self.listing, self.waiting) = (None, VecDeque::new());
            let is_missing = error.kind() == ErrorKind::NotFound;
            return if is_missing { Ok(Sight::default()) } else { Err(error) };
        }
        let mut count = Count::default();
        for page in self.pages.values() {
            count.add(page);
        }
        for path in std::mem::take(&mut self.waiting) {
            match self.turn(&path, hierarchy, &mut count) {
                Turn::Over => {}
                Turn::Later => self.waiting.push_back(path),
                Turn::Cut => self.cut += 1,
            }
        }
        if self.cut > 0 && !self.is_cut_told {
            self.is_cut_told = true;
            let cut = self.cut;
            tracing::warn!(cut, "a process, container or user has more pages than are read");
        }
        let (pages, refused) = (self.pages.len(), self.refused.len());
        Ok(Sight { pages, refused, cut: self.cut, removed: count.removed })
    }

    /// Lists what is next. Processes are looked for after that, so that whoever made one of these
    /// files and lives is found.
    fn list(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            return Ok(());
        }
        let is_new = self.listing.is_none();
        let mut listing = match self.listing.take() {
            Some(listing) => listing,
            None => fs::read_dir(&self.folder)?,
        };
        if is_new {
            self.cut = 0;
            self.refused.retain(|path, _| fs::symlink_metadata(path).is_ok());
        }
        for _ in 0..LISTED_MAX {
            let Some(entry) = listing.next() else { return Ok(()) };
            let path = entry?.path();
            let is_page = path.extension().is_some_and(|kind| kind == "page");
            if is_page && !self.pages.contains_key(&path) {
                self.waiting.push_back(path);
            }
        }
        self.listing = Some(listing);
        Ok(())
    }

    fn turn(&mut self, path: &Path, hierarchy: Option<&Hierarchy>, count: &mut Count) -> Turn {
        if count.opened >= OPENED_MAX {
            return Turn::Later;
        }
        // It may have gone since it was listed.
        let Ok(metadata) = fs::symlink_metadata(path) else { return Turn::Over };
        let changed = metadata.modified().ok();
        if self.refused.get(path).is_some_and(|before| *before == changed) {
            return Turn::Over;
        }
        let (pages, opened) = count.owners.entry(metadata.uid()).or_default();
        if self.pages.len() >= self.most || *pages >= self.most.div_ceil(OWNER_PART) {
            return Turn::Cut;
        }
        if *opened >= OPENED_PER_OWNER {
            return Turn::Later;
        }
        (*opened, count.opened) = (*opened + 1, count.opened + 1);
        match Reader::open_with(path, &mut count.index) {
            Ok(reader) => self.keep(path, reader, hierarchy, count),
            Err(Unreadable::Gone(process)) => {
                if self.is_tidy && process.would_be_seen() && self.remove(path, &metadata) {
                    count.removed += 1;
                } else {
                    self.refuse(path, changed);
                }
                Turn::Over
            }
            // It went while it was looked at, or the system has no room for it now.
            Err(Unreadable::Io(error)) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::debug!(page = %path.display(), %error, "a page cannot be opened now");
                }
                Turn::Over
            }
            Err(error) => {
                if self.refuse(path, changed) {
                    tracing::warn!(page = %path.display(), %error, "a page is not read");
                }
                Turn::Over
            }
        }
    }

    fn keep(
        &mut self,
        path: &Path,
        reader: Reader,
        hierarchy: Option<&Hierarchy>,
        count: &mut Count,
    ) -> Turn {
        let group = hierarchy.and_then(|hierarchy| group_of(&self.proc, reader.pid(), hierarchy));
        let of_process = count.processes.get(&reader.pid()).copied().unwrap_or(0);
        let of_group = group.as_ref().and_then(|group| count.groups.get(group)).copied();
        if of_process >= PAGES_PER_PROCESS || of_group.unwrap_or(0) >= PAGES_PER_GROUP {
            return Turn::Cut;
        }
        self.refused.remove(path);
        tracing::info!(page = %path.display(), ?group, "a service publishes");
        let page = Page { reader, group };
        count.add(&page);
        self.pages.insert(path.to_owned(), page);
        Turn::Over
    }

    /// Remembers it; whether this is new.
    fn refuse(&mut self, path: &Path, changed: Option<SystemTime>) -> bool {
        if self.refused.len() >= REFUSED_MAX {
            return false;
        }
        self.refused.insert(path.to_owned(), changed).is_none()
    }

    /// Removes a page that says of itself that it is of a process which has gone. The folder has
    /// to be the agent's own or root's, the file an ordinary one that this user owns or, as root,
    /// may remove; and it has to be the same that was read.
    fn remove(&self, path: &Path, read: &Metadata) -> bool {
        let user = geteuid().as_raw();
        let is_ours = |uid: u32| uid == user || uid == 0;
        let is_own_folder = fs::metadata(&self.folder).is_ok_and(|folder| is_ours(folder.uid()));
        let is_owned = user == 0 || read.uid() == user;
        if !is_own_folder || !is_owned || path.parent() != Some(&*self.folder) {
            return false;
        }
        let is_same = fs::symlink_metadata(path)
            .is_ok_and(|now| now.is_file() && (now.dev(), now.ino()) == (read.dev(), read.ino()));
        let is_removed = is_same && fs::remove_file(path).is_ok();
        if is_removed {
            tracing::info!(page = %path.display(), "removed: its service has died");
        }
        is_removed
    }

    /// The pages, by their files.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Page)> {
        self.pages.iter().map(|(path, page)| (path.as_path(), page))
    }

    /// The page in this file.
    pub fn page(&self, path: &Path) -> Option<&Page> {
        self.pages.get(path)
    }

    /// What the service has counted, and for how long its virtual cores were occupied, unless it
    /// has stopped to say that it lives.
    pub fn counters(&self, path: &Path, now_ns: u64) -> Option<(Counters, Duration)> {
        let (service, counters) = self.pages.get(path)?.reader.look().ok()?;
        // A publisher may not beat at all; then it counts as long as its process lives. A beat from
        // the future is one of another clock, or a lie: it proves no life.
        let silence = self.silence.as_nanos() as u64;
        let heartbeat_ns = service.heartbeat_ns;
        let is_silent = heartbeat_ns != 0 && now_ns.abs_diff(heartbeat_ns) > silence;
        (!is_silent).then_some((counters, Duration::from_nanos(service.cpu_ns)))
    }
}

impl Count {
    fn add(&mut self, page: &Page) {
        self.owners.entry(page.reader.owner()).or_default().0 += 1;
        *self.processes.entry(page.reader.pid()).or_default() += 1;
        if let Some(group) = &page.group {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
    }
}

impl Page {
    /// The service that it names.
    pub fn service(&self) -> &str {
        &self.reader.description().name
    }

    /// Where it listens; 0 if nowhere.
    pub fn port(&self) -> u16 {
        self.reader.description().port
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
            assert_eq!(sight, Sight { pages: 1, ..Sight::default() });
            let page = pages.page(publisher.path()).unwrap();
            assert_eq!((page.service(), page.group()), ("cart", Some(group)));
            assert_eq!(pages.counters(publisher.path(), 0).unwrap().0.exec_ns, 5);
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
        assert_eq!(pages.scan(None).unwrap(), Sight { pages: 1, refused: 1, ..Sight::default() });
        drop(cart);
        assert_eq!(pages.scan(None).unwrap(), Sight { refused: 1, ..Sight::default() });
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
