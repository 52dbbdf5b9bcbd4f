//! Servers and runners as processes, which go with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use kiln_store::Options;
use kiln_testkit::database::Database;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::Place;

/// Nothing here takes longer, on a machine however busy.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
}

/// An installation under test.
pub(super) struct World {
    pub(super) place: Place,
    database: Database,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    keys: AtomicU32,
}

/// A program of ours that runs.
pub(super) struct Program {
    child: Child,
    lines: Receiver<String>,
}

/// A server that answers.
pub(super) struct Server {
    pub(super) program: Program,
    pub(super) address: String,
    token: String,
}

impl World {
    pub(super) fn new(kind: Kind) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a test may have a runtime");
        let database = match kind {
            Kind::Sqlite => Database::sqlite(),
            Kind::Postgres => runtime.block_on(Database::postgres()),
        };
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        let client = client.expect("a client needs nothing");
        Self { place: Place::new(), database, runtime, client, keys: AtomicU32::new(0) }
    }

    fn database(&self) -> String {
        match &self.database.options {
            Options::Sqlite { path } => format!("sqlite:{}", path.display()),
            Options::Postgres { url, .. } => url.clone(),
        }
    }

    /// A server with a data directory of its own name, on any free port.
    pub(super) fn server(&self, name: &str) -> Server {
        self.server_at(name, "127.0.0.1:0")
    }

    pub(super) fn server_at(&self, name: &str, listen: &str) -> Server {
        self.server_with(name, &["--listen", listen])
    }

    /// A server with these arguments besides, on any free port unless they say otherwise.
    pub(super) fn server_with(&self, name: &str, more: &[&str]) -> Server {
        let data = self.place.path().join(name);
        let database = self.database();
        let data_text = data.to_string_lossy().into_owned();
        let mut arguments = vec!["server", "--json", "--data", &data_text, "--database", &database];
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        let program = self.start(&arguments);
        let ready = program.json_with("url");
        let address = ready["url"].as_str().expect("an address is a text").to_owned();
        let token = client_token(&data).unwrap_or_default();
        let server = Server { program, address, token };
        self.organization(&server);
        server
    }

    /// Makes `acme`, whose runners and repositories the tests are about, unless it is there.
    fn organization(&self, server: &Server) {
        let place = self.place.below("repositories/first");
        if server.token.is_empty() || place.path().join(".git").exists() {
            return;
        }
        place.git(&["init", "-q", "-b", "main"]);
        commit(&place);
        let source = place.path().to_string_lossy().into_owned();
        let new = json!({ "owner": "acme", "name": "first", "source": source });
        let (status, made) = self.post(server, "/api/repos", &new);
        assert_eq!(status, 201, "{made}");
    }

    /// A runner with these labels.
    pub(super) fn runner(&self, server: &Server, name: &str, labels: &[&str]) -> Program {
        self.runner_with(server, name, labels, &[])
    }

    pub(super) fn runner_with(
        &self,
        server: &Server,
        name: &str,
        labels: &[&str],
        more: &[&str],
    ) -> Program {
        self.runner_at(server, &server.address, name, labels, more)
    }

    /// A runner that reaches the server at another address.
    pub(super) fn runner_at(
        &self,
        server: &Server,
        address: &str,
        name: &str,
        labels: &[&str],
        more: &[&str],
    ) -> Program {
        let key = self.key(server);
        let data = self.place.path().join(format!("runner-{name}"));
        let data = data.to_string_lossy().into_owned();
        let mut arguments =
            vec!["runner", "--server", address, "--key", &key, "--name", name, "--data", &data];
        for label in labels {
            arguments.extend(["--label", label]);
        }
        arguments.extend(more);
        let program = self.start(&arguments);
        self.until(server, "the runner is known", |world| {
            let runners = world.get(server, "/api/runners");
            runners["items"].as_array()?.iter().find(|runner| runner["name"] == name).cloned()
        });
        program
    }

    /// A runner that was here before, with what it kept.
    pub(super) fn runner_again(&self, server: &Server, name: &str) -> Program {
        let data = self.place.path().join(format!("runner-{name}"));
        let data = data.to_string_lossy().into_owned();
        self.start(&["runner", "--server", &server.address, "--data", &data])
    }

    /// A key that lets one runner of an organization in.
    pub(super) fn key(&self, server: &Server) -> String {
        self.keys.fetch_add(1, Ordering::Relaxed);
        let (status, made) = self.post(
            server,
            "/api/registration-keys",
            &json!({ "pool": "default", "owner": "acme" }),
        );
        assert_eq!(status, 201, "{made}");
        made["key"].as_str().expect("a new key is shown once").to_owned()
    }

    /// Has the database looked through by the auditor. Nobody may be using it.
    pub(super) fn check_database(&self) {
        let database = self.database();
        let output = self.place.command("", &["db", "check", "--database", &database]).output();
        let output = output.expect("the binary was built for this test");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, arguments: &[&str]) -> Program {
        let mut command = self.place.command("", arguments);
        command
            .env("HOME", self.place.path())
            .env("KILN_LOG", "info")
            .env_remove("KILN_SERVER")
            .env_remove("KILN_TOKEN")
            .env_remove("KILN_DATA")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().expect("the binary was built for this test");
        let out = child.stdout.take().expect("it is a pipe");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Program { child, lines }
    }

    /// A repository `acme/<name>` with one workflow that the server knows.
    pub(super) fn repository(&self, server: &Server, name: &str, workflow: &str) -> Place {
        let place = self.place.below(&format!("repositories/{name}"));
        place.file(".github/workflows/ci.yml", workflow);
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["add", "-A"]);
        commit(&place);
        let source = place.path().to_string_lossy().into_owned();
        let new = json!({ "owner": "acme", "name": name, "source": source });
        let (status, made) = self.post(server, "/api/repos", &new);
        assert_eq!(status, 201, "{made}");
        place
    }

    /// Triggers `acme/<name>` and returns the id of its run.
    pub(super) fn trigger(&self, server: &Server, name: &str) -> i64 {
        let (status, made) =
            self.post(server, &format!("/api/repos/acme/{name}/trigger"), &json!({}));
        assert_eq!(status, 201, "{made}");
        made["runs"][0]["id"].as_i64().unwrap_or_else(|| panic!("no run: {made}"))
    }

    pub(super) fn get(&self, server: &Server, path: &str) -> Value {
        let (status, body) = self.send(server, "GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(super) fn post(&self, server: &Server, path: &str, body: &Value) -> (u16, Value) {
        self.send(server, "POST", path, Some(body))
    }

    pub(super) fn send(
        &self,
        server: &Server,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        self.send_as(server, &server.token, method, path, body)
    }

    /// A request that is made again while nobody answers: servers are killed here.
    pub(super) fn send_as(
        &self,
        server: &Server,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let method: reqwest::Method = method.parse().expect("it is a method");
        let url = format!("{}{path}", server.address);
        let end = Instant::now() + PATIENCE;
        self.runtime.block_on(async {
            loop {
                let request = self.client.request(method.clone(), &url).bearer_auth(token);
                let request = match body {
                    Some(body) => request.json(body),
                    None => request,
                };
                match request.send().await {
                    Ok(answer) => {
                        let status = answer.status().as_u16();
                        let text = answer.text().await.unwrap_or_default();
                        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
                        return (status, body);
                    }
                    Err(error)
                        if Instant::now() < end
                            && (error.is_connect() || method == reqwest::Method::GET) =>
                    {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(error) => panic!("{url}: {error}"),
                }
            }
        })
    }

    /// Looks again and again until something is there.
    pub(super) fn until<T>(
        &self,
        server: &Server,
        what: &str,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if Instant::now() > end {
                let runs = self.get(server, "/api/runs");
                panic!("waited in vain until {what}\n{runs:#}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn run(&self, server: &Server, run: i64) -> Value {
        self.get(server, &format!("/api/runs/{run}"))
    }

    /// The run as it is at its end.
    pub(super) fn ended(&self, server: &Server, run: i64) -> Value {
        self.until(server, &format!("run {run} ends"), |world| {
            let run = world.run(server, run);
            (run["status"] == "completed").then_some(run)
        })
    }

    /// The text of a job's log.
    pub(super) fn log(&self, server: &Server, job: &Value) -> String {
        let path = format!("/api/jobs/{}/log", job["id"]);
        match self.send(server, "GET", &path, None) {
            (200, Value::String(text)) => text,
            // A log that happens to be JSON.
            (200, other) => other.to_string(),
            (status, body) => panic!("{path}: {status} {body}"),
        }
    }

    /// Waits until a file of the test is there, written by a step, and returns what it holds.
    pub(super) fn file(&self, server: &Server, name: &str) -> String {
        let path = self.place.path().join(name);
        self.until(server, &format!("`{name}` is written"), |_| {
            fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
        })
    }
}

/// The job of a run with this name.
#[track_caller]
pub(super) fn job<'r>(run: &'r Value, name: &str) -> &'r Value {
    let jobs = run["jobs"].as_array().expect("a run has jobs");
    let found = jobs.iter().find(|job| job["name"] == name);
    found.unwrap_or_else(|| panic!("no job `{name}` in {run:#}"))
}

pub(super) fn commit(place: &Place) {
    let names = ["-c", "user.name=kiln", "-c", "user.email=kiln@localhost"];
    place.git(&[&names[..], &["commit", "-q", "--allow-empty", "-m", "a commit"]].concat());
}

fn client_token(data: &std::path::Path) -> Option<String> {
    let text = fs::read_to_string(data.join("client.toml")).ok()?;
    let line = text.lines().find(|line| line.trim_start().starts_with("token"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

impl Server {
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Uses the token of another server on the same database.
    pub(super) fn with_token_of(mut self, other: &Self) -> Self {
        self.token.clone_from(&other.token);
        self
    }

    pub(super) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }
}

impl Program {
    /// The next line that is a JSON object with this key.
    fn json_with(&self, key: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("it never said `{key}`"));
            match serde_json::from_str::<Value>(&line) {
                Ok(value) if !value[key].is_null() => return value,
                _ => {}
            }
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// `kill -9`, of the process alone.
    pub(super) fn kill(mut self) {
        kill_process(self.pid(), Signal::KILL).expect("it is ours");
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self) -> i32 {
        kill_process(self.pid(), Signal::TERM).expect("it is ours");
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
