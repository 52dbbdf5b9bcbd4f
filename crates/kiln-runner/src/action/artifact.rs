//! What the inputs of `actions/upload-artifact` and `actions/download-artifact` mean: which files go into an archive
//! under which names, which artifacts a pattern names, and how an archive is put into a folder.

mod raw;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kiln_blob::Hasher;
use kiln_blob::zip::file as archive;
use kiln_blob::zip::read::{Entry, Kind};
use kiln_blob::zip::write::{Manner as OfFile, Zip};
use kiln_lang::hash_files::{Globs, Places};

use crate::gateway::Spooled;
pub(crate) use raw::only;

/// How deep folders are looked into.
const DEEPEST: usize = 256;
/// Characters of a name in an archive, at most.
const LONGEST_NAME: usize = 1_000;
/// Bytes of all paths together, at most: whoever unpacks an archive reads the whole list of its names.
const MOST_NAMES: usize = 48 << 20;
/// Files of one artifact, at most.
const MOST_FILES: usize = 250_000;
/// What an archive may become, as much as an upload may have.
const LARGEST: u64 = 64 << 30;
/// Larger files need numbers that not everybody can read.
const LARGE: u64 = 1 << 30;
const PIECE: usize = 256 << 10;
/// Alternatives of a pattern, at most.
const MOST_ALTERNATIVES: usize = 1_000;

/// Asked again and again while something takes long: an error ends it.
pub(crate) type GoOn<'g> = dyn Fn() -> io::Result<()> + 'g;

/// Files that go into an archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Each with its name in the archive.
    pub(crate) files: Vec<(PathBuf, String)>,
}

/// The files that the lines of `path` name.
pub(crate) fn choose(
    text: &str,
    workspace: &Path,
    home: Option<&str>,
    with_hidden: bool,
    go_on: &GoOn<'_>,
) -> Result<Chosen, String> {
    let base = workspace.to_str().ok_or("the path of the workspace is no text")?;
    let home = home.filter(|home| home.starts_with('/')).map(|home| home.trim_end_matches('/'));
    let globs = Globs::parse(text, Places { workspace: base, home })
        .map_err(|why| why.replace("hashFiles pattern", "pattern of `path`"))?;
    let (files, entered) = (Vec::new(), Vec::new());
    let mut search = Search { globs: &globs, with_hidden, go_on, files, entered, names: 0 };
    let roots = outermost(&globs.search_roots());
    for root in &roots {
        search.look(Path::new(root), 0)?;
    }
    let mut files = search.files;
    files.sort();
    files.dedup();
    let top = top(&roots, &files);
    let named = |file: PathBuf| {
        let name = file.strip_prefix(&top).unwrap_or(&file).to_string_lossy().into_owned();
        can_be_named(&name).map(|()| (file, name))
    };
    Ok(Chosen { files: files.into_iter().map(named).collect::<Result<_, _>>()? })
}

/// Refuses names that whoever unpacks the archive would have to refuse.
fn can_be_named(name: &str) -> Result<(), String> {
    let is_odd = name.contains(|sign: char| sign == '\\' || sign.is_control())
        || name.as_bytes().get(1) == Some(&b':')
        || name.chars().count() > LONGEST_NAME;
    if is_odd {
        return Err(format!("`{}` cannot be a name in an archive", name.escape_default()));
    }
    Ok(())
}

/// A place below another one is part of that.
fn outermost(roots: &[String]) -> Vec<String> {
    let is_inner = |root: &String| {
        roots.iter().any(|other| other != root && Path::new(root).starts_with(other))
    };
    roots.iter().filter(|root| !is_inner(root)).cloned().collect()
}

