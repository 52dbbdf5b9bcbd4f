//! The page of a log as people use it: colours, times, groups, copies, and a job that fails before their eyes.

use std::fs;

use super::chrome::Chrome;
use super::{Site, site};
use crate::fleet::world::job;

/// The second step waits for a file of the test, and fails then.
const PAINTED: &str = r#"
on: push
jobs:
  paint:
    runs-on: linux
    steps:
      - name: Paint
        run: |
          printf '\033[38;2;110;80;240mtrue colour\n'
          echo 'and the line after it'
          printf '\033[0m10%%\r60%%\r100%% done\n'
          echo 'see https://example.com/docs, please'
          sleep 0.4
          echo "long $(printf 'word %.0s' $(seq 1 300))"
          echo '::group::A group'
          echo 'inside of it'
          echo '::endgroup::'
          echo 'after it'
      - name: Wait
        run: |
          until [ -e GATE ]; do sleep 0.1; done
          echo '::error::it broke'
          printf '\033[31mlast words\033[0m\n'
          exit 1
"#;

/// Long lines, more of them when the test says so, and some that repeat each other.
const GROWING: &str = r#"
on: push
jobs:
  paint:
    runs-on: linux
    steps:
      - run: |
          wide="$(printf 'wide %.0s' $(seq 1 90))"
          for n in $(seq 1 1500); do echo "$n $wide"; done
          until [ -e GATE ]; do sleep 0.1; done
          for n in $(seq 1501 3000); do echo "$n $wide"; done
          for n in $(seq 1 6); do echo waiting; sleep 0.3; done
          echo over
"#;

/// Letters and grounds in each of the sixteen colours that a theme has.
const COLOURS: &str = r#"
on: push
jobs:
  paint:
    runs-on: linux
    steps:
      - run: |
          for n in $(seq 30 37) $(seq 90 97); do
            printf "\033[${n}mletters $n\033[0m \033[$((n + 10))mground $n\033[0m\n"
          done
"#;

/// A row by its whole text.
const ROW: &str = "const row = (text) => [...document.querySelectorAll('#log .l')].find((one) => one.querySelector('.t').textContent === text);";

/// A browser at the page of the job of this workflow, which may wait for the gate.
fn opened(workflow: &str) -> Site {
    let site = site();
    let gate = site.world.place.path().join("gate");
    let workflow = workflow.replace("GATE", gate.to_str().expect("a folder of the test is text"));
    let page = paint(&site, &workflow);
    site.sign_in();
    site.chrome.open(&page);
    site
}

fn open_gate(site: &Site) {
    fs::write(site.world.place.path().join("gate"), "").expect("the folder is ours");
}

/// The page of the job, once it runs.
fn paint(site: &Site, workflow: &str) -> String {
    site.world.repository(&site.server, "painted", workflow);
    let run = site.world.trigger(&site.server, "painted");
    let seen = site.world.until(&site.server, "the job runs", |world| {
        let seen = world.run(&site.server, run);
        (job(&seen, "paint")["status"] != "queued").then_some(seen)
    });
    format!("/acme/painted/actions/runs/{run}/job/{}", job(&seen, "paint")["id"])
}

/// O2: whatever of its sixteen colours a job prints in or on, people can read it.
#[test]
fn colours_of_a_log_can_be_read_in_both_themes() {
    let site = opened(COLOURS);
    let chrome = &site.chrome;
    chrome.until("all lines come", &format!("{ROW} return Boolean(row('letters 97 ground 97'))"));
    let kinds = "return new Set([...document.querySelectorAll('#log .t span')].map((one) => one.className)).size";
    assert_eq!(chrome.script(kinds), 32);
    chrome.accessible("sixteen colours");
    chrome.dark(true);
    chrome.accessible("sixteen colours in the dark");
    chrome.dark(false);
    chrome.no_complaints();
}

