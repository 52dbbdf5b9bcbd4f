//! `kiln repo show`: one repository, with what its page and its settings show.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_proto::api::Repo;
use kiln_proto::github::{Secret, Secrets, Variable, Variables, Workflow};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::place::Place;
use super::{print_json, workflows};
use crate::Outcome;
use crate::cli::OneRepoArgs;
use crate::client::error::{self, Kind};
use crate::output::text::QUIET;
use crate::output::{Console, one_line};

/// How many names one answer brings.
const PAGE: usize = 100;

/// All of it, as programs read it.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    repo: Repo,
    badge_url: String,
    workflows: Vec<Workflow>,
    /// Names and times; nobody is told more. Nothing when one may not see them.
    secrets: Option<Vec<Secret>>,
    variables: Option<Vec<Variable>>,
}

pub(super) async fn show(args: &OneRepoArgs, console: &mut Console) -> Result<Outcome> {
    let place = Place::find(&args.server, Some(&args.name)).await?;
    let path = ["repos", &place.owner, &place.name];
    let repo: Repo = place.client.get(&path).json().await?;
    let badge_url = format!("{}/{}/{}/badge.svg", place.client.server(), repo.owner, repo.name);
    let secrets = names(&place, "secrets", |page: Secrets| page.secrets).await?;
    let variables = names(&place, "variables", |page: Variables| page.variables).await?;
    let workflows = workflows::all(&place).await?;
    let shown = Shown { repo, badge_url, workflows, secrets, variables };
    if args.server.json {
        print_json(console, &shown)?;
    } else {
        console.print(&text(&shown))?;
    }
    Ok(Outcome::Clean)
}

/// All pages of a list of GitHub's shape; nothing when the caller may not see it.
async fn names<P: DeserializeOwned, T>(
    place: &Place,
    what: &str,
    items: impl Fn(P) -> Vec<T>,
) -> Result<Option<Vec<T>>> {
    let mut all = Vec::new();
    for page in 1_u32.. {
        let call = place.call(Method::GET, &["actions", what]).query("per_page", &PAGE.to_string());
        let found = match call.query("page", &page.to_string()).json::<P>().await {
            Ok(found) => items(found),
            Err(failed) if error::kind(&failed) == Some(Kind::Forbidden) => return Ok(None),
            Err(failed) => return Err(failed),
        };
        let is_last = found.len() < PAGE;
        all.extend(found);
        if is_last {
            break;
        }
    }
    Ok(Some(all))
}

fn text(shown: &Shown) -> String {
    let Shown { repo, badge_url, workflows, secrets, variables } = shown;
    let mut text = format!(
        "{}/{} {QUIET}· {}{QUIET:#}\ndefault branch {}, {} shares\nbadge {}\n",
        one_line(&repo.owner),
        one_line(&repo.name),
        one_line(&repo.source),
        one_line(&repo.default_branch),
        repo.shares,
        one_line(badge_url),
    );
    if !repo.enabled {
        text.push_str("switched off: it starts no runs\n");
    }
    if let Some(paused) = &repo.paused {
        let _ = writeln!(text, "paused: {}", one_line(paused));
    }
    let mut part = |title: &str, lines: Option<Vec<String>>| {
        let lines = match lines {
            None => vec!["not for you".to_owned()],
            Some(lines) if lines.is_empty() => vec!["none".to_owned()],
            Some(lines) => lines,
        };
        let _ = write!(text, "\n{QUIET}── {title}{QUIET:#}\n{}\n", lines.join("\n"));
    };
    let workflow =
        |one: &Workflow| format!("{}  badge {}", one_line(&one.name), one_line(&one.badge_url));
    part("workflows", Some(workflows.iter().map(workflow).collect()));
    let names = |all: &Vec<Secret>| all.iter().map(|one| one_line(&one.name)).collect();
    part("secrets", secrets.as_ref().map(names));
    let values = |all: &Vec<Variable>| {
        all.iter().map(|one| format!("{}={}", one_line(&one.name), one_line(&one.value))).collect()
    };
    part("variables", variables.as_ref().map(values));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_shown_with_its_names_and_badges() {
        let time = "2026-11-16T05:28:15.000Z".to_owned();
        let shown = Shown {
            repo: Repo {
                id: 1,
                owner: "me".to_owned(),
                name: "app".to_owned(),
                source: "/srv/app".to_owned(),
                default_branch: "main".to_owned(),
                enabled: false,
                paused: Some("ada: moving".to_owned()),
                shares: 100,
                head_starts: std::collections::BTreeMap::new(),
            },
            badge_url: "http://ci/me/app/badge.svg".to_owned(),
            workflows: Vec::new(),
            secrets: None,
            variables: Some(vec![Variable {
                name: "MODE".to_owned(),
                value: "fast".to_owned(),
                created_at: time.clone(),
                updated_at: time,
            }]),
        };
        assert_eq!(
            anstream::adapter::strip_str(&text(&shown)).to_string(),
            "me/app · /srv/app\ndefault branch main, 100 shares\nbadge http://ci/me/app/badge.svg\n\
             switched off: it starts no runs\npaused: ada: moving\n\n── workflows\nnone\n\n\
             ── secrets\nnot for you\n\n── variables\nMODE=fast\n"
        );
    }
}
