//! The repository around the current directory, and what a server calls it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kiln_proto::api::Repo;
use kiln_runner::git::Repository;
use kiln_server::sources::address_of;
use reqwest::Url;

use super::Client;
use super::error::{self, Kind};
use crate::cli::ServerArgs;
use crate::find;

/// More repositories are not searched for a folder.
const MOST_REPOSITORIES: usize = 10_000;

/// What the current directory is a copy of.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    /// The folder that holds `.git`.
    pub(crate) root: PathBuf,
    /// Where it was cloned from.
    pub(crate) remote: Option<String>,
    /// The branch that is checked out.
    pub(crate) branch: Option<String>,
}

impl Here {
    /// Nothing outside of a repository.
    pub(crate) fn find() -> Result<Option<Self>> {
        let root = find::home()?;
        Ok(root.join(".git").exists().then(|| Self::at(&root)))
    }

    pub(crate) fn at(root: &Path) -> Self {
        let git = Repository::at(root);
        let settings = git.settings(r"^remote\.origin\.url$");
        let remote = settings.into_iter().next().map(|(_, url)| url);
        let head = git.head().ok().and_then(|head| head.reference);
        let branch = head.and_then(|head| head.strip_prefix("refs/heads/").map(str::to_owned));
        Self { root: root.to_owned(), remote, branch }
    }

    /// `owner/name` from where it was cloned, else from the folder.
    pub(crate) fn name(&self) -> String {
        self.remote.as_deref().and_then(name_of).unwrap_or_else(|| {
            let folder = self.root.file_name().map(|name| name.to_string_lossy().into_owned());
            format!("local/{}", plain(&folder.unwrap_or_default()))
        })
    }
}

/// The last two parts of an address that git takes: `owner/name`.
pub(crate) fn name_of(remote: &str) -> Option<String> {
    let path = remote.trim_end_matches('/').trim_end_matches(".git").replace(':', "/");
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    let (name, owner) = (parts.next()?, parts.next()?);
    // Of `file:///x` and `host:x` there is no owner.
    let owner = owner.rsplit('@').next().unwrap_or(owner);
    (!owner.contains('.') || parts.next().is_some())
        .then(|| format!("{}/{}", plain(owner), plain(name)))
}

/// A name as servers take it: letters, digits, `-`, `_` and `.`.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.is_empty() { "repository".to_owned() } else { name }
}

/// `owner/name`, taken apart.
pub(crate) fn split(name: &str) -> Result<(&str, &str)> {
    match name.split_once('/') {
        Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() && !repo.contains('/') => {
            Ok((owner, repo))
        }
        _ => bail!("`{name}` is not the name of a repository; expected `owner/name`"),
    }
}

