//! `kiln repo`: the repositories of the server.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use kiln_proto::api::{ChangeRepo, NewRepo, Repo};
use reqwest::Method;
use serde_json::json;

use super::{print_json, print_list, repo_show};
use crate::Outcome;
use crate::cli::{OneRepoArgs, RepoArgs, RepoCommand, ServerArgs};
use crate::client::Client;
use crate::client::here::{Here, name_of, pasted, split};
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};

pub(super) async fn run(args: &RepoArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        RepoCommand::Add { source, name, branch, server } => {
            let client = Client::open(server)?;
            let new = new_repo(&client, source.as_deref(), name.as_deref(), branch.as_deref())?;
            let repo = add(&client, &new).await?;
            if server.json {
                print_json(console, &repo)?;
            } else {
                let Repo { owner, name, source, default_branch, .. } = &repo;
                console.print(&format!(
                    "added {owner}/{name}: {source}, default branch {default_branch}\n"
                ))?;
            }
            Ok(Outcome::Clean)
        }
        RepoCommand::List { server } => {
            let repos = Client::open(server)?.repos().await?;
            let nothing = "there are no repositories yet; `kiln repo add` adds the one around you";
            print_list(console, server.json, &repos, |repos| table(repos).text(), nothing)
        }
        RepoCommand::Show(args) => repo_show::show(args, console).await,
        RepoCommand::Set { name, change, server } => {
            let source = match &change.source {
                Some(path) if !is_address(path) => {
                    let page = pasted(name);
                    let client = Client::open_at(server, page.as_ref())?;
                    Some(of_folder(&client, Path::new(path))?.source)
                }
                other => other.clone(),
            };
            let wish = ChangeRepo {
                default_branch: change.branch.clone(),
                source,
                shares: change.shares,
                enabled: None,
                head_starts: change.head_starts.clone(),
            };
            set(name, &wish, server, console).await
        }
        RepoCommand::Enable(OneRepoArgs { name, server }) => {
            let wish = ChangeRepo { enabled: Some(true), ..ChangeRepo::default() };
            set(name, &wish, server, console).await
        }
        RepoCommand::Disable(OneRepoArgs { name, server }) => {
            let wish = ChangeRepo { enabled: Some(false), ..ChangeRepo::default() };
            set(name, &wish, server, console).await
        }
        RepoCommand::Remove(OneRepoArgs { name, server }) => {
            let (client, name) = named_repo(name, server).await?;
            let (owner, repo) = split(&name)?;
            client.call(Method::DELETE, &["repos", owner, repo]).done().await?;
            if server.json {
                print_json(console, &json!({"removed": name}))?;
            } else {
                console.print(&format!(
                    "removed {name}; its files and what it ran are as they were, `kiln repo add` brings it back\n"
                ))?;
            }
            Ok(Outcome::Clean)
        }
    }
}

/// A repository that was named, at its server.
async fn named_repo(typed: &str, server: &ServerArgs) -> Result<(Client, String)> {
    let (client, name) = Client::open_repo(server, Some(typed)).await?;
    Ok((client, name.context("no repository was named")?))
}

async fn set(
    typed: &str,
    wish: &ChangeRepo,
    server: &ServerArgs,
    console: &mut Console,
) -> Result<Outcome> {
    let (client, name) = named_repo(typed, server).await?;
    let (owner, repo) = split(&name)?;
    let call = client.call(Method::PATCH, &["repos", owner, repo]).body(wish);
    let repo: Repo = call.json().await?;
    if server.json {
        print_json(console, &repo)?;
    } else {
        let Repo { source, default_branch, shares, .. } = &repo;
        let off = if repo.enabled { "" } else { ", switched off" };
        let starts = match &wish.head_starts {
            Some(_) => format!(", head starts {}", starts(&repo)),
            None => String::new(),
        };
        console.print(&format!(
            "{name}: {source}, default branch {default_branch}, {shares} shares{starts}{off}\n"
        ))?;
    }
    Ok(Outcome::Clean)
}

/// As it is typed.
fn starts(repo: &Repo) -> String {
    let classes = ["urgent", "high", "normal", "low"].into_iter();
    let one = |class: &str| Some(format!("{class}={}", repo.head_starts.get(class)?));
    classes.filter_map(one).collect::<Vec<_>>().join(",")
}

