//! What people see when a server is away, refuses, breaks off or answers nonsense.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kiln_proto::api::{Job, Me, Page, Run};

use crate::fake::{Asked, Fake, Reply, job, run};
use crate::{Answer, Place};

/// The program in a home of its own that knows no server.
fn bare(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command("", args);
    for name in ["KILN_SERVER", "KILN_TOKEN", "KILN_CA", "KILN_DATA", "SSL_CERT_FILE", "CI"] {
        command.env_remove(name);
    }
    let home = place.path().join("home");
    command
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("KILN_TIMEOUT", "10")
        .stdin(Stdio::null());
    command
}

/// The program with this server.
fn at(place: &Place, fake: &Fake, args: &[&str]) -> Command {
    let mut command = bare(place, args);
    command.env("KILN_SERVER", fake.url());
    command
}

fn answer(mut command: Command) -> Answer {
    Answer::of(&command.output().expect("the binary was built for this test"))
}

#[track_caller]
fn check(answer: &Answer, code: i32, words: &[&str]) {
    assert_eq!(answer.code, code, "{answer:#?}");
    for word in words {
        assert!(answer.err.contains(word), "`{word}` is missing: {answer:#?}");
    }
    assert!(!answer.err.contains("kpat_"), "{answer:#?}");
}

fn me() -> Me {
    Me {
        kind: "token".to_owned(),
        name: "me".to_owned(),
        admin: false,
        version: "0.0.0".to_owned(),
        time: None,
    }
}

fn one_run() -> Page<Run> {
    Page { items: vec![run("completed", Some("success"), Vec::new()).run], next: None }
}

#[test]
fn a_server_that_is_not_there_is_named_with_how_to_start_one() {
    let place = Place::new();
    // Nobody listens at a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let before = Instant::now();
    let said = answer(bare(&place, &["runs", "--all", "--server", &url]));
    check(&said, 2, &[&url, "kiln up", "--server"]);
    assert!(before.elapsed() < Duration::from_secs(8), "people wait");
    check(&answer(bare(&place, &["whoami"])), 2, &["http://127.0.0.1:8420", "kiln up"]);
}

#[test]
fn a_caller_without_a_good_token_is_told_how_to_get_one() {
    let place = Place::new();
    let fake = Fake::new(|_, _| Reply::problem(401, "there is no such token"));
    let login = format!("kiln login {}", fake.url());
    check(
        &answer(at(&place, &fake, &["runs", "--all"])),
        2,
        &["who you are", &login, "KILN_TOKEN"],
    );
    let mut command = at(&place, &fake, &["runs", "--all"]);
    command.env("KILN_TOKEN", "kpat_wrong");
    check(&answer(command), 2, &["`KILN_TOKEN`", "there is no such token", &login]);
    let typed = answer(at(&place, &fake, &["queue", "--token", "kpat_wrong"]));
    check(&typed, 2, &["`--token`", "expired"]);
    assert_eq!(fake.asked().last().unwrap().header("authorization"), Some("Bearer kpat_wrong"));
}

#[test]
fn what_does_not_exist_or_is_not_allowed_is_said_so() {
    let place = Place::new();
    let fake = Fake::new(|asked, _| match asked.line.as_str() {
        "GET /api/runs/12345" => Reply::problem(404, "there is no such run"),
        line if line.starts_with("PUT /api/pause") => {
            Reply::problem(403, "only administrators may")
        }
        line if line.starts_with("POST /api/runs/12345/cancel") => {
            Reply::problem(409, "the run is over")
        }
        _ => Reply::problem(422, "`name` is empty"),
    });
    check(
        &answer(at(&place, &fake, &["watch", "r-9ix"])),
        2,
        &["there is no such run", &fake.url()],
    );
    check(&answer(at(&place, &fake, &["logs", "r-9ix"])), 2, &["there is no such run"]);
    check(&answer(at(&place, &fake, &["pause", "--reason", "x"])), 2, &["only administrators may"]);
    check(&answer(at(&place, &fake, &["cancel", "r-9ix"])), 0, &["r-9ix: the run is over"]);
    check(&answer(at(&place, &fake, &["token", "create", ""])), 2, &["`name` is empty"]);
}

