//! The palette, by keyboard, in the dark and on a phone.

use super::{RED, site};

/// Control held while K is pressed, as the `WebDriver` protocol writes it.
const CONTROL_K: &str = "\u{e009}k\u{e000}";
const CHOSEN: &str =
    "return document.querySelector('#palette [aria-selected=true] .title')?.textContent ?? ''";

/// O1
#[test]
fn a_person_jumps_to_a_page_by_the_palette() {
    let site = site();
    let chrome = &site.chrome;
    site.world.repository(&site.server, "red", RED);
    let run = site.world.trigger(&site.server, "red");
    site.world.ended(&site.server, run);
    site.sign_in();
    chrome.open("/runs");
    chrome.press(CONTROL_K);
    chrome.until("it is open", "return document.getElementById('palette').open");
    chrome.until(
        "it offers pages",
        "return document.querySelector('#palette [role=option]') !== null",
    );
    assert_eq!(chrome.script(CHOSEN), "Dashboard");
    let focus = "return document.activeElement.id";
    assert_eq!(chrome.script(focus), "palette-text");
    // Letters are text here, and none of the keys of the page.
    chrome.write("#palette-text", "acme red");
    chrome.until("it finds", &CHOSEN.replace("?? ''", "=== 'acme/red'"));
    chrome.until(
        "it counts",
        "return /^[0-9]+ pages$/.test(document.getElementById('palette-said').textContent)",
    );
    let active = "return document.querySelector('#palette [aria-selected=true]').id === \
                  document.getElementById('palette-text').getAttribute('aria-activedescendant')";
    assert_eq!(chrome.script(active), true);
    chrome.accessible("the palette");
    chrome.shot("palette");
    // Down to the workflow, around the end, and back.
    chrome.write("#palette-text", "\u{e015}");
    assert_eq!(chrome.script(CHOSEN), "Checks");
    chrome.write("#palette-text", "\u{e013}\u{e013}\u{e015}");
    assert_eq!(chrome.script(CHOSEN), "acme/red");
    chrome.write("#palette-text", "\u{e015}\u{e007}");
    chrome.until(
        "it goes there",
        "return location.pathname === '/acme/red/actions/workflows/ci.yml'",
    );
    // By the button, in the dark, on a phone; what is not there is said, and Escape closes it.
    chrome.dark(true);
    chrome.size(390, 800);
    chrome.open("/acme/red");
    chrome.click("#jump");
    chrome.until("it is open", "return document.getElementById('palette').open");
    chrome.write("#palette-text", &run.to_string());
    chrome.until(
        "the run is found",
        "return document.querySelector('#palette .tag')?.textContent === 'run'",
    );
    chrome.accessible("the palette on a phone in the dark");
    chrome.shot("phone-palette");
    let wide = chrome.script("return document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_i64().is_some_and(|wide| wide <= 0), "it is {wide} pixels too wide");
    chrome.write("#palette-text", " nowhere");
    chrome.until(
        "nothing is found",
        "return document.getElementById('palette-said').textContent === 'Nothing is called so.'",
    );
    chrome.write("#palette-text", "\u{e00c}");
    chrome.until("it is closed", "return !document.getElementById('palette').open");
    chrome.no_complaints();
}
