//! What the workflows of a repository say at a commit: read and compiled once, then remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_core::plan::Plan;
use kiln_lang::compile::{Repository, compile};
use kiln_lang::diag::{self, Diagnostic};
use kiln_lang::lint;
use kiln_lang::source::SourceMap;
use kiln_lang::trigger::Trigger;
use kiln_lang::workflow::Document;

use crate::sources::{CommitInfo, Location, SourceError, Sources, Turns};

/// Where workflows lie, and what Kiln adds to them.
const FOLDERS: [&str; 2] = [".github/workflows", ".kiln/workflows"];
/// Nobody writes more by hand.
const LARGEST: usize = 1 << 20;
const MOST_FILES: usize = 500;
/// How many commits are remembered.
const CAPACITY: usize = 256;
/// How many errors of a file are told.
const MOST_ERRORS: usize = 20;

/// The workflows of one commit.
#[derive(Debug)]
pub struct Snapshot {
    pub info: CommitInfo,
    /// By path.
    pub files: Vec<Workflow>,
}

/// One workflow file.
#[derive(Debug)]
pub struct Workflow {
    pub path: String,
    /// What it calls itself, else its path.
    pub name: String,
    pub triggers: Vec<Trigger>,
    /// The plan, or in words why there is none.
    pub plan: Result<Arc<Plan>, String>,
}

/// The file of a workflow with all that can be said about it, also what is only likely to be wrong.
#[derive(Debug)]
pub struct Checked {
    pub workflow: Workflow,
    pub text: String,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// What they are about.
    pub sources: SourceMap,
}

impl Workflow {
    /// The name of the file alone, by which people know it.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The events it listens to, as rows keep them.
    pub fn events(&self) -> String {
        let events: Vec<&str> = self.triggers.iter().map(|trigger| &*trigger.event).collect();
        serde_json::to_string(&events).expect("names are text")
    }
}

/// Repositories, and what their workflows say at a commit.
#[derive(Debug, Clone)]
pub struct Workflows {
    sources: Arc<dyn Sources>,
    questions: Turns,
    clones: Turns,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    count: u64,
    snapshots: HashMap<(i64, String), (u64, Arc<Snapshot>)>,
}

impl Workflows {
    pub fn new(sources: Arc<dyn Sources>) -> Self {
        let (questions, clones) = (Turns::default(), Turns::default());
        Self { sources, questions, clones, known: Arc::default() }
    }

    pub fn sources(&self) -> &Arc<dyn Sources> {
        &self.sources
    }

    /// Turns for those who send a repository to a client. They are not those of questions: however slow
    /// clients are, a trigger does not wait for them.
    pub fn clones(&self) -> &Turns {
        &self.clones
    }

    /// Asks git on a thread that may wait.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let sources = Arc::clone(&self.sources);
        let turn = self.questions.next().await?;
        let ask = move || {
            let _turn = turn;
            question(&*sources)
        };
        let answer = tokio::task::spawn_blocking(ask).await;
        answer.unwrap_or_else(|error| Err(SourceError::Broken(format!("git's answer: {error}"))))
    }

    /// What is remembered of a commit.
    pub fn remembered(&self, location: &Location, commit: &str) -> Option<Arc<Snapshot>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.snapshots.get(&(location.id, commit.to_owned())).map(|(_, found)| found.clone())
    }

    /// The workflows of a commit.
    pub async fn at(
        &self,
        location: &Location,
        commit: &str,
    ) -> Result<Arc<Snapshot>, SourceError> {
        if let Some(snapshot) = self.remembered(location, commit) {
            return Ok(snapshot);
        }
        let (place, id) = (location.clone(), commit.to_owned());
        let snapshot = self.ask(move |sources| read(sources, &place, &id)).await?;
        let snapshot = Arc::new(snapshot);
        self.remember((location.id, commit.to_owned()), &snapshot);
        Ok(snapshot)
    }

    /// A workflow of a commit, checked as `kiln lint` does; none if there is no such file. It is found by its path or
    /// by the name of its file.
    pub async fn checked(
        &self,
        location: &Location,
        commit: &str,
        name: &str,
    ) -> Result<Option<Checked>, SourceError> {
        let (place, id, name) = (location.clone(), commit.to_owned(), name.to_owned());
        self.ask(move |sources| {
            let texts = texts(sources, &place, &id)?;
            let own = texts.keys().filter(|path| path.starts_with(FOLDERS[0]));
            let mut own =
                own.filter(|path| **path == name || path.rsplit('/').next() == Some(&*name));
            Ok(own.next().map(|path| check(path, &texts)))
        })
        .await
    }

    /// When it is full, the half that came first goes.
    fn remember(&self, key: (i64, String), snapshot: &Arc<Snapshot>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.count += 1;
        let count = known.count;
        if known.snapshots.len() >= CAPACITY {
            let oldest = count.saturating_sub(CAPACITY as u64 / 2);
            known.snapshots.retain(|_, (at, _)| *at > oldest);
        }
        known.snapshots.insert(key, (count, Arc::clone(snapshot)));
    }
}

/// The texts of a commit's workflow files and of what Kiln adds to them; none for what is too large or no text.
type Texts = BTreeMap<String, Option<String>>;

fn read(sources: &dyn Sources, place: &Location, commit: &str) -> Result<Snapshot, SourceError> {
    let texts = texts(sources, place, commit)?;
    let own = texts.keys().filter(|path| path.starts_with(FOLDERS[0]));
    let files = own.map(|path| workflow(path, &texts).workflow).collect();
    Ok(Snapshot { info: sources.commit(place, commit)?, files })
}

