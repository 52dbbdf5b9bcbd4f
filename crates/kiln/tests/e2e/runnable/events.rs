//! What `kiln run --json` told about a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value as Json;

use crate::Answer;

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) code: i32,
    /// Everything that was printed, and the logs that were kept.
    pub(super) everything: String,
    pub(super) err: String,
    /// Nothing when no run took place.
    pub(super) conclusion: Option<String>,
    pub(super) jobs: BTreeMap<String, String>,
    pub(super) steps: Vec<Step>,
    /// The lines of all jobs, without the scripts that are shown before they run.
    pub(super) lines: Vec<String>,
    pub(super) annotations: Vec<String>,
    pub(super) summaries: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) job: String,
    pub(super) name: String,
    pub(super) conclusion: String,
    pub(super) errors: Vec<String>,
}

impl Outcome {
    pub(super) fn of(answer: &Answer) -> Self {
        let everything = format!("{}{}", answer.out, answer.err);
        let mut outcome =
            Self { code: answer.code, everything, err: answer.err.clone(), ..Self::default() };
        let mut reader = Reader::default();
        for line in answer.out.lines() {
            let event: Json = serde_json::from_str(line).expect("each line is JSON");
            outcome.hear(&event, &mut reader);
        }
        outcome
    }

    fn hear(&mut self, event: &Json, reader: &mut Reader) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let job = event["job"].as_u64().unwrap_or_default();
        match event["event"].as_str().expect("an event has a name") {
            "job_started" => {
                reader.names.insert(job, text("name"));
            }
            "step_started" => {
                let step = Step {
                    job: reader.names[&job].clone(),
                    name: text("name"),
                    conclusion: String::new(),
                    errors: Vec::new(),
                };
                reader.open.insert((job, event["step"].as_u64()), self.steps.len());
                self.steps.push(step);
            }
            "step_finished" => {
                let step = reader.open[&(job, event["step"].as_u64())];
                self.steps[step].conclusion = text("conclusion");
            }
            "line" => self.line((job, event["step"].as_u64()), text("text"), reader),
            "annotation" => self.annotations.push(annotation(event)),
            "summary" => self.summaries.push(text("markdown")),
            "run_finished" => {
                self.conclusion = Some(text("conclusion"));
                self.end(event);
            }
            _ => {}
        }
    }

    fn line(&mut self, step: (u64, Option<u64>), text: String, reader: &mut Reader) {
        if text.starts_with("##[group]Run ") {
            reader.announcing.insert(step);
        }
        if reader.announcing.contains(&step) {
            if text == "##[endgroup]" {
                reader.announcing.remove(&step);
            }
            return;
        }
        if let (Some(error), Some(step)) = (text.strip_prefix("##[error]"), reader.open.get(&step))
        {
            self.steps[*step].errors.push(error.to_owned());
        }
        self.lines.push(text);
    }

    fn end(&mut self, event: &Json) {
        for job in event["jobs"].as_array().expect("jobs are a list") {
            let text = |key: &str| job[key].as_str().unwrap_or_default().to_owned();
            self.jobs.insert(text("name"), text("conclusion"));
            if let Some(log) = job["log"].as_str() {
                self.everything.push_str(&fs::read_to_string(log).unwrap_or_default());
            }
        }
    }

    /// The values that `check` printed.
    pub(super) fn values(&self) -> Vec<String> {
        let values = self.lines.iter().filter(|line| line.starts_with("value: "));
        let mut values: Vec<String> = values.cloned().collect();
        values.sort();
        values
    }
}

#[derive(Default)]
struct Reader {
    names: BTreeMap<u64, String>,
    open: BTreeMap<(u64, Option<u64>), usize>,
    announcing: BTreeSet<(u64, Option<u64>)>,
}

/// `severity|file|line|column|title|message`, with `-` for what is not there.
fn annotation(event: &Json) -> String {
    let part = |key: &str| match &event[key] {
        Json::Null => "-".to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    ["severity", "file", "line", "column", "title", "message"].map(part).join("|")
}
