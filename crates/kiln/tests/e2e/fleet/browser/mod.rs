//! The pages in a real Chromium, as people use them. Screenshots lie in `target/screenshots` afterwards.

mod chrome;
mod hostile;
mod left;
mod log;
mod million;
mod palette;

use chrome::Chrome;
use serde_json::json;

use super::world::{Server, World};
use super::{Kind, Program};

/// Prints slowly, then waits for its end.
const SLOW: &str = "
name: Slow build
on:
  push:
  workflow_dispatch:
    inputs:
      greeting: {type: string, default: hello, description: What it says first}
      loud: {type: boolean, default: false}
jobs:
  build:
    runs-on: linux
    steps:
      - name: Greet
        run: echo \"${{ inputs.greeting }} from the form\"
      - name: Tick
        run: for n in $(seq 1 2000); do echo \"tick $n\"; sleep 0.1; done
  deploy:
    needs: build
    runs-on: linux
    steps: [{run: 'true'}]
";

/// A graph with a matrix; one of its jobs prints much, and fails in the middle of it.
const RED: &str = "
name: Checks
on: push
jobs:
  lint:
    name: Format and lints
    runs-on: linux
    steps: [{name: Lint, run: echo all clean}]
  build:
    name: Build
    runs-on: linux
    steps: [{name: Compile, run: \"printf '\\\\033[32m   Compiling\\\\033[0m app v1.0\\\\n\\\\033[1;38;5;208mwarm\\\\033[0m \\\\033[38;2;120;90;250mtrue colour\\\\033[0m\\\\n'; printf '10%%\\\\r60%%\\\\r100%% done\\\\n'; sleep 0.4\"}]
  test:
    name: Test (${{ matrix.part }})
    needs: build
    runs-on: linux
    strategy: {fail-fast: false, matrix: {part: [one, two, three]}}
    steps:
      - name: Unit tests
        run: |
          seq -f 'test case_%.0f ... ok' 1 60000
          if [ ${{ matrix.part }} = two ]; then
            echo 'needle in the haystack'
            echo '::error file=src/lib.rs,line=7::assertion failed: left == right'
            seq -f 'after %.0f' 1 300
            exit 1
          fi
      - name: Report
        if: always()
        run: echo done
  docs:
    name: Documentation
    runs-on: linux
    continue-on-error: true
    steps: [{name: Links, run: \"echo '::warning::two links are stale'; exit 3\"}]
  deploy:
    name: Deploy
    needs: [test, lint]
    runs-on: linux
    steps: [{run: 'true'}]
";

struct Site {
    world: World,
    server: Server,
    _runner: Program,
    chrome: Chrome,
}

fn site() -> Site {
    let world = World::new(Kind::Sqlite);
    let server = world.server("server");
    let runner = world.runner_with(&server, "laptop", &["linux"], &["--jobs", "3"]);
    let chrome = Chrome::start(world.place.path(), &server.address);
    Site { world, server, _runner: runner, chrome }
}

impl Site {
    fn sign_in(&self) {
        self.chrome.open("/");
        self.chrome.see("input#token");
        self.chrome.write("#token", self.server.token());
        self.chrome.click("form button.primary");
        self.chrome.see("header .who");
    }
}

/// O1
#[test]
fn a_person_starts_a_workflow_watches_it_and_cancels_it() {
    let site = site();
    let chrome = &site.chrome;
    site.world.repository(&site.server, "slow", SLOW);
    chrome.open("/runs");
    chrome.shot("sign-in");
    site.sign_in();
    chrome.open("/");
    chrome.shot("dashboard-empty");
    chrome.open("/acme/slow/actions/workflows/ci.yml");
    chrome.click("#dispatch summary");
    chrome.shot("workflow");
    chrome.write("input[name='input.greeting']", " and welcome");
    chrome.click("#dispatch button.primary");
    // The page of the run follows by itself.
    chrome.until("it runs", "return document.querySelector('#status .pill.running') !== null");
    chrome.until(
        "its reason is said",
        "return document.body.innerText.includes('Waits for `build`')",
    );
    chrome.shot("run-live");
    let run = chrome.path();
    chrome.click(".graph .node a");
    chrome.until(
        "lines come",
        "return document.body.innerText.includes('hello and welcome from the form')",
    );
    chrome.until("more lines come", "return document.body.innerText.includes('tick 60')");
    chrome.until(
        "the end is followed",
        "return innerHeight + scrollY >= document.documentElement.scrollHeight - 100",
    );
    chrome.shot("job-live");
    // Whoever scrolls away reads on undisturbed.
    chrome.script("window.scrollTo(0, 0)");
    chrome.until("it yields", "return !document.getElementById('to-live').hidden");
    assert_eq!(chrome.script("return scrollY"), 0);
    chrome.click("#to-live");
    chrome.until(
        "it follows again",
        "return scrollY > 0 && document.getElementById('to-live').hidden",
    );
    chrome.open(&run);
    // Nothing that ticks is read out; only how the run stands is, and only when that changes.
    let ticks = "return document.querySelectorAll('[aria-live] [data-since], [role=status] [data-since]').length";
    assert_eq!(chrome.script(ticks), 0);
    assert_eq!(chrome.script("return document.getElementById('announce').textContent"), "");
    chrome.click("#actions button.danger");
    chrome.until(
        "it is cancelled",
        "return document.querySelector('#status .pill.cancelled') !== null",
    );
    chrome.no_complaints();
}

/// O2
#[test]
fn a_red_run_leads_to_its_error_and_its_log_is_searched() {
    let site = site();
    let chrome = &site.chrome;
    site.world.repository(&site.server, "red", RED);
    let run = site.world.trigger(&site.server, "red");
    site.world.ended(&site.server, run);
    site.sign_in();
    chrome.open("/");
    chrome.see("#broke .error-link");
    chrome.shot("dashboard");
    chrome.open("/runs");
    chrome.shot("runs");
    // One click from the list to the line.
    chrome.click(".runs .error-link");
    chrome.until("the error is in sight", "
        const row = document.querySelector('.l.error.chosen');
        const tools = document.querySelector('.log-tools').getBoundingClientRect().bottom;
        const box = row?.getBoundingClientRect();
        const above = [...document.querySelectorAll('#log .l')].map((one) => one.getBoundingClientRect().top).filter((top) => top > tools && top < box?.top);
        return document.readyState === 'complete' && above.length >= 8 && box.bottom < innerHeight - 100");
    let text = chrome.script("return document.querySelector('.l.error.chosen').innerText");
    assert!(
        text.as_str().is_some_and(|text| text.contains("assertion failed: left == right")),
        "{text}"
    );
    chrome.shot("job-error");
    let job = chrome.path();
    searches(chrome);
    jumps(chrome, &job);
    keys(chrome);
    chrome.open(&format!("/acme/red/actions/runs/{run}"));
    chrome.see(".graph .node.failed");
    chrome.until(
        "the warning is told",
        "return document.body.innerText.includes('two links are stale')",
    );
    chrome.shot("run");
    chrome.press("g");
    chrome.see("ol.jobs");
    chrome.shot("run-list");
    chrome.press("g");
    chrome.see(".waterfall");
    chrome.shot("run-waterfall");
    // An expression that is none is refused.
    chrome.no_complaints_but(&["/search?"]);
}

/// The whole log is searched, not what is drawn of it.
fn searches(chrome: &Chrome) {
    chrome.press("/");
    chrome.write("#search", "case_59");
    chrome.until(
        "it counts",
        "return document.getElementById('hits').textContent === '1 of 1,111 hits'",
    );
    chrome.script("document.getElementById('search').value = ''");
    chrome.write("#search", "NEEDLE");
    chrome
        .until("it finds", "return document.getElementById('hits').textContent === '1 of 2 hits'");
    chrome.until(
        "it shows",
        "
        const row = document.querySelector('.l.hit.chosen');
        return row && row.innerText.includes('needle in the haystack')",
    );
    chrome.shot("job-search");
    chrome.click("#only");
    chrome.until(
        "only hits are shown",
        "return document.querySelectorAll('#only-hits .l').length === 2",
    );
    for hit in [2, 1] {
        chrome.press("n");
        chrome.until(
            "the next of them is chosen",
            &format!(
                "return document.querySelector('#only-hits .l:nth-child({hit})').matches('.chosen')"
            ),
        );
    }
    chrome.click("#only");
    let said = |what: &str, expect: &str| {
        chrome.until(
            what,
            &format!("return document.getElementById('hits').textContent.includes('{expect}')"),
        );
    };
    chrome.click("#case");
    said("upper case is not there", "0 hits");
    chrome.script("document.getElementById('search').value = ''");
    chrome.click("#regex");
    chrome.write("#search", "case_59.[0-9]{2} ... ok$");
    said("it is an expression", "1 of 1,000 hits");
    chrome.write("#search", "(");
    said("it says what is wrong", "not a regular expression");
    chrome.click("#regex");
    chrome.click("#case");
}

/// O2
fn jumps(chrome: &Chrome, job: &str) {
    chrome.open(&format!("{job}#L31000-L31003"));
    chrome.until("the range is chosen", "
        const rows = [...document.querySelectorAll('.l.chosen')];
        const box = rows[0]?.getBoundingClientRect();
        return rows.length === 4 && rows[0].id === 'L31000' && box.top > 0 && box.bottom < innerHeight");
    for line in [1, 60_000, 100, 45_000, 22_222] {
        chrome.script(&format!("location.hash = '#L{line}'"));
        chrome.until(
            "the line is there",
            &format!(
                "
            const box = document.getElementById('L{line}')?.getBoundingClientRect();
            return box && box.top > 0 && box.bottom < innerHeight"
            ),
        );
    }
    let drawn = chrome.script("return document.querySelectorAll('#log .l').length");
    assert!(
        drawn.as_u64().is_some_and(|drawn| drawn < 10_000),
        "{drawn} of 60,000 lines are drawn"
    );
}

fn keys(chrome: &Chrome) {
    chrome.press("t");
    chrome.until(
        "times are shown",
        "return document.getElementById('times').textContent === 'Times: relative'",
    );
    chrome.press("f");
    chrome
        .until("f leads to the error", "return document.querySelector('.l.error.chosen') !== null");
    chrome.press("?");
    chrome.until("keys are told", "return document.getElementById('help').open");
    chrome.script("document.getElementById('help').close()");
}

/// O1
#[test]
fn pages_fit_the_dark_and_the_phone() {
    let site = site();
    let chrome = &site.chrome;
    site.world.repository(&site.server, "red", RED);
    let run = site.world.trigger(&site.server, "red");
    let seen = site.world.ended(&site.server, run);
    let failed = super::world::job(&seen, "Test (two)")["id"].clone();
    // Something waits, for a runner that there is not.
    site.world.repository(
        &site.server,
        "waits",
        &RED.replace("runs-on: linux", "runs-on: nowhere"),
    );
    site.world.trigger(&site.server, "waits");
    let runner = &site.world.get(&site.server, "/api/runners")["items"][0]["id"];
    let left = left::left(&site);
    let again = json!({ "failed": true });
    let rerun = format!("/api/runs/{left}/rerun");
    assert_eq!(site.world.post(&site.server, &rerun, &again).0, 201);
    site.world.ended(&site.server, left);
    let here = format!("/acme/left/actions/runs/{left}");
    let listed = format!("/repos/acme/left/actions/runs/{left}/artifacts");
    let artifact = site.world.get(&site.server, &listed)["artifacts"][0]["id"].clone();
    chrome.open("/sign-in");
    chrome.accessible("signing in");
    site.sign_in();
    let pages = [
        ("dashboard", "/".to_owned()),
        ("runs", "/runs".to_owned()),
        ("queue", "/queue".to_owned()),
        ("runners", "/runners".to_owned()),
        ("jump", "/jump?q=red".to_owned()),
        ("runner", format!("/runners/{runner}")),
        ("repositories", "/repositories".to_owned()),
        ("repository", "/acme/red".to_owned()),
        ("settings", "/acme/red/settings".to_owned()),
        ("caches", "/acme/red/caches".to_owned()),
        ("logs", "/acme/red/logs?q=needle".to_owned()),
        ("workflow", "/acme/red/actions/workflows/ci.yml".to_owned()),
        ("run", format!("/acme/red/actions/runs/{run}")),
        ("run-list", format!("/acme/red/actions/runs/{run}?view=list")),
        ("run-waterfall", format!("/acme/red/actions/runs/{run}?view=waterfall")),
        ("job", format!("/acme/red/actions/runs/{run}/job/{failed}")),
        ("attempts", format!("{here}?view=attempts")),
        ("summary", format!("{here}/summary")),
        ("files", format!("{here}/artifacts/{artifact}/files")),
        ("file", format!("{here}/artifacts/{artifact}/files?file=notes.txt")),
        ("nothing", "/acme/nothing".to_owned()),
    ];
    for (name, path) in &pages {
        chrome.dark(true);
        chrome.size(1_280, 800);
        chrome.open(path);
        chrome.shot(&format!("dark-{name}"));
        chrome.accessible(&format!("{name} in the dark"));
        chrome.dark(false);
        chrome.size(390, 800);
        chrome.open(path);
        chrome.shot(&format!("phone-{name}"));
        chrome.accessible(&format!("{name} on a phone"));
        let wide = chrome.script("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().is_some_and(|wide| wide <= 0), "{name} is {wide} pixels too wide");
    }
    // What was chosen by hand stays, whatever the system says.
    chrome.size(1_280, 800);
    chrome.open("/");
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = chrome.script(ground);
    chrome.click("#theme");
    let dark = chrome.script(ground);
    assert_ne!(light, dark);
    chrome.open("/runs");
    assert_eq!(chrome.script(ground), dark);
    chrome.no_complaints_but(&["404"]);
}
