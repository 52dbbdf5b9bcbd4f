//! A log of a million lines in a browser: opened, searched, linked to, and never drawn whole.

use super::site;

const LONG: &str = "
on: push
jobs:
  long:
    runs-on: linux
    steps:
      - name: Print
        run: |
          seq -f 'line %.0f of many' 1 777776
          echo 'the Needle in the haystack'
          seq -f 'line %.0f of many' 777778 1000000
";

/// O2 W2
#[test]
fn a_log_of_a_million_lines_is_opened_searched_and_linked_to() {
    let site = site();
    let chrome = &site.chrome;
    site.world.repository(&site.server, "long", LONG);
    let run = site.world.trigger(&site.server, "long");
    let seen = site.world.ended(&site.server, run);
    let job = super::super::world::job(&seen, "long")["id"].clone();
    site.sign_in();
    let page = format!("/acme/long/actions/runs/{run}/job/{job}");
    chrome.open(&page);
    chrome.see(".l");
    let lines = chrome.script("return Number(document.getElementById('log').dataset.lines)");
    assert!(lines.as_u64().is_some_and(|lines| lines >= 1_000_000), "{lines}");
    chrome.press("/");
    chrome.write("#search", "needle");
    chrome.until(
        "it is found",
        "
        const row = document.querySelector('.l.hit.chosen');
        return row && row.innerText.includes('the Needle in the haystack')",
    );
    let hit = chrome.script("return document.querySelector('.l.hit.chosen').id");
    let hit = hit.as_str().expect("a line has a name").to_owned();
    // The next hit is in the script that the log begins with, and after that it is this one again.
    chrome.press("n");
    chrome.until(
        "n goes on",
        &format!("return document.querySelector('.l.hit.chosen')?.id !== '{hit}'"),
    );
    chrome.press("N");
    chrome.until(
        "N goes back",
        &format!("return document.querySelector('.l.hit.chosen')?.id === '{hit}'"),
    );
    // All that is there is counted, though not all of it is brought.
    chrome.script("document.getElementById('search').value = ''");
    chrome.write("#search", "of many");
    chrome.until(
        "all are counted",
        "return document.getElementById('hits').textContent === '1 of 1,000,002 hits'",
    );
    for line in [1, 999_000, 500_000, 3, 1_000_000] {
        chrome.script(&format!("location.hash = '#L{line}'"));
        chrome.until(
            "the line is there",
            &format!(
                "const box = document.getElementById('L{line}')?.getBoundingClientRect();
                 return box && box.top > 0 && box.bottom < innerHeight"
            ),
        );
        let drawn = chrome.script("return document.querySelectorAll('#log .l').length");
        assert!(drawn.as_u64().is_some_and(|drawn| drawn < 10_000), "{drawn} lines are drawn");
    }
    // A link to a range, as somebody sent it.
    chrome.open(&format!("{page}#L{}-L{}", 640_000, 640_002));
    chrome
        .until("the range is chosen", "return document.querySelectorAll('.l.chosen').length === 3");
    chrome.shot("job-million");
    chrome.no_complaints();
}