pub(super) async fn add(client: &Client, new: &NewRepo) -> Result<Repo> {
    client.post(&["repos"]).body(new).json().await
}

/// What is to be added: a folder, an address, or the repository here.
fn new_repo(
    client: &Client,
    source: Option<&str>,
    name: Option<&str>,
    branch: Option<&str>,
) -> Result<NewRepo> {
    let mut new = match source {
        Some(address) if is_address(address) => {
            let found = name_of(address);
            let full = name.map(str::to_owned).or(found).with_context(|| {
                format!("`{address}` does not say what to call it; give `--name OWNER/NAME`")
            })?;
            named(&full, address.to_owned())?
        }
        Some(path) => of_folder(client, Path::new(path))?,
        None => of_here(client)?,
    };
    if let Some(name) = name {
        let (owner, name) = split(name)?;
        (new.owner, new.name) = (owner.to_owned(), name.to_owned());
    }
    new.default_branch = branch.map(str::to_owned);
    Ok(new)
}

/// The repository here: its folder if the server is on this machine, else where it was cloned from.
pub(super) fn of_here(client: &Client) -> Result<NewRepo> {
    let here = Here::find()?.context(
        "you are in no git repository; name a folder or an address: `kiln repo add PATH|URL`",
    )?;
    of(client, &here)
}

pub(super) fn of(client: &Client, here: &Here) -> Result<NewRepo> {
    let source = if client.settings.is_local() {
        here.root.to_string_lossy().into_owned()
    } else {
        here.remote.clone().with_context(|| {
            format!(
                "{} is on another machine and cannot see `{}`, which has no remote `origin`; name an \
                 address that the server can fetch from: `kiln repo add URL`",
                client.server(),
                here.root.display()
            )
        })?
    };
    named(&here.name(), source)
}

/// A folder by its path. On another machine only that machine can say what is there.
fn of_folder(client: &Client, path: &Path) -> Result<NewRepo> {
    if !client.settings.is_local() {
        if !path.is_absolute() {
            bail!(
                "`{}` is a path on this machine, and {} is another; give an absolute path there, or an address",
                path.display(),
                client.server()
            );
        }
        let name =
            name_of(&path.to_string_lossy()).unwrap_or_else(|| "local/repository".to_owned());
        return named(&name, path.to_string_lossy().into_owned());
    }
    let root = std::fs::canonicalize(path)
        .with_context(|| format!("cannot find the folder `{}`", path.display()))?;
    named(&Here::at(&root).name(), root.to_string_lossy().into_owned())
}

fn named(full: &str, source: String) -> Result<NewRepo> {
    let (owner, name) = split(full)?;
    Ok(NewRepo { owner: owner.to_owned(), name: name.to_owned(), source, default_branch: None })
}

/// `https://…`, `ssh://…` or `git@host:path`; all else is a folder.
fn is_address(source: &str) -> bool {
    source.contains("://")
        || source.split_once(':').is_some_and(|(host, _)| {
            !host.contains('/')
                && (host.contains('@') || host.contains('.'))
                && !host.starts_with('.')
        })
}

fn table(repos: &[Repo]) -> Table {
    let mut table =
        Table::new(&[whole("NAME"), cut("BRANCH", 6), cut("SOURCE", 12), cut("PAUSED", 8)]);
    for repo in repos {
        let paused = match (&repo.paused, repo.enabled) {
            (Some(reason), _) => reason.as_str(),
            (None, false) => "switched off",
            (None, true) => "",
        };
        table.row([
            Cell::from(format!("{}/{}", repo.owner, repo.name)),
            Cell::from(&repo.default_branch),
            Cell::from(&repo.source),
            Cell::from(paused),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn addresses_and_folders_are_told_apart() {
        for address in
            ["https://git.example/a/b", "ssh://git@x/a", "git@git.example:a/b.git", "file:///srv/a"]
        {
            assert!(is_address(address), "{address}");
        }
        for folder in [".", "..", "app", "/srv/git/app", "./a:b", "../x.y:z", "a/b:c"] {
            assert!(!is_address(folder), "{folder}");
        }
    }
}
