//! A server that misbehaves on purpose. What it answers has the shapes of `kiln-proto`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use kiln_proto::api::{Job, Run, RunDetail, Step};
use kiln_proto::problem::Problem;
use serde::Serialize;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Method and path with its query: `GET /api/me`.
    pub(crate) line: String,
    headers: BTreeMap<String, String>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What is answered: the bytes after which the connection is closed.
pub(crate) struct Reply(Vec<Piece>);

enum Piece {
    Bytes(Vec<u8>),
    /// Waits until this is dropped or sent to.
    Wait(std::sync::mpsc::Receiver<()>),
}

impl Reply {
    pub(crate) fn json(status: u16, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("it is JSON");
        Self::body(status, "application/json", &body)
    }

    pub(crate) fn problem(status: u16, detail: &str) -> Self {
        let problem = Problem {
            kind: "about:blank#test".to_owned(),
            title: "Refused".to_owned(),
            status,
            detail: Some(detail.to_owned()),
            instance: None,
            message: detail.to_owned(),
            documentation_url: None,
            wanted: None,
        };
        Self::json(status, &problem)
    }

    pub(crate) fn body(status: u16, kind: &str, body: &[u8]) -> Self {
        Self::head(status, &[("content-type", kind), ("content-length", &body.len().to_string())])
            .and(body)
    }

    pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        Self(vec![Piece::Bytes(format!("{head}\r\n").into_bytes())])
    }

    /// A part of a body that has no length.
    pub(crate) fn and(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.push(Piece::Bytes(bytes.as_ref().to_vec()));
        self
    }

    pub(crate) fn wait(mut self, until: std::sync::mpsc::Receiver<()>) -> Self {
        self.0.push(Piece::Wait(until));
        self
    }

    /// The connection just ends.
    pub(crate) fn nothing() -> Self {
        Self(Vec::new())
    }
}

type Answers = dyn Fn(&Asked, usize) -> Reply + Send + Sync;

/// A server on loopback until it is dropped.
pub(crate) struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Answers each request by its text and by how often that text came before.
    pub(crate) fn new(answers: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it listens");
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, ended) = (Arc::clone(&asked), Arc::clone(&stop));
        let answers: Arc<Answers> = Arc::new(answers);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
                // Each ends with its client.
                std::thread::spawn(move || {
                    let _ = serve(&stream.expect("a client"), &log, &*answers);
                });
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test panics inside").clone()
    }

    /// The requests that begin so.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.asked().iter().filter(|asked| asked.line.starts_with(line)).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Asked>>, answers: &Answers) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_end(&mut Vec::new())?;
    let asked = Asked { line, headers };
    let before = {
        let mut log = log.lock().expect("no test panics inside");
        let before = log.iter().filter(|other| other.line == asked.line).count();
        log.push(asked.clone());
        before
    };
    let mut stream = stream;
    for piece in answers(&asked, before).0 {
        match piece {
            Piece::Bytes(bytes) => stream.write_all(&bytes)?,
            Piece::Wait(until) => {
                let _ = until.recv();
            }
        }
    }
    stream.flush()
}

/// A run of one workflow.
pub(crate) fn run(status: &str, conclusion: Option<&str>, jobs: Vec<Job>) -> RunDetail {
    RunDetail {
        run: Run {
            id: 12_345,
            slug: "r-9ix".to_owned(),
            repo: "me/app".to_owned(),
            workflow: ".github/workflows/ci.yml".to_owned(),
            name: "CI".to_owned(),
            title: "Make it faster".to_owned(),
            number: 7,
            attempt: 1,
            event: "push".to_owned(),
            actor: "me".to_owned(),
            reference: "refs/heads/main".to_owned(),
            sha: "0".repeat(40),
            status: status.to_owned(),
            conclusion: conclusion.map(str::to_owned),
            reason: None,
            created_at: "2026-11-16T05:28:00.000Z".to_owned(),
            started_at: Some("2026-11-16T05:28:03.000Z".to_owned()),
            ended_at: conclusion.map(|_| "2026-11-16T05:29:15.000Z".to_owned()),
            url: "http://127.0.0.1:8420/me/app/actions/runs/12345".to_owned(),
        },
        cancelled_by: None,
        cancel_reason: None,
        note: None,
        jobs,
    }
}

/// A job with two steps, of which the second ends as the job does.
pub(crate) fn job(id: i64, name: &str, status: &str, conclusion: Option<&str>) -> Job {
    let step = |number, name: &str, status: &str, conclusion: Option<&str>| Step {
        number,
        name: name.to_owned(),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        exit_code: None,
        started_at: None,
        ended_at: None,
    };
    Job {
        id: Some(id),
        slug: Some(format!("j-{id}")),
        run_id: 12_345,
        run_attempt: 1,
        name: name.to_owned(),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        reason: String::new(),
        attempt: 1,
        runner: Some("builder".to_owned()),
        runner_id: Some(1),
        queued_at: None,
        claimed_at: None,
        started_at: Some("2026-11-16T05:28:03.000Z".to_owned()),
        ended_at: conclusion.map(|_| "2026-11-16T05:29:15.000Z".to_owned()),
        steps: vec![
            step(1, "Set up", "completed", Some("success")),
            step(2, "Test", status, conclusion),
        ],
        outputs: BTreeMap::new(),
        reused_from: None,
        used: None,
        allowed: None,
        deployment: None,
        claims: Vec::new(),
        prepared_at: None,
        node: 0,
        needs: Vec::new(),
    }
}