/// The address of a page, if that is what was typed.
pub(crate) fn pasted(text: &str) -> Option<Url> {
    Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Without user, password and ending, so that two spellings of one source are the same.
fn same_source(one: &str, other: &str) -> bool {
    let bare = |text: &str| {
        let text = address_of(text);
        let text = text.trim_end_matches('/').trim_end_matches(".git");
        match Url::parse(text) {
            Ok(mut url) if url.has_host() => {
                let _ = url.set_username("");
                let _ = url.set_password(None);
                url.to_string()
            }
            _ => text.to_owned(),
        }
    };
    bare(one) == bare(other)
}

impl Client {
    /// A repository that the server knows by this name.
    pub(crate) async fn repo(&self, name: &str) -> Result<Option<Repo>> {
        let (owner, repo) = split(name)?;
        match self.get(&["repos", owner, repo]).json().await {
            Ok(found) => Ok(Some(found)),
            Err(failed) if error::kind(&failed) == Some(Kind::NotFound) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    pub(crate) async fn repos(&self) -> Result<Vec<Repo>> {
        self.get(&["repos"]).list(MOST_REPOSITORIES).await
    }

    /// What the server calls the repository here: by its name, its folder or where it was cloned from.
    pub(crate) async fn repo_here(&self, here: &Here) -> Result<Option<Repo>> {
        let root = here.root.to_string_lossy().into_owned();
        let is_here = |repo: &Repo| {
            let remote = here.remote.as_deref();
            (self.settings.is_local() && same_source(&repo.source, &root))
                || remote.is_some_and(|remote| same_source(&repo.source, remote))
        };
        let named = self.repo(&here.name()).await?;
        match named {
            Some(repo) if is_here(&repo) => Ok(Some(repo)),
            named => Ok(self.repos().await?.into_iter().find(is_here).or(named)),
        }
    }

    /// The server and the repository that a command is about: what was typed, a name or the address of a
    /// page, else the repository here.
    pub(crate) async fn open_repo(
        args: &ServerArgs,
        typed: Option<&str>,
    ) -> Result<(Self, Option<String>)> {
        let client = Self::open_at(args, typed.and_then(pasted).as_ref())?;
        let repo = client.repo_meant(typed).await?;
        Ok((client, repo))
    }

    /// The same, where nothing typed means no repository.
    pub(crate) async fn open_named(
        args: &ServerArgs,
        typed: Option<&str>,
    ) -> Result<(Self, Option<String>)> {
        match typed {
            Some(_) => Self::open_repo(args, typed).await,
            None => Ok((Self::open(args)?, None)),
        }
    }

    /// The repository whose page was pasted; whatever else was typed is its name.
    fn repo_of_address(&self, typed: &str) -> Result<String> {
        let typed = typed.trim();
        if !typed.contains("://") {
            return Ok(typed.to_owned());
        }
        let server = self.server();
        let page = pasted(typed).map(String::from);
        let below = page.as_deref().and_then(|page| page.strip_prefix(&server)?.strip_prefix('/'));
        let Some(below) = below else {
            bail!(
                "`{typed}` is no page of {server}; `--server` or `--context` names another server"
            );
        };
        let path = below.split(['?', '#']).next().unwrap_or_default();
        Ok(path.split('/').take(2).collect::<Vec<_>>().join("/"))
    }

    /// The repository that a command is about: what was typed, else the one here.
    pub(crate) async fn repo_meant(&self, typed: Option<&str>) -> Result<Option<String>> {
        if let Some(typed) = typed {
            let typed = self.repo_of_address(typed)?;
            split(&typed)?;
            return Ok(Some(typed));
        }
        let Some(here) = Here::find()? else { return Ok(None) };
        Ok(self.repo_here(&here).await?.map(|repo| format!("{}/{}", repo.owner, repo.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_repository_comes_from_where_it_was_cloned() {
        for (remote, expect) in [
            ("git@git.example:me/app.git", Some("me/app")),
            ("https://user:pw@git.example/me/app.git/", Some("me/app")),
            ("https://git.example/group/sub/app", Some("sub/app")),
            ("ssh://git@git.example:22/me/my app", Some("me/my-app")),
            ("/srv/git/me/app.git", Some("me/app")),
            ("app", None),
            ("", None),
            ("https://", None),
        ] {
            assert_eq!(name_of(remote).as_deref(), expect, "{remote}");
        }
        let here = Here { root: "/home/me/My App".into(), remote: None, branch: None };
        assert_eq!(here.name(), "local/My-App");
    }

    #[test]
    fn spellings_of_one_source_are_the_same() {
        assert!(same_source("https://git.example/a/b.git", "https://me:x@git.example/a/b/"));
        assert!(same_source("ssh://git.example/a/b", "git@git.example:a/b.git"));
        assert!(same_source("/srv/a", "/srv/a/"));
        assert!(!same_source("/srv/a", "/srv/b"));
        assert!(!same_source("https://git.example/a/b", "https://git.example/a/c"));
    }

    #[test]
    fn a_name_has_two_parts() {
        assert_eq!(split("me/app").unwrap(), ("me", "app"));
        for wrong in ["", "me", "/app", "me/", "a/b/c"] {
            assert!(split(wrong).unwrap_err().to_string().contains("owner/name"));
        }
    }
}
