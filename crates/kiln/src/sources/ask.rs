//! One question to git: bounded in time and size, without anybody's terminal or password in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use kiln_runner::process::{
    Command, Control, End, Ending, Ends, Limits, Sink, Stream, Tree, run_between,
};
use kiln_server::config::Outbound;
use kiln_server::sources::SourceError;

/// How much of git's complaints is kept.
const COMPLAINTS: usize = 16 << 10;
/// Ways by which git may reach others. `ext` would run any program.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// The git of this machine.
#[derive(Debug)]
pub(super) struct Git {
    environment: Vec<(OsString, OsString)>,
    control: Control,
    tree: Tree,
}

/// What is asked, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'q> {
    pub(super) place: &'q Path,
    pub(super) words: &'q [&'q str],
    /// Settings of git beside the usual ones.
    pub(super) settings: &'q [(&'q str, &'q str)],
    /// What a client of git speaks.
    pub(super) protocol: Option<&'q str>,
    pub(super) wall: Duration,
}

impl<'q> Question<'q> {
    pub(super) fn new(place: &'q Path, words: &'q [&'q str], wall: Duration) -> Self {
        Self { place, words, settings: &[], protocol: None, wall }
    }
}

/// What git answered.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
    pub(super) end: End,
}

impl Said {
    /// What it printed, if it succeeded.
    pub(super) fn ok(self) -> Option<Vec<u8>> {
        (self.end == End::Exited(0)).then_some(self.output)
    }

    pub(super) fn or_broken(self) -> Result<Vec<u8>, SourceError> {
        let why = self.why();
        self.ok().ok_or(SourceError::Broken(why))
    }

    /// For questions that fail when the thing is not there.
    pub(super) fn or_missing(self) -> Result<Vec<u8>, SourceError> {
        let why = self.why();
        match self.end {
            End::Exited(0 | 1 | 128) => self.ok().ok_or(SourceError::NotFound(why)),
            _ => Err(SourceError::Broken(why)),
        }
    }

    fn why(&self) -> String {
        match self.end {
            End::TimedOut => "git took too long".to_owned(),
            End::Cancelled => "the server is stopping".to_owned(),
            _ if self.errors.trim().is_empty() => "git failed without a word".to_owned(),
            _ => self.errors.trim().to_owned(),
        }
    }
}

/// Keeps the beginning of what git complains about.
#[derive(Default)]
struct Complaints(Vec<u8>);

impl Sink for Complaints {
    fn line(&mut self, _: Stream, text: &[u8], _: Ending) {
        let room = COMPLAINTS.saturating_sub(self.0.len());
        self.0.extend_from_slice(&text[..text.len().min(room)]);
        self.0.push(b'\n');
    }
}

impl Git {
    /// The git of this machine, with nothing of the server's user: whoever may name an address must not
    /// fetch with that user's passwords. `home` is a folder without files.
    pub(super) fn new(outbound: &Outbound, home: &Path) -> io::Result<Self> {
        let mut environment = inherited();
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            environment.push((name.into(), home.into()));
        }
        let mut set = |name: &str, value: &str| environment.push((name.into(), value.into()));
        // Settings may name programs that know passwords.
        set("GIT_CONFIG_NOSYSTEM", "1");
        set("GIT_CONFIG_GLOBAL", "/dev/null");
        // Nobody is there to type a password.
        set("GIT_TERMINAL_PROMPT", "0");
        set("GIT_ASKPASS", "true");
        set("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        set("GIT_ALLOW_PROTOCOL", PROTOCOLS);
        // Languages would change what we look for in answers.
        set("LC_ALL", "C.UTF-8");
        set("GIT_OPTIONAL_LOCKS", "0");
        if let Some(proxy) = &outbound.proxy {
            for name in ["http_proxy", "https_proxy", "HTTPS_PROXY"] {
                set(name, proxy);
            }
        }
        if !outbound.no_proxy.is_empty() {
            set("no_proxy", &outbound.no_proxy.join(","));
        }
        if let Some(file) = &outbound.ca_file {
            set("GIT_SSL_CAINFO", &file.to_string_lossy());
        }
        Ok(Self { environment, control: Control::new()?, tree: Tree::new(None)? })
    }

    /// Asks and waits for all of the answer.
    pub(super) fn ask(
        &self,
        place: &Path,
        words: &[&str],
        wall: Duration,
        most: usize,
    ) -> Result<Said, SourceError> {
        self.talk(Question::new(place, words, wall), nothing()?, |output| bounded(output, most))
            .map(|(output, said)| Said { output, ..said })
    }

