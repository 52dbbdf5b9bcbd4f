//! Whatever people call things, no page takes it for markup.

use super::super::world::job;
use super::site;

/// As a name in YAML; what it would do leaves a trace.
const EVIL: &str = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>";

/// O1
#[test]
fn hostile_names_are_only_names() {
    let site = site();
    let chrome = &site.chrome;
    let workflow = format!(
        "
name: '{EVIL}'
on:
  push:
  workflow_dispatch:
    inputs:
      'evil': {{type: string, default: '{EVIL}', description: '{EVIL}'}}
jobs:
  evil:
    name: '{EVIL}'
    runs-on: linux
    steps:
      - name: '{EVIL}'
        run: |
          printf '%s\\n' '{EVIL}' '::error file={EVIL},title={EVIL}::{EVIL}' \"$(printf '\\033[31m')\"'{EVIL}'
          printf '%s\\n' '::group::{EVIL}' '{EVIL}' '::endgroup::' 'https://example.com/{EVIL}'
          printf '%s\\n' '{EVIL}' '# {EVIL}' '[x](javascript:window.hacked=1)' >> $GITHUB_STEP_SUMMARY
          exit 1
  waits:
    needs: evil
    name: 'after {EVIL}'
    runs-on: '{EVIL}'
    if: always()
    steps: [{{run: 'true'}}]
"
    );
    let place = site.world.repository(&site.server, "evil", &workflow);
    place.git(&[
        "-c",
        "user.name=kiln",
        "-c",
        "user.email=k@localhost",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        EVIL,
    ]);
    // A branch may be called so, too, as far as git allows it.
    let branch = "<img/src=x/onerror=window.hacked=1>";
    place.git(&["checkout", "-q", "-b", branch]);
    let ask = serde_json::json!({ "ref": branch });
    let (status, made) = site.world.post(&site.server, "/api/repos/acme/evil/trigger", &ask);
    assert_eq!(status, 201, "{made}");
    let run = made["runs"][0]["id"].as_i64().expect("a run was made");
    let seen = site.world.until(&site.server, "the first job has failed", |world| {
        let seen = world.run(&site.server, run);
        (job(&seen, EVIL)["status"] == "completed").then_some(seen)
    });
    let failed = &job(&seen, EVIL)["id"];
    site.sign_in();
    let here = format!("/acme/evil/actions/runs/{run}");
    let pages = [
        "/".to_owned(),
        "/runs".to_owned(),
        "/runs?q=%3Cimg%20src%3Dx%3E&branch=%22%3E%3Cimg%20src%3Dx%3E".to_owned(),
        "/queue".to_owned(),
        "/runners".to_owned(),
        "/repositories".to_owned(),
        "/acme/evil".to_owned(),
        "/acme/evil/actions".to_owned(),
        "/acme/evil/settings".to_owned(),
        "/acme/evil/caches".to_owned(),
        "/acme/evil/logs?q=%22%3E%3Cimg%20src%3Dx%3E".to_owned(),
        "/runners?q=%22%3E%3Cimg%20src%3Dx%3E".to_owned(),
        "/repositories?q=%22%3E%3Cimg%20src%3Dx%3E".to_owned(),
        "/acme/evil/actions/workflows/ci.yml".to_owned(),
        here.clone(),
        format!("{here}?view=list"),
        format!("{here}?view=waterfall"),
        format!("{here}?view=attempts"),
        format!("{here}/summary"),
        format!("{here}/job/{failed}"),
        format!("{here}/error"),
    ];
    for path in &pages {
        chrome.open(path);
        chrome.see("#main");
        let made = chrome.script(
            "return document.querySelectorAll('img[src=\"x\"], main script:not([src]), [onerror]').length",
        );
        assert_eq!(made, 0, "{path}");
        assert_eq!(
            chrome.script("return window.hacked ?? null"),
            serde_json::Value::Null,
            "{path}"
        );
    }
    // What is drawn by scripts: hits of a search, also alone.
    chrome.open(&format!("{here}/job/{failed}"));
    chrome.press("/");
    chrome.write("#search", "onerror");
    chrome.until("it finds", "return document.querySelector('.l.hit') !== null");
    chrome.click("#only");
    chrome.until("hits are alone", "return document.querySelectorAll('#only-hits .l').length > 1");
    assert_eq!(chrome.script("return document.querySelectorAll('img[src=\"x\"]').length"), 0);
    chrome.no_complaints();
}
