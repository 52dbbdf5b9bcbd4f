//! A run for programs: one object on each line.

use std::fmt::Write as _;
use std::path::Path;

use kiln_runner::local::{Progress, Summary};
use serde_json::{Value, json};

use super::watch::Watch;

/// What is told of a step on the way; how jobs ended that never started is told at the end.
pub(super) fn lines(progress: &Progress, watch: &Watch) -> String {
    if let Progress::Lines { leg, step, text } = progress {
        let name = watch.name(*leg);
        let mut lines = String::with_capacity(2 * text.len());
        for line in String::from_utf8_lossy(text).lines() {
            let event =
                json!({"event": "line", "job": leg, "step": step, "name": name, "text": line});
            let _ = writeln!(lines, "{event}");
        }
        return lines;
    }
    event(progress).map(|event| format!("{event}\n")).unwrap_or_default()
}

fn event(progress: &Progress) -> Option<Value> {
    Some(match progress {
        Progress::JobStarted { leg, name } => {
            json!({"event": "job_started", "job": leg, "name": name})
        }
        Progress::StepStarted { leg, step, name } => {
            json!({"event": "step_started", "job": leg, "step": step, "name": name})
        }
        Progress::StepRetried { leg, step, failed_try } => {
            json!({"event": "step_retried", "job": leg, "step": step, "failed_try": failed_try})
        }
        Progress::StepFinished { leg, step, end } => json!({
            "event": "step_finished", "job": leg, "step": step,
            "outcome": end.outcome.result(), "conclusion": end.conclusion.result(),
        }),
        Progress::Annotation { leg, annotation } => json!({
            "event": "annotation", "job": leg, "severity": annotation.severity.as_str(), "message": annotation.message,
            "file": annotation.file, "line": annotation.line, "column": annotation.column, "title": annotation.title,
        }),
        Progress::Summary { leg, markdown } => {
            json!({"event": "summary", "job": leg, "markdown": markdown})
        }
        Progress::Deployed { leg, deployment } => json!({
            "event": "deployed", "job": leg, "environment": deployment.environment, "url": deployment.url,
        }),
        Progress::JobFinished { leg, conclusion } => {
            json!({"event": "job_finished", "job": leg, "conclusion": conclusion.github()})
        }
        Progress::Lines { .. } | Progress::Expected { .. } | Progress::JobNotRun(_) => return None,
    })
}

pub(super) fn summary(summary: &Summary, directory: &Path) -> Value {
    let jobs: Vec<_> = summary
        .jobs
        .iter()
        .map(|job| {
            json!({
                "job": job.leg, "name": job.name, "conclusion": job.conclusion.github(), "note": job.note, "taken_over": job.taken_over,
                "seconds": job.took.as_secs_f64(), "log": job.log, "environment": job.deployment.as_ref().map(|to| &to.environment),
                "environment_url": job.deployment.as_ref().and_then(|to| to.url.as_ref()),
            })
        })
        .collect();
    let artifacts: Vec<_> = summary
        .artifacts
        .iter()
        .map(|left| json!({"name": left.name, "size": left.size, "path": left.path}))
        .collect();
    json!({
        "event": "run_finished", "conclusion": summary.conclusion.github(), "attempt": summary.attempt, "jobs": jobs,
        "directory": directory, "artifacts": artifacts,
    })
}