    /// Runs git with this input, and has its output read by `read`. When that ends early, so does git.
    pub(super) fn talk<T>(
        &self,
        question: Question<'_>,
        input: OwnedFd,
        read: impl FnOnce(PipeReader) -> io::Result<T>,
    ) -> Result<(T, Said), SourceError> {
        let command = self.command(question);
        let (reader, writer) = io::pipe().map_err(|error| cannot(&error))?;
        let ends = Ends { stdin: input, stdout: writer.into() };
        let limits = Limits { wall: Some(question.wall), ..Limits::default() };
        // Of its own, so that one that takes too long takes no other with it.
        let tree = self.tree.child().map_err(|error| cannot(&error))?;
        let mut complaints = Complaints::default();
        let (read, outcome) = std::thread::scope(|scope| {
            let sink = &mut complaints;
            let running =
                scope.spawn(|| run_between(&command, ends, sink, &self.control, &limits, &tree));
            let read = read(reader);
            let outcome = running.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            (read, outcome)
        });
        let outcome = outcome.map_err(|error| cannot(&error))?;
        let errors = String::from_utf8_lossy(&complaints.0).into_owned();
        let said = Said { output: Vec::new(), errors, end: outcome.end };
        match read {
            Ok(read) => Ok((read, said)),
            Err(error) => Err(SourceError::Broken(error.to_string())),
        }
    }

    fn command(&self, question: Question<'_>) -> Command {
        let Question { place, words, settings, protocol, .. } = question;
        // The folder may be somebody else's: whoever added it to the server meant it. Settings go by the
        // environment, where an address with a password is not seen by other users.
        let mut all = vec![("safe.directory", "*"), ("gc.auto", "0")];
        all.extend([("maintenance.auto", "false"), ("log.showSignature", "false")]);
        // A public host must not lead to a private one.
        all.push(("http.followRedirects", "false"));
        all.extend(settings.iter().copied());
        let mut env = self.environment.clone();
        env.push(("GIT_CONFIG_COUNT".into(), all.len().to_string().into()));
        for (at, (name, value)) in all.iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{at}").into(), name.into()));
            env.push((format!("GIT_CONFIG_VALUE_{at}").into(), value.into()));
        }
        env.extend(protocol.map(|protocol| ("GIT_PROTOCOL".into(), protocol.into())));
        let mut args: Vec<OsString> = vec!["-C".into(), place.as_os_str().to_owned()];
        args.extend(words.iter().map(OsString::from));
        Command { program: "git".into(), args, env, cwd: "/".into() }
    }
}

/// What git may know of the environment: all but its own variables and where the user's files are.
#[expect(clippy::disallowed_methods, reason = "git needs to find its programs")]
fn inherited() -> Vec<(OsString, OsString)> {
    let is_personal = |name: &OsStr| {
        let own = ["HOME", "XDG_CONFIG_HOME", "SSH_ASKPASS", "NETRC"];
        name.as_encoded_bytes().starts_with(b"GIT_") || own.iter().any(|known| name == *known)
    };
    std::env::vars_os().filter(|(name, _)| !is_personal(name)).collect()
}

/// All of an answer, unless it is longer than what Kiln takes.
pub(super) fn bounded(output: impl io::Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that there is more.
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    output.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let size = most >> 20;
        let message = format!("git answers with more than {size} MiB, which Kiln does not take");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn cannot(error: &io::Error) -> SourceError {
    SourceError::Broken(format!("cannot ask git: {error}"))
}

/// Nothing to read.
pub(super) fn nothing() -> Result<OwnedFd, SourceError> {
    Ok(File::open("/dev/null").map_err(|error| cannot(&error))?.into())
}

/// These bytes, for git to read.
pub(super) fn input(bytes: &[u8]) -> Result<OwnedFd, SourceError> {
    let made = (|| {
        let (reader, mut writer) = io::pipe()?;
        let bytes = bytes.to_owned();
        // Git may answer before it has read everything, and may stop reading.
        std::thread::Builder::new().name("git input".to_owned()).spawn(move || {
            let _ = writer.write_all(&bytes);
        })?;
        Ok(OwnedFd::from(reader))
    })();
    made.map_err(|error: io::Error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_end_is_refused_with_how_much_is_taken() {
        assert_eq!(bounded(&b"abc"[..], 3).unwrap(), b"abc");
        let error = bounded(io::repeat(b'x'), 2 << 20).unwrap_err();
        assert!(error.to_string().contains("more than 2 MiB"), "{error}");
    }
}
