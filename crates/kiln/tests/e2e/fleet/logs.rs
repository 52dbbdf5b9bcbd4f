//! Logs that survive whatever dies: each line once, in order, with its number.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use kiln_testkit::s3::{BUCKET, KEY, S3Server};
use serde_json::Value;

use super::world::{Server, job, patience};
use super::{Kind, World, on_both};

/// How many jobs print at once, and how many lines each.
const JOBS: usize = 50;
const LINES: u64 = 2_000;

fn workflow(jobs: usize, lines: u64, pause: &str) -> String {
    let legs: Vec<String> = (0..jobs).map(|leg| leg.to_string()).collect();
    format!(
        "
on: push
jobs:
  print:
    runs-on: linux
    strategy:
      fail-fast: false
      matrix:
        leg: [{}]
    steps:
      - run: |
          for part in 1 2 3 4; do
            seq -f '${{{{ matrix.leg }}}} line %.0f' $((part * {lines} / 4 - {lines} / 4 + 1)) $((part * {lines} / 4))
            {pause}
          done
",
        legs.join(", ")
    )
}

/// Each line of a job, as the server numbers them, is there once and in order.
fn check_log(world: &World, server: &Server, job: &Value) {
    let attempt = job["attempt"].as_i64().expect("it was tried");
    let printed = lines_of(world, server, job, attempt);
    assert_eq!(printed, LINES, "{} has all its lines", job["name"]);
}

/// How many lines of an attempt are there: each whole, once, in order, and with its number.
fn lines_of(world: &World, server: &Server, job: &Value, attempt: i64) -> u64 {
    let path = format!("/api/jobs/{}/log?format=numbered&attempt={attempt}", job["id"]);
    let (status, text) = world.send(server, "GET", &path, None);
    assert_eq!(status, 200, "{text}");
    let text = text.as_str().expect("a log is text");
    let name = job["name"].as_str().expect("a job has a name");
    let leg = name.trim_start_matches("print (").trim_end_matches(')');
    let prefix = format!("{leg} line ");
    let mut printed = 0;
    for (at, line) in text.lines().enumerate() {
        let mut parts = line.splitn(4, ' ');
        assert_eq!(parts.next(), Some((at + 1).to_string().as_str()), "{name}: {line}");
        if let Some(number) = parts.nth(2).and_then(|text| text.strip_prefix(prefix.as_str())) {
            printed += 1;
            assert_eq!(number, printed.to_string(), "{name}");
        }
    }
    printed
}

/// What a command prints that asks the server.
fn ask(world: &World, server: &Server, words: &[&str]) -> String {
    let whom = ["--server", &server.address, "--token", server.token()];
    let done = world.place.command("", &[words, &whom].concat()).output().expect("it was built");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it is text")
}

/// `kiln logs --follow` of one job, whose lines are gathered.
struct Viewer {
    child: Child,
    lines: std::thread::JoinHandle<Vec<String>>,
    complaints: std::thread::JoinHandle<String>,
    /// Hears of the first line.
    first: Receiver<()>,
}

impl Viewer {
    fn new(world: &World, server: &Server, job: &Value) -> Self {
        let id = job["id"].to_string();
        let arguments = [
            "logs",
            &id,
            "--follow",
            "--raw",
            "--server",
            &server.address,
            "--token",
            server.token(),
        ];
        let mut command = world.place.command("", &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built for this test");
        let out = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut err = child.stderr.take().expect("it is a pipe");
        let (tell, first) = channel();
        let lines = std::thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            lines.inspect(|_| _ = tell.send(())).collect()
        });
        let complaints = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        Self { child, lines, complaints, first }
    }

    /// It follows the log from here on. Who comes to a server that is not there is told so and goes, and a busy
    /// machine may take longer to start a viewer than to kill a server.
    fn once_there(self) -> Self {
        self.first.recv_timeout(patience()).expect("the job prints");
        self
    }

    fn kill(mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        let _ = self.lines.join();
    }

    /// What it has shown at its end.
    fn lines(mut self) -> Vec<String> {
        let status = self.child.wait().expect("it is ours");
        let complaints = self.complaints.join().expect("it only reads");
        assert!(status.success(), "{status}: {complaints}");
        self.lines.join().expect("it only reads")
    }
}

