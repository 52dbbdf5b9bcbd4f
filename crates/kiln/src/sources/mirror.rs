//! Copies of repositories elsewhere: bare, with their branches and tags, fetched one at a time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_server::sources::{Location, SourceError};

use super::ask::{Git, Question, Said, bounded, nothing};

/// A fetch takes no longer, or it fails.
const FETCH: Duration = Duration::from_mins(10);
/// A question about the other side's branches takes no longer: somebody waits for the answer.
const GLANCE: Duration = Duration::from_secs(20);
/// What git answers about a fetch.
const MOST: usize = 1 << 20;
/// What is copied.
const BRANCHES: &str = "+refs/heads/*:refs/heads/*";
const TAGS: &str = "+refs/tags/*:refs/tags/*";

#[derive(Debug)]
pub(super) struct Mirrors {
    folder: PathBuf,
    /// Held while one is fetched.
    busy: Mutex<HashMap<i64, Arc<Mutex<Fetched>>>>,
    /// Counts who asks and what begins, in their order.
    moments: AtomicU64,
}

/// The moment at which the last fetch that worked began.
type Fetched = Option<u64>;

impl Mirrors {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, busy: Mutex::default(), moments: AtomicU64::new(0) }
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn path(&self, repository: &Location) -> PathBuf {
        self.folder.join(format!("{}.git", repository.id))
    }

    /// The mirror, made if there is none.
    pub(super) fn ready(&self, git: &Git, repository: &Location) -> Result<PathBuf, SourceError> {
        let path = self.path(repository);
        if !path.join("HEAD").exists() {
            self.refresh(git, repository)?;
        }
        Ok(path)
    }

    /// Brings the mirror up to date. Those who wait while another fetches are content with the next fetch of
    /// one of them: it began after they asked.
    pub(super) fn refresh(&self, git: &Git, repository: &Location) -> Result<(), SourceError> {
        let busy = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(busy.entry(repository.id).or_default())
        };
        let asked = self.moment();
        let mut fetched = busy.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path(repository);
        let is_there = path.join("HEAD").exists();
        if is_there && fetched.is_some_and(|began| began > asked) {
            return Ok(());
        }
        let began = self.moment();
        if is_there {
            fetch(git, repository, &path)?;
        } else {
            make(git, repository, &path)?;
        }
        *fetched = Some(began);
        Ok(())
    }
}

/// Makes it beside its place first: one that is half made is never taken for whole.
fn make(git: &Git, repository: &Location, path: &Path) -> Result<(), SourceError> {
    let next = path.with_extension("new");
    let _ = fs::remove_dir_all(&next);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&next);
    made.map_err(|error| broken(&next, &error))?;
    git.ask(&next, &["init", "--quiet", "--bare"], FETCH, MOST)?.or_broken()?;
    let filled = fetch(git, repository, &next).and_then(|()| set_head(git, repository, &next));
    if let Err(error) = filled {
        let _ = fs::remove_dir_all(&next);
        return Err(error);
    }
    fs::rename(&next, path).map_err(|error| broken(path, &error))
}

fn broken(path: &Path, error: &std::io::Error) -> SourceError {
    SourceError::Broken(format!("cannot make `{}`: {error}", path.display()))
}

fn fetch(git: &Git, repository: &Location, path: &Path) -> Result<(), SourceError> {
    let words =
        ["fetch", "--quiet", "--prune", "--force", "--no-auto-gc", "origin", BRANCHES, TAGS];
    remotely(git, repository, Question::new(path, &words, FETCH)).map(drop)
}

/// The branch that is the repository's own there is so here, too.
fn set_head(git: &Git, repository: &Location, path: &Path) -> Result<(), SourceError> {
    let Some(head) = head_of(git, repository, path)? else { return Ok(()) };
    let head = format!("refs/heads/{head}");
    git.ask(path, &["symbolic-ref", "HEAD", &head], FETCH, MOST)?.or_broken().map(drop)
}

