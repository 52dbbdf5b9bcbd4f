//! What a server might answer, for unit tests.

use std::collections::BTreeMap;

use kiln_proto::api::{Job, Run, RunDetail, Step};

pub(super) fn run(status: &str, conclusion: Option<&str>) -> Run {
    Run {
        id: 12_345,
        slug: "r-9ix".to_owned(),
        repo: "me/app".to_owned(),
        workflow: ".github/workflows/ci.yml".to_owned(),
        name: "CI".to_owned(),
        title: "Make the tests of the parser faster by half".to_owned(),
        number: 7,
        attempt: 1,
        event: "pull_request".to_owned(),
        actor: "me".to_owned(),
        reference: "refs/heads/faster-tests".to_owned(),
        sha: "0".repeat(40),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        reason: None,
        created_at: "2026-11-16T05:28:00.000Z".to_owned(),
        started_at: Some("2026-11-16T05:28:03.000Z".to_owned()),
        ended_at: conclusion.map(|_| "2026-11-16T05:29:15.000Z".to_owned()),
        url: "http://127.0.0.1:8420/me/app/actions/runs/12345".to_owned(),
    }
}

pub(super) fn job(name: &str, status: &str, conclusion: Option<&str>) -> Job {
    let started = matches!(status, "in_progress" | "completed");
    Job {
        id: Some(7),
        slug: Some("j-7".to_owned()),
        run_id: 12_345,
        run_attempt: 1,
        name: name.to_owned(),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        reason: if started { String::new() } else { "no runner is free".to_owned() },
        attempt: u32::from(started),
        runner: started.then(|| "builder".to_owned()),
        runner_id: None,
        queued_at: None,
        claimed_at: None,
        started_at: started.then(|| "2026-11-16T05:28:00.000Z".to_owned()),
        ended_at: conclusion.map(|_| "2026-11-16T05:29:12.000Z".to_owned()),
        steps: Vec::new(),
        outputs: BTreeMap::new(),
        reused_from: None,
        used: None,
        allowed: None,
        deployment: None,
        claims: Vec::new(),
        prepared_at: None,
        node: 0,
        needs: Vec::new(),
    }
}

pub(super) fn step(number: u32, status: &str, conclusion: Option<&str>) -> Step {
    Step {
        number,
        name: format!("step {number}"),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        exit_code: None,
        started_at: None,
        ended_at: None,
    }
}

pub(super) fn detail(jobs: Vec<Job>) -> RunDetail {
    RunDetail {
        run: run("in_progress", None),
        cancelled_by: None,
        cancel_reason: None,
        note: None,
        jobs,
    }
}