on_both! {
    /// C11
    fn fifty_jobs_that_print_lose_no_line_when_server_and_viewers_die(world) {
        let mut server = world.server("server");
        let _runner = world.runner_with(&server, "one", &["linux"], &["--jobs", "50"]);
        world.repository(&server, "app", &workflow(JOBS, LINES, "sleep 0.5"));
        let run = world.trigger(&server, "app");
        world.until(&server, "all jobs run", |world| {
            let run = world.run(&server, run);
            let jobs = run["jobs"].as_array()?;
            let started = jobs.iter().filter(|job| job["attempt"] == 1).count();
            (started == JOBS).then_some(())
        });
        let shown = world.run(&server, run);
        let jobs = shown["jobs"].as_array().expect("a run has jobs");
        let mut viewers: BTreeMap<usize, Viewer> =
            [0, 7, 23].map(|at| (at, Viewer::new(&world, &server, &jobs[at]))).into();
        viewers = viewers.into_iter().map(|(at, viewer)| (at, viewer.once_there())).collect();
        let port = server.listen();
        for turn in 0..3_u64 {
            sleep(Duration::from_millis(200 + 150 * turn));
            server.program.kill();
            if let Some(viewer) = viewers.remove(&7) {
                viewer.kill();
            }
            server = world.server_at("server", &port);
        }
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        for job in ended["jobs"].as_array().expect("a run has jobs") {
            assert_eq!(job["attempt"], 1, "the runner went on with it");
            check_log(&world, &server, job);
        }
        // Viewers go on by themselves, and see what everybody sees.
        for (at, viewer) in viewers {
            let job = &jobs[at];
            let log = world.log(&server, job);
            assert_eq!(viewer.lines(), log.lines().collect::<Vec<_>>(), "{}", job["name"]);
        }
        // The archive says the same.
        world.until(&server, "all logs are archived", |world| {
            let left = std::fs::read_dir(world.place.path().join("server/logs/live")).ok()?;
            (left.count() == 0).then_some(())
        });
        for job in ended["jobs"].as_array().expect("a run has jobs") {
            check_log(&world, &server, job);
        }
    }

    /// C11 S7
    fn fifty_jobs_that_print_keep_what_they_printed_when_their_runner_dies(world) {
        let server = world.server("server");
        let runner = world.runner_with(&server, "one", &["linux"], &["--jobs", "50"]);
        world.repository(&server, "app", &workflow(JOBS, LINES, "sleep 0.5"));
        let run = world.trigger(&server, "app");
        world.until(&server, "all jobs print", |world| {
            let run = world.run(&server, run);
            let jobs = run["jobs"].as_array()?;
            (jobs.iter().filter(|job| job["attempt"] == 1).count() == JOBS).then_some(())
        });
        sleep(Duration::from_millis(700));
        runner.kill();
        let _again = world.runner_again_with(&server, "one", &["--jobs", "50"]);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let mut cut = 0;
        for job in ended["jobs"].as_array().expect("a run has jobs") {
            check_log(&world, &server, job);
            if job["attempt"] == 2 {
                // What was printed last may have died with the runner, but nothing before it.
                let kept = lines_of(&world, &server, job, 1);
                cut += u64::from(kept < LINES);
            }
        }
        assert!(cut > 0, "the runner died while jobs printed");
    }

    /// C9
    fn lines_since_a_time_are_those_that_were_printed_from_then_on(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let text = "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - run: echo early; sleep 1.1; echo late
";
        world.repository(&server, "app", text);
        let run = world.trigger(&server, "app");
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let job = job(&ended, "a")["id"].to_string();
        let all = ask(&world, &server, &["logs", &job, "--json"]);
        let line = |word: &str| -> Value {
            let mut lines = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
            lines.rfind(|line| line["text"] == word).expect("it was printed")
        };
        let at = |word: &str| line(word)["at"].as_str().expect("it has a time").to_owned();
        let since = |time: &str| -> Vec<String> {
            let said = ask(&world, &server, &["logs", &job, "--raw", "--since", time]);
            let words = said.lines().filter(|line| ["early", "late"].contains(line));
            words.map(str::to_owned).collect()
        };
        assert_eq!(since(&at("late")), ["late"]);
        assert_eq!(since(&at("early")), ["early", "late"]);
        assert_eq!(since("1h"), ["early", "late"]);
        server.program.kill();
    }

    /// C9
    fn one_line_is_found_in_all_runs_of_a_repository(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(
            &server,
            "app",
            "
on: push
jobs:
  speak:
    runs-on: linux
    steps:
      - run: |
          echo the needle of run $GITHUB_RUN_ID
          seq 1 100
",
        );
        let runs = [(); 2].map(|()| {
            let run = world.trigger(&server, "app");
            world.ended(&server, run);
            run
        });
        let words = ["logs", "--all", "--repo", "acme/app", "-i", "--grep", "NEEDLE OF run"];
        let found = ask(&world, &server, &[&words[..], &["--json"]].concat());
        let lines: Vec<Value> =
            found.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        let texts: Vec<&str> = lines.iter().filter_map(|line| line["text"].as_str()).collect();
        let expected = [runs[1], runs[0]].map(|run| format!("the needle of run {run}"));
        assert_eq!(texts.iter().filter(|text| !text.contains("echo")).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>(), "{found}");
        let shown = ask(&world, &server, &words);
        assert!(shown.starts_with("── speak r-") && shown.contains(&expected[0]), "{shown}");
    }

    /// C9
    fn a_line_is_found_in_every_attempt_of_a_run(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(
            &server,
            "app",
            "
on: push
jobs:
  good: {runs-on: linux, steps: [{run: 'echo the needle of $GITHUB_JOB'}]}
  bad:
    runs-on: linux
    steps:
      - run: |
          echo the needle of $GITHUB_JOB in $GITHUB_RUN_ATTEMPT
          test $GITHUB_RUN_ATTEMPT -gt 1
",
        );
        let run = world.trigger(&server, "app");
        assert_eq!(world.ended(&server, run)["conclusion"], "failure");
        ask(&world, &server, &["rerun", &run.to_string(), "--failed"]);
        assert_eq!(world.ended(&server, run)["conclusion"], "success");
        let words = ["logs", &run.to_string(), "-E", "--grep", "^the needle"];
        let shown = ask(&world, &server, &words);
        let mut lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with('▸')).collect();
        // Which of the two came first is not what this is about.
        if lines.first() == Some(&"── bad attempt 1") {
            lines[..4].rotate_left(2);
        }
        let expected = [
            "── good attempt 1",
            "the needle of good",
            "── bad attempt 1",
            "the needle of bad in 1",
            // Claims are counted on: this is the number that `--claim` takes.
            "── bad attempt 2, claim 2",
            "the needle of bad in 2",
        ];
        assert_eq!(lines, expected, "{shown}");
    }

    /// C11 S7
    fn what_a_killed_runner_printed_is_kept_and_the_next_try_has_a_log_of_its_own(world) {
        let server = world.server("server");
        let first = world.runner(&server, "first", &["linux"]);
        world.repository_of_two_tries(&server, "app", "seq -f 'line %.0f' 1 5000");
        let run = world.trigger(&server, "app");
        world.file(&server, "tries");
        first.kill();
        let _again = world.runner_again(&server, "first");
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let id = &job(&ended, "a")["id"];
        for attempt in [1, 2] {
            let path = format!("/api/jobs/{id}/log?attempt={attempt}&grep=%5Eline%20&regex=true");
            let (_, text) = world.send(&server, "GET", &path, None);
            let lines: Vec<&str> = text.as_str().expect("it is text").lines().collect();
            // What was printed last may have died with the runner, but nothing before it.
            assert!(attempt == 1 || lines.len() == 5_000, "{attempt}: {}", lines.len());
            for (at, line) in lines.iter().enumerate() {
                assert_eq!(*line, format!("line {}", at + 1), "attempt {attempt}");
            }
        }
    }
}

