//! `kiln server` and `kiln up`, started and stopped as people do.
#![expect(clippy::unwrap_used, reason = "a panic is the report")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Place;

/// Longer than anything here takes on a machine that is very busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server that runs, and what it says.
struct Running {
    child: Child,
    lines: Receiver<String>,
    url: String,
    /// What it said first.
    serving: Value,
}

impl Running {
    fn start(place: &Place, args: &[&str]) -> Self {
        Self::start_with(place, &[], args)
    }

    fn start_with(place: &Place, env: &[(&str, &str)], args: &[&str]) -> Self {
        let mut child = command(place, args).envs(env.iter().copied()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let serving = next(&lines, &mut child);
        assert_eq!(serving["event"], "serving", "{serving}");
        let url = format!("http://{}", serving["listen"].as_str().unwrap());
        Self { child, lines, url, serving }
    }

    fn server(place: &Place, more: &[&str]) -> Self {
        let args = ["server", "--json", "--listen", "127.0.0.1:0", "--data", "data"];
        Self::start(place, &[&args[..], more].concat())
    }

    fn next(&mut self) -> Value {
        next(&self.lines, &mut self.child)
    }

    fn get(&self, path: &str) -> (u16, Value) {
        get(&self.url, path)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as systemd would; says how long that took.
    fn stop(mut self) -> Duration {
        let begun = Instant::now();
        self.signal(Signal::TERM);
        let code = wait(&mut self.child).code();
        assert_eq!(code, Some(0));
        begun.elapsed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command("", args);
    for name in ["KILN_CONFIG", "KILN_LISTEN", "KILN_DATA", "KILN_SERVER", "KILN_TOKEN"] {
        command.env_remove(name);
    }
    // Nobody's own settings, and no home that others use.
    command.env("HOME", place.path()).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

#[track_caller]
fn next(lines: &Receiver<String>, child: &mut Child) -> Value {
    match lines.recv_timeout(PATIENCE) {
        Ok(line) => serde_json::from_str(&line).unwrap(),
        Err(_) => {
            let _ = child.kill();
            let mut errors = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("it says nothing more: {errors}");
        }
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The status and the body of an answer.
fn get(url: &str, path: &str) -> (u16, Value) {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// What a server that cannot start says.
fn refused(place: &Place, args: &[&str]) -> String {
    let output = command(place, args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// O7
#[track_caller]
fn it_starts_is_ready_and_stops_in_time(database: &str) {
    let place = Place::new();
    let running = Running::server(&place, &["--database", database]);
    assert_eq!(running.get("/health").0, 200);
    assert_eq!(running.get("/startup").0, 200);
    let (status, ready) = running.get("/ready");
    assert_eq!((status, &ready["status"], &ready["queued"]), (200, &"ok".into(), &0.into()));
    assert!(ready["instance"].as_str().is_some_and(|id| id.len() == 12), "{ready}");
    assert!(running.stop() < Duration::from_secs(5));
}

#[test]
fn it_starts_is_ready_and_stops_in_time_on_sqlite() {
    it_starts_is_ready_and_stops_in_time("kiln.db");
}

#[test]
fn it_starts_is_ready_and_stops_in_time_on_postgres() {
    let database = super::db::postgres();
    it_starts_is_ready_and_stops_in_time(super::db::url(&database));
}

#[test]
fn only_the_first_start_gives_a_link_and_the_command_line_finds_its_token() {
    let place = Place::new();
    let first = Running::server(&place, &[]);
    let link = first.serving["welcome"].as_str().unwrap();
    assert!(link.starts_with(&format!("{}/welcome/kot_", first.url)), "{link}");
    let path = link.strip_prefix(&first.url).unwrap();
    assert_eq!(first.get(path).0, 200);
    let client = place.path().join("data/client.toml");
    let keys = place.path().join("data/keys");
    assert_eq!([&client, &keys].map(|path| mode(path)), [0o600; 2]);
    assert_eq!(mode(&place.path().join("data")), 0o700);
    let me = place.kiln_with(&[("KILN_DATA", "data")], &["whoami", "--json"]);
    assert!(me.code(0).out.contains("admin"), "{me:#?}");
    let kept = std::fs::read_to_string(&keys).unwrap();
    first.stop();

    let second = Running::server(&place, &[]);
    assert_eq!(second.serving["welcome"], Value::Null);
    assert_eq!(second.serving["first_start"], false);
    let text = std::fs::read_to_string(&client).unwrap();
    assert!(text.contains(&format!("server = \"{}\"", second.url)), "{text}");
    assert_eq!(std::fs::read_to_string(&keys).unwrap(), kept);
    place.kiln_with(&[("KILN_DATA", "data")], &["whoami"]).code(0);
    second.stop();
}

#[test]
fn a_folder_and_a_port_have_one_server() {
    let place = Place::new();
    let running = Running::server(&place, &[]);
    let other = refused(&place, &["server", "--listen", "127.0.0.1:0", "--data", "data"]);
    let process = format!("process {}", running.child.id());
    assert!(other.contains("used by another Kiln") && other.contains(&process), "{other}");
    let address = running.url.strip_prefix("http://").unwrap();
    let other = refused(&place, &["server", "--listen", address, "--data", "other"]);
    assert!(other.contains(address) && other.contains("`--listen`"), "{other}");
    assert!(!place.path().join("other").exists(), "a port that is taken leaves nothing");
    // One that is killed leaves a folder that the next can use.
    running.signal(Signal::KILL);
    drop(running);
    Running::server(&place, &[]).stop();
}

#[test]
fn bad_settings_keep_a_server_from_starting_and_are_said_all_at_once() {
    let place = Place::new();
    place.file("kiln.toml", "lisen = '127.0.0.1:1'\n[limits]\njob = 'long'\n");
    let said = refused(&place, &["server", "--config", "kiln.toml", "--listen", "nowhere"]);
    for part in ["kiln.toml:1:1:", "did you mean `listen`?", "kiln.toml:3:7:", "--listen:"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = refused(&place, &["up", "--set", "authentication=false", "--listen", "0.0.0.0:0"]);
    assert!(said.contains("without authentication"), "{said}");
    let said = refused(&place, &["server", "--database", "postgres://me:hunter2@127.0.0.1:1/x"]);
    assert!(said.contains("postgres://me@127.0.0.1:1/x") && !said.contains("hunter2"), "{said}");
}

#[test]
fn settings_are_checked_and_shown_with_where_they_come_from() {
    let place = Place::new();
    place.file("kiln.toml", "listen = '127.0.0.1:1'\n[keep]\nruns = '9d'\n");
    let check = place.kiln(&["config", "check", "--config", "kiln.toml"]);
    assert!(check.code(0).out.contains("the settings are good"), "{check:#?}");
    let env = [("KILN_DATABASE", "postgres://kiln:hunter2@db/ci"), ("KILN_LIMITS_JOB", "1h")];
    let show = place.kiln_with(&env, &["config", "show", "--json", "--config", "kiln.toml"]);
    let shown = show.code(0).json();
    assert_eq!(shown["keep.runs"]["origin"], "kiln.toml:3:8");
    assert_eq!(shown["limits.job"]["origin"], "KILN_LIMITS_JOB");
    assert_eq!(shown["database"]["value"], "postgres://kiln@db:5432/ci");
    assert_eq!(shown["public_url"]["value"], "http://127.0.0.1:1");
    place.file("kiln.toml", "a = 1\nb = 2\n");
    let check = place.kiln(&["config", "check", "--json", "--config", "kiln.toml"]);
    assert_eq!(check.code(1).json()["problems"].as_array().unwrap().len(), 2);
    assert_eq!(check.json()["problems"][1]["line"], 2);
    place.kiln(&["config", "check", "--config", "none.toml"]).code(2);
}

/// O8
#[test]
fn the_doctor_says_what_is_wrong_with_and_without_a_server() {
    let place = Place::new();
    let env = [("KILN_DATA", "data"), ("HOME", place.path().to_str().unwrap())];
    let without = place.kiln_with(&env, &["doctor"]);
    assert!(without.code(2).out.contains("no Kiln server answers"), "{without:#?}");
    assert!(without.out.contains("there is no folder"), "{without:#?}");
    let running = Running::server(&place, &[]);
    let with = place.kiln_with(&env, &["doctor", "--json"]);
    let findings: Vec<Value> =
        with.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let level = |what: &str| {
        let found = findings.iter().find(|finding| finding["what"] == what);
        found.map(|finding| finding["level"].as_str().unwrap().to_owned())
    };
    for what in ["server", "token", "database", "clock", "outbox", "duties"] {
        assert_eq!(level(what).as_deref(), Some("ok"), "{what}: {with:#?}");
    }
    let clocks = findings.iter().filter(|finding| finding["what"] == "clock").count();
    assert_eq!(clocks, 2, "those of the database and of this machine: {with:#?}");
    assert_eq!(level("runners").as_deref(), Some("warning"), "{with:#?}");
    with.code(1);
    running.stop();
}

/// H1
#[test]
fn up_shows_a_green_run_of_its_sample_and_ends_with_its_runner() {
    let place = Place::new();
    let args = ["up", "--json", "--listen", "127.0.0.1:0", "--data", "data", "--jobs", "2"];
    let mut running = Running::start(&place, &args);
    assert_eq!(running.next()["event"], "runner");
    let started = running.next();
    assert_eq!(started["event"], "sample_started", "{started}");
    let ended = running.next();
    assert_eq!(
        (&ended["event"], &ended["conclusion"]),
        (&"sample_ended".into(), &"success".into())
    );
    assert_eq!(ended["jobs"], 5);
    assert_eq!(running.next()["event"], "ready");
    let runs = place.kiln_with(&[("KILN_DATA", "data")], &["runs"]);
    assert!(runs.code(0).out.contains("kiln/sample"), "{runs:#?}");
    assert!(running.stop() < Duration::from_secs(15));

    let mut second = Running::start(&place, &args);
    assert_eq!(second.next()["event"], "runner");
    assert_eq!(second.next()["event"], "ready", "there is one sample");
    // At another address the runner is still the one that it was, and works.
    let env = [("KILN_DATA", "data")];
    let again = ["trigger", "--repo", "kiln/sample", "--once-key", "again", "--watch"];
    place.kiln_with(&env, &again).code(0);
    let runners = place.kiln_with(&env, &["runners", "--json"]);
    assert_eq!(runners.code(0).out.lines().count(), 1, "{runners:#?}");
    second.stop();
}

/// A proxy is for others: server and runner find each other without it.
#[test]
fn up_works_where_the_proxy_is_dead() {
    let place = Place::new();
    let args = ["up", "--json", "--listen", "127.0.0.1:0", "--data", "data", "--jobs", "1"];
    let dead = "http://127.0.0.1:9";
    let env = [("http_proxy", dead), ("HTTP_PROXY", dead), ("KILN_PROXY", dead)];
    let mut running = Running::start_with(&place, &env, &args);
    assert_eq!(running.next()["event"], "runner");
    assert_eq!(running.next()["event"], "sample_started");
    let ended = running.next();
    assert_eq!(ended["conclusion"], "success", "{ended}");
    running.stop();
}

/// H2
#[test]
fn two_servers_share_a_database_and_one_takes_over() {
    let database = super::db::postgres();
    let url = super::db::url(&database);
    let (one, two) = (Place::new(), Place::new());
    let first = Running::server(&one, &["--database", url]);
    let second = Running::server(&two, &["--database", url]);
    assert!(first.serving["welcome"].is_string() && second.serving["welcome"].is_null());
    let leads = |place: &Place| {
        let env = [("KILN_DATA", "data")];
        let answer = place.kiln_with(&env, &["doctor", "--json"]);
        (1..100).any(|all| answer.out.contains(&format!("{all} of {all} are done here")))
    };
    let until = |place: &Place| {
        let begun = Instant::now();
        while !leads(place) {
            assert!(begun.elapsed() < PATIENCE, "nobody takes over");
        }
    };
    until(&one);
    assert!(!leads(&two), "one leads");
    let said = one.kiln_with(&[("KILN_DATA", "data")], &["doctor"]);
    for what in ["logs lie in", "bytes lie in"] {
        let words = format!("2 servers share the database, but {what}");
        assert!(said.out.contains(&words) && said.out.contains("logs_folder"), "{said:#?}");
    }
    first.signal(Signal::KILL);
    drop(first);
    until(&two);
    second.stop();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let mut running = Running::server(&place, &["--set", "shutdown_grace=1h"]);
    // Somebody who is never done with a request keeps the server waiting.
    let host = running.url.strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(
        stream,
        "POST /api/runners/register HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{"
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::TERM);
    let begun = Instant::now();
    let status = wait(&mut running.child);
    assert!(begun.elapsed() < Duration::from_secs(2) && status.code() != Some(0), "{status:?}");
}