#[test]
fn a_server_that_is_busy_is_asked_again_only_where_that_does_no_harm() {
    let place = Place::new();
    let fake = Fake::new(|asked, before| match asked.line.split(' ').next() {
        Some("GET") if before == 0 => Reply::problem(503, "starting"),
        Some("GET") => Reply::json(200, &one_run()),
        _ => Reply::problem(503, "starting"),
    });
    let said = answer(at(&place, &fake, &["runs", "--all", "--json"]));
    check(&said, 0, &[]);
    assert_eq!(said.json()["slug"], "r-9ix");
    assert_eq!(fake.count("GET /api/runs"), 2);
    check(&answer(at(&place, &fake, &["rerun", "r-9ix"])), 2, &["starting", "try again"]);
    assert_eq!(fake.count("POST /api/runs/12345/rerun"), 1);
}

/// The answer to a trigger is lost: the repetition carries the same key.
#[test]
fn a_trigger_is_repeated_as_the_same_one() {
    let place = Place::new();
    let fake = Fake::new(|_, before| match before {
        0 => Reply::nothing(),
        _ => Reply::json(
            201,
            &serde_json::json!({"runs": [], "skipped": [{"workflow": "ci.yml", "reason": "it does not listen to `push`"}]}),
        ),
    });
    let said = answer(at(&place, &fake, &["trigger", "ci.yml", "--repo", "me/app"]));
    check(&said, 1, &["`ci.yml` did not start: it does not listen to `push`"]);
    let keys: Vec<_> = fake
        .asked()
        .iter()
        .map(|asked| asked.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let place = Place::new();
    let (hold, until) = mpsc::channel::<()>();
    let until = std::sync::Mutex::new(Some(until));
    let fake = Fake::new(move |_, _| match until.lock().unwrap().take() {
        Some(until) => Reply::nothing().wait(until),
        None => Reply::nothing(),
    });
    let mut command = at(&place, &fake, &["whoami"]);
    command.env("KILN_TIMEOUT", "1");
    check(&answer(command), 2, &["took longer than 1 s", "KILN_TIMEOUT"]);
    drop(hold);
}

#[test]
fn nonsense_is_said_to_be_nonsense_and_another_version_is_named() {
    let place = Place::new();
    for (reply, words) in [
        (
            Reply::body as fn(u16, &str, &[u8]) -> Reply,
            &["does not understand", "is that a Kiln server?"][..],
        ),
        (
            |_: u16, _: &str, body: &[u8]| Reply::head(200, &[("kiln-version", "9.9.9")]).and(body),
            &["the server is Kiln 9.9.9", "use the same version"],
        ),
    ] {
        let fake = Fake::new(move |_, _| reply(200, "text/html", b"<html>hello</html>"));
        check(&answer(at(&place, &fake, &["whoami"])), 2, words);
    }
    let fake = Fake::new(|_, _| Reply::body(404, "text/html", b"<html>not here</html>"));
    check(&answer(at(&place, &fake, &["runs", "--all"])), 2, &["404", "is that its address?"]);
    let half =
        Fake::new(|_, _| Reply::head(200, &[("content-length", "1000")]).and("{\"items\": ["));
    check(&answer(at(&place, &half, &["runs", "--all"])), 2, &["broke off"]);
}

/// A pasted address may lead anywhere; the token does not go there.
#[test]
fn a_token_never_goes_to_the_server_of_a_pasted_address() {
    let place = Place::new();
    let (own, other) =
        (Fake::new(|_, _| Reply::problem(404, "no")), Fake::new(|_, _| Reply::problem(404, "no")));
    let address = format!("{}/me/app/actions/runs/12345", other.url());
    let mut command = at(&place, &own, &["watch", &address]);
    command.env("KILN_TOKEN", "kpat_mine");
    check(&answer(command), 2, &[&other.url()]);
    assert!(other.count("GET /api/runs/12345") == 1 && own.asked().is_empty());
    assert_eq!(other.asked()[0].header("authorization"), None);
    let mut command = at(&place, &own, &["watch", &format!("{}/runs/r-9ix", own.url())]);
    command.env("KILN_TOKEN", "kpat_mine");
    answer(command);
    assert_eq!(own.asked()[0].header("authorization"), Some("Bearer kpat_mine"));
}

#[test]
fn a_login_is_kept_only_if_the_server_takes_it() {
    let place = Place::new();
    let fake = Fake::new(|asked, _| match asked.header("authorization") {
        Some("Bearer kpat_good") => Reply::json(200, &me()),
        _ => Reply::problem(401, "there is no such token"),
    });
    let login = |token: &str| {
        let input = place.path().join("token.txt");
        std::fs::write(&input, token).unwrap();
        let mut command = bare(&place, &["login", &fake.url()]);
        command.stdin(std::fs::File::open(input).unwrap());
        answer(command)
    };
    let file = place.path().join("home/config/kiln/client.toml");
    check(&login("kpat_bad\n"), 2, &["there is no such token"]);
    check(&login("\n"), 2, &["no token was given"]);
    assert!(!file.exists());
    let said = login("kpat_good\n");
    check(&said, 0, &[]);
    assert!(said.out.contains("you are me (token)"), "{said:#?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let said = answer(bare(&place, &["whoami", "--json"]));
    check(&said, 0, &[]);
    assert_eq!(said.json()["name"], "me");
    std::fs::write(&file, "server = 7\n").unwrap();
    check(&answer(bare(&place, &["whoami"])), 2, &["client.toml:1", "kiln login URL"]);
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary was built for this test")
}

/// The stream breaks, and the server is away for a moment: the watch goes on where it was.
#[test]
fn a_watch_goes_on_after_breaks_and_ends_as_the_run_does() {
    let place = Place::new();
    let fake = Fake::new(|asked, before| {
        let line = asked.line.as_str();
        if line.starts_with("GET /api/runs/12345/events") {
            let head = Reply::head(200, &[("content-type", "text/event-stream")]);
            return match asked.header("last-event-id") {
                None => head.and("id: 1-5\nevent: job\ndata: {}\n\nid: 1-6\ndata: {"),
                Some("1-5") if before == 1 => Reply::nothing(),
                Some("1-5") => head.and("id: 1-7\ndata: {}\n\n"),
                Some(_) => head,
            };
        }
        if line.starts_with("GET /api/jobs/7/log") {
            let log: &[u8] = b"2 1794807075251 1 boom\n";
            return Reply::body(200, "text/plain", if from(asked) == 1 { log } else { b"" });
        }
        match before {
            0 | 1 => Reply::json(
                200,
                &run("in_progress", None, vec![job(7, "test", "in_progress", None)]),
            ),
            2 => Reply::problem(503, "restarting"),
            _ => Reply::json(
                200,
                &run(
                    "completed",
                    Some("failure"),
                    vec![job(7, "test", "completed", Some("failure"))],
                ),
            ),
        }
    });
    let said = answer(at(&place, &fake, &["watch", "r-9ix"]));
    check(&said, 1, &["`kiln logs r-9ix --failed`"]);
    for word in [
        "test │ started on builder",
        "test │ ▸ Test",
        "test │ failed",
        "✗ r-9ix failed",
        "test ▸ Test\n  boom",
    ] {
        assert!(said.out.contains(word), "`{word}` is missing: {said:#?}");
    }
    assert!(!said.out.contains("setting up"), "only the step that failed: {said:#?}");
    assert!(fake.asked().iter().any(|asked| asked.header("last-event-id") == Some("1-5")));
    let lines = answer(at(&place, &fake, &["watch", "r-9ix", "--json"]));
    let last: serde_json::Value =
        serde_json::from_str(lines.code(1).out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (last["event"].as_str(), last["conclusion"].as_str()),
        (Some("run_finished"), Some("failure"))
    );
}

/// Ctrl-C stops the watch, not the run; with the option it cancels.
#[test]
fn an_interrupt_stops_watching_or_cancels() {
    let place = Place::new();
    let fake = Fake::new(|asked, _| {
        if asked.line.starts_with("POST /api/runs/12345/cancel") {
            return Reply::json(202, &run("in_progress", None, Vec::new()).run);
        }
        if asked.line.contains("/events") {
            return Reply::head(200, &[("content-type", "text/event-stream")]).and("data: {}\n\n");
        }
        Reply::json(200, &run("in_progress", None, vec![job(7, "test", "in_progress", None)]))
    });
    let interrupt = |args: &[&str], times: usize| {
        let mut child = spawn(at(&place, &fake, args));
        let mut out = BufReader::new(child.stdout.take().unwrap());
        // It watches once it has shown something.
        let mut text = String::new();
        while !text.contains("started on") {
            assert!(out.read_line(&mut text).unwrap() > 0, "{text}");
        }
        let pid = rustix::process::Pid::from_child(&child);
        for turn in 0..times {
            while fake.count("POST /api/runs/12345/cancel") < turn {
                std::thread::yield_now();
            }
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (child.wait().unwrap().code(), err)
    };
    let (code, err) = interrupt(&["watch", "r-9ix"], 1);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("r-9ix goes on") && err.contains("`kiln cancel r-9ix`"), "{err}");
    assert_eq!(fake.count("POST"), 0);
    let (code, err) = interrupt(&["watch", "r-9ix", "--cancel-on-interrupt"], 2);
    assert_eq!(code, Some(130), "{err}");
    assert_eq!(fake.count("POST /api/runs/12345/cancel"), 1);
}

/// The first line that a request for a log wants.
fn from(asked: &Asked) -> usize {
    let query = asked.line.split_once("from_line=").expect("it says where it begins").1;
    let number = query.split(['&', ' ']).next().and_then(|text| text.parse().ok());
    number.expect("it is a number")
}

/// The connection breaks in the middle of lines, again and again: none is lost, none comes twice.
#[test]
fn a_followed_log_loses_and_doubles_no_line() {
    const PIECE: usize = 47;
    let place = Place::new();
    let line = |number| format!("{} 179480707{number:04} 1 line {number}\n", number + 1);
    let log: Vec<String> = (0..40).map(line).collect();
    let fake = Fake::new(move |asked, before| {
        let line = asked.line.as_str();
        if line.starts_with("GET /api/jobs/7/log") {
            return match from(asked) {
                from if from == 5 && before == 0 => Reply::nothing(),
                from if from > log.len() => Reply::body(200, "text/plain", b""),
                from => {
                    let rest = log[from - 1..].concat();
                    let end = PIECE.min(rest.len());
                    Reply::head(200, &[("content-length", "100000")]).and(&rest[..end])
                }
            };
        }
        if line.starts_with("GET /api/jobs/7") {
            return Reply::json(200, &job(7, "test", "completed", Some("success")));
        }
        Reply::json(200, &run("in_progress", None, vec![job(7, "test", "in_progress", None)]))
    });
    let said = answer(at(&place, &fake, &["logs", "r-9ix", "--follow", "--raw"]));
    let expect = (0..40).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
    assert_eq!(said.code(0).out, expect);
    assert!(fake.count("GET /api/jobs/7/log") > 20, "it broke often");
}

/// C11: a server that is away when the job is over is waited for as while it ran: the last lines come all the same.
#[test]
fn a_followed_log_is_read_to_its_end_however_often_the_server_dies_then() {
    const DEATHS: usize = 5;
    let place = Place::new();
    let fake = Fake::new(move |asked, before| {
        let line = asked.line.as_str();
        if line.starts_with("GET /api/jobs/7/log") {
            return match (line.contains("follow=true"), from(asked)) {
                (true, _) => Reply::body(200, "text/plain", b"1 1794807070000 1 first\n"),
                (false, 2) if before < DEATHS => Reply::nothing(),
                (false, 2) => Reply::body(200, "text/plain", b"2 1794807070001 1 last\n"),
                (false, _) => Reply::body(200, "text/plain", b""),
            };
        }
        if line.starts_with("GET /api/jobs/7") {
            return Reply::json(200, &job(7, "test", "completed", Some("success")));
        }
        Reply::json(200, &run("in_progress", None, vec![job(7, "test", "in_progress", None)]))
    });
    let said = answer(at(&place, &fake, &["logs", "r-9ix", "--follow", "--raw"]));
    assert_eq!(said.code(0).out, "first\nlast\n");
}

#[test]
fn a_log_is_of_the_job_that_failed_and_says_which_that_is() {
    let place = Place::new();
    let fake = Fake::new(|asked, _| {
        let line = asked.line.as_str();
        let log: [&[u8]; 3] = [
            b"1 1794807075250 0 hello\n",
            b"2 1794807075251 1 \x1b[31mred\x1b[0m \x1b[2J\n",
            b"3 1794807075252 1 ##[error]boom\n",
        ];
        if line.starts_with("GET /api/jobs/8/log") {
            // The server chooses lines.
            let wanted = match line {
                _ if line.contains("tail=1") => &log[2..],
                _ if line.contains("step=1") => &log[..1],
                _ if line.contains("grep=boom") => &log[2..],
                _ => &log[..],
            };
            return match from(asked) {
                1 => Reply::body(200, "text/plain", &wanted.concat()),
                _ => Reply::body(200, "text/plain", b""),
            };
        }
        let jobs = vec![
            job(7, "lint", "completed", Some("success")),
            job(8, "test", "completed", Some("failure")),
        ];
        Reply::json(200, &run("completed", Some("failure"), jobs))
    });
    let said = answer(at(&place, &fake, &["logs", "r-9ix"]));
    check(&said, 0, &["`test` of 2 jobs", "--job NAME"]);
    assert_eq!(said.out, "▸ Set up\nhello\n▸ Test\nred \nerror: boom\n");
    let said =
        answer(at(&place, &fake, &["logs", "r-9ix", "--failed", "--timestamps", "--tail", "1"]));
    assert_eq!(said.code(0).out, "── test\n▸ Test\n2026-11-16T05:31:15.252Z error: boom\n");
    let said =
        answer(at(&place, &fake, &["logs", "r-9ix", "--job", "te", "--step", "set", "--json"]));
    assert_eq!(said.code(0).json()["text"], "hello");
    assert_eq!(said.json()["line"], 1);
    let said =
        answer(at(&place, &fake, &["logs", "r-9ix", "--grep", "boom", "--job", "test", "-i"]));
    assert_eq!(said.code(0).out, "▸ Test\nerror: boom\n");
    assert!(fake.count("GET /api/jobs/8/log") > 3);
    check(
        &answer(at(&place, &fake, &["logs", "r-9ix", "--job", "x"])),
        1,
        &["no job `x`", "`lint`, `test`"],
    );
    check(
        &answer(at(&place, &fake, &["logs", "r-9ix", "--step", "9", "--job", "test"])),
        1,
        &["no step `9`"],
    );
    check(&answer(at(&place, &fake, &["logs", "nonsense"])), 2, &["names no run or job"]);
}

/// A run of two attempts: the second ran `test` again, its second claim at last, and took `lint` over.
fn two_attempts(asked: &Asked) -> Reply {
    let line = asked.line.as_str();
    if let Some(rest) = line.strip_prefix("GET /api/jobs/") {
        let (id, _) = rest.split_once('/').expect("it is about the log");
        let claim = if line.contains("attempt=2") { 2 } else { 1 };
        let text = format!("1 1794807075250 1 needle of {id} in claim {claim}\n");
        return Reply::body(
            200,
            "text/plain",
            if from(asked) == 1 { text.as_bytes() } else { b"" },
        );
    }
    let job = |id, name: &str, run_attempt, attempt| Job {
        run_attempt,
        attempt,
        ..job(id, name, "completed", Some("failure"))
    };
    let (attempt, jobs) = if line.contains("attempt=1") {
        (1, vec![job(7, "lint", 1, 1), job(8, "test", 1, 1)])
    } else {
        (2, vec![job(17, "lint", 1, 1), job(18, "test", 2, 2)])
    };
    let mut detail = run("completed", Some("failure"), jobs);
    detail.run.attempt = attempt;
    Reply::json(200, &detail)
}

/// C9
#[test]
fn a_search_in_a_run_looks_into_every_attempt_and_claim_and_says_which() {
    let place = Place::new();
    let fake = Fake::new(|asked, _| two_attempts(asked));
    let grep = |more: &[&str]| {
        let words = [&["logs", "r-9ix", "--grep", "needle"], more].concat();
        answer(at(&place, &fake, &words)).code(0).out.clone()
    };
    let line = |heading: &str, id: u32, claim: u32| {
        format!("── {heading}\n▸ Test\nneedle of {id} in claim {claim}\n")
    };
    let first = [line("lint attempt 1", 7, 1), line("test attempt 1", 8, 1)].concat();
    let again = [line("test attempt 2, claim 1", 18, 1), line("test attempt 2, claim 2", 18, 2)];
    assert_eq!(grep(&[]), first + &again.concat());
    assert_eq!(grep(&["--attempt", "1"]), [line("lint", 7, 1), line("test", 8, 1)].concat());
    // One that is named has what it took over.
    let taken = line("lint attempt 1", 17, 1);
    assert_eq!(grep(&["--attempt", "2"]), taken + &again.concat());
    assert_eq!(grep(&["--claim", "2"]), again[1]);
    let said = grep(&["--json", "--claim", "2"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((&said["run_attempt"], &said["attempt"]), (&2.into(), &2.into()), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let page: Page<Run> = Page {
        items: (0..100).map(|_| run("completed", Some("success"), Vec::new()).run).collect(),
        next: Some("more".to_owned()),
    };
    let fake = Fake::new(move |asked, before| {
        let next = (before == 0 || !asked.line.contains("after=more")).then(|| "more".to_owned());
        Reply::json(200, &Page { next, items: page.items.clone() })
    });
    let mut child = spawn(at(&place, &fake, &["runs", "--all", "--json", "--limit", "5000"]));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

/// O2: a pasted address is asked at its own server, with the token that is kept for that one.
#[test]
fn an_address_of_another_server_is_asked_there_with_its_own_token() {
    let place = Place::new();
    let answers = |asked: &Asked, _: usize| match asked.line.as_str() {
        line if line.starts_with("GET /api/me") => Reply::json(200, &me()),
        _ => Reply::json(200, &one_run()),
    };
    let (one, other) = (Fake::new(answers), Fake::new(answers));
    for (name, fake) in [("other", &other), ("one", &one)] {
        let token = format!("kpat_{name}");
        let args = ["login", &fake.url(), "--context", name, "--token", &token];
        answer(bare(&place, &args)).code(0);
    }
    let before = one.asked().len();
    let page = format!("{}/me/app/actions", other.url());
    for args in [&["runs", "--repo", &page][..], &["queue", "--repo", &page, "--json"]] {
        let said = answer(bare(&place, args));
        // A list of runs is no queue, but that is said by the right server.
        assert!(said.code == 0 || args[0] == "queue", "{said:#?}");
    }
    assert_eq!(one.asked().len(), before, "the one that usually counts was not asked");
    let asked = other.asked();
    let runs = asked.iter().find(|asked| asked.line.contains("/api/runs?repo=me%2Fapp"));
    assert_eq!(runs.expect("it was asked").header("authorization"), Some("Bearer kpat_other"));
    assert!(asked.iter().any(|asked| asked.line.contains("/api/queue?repo=me%2Fapp")));
    let named = answer(bare(&place, &["runs", "--repo", &page, "--context", "one"]));
    check(&named, 2, &["leave out one of them"]);
}