/// What names in the archive leave out: the one place that was searched, the folder of the one file that was
/// named, or what all places have in common.
fn top(roots: &[String], files: &[PathBuf]) -> PathBuf {
    match roots {
        [root] if files.len() == 1 && files[0] == Path::new(root) => {
            Path::new(root).parent().unwrap_or_else(|| Path::new("/")).to_owned()
        }
        [root] => PathBuf::from(root),
        [] => PathBuf::from("/"),
        [first, rest @ ..] => {
            let mut common = Path::new(first);
            while !rest.iter().all(|other| Path::new(other).starts_with(common)) {
                common = common.parent().unwrap_or_else(|| Path::new("/"));
            }
            common.to_owned()
        }
    }
}

struct Search<'g> {
    globs: &'g Globs,
    with_hidden: bool,
    go_on: &'g GoOn<'g>,
    files: Vec<PathBuf>,
    /// The bytes of their paths.
    names: usize,
    /// The folders on the way, behind all links, so that a link that leads back up is noticed.
    entered: Vec<PathBuf>,
}

impl Search<'_> {
    fn look(&mut self, at: &Path, depth: usize) -> Result<(), String> {
        // Links can make a small tree endless.
        (self.go_on)().map_err(|error| error.to_string())?;
        let text = at.to_str().ok_or_else(|| format!("`{}` is no text", at.display()))?;
        let name = at.file_name().unwrap_or_default().as_encoded_bytes();
        // Links are followed; one that leads nowhere is left out.
        let Ok(found) = fs::metadata(at) else { return Ok(()) };
        if !self.with_hidden && name.starts_with(b".") {
            return Ok(());
        }
        if found.is_file() && self.globs.takes_file(text) {
            if self.files.len() >= MOST_FILES {
                return Err(format!("an artifact may have {MOST_FILES} files"));
            }
            self.names += text.len();
            if self.names > MOST_NAMES {
                return Err("the names of the files are too long together".to_owned());
            }
            self.files.push(at.to_owned());
        }
        if !found.is_dir() || !self.globs.may_take_files_in(text) {
            return Ok(());
        }
        if depth > DEEPEST {
            return Err(format!("`{text}` lies deeper than {DEEPEST} folders"));
        }
        let failed = |error: io::Error| format!("cannot list `{text}`: {error}");
        let real = fs::canonicalize(at).map_err(failed)?;
        if self.entered.contains(&real) {
            return Ok(());
        }
        self.entered.push(real);
        for entry in fs::read_dir(at).map_err(failed)? {
            self.look(&entry.map_err(failed)?.path(), depth + 1)?;
        }
        self.entered.pop();
        Ok(())
    }
}

/// How files become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As they are, one after the other.
    Raw,
    /// In an archive, compressed as far as this.
    Packed(u32),
}

/// Writes files, or an archive of them.
pub(crate) fn pack(
    chosen: &Chosen,
    manner: Manner,
    to: PathBuf,
    go_on: &GoOn<'_>,
) -> Result<Spooled, String> {
    let failed = |error: io::Error| format!("cannot write the archive: {error}");
    let mut draft = Draft { file: File::create(&to).map_err(failed)?, hash: Hasher::default() };
    match manner {
        Manner::Raw => raw::copy(chosen, &mut draft, go_on)?,
        Manner::Packed(level) => pack_into(&mut draft, chosen, level, go_on)?,
    }
    let (hash, size) = draft.hash.finish();
    Ok(Spooled { path: to, size, hash: hash.to_string() })
}

fn pack_into(
    draft: &mut Draft,
    chosen: &Chosen,
    level: u32,
    go_on: &GoOn<'_>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write the archive: {error}");
    let (mut zip, mut piece) = (Zip::default(), vec![0; PIECE]);
    for (path, name) in &chosen.files {
        let unread = |error: io::Error| format!("cannot read `{}`: {error}", path.display());
        let mut file = open_file(path).map_err(unread)?;
        let size = file.metadata().map_err(unread)?.len();
        draft
            .put(&zip.begin_as(name, OfFile { level, is_large: size >= LARGE }))
            .map_err(failed)?;
        loop {
            go_on().map_err(|error| error.to_string())?;
            let length = file.read(&mut piece).map_err(unread)?;
            if length == 0 {
                break;
            }
            let packed = zip.add(&piece[..length]).map_err(unread)?;
            draft.put(&packed).map_err(failed)?;
        }
        draft.put(&zip.end().map_err(failed)?).map_err(failed)?;
    }
    draft.put(&zip.finish()).map_err(failed)
}

