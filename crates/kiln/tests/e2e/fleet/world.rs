//! Servers and runners as processes, which go with the test.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kiln_store::Options;
use kiln_testkit::cluster::Cluster;
use kiln_testkit::database::Database;
use serde_json::{Value, json};

use super::load::is_long;
pub(super) use super::program::Program;
use crate::{Answer, Place};

/// Nothing here takes longer, on a machine however busy.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// The long forms of `scripts/chaos` have a queue in front of what is waited for.
pub(super) fn patience() -> Duration {
    if is_long() { 10 * PATIENCE } else { PATIENCE }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
}

/// An installation under test.
pub(super) struct World {
    pub(super) place: Place,
    options: Options,
    /// Goes with the world.
    _database: Option<Database>,
    cluster: Option<RefCell<Cluster>>,
    /// What programs find in their environment that start from now on.
    environment: RefCell<Vec<(String, String)>>,
    /// The program and its arguments by which runners start from now on.
    launcher: RefCell<Vec<String>>,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    keys: AtomicU32,
}

/// A server that answers.
pub(super) struct Server {
    pub(super) program: Program,
    pub(super) address: String,
    /// Of its data directory.
    pub(super) name: String,
    token: String,
}

impl World {
    pub(super) fn new(kind: Kind) -> Self {
        let runtime = runtime();
        let database = match kind {
            Kind::Sqlite => Database::sqlite(),
            Kind::Postgres => runtime.block_on(Database::postgres()),
        };
        let options = database.options.clone();
        Self { _database: Some(database), ..Self::on(runtime, options) }
    }

    /// A world in whose place the database lies, too.
    pub(super) fn in_one_place() -> Self {
        let mut world = Self::on(runtime(), Options::Sqlite { path: "".into() });
        world.options = Options::Sqlite { path: world.place.path().join("server/kiln.db") };
        world
    }

    /// A world with a PostgreSQL of its own, which can be killed and writes through to the disk.
    pub(super) fn with_cluster() -> Self {
        Self::of_cluster(|runtime| runtime.block_on(Cluster::new()))
    }

    /// The same with its files in a folder of the test's.
    pub(super) fn with_cluster_in(folder: &Path) -> Self {
        Self::of_cluster(|runtime| runtime.block_on(Cluster::within(folder)))
    }

    fn of_cluster(make: impl FnOnce(&tokio::runtime::Runtime) -> Cluster) -> Self {
        let runtime = runtime();
        let cluster = make(&runtime);
        let options = Options::Postgres { url: cluster.url(), connections: 8 };
        Self { cluster: Some(RefCell::new(cluster)), ..Self::on(runtime, options) }
    }

    fn on(runtime: tokio::runtime::Runtime, options: Options) -> Self {
        // Servers die here and come back at the same address: no connection outlives its question.
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
        let client = client.pool_max_idle_per_host(0).build();
        Self {
            place: Place::new(),
            options,
            _database: None,
            cluster: None,
            environment: RefCell::default(),
            launcher: RefCell::default(),
            runtime,
            client: client.expect("a client needs nothing"),
            keys: AtomicU32::new(0),
        }
    }

    /// Trusts the certificates of an authority.
    pub(super) fn trusting(mut self, authority: &Path) -> Self {
        let pem = fs::read(authority).expect("the test made it");
        let authority = reqwest::Certificate::from_pem(&pem).expect("it is a certificate");
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
        let client = client.tls_certs_merge([authority]).build();
        self.client = client.expect("a client needs nothing");
        self
    }

    /// PostgreSQL dies with all its processes; something is done; it comes back.
    pub(super) fn without_database(&self, meanwhile: impl FnOnce()) {
        let mut cluster = self.cluster.as_ref().expect("it has one of its own").borrow_mut();
        cluster.kill();
        meanwhile();
        self.runtime.block_on(cluster.start());
    }

    /// Programs that start from now on find this in their environment.
    pub(super) fn set(&self, name: &str, value: impl Into<String>) {
        self.unset(name);
        self.environment.borrow_mut().push((name.to_owned(), value.into()));
    }

    pub(super) fn unset(&self, name: &str) {
        self.environment.borrow_mut().retain(|(known, _)| known != name);
    }

    /// Programs that start from now on are started by this one.
    pub(super) fn launch_by(&self, program: &[&str]) {
        *self.launcher.borrow_mut() = program.iter().map(|&word| word.to_owned()).collect();
    }