/// Passes connections on to the server that is meant at the time, as a load balancer does.
struct Balancer {
    address: String,
    target: Arc<Mutex<String>>,
}

impl Balancer {
    fn new(target: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has room");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let target = Arc::new(Mutex::new(target.listen()));
        let meant = Arc::clone(&target);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let meant = meant.lock().expect("nobody panics").clone();
                if let Ok(server) = TcpStream::connect(meant) {
                    pass(&client, &server);
                    pass(&server, &client);
                }
            }
        });
        Self { address, target }
    }

    fn switch(&self, target: &Server) {
        let address = target.listen();
        *self.target.lock().expect("nobody panics") = address;
    }
}

/// Copies from one side to the other until either ends.
fn pass(from: &TcpStream, to: &TcpStream) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

/// C11 H2
#[test]
fn a_server_that_dies_hands_its_live_logs_to_the_other() {
    let world = World::new(Kind::Postgres);
    let logs = world.place.path().join("shared-logs").display().to_string();
    hands_its_logs_on(&world, &[&format!("logs_folder={logs}")]);
}

/// C11 H2
#[test]
fn a_server_that_dies_hands_the_logs_in_a_bucket_to_the_other() {
    let world = World::new(Kind::Postgres);
    let bucket = S3Server::start(world.place.path());
    let settings = [
        &format!("storage.s3_bucket={BUCKET}"),
        &format!("storage.s3_endpoint={}", bucket.endpoint()),
        &format!("storage.s3_key_id={}", KEY.0),
        &format!("storage.s3_secret={}", KEY.1),
    ];
    hands_its_logs_on(&world, &settings.map(String::as_str));
    // What the runner said went there piece by piece, and is one object for each job now.
    let logs = world.place.path().join("s3").join(BUCKET).join("logs");
    assert!(logs.is_dir(), "{}", logs.display());
}

