//! What a run leaves for people, in a browser: summaries, artifacts and their previews, attempts.

use super::{Site, site};
use crate::gateway::{command, job, script, write};

/// A page that tries what it can, and says what came of it.
const PAGE: &str = r"<!doctype html><title>Report</title><link rel=stylesheet href=style.css>
<h1>Coverage</h1><p id=said>nothing yet</p>
<script>
const said = [];
try { said.push('cookie ' + document.cookie); } catch { said.push('no cookies'); }
try { said.push('parent ' + parent.document.title); } catch { said.push('no parent'); }
try { localStorage.x = 1; said.push('kept'); } catch { said.push('nothing kept'); }
fetch('/api/me').then(() => said.push('asked'), () => said.push('nobody asked'))
  .then(() => { document.getElementById('said').textContent = said.join(', '); });
</script>";

pub(super) fn left(site: &Site) -> i64 {
    let place = site.world.place.below("repositories/left");
    let page = serde_json::to_string(PAGE).expect("a text is JSON");
    let upload = script(&format!(
        "fs.mkdirSync('out/report', {{recursive: true}});
         fs.writeFileSync('out/report/index.html', {page});
         fs.writeFileSync('out/report/style.css', 'h1 {{ color: rgb(1, 2, 3) }}');
         fs.writeFileSync('out/notes.txt', 'plain <b>text</b>');
         fs.writeFileSync('out/dot.svg', '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><rect width=\"9\" height=\"9\"/></svg>');
         await artifact.uploadArtifact('site', ['out/report/index.html', 'out/report/style.css', 'out/notes.txt', 'out/dot.svg'], 'out');
         await core.summary.addHeading('Results').addTable([[{{data: 'part', header: true}}, {{data: 'cases', header: true}}], ['unit', '93']])
           .addDetails('More', 'folded').addLink('the site', 'https://example.com').write();"
    ));
    let hostile = command(
        "echo '<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>' >> $GITHUB_STEP_SUMMARY
echo '[go](javascript:window.hacked=1) ![far](https://example.com/a.png)' >> $GITHUB_STEP_SUMMARY",
    );
    let flaky = "      - run: test $GITHUB_RUN_ATTEMPT -gt 1\n".to_owned();
    write(&place, &[job("build", "", &[upload, hostile]), job("flaky", "", &[flaky])]);
    let path = place.path().join(".github/workflows/ci.yml");
    let workflow = std::fs::read_to_string(path).expect("it was just written");
    site.world.repository(&site.server, "left", &workflow);
    let run = site.world.trigger(&site.server, "left");
    site.world.ended(&site.server, run);
    run
}

/// O1 R9
#[test]
fn what_a_run_left_is_looked_at_without_harm() {
    let site = site();
    let chrome = &site.chrome;
    let run = left(&site);
    site.sign_in();
    let here = format!("/acme/left/actions/runs/{run}");
    chrome.open(&here);
    chrome.see(".markdown table");
    let text = chrome.script("return document.querySelector('#summaries').innerText");
    let text = text.as_str().expect("it is text");
    assert!(text.contains("Results") && text.contains("93") && text.contains("More"), "{text}");
    assert_eq!(chrome.script("return window.hacked ?? null"), serde_json::Value::Null);
    let bad = "return document.querySelectorAll('.markdown script, .markdown [onerror], .markdown img, .markdown a[href^=javascript]').length";
    assert_eq!(chrome.script(bad), 0);
    chrome.shot("run-summary");
    chrome.accessible("a run with a summary");

    chrome.click("#artifacts a.title");
    chrome.see(".tree");
    chrome.accessible("the files of an artifact");
    chrome.script("[...document.querySelectorAll('.tree a')].find((one) => one.textContent === 'notes.txt').click()");
    chrome.until(
        "text is shown",
        "return document.querySelector('pre.preview')?.textContent === 'plain <b>text</b>'",
    );
    chrome.accessible("a text of an artifact");
    chrome.script("[...document.querySelectorAll('.tree a')].find((one) => one.textContent === 'dot.svg').click()");
    chrome.until(
        "a picture is shown",
        "return document.querySelector('img.preview')?.naturalWidth === 9",
    );
    chrome.script("[...document.querySelectorAll('.tree a')].find((one) => one.textContent === 'index.html').click()");
    chrome.frame(Some("iframe.preview"));
    chrome.until(
        "it has tried",
        "return document.getElementById('said')?.textContent !== 'nothing yet'",
    );
    let said = chrome.script("return document.getElementById('said').textContent");
    assert_eq!(said, "no cookies, no parent, nothing kept, nobody asked");
    let colour = chrome.script("return getComputedStyle(document.querySelector('h1')).color");
    assert_eq!(colour, "rgb(1, 2, 3)", "what lies beside it is found");
    chrome.frame(None);
    chrome.shot("artifact");
    // The browser says that the page was not allowed to ask.
    chrome.no_complaints_but(&["/api/previews/", "/api/me"]);
}

/// O1
#[test]
fn attempts_are_compared() {
    let site = site();
    let chrome = &site.chrome;
    let run = left(&site);
    site.sign_in();
    let here = format!("/acme/left/actions/runs/{run}");
    chrome.open(&here);
    chrome.click("#actions button.primary");
    chrome.until(
        "the second attempt ends",
        "return document.querySelector('#status .pill.success') !== null",
    );
    chrome.script("[...document.querySelectorAll('#views a')].find((one) => one.textContent === 'Attempts').click()");
    chrome.see(".attempts-table");
    let row = chrome.script("return [...document.querySelectorAll('.attempts-table tbody tr')].map((one) => one.innerText).join(' | ')");
    let row = row.as_str().expect("it is text");
    assert!(
        row.contains("Failed")
            && row.contains("Succeeded")
            && row.contains("taken over from attempt 1"),
        "{row}"
    );
    chrome.shot("attempts");
    chrome.accessible("attempts");
    chrome.dark(true);
    chrome.accessible("attempts in the dark");
    chrome.no_complaints();
}
