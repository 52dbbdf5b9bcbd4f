//! Repositories as the server sees them: what it asks git.

use std::fmt::Debug;
use std::io;

/// Asks git about repositories. The program that holds the server brings it, because the server starts
/// no processes. Calls block, and are bounded in time.
pub trait Sources: Debug + Send + Sync {
    /// Brings the server's copy up to date with an address; a folder of this machine is its own copy.
    fn refresh(&self, repository: &Location) -> Result<(), SourceError>;

    /// The branch that is the repository's own, there and now. An address is asked itself, not a copy of it.
    fn default_branch(&self, repository: &Location) -> Result<String, SourceError>;

    /// What a branch, a tag, a full ref or a commit means now.
    fn resolve(&self, repository: &Location, name: &str) -> Result<Resolved, SourceError>;

    /// The files below a folder of a commit, by their paths from the root. No folder is no files.
    fn list(
        &self,
        repository: &Location,
        commit: &str,
        folder: &str,
    ) -> Result<Vec<String>, SourceError>;

    /// The texts of files of a commit, in the order of the paths; none for what is no file, or is larger
    /// than `limit` bytes.
    fn read(
        &self,
        repository: &Location,
        commit: &str,
        paths: &[String],
        limit: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, SourceError>;

    /// Who made a commit, when, and what they said.
    fn commit(&self, repository: &Location, commit: &str) -> Result<CommitInfo, SourceError>;

    /// The paths that differ between two commits; none when one of them is not there.
    fn changed(
        &self,
        repository: &Location,
        before: &str,
        after: &str,
    ) -> Result<Option<Vec<String>>, SourceError>;

    /// Whether a commit is another one or one of its ancestors.
    fn is_part_of(
        &self,
        repository: &Location,
        commit: &str,
        of: &str,
    ) -> Result<bool, SourceError>;

    /// Serves one request of git's smart protocol, read only: the advertisement without a body, else what
    /// the client asks for. Ends early when `write` fails.
    fn upload_pack(
        &self,
        repository: &Location,
        protocol: Option<&str>,
        body: Option<Vec<u8>>,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), SourceError>;
}

/// Where a repository is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// By which the server's copy is named.
    pub id: i64,
    /// A folder on this machine, or an address that git fetches from.
    pub source: String,
}

/// A source as an address: `git@host:a/b`, as ssh and git write it, is `ssh://git@host/a/b`. All else stays as
/// it is.
pub fn address_of(source: &str) -> String {
    let is_host = |host: &str| {
        let plain = |one: u8| one.is_ascii_alphanumeric() || b"@-_.".contains(&one);
        !host.is_empty() && !host.starts_with(['-', '.']) && host.bytes().all(plain)
    };
    match source.split_once(':') {
        Some((host, path))
            if is_host(host)
                && !path.starts_with("//")
                && !path.starts_with(':')
                && !path.is_empty() =>
        {
            format!("ssh://{host}/{}", path.trim_start_matches('/'))
        }
        _ => source.to_owned(),
    }
}

/// What a name of a commit means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub commit: String,
    /// The full ref, if the name was that of a branch or tag.
    pub reference: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitInfo {
    pub message: String,
    pub author_name: String,
    pub author_email: String,
    /// As git prints it in ISO 8601.
    pub authored_at: String,
    pub parents: Vec<String>,
}

/// Why git could not say.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SourceError {
    /// The repository has no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The repository itself cannot be reached or read.
    #[error("{0}")]
    Broken(String),
    /// Too many ask at once; later it may work.
    #[error("git is asked too much at once; try again")]
    Busy,
}

mod turns;
mod workflows;

pub use turns::{Turn, Turns};
pub use workflows::{Checked, Snapshot, Workflow, Workflows};

#[cfg(test)]
mod tests {
    use super::address_of;

    #[test]
    fn the_short_form_of_ssh_is_an_address() {
        let check = |given: &str, expect: &str| assert_eq!(address_of(given), expect);
        check("git@git.example:me/app.git", "ssh://git@git.example/me/app.git");
        check("git.example:/srv/app", "ssh://git.example/srv/app");
        for same in [
            "/srv/git/app",
            "/srv/a:b",
            "https://git.example/a",
            "ssh://git@git.example:22/a",
            "ext::sh -c true",
            "-oProxyCommand=x:y",
            "git@git.example:",
            "a b:c",
            "",
        ] {
            check(same, same);
        }
    }
}
