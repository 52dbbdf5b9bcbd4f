//! The repository that jobs fetch from: a bare one that borrows every object of the user's and has
//! refs of its own.
//!
//! So nothing a job does reaches the user's repository, commits made meanwhile do not change a run
//! that is under way, and what is not committed can be fetched like a commit.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::git::{GitError, Repository};

/// Who a snapshot is by. It must not depend on the user: the same files make the same commit.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "Kiln"),
    ("GIT_AUTHOR_EMAIL", "kiln@localhost"),
    ("GIT_COMMITTER_NAME", "Kiln"),
    ("GIT_COMMITTER_EMAIL", "kiln@localhost"),
];

/// Brings the commit of a run into the source, when it is first needed.
pub type Fetch = Box<dyn Fn() -> Result<(), GitError> + Send + Sync>;

/// Made when it is first needed: most runs fetch nothing.
pub struct Served {
    source: Repository,
    fetch: Option<Fetch>,
    directory: PathBuf,
    made: OnceLock<Made>,
}

#[derive(Debug)]
struct Made {
    repository: Repository,
    /// Where the user's repository keeps its objects and its index.
    objects: PathBuf,
    index: PathBuf,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Served");
        shown
            .field("source", &self.source)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Served {
    pub fn of(source: &Repository, directory: PathBuf) -> Self {
        Self { source: source.clone(), fetch: None, directory, made: OnceLock::new() }
    }

    /// A source that may not have the commit yet, nor be there at all, before it was fetched.
    pub fn fetched(source: &Repository, fetch: Fetch, directory: PathBuf) -> Self {
        Self { fetch: Some(fetch), ..Self::of(source, directory) }
    }

    /// The repository that has all commits of the run.
    pub fn repository(&self) -> Result<&Repository, GitError> {
        Ok(&self.made()?.repository)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn source(&self) -> &Repository {
        &self.source
    }

    fn made(&self) -> Result<&Made, GitError> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = self.make()?;
        Ok(self.made.get_or_init(|| made))
    }

    fn make(&self) -> Result<Made, GitError> {
        if let Some(fetch) = &self.fetch {
            fetch()?;
        }
        let mut question = vec!["rev-parse", "--path-format=absolute", "--show-object-format"];
        question
            .extend(["objects", "shallow", "index"].iter().flat_map(|name| ["--git-path", name]));
        let answer = self.source.ask(&question)?;
        let [format, objects, shallow, index] = answer.lines().collect::<Vec<_>>()[..] else {
            return Err(GitError(format!("git answered `{answer}`, expected four lines")));
        };
        let git = Repository::at(self.source.root());
        let target = self.directory.as_os_str();
        let format = format!("--object-format={format}");
        let words = ["init", "-q", "--bare", "--template=", &format].map(OsStr::new);
        git.bytes(&[&words[..], &[target]].concat(), &[])?;
        self.write("objects/info/alternates", format!("{objects}\n").as_bytes())?;
        if let Ok(commits) = fs::read(shallow) {
            self.write("shallow", &commits)?;
        }
        let repository = Repository::at(&self.directory);
        Ok(Made { repository, objects: objects.into(), index: index.into() })
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), GitError> {
        let path = self.directory.join(name);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, content));
        written.map_err(|error| GitError(format!("cannot write `{}`: {error}", path.display())))
    }

    /// The commit that runs, and the repository that has it: `head` itself, or one that only this run
    /// knows when files that are not committed run too, or a folder of the repository alone.
    pub fn commit(&self, head: &str, dirty: bool) -> Result<(String, &Repository), GitError> {
        let folder = self.folder()?;
        if !dirty && folder.is_empty() {
            return Ok((head.to_owned(), &self.source));
        }
        let made = self.made()?;
        let files = if dirty { self.working_tree(made)? } else { head.to_owned() };
        let tree = self.ask(made, &["rev-parse", "--verify", &format!("{files}:{folder}")], &[])?;
        let known = self.ask(made, &["show", "-s", "--format=%T %ct", head], &[])?;
        let (known_tree, time) = known.split_once(' ').unwrap_or_default();
        if tree == known_tree {
            return Ok((head.to_owned(), &made.repository));
        }
        let date = format!("{time} +0000");
        let mut env: Vec<(&str, &OsStr)> =
            AUTHOR.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
        env.extend(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, OsStr::new(&date))));
        let mut words = vec!["commit-tree", &tree, "-m", "What this run runs"];
        if folder.is_empty() {
            words.extend(["-p", head]);
        }
        Ok((self.ask(made, &words, &env)?, &made.repository))
    }

    /// The folder of the repository that runs alone, with a slash at its end; empty for the whole.
    fn folder(&self) -> Result<String, GitError> {
        if self.source.root().join(".git").exists() {
            return Ok(String::new());
        }
        self.source.ask(&["rev-parse", "--show-prefix"])
    }

    /// The working tree as a tree of git: changed and new files, but not ignored ones. The user's index
    /// and objects stay as they are.
    fn working_tree(&self, made: &Made) -> Result<String, GitError> {
        let index = self.directory.join("snapshot.index");
        copy_index(&made.index, &index).map_err(|error| {
            GitError(format!("cannot copy `{}`: {error}", made.index.display()))
        })?;
        let env = [("GIT_INDEX_FILE", index.as_os_str())];
        self.ask(made, &["-c", "advice.addEmbeddedRepo=false", "add", "-A"], &env)?;
        self.ask(made, &["write-tree"], &env)
    }

    /// Asks git in the user's files with the objects of this run.
    fn ask(
        &self,
        made: &Made,
        words: &[&str],
        more: &[(&str, &OsStr)],
    ) -> Result<String, GitError> {
        let (own, alternates) = (self.directory.join("objects"), quoted(&made.objects));
        let mut env = vec![
            ("GIT_OBJECT_DIRECTORY", own.as_os_str()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &alternates),
        ];
        env.extend(more);
        let said = self.source.bytes(words, &env)?;
        Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    /// Writes the refs as the server of a clone would have them: the user's branches and tags, the
    /// branches of the user's `origin` that have no local one, and the run's own ref at its commit.
    pub(super) fn publish(&self, commit: &str, reference: &str) -> Result<(), GitError> {
        self.made()?;
        let listed = self.source.ask(&[
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            // What comes later wins.
            "refs/remotes/origin",
            "refs/heads",
            "refs/tags",
        ])?;
        let mut refs = indexmap::IndexMap::new();
        for (object, name) in listed.lines().filter_map(|line| line.split_once(' ')) {
            match name.strip_prefix("refs/remotes/origin/") {
                Some("HEAD") => {}
                Some(branch) => {
                    refs.entry(format!("refs/heads/{branch}")).or_insert(object);
                }
                None => {
                    refs.insert(name.to_owned(), object);
                }
            }
        }
        if reference.starts_with("refs/") {
            refs.insert(reference.to_owned(), commit);
        }
        let mut packed = String::new();
        for (name, object) in &refs {
            writeln!(packed, "{object} {name}").expect("a string takes all that is written");
        }
        self.write("packed-refs", packed.as_bytes())?;
        if reference.starts_with("refs/heads/") {
            self.write("HEAD", format!("ref: {reference}\n").as_bytes())?;
        }
        Ok(())
    }
}

/// With a copy of the index, git looks only into files that have changed since. By the time of the
/// index it tells which ones could have changed in the moment it was written, so the time is copied.
fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    fs::copy(from, to)?;
    let time = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(time)
}

/// A path as git reads it in a list that colons separate.
fn quoted(path: &Path) -> OsString {
    let escaped = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"").into()
}
