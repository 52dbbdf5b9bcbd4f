//! Repositories for the server, by way of git: folders as they are, addresses through a mirror.
//!
//! Git is always the one of this machine, started where all processes are started: `kiln up` adopts
//! orphans, and would take a child that it does not know for one.

mod ask;
mod loose;
mod mirror;
mod names;
mod pack;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_server::config::Outbound;
use kiln_server::sources::{CommitInfo, Location, Resolved, SourceError, Sources};

use ask::{Git, Said};
use mirror::Mirrors;
use names::{is_commit, must_be_a_name};

/// No question about what is here may take longer.
const QUESTION: Duration = Duration::from_mins(1);
/// Nor may it answer more than this.
const MOST: usize = 64 << 20;

/// Repositories on this machine, and mirrors of others in a folder.
#[derive(Debug)]
pub(crate) struct GitSources {
    git: Git,
    mirrors: Mirrors,
    /// A folder without files, where git asks about what is nowhere here yet.
    home: PathBuf,
}

impl GitSources {
    pub(crate) fn new(data: &Path, outbound: &Outbound) -> io::Result<Self> {
        let home = data.join("git-home");
        DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
        let mirrors = Mirrors::new(data.join("mirrors"));
        Ok(Self { git: Git::new(outbound, &home)?, mirrors, home })
    }

    /// Where git finds the repository; a mirror that is not there yet is made.
    fn place(&self, repository: &Location) -> Result<PathBuf, SourceError> {
        if let Some(folder) = folder_of(repository)? {
            return Ok(folder);
        }
        self.mirrors.ready(&self.git, repository)
    }

    /// Asks about a commit. One that another server heard of first is fetched.
    fn about<T>(
        &self,
        repository: &Location,
        commit: &str,
        ask: impl Fn(&Path) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if !is_commit(commit) {
            return Err(SourceError::NotFound(format!("`{commit}` is no commit")));
        }
        let place = self.place(repository)?;
        match ask(&place) {
            Err(SourceError::NotFound(_)) if folder_of(repository)?.is_none() => {
                self.mirrors.refresh(&self.git, repository)?;
                ask(&place)
            }
            answer => answer,
        }
    }

    fn ask(&self, place: &Path, words: &[&str]) -> Result<Said, SourceError> {
        self.git.ask(place, words, QUESTION, MOST)
    }
}

/// The folder on this machine, if the repository is one.
fn folder_of(repository: &Location) -> Result<Option<PathBuf>, SourceError> {
    let source = &repository.source;
    if !source.starts_with('/') {
        return Ok(None);
    }
    let folder = PathBuf::from(source);
    if !folder.is_dir() {
        return Err(SourceError::Broken(format!("there is no folder `{source}` on the server")));
    }
    Ok(Some(folder))
}

impl Sources for GitSources {
    fn refresh(&self, repository: &Location) -> Result<(), SourceError> {
        match folder_of(repository)? {
            // Whether it is a repository is seen when it is asked.
            Some(folder) => self.ask(&folder, &["rev-parse", "--git-dir"])?.or_broken().map(drop),
            None => self.mirrors.refresh(&self.git, repository),
        }
    }

    fn default_branch(&self, repository: &Location) -> Result<String, SourceError> {
        let Some(place) = folder_of(repository)? else {
            let head = mirror::head_of(&self.git, repository, &self.home)?;
            return head.ok_or_else(|| SourceError::NotFound("it has no branch yet".to_owned()));
        };
        let said = self.ask(&place, &["symbolic-ref", "--quiet", "HEAD"])?;
        let name = said.ok().map(|output| String::from_utf8_lossy(&output).trim().to_owned());
        let name = name.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
        name.ok_or_else(|| SourceError::NotFound("no branch is checked out there".to_owned()))
    }

    fn resolve(&self, repository: &Location, name: &str) -> Result<Resolved, SourceError> {
        must_be_a_name(name)?;
        let place = self.place(repository)?;
        if let Some(found) = loose::branch(&place, name) {
            return Ok(found);
        }
        names::resolve(name, |words| self.ask(&place, words))
    }

    fn list(
        &self,
        repository: &Location,
        commit: &str,
        folder: &str,
    ) -> Result<Vec<String>, SourceError> {
        let folder = format!("{}/", folder.trim_matches('/'));
        self.about(repository, commit, |place| {
            let words = ["ls-tree", "-r", "-z", "--full-tree", commit, "--", &folder];
            Ok(names::files(&self.ask(place, &words)?.or_missing()?))
        })
    }

    fn read(
        &self,
        repository: &Location,
        commit: &str,
        paths: &[String],
        limit: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, SourceError> {
        self.about(repository, commit, |place| pack::read(&self.git, place, commit, paths, limit))
    }

    fn commit(&self, repository: &Location, commit: &str) -> Result<CommitInfo, SourceError> {
        let format = "--format=%an%x00%ae%x00%aI%x00%P%x00%B";
        self.about(repository, commit, |place| {
            let words = ["show", "-s", "--no-show-signature", "--no-notes", format, commit, "--"];
            names::commit_of(&self.ask(place, &words)?.or_missing()?)
        })
    }

    fn changed(
        &self,
        repository: &Location,
        before: &str,
        after: &str,
    ) -> Result<Option<Vec<String>>, SourceError> {
        if !is_commit(before) {
            return Ok(None);
        }
        self.about(repository, after, |place| {
            let words =
                ["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, "--"];
            let Some(output) = self.ask(place, &words)?.ok() else { return Ok(None) };
            let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            Ok(Some(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()))
        })
    }

    fn is_part_of(
        &self,
        repository: &Location,
        commit: &str,
        of: &str,
    ) -> Result<bool, SourceError> {
        self.about(repository, of, |place| {
            let words = ["merge-base", "--is-ancestor", commit, of];
            Ok(self.ask(place, &words)?.ok().is_some())
        })
    }

    fn upload_pack(
        &self,
        repository: &Location,
        protocol: Option<&str>,
        body: Option<Vec<u8>>,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), SourceError> {
        let place = self.place(repository)?;
        if let Some(body) = &body
            && folder_of(repository)?.is_none()
            && !pack::has_all(&self.git, &place, &pack::wants(body))?
        {
            self.mirrors.refresh(&self.git, repository)?;
        }
        pack::upload(&self.git, &place, protocol, body, write)
    }
}

#[cfg(test)]
mod tests;
