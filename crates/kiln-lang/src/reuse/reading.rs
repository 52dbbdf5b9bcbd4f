//! What the text of a job looks at, and why its result cannot stand for another.

use std::collections::BTreeSet;

use kiln_core::plan::{
    Access, Action, ActionRuns, Data, Job, Scope, Step, StepKind, StepsJob, Template, Use,
    UseTarget, Workflow,
};
use kiln_core::value::{Object, Value};

use super::mentions::Mentions;

/// What is another in every run.
const NEVER_THE_SAME: [&str; 4] = ["run_id", "run_number", "run_attempt", "token"];
/// Where things are on a runner, and the address of the server: no result depends on these.
const PLACES: [&str; 9] = [
    "workspace",
    "server_url",
    "api_url",
    "graphql_url",
    "action_path",
    "output",
    "env",
    "path",
    "state",
];
/// What every step and every action can look at without naming it here.
const ALWAYS: [&str; 6] = ["base_ref", "event_name", "head_ref", "job", "ref", "repository"];

/// A job that was read, with the actions that it uses.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    mentions: Mentions,
    obstacles: BTreeSet<String>,
}

impl Reading {
    pub fn of(workflow: &Workflow, job: &Job, steps: &StepsJob) -> Self {
        let mut reading = Self::default();
        reading.mentions.add(&(&workflow.env, &workflow.defaults));
        // Its condition was asked by whoever let it begin.
        reading.mentions.add(steps);
        if steps.environment.is_some() {
            reading.refuse("it deploys to an environment");
        }
        let granted = job.permissions.as_ref().or(workflow.permissions.as_ref());
        if granted.is_some_and(|granted| granted.get(Scope::IdToken) == Access::Write) {
            reading.refuse("it may ask for identity tokens (`id-token: write`)");
        }
        let services = match &steps.services {
            Some(Data::Map(entries)) => entries.iter().map(|(_, data)| data).collect(),
            Some(other) => vec![other],
            None => Vec::new(),
        };
        for container in steps.container.iter().chain(services) {
            reading.image(container);
        }
        reading.steps(&steps.steps);
        reading
    }

    /// Adds an action that the job uses. The text of a composite one counts like that of the job.
    pub fn add(&mut self, action: &Action) {
        match &action.runs {
            ActionRuns::JavaScript { .. } => {}
            ActionRuns::Composite(steps) => {
                self.mentions.add(&(steps, &action.outputs));
                self.steps(steps);
            }
            ActionRuns::Docker { image, .. } => {
                let image = image.strip_prefix("docker://").unwrap_or(image);
                if !is_pinned_image(image) {
                    self.refuse(unpinned(image));
                }
            }
        }
    }

    /// Adds a reason that whoever looks for files and actions found.
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.obstacles.insert(why.into());
    }

    fn image(&mut self, container: &Data) {
        let image = match container {
            Data::Scalar(template) => Some(template),
            Data::Map(_) => match container.get("image") {
                Some(Data::Scalar(template)) => Some(template),
                _ => None,
            },
            Data::List(_) => None,
        };
        match image.and_then(Template::as_str) {
            Some("") => {}
            Some(image) if is_pinned_image(image) => {}
            Some(image) => self.refuse(unpinned(image)),
            None => self.refuse("the name of an image is known only when it runs"),
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for used in uses(steps) {
            match &used.target {
                UseTarget::Docker(image) if !is_pinned_image(image) => self.refuse(unpinned(image)),
                UseTarget::Repository { owner, repository, .. }
                    if owner == "actions" && repository == "checkout" =>
                {
                    self.checkout(used.with.as_ref());
                }
                _ => {}
            }
        }
    }

    /// The commit of the run is covered; another one is not.
    fn checkout(&mut self, with: Option<&Data>) {
        for key in ["repository", "ref"] {
            if with.is_some_and(|with| with.get(key).is_some()) {
                self.refuse(format!(
                    "it checks out something else (`{key}` of `actions/checkout`)"
                ));
            }
        }
    }

    /// Why the result can neither be taken from another job nor be given to one; none if it can.
    pub fn obstacles(&self) -> Vec<String> {
        let mut all = self.obstacles.clone();
        for path in &self.mentions.0 {
            let name = path.get(1).map(String::as_str);
            match (path[0].as_str(), name) {
                ("secrets", Some(name)) => all.insert(format!("it uses the secret `{name}`")),
                ("secrets", None) => all.insert("it uses all secrets".to_owned()),
                ("github", None | Some("*")) => all
                    .insert("it uses all of `github`, part of which is never the same".to_owned()),
                ("github", Some(name)) if NEVER_THE_SAME.contains(&name) => {
                    all.insert(format!("it uses `github.{name}`, which is never the same"))
                }
                _ => false,
            };
        }
        all.into_iter().collect()
    }

    /// What it looks at of the `github` context, beside what everybody can.
    pub fn covered(&self, github: &Object) -> Vec<(String, String)> {
        let mut paths: BTreeSet<Vec<&str>> = ALWAYS.iter().map(|name| vec![*name]).collect();
        for path in self.mentions.0.iter().filter(|path| path[0] == "github" && path.len() > 1) {
            let path: Vec<&str> = path[1..].iter().map(String::as_str).collect();
            match path[0] {
                // The file that it leads to is the event.
                "event_path" => paths.insert(vec!["event"]),
                name if PLACES.contains(&name) => false,
                _ => paths.insert(path),
            };
        }
        let pair = |path: Vec<&str>| (path.join("."), follow(github, &path));
        paths.into_iter().map(pair).collect()
    }
}

/// All that steps use, also side by side.
pub fn uses(steps: &[Step]) -> Vec<&Use> {
    let mut found = Vec::new();
    for step in steps {
        match &step.kind {
            StepKind::Use(used) => found.push(used),
            StepKind::Parallel(inner) => found.extend(uses(inner)),
            _ => {}
        }
    }
    found
}

/// The value at the end of a path as JSON, or what the path reaches as far as it leads.
fn follow(github: &Object, path: &[&str]) -> String {
    let mut at = github.get(path[0]).cloned().unwrap_or_default();
    for name in &path[1..] {
        at = match &at {
            Value::Object(object) if *name != "*" => object.get(name).cloned().unwrap_or_default(),
            _ => break,
        };
    }
    serde_json::to_string(&at).expect("values can be written")
}

/// Whether the name of an image says which one is meant, for ever.
pub fn is_pinned_image(image: &str) -> bool {
    let digest = image.rsplit_once("@sha256:").map(|(_, digest)| digest);
    digest.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn unpinned(image: &str) -> String {
    format!("the image `{image}` is not pinned by its digest (`…@sha256:…`)")
}