fn texts(sources: &dyn Sources, place: &Location, commit: &str) -> Result<Texts, SourceError> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        paths.extend(sources.list(place, commit, folder)?.into_iter().filter(|path| is_yaml(path)));
    }
    if paths.len() > MOST_FILES {
        let message =
            format!("the commit has {} workflow files; at most {MOST_FILES}", paths.len());
        return Err(SourceError::Broken(message));
    }
    let texts = sources.read(place, commit, &paths, LARGEST)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    Ok(paths.into_iter().zip(texts).map(|(path, bytes)| (path, bytes.and_then(text))).collect())
}

/// Only files directly in the folder are workflows.
fn is_yaml(path: &str) -> bool {
    let name = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder)?.strip_prefix('/'));
    let yaml = |name: &str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        !name.contains('/') && matches!(extension, Some("yml" | "yaml"))
    };
    name.is_some_and(yaml) && !path.contains(char::is_control) && path.len() <= 500
}

/// What a file was understood as.
struct Understood {
    workflow: Workflow,
    document: Option<Document>,
    diagnostics: Vec<Diagnostic>,
    sources: SourceMap,
}

/// Compiles a file. What is only likely to be wrong is looked for by whoever shows it.
fn workflow(path: &str, texts: &Texts) -> Understood {
    let mut sources = SourceMap::new();
    let Some(Some(text)) = texts.get(path) else {
        let problem = format!("{path}: the file is larger than {LARGEST} bytes, or no UTF-8 text");
        let (path, name) = (path.to_owned(), path.to_owned());
        let workflow = Workflow { path, name, triggers: Vec::new(), plan: Err(problem) };
        return Understood { workflow, document: None, diagnostics: Vec::new(), sources };
    };
    let files = |name: &str| texts.get(name.strip_prefix("./").unwrap_or(name))?.clone();
    let compiled = compile(&mut sources, path, text, &Repository(&files), None);
    let plan = match compiled.plan {
        Some(plan) => Ok(Arc::new(plan)),
        None => Err(diag::errors_as_text(&sources, &compiled.diagnostics, MOST_ERRORS)),
    };
    let own = plan.as_ref().ok().and_then(|plan| plan.root().name.as_deref());
    let workflow = Workflow {
        path: path.to_owned(),
        name: own.map(one_line).filter(|name| !name.is_empty()).unwrap_or_else(|| path.to_owned()),
        triggers: compiled.triggers,
        plan,
    };
    let (document, diagnostics) = (compiled.document, compiled.diagnostics);
    Understood { workflow, document, diagnostics, sources }
}

fn check(path: &str, texts: &Texts) -> Checked {
    let Understood { workflow, document, mut diagnostics, sources } = workflow(path, texts);
    if let Some(document) = &document {
        diagnostics.extend(lint::check(document, &sources));
    }
    diag::tidy(&mut diagnostics);
    let text = texts.get(path).cloned().flatten().unwrap_or_default();
    Checked { workflow, text, diagnostics, sources }
}

/// A name as rows and pages can have it.
fn one_line(name: &str) -> String {
    let plain = name.trim().chars().map(|one| if one.is_control() { ' ' } else { one });
    plain.take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], path: &str) -> Workflow {
        let text = |text: &str| Some(text.to_owned());
        let texts = files.iter().map(|(path, own)| ((*path).to_owned(), text(own))).collect();
        workflow(path, &texts).workflow
    }

    const JOB: &str = "jobs:\n  a:\n    runs-on: x\n    steps:\n      - run: echo\n";

    #[test]
    fn a_workflow_has_its_name_its_events_and_its_plan() {
        let path = ".github/workflows/ci.yml";
        let own = format!("name: 'My\n\n  CI'\non: [push, workflow_dispatch]\n{JOB}");
        let workflow = check(&[(path, &own)], path);
        assert_eq!((&*workflow.name, workflow.file_name()), ("My CI", "ci.yml"));
        assert_eq!(workflow.events(), r#"["push","workflow_dispatch"]"#);
        assert!(workflow.plan.is_ok());
        let unnamed = check(&[(path, &format!("on: push\n{JOB}"))], path);
        assert_eq!(unnamed.name, path);
    }

    /// P19
    #[test]
    fn a_broken_file_says_where_and_why() {
        let path = ".github/workflows/ci.yml";
        let workflow = check(&[(path, "on: push\njobs:\n  a:\n    runs-onn: x\n")], path);
        let problem = workflow.plan.unwrap_err();
        assert!(problem.contains(".github/workflows/ci.yml:4:5: "), "{problem}");
        assert!(problem.contains("    runs-onn: x"), "{problem}");
        assert_eq!(workflow.triggers.len(), 1);
        let torn = check(&[(path, "on: [push\n")], path);
        assert!(torn.plan.is_err() && torn.name == path);
    }

    #[test]
    fn only_yaml_files_directly_in_the_folder_are_workflows() {
        for good in [".github/workflows/a.yml", ".kiln/workflows/a.yaml"] {
            assert!(is_yaml(good), "{good}");
        }
        for bad in [".github/workflows/a/b.yml", ".github/workflows/README.md", "a.yml", ""] {
            assert!(!is_yaml(bad), "{bad}");
        }
    }
}
