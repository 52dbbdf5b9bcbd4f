//! With a real git, real folders and a real mirror.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::*;

/// A repository with a history, and sources that know where to keep mirrors.
struct Place {
    folder: tempfile::TempDir,
    sources: GitSources,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = GitSources::new(&folder.path().join("data"), &Outbound::default()).unwrap();
        let place = Self { folder, sources };
        place.git(&["init", "-q", "-b", "main", "app"]);
        place.write(".github/workflows/ci.yml", "on: push\n");
        place.write("deep/er/file", "x");
        place.commit("first\n\nwith a body");
        place
    }

    #[expect(clippy::disallowed_methods, reason = "the test makes a repository")]
    fn git(&self, words: &[&str]) -> String {
        let folder = self.folder.path().join("app");
        let folder = if folder.exists() { folder } else { self.folder.path().to_owned() };
        let mut command = Command::new("git");
        command.current_dir(folder).args(["-c", "user.name=Ada", "-c", "user.email=ada@x"]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join("app").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// As a folder, and as something that must be fetched.
    fn both(&self) -> [Location; 2] {
        let folder = self.folder.path().join("app").display().to_string();
        let address = format!("file://{folder}");
        [Location { id: 1, source: folder }, Location { id: 2, source: address }]
    }
}

fn why<T: std::fmt::Debug>(answer: Result<T, SourceError>) -> String {
    match answer.unwrap_err() {
        SourceError::NotFound(why) => format!("not found: {why}"),
        SourceError::Broken(why) => format!("broken: {why}"),
        SourceError::Busy => "busy".to_owned(),
    }
}

#[test]
fn names_mean_branches_then_tags_then_commits() {
    let place = Place::new();
    let first = place.git(&["rev-parse", "HEAD"]);
    place.git(&["tag", "-a", "v1", "-m", "one"]);
    place.git(&["branch", "topic/a"]);
    place.git(&["tag", "main"]);
    place.write("more", "y");
    let second = place.commit("second");
    for location in place.both() {
        let resolve = |name: &str| place.sources.resolve(&location, name).unwrap();
        let named = |commit: &str, reference: &str| Resolved {
            commit: commit.to_owned(),
            reference: Some(reference.to_owned()),
        };
        assert_eq!(place.sources.default_branch(&location).unwrap(), "main");
        assert_eq!(resolve("main"), named(&second, "refs/heads/main"));
        assert_eq!(resolve("refs/tags/main"), named(&first, "refs/tags/main"));
        assert_eq!(resolve("v1"), named(&first, "refs/tags/v1"));
        assert_eq!(resolve("topic/a"), named(&first, "refs/heads/topic/a"));
        assert_eq!(resolve(&first), Resolved { commit: first.clone(), reference: None });
        assert_eq!(resolve(&first[..9]), Resolved { commit: first.clone(), reference: None });
        for wrong in ["topic", "none", "--all", "main~1", "a..b", "", "@{1}", "refs/heads/*", "a b"]
        {
            let answer = why(place.sources.resolve(&location, wrong));
            assert!(answer.starts_with("not found"), "{wrong}: {answer}");
        }
    }
}

#[test]
fn a_branch_means_the_same_wherever_git_keeps_it() {
    let place = Place::new();
    let [folder, _] = place.both();
    let first = place.git(&["rev-parse", "HEAD"]);
    place.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    let resolve = |name: &str| place.sources.resolve(&folder, name).unwrap();
    let is = |commit: &str, name: &str| {
        let reference = Some(format!("refs/heads/{name}"));
        assert_eq!(resolve(name), Resolved { commit: commit.to_owned(), reference });
    };
    is(&first, "main");
    is(&first, "alias");
    place.git(&["pack-refs", "--all"]);
    is(&first, "main");
    // The file is newer than what was packed.
    place.write("more", "x");
    let second = place.commit("second");
    is(&second, "main");
    is(&second, "alias");
    let bad = place.folder.path().join("app/.git/refs/heads/broken");
    std::fs::write(bad, "no commit at all\n").unwrap();
    assert!(place.sources.resolve(&folder, "broken").is_err());
    place.git(&["worktree", "add", "-q", "-b", "linked", "../linked"]);
    let linked = place.folder.path().join("linked").display().to_string();
    let linked = Location { id: 3, source: linked };
    assert_eq!(place.sources.resolve(&linked, "linked").unwrap().commit, second);
}

#[test]
fn files_of_a_commit_are_listed_and_read_in_one_go() {
    let place = Place::new();
    std::os::unix::fs::symlink("file", place.folder.path().join("app/deep/link")).unwrap();
    place.write("deep/large", &"x".repeat(2_000));
    place.write("deep/ünï cödé", "ü");
    let commit = place.commit("more");
    for location in place.both() {
        let sources = &place.sources;
        let listed = sources.list(&location, &commit, ".github/workflows").unwrap();
        assert_eq!(listed, [".github/workflows/ci.yml"]);
        assert_eq!(sources.list(&location, &commit, "none").unwrap(), Vec::<String>::new());
        let listed = sources.list(&location, &commit, "deep/").unwrap();
        assert_eq!(listed, ["deep/er/file", "deep/large", "deep/ünï cödé"]);
        let paths = ["deep/er/file", "deep", "none", "deep/large", "a\nb", "deep/ünï cödé"]
            .map(String::from);
        let read = sources.read(&location, &commit, &paths, 1_000).unwrap();
        let expect = [Some(&b"x"[..]), None, None, None, None, Some("ü".as_bytes())];
        assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), expect);
        let missing = "1234567890123456789012345678901234567890";
        assert!(why(sources.read(&location, missing, &paths, 1)).starts_with("not found"));
        assert!(why(sources.list(&location, "--help", "x")).starts_with("not found"));
    }
}

