//! Limits that the kernel sees to: control groups for the processes of one job.
//!
//! A process joins its groups before it becomes the program: nothing of it, and nothing that it starts, ever
//! runs outside. Both forms of control groups are used, wherever the runner may make some.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a job may use at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Millions of bytes.
    pub memory_mb: Option<u64>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// Processes and threads at once.
    pub pids: Option<u64>,
}

impl Bounds {
    /// The controllers that see to them, and what the limits are called.
    fn wanted(&self) -> impl Iterator<Item = (Controller, &'static str)> {
        let memory = self.memory_mb.map(|_| (Controller::Memory, "memory"));
        let cpu = self.cpu_millis.map(|_| (Controller::Cpu, "cores"));
        let pids = self.pids.map(|_| (Controller::Pids, "processes"));
        [memory, cpu, pids].into_iter().flatten()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The control groups of one job. They go with it.
#[derive(Debug)]
pub struct Cage {
    groups: BTreeMap<Controller, Group>,
    bounds: Bounds,
    /// How often the kernel had to see to the limits, as far as that was told.
    told: [AtomicU64; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    /// All controllers have one folder.
    unified: bool,
}

/// Where the processes of a service go that has groups of jobs.
const ASIDE: &str = "kiln-runner";

impl Cage {
    /// Groups with these bounds, as far as they can be had; and in words, what cannot.
    pub fn build(bounds: Bounds, token: &str) -> (Option<Self>, Vec<String>) {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mounts"), read("/proc/self/cgroup"));
        Self::build_in(&Hierarchy::read(&mounts, &own), bounds, token)
    }

    fn build_in(hierarchy: &Hierarchy, bounds: Bounds, token: &str) -> (Option<Self>, Vec<String>) {
        let name = format!("kiln-{}-{token}", std::process::id());
        let mut cage = Self { groups: BTreeMap::new(), bounds, told: Default::default() };
        let mut lacking = Vec::new();
        for (controller, what) in bounds.wanted() {
            let made = hierarchy.group(controller, &name).and_then(|group| {
                let set = cage.set(controller, &group);
                cage.groups.insert(controller, group);
                set
            });
            if let Err(error) = made {
                cage.drop_group(controller);
                let name = controller.name();
                lacking.push(format!("the limit on {what} (control group `{name}`: {error})"));
            }
        }
        (Some(cage).filter(|cage| !cage.groups.is_empty()), lacking)
    }

    fn set(&self, controller: Controller, group: &Group) -> io::Result<()> {
        let set = |file: &str, value: String| fs::write(group.folder.join(file), value);
        match controller {
            Controller::Memory => {
                let bytes = self.bounds.memory_mb.unwrap_or_default().saturating_mul(1_000_000);
                let (limit, swap, most) = if group.unified {
                    ("memory.max", "memory.swap.max", "0".to_owned())
                } else {
                    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes.to_string())
                };
                set(limit, bytes.to_string())?;
                // A kernel that does not count what was swapped has nothing to be told.
                let _ = set(swap, most);
                Ok(())
            }
            Controller::Cpu => {
                const PERIOD: u64 = 100_000;
                let millis = u64::from(self.bounds.cpu_millis.unwrap_or_default());
                let quota = (PERIOD * millis / 1_000).max(1_000);
                if group.unified {
                    return set("cpu.max", format!("{quota} {PERIOD}"));
                }
                set("cpu.cfs_period_us", PERIOD.to_string())?;
                set("cpu.cfs_quota_us", quota.to_string())
            }
            Controller::Pids => set("pids.max", self.bounds.pids.unwrap_or_default().to_string()),
        }
    }

    /// The files to which a process writes that joins.
    pub(super) fn doors(&self) -> io::Result<Vec<File>> {
        let mut folders: Vec<&Path> =
            self.groups.values().map(|group| group.folder.as_path()).collect();
        folders.dedup();
        let open = |folder: &Path| OpenOptions::new().write(true).open(folder.join("cgroup.procs"));
        folders.into_iter().map(open).collect()
    }

    /// What the kernel did since this was asked last because of a limit, in words.
    pub fn news(&self) -> Option<String> {
        let [memory, pids] = &self.told;
        let more = |told: &AtomicU64, now: u64| told.swap(now, Ordering::SeqCst) < now;
        if more(memory, self.out_of_memory()) {
            let most = self.bounds.memory_mb.unwrap_or_default();
            return Some(format!(
                "the job needs more memory than its limit of {most} MB; the kernel ended a process of it"
            ));
        }
        if more(pids, self.count(Controller::Pids, "pids.events", "max")) {
            let most = self.bounds.pids.unwrap_or_default();
            return Some(format!("the job started more than {most} processes and threads at once"));
        }
        None
    }

    /// How often a process was ended because the job was over its limit of memory.
    pub fn out_of_memory(&self) -> u64 {
        let unified = self.groups.get(&Controller::Memory).is_some_and(|group| group.unified);
        let file = if unified { "memory.events" } else { "memory.oom_control" };
        self.count(Controller::Memory, file, "oom_kill")
    }

    /// The most memory that the processes had at once, in bytes.
    pub fn peak(&self) -> Option<u64> {
        let group = self.groups.get(&Controller::Memory)?;
        let file = if group.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
        fs::read_to_string(group.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// A number in a file of lines with a word and a number.
    fn count(&self, controller: Controller, file: &str, word: &str) -> u64 {
        let Some(group) = self.groups.get(&controller) else { return 0 };
        let text = fs::read_to_string(group.folder.join(file)).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }

    fn drop_group(&mut self, controller: Controller) {
        if let Some(group) = self.groups.remove(&controller)
            && self.groups.values().all(|other| other.folder != group.folder)
        {
            remove(&group.folder);
        }
    }
}

impl Drop for Cage {
    /// What is left of an ended job is empty. A group that is not stays, and the next runner here removes it.
    fn drop(&mut self) {
        for group in self.groups.values() {
            remove(&group.folder);
        }
    }
}

/// Where groups can be made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hierarchy {
    /// One folder for each controller.
    separate: BTreeMap<Controller, PathBuf>,
    /// One for all.
    unified: Option<PathBuf>,
}

impl Hierarchy {
    /// From what the kernel says of mounts, and of the groups of this process.
    fn read(mounts: &str, own: &str) -> Self {
        let mut found = Self::default();
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(place), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            match kind {
                "cgroup2" => {
                    let group = own.lines().find_map(|line| line.strip_prefix("0::"));
                    found.unified = group.map(|group| below(place, of_service(group)));
                }
                "cgroup" => {
                    for controller in Controller::ALL {
                        if options.split(',').any(|option| option == controller.name())
                            && let Some(group) = of_controller(own, controller.name())
                        {
                            found.separate.insert(controller, below(place, group));
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn group(&self, controller: Controller, name: &str) -> io::Result<Group> {
        let (parent, unified) = match (self.separate.get(&controller), &self.unified) {
            (Some(parent), _) => (parent, false),
            (None, Some(parent)) => (parent, true),
            (None, None) => return Err(io::Error::other("there is none on this machine")),
        };
        if unified {
            enable(parent, controller)?;
        }
        forget_dead(parent);
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let kind = fs::read_to_string(folder.join("cgroup.type")).unwrap_or_default();
        if unified && !["", "domain"].contains(&kind.trim()) {
            remove(&folder);
            return Err(io::Error::other("groups below that of the runner can have no processes"));
        }
        Ok(Group { folder, unified })
    }
}

/// The group as it is seen from here: a container sees its own as the root of all.
fn below(mount: &str, group: &str) -> PathBuf {
    let whole = Path::new(mount).join(group.trim_start_matches('/'));
    if whole.is_dir() { whole } else { PathBuf::from(mount) }
}

/// The group of the service, whose processes an earlier job has moved aside.
fn of_service(group: &str) -> &str {
    let service = group.strip_suffix(ASIDE).and_then(|group| group.strip_suffix('/'));
    service.filter(|service| service.ends_with(".service")).unwrap_or(group)
}

fn of_controller<'o>(own: &'o str, name: &str) -> Option<&'o str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        controllers.split(',').any(|controller| controller == name).then_some(group)
    })
}

/// Lets groups below have limits. A group with processes of its own cannot have such: those of a service of
/// ours move to a group beside the jobs.
fn enable(parent: &Path, controller: Controller) -> io::Result<()> {
    let has = |file: &str| {
        let text = fs::read_to_string(parent.join(file)).unwrap_or_default();
        text.split_whitespace().any(|word| word == controller.name())
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(io::Error::other("it is not delegated to the runner"));
    }
    let control = parent.join("cgroup.subtree_control");
    let word = format!("+{}", controller.name());
    // The kernel would take some controllers even where there are processes, and then none could join a group below.
    let processes = fs::read_to_string(parent.join("cgroup.procs")).unwrap_or_default();
    let is_root = !parent.join("cgroup.type").exists();
    if is_root || processes.trim().is_empty() {
        return fs::write(&control, &word);
    }
    if parent.extension().is_none_or(|kind| kind != "service") {
        let message =
            "its processes are not those of a service; start the runner as one with `Delegate=yes`";
        return Err(io::Error::other(message));
    }
    let leaf = parent.join(ASIDE);
    fs::create_dir_all(&leaf)?;
    for pid in processes.lines() {
        // One that has ended need not move.
        let _ = fs::write(leaf.join("cgroup.procs"), pid);
    }
    fs::write(&control, &word)
}

/// Removes a group with those that steps made below it. One that has processes stays.
fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// Removes what runners left that were killed.
fn forget_dead(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("kiln-")?.split('-').next());
        let is_dead =
            |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
        if pid.is_some_and(is_dead) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { memory_mb: Some(64), cpu_millis: Some(1_500), pids: Some(99) };

    fn text(folder: &Path, file: &str) -> String {
        fs::read_to_string(folder.join(file)).unwrap_or_default()
    }

    #[test]
    fn places_are_read_as_the_kernel_writes_them() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /nowhere/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
            cgroup /nowhere/memory cgroup rw,relatime,memory 0 0\n\
            cgroup2 /nowhere/unified cgroup2 rw 0 0\n";
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/\n2:pids:/x\n0::/user.slice\n";
        let found = Hierarchy::read(mounts, own);
        let separate = [
            (Controller::Cpu, "/nowhere/cpu,cpuacct".into()),
            (Controller::Memory, "/nowhere/memory".into()),
        ];
        assert_eq!(found.separate, separate.into());
        assert_eq!(found.unified, Some("/nowhere/unified".into()));
        assert_eq!(Hierarchy::read("", own), Hierarchy::default());
    }

    #[test]
    fn limits_are_written_in_the_words_of_either_form() {
        let place = tempfile::tempdir().unwrap();
        let unified = place.path().join("kiln.service");
        fs::create_dir(&unified).unwrap();
        fs::write(unified.join("cgroup.controllers"), "cpu io memory pids\n").unwrap();
        let hierarchy = Hierarchy { separate: BTreeMap::new(), unified: Some(unified) };
        let (cage, lacking) = Cage::build_in(&hierarchy, BOUNDS, "t");
        let cage = cage.unwrap();
        assert!(lacking.is_empty(), "{lacking:?}");
        let folder = cage.groups[&Controller::Cpu].folder.clone();
        let expect = [
            ("memory.max", "64000000"),
            ("memory.swap.max", "0"),
            ("cpu.max", "150000 100000"),
            ("pids.max", "99"),
        ];
        for (file, value) in expect {
            assert_eq!(text(&folder, file), value, "{file}");
        }
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        assert_eq!(cage.doors().unwrap().len(), 1, "all have one folder");
        assert_eq!(
            of_service("/system.slice/kiln.service/kiln-runner"),
            "/system.slice/kiln.service"
        );
        assert_eq!(of_service("/user.slice/kiln-runner"), "/user.slice/kiln-runner");
        fs::write(folder.join("memory.events"), "oom 2\noom_kill 2\n").unwrap();
        assert!(cage.news().unwrap().contains("limit of 64 MB"));
        assert_eq!(cage.news(), None, "it is told once");
        fs::write(folder.join("pids.events"), "max 7\n").unwrap();
        assert!(cage.news().unwrap().contains("more than 99 processes"));

        let separate = [(Controller::Memory, place.path().join("memory"))];
        fs::create_dir(&separate[0].1).unwrap();
        let hierarchy = Hierarchy { separate: separate.into(), unified: None };
        let (cage, lacking) = Cage::build_in(&hierarchy, BOUNDS, "t");
        let folder = cage.as_ref().unwrap().groups[&Controller::Memory].folder.clone();
        assert_eq!(text(&folder, "memory.limit_in_bytes"), "64000000");
        assert_eq!(lacking.len(), 2, "{lacking:?}");
        assert!(lacking[0].contains("the limit on cores") && lacking[1].contains("processes"));
    }

    #[test]
    fn without_control_groups_every_limit_is_named_that_is_not_seen_to() {
        let (cage, lacking) = Cage::build_in(&Hierarchy::default(), BOUNDS, "t");
        assert!(cage.is_none());
        assert_eq!(
            lacking[0],
            "the limit on memory (control group `memory`: there is none on this machine)"
        );
        assert_eq!(lacking.len(), 3);
    }

    #[test]
    fn what_a_killed_runner_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let own = format!("kiln-{}-x", std::process::id());
        for name in ["kiln-4194305-x", own.as_str(), "kiln-runner", "other"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        forget_dead(place.path());
        let left = |name: &str| place.path().join(name).exists();
        assert!(!left("kiln-4194305-x") && left(&own) && left("kiln-runner") && left("other"));
    }
}