/// The branch that is the repository's own there; it is asked from any folder.
pub(super) fn head_of(
    git: &Git,
    repository: &Location,
    place: &Path,
) -> Result<Option<String>, SourceError> {
    let words = ["ls-remote", "--symref", "origin", "HEAD"];
    let output = remotely(git, repository, Question::new(place, &words, GLANCE))?;
    let text = String::from_utf8_lossy(&output);
    let head = text.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"));
    Ok(head.and_then(|head| head.strip_prefix("refs/heads/")).map(str::to_owned))
}

/// Asks the other side. Its address may hold a password, and is neither an argument nor in what we say.
fn remotely(
    git: &Git,
    repository: &Location,
    question: Question<'_>,
) -> Result<Vec<u8>, SourceError> {
    let source = &repository.source;
    if source.starts_with('-') || source.contains(['\n', '\0']) {
        return Err(SourceError::Broken("this is no address of a repository".to_owned()));
    }
    let settings = [("remote.origin.url", source.as_str())];
    let question = Question { settings: &settings, ..question };
    // The other side decides how much there is to say.
    let (output, said) = git.talk(question, nothing()?, |output| bounded(output, MOST))?;
    let said = Said { output, ..said };
    said.or_broken().map_err(|error| match error {
        SourceError::Broken(why) => {
            let why = without_passwords(&why, source);
            SourceError::Broken(format!("cannot fetch `{}`: {why}", shown(source)))
        }
        other => other,
    })
}

/// An address without user and password.
fn shown(source: &str) -> String {
    match source.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?)))
    {
        Some((scheme, (user, host))) if !user.contains('/') => format!("{scheme}://{host}"),
        _ => source.to_owned(),
    }
}

fn without_passwords(text: &str, source: &str) -> String {
    let user = source.split_once("://").and_then(|(_, rest)| Some(rest.split_once('@')?.0));
    let mut text = text.replace(source, &shown(source));
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        text = text.replace(&format!("{user}@"), "");
        if let Some((_, password)) = user.split_once(':').filter(|(_, word)| !word.is_empty()) {
            text = text.replace(password, "…");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use kiln_server::config::Outbound;

    use super::*;

    /// Of those who wait for the same repository, one fetches for all.
    #[test]
    fn who_waits_while_others_fetch_does_not_fetch_again() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::new(&Outbound::default(), folder.path()).unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        git.ask(&source, &["init", "--quiet", "--bare"], FETCH, MOST).unwrap().or_broken().unwrap();
        let repository = Location { id: 1, source: format!("file://{}", source.display()) };
        let mirrors = Mirrors::new(folder.path().join("mirrors"));
        mirrors.refresh(&git, &repository).unwrap();
        let moments = || mirrors.moments.load(Ordering::SeqCst);
        let before = moments();
        let busy = Arc::clone(&mirrors.busy.lock().unwrap()[&1]);
        let under_way = busy.lock().unwrap();
        std::thread::scope(|scope| {
            let refresh = || scope.spawn(|| mirrors.refresh(&git, &repository).unwrap());
            let waiting: Vec<_> = (0..8).map(|_| refresh()).collect();
            while moments() < before + 8 {
                std::thread::yield_now();
            }
            drop(under_way);
            for one in waiting {
                one.join().unwrap();
            }
        });
        assert_eq!(moments(), before + 9, "eight asked and one fetch began");
        mirrors.refresh(&git, &repository).unwrap();
        assert_eq!(moments(), before + 11, "who asks later fetches");
    }

    #[test]
    fn a_password_is_never_said() {
        let source = "https://me:hunter2@git.example/app.git";
        assert_eq!(shown(source), "https://git.example/app.git");
        assert_eq!(shown("git@git.example:app.git"), "git@git.example:app.git");
        let said = "fatal: cannot use 'https://me:hunter2@git.example/app.git/': hunter2 is wrong";
        assert!(!without_passwords(said, source).contains("hunter2"));
    }
}
