//! How the last runs of a workflow went.

use std::time::Duration;

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::api::Run;
use serde::Serialize;

use crate::client::Client;
use crate::output::time::between;

/// How many runs are looked at.
const RUNS: usize = 30;

/// What the last runs of a workflow say about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Record {
    pub(super) repo: String,
    /// The path of its file.
    pub(super) workflow: String,
    pub(super) name: String,
    /// How many runs were looked at.
    pub(super) runs: usize,
    /// How many of those that ended succeeded, in percent; nothing while none has ended.
    pub(super) green: Option<usize>,
    /// Half of those that ended took at most so many seconds.
    pub(super) median_seconds: Option<u64>,
    /// The newest first: a conclusion, or the status of one that has not ended.
    pub(super) last: Vec<String>,
}

impl Record {
    pub(super) async fn of(client: &Client, repo: &str, workflow: &str) -> Result<Option<Self>> {
        let call = client.get(&["runs"]).query("repo", repo).query("workflow", workflow);
        Ok(Self::from(&call.list(RUNS).await?))
    }

    /// Nothing for a workflow without runs.
    fn from(runs: &[Run]) -> Option<Self> {
        let newest = runs.first()?;
        let ended: Vec<&Run> = runs.iter().filter(|run| run.conclusion.is_some()).collect();
        let good = ended.iter().filter(|run| run.conclusion.as_deref() == Some("success")).count();
        // Only what has ended is looked at, so no clock is asked.
        let took =
            |run: &&Run| between(run.started_at.as_deref(), run.ended_at.as_deref(), Timestamp(0));
        let mut took: Vec<Duration> = ended.iter().filter_map(took).collect();
        took.sort_unstable();
        Some(Self {
            repo: newest.repo.clone(),
            workflow: newest.workflow.clone(),
            name: newest.name.clone(),
            runs: runs.len(),
            green: (!ended.is_empty()).then(|| good * 100 / ended.len()),
            median_seconds: took.get(took.len() / 2).map(Duration::as_secs),
            last: runs
                .iter()
                .map(|run| run.conclusion.clone().unwrap_or_else(|| run.status.clone()))
                .collect(),
        })
    }

    /// Its last runs, the oldest at the left: a sign for each.
    pub(super) fn signs(&self) -> String {
        let sign = |word: &String| match word.as_str() {
            "success" => '✓',
            "failure" | "timed_out" | "startup_failure" => '✗',
            "cancelled" | "skipped" | "neutral" => '-',
            "in_progress" => '●',
            _ => '○',
        };
        self.last.iter().rev().map(sign).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::run;
    use super::*;

    #[test]
    fn a_record_counts_what_has_ended() {
        let took = |seconds: u32, conclusion| Run {
            started_at: Some("2026-11-16T05:28:00.000Z".to_owned()),
            ended_at: Some(format!("2026-11-16T05:28:{seconds:02}.000Z")),
            ..run("completed", Some(conclusion))
        };
        let runs =
            [run("in_progress", None), took(9, "success"), took(30, "failure"), took(5, "success")];
        let record = Record::from(&runs).unwrap();
        assert_eq!((record.runs, record.green, record.median_seconds), (4, Some(66), Some(9)));
        assert_eq!(record.signs(), "✓✗✓●");
        let none = Record::from(&runs[..1]).unwrap();
        assert_eq!((none.green, none.median_seconds), (None, None));
        assert_eq!(Record::from(&[]), None);
    }
}
