//! What the pages show, as commands against a real `kiln up`; addresses of pages wherever a name is.

use serde_json::Value;

use crate::Answer;
use crate::client::Up;

const LOOK: &str = "\
name: Look
on:
  workflow_dispatch:
    inputs: {fast: {type: boolean, description: skip the tests}}
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/cache@v4
        with: {path: deps, key: deps-1}
      - name: Talk
        run: |
          mkdir -p deps && echo something > deps/file
          echo '# Report' >> \"$GITHUB_STEP_SUMMARY\"
          echo '::warning file=src/a.rs,line=7::mind the gap'
          for i in $(seq 1 20); do echo \"line $i\"; done
  two:
    needs: one
    runs-on: ubuntu-latest
    steps: [{name: Judge, run: 'test -e \"$HOME/verdict\"'}]
";

/// A repository `me/app` with one more workflow, on a server of its own.
fn up() -> Up {
    let up = Up::new();
    let app = up.place.below("app");
    app.file(".github/workflows/look.yml", LOOK);
    app.git(&["add", "-A"]);
    let identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
    app.git(&[&identity[..], &["commit", "-qm", "Look"]].concat());
    up.kiln(&["repo", "add", "--name", "me/app"]).code(0);
    up
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is a text")
}

/// The job of a run, by its name.
fn job<'r>(run: &'r Value, name: &str) -> &'r Value {
    let jobs = run["jobs"].as_array().expect("a run has jobs");
    jobs.iter().find(|job| job["name"] == name).unwrap_or_else(|| panic!("no {name}: {run:#}"))
}

#[track_caller]
fn has(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.out.contains(word), "`{word}` is missing: {answer:#?}");
    }
}

/// O1 O2
#[test]
fn what_pages_show_is_shown_by_commands() {
    let up = up();
    has(up.kiln(&["status"]).code(0), &["nothing has run yet"]);
    up.kiln(&["trigger", "look.yml", "--watch"]).code(1);
    let run = up.kiln(&["runs", "--json"]).code(0).json();
    let (slug, url) = (text(&run["slug"]), text(&run["url"]));

    let shown = up.kiln(&["show", slug]);
    has(
        shown.code(0),
        &["Look", "one", "succeeded", "two", "failed", "mind the gap", "src/a.rs:7"],
    );
    let detail = up.kiln(&["show", slug, "--json"]).code(0).json();
    assert_eq!(detail["annotations"][0]["line"], 7, "{detail:#}");
    let one = text(&job(&detail, "one")["slug"]);
    has(up.kiln(&["show", one]).code(0), &["one", "Talk"]);
    has(up.kiln(&["summary", slug]).code(0), &["# Report"]);
    assert_eq!(up.kiln(&["summary", url, "--json"]).code(0).json()["markdown"], "# Report\n");

    let status = up.kiln(&["status", "--json"]).code(0).json();
    assert_eq!(status["broke"][0]["slug"], slug);
    let record = &status["workflows"][0];
    assert_eq!((&record["name"], &record["green"]), (&"Look".into(), &0.into()), "{status:#}");
    has(up.kiln(&["dashboard"]).code(0), &["all is quiet", "✗ failed", "0 %"]);
    for (filter, count) in [
        (["--event", "workflow_dispatch"], 1),
        (["--event", "push"], 0),
        (["--actor", "nobody"], 0),
        (["--search", "LOOK"], 1),
        (["--search", "xyz"], 0),
    ] {
        let found = up.kiln(&["runs", "--json", filter[0], filter[1]]);
        assert_eq!(found.code(0).out.lines().count(), count, "{filter:?}");
    }

    let listed = up.kiln(&["workflows", "--json"]).code(0).json();
    assert_eq!((&listed["name"], &listed["state"]), (&"Look".into(), &"active".into()));
    has(up.kiln(&["workflows", "show", "look.yml"]).code(0), &["Look", "last runs  ✗"]);
    up.kiln(&["workflows", "disable", "look.yml"]).code(0);
    has(up.kiln(&["workflows"]).code(0), &["disabled"]);
    let refused = up.kiln(&["trigger", "look.yml"]);
    assert!(refused.code(2).err.contains("disabled"), "{refused:#?}");
    up.kiln(&["workflows", "enable", "look.yml"]).code(0);

    // One job again, by the address of its page; the other stays as it was.
    std::fs::write(up.place.path().join("home/verdict"), "").expect("the directory is ours");
    let page = format!("{url}/job/{}", job(&detail, "two")["id"]);
    let wrong = up.kiln(&["rerun", &page, "--failed"]);
    assert!(wrong.code(2).err.contains("names the job"), "{wrong:#?}");
    up.kiln(&["rerun", &page, "--watch"]).code(0);
    let again = up.kiln(&["show", slug, "--json"]).code(0).json();
    assert_eq!((&again["attempt"], &again["conclusion"]), (&2.into(), &"success".into()));
    assert_eq!(job(&again, "one")["run_attempt"], 1, "it was not run again: {again:#}");
    assert_eq!(job(&again, "two")["run_attempt"], 2, "{again:#}");
    let both = up.kiln(&["show", slug, "--attempts"]);
    has(both.code(0), &["1 BEFORE", "LAST", "✗ failed", "✓ succeeded"]);
    assert_eq!(up.kiln(&["show", slug, "--attempts", "--json"]).code(0).out.lines().count(), 2);
    // The page of the job that failed is of the first attempt, and still says which job is meant.
    up.kiln(&["rerun", &page, "--watch"]).code(0);
    let third = up.kiln(&["show", slug, "--json"]).code(0).json();
    assert_eq!(job(&third, "two")["run_attempt"], 3, "{third:#}");
    has(up.kiln(&["doctor", slug]).code(0), &["no open job: success"]);
    let doctor = up.kiln(&["doctor", text(&job(&detail, "two")["slug"])]);
    has(doctor.code(1), &["`two` has ended, failure", "kiln logs"]);
}