/// Opens what was a file when it was chosen. What took its place meanwhile, such as a pipe, must not hold anybody up.
fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no file any more"))
    }
}

/// A file that is hashed while it is written.
struct Draft {
    file: File,
    hash: Hasher,
}

impl Draft {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }
}

/// Copies what comes into a file, which must be these bytes.
pub(crate) fn fetch(
    mut from: impl io::Read,
    (hash, size): (&str, u64),
    to: &Path,
    go_on: &GoOn<'_>,
) -> Result<(), String> {
    let broken = |error: io::Error| format!("the download broke off: {error}");
    let file =
        File::create(to).map_err(|error| format!("cannot write `{}`: {error}", to.display()))?;
    let mut draft = Draft { file, hash: Hasher::default() };
    let mut piece = vec![0; PIECE];
    loop {
        go_on().map_err(|error| error.to_string())?;
        let length = from.read(&mut piece).map_err(broken)?;
        if length == 0 {
            break;
        }
        draft.put(&piece[..length]).map_err(broken)?;
        if draft.hash.size() > size {
            return Err("more came than the artifact has".to_owned());
        }
    }
    let (found, _) = draft.hash.finish();
    if found.to_string() == hash { Ok(()) } else { Err("what came is damaged".to_owned()) }
}

/// Puts the files of an archive into a folder, over those that are there. All of it is looked at before anything
/// is written; names cannot lead elsewhere, and links are not made.
pub(crate) fn unpack(from: &Path, folder: &Path, go_on: &GoOn<'_>) -> Result<usize, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut file = File::open(from).map_err(|error| text(&error))?;
    let entries = archive::entries(&mut file).map_err(|error| text(&error))?;
    let all = entries.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.size));
    if all.is_none_or(|all| all > LARGEST) {
        return Err(format!("the archive would become larger than {LARGEST} bytes"));
    }
    for entry in &entries {
        entry.path(folder).map_err(|error| text(&error))?;
        if entry.kind == Kind::Other {
            return Err(format!("`{}` is a link or no file at all", entry.name.escape_default()));
        }
    }
    for entry in &entries {
        go_on().map_err(|error| text(&error))?;
        place(&mut file, entry, folder, go_on)?;
    }
    Ok(entries.iter().filter(|entry| entry.kind == Kind::File).count())
}

/// A file that is written only as long as somebody wants it.
struct Heeding<'g>(File, &'g GoOn<'g>);

