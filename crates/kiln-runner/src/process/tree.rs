//! The mark that all processes of a tree carry.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Cage;
use crate::random;

use super::Leader;

/// The environment variable with the mark: the tokens of the trees around it and its own, with colons
/// between them. So a sweep of a run finds the processes of all its jobs, also those of another Kiln
/// that runs in a step.
pub const VARIABLE: &str = "KILN_TREE";

const TOKEN_BYTES: usize = 16;

/// Processes that belong together, such as those of a job, whatever they do to their group, session
/// or parent.
#[derive(Debug)]
pub struct Tree {
    /// The tokens of the trees around this one, from the outside in.
    outer: Vec<String>,
    token: String,
    /// Pipes that processes of ended steps still write to. They are kept open and read by later steps,
    /// so that a server in the background neither dies of a closed pipe nor waits at a full one.
    left: Mutex<Vec<OwnedFd>>,
    /// What limits its processes.
    cage: OnceLock<Arc<Cage>>,
    /// Who wants to know of its process.
    leader: Option<Leader>,
}

impl Tree {
    /// A tree with a new token. `outer` is this process's own [`VARIABLE`], if it has one.
    pub fn new(outer: Option<&OsStr>) -> io::Result<Self> {
        let outer = outer.map(|mark| tokens_of(mark.as_bytes())).unwrap_or_default();
        Self::below(outer)
    }

    /// A tree within this one: it can be swept alone, and is swept with this one.
    pub fn child(&self) -> io::Result<Self> {
        let mut outer = self.outer.clone();
        outer.push(self.token.clone());
        let child = Self::below(outer)?;
        if let Some(cage) = self.cage.get() {
            let _ = child.cage.set(Arc::clone(cage));
        }
        Ok(child)
    }

    /// Limits all processes that are started in this tree, and in trees that are made within it, from now on.
    /// What limits it already stays.
    pub fn confine(&self, cage: Cage) {
        let _ = self.cage.set(Arc::new(cage));
    }

    pub fn cage(&self) -> Option<&Cage> {
        self.cage.get().map(|cage| &**cage)
    }

    /// A tree for one process of this one. It takes care of the pipes of those before it meanwhile; see
    /// [`Tree::take_back`].
    pub fn part(&self) -> io::Result<Self> {
        let part = self.child()?;
        part.leave(self.take_left());
        Ok(part)
    }

    /// Lets somebody know of the one process that is run in this tree.
    #[must_use]
    pub fn led_by(mut self, leader: Option<Leader>) -> Self {
        self.leader = leader;
        self
    }

    pub(super) fn leader(&self) -> Option<&Leader> {
        self.leader.as_ref()
    }

    /// Keeps what a part left running alive.
    pub fn take_back(&self, part: &Self) {
        self.leave(part.take_left());
    }

    /// A tree beside this one: it is swept with those around both, but not with this one.
    pub fn sibling(&self) -> io::Result<Self> {
        Self::below(self.outer.clone())
    }

    /// The tree of this token, to be swept by another process than the one that made it.
    pub fn of_token(token: &str) -> io::Result<Self> {
        if !is_token(token.as_bytes()) {
            let message = format!("`{token}` is not the token of a process tree");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self::with(Vec::new(), token.to_owned()))
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// The value of [`VARIABLE`] for processes of this tree.
    pub(crate) fn mark(&self) -> OsString {
        let mut mark = self.outer_mark();
        if !self.outer.is_empty() {
            mark.push(":");
        }
        mark.push(&self.token);
        mark
    }

    /// The value of [`VARIABLE`] for processes beside this tree.
    pub(super) fn outer_mark(&self) -> OsString {
        self.outer.join(":").into()
    }

    /// Whether a process with this environment belongs to the tree.
    pub(super) fn has(&self, environment: &[u8]) -> bool {
        let mut entries = environment.split(|byte| *byte == 0);
        let mark = entries.find_map(|entry| {
            let value = entry.strip_prefix(VARIABLE.as_bytes())?;
            value.strip_prefix(b"=")
        });
        let token = self.token.as_bytes();
        mark.is_some_and(|mark| mark.split(|byte| *byte == b':').any(|one| one == token))
    }

    /// Takes the pipes of ended steps, to be read and given back.
    pub(super) fn take_left(&self) -> Vec<OwnedFd> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut left)
    }

    pub(super) fn leave(&self, pipes: impl IntoIterator<Item = OwnedFd>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(pipes);
    }

    fn below(outer: Vec<String>) -> io::Result<Self> {
        Ok(Self::with(outer, random::hex::<TOKEN_BYTES>()?))
    }

    fn with(outer: Vec<String>, token: String) -> Self {
        let (left, cage) = (Mutex::default(), OnceLock::new());
        Self { outer, token, left, cage, leader: None }
    }
}

/// The tokens in a mark; what is none is left out, since it was not us who wrote it.
fn tokens_of(mark: &[u8]) -> Vec<String> {
    let parts = mark.split(|byte| *byte == b':');
    let tokens = parts.filter(|part| is_token(part));
    tokens.map(|token| String::from_utf8_lossy(token).into_owned()).collect()
}

/// Anything shorter could mark a process of somebody else.
fn is_token(text: &[u8]) -> bool {
    text.len() == 2 * TOKEN_BYTES && text.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use std::ffi::OsStr;

    fn environment(tree: &Tree) -> Vec<u8> {
        let mark = tree.mark().into_string().unwrap();
        format!("A=1\0KILN_TREE={mark}\0B=2\0").into_bytes()
    }

    #[test]
    fn a_process_belongs_to_its_tree_and_those_around_it() {
        let run = Tree::new(None).unwrap();
        let job = run.child().unwrap();
        let sibling = run.child().unwrap();
        let inner = Tree::new(Some(&job.mark())).unwrap();
        let process = environment(&inner);
        assert!([&run, &job, &inner].iter().all(|tree| tree.has(&process)));
        assert!(!sibling.has(&process));
        let beside = environment(&job.sibling().unwrap());
        assert!(run.has(&beside) && !job.has(&beside));
        assert!(!job.has(&environment(&run)));
    }

    #[test]
    fn only_the_variable_itself_counts() {
        let tree = Tree::new(None).unwrap();
        let token = tree.token();
        let check = |environment: String, expect: bool| {
            assert_eq!(tree.has(environment.as_bytes()), expect, "{environment:?}");
        };
        check(format!("KILN_TREE={token}"), true);
        check(format!("KILN_TREE={token}0"), false);
        check(format!("KILN_TREE2={token}"), false);
        check(format!("OLD_KILN_TREE={token}\0"), false);
        check(format!("A=KILN_TREE={token}\0"), false);
        check(String::new(), false);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "a", "../../etc", &"g".repeat(32), &"a".repeat(33)] {
            assert!(Tree::of_token(text).is_err(), "{text:?}");
            let tree = Tree::new(Some(OsStr::new(text))).unwrap();
            assert_eq!(tree.mark(), OsStr::new(tree.token()));
        }
    }
}