/// O2: what somebody reads stays where it is, however much comes behind it.
#[test]
fn a_log_that_grows_keeps_its_place_and_folds_what_repeats() {
    let site = opened(GROWING);
    let chrome = &site.chrome;
    chrome.until(
        "its lines come",
        "return Number(document.getElementById('log').dataset.lines) >= 1500",
    );
    for line in [1400, 1100, 800, 500] {
        chrome.script(&format!("location.hash = '#L{line}'"));
        chrome.until(
            "it is there",
            &format!("return document.getElementById('L{line}')?.matches('.chosen')"),
        );
    }
    let place = || {
        let top =
            chrome.script("return document.getElementById('L500').getBoundingClientRect().top");
        top.as_f64().expect("a place is a number")
    };
    let before = place();
    chrome.click("#wrap");
    assert!((place() - before).abs() < 3.0, "{before} became {} without wrapping", place());
    chrome.click("#wrap");
    let before = place();
    open_gate(&site);
    let rows = "const rows = [...document.querySelectorAll('#log .l')].filter((one) => one.querySelector('.t').textContent === 'waiting');";
    chrome.until(
        "what repeats is one line",
        &format!("{rows} return rows.length === 6 && rows[0].querySelector('.more')?.textContent === '× 6'
            && rows.filter((one) => one.getClientRects().length).length === 1"),
    );
    assert!((place() - before).abs() < 3.0, "{before} became {}", place());
    chrome.script(&format!("{rows} rows[0].querySelector('.more').click()"));
    chrome.until(
        "it unfolds",
        &format!("{rows} return rows.filter((one) => one.getClientRects().length).length === 6"),
    );
    chrome.no_complaints();
}

/// O2
#[test]
fn a_log_is_read_while_its_job_fails() {
    let site = opened(PAINTED);
    let chrome = &site.chrome;
    chrome.until("its lines come", &format!("{ROW} return Boolean(row('after it'))"));
    looks(chrome);
    folds(chrome);
    times(chrome);
    walks(chrome);
    fails(&site);
    copies(chrome);
    chrome.shot("job-painted");
    chrome.accessible("a log in colours");
    chrome.no_complaints();
}

fn looks(chrome: &Chrome) {
    let colour = |text: &str| {
        let ask = format!(
            "{ROW} const text = row('{text}').querySelector('.t'); return getComputedStyle(text.querySelector('span') ?? text).color"
        );
        chrome.script(&ask)
    };
    assert_eq!(colour("true colour"), "rgb(110, 80, 240)");
    assert_eq!(colour("and the line after it"), "rgb(110, 80, 240)");
    assert_ne!(colour("100% done"), "rgb(110, 80, 240)", "and what was written over is gone");
    let link = format!(
        "{ROW} return row('see https://example.com/docs, please').querySelector('a[target=_blank]').href"
    );
    assert_eq!(chrome.script(&link), "https://example.com/docs");
    let height = "const long = [...document.querySelectorAll('#log .l')].find((one) => one.querySelector('.t').textContent.startsWith('long word'));
        return long.getBoundingClientRect().height";
    let wrapped = chrome.script(height).as_f64().expect("a height is a number");
    assert!(wrapped > 30.0, "{wrapped}");
    chrome.click("#wrap");
    let flat = chrome.script(height).as_f64().expect("a height is a number");
    assert!(flat < 22.0, "{flat}");
    chrome.click("#wrap");
}

fn folds(chrome: &Chrome) {
    let press = format!("{ROW} row('A group').querySelector('.fold').click()");
    let state = |sign: &str, lines: u32| {
        format!(
            "{ROW} const group = row('A group').querySelector('.fold');
             return group.textContent === '{sign}' && row('inside of it').getClientRects().length === {lines}
                 && row('after it').getClientRects().length === 1"
        )
    };
    chrome.script(&press);
    chrome.until("the group is folded, and no more than it", &state("▸", 0));
    // A line that somebody goes to is unfolded.
    let line = chrome.script(&format!("{ROW} return row('inside of it').id"));
    let line = line.as_str().expect("a line has a name").to_owned();
    chrome.script(&format!("location.hash = '#{line}'"));
    chrome.until("the group is open again", &state("▾", 1));
    chrome.script(&press);
    chrome.until("it is folded again", &state("▸", 0));
    chrome.script(&press);
    chrome.until("and unfolded", &state("▾", 1));
}

fn times(chrome: &Chrome) {
    let shown = "const long = [...document.querySelectorAll('#log .l')].find((one) => one.querySelector('.t').textContent.startsWith('long word'));
        return getComputedStyle(long.querySelector('.tm'), '::before').content";
    let check = |mode: &str, fits: &dyn Fn(&str) -> bool| {
        chrome.press("t");
        chrome.until(
            "times are shown otherwise",
            &format!("return document.getElementById('times').textContent === 'Times: {mode}'"),
        );
        let content = chrome.script(shown);
        let content = content.as_str().expect("it is text").trim_matches('"');
        assert!(fits(content), "{mode}: {content}");
    };
    check("relative", &|text| text.starts_with("+0:"));
    check("absolute", &|text| text.len() == "12:34:56.789".len() && text.as_bytes()[2] == b':');
    let waited = |text: &str| text.trim_start_matches('+').parse::<f64>().unwrap_or_default();
    check("delta", &|text| (0.3..30.0).contains(&waited(text)));
    check("off", &|text| text == "none");
}

fn walks(chrome: &Chrome) {
    let at = || {
        let line = chrome.script("return Number(document.querySelector('.l.chosen')?.id.slice(1))");
        line.as_u64().unwrap_or_default()
    };
    chrome.script(&format!("{ROW} location.hash = '#' + row('true colour').id"));
    chrome.until("it is chosen", &format!("{ROW} return row('true colour').matches('.chosen')"));
    let first = at();
    chrome.press("j");
    chrome.press("j");
    assert_eq!(at(), first + 2);
    chrome.press("k");
    assert_eq!(at(), first + 1);
    chrome.script("location.hash = '#step:1:2'");
    chrome.until("a line of a step", "return document.querySelector('.l.chosen')?.id === 'L2'");
    chrome.script("location.hash = '#step:1:2-3'");
    chrome.until(
        "lines of a step",
        "return [...document.querySelectorAll('.l.chosen')].map((one) => one.id).join() === 'L2,L3'",
    );
}

/// What there is to say at the end is on the page without another look.
fn fails(site: &Site) {
    let chrome = &site.chrome;
    let head = "const head = [...document.querySelectorAll('#log .step-head')].find((one) => one.querySelector('.name').textContent === 'Wait');";
    chrome.until(
        "the step has its name",
        &format!("{head} return Boolean(head?.querySelector('.status.running') && head.querySelector('[data-since]'))"),
    );
    assert_eq!(
        chrome.script("return document.getElementById('first-error')"),
        serde_json::Value::Null
    );
    let cancel = "return document.querySelector('#actions button')?.textContent";
    assert_eq!(chrome.script(cancel), "Cancel the run");
    open_gate(site);
    chrome
        .until("it says the first error", "return document.getElementById('first-error') !== null");
    chrome.until(
        "no clock goes on",
        &format!("{head} return Boolean(head.querySelector('.status.failed')) && !document.querySelector('#log [data-since], #steps [data-since]')"),
    );
    chrome.until("it can run again", &format!("{cancel} === 'Re-run this job'"));
    chrome.press("f");
    chrome.until(
        "f leads to the error",
        "const row = document.querySelector('.l.error.chosen');
         return Boolean(row?.textContent.includes('it broke')) && row.getBoundingClientRect().bottom < innerHeight",
    );
}

fn copies(chrome: &Chrome) {
    chrome.allow_clipboard();
    let copied = |what: &str, start: &str, expect: &dyn Fn(&str) -> bool| {
        chrome.script("navigator.clipboard.writeText('nothing')");
        start.split('|').for_each(|selector| chrome.click(selector));
        chrome.until(
            what,
            "navigator.clipboard.readText().then((text) => { window.copied = text; });
             return typeof window.copied === 'string' && window.copied !== 'nothing'",
        );
        let text = chrome.script("const text = window.copied; delete window.copied; return text");
        let text = text.as_str().expect("it is text").to_owned();
        assert!(expect(&text) && !text.contains('\u{1b}'), "{what}: {text}");
    };
    copied("the line is copied", "#copy", &|text| text == "##[error]it broke\n");
    chrome.script("[...document.querySelectorAll('#log .step-head')].at(-1).querySelector('.copy').id = 'own'");
    copied("the step is copied", "#own", &|text| {
        text.ends_with("last words\n##[error]process completed with exit code 1\n")
            && !text.contains("after it")
    });
    chrome.script("location.hash = '#none'");
    chrome.until(
        "nothing is chosen",
        "return document.getElementById('copy').textContent === 'Copy'",
    );
    copied("the whole log is copied", "#copy", &|text| {
        text.contains("\ntrue colour\nand the line after it\n100% done\n")
            && text.contains("last words")
    });
}
