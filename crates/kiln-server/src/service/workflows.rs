//! Workflows as people see them: their files with what can be said about them, and whether they start runs.

use kiln_core::access::Right;
use kiln_core::id::WorkflowId;
use kiln_lang::diag::Diagnostic;
use kiln_proto::workflow::{Finding, WorkflowFile};
use kiln_store::directory::repositories::Repository;
use kiln_store::directory::workflows::{self, Workflow};
use kiln_store::{Page, Scope, StoreError, Tx};

use super::repos;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::sources::{Checked, Location, SourceError};

/// A repository has few of them.
pub async fn all(app: &App, repo: &Repository) -> Answer<Vec<Workflow>> {
    let (scope, id) = (Scope::Org(repo.org), repo.id);
    let work = async move |tx: &mut Tx<'_>| {
        let (mut found, mut page) = (Vec::new(), Page::first(Page::LARGEST));
        loop {
            let piece = workflows::list(tx, scope, id, page).await?;
            let Some(last) = piece.last().map(|workflow| workflow.id) else { break };
            found.extend(piece);
            page = Page::after(last.0, Page::LARGEST);
        }
        Ok::<_, StoreError>(found)
    };
    Ok(app.store.read(work).await?)
}

/// By id, file name or path.
pub async fn find(
    app: &App,
    caller: &Caller,
    full_name: &str,
    name: &str,
) -> Answer<(Repository, Workflow)> {
    let (repo, _) = repos::find(app, caller, Right::Read, full_name).await?;
    let found = named(app, &repo, name).await?;
    found.map(|found| (repo, found)).ok_or_else(|| Failure::not_found("workflow"))
}

async fn named(app: &App, repo: &Repository, name: &str) -> Answer<Option<Workflow>> {
    let number = name.parse::<i64>().ok().map(WorkflowId);
    let called = |workflow: &Workflow| {
        let file = workflow.path.rsplit('/').next().unwrap_or_default();
        Some(workflow.id) == number || workflow.path == name || file == name
    };
    Ok(all(app, repo).await?.into_iter().find(called))
}

/// A disabled workflow starts no runs; what it ran stays.
pub async fn set_enabled(
    app: &App,
    caller: &Caller,
    (full_name, name): (&str, &str),
    enabled: bool,
) -> Answer<()> {
    let (repo, found) = find(app, caller, full_name, name).await?;
    let scope = caller.require(Right::Write, Some(repo.org), "workflow")?;
    let actor = caller.actor();
    let work = async move |tx: &mut Tx<'_>| {
        workflows::set_enabled(tx, scope, &actor, found.id, enabled).await
    };
    app.store.write(work).await?;
    Ok(())
}

/// The file of a workflow at a branch, tag or commit.
#[derive(Debug)]
pub struct File {
    /// As it was asked for.
    pub reference: String,
    pub commit: String,
    /// What Kiln knows of the workflow; nothing before it was first triggered.
    pub row: Option<Workflow>,
    pub checked: Checked,
}

impl File {
    pub fn is_enabled(&self) -> bool {
        self.row.as_ref().is_none_or(|row| row.enabled)
    }

    /// What is wrong with it, and what is likely to be.
    pub fn findings(&self) -> Vec<Finding> {
        let all = self.checked.diagnostics.iter();
        all.map(|found| finding(&self.checked, found)).collect()
    }
}

fn finding(checked: &Checked, found: &Diagnostic) -> Finding {
    let (sources, start) = (&checked.sources, checked.sources.start(found.span));
    let file = sources.file(found.span.file).name();
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Finding {
        severity: found.severity.as_str().to_owned(),
        code: found.code.to_owned(),
        message: found.message.clone(),
        file: (file != checked.workflow.path).then(|| file.to_owned()),
        line: number(start.line),
        column: number(start.column),
        label: found.label.clone(),
        help: found.help.clone(),
    }
}

/// Why a file cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// The repository has no source.
    NoSource,
    NoSuchReference,
    NoSuchFile,
    /// The repository cannot be read now.
    Broken(String),
}

/// The file at a ref, or why there is none. Whoever asks may see the repository. `name` is an id, a file name or a path.
pub async fn file_of(
    app: &App,
    repo: &Repository,
    name: &str,
    reference: Option<&str>,
) -> Answer<Result<File, Unreadable>> {
    let Some(source) = repo.clone_url.clone() else { return Ok(Err(Unreadable::NoSource)) };
    let reference = reference.map(str::trim).filter(|reference| !reference.is_empty());
    let reference = reference.unwrap_or(&repo.default_branch).to_owned();
    if reference.starts_with('-') || reference.len() > 255 || reference.contains(char::is_control) {
        return Err(Failure::invalid("that is no branch, tag or commit"));
    }
    let row = named(app, repo, name).await?;
    let path = row.as_ref().map_or(name, |row| &row.path).to_owned();
    let location = Location { id: repo.id.0, source };
    Ok(match read(app, location, &reference, &path).await {
        Ok((commit, Some(checked))) => Ok(File { reference, commit, row, checked }),
        Ok((_, None)) => Err(Unreadable::NoSuchFile),
        Err(SourceError::NotFound(_)) => Err(Unreadable::NoSuchReference),
        Err(error) => Err(Unreadable::Broken(error.to_string())),
    })
}

async fn read(
    app: &App,
    location: Location,
    reference: &str,
    path: &str,
) -> Result<(String, Option<Checked>), SourceError> {
    let (place, name) = (location.clone(), reference.to_owned());
    let commit = app.workflows.ask(move |sources| sources.resolve(&place, &name)).await?.commit;
    let checked = app.workflows.checked(&location, &commit, path).await?;
    Ok((commit, checked))
}

/// The file for programs.
pub async fn file(
    app: &App,
    caller: &Caller,
    (full_name, name): (&str, &str),
    reference: Option<&str>,
) -> Answer<WorkflowFile> {
    let (repo, _) = repos::find(app, caller, Right::Read, full_name).await?;
    let file = match file_of(app, &repo, name, reference).await? {
        Ok(file) => file,
        Err(Unreadable::NoSource) => {
            return Err(Failure::conflict("the repository has no source; add it again with one"));
        }
        Err(Unreadable::NoSuchReference) => {
            return Err(Failure::not_found("branch, tag or commit"));
        }
        Err(Unreadable::NoSuchFile) => return Err(Failure::not_found("workflow")),
        Err(Unreadable::Broken(why)) => {
            return Err(Failure::conflict(format!("the repository cannot be read: {why}")));
        }
    };
    let (enabled, findings) = (file.is_enabled(), file.findings());
    let File { reference, commit, checked, .. } = file;
    let events = checked.workflow.triggers.iter().map(|trigger| trigger.event.clone());
    Ok(WorkflowFile {
        name: checked.workflow.name.clone(),
        events: events.collect(),
        path: checked.workflow.path,
        reference,
        sha: commit,
        enabled,
        text: checked.text,
        findings,
    })
}
