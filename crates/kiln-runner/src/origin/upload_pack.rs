//! Answers what git asks of a server it only reads from, by way of git itself.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::git;
use crate::loopback::http::{Fault, Head, MAX_BODY};
use crate::loopback::patience::Patience;
use crate::process::{self, Command, Control, Ending, Ends, Limits, Sink, Stream, Tree};

use super::token::Tokens;

/// A request must have arrived by then.
const REQUEST_TIME: Duration = Duration::from_mins(1);
/// A client that takes nothing for so long is gone.
const WRITE_TIME: Duration = Duration::from_mins(1);
/// One fetch, at most.
const ANSWER_TIME: Duration = Duration::from_mins(30);

/// What finds the repository of a path, and is asked only by those who may know.
pub(super) type Find = dyn Fn(&str) -> Result<Option<PathBuf>, String> + Send + Sync;

pub(super) struct UploadPack {
    pub(super) tokens: Tokens,
    pub(super) find: Arc<Find>,
    /// Where bodies are kept while git reads them.
    pub(super) directory: PathBuf,
    pub(super) control: Control,
    pub(super) tree: Tree,
    pub(super) bodies: AtomicUsize,
}

/// A status, and what it means here.
type Refusal = (&'static str, String);

impl UploadPack {
    pub(super) fn answer(&self, stream: &TcpStream) {
        let _ = stream.set_write_timeout(Some(WRITE_TIME));
        let mut from = BufReader::new(Patience::within(stream, REQUEST_TIME));
        let refusal = match self.respond(&mut from, stream) {
            Ok(Ok(())) | Err(Fault::Gone) => None,
            Ok(Err(refusal)) => Some(refusal),
            Err(Fault::Malformed(why)) => Some(("400 Bad Request", why.to_owned())),
            Err(Fault::TooLarge) => {
                Some(("413 Content Too Large", "the request is too large".to_owned()))
            }
        };
        if let Some((status, why)) = refusal {
            refuse(stream, status, &why);
            // What was sent and not read would cut off the answer.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = io::copy(&mut from.take(1024 * 1024), &mut io::sink());
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn respond(
        &self,
        from: &mut BufReader<Patience<'_>>,
        stream: &TcpStream,
    ) -> Result<Result<(), Refusal>, Fault> {
        let head = Head::read(from)?;
        let (directory, is_advertisement) = match self.route(&head) {
            Ok(route) => route,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let stdin = if is_advertisement {
            File::open("/dev/null")?
        } else {
            if head.header("expect").is_some_and(|it| it.eq_ignore_ascii_case("100-continue")) {
                write_all(stream, b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            self.body(&head, from)?
        };
        let protocol = head.header("git-protocol").filter(|text| is_protocol(text)).unwrap_or("");
        begin(stream, is_advertisement, protocol)?;
        self.run_git(&directory, is_advertisement, protocol, stdin, stream)?;
        Ok(Ok(()))
    }

    /// Which repository is asked for, and whether only for its refs. Strangers learn nothing.
    fn route(&self, head: &Head) -> Result<(PathBuf, bool), Refusal> {
        if !self.tokens.admit(head.header("authorization")) {
            return Err(("401 Unauthorized", "the token of the job is needed".to_owned()));
        }
        let read_only = || ("403 Forbidden", "this server can only be read from".to_owned());
        let (repository, is_advertisement) =
            if let Some(rest) = head.path.strip_suffix("/info/refs") {
                if head.query != "service=git-upload-pack" {
                    return Err(read_only());
                }
                (rest, true)
            } else if let Some(rest) = head.path.strip_suffix("/git-upload-pack") {
                (rest, false)
            } else if head.path.ends_with("/git-receive-pack") {
                return Err(read_only());
            } else {
                return Err(("404 Not Found", format!("there is no `{}` here", head.path)));
            };
        if head.method != if is_advertisement { "GET" } else { "POST" } {
            return Err(("405 Method Not Allowed", format!("`{}` is not for this", head.method)));
        }
        match (self.find)(repository) {
            Ok(Some(directory)) => Ok((directory, is_advertisement)),
            Ok(None) => Err(("404 Not Found", format!("there is no repository `{repository}`"))),
            Err(why) => Err(("500 Internal Server Error", why)),
        }
    }

    /// The body in a file that has no name any more.
    fn body(&self, head: &Head, from: &mut BufReader<Patience<'_>>) -> Result<File, Fault> {
        let number = self.bodies.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("request-{number}"));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        head.copy_body(from, &mut file, MAX_BODY)?;
        file.rewind()?;
        Ok(file)
    }

    /// git writes to the connection itself: nothing is copied on the way.
    fn run_git(
        &self,
        directory: &Path,
        is_advertisement: bool,
        protocol: &str,
        stdin: File,
        stream: &TcpStream,
    ) -> io::Result<()> {
        let mut words = vec![
            "-c",
            "uploadpack.allowAnySHA1InWant=true",
            "-c",
            "uploadpack.allowFilter=true",
            "upload-pack",
            "--strict",
            "--stateless-rpc",
        ];
        words.extend(is_advertisement.then_some("--advertise-refs"));
        let mut args: Vec<_> = words.into_iter().map(Into::into).collect();
        args.push(directory.as_os_str().to_owned());
        let mut env = git::environment();
        env.push(("GIT_PROTOCOL".into(), protocol.into()));
        let command = Command { program: "git".into(), args, env, cwd: self.directory.clone() };
        let ends = Ends { stdin: stdin.into(), stdout: stream.try_clone()?.into() };
        let limits = Limits { wall: Some(ANSWER_TIME), ..Limits::default() };
        // Of its own, so that one that takes too long takes no other with it.
        let tree = self.tree.child()?;
        // A git that fails tells its client so, in its own protocol.
        process::run_between(&command, ends, &mut Unheard, &self.control, &limits, &tree)?;
        Ok(())
    }
}

fn begin(stream: &TcpStream, is_advertisement: bool, protocol: &str) -> io::Result<()> {
    let kind = if is_advertisement { "advertisement" } else { "result" };
    write_all(
        stream,
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-{kind}\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n"
        )
        .as_bytes(),
    )?;
    let is_second = protocol.split(':').any(|part| part == "version=2");
    if is_advertisement && !is_second {
        write_all(stream, b"001e# service=git-upload-pack\n0000")?;
    }
    Ok(())
}

fn refuse(stream: &TcpStream, status: &str, why: &str) {
    let challenge =
        if status.starts_with("401") { "WWW-Authenticate: Basic realm=\"kiln\"\r\n" } else { "" };
    let length = why.len() + 1;
    let text = format!(
        "HTTP/1.1 {status}\r\n{challenge}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    );
    // Whoever does not want to hear it has hung up.
    let _ = write_all(stream, text.as_bytes());
}

fn write_all(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)
}

/// What may become an environment variable of git.
fn is_protocol(text: &str) -> bool {
    text.len() <= 200
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=:._-".contains(&byte))
}

struct Unheard;

impl Sink for Unheard {
    fn line(&mut self, _: Stream, _: &[u8], _: Ending) {}
}
