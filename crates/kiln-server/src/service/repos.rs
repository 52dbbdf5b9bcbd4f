//! Repositories that Kiln knows.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use kiln_core::access::Right;
use kiln_core::id::{OrgId, RepoId};
use kiln_core::queue::{Class, HeadStarts};
use kiln_proto::api;
use kiln_store::directory::organizations;
use kiln_store::directory::repositories::{self, NewRepository, Repository, RepositoryChange};
use kiln_store::runs::RunSummary;
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};
use serde_json::json;

use super::orgs;
use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::sources::{Location, SourceError, address_of};

/// Whether git must fetch from there, which may take a while.
pub fn is_remote(source: &str) -> bool {
    !source.starts_with('/')
}

/// A repository that the caller may do this with, and the name of its owner.
pub async fn find(
    app: &App,
    caller: &Caller,
    right: Right,
    full_name: &str,
) -> Answer<(Repository, String)> {
    let name = full_name.to_owned();
    let work = async move |tx: &mut Tx<'_>| {
        let repo = repositories::by_name(tx, FIND, &name).await?;
        let owner = organizations::get(tx, FIND, repo.org).await?.name;
        Ok((repo, owner))
    };
    let (repo, owner) = app.store.read(work).await?;
    caller.require(right, Some(repo.org), "repository")?;
    Ok((repo, owner))
}

/// Repositories that the caller may see, by age.
pub async fn list(app: &App, caller: &Caller, page: Page) -> Answer<Vec<(Repository, String)>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for org in visible(tx, &scopes).await? {
            let repos = repositories::list(tx, FIND, org.0, page).await?;
            found.extend(repos.into_iter().map(|repo| (repo, org.1.clone())));
        }
        found.sort_by_key(|(repo, _)| repo.id);
        found.truncate(page.limit as usize);
        Ok(found)
    };
    Ok(app.store.read(work).await?)
}

/// Those of them that have this text in `owner/name`; and after which one there are more.
pub async fn sift(
    app: &App,
    caller: &Caller,
    text: &str,
    (after, limit): (Option<i64>, usize),
) -> Answer<(Vec<(Repository, String)>, Option<i64>)> {
    let text = text.to_lowercase();
    let (mut found, mut page) = (Vec::new(), Page { after, limit: Page::LARGEST });
    loop {
        let piece = list(app, caller, page).await?;
        let Some(last) = piece.last().map(|(repo, _)| repo.id.0) else { return Ok((found, None)) };
        for (repo, owner) in piece {
            if !format!("{owner}/{}", repo.name).to_lowercase().contains(&text) {
                continue;
            }
            if found.len() == limit {
                let next = found.last().map(|(repo, _): &(Repository, String)| repo.id.0);
                return Ok((found, next));
            }
            found.push((repo, owner));
        }
        page.after = Some(last);
    }
}

/// The last run of each of these repositories, which the caller was allowed to see.
pub async fn last_runs(app: &App, repos: Vec<RepoId>) -> Answer<HashMap<RepoId, RunSummary>> {
    let work = async move |tx: &mut Tx<'_>| kiln_store::runs::latest(tx, &repos).await;
    let found = app.store.read(work).await?;
    Ok(found.into_iter().map(|run| (run.repo, run)).collect())
}

/// The organizations of these scopes.
async fn visible(tx: &mut Tx<'_>, scopes: &[Scope]) -> Result<Vec<(OrgId, String)>, StoreError> {
    let mut orgs = Vec::new();
    for scope in scopes {
        let mut page = Page::first(Page::LARGEST);
        loop {
            let found = organizations::list(tx, *scope, page).await?;
            let Some(last) = found.last().map(|org| org.id) else { break };
            orgs.extend(found.into_iter().map(|org| (org.id, org.name)));
            page = Page::after(last.0, Page::LARGEST);
        }
    }
    Ok(orgs)
}

/// Makes a repository known. The organization is made with it if there is none, which only an
/// administrator of the installation may do.
pub async fn add(app: &App, caller: &Caller, new: api::NewRepo) -> Answer<(Repository, String)> {
    let owner = new.owner.clone();
    let work = async move |tx: &mut Tx<'_>| orgs::known(tx, &owner).await;
    let org = app.store.read(work).await?;
    caller.require(Right::Admin, org, "organization")?;
    let source = address_of(&new.source);
    check_source(&source, caller.grants().sees_everything())?;
    let branch = match new.default_branch.clone() {
        Some(branch) => branch,
        None => default_branch(app, source.clone()).await?,
    };
    let (actor, user) = (caller.actor(), caller.user());
    let work = async move |tx: &mut Tx<'_>| {
        let org = orgs::known_or_made(tx, &actor, user, &new.owner).await?;
        let scope = Scope::Org(org);
        let id = match removed(tx, scope, &new).await? {
            Some(id) => {
                let change = RepositoryChange {
                    default_branch: Some(branch.clone()),
                    clone_url: Some(source.clone()),
                    ..RepositoryChange::default()
                };
                repositories::update(tx, scope, &actor, id, change).await?;
                repositories::set_enabled(tx, scope, &actor, id, true).await?;
                id
            }
            None => {
                let mut repo = NewRepository::named(org, &new.name);
                repo.default_branch.clone_from(&branch);
                repo.clone_url = Some(source.clone());
                repositories::create(tx, scope, &actor, repo).await?
            }
        };
        Ok((repositories::get(tx, scope, id).await?, new.owner.clone()))
    };
    let made = app.store.write(work).await?;
    // Whoever made an organization belongs to it from now on.
    app.bearers.forget();
    Ok(made)
}

