//! Disks and networks of a test's own: namespaces, of which the machine around them sees nothing.
//!
//! They need root, as `scripts/test` has it. Without, these tests fail and say so: what they are about
//! would not be tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the file in which the test inside says that it began.
const INSIDE: &str = "KILN_TEST_INSIDE";

/// What of the machine a test has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Private {
    Disks,
    Network,
}

/// Runs this test again in namespaces of its own, and its body there alone.
pub(super) fn inside(test: &str, private: Private, body: impl FnOnce()) {
    if let Some(begun) = std::env::var_os(INSIDE) {
        fs::write(begun, test).expect("the outer test made the folder");
        return body();
    }
    let folder = tempfile::tempdir().expect("the system has a folder for such files");
    let begun = folder.path().join("begun");
    let mut unshare = Command::new("unshare");
    unshare.arg(match private {
        Private::Disks => "--mount",
        Private::Network => "--net",
    });
    unshare.arg("--").arg(std::env::current_exe().expect("a process has a program"));
    unshare.args(["--exact", test, "--nocapture"]).env(INSIDE, &begun);
    let status = unshare.status().expect("util-linux is installed: run scripts/test");
    assert!(
        begun.exists(),
        "`{test}` did not begin inside namespaces ({status}): this test needs root, and a kernel that \
         lets it make them"
    );
    assert!(status.success(), "`{test}` failed inside its namespaces: {status}");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; run scripts/test"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// A small disk, which goes with the test.
pub(super) struct Disk(PathBuf);

impl Disk {
    pub(super) fn new(path: PathBuf, megabytes: u32) -> Self {
        fs::create_dir_all(&path).expect("the place is ours");
        let size = format!("size={megabytes}m");
        run("mount", &["-t", "tmpfs", "-o", &size, "kiln-test", &path.to_string_lossy()]);
        Self(path)
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Takes all the room that there is.
    pub(super) fn fill(&self) {
        use std::io::Write as _;
        let mut file = fs::File::create(self.ballast()).expect("there is room for a name");
        let mut piece = vec![7; 1 << 20];
        // Piece by piece, then with ever smaller ones, until not a byte fits.
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Nobody may write to it from now on. Nobody may be doing so.
    pub(super) fn forbid_writing(&self) {
        run("mount", &["-o", "remount,ro", &self.0.to_string_lossy()]);
    }

    pub(super) fn allow_writing(&self) {
        run("mount", &["-o", "remount,rw", &self.0.to_string_lossy()]);
    }

    /// Gives the room back.
    pub(super) fn free(&self) {
        fs::remove_file(self.ballast()).expect("it was filled");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still uses it may, but the folder can be removed.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A network of its own on the other side of a cable. This side is the network of the test.
pub(super) struct Link {
    /// Holds the network there as long as it lives.
    holder: Child,
}

/// The two ends of the cable.
pub(super) const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
/// Who has this address is nobody: what is sent there is lost without a word.
const NOBODY: &str = "02:00:00:00:00:99";

/// Which way nothing comes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Both,
    /// What this side sends is lost.
    FromNear,
    FromFar,
}

impl Link {
    pub(super) fn new() -> Self {
        let mut holder = Command::new("setpriv");
        holder.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "--", "sleep", "infinity"]);
        let holder = holder.stdin(Stdio::null()).spawn().expect("util-linux is installed");
        let link = Self { holder };
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let pid = link.holder.id().to_string();
        let end = Instant::now() + Duration::from_secs(10);
        while network(&pid) == network("self") {
            assert!(Instant::now() < end, "no namespace was made");
            std::thread::sleep(Duration::from_millis(5));
        }
        let cable = ["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &pid];
        link.here(&cable);
        for (on, address, name) in
            [(Self::here as fn(&Self, &[&str]), NEAR, "near"), (Self::there, FAR, "far")]
        {
            on(&link, &["address", "add", &format!("{address}/24"), "dev", name]);
            on(&link, &["link", "set", name, "up"]);
            on(&link, &["link", "set", "lo", "up"]);
        }
        link
    }

    /// The words before a command that is run on the other side.
    pub(super) fn launcher(&self) -> [String; 3] {
        let network = format!("--net={}", self.network().display());
        ["nsenter".to_owned(), network, "--".to_owned()]
    }

    fn network(&self) -> PathBuf {
        Path::new("/proc").join(self.holder.id().to_string()).join("ns/net")
    }

    #[expect(clippy::unused_self, reason = "it is the same as `there`, on this side")]
    fn here(&self, arguments: &[&str]) {
        run("ip", arguments);
    }

    fn there(&self, arguments: &[&str]) {
        let launcher = self.launcher();
        let words = [&launcher[1], "--", "ip"].map(ToOwned::to_owned);
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        run("nsenter", &words);
    }

    pub(super) fn cut(&self, cut: Cut) {
        match cut {
            Cut::Both => self.there(&["link", "set", "far", "down"]),
            Cut::FromNear => self.here(&neighbour("replace", FAR, "near")),
            Cut::FromFar => self.there(&neighbour("replace", NEAR, "far")),
        }
    }

    pub(super) fn mend(&self, cut: Cut) {
        match cut {
            Cut::Both => self.there(&["link", "set", "far", "up"]),
            Cut::FromNear => self.here(&neighbour("del", FAR, "near")[..5]),
            Cut::FromFar => self.there(&neighbour("del", NEAR, "far")[..5]),
        }
    }
}

/// Says who has an address. What only removes that needs the first five words.
fn neighbour<'w>(verb: &'w str, address: &'w str, device: &'w str) -> [&'w str; 9] {
    ["neigh", verb, address, "dev", device, "lladdr", NOBODY, "nud", "permanent"]
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