    fn database(&self) -> String {
        match &self.options {
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
        let server = self.fresh_server(name, more);
        self.organization(&server);
        server
    }

    /// The same as it is after its first start, with nobody in it but its administrator.
    pub(super) fn fresh_server(&self, name: &str, more: &[&str]) -> Server {
        let data = self.place.path().join(name);
        let program = self.server_program(name, more);
        let ready = program.json_with("url");
        let address = ready["url"].as_str().expect("an address is a text").to_owned();
        let token = client_token(&data).unwrap_or_default();
        Server { program, address, name: name.to_owned(), token }
    }

    /// What people type on the machine of a server, which finds it by its data directory.
    pub(super) fn kiln(&self, server: &Server, arguments: &[&str]) -> Answer {
        let mut command = self.own(self.place.command("", arguments));
        command.env("KILN_DATA", self.place.path().join(&server.name)).stdin(Stdio::null());
        Answer::of(&command.output().expect("the binary was built for this test"))
    }

    /// A line that Kiln printed for people to type, in a shell that knows where `kiln` is.
    pub(super) fn typed(&self, line: &str) -> Program {
        let folder = Path::new(env!("CARGO_BIN_EXE_kiln")).parent().expect("it lies in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {line}")]).current_dir(self.place.path());
        shell.env("PATH", format!("{}:{path}", folder.display()));
        Program::start(self.own(shell))
    }

    /// The program of a server, which perhaps dies before it answers.
    pub(super) fn server_program(&self, name: &str, more: &[&str]) -> Program {
        let database = self.database();
        let data = self.place.path().join(name).to_string_lossy().into_owned();
        let mut arguments = vec!["server", "--json", "--data", &data, "--database", &database];
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        self.start(&arguments)
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
        self.runner_again_with(server, name, &[])
    }

    pub(super) fn runner_again_with(&self, server: &Server, name: &str, more: &[&str]) -> Program {
        let data = self.place.path().join(format!("runner-{name}"));
        let data = data.to_string_lossy().into_owned();
        let arguments = ["runner", "--server", &server.address, "--data", &data];
        self.start(&[&arguments[..], more].concat())
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

    fn command(&self, arguments: &[&str]) -> Command {
        let command = self.place.command("", arguments);
        let launcher = self.launcher.borrow();
        let Some((first, rest)) = launcher.split_first() else { return command };
        let mut launched = Command::new(first);
        launched.args(rest).arg(command.get_program()).args(command.get_args());
        launched.current_dir(self.place.path());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => launched.env(name, value),
                None => launched.env_remove(name),
            };
        }
        launched
    }

    pub(super) fn start(&self, arguments: &[&str]) -> Program {
        Program::start(self.own(self.command(arguments)))
    }

    /// A command in the environment of this world alone.
    fn own(&self, mut command: Command) -> Command {
        command
            .env("HOME", self.place.path())
            .envs(self.environment.borrow().iter().map(|(name, value)| (name, value)))
            .env("KILN_LOG", "info")
            .env_remove("KILN_SERVER")
            .env_remove("KILN_TOKEN")
            .env_remove("KILN_DATA")
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command
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

    /// A repository whose job `a` never ends by itself at its first try, and at once at the next. Each try
    /// begins with a command and leaves a line in the file `tries`.
    pub(super) fn repository_of_two_tries(&self, server: &Server, name: &str, command: &str) {
        let place = self.place.path().display();
        self.repository(
            server,
            name,
            &format!(
                "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: |
          {command}
          echo try >> {place}/tries
          test $(wc -l < {place}/tries) -ge 2 || sleep 600
"
            ),
        );
    }

    /// Triggers `acme/<name>` and returns the id of its run.
    pub(super) fn trigger(&self, server: &Server, name: &str) -> i64 {
        let path = format!("/api/repos/acme/{name}/trigger");
        // With a key of its own it can be repeated while nobody answers.
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let end = Instant::now() + patience();
        let (status, made) = loop {
            let told =
                self.once(server, server.token(), "POST", &path, Some(&json!({})), Some(key));
            match told {
                Ok(answer) if answer.0 < 500 => break answer,
                other => assert!(Instant::now() < end, "{path}: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!([200, 201].contains(&status), "{status} {made}");
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

    /// A request that is made again while nobody answers, or a server cannot: they are killed here.
    pub(super) fn send_as(
        &self,
        server: &Server,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let end = Instant::now() + patience();
        loop {
            let is_late = Instant::now() > end;
            match self.once(server, token, method, path, body, None) {
                Ok((503 | 429, _)) if method == "GET" && !is_late => {}
                Ok(answer) => return answer,
                Err(error) if !is_late && (error.is_connect() || method == "GET") => {}
                Err(error) => panic!("{path}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A request that is made once, with a key by which the server knows it again.
    pub(super) fn once(
        &self,
        server: &Server,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<u32>,
    ) -> Result<(u16, Value), reqwest::Error> {
        let method: reqwest::Method = method.parse().expect("it is a method");
        let request = self.client.request(method, format!("{}{path}", server.address));
        let request = request.bearer_auth(token);
        let request = body.into_iter().fold(request, reqwest::RequestBuilder::json);
        let name = kiln_proto::headers::IDEMPOTENCY_KEY;
        let request = key.into_iter().fold(request, |request, key| request.header(name, key));
        self.runtime.block_on(async {
            let answer = request.send().await?;
            let status = answer.status().as_u16();
            let text = answer.text().await?;
            Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
        })
    }

    /// Sends bytes to an address that a server gave.
    pub(super) fn put_bytes(&self, url: &str, bytes: &[u8]) -> u16 {
        let request = self.client.put(url).body(bytes.to_vec());
        let answer = self
            .runtime
            .block_on(async { request.send().await })
            .expect("a server that runs answers");
        answer.status().as_u16()
    }

    /// Looks again and again until something is there.
    pub(super) fn until<T>(
        &self,
        server: &Server,
        what: &str,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let end = Instant::now() + patience();
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

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a test may have a runtime")
}

fn client_token(data: &Path) -> Option<String> {
    let text = fs::read_to_string(data.join("client.toml")).ok()?;
    let line = text.lines().find(|line| line.trim_start().starts_with("token"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

impl Server {
    /// Where it listens, for one that comes after it.
    pub(super) fn listen(&self) -> String {
        self.address.trim_start_matches("http://").to_owned()
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Uses the token of another server on the same database.
    pub(super) fn with_token_of(mut self, other: &Self) -> Self {
        self.token.clone_from(&other.token);
        self
    }
}