/// R8
#[test]
fn caches_are_listed_counted_and_removed() {
    let up = up();
    up.kiln(&["trigger", "look.yml", "--watch"]).code(1);
    let cache = up.kiln(&["cache", "ls", "--json"]).code(0).json();
    assert_eq!((&cache["key"], &cache["ref"]), (&"deps-1".into(), &"refs/heads/main".into()));
    has(up.kiln(&["cache", "ls"]).code(0), &["deps-1", "main"]);
    assert_eq!(up.kiln(&["cache", "ls", "--key", "other", "--json"]).code(0).out, "");
    let usage = up.kiln(&["cache", "stats", "--json"]).code(0).json();
    assert_eq!(usage["active_caches_count"], 1, "{usage:#}");
    assert!(usage["active_caches_size_in_bytes"].as_u64() > Some(0), "{usage:#}");
    up.kiln(&["cache", "stats"]).code(0);
    let server = text(&up.serving["url"]);
    let page = format!("{server}/me/app/caches");
    let gone = up.kiln(&["cache", "rm", "deps-1", "--repo", &page, "--json"]).code(0).json();
    assert_eq!(gone["id"], cache["id"]);
    assert_eq!(up.kiln(&["cache", "ls", "--json"]).code(0).out, "");
    up.kiln(&["cache", "rm", "deps-1"]).code(2);
}

