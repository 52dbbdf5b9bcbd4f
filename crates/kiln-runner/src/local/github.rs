//! The `github` context of a run on this machine, from the repository and the event.

use std::path::Path;

use kiln_core::value::Object;
use kiln_lang::github;

use crate::git::{GitError, Head, Repository};

/// The event that a run answers.
#[derive(Debug, Clone)]
pub struct EventSource {
    pub name: String,
    pub payload: Object,
    /// The full ref, when it is not the branch that is checked out.
    pub reference: Option<String>,
}

/// Builds the context. What only a server knows has the values of a first run.
pub fn github_context(
    repository: &Repository,
    head: &Head,
    workflow: (&str, &str),
    event: &EventSource,
) -> Result<Object, GitError> {
    let reference = event.reference.clone().or_else(|| head.reference.clone()).unwrap_or_default();
    let settings = repository.settings(r"^(user\.name|remote\.origin\.url)$");
    let slug = slug(repository, &settings);
    let user = settings.iter().rfind(|(name, _)| name == "user.name");
    let (workflow, workflow_path) = workflow;
    Ok(github::context(github::Facts {
        repository: &slug,
        sha: head.commit.as_str(),
        reference: &reference,
        event: &event.name,
        payload: event.payload.clone(),
        workflow,
        workflow_path,
        actor: user.map_or("kiln", |(_, value)| value),
        run_id: 1,
        run_number: 1,
        server_url: "https://github.com",
        api_url: "https://api.github.com",
    }))
}

/// `owner/name` from the remote, else from the folder.
fn slug(repository: &Repository, settings: &[(String, String)]) -> String {
    let remote = settings.iter().find(|(name, _)| name == "remote.origin.url");
    let remote = remote.map(|(_, url)| url.as_str()).unwrap_or_default();
    let path = remote.trim_end_matches('/').trim_end_matches(".git").replace(':', "/");
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    if let (Some(name), Some(owner)) = (parts.next(), parts.next()) {
        return format!("{owner}/{name}");
    }
    let folder = repository.root().canonicalize().ok();
    let name =
        folder.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    format!("local/{}", name.unwrap_or_else(|| "repository".to_owned()))
}
