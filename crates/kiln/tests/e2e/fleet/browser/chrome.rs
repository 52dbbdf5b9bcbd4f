//! Chromium by way of chromedriver, in the few words of `WebDriver` that the tests need.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::fleet::world::PATIENCE;

/// A window with one page.
pub(super) struct Chrome {
    driver: Child,
    session: String,
    site: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

impl Chrome {
    /// A browser for a site, whose files lie below a folder of the test.
    pub(super) fn start(place: &Path, site: &str) -> Self {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("TMPDIR", place).env("HOME", place).process_group(0);
        let mut driver = command
            .spawn()
            .expect("scripts/test installs the packages chromium and chromium-driver");
        let out = driver.stdout.take().expect("it is a pipe");
        let port = BufReader::new(out).lines().map_while(Result::ok).find_map(|line| {
            line.split("started successfully on port ")
                .nth(1)
                .map(|rest| rest.trim_end_matches('.').parse::<u16>().expect("a port is a number"))
        });
        let port = port.expect("chromedriver says its port");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        let mut chrome = Self {
            driver,
            session: format!("http://127.0.0.1:{port}/session"),
            site: site.to_owned(),
            runtime: runtime.expect("a test may have a runtime"),
            client: client.expect("a client needs nothing"),
        };
        let profile = format!("--user-data-dir={}", place.join("profile").display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1280,800",
            profile.as_str(),
        ];
        let made = chrome.post(
            "",
            &json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } }),
        );
        let id = made["sessionId"].as_str().expect("a session has a name").to_owned();
        chrome.session = format!("{}/{id}", chrome.session);
        chrome.size(1_280, 800);
        chrome
    }

    fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Value> {
        let request = self.client.request(method, format!("{}{path}", self.session));
        let request = body.into_iter().fold(request, reqwest::RequestBuilder::json);
        let answer = self.runtime.block_on(async {
            request.send().await.expect("chromedriver answers").json::<Value>().await
        });
        let value = answer.expect("it answers with JSON")["value"].take();
        if value["error"].is_string() { Err(value) } else { Ok(value) }
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.send(reqwest::Method::POST, path, Some(body));
        answer.unwrap_or_else(|error| panic!("{path}: {error:#}"))
    }

    #[track_caller]
    pub(super) fn open(&self, path: &str) {
        // An address that differs in its end alone would not be loaded anew.
        self.post("/url", &json!({ "url": "about:blank" }));
        self.post("/url", &json!({ "url": format!("{}{path}", self.site) }));
    }

    /// Where it is now, without what follows the path.
    pub(super) fn path(&self) -> String {
        let path = self.script("return location.pathname");
        path.as_str().expect("a path is text").to_owned()
    }

    #[track_caller]
    pub(super) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script says yes.
    #[track_caller]
    pub(super) fn until(&self, what: &str, script: &str) {
        let end = Instant::now() + PATIENCE;
        let body = json!({ "script": script, "args": [] });
        // A page that is just being left answers with an error, which passes.
        while self.send(reqwest::Method::POST, "/execute/sync", Some(&body)) != Ok(json!(true)) {
            if Instant::now() > end {
                self.shot("in-vain");
                panic!(
                    "waited in vain until {what}\n{}",
                    self.script("return document.body.innerText")
                );
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until something is on the page.
    #[track_caller]
    pub(super) fn see(&self, selector: &str) -> String {
        let selector_text = json!(selector);
        let there =
            format!("return document.querySelector({selector_text})?.getClientRects().length > 0");
        self.until(&format!("`{selector}` is there"), &there);
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let id =
            found.as_object().and_then(|found| found.values().next()?.as_str().map(str::to_owned));
        id.expect("an element has a name")
    }

    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            // A part of the page that was just replaced is looked for again.
            let element = self.see(selector);
            let path = format!("/element/{element}/click");
            match self.send(reqwest::Method::POST, &path, Some(&json!({}))) {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < end, "{selector}: {error:#}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn write(&self, selector: &str, text: &str) {
        let element = self.see(selector);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses a key where nothing is typed into.
    pub(super) fn press(&self, key: &str) {
        self.script("document.activeElement?.blur()");
        let element = self.see("body");
        self.post(&format!("/element/{element}/value"), &json!({ "text": key }));
    }

    pub(super) fn dark(&self, on: bool) {
        let value = if on { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        let params = json!({ "features": features });
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": params });
        self.post("/goog/cdp/execute", &command);
    }

    /// Lets the page see what was copied.
    pub(super) fn allow_clipboard(&self) {
        let permissions = json!(["clipboardReadWrite", "clipboardSanitizedWrite"]);
        let params = json!({ "permissions": permissions, "origin": self.site });
        let command = json!({ "cmd": "Browser.grantPermissions", "params": params });
        self.post("/goog/cdp/execute", &command);
    }

    pub(super) fn size(&self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": params });
        self.post("/goog/cdp/execute", &command);
    }

    /// axe finds nothing that keeps people out of the page, or makes it hard for them.
    #[track_caller]
    pub(super) fn accessible(&self, name: &str) {
        let file = crate::gateway::modules().join("axe-core/axe.min.js");
        let axe = fs::read_to_string(file).expect("scripts/test installs axe-core");
        self.script(&axe);
        let ask = "const done = arguments[arguments.length - 1];
            axe.run(document, { iframes: false, resultTypes: ['violations'] }).then((found) => done(found.violations
                .filter((one) => ['serious', 'critical'].includes(one.impact))
                .map((one) => [one.id, one.impact, one.help, ...one.nodes.slice(0, 5).map((node) => node.html + ' ' + (node.any[0]?.message ?? ''))])),
                (error) => done([String(error)]));";
        let found = self.post("/execute/async", &json!({ "script": ask, "args": [] }));
        assert_eq!(found, json!([]), "{name}: {found:#}");
    }

    /// Goes into a frame of the page; without one, back to the page itself.
    #[track_caller]
    pub(super) fn frame(&self, selector: Option<&str>) {
        let id = match selector {
            Some(selector) => {
                self.see(selector);
                let wanted = json!({ "using": "css selector", "value": selector });
                self.post("/element", &wanted)
            }
            None => Value::Null,
        };
        self.post("/frame", &json!({ "id": id }));
    }

    /// Keeps a picture of the page, for people.
    pub(super) fn shot(&self, name: &str) {
        use base64::Engine as _;
        let picture = self.send(reqwest::Method::GET, "/screenshot", None);
        let picture = picture.expect("a page can be drawn");
        let picture = picture.as_str().expect("a picture is text in base 64");
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture);
        let folder = screenshots();
        fs::create_dir_all(&folder).expect("the folder of the build is ours");
        let file = folder.join(format!("{name}.png"));
        fs::write(file, bytes.expect("it is base 64")).expect("the folder of the build is ours");
    }

    /// The browser has nothing to complain about.
    #[track_caller]
    pub(super) fn no_complaints(&self) {
        self.no_complaints_but(&[]);
    }

    /// The same, apart from what has one of these words in it.
    #[track_caller]
    pub(super) fn no_complaints_but(&self, expected: &[&str]) {
        let said = self.post("/se/log", &json!({ "type": "browser" }));
        let said = said.as_array().expect("a log is a list");
        let is_fine = |entry: &&Value| {
            let message = entry["message"].as_str().unwrap_or_default();
            expected.iter().any(|word| message.contains(word))
        };
        let bad: Vec<&Value> = said.iter().filter(|entry| !is_fine(entry)).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

/// Where people find the pictures; nothing of it is committed.
fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots")
}

impl Drop for Chrome {
    fn drop(&mut self) {
        let _ = self.send(reqwest::Method::DELETE, "", None);
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
    }
}