/// O2: pasted addresses wherever a name is.
#[test]
fn addresses_of_pages_are_taken_wherever_a_name_is() {
    let up = up();
    let server = text(&up.serving["url"]).to_owned();
    let repo = format!("{server}/me/app/actions?page=2#top");
    let workflow = format!("{server}/me/app/actions/workflows/look.yml?x=1");
    // Not in the repository, so that only the address tells.
    let elsewhere = |args: &[&str]| up.kiln_outside(args);
    elsewhere(&["pause", "--repo", &repo, "--reason", "moving"]).code(0);
    has(elsewhere(&["pause", "--list"]).code(0), &["me/app", "moving"]);
    let run = elsewhere(&["trigger", &workflow, "--json"]).code(0).json();
    let slug = text(&run["runs"][0]["slug"]).to_owned();
    let queue = elsewhere(&["queue", "--repo", &repo, "--json"]).code(0).json();
    assert_eq!((&queue["name"], &queue["repo"]), (&"one".into(), &"me/app".into()));
    let waiting = elsewhere(&["doctor", text(&queue["slug"])]);
    has(&waiting, &["`one` waits for", "moving"]);
    has(elsewhere(&["status", "--repo", &repo]).code(0), &["moving"]);
    elsewhere(&["resume", "--repo", &repo]).code(0);
    elsewhere(&["watch", &slug]).code(1);
    assert_eq!(elsewhere(&["runs", "--repo", &repo, "--json"]).code(0).json()["slug"], slug);
    has(elsewhere(&["workflows", "show", &workflow]).code(0), &["Look"]);

    // Lines of a log, as pages link to them.
    let detail = elsewhere(&["show", &slug, "--json"]).code(0).json();
    let page = format!("{}/job/{}", text(&detail["url"]), job(&detail, "one")["id"]);
    let all = elsewhere(&["logs", &page, "--json"]).code(0).out.clone();
    let lines: Vec<Value> =
        all.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let at = lines.iter().position(|line| line["text"] == "line 5").expect("it was printed");
    let number = lines[at]["line"].as_u64().expect("lines have numbers");
    let part = |rest: &str| elsewhere(&["logs", &format!("{page}{rest}"), "--raw"]);
    assert_eq!(part(&format!("#L{number}")).code(0).out, "line 5\n");
    let three = format!("?claim=1#L{number}-L{}", number + 2);
    assert_eq!(part(&three).code(0).out, "line 5\nline 6\nline 7\n");
    let range = format!("{number}-{}", number + 1);
    let typed = elsewhere(&["logs", &page, "--lines", &range, "--raw"]);
    assert_eq!(typed.code(0).out, "line 5\nline 6\n");
    let rest = elsewhere(&["logs", &page, "--lines", &format!("{number}-"), "--grep", "line 20"]);
    has(rest.code(0), &["line 20"]);
    assert!(part("#L999999").code(1).err.contains("no such line"));
    assert!(part("?claim=7").code(2).err.contains("error"), "there is no such claim");

    // The repository itself.
    elsewhere(&["repo", "disable", &repo]).code(0);
    assert!(elsewhere(&["trigger", &workflow]).code(2).err.contains("disabled"));
    elsewhere(&["repo", "enable", &repo]).code(0);
    let set = elsewhere(&["repo", "set", &repo, "--branch", "trunk", "--shares", "7", "--json"]);
    let set = set.code(0).json();
    assert_eq!((&set["default_branch"], &set["shares"]), (&"trunk".into(), &7.into()));
    elsewhere(&["repo", "remove", &repo]).code(0);
    let back = up.kiln(&["repo", "add", "--name", "me/app", "--json"]).code(0).json();
    assert_eq!((&back["enabled"], &back["default_branch"]), (&true.into(), &"main".into()));
    has(elsewhere(&["org", "list"]).code(0), &["me", "any number of jobs"]);
    has(elsewhere(&["org", "set", "me", "--jobs", "3"]).code(0), &["me: 3 jobs at once"]);
    let org = elsewhere(&["org", "set", "me", "--jobs", "none", "--shares", "50", "--json"]);
    assert_eq!(org.code(0).json()["shares"], 50);
}