fn hands_its_logs_on(world: &World, settings: &[&str]) {
    let keys = format!("keys_file={}", world.place.path().join("keys").display());
    let shared: Vec<&str> =
        settings.iter().chain([&keys.as_str()]).flat_map(|setting| ["--set", setting]).collect();
    let one = world.server_with("one", &shared);
    let two = world.server_with("two", &shared).with_token_of(&one);
    let balancer = Balancer::new(&one);
    let _runner = world.runner_at(&one, &balancer.address, "one", &["linux"], &["--jobs", "8"]);
    world.repository(&one, "app", &workflow(8, LINES, "sleep 0.7"));
    let run = world.trigger(&one, "app");
    world.until(&one, "all jobs run", |world| {
        let run = world.run(&one, run);
        let jobs = run["jobs"].as_array()?;
        (jobs.iter().filter(|job| job["attempt"] == 1).count() == 8).then_some(())
    });
    let jobs = world.run(&two, run)["jobs"].as_array().expect("a run has jobs").clone();
    // Somebody watches at the other server from the beginning.
    let viewer = Viewer::new(world, &two, &jobs[3]).once_there();
    sleep(Duration::from_millis(500));
    balancer.switch(&two);
    one.program.kill();
    let ended = world.ended(&two, run);
    assert_eq!(ended["conclusion"], "success", "{ended:#}");
    for job in ended["jobs"].as_array().expect("a run has jobs") {
        assert_eq!(job["attempt"], 1, "the runner went on with it");
        check_log(world, &two, job);
    }
    let log = world.log(&two, &jobs[3]);
    assert_eq!(viewer.lines(), log.lines().collect::<Vec<_>>());
}