impl io::Write for Heeding<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.1)()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn place(file: &mut File, entry: &Entry, folder: &Path, go_on: &GoOn<'_>) -> Result<(), String> {
    let path = entry.path(folder).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("cannot write `{}`: {error}", path.display());
    if entry.kind == Kind::Folder {
        return fs::create_dir_all(&path).map_err(failed);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // What is there may be a link to somewhere else.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mode = if entry.is_executable() { 0o777 } else { 0o666 };
    let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
    let mut new = Heeding(new.map_err(failed)?, go_on);
    archive::unpack(file, entry, &mut new).map_err(|error| error.to_string())
}

/// Whether a pattern names an artifact: `*`, `?`, `[…]` and `{a,b}`; a `!` before it turns it around.
pub(crate) fn is_named(pattern: &str, name: &str) -> Result<bool, String> {
    let (pattern, turned) = match pattern.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut found = false;
    for one in alternatives(pattern)? {
        // A point at the beginning is named, or not meant.
        let is_seen = !name.starts_with('.') || one.starts_with('.');
        let globs = Globs::parse(&one, Places { workspace: "/", home: None })
            .map_err(|why| why.replace("hashFiles pattern", "`pattern`"))?;
        found |= is_seen && globs.takes(&format!("/{name}"));
    }
    Ok(found != turned)
}

/// All that braces stand for.
fn alternatives(pattern: &str) -> Result<Vec<String>, String> {
    let (mut open, mut done) = (vec![pattern.to_owned()], Vec::new());
    while let Some(one) = open.pop() {
        let parts = one.find('}').and_then(|end| Some((one[..end].rfind('{')?, end)));
        match parts {
            Some((start, end)) => {
                // One more than there may be is too many, however many there are.
                let inner = one[start + 1..end].split(',').take(MOST_ALTERNATIVES + 1);
                open.extend(
                    inner.map(|word| format!("{}{word}{}", &one[..start], &one[end + 1..])),
                );
            }
            None => done.push(one),
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Err(format!("`pattern` stands for more than {MOST_ALTERNATIVES} patterns"));
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(chosen: &Chosen) -> Vec<&str> {
        chosen.files.iter().map(|(_, name)| name.as_str()).collect()
    }

    /// R9
    #[test]
    fn names_in_an_archive_begin_where_the_paths_part() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("w"), folder.path().join("home"));
        for file in
            ["dist/a.js", "dist/in/b.js", "dist/in/b.map", "dist/.secret", "logs/x.txt", "one.txt"]
        {
            write(&work.join(file), file);
        }
        write(&home.join("report/r.xml"), "r");
        symlink("a.js", work.join("dist/link.js")).unwrap();
        symlink("nowhere", work.join("dist/broken.js")).unwrap();
        symlink("..", work.join("dist/in/up")).unwrap();
        let check = |text: &str, hidden: bool, expect: &[&str]| {
            let chosen = choose(text, &work, home.to_str(), hidden, &|| Ok(())).unwrap();
            assert_eq!(names(&chosen), expect, "{text}");
        };
        // Of one place, what lies in it; of one file, its name.
        let usual = ["a.js", "in/b.js", "in/b.map", "link.js"];
        check("dist", false, &usual);
        check("dist/", false, &usual);
        check("dist/**", false, &usual);
        check("dist", true, &[".secret", "a.js", "in/b.js", "in/b.map", "link.js"]);
        check("dist/in/b.js", false, &["b.js"]);
        check("dist/**/*.js\n!dist/in", false, &["a.js", "link.js"]);
        check("dist\n!**/*.map", false, &["a.js", "in/b.js", "link.js"]);
        // Of several, what comes after all that they have in common.
        check("dist/in/*.js\nlogs", false, &["dist/in/b.js", "logs/x.txt"]);
        // A link may lead out of its place, and is followed as long as it does not lead into itself.
        let through = ["a.js", "in/b.js", "in/b.map", "in/up/a.js", "in/up/link.js"];
        check("dist/in\ndist/a.js", false, &through);
        check("dist\ndist/in", false, &usual);
        check("one.txt\n~/report", false, &["home/report/r.xml", "w/one.txt"]);
        check("nowhere", false, &[]);
        assert!(
            choose("../x", &work, None, false, &|| Ok(()))
                .unwrap_err()
                .contains("pattern of `path`")
        );
        assert!(choose("~/x", &work, None, false, &|| Ok(())).unwrap_err().contains("home"));
    }

    /// R9
    #[test]
    fn what_was_packed_comes_out_and_over_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (work, out) = (folder.path().join("w"), folder.path().join("out"));
        let long = "kiln ".repeat(200_000);
        write(&work.join("d/a"), &long);
        write(&work.join("d/e/empty"), "");
        let chosen = choose("d", &work, None, false, &|| Ok(())).unwrap();
        for level in [0, 6, 9] {
            let zip = folder.path().join("a.zip");
            let spooled = pack(&chosen, Manner::Packed(level), zip.clone(), &|| Ok(())).unwrap();
            assert_eq!(spooled.size, fs::metadata(&zip).unwrap().len());
            let copy = folder.path().join("copy.zip");
            let content = (&*spooled.hash, spooled.size);
            fetch(File::open(&zip).unwrap(), content, &copy, &|| Ok(())).unwrap();
            // Not through a link that is there, but in its place.
            write(&folder.path().join("elsewhere"), "untouched");
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).unwrap();
            symlink("../elsewhere", out.join("a")).unwrap();
            assert_eq!(unpack(&copy, &out, &|| Ok(())), Ok(2));
            assert_eq!(fs::read_to_string(out.join("a")).unwrap(), long);
            assert_eq!(fs::read_to_string(out.join("e/empty")).unwrap(), "");
            assert_eq!(fs::read_to_string(folder.path().join("elsewhere")).unwrap(), "untouched");
            let wrong = ("00", spooled.size);
            assert!(fetch(File::open(&zip).unwrap(), wrong, &copy, &|| Ok(())).is_err());
            let short = (&*spooled.hash, 3);
            assert!(fetch(File::open(&zip).unwrap(), short, &copy, &|| Ok(())).is_err());
        }
        let stop = || Err(io::Error::other("enough"));
        assert_eq!(
            pack(&chosen, Manner::Packed(1), folder.path().join("b"), &stop).unwrap_err(),
            "enough"
        );
    }

    /// PEERS 23
    #[test]
    fn an_archive_that_leads_elsewhere_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../evil", "/tmp/evil", "a/../../evil", "a\\b"] {
            let (mut zip, mut bytes) = (Zip::default(), Vec::new());
            for name in ["good", name] {
                bytes.extend(zip.begin(name));
                bytes.extend(zip.add(b"x").unwrap());
                bytes.extend(zip.end().unwrap());
            }
            bytes.extend(zip.finish());
            let (path, out) = (folder.path().join("a.zip"), folder.path().join("out"));
            fs::write(&path, bytes).unwrap();
            assert!(unpack(&path, &out, &|| Ok(())).unwrap_err().contains("attack"), "{name}");
            assert!(!out.exists(), "{name}");
        }
    }

    #[test]
    fn patterns_name_artifacts_as_minimatch_does() {
        for (pattern, name, expect) in [
            ("*", "a", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("bin-*", "bin-linux", true),
            ("bin-*", "bin", false),
            ("bin-?", "bin-10", false),
            ("bin-{linux,mac}-[ab]", "bin-mac-b", true),
            ("bin-{linux,{mac,bsd}}", "bin-bsd", true),
            ("bin-{linux,mac}", "bin-win", false),
            ("!bin-*", "bin-linux", false),
            ("!bin-*", "report", true),
            ("report", "report", true),
            ("Report", "report", false),
        ] {
            assert_eq!(is_named(pattern, name), Ok(expect), "{pattern} {name}");
        }
        assert!(is_named(&"{a,b,c,d}".repeat(10), "a").is_err());
    }

    #[test]
    fn a_tree_that_links_make_endless_ends_when_nobody_wants_it_any_more() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..40 {
            let at = folder.path().join(format!("d{number}"));
            fs::create_dir(&at).unwrap();
            for name in ["a", "b"] {
                symlink(format!("../d{}", number + 1), at.join(name)).unwrap();
            }
        }
        let asked = std::cell::Cell::new(0);
        let patient = || {
            asked.set(asked.get() + 1);
            if asked.get() < 1_000 { Ok(()) } else { Err(io::Error::other("it was cancelled")) }
        };
        let error = choose("d0", folder.path(), None, false, &patient).unwrap_err();
        assert_eq!(error, "it was cancelled");
    }

    #[test]
    fn names_that_nobody_could_unpack_are_refused_and_so_is_what_is_no_file_any_more() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a\\b", "1:x", "bell\u{7}"] {
            let work = folder.path().join(name.len().to_string());
            write(&work.join(name), "x");
            let error = choose(".", &work, None, false, &|| Ok(())).unwrap_err();
            assert!(error.contains("cannot be a name in an archive"), "{error}");
        }
        assert!(open_file(folder.path()).is_err());
        assert!(is_named(&format!("{{{}}}", ",".repeat(100_000)), "x").is_err());
    }
}
