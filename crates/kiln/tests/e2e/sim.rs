//! `kiln sim`: loads in, figures out.

use std::fs;

use kiln_proto::api::{Page, Repo, Run};
use kiln_proto::github;
use serde_json::Value;

use crate::Place;
use crate::fake::{self, Fake, Reply};

/// A trace in which one organization submits all its jobs first.
fn trace() -> String {
    let line = |organization: &str, submitted: usize| {
        format!(
            "{{\"submitted\": {submitted}, \"seconds\": 60, \"organization\": \"{organization}\", \
             \"repository\": \"web\", \"labels\": [\"linux\"]}}\n"
        )
    };
    let first = (0..40).map(|_| line("first", 0));
    first.chain((0..4).map(|_| line("second", 1))).collect()
}

/// S19
#[test]
fn plain_sim_compares_all_policies_at_once() {
    let place = Place::new();
    let answer = place.kiln(&["sim"]);
    let out = &answer.code(0).out;
    assert!(out.starts_with("40 runners, 4,000 jobs of 8 organizations within "), "{out}");
    for expect in
        ["POLICY  MEAN WAIT", "fair, by organization:", "fifo, by organization:", "greedy "]
    {
        assert!(out.contains(expect), "{expect}: {out}");
    }
    assert_eq!(answer.err, "", "progress is for terminals");
    assert_eq!(place.kiln(&["sim"]).out, *out, "the same seed, the same figures");
    assert_ne!(place.kiln(&["sim", "--seed", "2"]).out, *out);
}

fn jain(answer: &Value, policy: usize) -> f64 {
    answer["policies"][policy]["jain"].as_f64().expect("every report has the index")
}

/// S8, S19
#[test]
fn json_has_every_figure_and_fair_is_fairer() {
    let place = Place::new();
    let args =
        ["sim", "--jobs", "1500", "--organizations", "15", "--json", "--policy", "fair,fifo,fair"];
    let answer = place.kiln(&args).code(0).json();
    assert_eq!(answer["jobs"], 1500);
    assert_eq!(answer["policies"].as_array().unwrap().len(), 2, "each once");
    assert_eq!(answer["policies"][1]["policy"], "fifo");
    assert_eq!(answer["policies"][0]["organizations"].as_array().unwrap().len(), 15);
    assert!(jain(&answer, 0) > jain(&answer, 1) + 0.1, "{answer:#}");
    for report in answer["policies"].as_array().unwrap() {
        let least = answer["makespan_at_least"].as_f64().unwrap();
        assert!(report["makespan"].as_f64().unwrap() >= least);
        let used = report["utilization"].as_f64().unwrap();
        assert!(used > 0.0 && used <= 1.0);
        assert!(report["wait"]["p99"].as_f64().unwrap() >= report["wait"]["p50"].as_f64().unwrap());
    }
}

/// S19
#[test]
fn a_trace_is_replayed_on_the_runners_that_are_named() {
    let place = Place::new();
    place.file("trace.jsonl", trace());
    let args = ["sim", "--trace", "trace.jsonl", "--pool", "2:linux,x64", "--json"];
    let answer = place.kiln(&args).code(0).json();
    assert_eq!(answer["pools"][0]["labels"], serde_json::json!(["linux", "x64"]));
    assert_eq!(answer["policies"][0]["makespan"], 1320.0, "44 minutes of work on two runners");
    let mean = |policy: usize| {
        answer["policies"][policy]["organizations"][1]["wait"]["mean"].as_f64().unwrap()
    };
    assert!(mean(0) < 200.0 && mean(2) > 1_000.0, "{answer:#}");
    let piped = place.kiln_in("", &["sim", "--trace", "-", "--runners", "2"], &trace());
    assert!(
        piped.code(0).out.starts_with("2 runners, 44 jobs of 2 organizations within 1s (-)"),
        "{piped:#?}"
    );
}

/// S8, S19
#[test]
fn shares_and_limits_change_who_waits() {
    let place = Place::new();
    place.file("trace.jsonl", trace());
    let run = |more: &[&str]| {
        let args = [&["sim", "--trace", "trace.jsonl", "--runners", "4", "--json"], more].concat();
        place.kiln(&args).code(0).json()
    };
    let makespan = |answer: &Value| answer["policies"][0]["makespan"].as_f64().unwrap();
    assert!(makespan(&run(&["--limit", "1"])) > 2.0 * makespan(&run(&[])));
    let wait = |answer: &Value| {
        answer["policies"][0]["organizations"][1]["wait"]["mean"].as_f64().unwrap()
    };
    assert!(wait(&run(&["--shares", "first=10000"])) > wait(&run(&[])));
    let unknown = place.kiln(&["sim", "--shares", "nobody=5"]);
    assert!(
        unknown.code(2).err.contains("no job belongs to an organization `nobody`"),
        "{unknown:#?}"
    );
}

