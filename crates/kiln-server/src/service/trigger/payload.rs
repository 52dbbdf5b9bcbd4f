//! The payload of an event that no forge sent: what a forge would have said, as far as Kiln knows.

use kiln_core::value::{Object, Value};
use kiln_lang::trigger::GitRef;
use kiln_store::directory::repositories::{Repository, Visibility};

use crate::sources::CommitInfo;

/// What a payload is made of.
pub(super) struct Facts<'a> {
    pub(super) repo: &'a Repository,
    pub(super) owner: &'a str,
    pub(super) reference: &'a str,
    pub(super) commit: &'a str,
    pub(super) info: &'a CommitInfo,
    pub(super) actor: &'a str,
    pub(super) public_url: &'a str,
}

/// The payload of an event, with everything that the caller knows better.
pub(super) fn of(event: &str, facts: &Facts<'_>, known: &Object) -> Object {
    let mut payload = object([
        ("repository", repository(facts)),
        ("sender", person(facts.actor)),
        ("ref", Value::from(facts.reference)),
    ]);
    if event == "push" {
        push(facts, &mut payload);
    }
    for (name, value) in known.iter() {
        payload.insert(name, value.clone());
    }
    payload
}

fn push(facts: &Facts<'_>, payload: &mut Object) {
    let none = "0".repeat(facts.commit.len());
    let before = facts.info.parents.first().unwrap_or(&none);
    let head = head_commit(facts);
    payload.insert("before", Value::from(before.as_str()));
    payload.insert("after", Value::from(facts.commit));
    payload.insert("created", Value::Bool(false));
    payload.insert("deleted", Value::Bool(false));
    payload.insert("forced", Value::Bool(false));
    payload.insert("base_ref", Value::Null);
    payload.insert("commits", Value::array(vec![head.clone()]));
    payload.insert("head_commit", head);
    payload.insert(
        "pusher",
        Value::object(object([("name", Value::from(facts.actor)), ("email", Value::Null)])),
    );
}

fn head_commit(facts: &Facts<'_>) -> Value {
    let info = facts.info;
    let author = Value::object(object([
        ("name", Value::from(info.author_name.as_str())),
        ("email", Value::from(info.author_email.as_str())),
    ]));
    let url =
        format!("{}/{}/{}/commit/{}", facts.public_url, facts.owner, facts.repo.name, facts.commit);
    Value::object(object([
        ("id", Value::from(facts.commit)),
        ("message", Value::from(info.message.as_str())),
        ("timestamp", Value::from(info.authored_at.as_str())),
        ("url", Value::from(url)),
        ("author", author.clone()),
        ("committer", author),
        ("distinct", Value::Bool(true)),
    ]))
}

fn repository(facts: &Facts<'_>) -> Value {
    let (repo, owner) = (facts.repo, facts.owner);
    let full = format!("{owner}/{}", repo.name);
    let html = format!("{}/{full}", facts.public_url);
    #[expect(clippy::cast_precision_loss, reason = "ids stay below 2^53")]
    let id = repo.id.0 as f64;
    Value::object(object([
        ("id", Value::Number(id)),
        ("name", Value::from(repo.name.as_str())),
        ("full_name", Value::from(full)),
        ("private", Value::Bool(repo.visibility != Visibility::Public)),
        ("owner", person(owner)),
        ("html_url", Value::from(html.as_str())),
        ("clone_url", Value::from(format!("{html}.git"))),
        ("default_branch", Value::from(repo.default_branch.as_str())),
        ("visibility", Value::from(repo.visibility.word())),
    ]))
}

fn person(name: &str) -> Value {
    Value::object(object([("login", Value::from(name)), ("name", Value::from(name))]))
}

fn object<const COUNT: usize>(entries: [(&str, Value); COUNT]) -> Object {
    entries.into_iter().collect()
}

/// What a run is called when its workflow does not say.
pub(super) fn title(event: &str, payload: &Object, workflow: &str) -> String {
    let text = |path: &[&str]| payload.path(path).and_then(Value::as_str).map(str::to_owned);
    let said = match event {
        "push" => text(&["head_commit", "message"]),
        "pull_request" | "pull_request_target" => text(&["pull_request", "title"]),
        "repository_dispatch" => text(&["action"]),
        _ => None,
    };
    let first = said.as_deref().and_then(|said| said.lines().find(|line| !line.trim().is_empty()));
    let title: String = first.unwrap_or(workflow).trim().chars().take(400).collect();
    title.replace('\0', "\u{fffd}")
}

/// The branch or tag of a full ref.
pub(super) fn branch(reference: &str) -> Option<String> {
    match GitRef::parse(reference) {
        GitRef::Branch(name) | GitRef::Tag(name) => Some(name.to_owned()),
        GitRef::Other(_) => None,
    }
}
