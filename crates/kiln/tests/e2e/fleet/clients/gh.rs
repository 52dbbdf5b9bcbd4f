//! `gh`, the command line of GitHub, as Debian has it: what it does by REST.

use std::process::Command;

use serde_json::Value;

use super::{Installation, Kind};

impl Installation {
    fn gh(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg("gh")
            .args(arguments)
            .env("GH_HOST", self.server.address.trim_start_matches("https://"))
            .env("GH_ENTERPRISE_TOKEN", self.server.token())
            .env(
                "GH_REPO",
                format!("{}/acme/app", self.server.address.trim_start_matches("https://")),
            )
            .env("GH_CONFIG_DIR", self.world.place.path().join("gh"))
            .env("GH_PROMPT_DISABLED", "1")
            .env("GH_NO_UPDATE_NOTIFIER", "1")
            .env("NO_COLOR", "1");
        command
    }

    #[track_caller]
    fn gh_succeeds(&self, arguments: &[&str]) -> String {
        self.succeeds(&mut self.gh(arguments))
    }

    /// The id of the newest run, once a dispatch has made one.
    fn newest(&self) -> String {
        let runs = self.gh_succeeds(&["run", "list", "--limit", "1", "--json", "databaseId"]);
        let runs: Value = serde_json::from_str(&runs).expect("gh prints JSON");
        runs[0]["databaseId"].to_string()
    }
}

/// F5
#[test]
fn gh_lists_dispatches_watches_reruns_cancels_and_downloads() {
    let it = Installation::new(Kind::Sqlite);
    // A workflow is known once its repository was triggered.
    let run = it.world.trigger(&it.server, "app");
    it.world.ended(&it.server, run);
    // What there is.
    let user: Value = serde_json::from_str(&it.gh_succeeds(&["api", "user"])).unwrap();
    assert_eq!(user["login"], "admin");
    let names = it.gh_succeeds(&["api", "user/repos", "--paginate", "--jq", ".[].full_name"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["acme/first", "acme/app"]);
    // A dispatch, watched to its end.
    it.gh_succeeds(&["workflow", "run", "ci.yml", "--ref", "main", "-f", "mode=good"]);
    let run = it.newest();
    let watched = it.gh_succeeds(&["run", "watch", &run, "--exit-status", "--interval", "1"]);
    assert!(watched.contains("completed with 'success'") || watched.contains("✓"), "{watched}");
    let listed = it.gh_succeeds(&["run", "list"]);
    assert!(listed.contains("CI") && listed.contains("workflow_dispatch"), "{listed}");
    let workflows = it.gh_succeeds(&["workflow", "list"]);
    assert!(workflows.contains("CI\tactive"), "{workflows}");
    let seen = it.gh_succeeds(&["workflow", "view", "ci.yml"]);
    assert!(seen.contains("ci.yml"), "{seen}");
    // Run, job, remarks, logs.
    let seen = it.gh_succeeds(&["run", "view", &run]);
    for part in ["build", "careful", "a.txt#3", "dist"] {
        assert!(seen.contains(part), "no `{part}` in:\n{seen}");
    }
    let verbose = it.gh_succeeds(&["run", "view", &run, "--verbose"]);
    assert!(verbose.contains("Say"), "{verbose}");
    let log = it.gh_succeeds(&["run", "view", &run, "--log"]);
    let line = log.lines().find(|line| line.ends_with("hello from kiln"));
    assert!(line.is_some_and(|line| line.starts_with("build\tSay\t")), "{log}");
    // Artifacts.
    it.gh_succeeds(&["run", "download", &run, "--name", "dist", "--dir", "down"]);
    let hello = std::fs::read_to_string(it.world.place.path().join("down/hello.txt")).unwrap();
    assert_eq!(hello, "hello\n");
    it.gh_succeeds(&["run", "download", &run, "--dir", "all"]);
    assert!(it.world.place.path().join("all/dist/hello.txt").exists());
    let zip = it.gh_succeeds(&["api", &format!("repos/acme/app/actions/runs/{run}/logs")]);
    assert!(zip.starts_with("PK"), "an archive");
    failures_and_cancellation(&it);
    it.gh_succeeds(&["workflow", "disable", "ci.yml"]);
    let workflows = it.gh_succeeds(&["workflow", "list", "--all"]);
    assert!(workflows.contains("CI\tdisabled_manually"), "{workflows}");
    it.gh_succeeds(&["workflow", "enable", "ci.yml"]);
    assert_eq!(it.gh_succeeds(&["secret", "list"]), "");
}

fn failures_and_cancellation(it: &Installation) {
    it.gh_succeeds(&["workflow", "run", "CI", "--ref", "main", "-f", "mode=bad"]);
    let bad = it.newest();
    let (code, _, _) = it.runs(&mut it.gh(&["run", "watch", &bad, "--exit-status", "-i", "1"]));
    assert_eq!(code, Some(1), "a run that failed");
    let log = it.gh_succeeds(&["run", "view", &bad, "--log-failed"]);
    assert!(log.contains("this is bad") && !log.contains("hello from kiln"), "{log}");
    it.gh_succeeds(&["run", "rerun", &bad, "--failed"]);
    it.runs(&mut it.gh(&["run", "watch", &bad, "-i", "1"]));
    it.gh_succeeds(&["run", "rerun", &bad]);
    it.runs(&mut it.gh(&["run", "watch", &bad, "-i", "1"]));
    let view = it.gh_succeeds(&["api", &format!("repos/{{owner}}/{{repo}}/actions/runs/{bad}")]);
    let view: Value = serde_json::from_str(&view).expect("gh prints what it got");
    assert_eq!(
        (view["run_attempt"].as_i64(), view["conclusion"].as_str()),
        (Some(3), Some("failure"))
    );
    let job =
        it.gh_succeeds(&["run", "view", &bad, "--json", "jobs", "--jq", ".jobs[0].databaseId"]);
    it.gh_succeeds(&["run", "rerun", "--job", job.trim()]);
    it.runs(&mut it.gh(&["run", "watch", &bad, "-i", "1"]));
    let again = it.gh_succeeds(&["run", "list", "--limit", "1"]);
    assert!(again.contains("failure"), "{again}");
    it.gh_succeeds(&["workflow", "run", "ci.yml", "--ref", "main", "-f", "mode=slow"]);
    let slow = it.newest();
    it.gh_succeeds(&["run", "cancel", &slow]);
    it.runs(&mut it.gh(&["run", "watch", &slow, "-i", "1"]));
    let ended =
        it.gh_succeeds(&["run", "view", &slow, "--json", "conclusion", "--jq", ".conclusion"]);
    assert_eq!(ended.trim(), "cancelled");
    let (code, _, said) = it.runs(&mut it.gh(&["run", "cancel", &slow]));
    assert!(code != Some(0) && said.contains("completed"), "{said}");
}