#[test]
fn a_commit_says_who_made_it_and_what_changed() {
    let place = Place::new();
    let first = place.git(&["rev-parse", "HEAD"]);
    place.write("deep/er/file", "y");
    let second = place.commit("second");
    for location in place.both() {
        let about = place.sources.commit(&location, &first).unwrap();
        assert_eq!(about.message, "first\n\nwith a body");
        assert_eq!((about.author_name.as_str(), about.author_email.as_str()), ("Ada", "ada@x"));
        assert!(about.authored_at.contains('T') && about.parents.is_empty(), "{about:?}");
        assert_eq!(
            place.sources.commit(&location, &second).unwrap().parents,
            std::slice::from_ref(&first)
        );
        let changed = place.sources.changed(&location, &first, &second).unwrap();
        assert_eq!(changed.unwrap(), ["deep/er/file"]);
        let nothing = "0".repeat(40);
        assert_eq!(place.sources.changed(&location, &nothing, &second).unwrap(), None);
    }
}

/// Of two servers, one may hear of a commit first.
#[test]
fn a_mirror_fetches_what_it_does_not_have() {
    let place = Place::new();
    let [_, address] = place.both();
    place.sources.refresh(&address).unwrap();
    let mirror = place.folder.path().join("data/mirrors/2.git");
    let mode = std::fs::metadata(&mirror).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "it is for the server's user alone");
    place.write("new", "z");
    let commit = place.commit("later");
    let read = place.sources.read(&address, &commit, &["new".to_owned()], 10).unwrap();
    assert_eq!(read, [Some(b"z".to_vec())]);
    place.git(&["checkout", "-q", "-b", "other"]);
    place.git(&["branch", "-D", "main"]);
    place.sources.refresh(&address).unwrap();
    assert!(place.sources.resolve(&address, "main").is_err(), "what is gone there is gone here");
    assert_eq!(place.sources.resolve(&address, "other").unwrap().commit, commit);
}

#[test]
fn what_cannot_be_reached_is_said_without_passwords_and_leaves_nothing() {
    let place = Place::new();
    let check = |source: &str, expect: &str| {
        let location = Location { id: 7, source: source.to_owned() };
        let answer = why(place.sources.refresh(&location));
        assert!(answer.contains(expect) && !answer.contains("hunter2"), "{source}: {answer}");
        assert!(!place.folder.path().join("data/mirrors/7.git").exists());
    };
    check("http://me:hunter2@127.0.0.1:1/app.git", "cannot fetch `http://127.0.0.1:1/app.git`");
    check("ext::sh -c 'touch /tmp/owned'", "not allowed");
    check("--upload-pack=touch", "no address");
    check("/no/such/folder", "there is no folder");
    check("relative/path", "cannot fetch");
    let folder = Location { id: 8, source: place.folder.path().display().to_string() };
    assert!(why(place.sources.refresh(&folder)).contains("not a git repository"));
}

#[test]
fn clients_of_git_can_fetch_and_an_early_end_ends_git() {
    let place = Place::new();
    let head = place.git(&["rev-parse", "HEAD"]);
    for location in place.both() {
        let mut advertised = Vec::new();
        let mut write = |bytes: &[u8]| {
            advertised.extend_from_slice(bytes);
            Ok(())
        };
        place.sources.upload_pack(&location, None, None, &mut write).unwrap();
        assert!(String::from_utf8_lossy(&advertised).contains(&format!("{head} refs/heads/main")));
        let body = format!("0032want {head}\n00000009done\n").into_bytes();
        assert_eq!(pack::wants(&body), std::slice::from_ref(&head));
        let mut pack = Vec::new();
        let mut write = |bytes: &[u8]| {
            pack.extend_from_slice(bytes);
            Ok(())
        };
        place.sources.upload_pack(&location, None, Some(body.clone()), &mut write).unwrap();
        assert!(pack.windows(4).any(|bytes| bytes == b"PACK"), "{}", pack.len());
        let mut refuse = |_: &[u8]| Err(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(place.sources.upload_pack(&location, None, Some(body), &mut refuse).is_err());
    }
}

#[test]
fn an_address_says_itself_which_branch_is_its_own() {
    let place = Place::new();
    let [_, remote] = place.both();
    place.git(&["branch", "-m", "main", "trunk"]);
    let mut asked = remote.clone();
    asked.id = 0;
    assert_eq!(place.sources.default_branch(&asked).unwrap(), "trunk");
    // Nothing is kept of what is only asked about.
    let mirrors = std::fs::read_dir(place.folder.path().join("data/mirrors"));
    assert_eq!(mirrors.map(Iterator::count).unwrap_or_default(), 0);
    asked.source.push_str("-none");
    assert!(why(place.sources.default_branch(&asked)).starts_with("broken: cannot fetch"));
}
