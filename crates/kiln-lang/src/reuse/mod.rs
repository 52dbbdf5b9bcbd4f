//! When the result of an earlier job may stand for this one.
//!
//! [`Parts`] are all that a result depends on, and their [`fingerprint`](Parts::fingerprint) is one number
//! for them: a job whose fingerprint was green before need not run. [`Reading`] says what the text of a job
//! looks at, and why it can never be used again: something in it is not pinned, or is another each time.

mod mentions;
mod reading;
#[cfg(test)]
mod tests;

use kiln_core::plan::{
    Concurrency, Condition, Job, JobKind, Place, Step, StepKind, Strategy, Workflow,
};
use kiln_core::value::Object;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use reading::{Reading, is_pinned_image, uses};

/// Another way to write the parts down needs another version: it must not meet results of this one.
const VERSION: &str = "kiln-result-1";

/// A file that counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    pub path: String,
    /// What git calls its mode and content.
    pub content: String,
}

/// The files that a job works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// All of a commit, and what led to it.
    Commit(String),
    Files(Vec<File>),
}

/// All that the result of a job depends on. Whose code it is is not here: results of different trust are kept
/// apart by whoever keeps them.
#[derive(Debug, Clone)]
pub struct Parts<'p> {
    pub workflow: &'p Workflow,
    pub job: &'p Job,
    pub source: Source,
    /// Actions as they are named, and the commit or the files that this means today.
    pub actions: Vec<(String, String)>,
    /// What the text looks at, beside the contexts below: see [`Reading::covered`].
    pub looked_at: Vec<(String, String)>,
    pub vars: &'p Object,
    pub inputs: &'p Object,
    pub needs: &'p Object,
    pub matrix: &'p Object,
    pub strategy: &'p Object,
    /// What it runs on: the system and the like, by name.
    pub platform: Vec<(String, String)>,
}

/// A part that people can be told about: what it is called, and 16 hexadecimals that any change of it changes.
pub type Part = (&'static str, String);

impl Parts<'_> {
    /// 64 hexadecimals. Any change of any part gives others.
    pub fn fingerprint(&self) -> String {
        let whole: Vec<u8> = self.sections().into_iter().flat_map(|(_, text)| text).collect();
        hex(&Sha256::digest(whole))
    }

    /// What of all of it is like before, and what is not: each part by itself, always in the same order.
    pub fn parts(&self) -> Vec<Part> {
        let short = |text: Vec<u8>| hex(&Sha256::digest(text)[..8]);
        self.sections().into_iter().map(|(name, text)| (name, short(text))).collect()
    }

    fn sections(&self) -> [(&'static str, Vec<u8>); 9] {
        let section = |write: &dyn Fn(&mut Text)| {
            let mut text = Text(Vec::new());
            write(&mut text);
            text.0
        };
        let of_workflow = |text: &mut Text| {
            text.part("version", VERSION);
            text.part("path", &self.workflow.path);
            text.json("workflow env", &self.workflow.env);
            text.json("workflow defaults", &self.workflow.defaults);
            text.json("job", &essence(self.job));
        };
        let of_source = |text: &mut Text| match &self.source {
            Source::Commit(commit) => text.part("commit", commit),
            Source::Files(files) => {
                for File { path, content } in files {
                    text.part("file", path);
                    text.part("content", content);
                }
            }
        };
        let of_matrix = |text: &mut Text| {
            text.json("matrix", self.matrix);
            text.json("strategy", self.strategy);
        };
        [
            ("its text", section(&of_workflow)),
            ("the files", section(&of_source)),
            ("the actions", section(&|text| text.pairs("action", &self.actions))),
            (
                "what it looks at of `github`",
                section(&|text| text.pairs("looked at", &self.looked_at)),
            ),
            ("the variables", section(&|text| text.json("vars", self.vars))),
            ("the inputs", section(&|text| text.json("inputs", self.inputs))),
            ("the outputs of what it needs", section(&|text| text.json("needs", self.needs))),
            ("its matrix", section(&of_matrix)),
            ("the system", section(&|text| text.pairs("platform", &self.platform))),
        ]
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        use std::fmt::Write as _;
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Parts one after the other, each with its length, so that none can look like two.
struct Text(Vec<u8>);

impl Text {
    fn part(&mut self, name: &str, value: &str) {
        self.0.extend(format!("{name} {}\n", value.len()).bytes());
        self.0.extend(value.bytes());
        self.0.push(b'\n');
    }

    fn pairs(&mut self, name: &str, pairs: &[(String, String)]) {
        for (key, value) in pairs {
            self.part(name, key);
            self.part("is", value);
        }
    }

    fn json<T: Serialize>(&mut self, name: &str, value: &T) {
        self.part(name, &serde_json::to_string(value).expect("plans and values can be written"));
    }
}

/// The job without what cannot change its result: where it was written, what it waited for, and who else runs.
fn essence(job: &Job) -> Job {
    let mut job = Job {
        needs: Vec::new(),
        condition: Condition::default(),
        strategy: Strategy::Single,
        concurrency: None::<Concurrency>,
        place: Place::default(),
        ..job.clone()
    };
    if let JobKind::Steps(steps) = &mut job.kind {
        steps.prefer.clear();
        forget_places(&mut steps.steps);
    }
    job
}

fn forget_places(steps: &mut [Step]) {
    for step in steps {
        step.place = Place::default();
        if let StepKind::Parallel(inner) = &mut step.kind {
            forget_places(inner);
        }
    }
}