/// One of this name that was taken away: it comes back, with what it ran.
async fn removed(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: &api::NewRepo,
) -> Result<Option<RepoId>, StoreError> {
    match repositories::by_name(tx, scope, &format!("{}/{}", new.owner, new.name)).await {
        Ok(known) => Ok((!known.enabled).then_some(known.id)),
        Err(StoreError::Refused(Refusal::NotFound(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the source itself says; it is asked under no id, so nothing is kept of it.
async fn default_branch(app: &App, source: String) -> Answer<String> {
    let location = Location { id: 0, source };
    match app.workflows.ask(move |sources| sources.default_branch(&location)).await {
        Ok(branch) => Ok(branch),
        Err(SourceError::NotFound(_)) => Ok("main".to_owned()),
        Err(SourceError::Broken(message)) => Err(Failure::invalid(format!(
            "the source cannot be read: {message}; with a default branch it is added unread"
        ))),
        Err(busy @ SourceError::Busy) => Err(Failure::unavailable(busy.to_string())),
    }
}

/// A disabled repository starts no runs; what it ran stays.
pub async fn set_enabled(
    app: &App,
    caller: &Caller,
    full_name: &str,
    enabled: bool,
) -> Answer<(Repository, String)> {
    let (repo, owner) = find(app, caller, Right::Admin, full_name).await?;
    let (actor, scope, id) = (caller.actor(), Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        repositories::set_enabled(tx, scope, &actor, id, enabled).await?;
        repositories::get(tx, scope, id).await
    };
    Ok((app.store.write(work).await?, owner))
}

/// Changes what is set of a repository.
pub async fn change(
    app: &App,
    caller: &Caller,
    full_name: &str,
    change: api::ChangeRepo,
) -> Answer<(Repository, String)> {
    let (repo, owner) = find(app, caller, Right::Admin, full_name).await?;
    let source = change.source.as_deref().map(address_of);
    if let Some(source) = &source {
        check_source(source, caller.grants().sees_everything())?;
    }
    let (actor, scope, id) = (caller.actor(), Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        if source.is_some() || change.default_branch.is_some() {
            let set = RepositoryChange {
                default_branch: change.default_branch.clone(),
                clone_url: source.clone(),
                ..RepositoryChange::default()
            };
            repositories::update(tx, scope, &actor, id, set).await?;
        }
        if let Some(shares) = change.shares {
            repositories::set_shares(tx, scope, &actor, id, shares).await?;
        }
        if let Some(enabled) = change.enabled {
            repositories::set_enabled(tx, scope, &actor, id, enabled).await?;
        }
        if let Some(starts) = &change.head_starts {
            let kept = kept_head_starts(starts);
            repositories::set_priorities(tx, scope, &actor, id, kept.as_deref()).await?;
        }
        repositories::get(tx, scope, id).await
    };
    Ok((app.store.write(work).await?, owner))
}

/// How they are kept; the usual ones are not.
fn kept_head_starts(starts: &api::HeadStarts) -> Option<String> {
    match starts {
        api::HeadStarts::Switch(true) => None,
        api::HeadStarts::Switch(false) => Some("false".to_owned()),
        api::HeadStarts::Seconds(seconds) => Some(json!(seconds).to_string()),
    }
}

/// The branch whose workflows schedules and dispatches start, and whose caches all may read.
pub async fn set_default_branch(
    app: &App,
    caller: &Caller,
    full_name: &str,
    branch: &str,
) -> Answer<()> {
    let branch = branch.trim().to_owned();
    if branch.is_empty() || branch.starts_with('-') || branch.contains(char::is_whitespace) {
        return Err(Failure::invalid("that is no name of a branch"));
    }
    let wish = api::ChangeRepo { default_branch: Some(branch), ..api::ChangeRepo::default() };
    change(app, caller, full_name, wish).await.map(drop)
}

/// Removes a repository whose runs are gone.
pub async fn remove(app: &App, caller: &Caller, full_name: &str) -> Answer<()> {
    let (repo, _) = find(app, caller, Right::Admin, full_name).await?;
    let (actor, scope, id) = (caller.actor(), Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| repositories::remove(tx, scope, &actor, id).await;
    Ok(app.store.write(work).await?)
}

pub fn shown((repo, owner): &(Repository, String)) -> api::Repo {
    api::Repo {
        id: repo.id.0,
        owner: owner.clone(),
        name: repo.name.clone(),
        source: repositories::without_credentials(repo.clone_url.as_deref().unwrap_or_default()),
        default_branch: repo.default_branch.clone(),
        enabled: repo.enabled,
        paused: repo.paused.clone(),
        shares: repo.shares,
        head_starts: head_starts(repo),
    }
}

/// In seconds, as they count.
fn head_starts(repo: &Repository) -> BTreeMap<String, i64> {
    let own = repo.priorities.as_deref().and_then(|text| HeadStarts::parse(text).ok());
    let starts = own.unwrap_or_default();
    Class::ALL.into_iter().map(|class| (class.word().to_owned(), starts.of(class) / 1000)).collect()
}

/// Refuses what git could misunderstand, and what would lead into the server's own network unless its
/// administrator says so.
pub fn check_source(source: &str, administrator: bool) -> Answer<()> {
    let expected = "expected the absolute path of a folder, or an address such as \
                    `https://example.com/owner/name.git`";
    let wrong = |why: &str| Err(Failure::invalid(format!("the source {why}; {expected}")));
    if source.is_empty() || source.len() > 2_000 || source.contains(char::is_control) {
        return wrong("is empty, too long or not on one line");
    }
    if source.starts_with('-') || source.contains("::") && !source.contains("://") {
        return wrong("looks like an option or a helper of git");
    }
    if source.starts_with('/') || source.starts_with("file:///") {
        if administrator {
            return Ok(());
        }
        let message = "only an administrator of the installation may name folders of the server";
        return Err(Failure::forbidden(message));
    }
    let Some((scheme, rest)) = source.split_once("://") else {
        return wrong("is neither a path nor an address");
    };
    if !["http", "https", "ssh", "git"].contains(&scheme) {
        return wrong("has a scheme that is not supported");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host_of(authority);
    // What is written in another way, with escapes for example, means other hosts to git than to us.
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if host.is_empty() || host.starts_with('-') || !is_plain {
        return wrong("names no host");
    }
    if scheme == "ssh" && !administrator {
        // It would be fetched with the keys of the server, which may open what is not the caller's.
        let message = "only an administrator of the installation may name sources by ssh";
        return Err(Failure::forbidden(message));
    }
    if is_private(&host) && !administrator {
        let message = "only an administrator of the installation may name private addresses";
        return Err(Failure::forbidden(message));
    }
    Ok(())
}

/// The host of `user:password@host:port`, in lower case and without brackets.
fn host_of(authority: &str) -> String {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a host is this machine or one beside it, as far as its name tells.
fn is_private(host: &str) -> bool {
    let beside = ["localhost", "local", "internal", "localdomain", "home.arpa"];
    if beside.iter().any(|name| host == *name || host.ends_with(&format!(".{name}"))) {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_broadcast()
                // Shared by the customers of a provider.
                || address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64
        }
        Ok(IpAddr::V6(address)) => {
            let first = address.segments()[0];
            address.is_loopback()
                || address.is_unspecified()
                || address.to_ipv4().is_some()
                || first == 0x64
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
        }
        // A number, or a name without a point, is looked up in the server's own surroundings.
        Err(_) => {
            let last = host.rsplit('.').next().unwrap_or_default();
            let is_number = last.starts_with("0x") || last.bytes().all(|one| one.is_ascii_digit());
            !host.contains('.') || is_number
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, administrator: bool, expect: Option<u16>) {
        let answer = check_source(source, administrator).err();
        assert_eq!(answer.map(|failure| failure.status().as_u16()), expect, "{source}");
    }

    /// S20
    #[test]
    fn sources_that_git_could_misunderstand_are_refused() {
        for bad in [
            "",
            "ext::sh -c true",
            "--upload-pack=evil",
            "relative/path",
            "ftp://example.com/a",
            "javascript://x",
            "https://",
            "https:///a",
            "ssh://-oProxyCommand=evil/a",
            "https://a\nb/c",
            "git@example.com:a/b",
            "http://127%2e0.0.1/a",
            "http://１２７.0.0.1/a",
        ] {
            check(bad, true, Some(422));
        }
        for good in ["/srv/git/a", "https://example.com/a/b.git", "ssh://git@example.com/a"] {
            check(good, true, None);
        }
    }

    #[test]
    fn only_an_administrator_names_folders_and_private_addresses() {
        for inside in [
            "/srv/git/a",
            "file:///srv/git/a",
            "http://localhost/a",
            "http://127.0.0.1:3000/a",
            "http://user:pass@10.0.0.1/a",
            "http://[::1]/a",
            "http://[fd00::1]/a",
            "http://2130706433/a",
            "http://127.1/a",
            "http://0x7f.0.0.1/a",
            "http://127.0.0.0x1/a",
            "http://[::127.0.0.1]/a",
            "http://[64:ff9b::7f00:1]/a",
            "http://100.64.0.1/a",
            "ssh://git@example.com/a",
            "http://build/a",
            "https://git.internal/a",
            "https://LOCALHOST./a",
        ] {
            check(inside, false, Some(403));
            check(inside, true, None);
        }
        check("https://example.com/a", false, None);
    }
}
