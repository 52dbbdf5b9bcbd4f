//! Contents of files, and what git clients fetch.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use kiln_server::sources::SourceError;

use super::ask::{Git, Question, input};
use super::names::is_commit;

/// Reading a few files takes no longer.
const READING: Duration = Duration::from_mins(1);
/// One fetch of a client, at most.
const SENDING: Duration = Duration::from_mins(30);
/// How many commits of a request are looked up.
const WANTS: usize = 1_000;

/// The contents of files of a commit, with one process for all of them.
pub(super) fn read(
    git: &Git,
    place: &Path,
    commit: &str,
    paths: &[String],
    limit: usize,
) -> Result<Vec<Option<Vec<u8>>>, SourceError> {
    let mut question = format!("{commit}^{{commit}}\n").into_bytes();
    for path in paths {
        // A name with a line break cannot be asked for.
        let path = if path.contains('\n') { "/" } else { path.trim_start_matches('/') };
        let _ = writeln!(question, "{commit}:{path}");
    }
    let words = ["cat-file", "--batch", "--buffer"];
    let wanted = paths.len();
    let asked = Question::new(place, &words, READING);
    let answer = git.talk(asked, input(&question)?, |output| {
        let mut output = BufReader::new(output);
        // The commit itself comes first: whether it is there at all.
        let is_there = next(&mut output, 0)?.is_known;
        let mut contents = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            contents.push(next(&mut output, limit)?.content);
        }
        Ok((is_there, contents))
    });
    let ((is_there, contents), _) = answer?;
    if !is_there {
        return Err(SourceError::NotFound(format!("there is no commit `{commit}`")));
    }
    Ok(contents)
}

/// What `cat-file --batch` says about one object.
struct Object {
    is_known: bool,
    /// If it is a file that is not too large.
    content: Option<Vec<u8>>,
}

fn next(output: &mut impl io::BufRead, limit: usize) -> io::Result<Object> {
    let mut head = String::new();
    if output.read_line(&mut head)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words = head.trim_end().rsplit(' ');
    let size = words.next().and_then(|word| word.parse::<u64>().ok());
    let (Some(size), Some(kind)) = (size, words.next()) else {
        return Ok(Object { is_known: false, content: None });
    };
    let fits = kind == "blob" && usize::try_from(size).is_ok_and(|size| size <= limit);
    let mut content = Vec::new();
    let mut body = output.by_ref().take(size);
    if fits {
        body.read_to_end(&mut content)?;
    } else {
        io::copy(&mut body, &mut io::sink())?;
    }
    // A line break ends each.
    output.read_exact(&mut [0])?;
    Ok(Object { is_known: true, content: fits.then_some(content) })
}

/// The commits that a client asks for.
pub(super) fn wants(body: &[u8]) -> Vec<String> {
    let mut wants = Vec::new();
    for line in body.split(|byte| *byte == b'\n').take(WANTS) {
        // Each line has its length in front: `0032want <commit>`.
        let want = line.get(4..).and_then(|line| line.strip_prefix(b"want "));
        let words = want.map(|want| want.split(|byte| *byte == b' ' || *byte == 0));
        let commit = words.and_then(|mut words| words.next()).map(String::from_utf8_lossy);
        wants.extend(commit.filter(|commit| is_commit(commit)).map(String::from));
    }
    wants
}

/// Whether all of these are there.
pub(super) fn has_all(git: &Git, place: &Path, objects: &[String]) -> Result<bool, SourceError> {
    if objects.is_empty() {
        return Ok(true);
    }
    let question = objects.iter().fold(String::new(), |text, object| text + object + "\n");
    let words = ["cat-file", "--batch-check"];
    let read = |output: io::PipeReader| {
        let lines = BufReader::new(output).lines();
        lines.map(|line| Ok(!line?.ends_with(" missing"))).collect::<io::Result<Vec<bool>>>()
    };
    let (known, _) =
        git.talk(Question::new(place, &words, READING), input(question.as_bytes())?, read)?;
    Ok(known.len() == objects.len() && known.into_iter().all(|known| known))
}

/// Serves one request of the smart protocol. A git that fails tells its client so, in its own protocol.
pub(super) fn upload(
    git: &Git,
    place: &Path,
    protocol: Option<&str>,
    body: Option<Vec<u8>>,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), SourceError> {
    let mut words = vec!["upload-pack", "--stateless-rpc"];
    if body.is_none() {
        words.push("--advertise-refs");
    }
    words.push(".");
    let settings = [("uploadpack.allowAnySHA1InWant", "true"), ("uploadpack.allowFilter", "true")];
    let protocol = protocol.filter(|text| is_protocol(text));
    let question =
        Question { settings: &settings, protocol, ..Question::new(place, &words, SENDING) };
    let input = input(&body.unwrap_or_default())?;
    let copy = |mut output: io::PipeReader| {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match output.read(&mut bytes)? {
                0 => return Ok(()),
                count => write(&bytes[..count])?,
            }
        }
    };
    git.talk(question, input, copy).map(drop)
}

/// What may become an environment variable of git.
fn is_protocol(text: &str) -> bool {
    text.len() <= 200
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=:._-".contains(&byte))
}