/// O2
#[test]
fn pages_are_opened_by_what_they_are_about() {
    let up = up();
    let server = text(&up.serving["url"]).to_owned();
    let open = |what: &[&str]| {
        let answer = up.kiln(&[&["open", "--print"], what].concat());
        answer.code(0).out.trim_end().to_owned()
    };
    assert_eq!(open(&[]), format!("{server}/me/app"));
    assert_eq!(open(&["me/app"]), format!("{server}/me/app"));
    assert_eq!(open(&["https://ci.example/x?y#z"]), "https://ci.example/x?y#z");
    up.kiln(&["trigger", "look.yml", "--watch"]).code(1);
    let run = up.kiln(&["runs", "--json"]).code(0).json();
    let detail = up.kiln(&["show", text(&run["slug"]), "--json"]).code(0).json();
    assert_eq!(open(&[text(&run["slug"])]), text(&run["url"]));
    let one = job(&detail, "one");
    let page = format!("{}/job/{}", text(&run["url"]), one["id"]);
    assert_eq!(open(&[text(&one["slug"])]), page);
    let json = up.kiln(&["open", text(&one["slug"]), "--json"]).code(0).json();
    assert_eq!(json["url"], page.as_str());
    let runner = up.kiln(&["runners", "--json"]).code(0).json();
    let slug = text(&runner["slug"]);
    assert_eq!(open(&[slug]), format!("{server}/runners#{slug}"));
    for missing in ["r-zzzz", "n-zzzz", "a-zzzz", "x-1"] {
        up.kiln(&["open", "--print", missing]).code(2);
    }
    up.kiln(&["runners", "drain", slug]).code(0);
    assert_eq!(up.kiln(&["runners", "--json"]).code(0).json()["status"], "draining");
    has(&up.kiln(&["doctor", slug]), &["takes no more", "kiln runners undrain"]);
    up.kiln(&["runners", "undrain", &format!("{server}/runners#{slug}")]).code(0);
    let well = up.kiln(&["doctor", text(&runner["name"])]);
    has(well.code(0), &["0 that wait could run on it"]);
}

/// S24: the one-time link lets the command line in, once; contexts keep servers apart.
#[test]
fn the_one_time_link_logs_in_once_under_a_name() {
    let up = up();
    let link = text(&up.serving["welcome"]).to_owned();
    let server = text(&up.serving["url"]).to_owned();
    let with_token = up.kiln(&["login", &link, "--token", "kpat_x"]);
    assert!(with_token.code(2).err.contains("leave out `--token`"), "{with_token:#?}");
    let login = up.kiln(&["login", &link, "--context", "first", "--json"]).code(0).json();
    assert_eq!((&login["server"], &login["context"]), (&server.as_str().into(), &"first".into()));
    let me = up.kiln(&["whoami", "--context", "first", "--json"]).code(0).json();
    assert_eq!((&me["name"], &me["admin"]), (&"admin".into(), &true.into()));
    let twice = up.kiln(&["login", &link]);
    assert!(twice.code(2).err.contains("works once"), "{twice:#?}");

    let contexts = || {
        let out = up.kiln(&["context", "list", "--json"]).code(0).out.clone();
        let lines = out.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        lines.map(|one: Value| text(&one["name"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(contexts(), ["first"]);
    has(up.kiln(&["context", "list"]).code(0), &["*", "first", &server, "kept"]);
    let renamed = up.kiln(&["context", "rename", "first", "work", "--json"]).code(0).json();
    assert_eq!((&renamed["renamed"], &renamed["name"]), (&"first".into(), &"work".into()));
    assert_eq!(contexts(), ["work"]);
    assert_eq!(up.kiln(&["context", "use", "work", "--json"]).code(0).json()["used"], "work");
    let unknown = up.kiln(&["context", "use", "home"]);
    assert!(unknown.code(2).err.contains("there are `work`"), "{unknown:#?}");
    up.kiln(&["runs", "--context", "work"]).code(0);
    assert_eq!(up.kiln(&["context", "remove", "work", "--json"]).code(0).json()["removed"], "work");
    assert!(contexts().is_empty());
}

/// S11
#[test]
fn what_is_triggered_first_goes_first() {
    let up = up();
    up.kiln(&["pause", "--reason", "both must wait"]).code(0);
    up.kiln(&["trigger", "look.yml"]).code(0);
    let first = up.kiln(&["trigger", "look.yml", "--first", "--json"]).code(0).json();
    let queue = up.kiln(&["queue", "--json"]);
    let line = queue.code(0).out.lines().next().expect("two wait").to_owned();
    let head: Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!((&head["run_id"], &head["priority"]), (&first["runs"][0]["id"], &100.into()));
}