/// S19
#[test]
fn a_plot_is_a_file_of_its_own() {
    let place = Place::new();
    let answer = place.kiln(&["sim", "--jobs", "300", "--plot", "waits.svg"]);
    assert!(answer.code(0).out.contains("POLICY"));
    let svg = fs::read_to_string(place.path().join("waits.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert!(svg.contains(">mean waiting time</text>"));
    let nowhere = place.kiln(&["sim", "--jobs", "3", "--plot", "no/such/folder.svg"]);
    assert!(nowhere.code(2).err.contains("cannot write `no/such/folder.svg`"), "{nowhere:#?}");
}

/// S19
#[test]
fn what_cannot_be_simulated_is_explained() {
    let place = Place::new();
    place.file("trace.jsonl", trace());
    place.file("broken.jsonl", format!("{}{{\"submitted\": 1}}\n", trace()));
    place.file("empty.jsonl", "\n").file("binary.jsonl", b"\xff\n");
    let check = |args: &[&str], expect: &str| {
        let answer = place.kiln(&[&["sim"], args].concat());
        assert!(answer.code(2).err.contains(expect), "{answer:#?}");
    };
    check(&["--trace", "none.jsonl"], "cannot read `none.jsonl`");
    check(
        &["--trace", "broken.jsonl"],
        "`broken.jsonl` is no trace: line 45: missing field `seconds`",
    );
    check(&["--trace", "empty.jsonl"], "there is no job in it");
    check(&["--trace", "binary.jsonl"], "line 1: it is not UTF-8");
    check(&["--trace", "trace.jsonl", "--pool", "1:mac"], "no runner has the label `linux`");
    check(&["--trace", "trace.jsonl", "--jobs", "5"], "cannot be used with");
    check(&["--pool", "many"], "such as 8:linux,x64");
    check(&["--runners", "2"], "2 runners are too few for 3 different sets of labels");
    check(&["--runners", "0"], "0 is not in 1..=1000000");
    check(&["--load", "nan"], "expected a number from 0.01 to 100");
    check(
        &["--policy", "lifo"],
        "there is no policy `lifo`; expected one of `fair`, `score`, `fifo`",
    );
}

fn recorded(number: i64, labels: &[&str], started: Option<&str>) -> github::Job {
    github::Job {
        id: number,
        node_id: format!("j-{number}"),
        run_id: 12_345,
        run_url: String::new(),
        run_attempt: 1,
        head_branch: None,
        head_sha: String::new(),
        workflow_name: "CI".to_owned(),
        name: "test".to_owned(),
        status: "completed".to_owned(),
        conclusion: Some("success".to_owned()),
        url: String::new(),
        html_url: String::new(),
        created_at: "2026-11-16T05:28:00.000Z".to_owned(),
        started_at: started.map(str::to_owned),
        completed_at: Some("2026-11-16T05:29:15.500Z".to_owned()),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        runner_id: None,
        runner_name: None,
        runner_group_id: None,
        runner_group_name: None,
        check_run_url: String::new(),
        steps: Vec::new(),
    }
}

/// S19: what a server did becomes a trace, which the simulator takes.
#[test]
fn a_servers_finished_jobs_become_a_trace() {
    let server = Fake::new(|asked, _| {
        let path = asked.line.as_str();
        if path.starts_with("GET /api/runs?status=completed") {
            let run = fake::run("completed", Some("success"), Vec::new()).run;
            Reply::json(200, &Page::<Run> { items: vec![run], next: None })
        } else if path.starts_with("GET /api/repos") {
            let repo = Repo {
                id: 1,
                owner: "me".to_owned(),
                name: "app".to_owned(),
                source: String::new(),
                default_branch: "main".to_owned(),
                enabled: true,
                paused: None,
                shares: 100,
                head_starts: std::collections::BTreeMap::new(),
            };
            Reply::json(200, &Page { items: vec![repo], next: None })
        } else if path.starts_with("GET /repos/me/app/actions/runs/12345/jobs?per_page=100&page=1")
        {
            let ran = recorded(1, &["linux", "x64"], Some("2026-11-16T05:28:30.000Z"));
            let jobs = vec![ran, recorded(2, &[], None)];
            Reply::json(200, &github::Jobs { total_count: 2, jobs })
        } else {
            Reply::problem(404, "no such thing")
        }
    });
    let place = Place::new();
    let env = [("KILN_SERVER", server.url()), ("KILN_TOKEN", "t".to_owned())];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = place.kiln_with(&env, &["sim", "record"]);
    answer.code(0);
    assert_eq!(
        answer.json(),
        serde_json::json!({
            "submitted": 1_794_806_880.0, "seconds": 45.5, "organization": "me", "repository": "app",
            "labels": ["linux", "x64"], "class": "high", "priority": 0
        }),
        "a job that never ran is left out"
    );
    let replayed = place.kiln_in("", &["sim", "--trace", "-", "--runners", "1"], &answer.out);
    assert!(replayed.code(0).out.starts_with("1 runner, 1 job of 1 organization"), "{replayed:#?}");
    let away = place.kiln(&["sim", "record", "--server", "http://127.0.0.1:1"]);
    assert!(away.code(2).err.contains("127.0.0.1:1"), "{away:#?}");
}
