//! A tree in memory, and the files that patterns find in it, in order.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::{Entry, Files, Kind, Limits, Places, hash_files, hash_files_within};

const PLACES: Places<'_> = Places { workspace: "/work/space", home: Some("/home/me") };

/// Files and links by path; directories follow from them.
#[derive(Default)]
struct Tree {
    kinds: BTreeMap<String, Kind>,
    hashed: RefCell<Vec<String>>,
}

impl Tree {
    fn new(paths: &[&str]) -> Self {
        paths.iter().fold(Self::default(), |tree, path| tree.with(path, Kind::File))
    }

    fn with(mut self, path: &str, kind: Kind) -> Self {
        for (slash, _) in path.match_indices('/') {
            self.kinds.insert(path[..slash].to_owned(), Kind::Dir);
        }
        self.kinds.insert(path.to_owned(), kind);
        self
    }

    /// The path with links to directories in its way replaced, as a file system would do it.
    fn resolve(&self, path: &str) -> String {
        let mut real = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let next = if real.is_empty() { name.to_owned() } else { format!("{real}/{name}") };
            real = match self.kinds.get(&next) {
                Some(Kind::SymlinkToDir(to)) => {
                    to.trim_start_matches("/work/space").trim_start_matches('/').to_owned()
                }
                _ => next,
            };
        }
        real
    }
}

impl Files for Tree {
    /// Backwards, because the order must not depend on the file system.
    fn list(&self, dir: &str) -> Result<Vec<Entry>, String> {
        let dir = self.resolve(dir);
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let entries = self.kinds.iter().rev().filter_map(|(path, kind)| {
            let name = path.strip_prefix(&prefix).filter(|name| !name.contains('/'))?;
            Some(Entry { name: name.to_owned(), kind: kind.clone() })
        });
        Ok(entries.collect())
    }

    fn sha256(&self, path: &str) -> Result<[u8; 32], String> {
        if path.ends_with("unreadable") {
            return Err(format!("cannot read {path}"));
        }
        self.hashed.borrow_mut().push(path.to_owned());
        Ok(Sha256::digest(path).into())
    }
}

fn owned(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|&pattern| pattern.to_owned()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).expect("half a byte");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[track_caller]
fn check(tree: &Tree, patterns: &[&str], expect: &[&str]) {
    tree.hashed.borrow_mut().clear();
    let hash = hash_files(tree, &owned(patterns), PLACES).expect("can be hashed");
    assert_eq!(*tree.hashed.borrow(), expect, "{patterns:?}");
    let digests: Vec<u8> = expect.iter().flat_map(Sha256::digest).collect();
    let hex = hex(&Sha256::digest(digests));
    assert_eq!(hash, if expect.is_empty() { String::new() } else { hex }, "{patterns:?}");
}

#[track_caller]
fn check_error(tree: &Tree, patterns: &[&str], expect: &str) {
    let error = hash_files(tree, &owned(patterns), PLACES).expect_err("cannot be hashed");
    assert!(error.contains(expect), "{patterns:?}: {error}");
}

#[test]
fn without_a_match_the_answer_is_empty() {
    let tree = Tree::new(&["a.txt"]);
    check(&tree, &["*.lock"], &[]);
    check(&tree, &["missing/**"], &[]);
    check(&tree, &[], &[]);
    check(&tree, &["# nothing", ""], &[]);
    check(&Tree::default(), &["**"], &[]);
}

#[test]
fn names_are_visited_by_their_bytes_and_depth_first() {
    let tree = Tree::new(&["a/z.txt", "a-1.txt", "a.txt", "B.txt", "a/b/c.txt", "é.txt", "_.txt"]);
    check(
        &tree,
        &["**/*.txt"],
        &["B.txt", "_.txt", "a/b/c.txt", "a/z.txt", "a-1.txt", "a.txt", "é.txt"],
    );
}

#[test]
fn search_roots_come_in_order_and_swallow_those_below_them() {
    let tree = Tree::new(&["a/x.txt", "b/x.txt", "c.txt"]);
    check(&tree, &["b/**", "a/**"], &["b/x.txt", "a/x.txt"]);
    check(&tree, &["b/**", "**/*.txt"], &["a/x.txt", "b/x.txt", "c.txt"]);
    check(&tree, &["c.txt", "a/x.txt", "c.txt"], &["c.txt", "a/x.txt"]);
    check(&tree, &["c.txt\nb/x.txt"], &["c.txt", "b/x.txt"]);
}

#[test]
fn a_directory_stands_for_all_below_it() {
    let tree = Tree::new(&["src/a/b.rs", "src/c.rs", "srcs/d.rs"]);
    let below: &[&str] = &["src/a/b.rs", "src/c.rs"];
    for pattern in ["src", "src/", "src/**", "./src", "src/*", "/work/space/src", "s?c", "**/src"] {
        check(&tree, &[pattern], below);
    }
    check(&tree, &["."], &["src/a/b.rs", "src/c.rs", "srcs/d.rs"]);
    check(&tree, &["src/c.rs/"], &[]);
    check(&tree, &["src/c.rs/**"], &["src/c.rs"]);
}

#[test]
fn two_stars_cross_directories_only_as_a_whole_segment() {
    let tree = Tree::new(&["a.txt", "d/a.txt", "d/e/a.txt"]);
    check(&tree, &["**/a.txt"], &["a.txt", "d/a.txt", "d/e/a.txt"]);
    check(&tree, &["**.txt"], &["a.txt"]);
    check(&tree, &["d**/a.txt"], &["d/a.txt"]);
    check(&tree, &["d/**/a.txt"], &["d/a.txt", "d/e/a.txt"]);
    check(&tree, &["**/e/**"], &["d/e/a.txt"]);
    check(&tree, &["**/**/e/**/a.txt"], &["d/e/a.txt"]);
}

#[test]
fn wildcards_classes_and_escapes() {
    let tree = Tree::new(&[".env", "a1", "a2", "ab", "[x]", "*", "a]", "a-"]);
    check(&tree, &["*"], &["*", ".env", "[x]", "a-", "a1", "a2", "a]", "ab"]);
    check(&tree, &["a?"], &["a-", "a1", "a2", "a]", "ab"]);
    check(&tree, &["a[0-9]"], &["a1", "a2"]);
    check(&tree, &["a[!0-9]"], &["a-", "a]", "ab"]);
    check(&tree, &["a[^0-9-]"], &["a]", "ab"]);
    check(&tree, &["a[[:digit:]]"], &["a1", "a2"]);
    check(&tree, &["?[]b]"], &["a]", "ab"]);
    check(&tree, &["a[b-]"], &["a-", "ab"]);
    check(&tree, &["a[9-0]"], &[]);
    check(&tree, &["\\*"], &["*"]);
    check(&tree, &["[*]"], &["*"]);
    check(&tree, &["\\[x]"], &["[x]"]);
    check(&tree, &["[[]x]"], &["[x]"]);
    check(&tree, &[".e*"], &[".env"]);
    check(&tree, &["{a1,a2}"], &[]);
}

#[test]
fn exclusions_apply_in_order() {
    let tree = Tree::new(&["a/x.js", "node_modules/y.js", "node_modules/z.js"]);
    check(&tree, &["**/*.js", "!node_modules"], &["a/x.js"]);
    check(&tree, &["**/*.js", "!node_modules/**", "**/z.js"], &["a/x.js", "node_modules/z.js"]);
    check(
        &tree,
        &["!node_modules", "**/*.js"],
        &["a/x.js", "node_modules/y.js", "node_modules/z.js"],
    );
    check(&tree, &["!a"], &[]);
    check(&tree, &["!!a"], &["a/x.js"]);
    check(&tree, &["**", "! node_modules/"], &["a/x.js"]);
}

#[test]
fn only_the_workspace_counts() {
    let tree = Tree::new(&["src/a.js", "home/b.js"]);
    check(&tree, &["/src/*.js"], &[]);
    check(&tree, &["~/*.js"], &[]);
    check(&tree, &["/work/**/*.js"], &["home/b.js", "src/a.js"]);
    check(&tree, &["/**/a.js"], &["src/a.js"]);
    check(&tree, &["/*/space/src"], &["src/a.js"]);
    check(&tree, &["/*/other/**"], &[]);
    check(&tree, &["/work/space/src/*"], &["src/a.js"]);
    let at_home = Places { home: Some("/work/space/home"), ..PLACES };
    assert_ne!(hash_files(&tree, &owned(&["~"]), at_home), Ok(String::new()));
}

#[test]
fn links_to_directories_are_entered_only_on_request() {
    let tree = Tree::new(&["real/a.txt"])
        .with("to-dir", Kind::SymlinkToDir("/work/space/real".into()))
        .with("to-file", Kind::SymlinkToFile);
    check(&tree, &["**"], &["real/a.txt", "to-file"]);
    check(&tree, &["--follow-symbolic-links", "**"], &["real/a.txt", "to-dir/a.txt", "to-file"]);
    // A link on the way to where the search starts is followed in any case.
    check(&tree, &["to-dir/a.txt"], &["to-dir/a.txt"]);
    check(&tree, &["to-dir/*"], &[]);
}

#[test]
fn links_that_lead_back_up_end_the_walk() {
    let tree = Tree::new(&["d/a.txt"])
        .with("d/up", Kind::SymlinkToDir("/work/space".into()))
        .with("d/self", Kind::SymlinkToDir("/work/space/d".into()));
    check(&tree, &["--follow-symbolic-links", "**"], &["d/a.txt"]);
    // Started below, the way leads round once.
    check(&tree, &["--follow-symbolic-links", "d/**"], &["d/a.txt"]);
    check(&tree, &["--follow-symbolic-links", "d/up/**"], &["d/up/d/a.txt"]);
}

#[test]
fn broken_links_fail_unless_links_are_followed() {
    let tree = Tree::new(&["a"]).with("b", Kind::BrokenSymlink).with("pipe", Kind::Special);
    check_error(&tree, &["b"], "leads nowhere");
    check(&tree, &["--follow-symbolic-links", "b", "a"], &["a"]);
    check(&tree, &["b/c", "a"], &["a"]);
    check_error(&tree, &["p*"], "not a file");
}

/// Whoever follows links meets them before it is known whether they are meant.
#[test]
fn links_in_a_circle_fail_where_they_are_met() {
    let tree = Tree::new(&["a", "d/e"]).with("d/loop", Kind::EndlessSymlink);
    let circle = "cannot follow `d/loop`";
    for pattern in ["**", "d/*", "d/loop", "d/*/x", "d/loop/x"] {
        check_error(&tree, &["--follow-symbolic-links", pattern], circle);
    }
    check(&tree, &["--follow-symbolic-links", "a", "d/e"], &["a", "d/e"]);
    check_error(&tree, &["**"], circle);
    check_error(&tree, &["d/loop/x"], circle);
    check(&tree, &["d/*/x", "a"], &["a"]);
    check(&tree, &["**", "!d/loop"], &["a", "d/e"]);
}

#[test]
fn mistakes_are_explained() {
    let tree = Tree::new(&["a/b", "unreadable"]);
    check_error(&tree, &["../x"], "may not contain `.` or `..`");
    check_error(&tree, &["a/./b"], "may not contain `.` or `..`");
    check_error(&tree, &["!"], "nothing behind its `!`");
    check_error(&tree, &["--follow", "a"], "the only one is `--follow-symbolic-links`");
    check_error(&tree, &["a/b/c"], "cannot look into `a/b`");
    check_error(&tree, &["**"], "cannot read unreadable");
    let homeless = Places { home: None, ..PLACES };
    let error = hash_files(&tree, &owned(&["~/x"]), homeless).expect_err("no home");
    assert!(error.contains("needs a home directory"), "{error}");
}

#[test]
fn hostile_trees_and_patterns_meet_limits() {
    let within = |tree: &Tree, patterns: &[&str], limits: Limits| {
        hash_files_within(tree, &owned(patterns), PLACES, limits)
    };
    let tree = Tree::new(&["a/b/c/d", "e"]);
    let all = Limits::default();
    let deep = within(&tree, &["**"], Limits { depth: 2, ..all }).expect_err("too deep");
    assert!(deep.contains("no deeper than 2 directories: `a/b/c`"), "{deep}");
    let many = within(&tree, &["**"], Limits { entries: 3, ..all }).expect_err("too many");
    assert!(many.contains("no more than 3 files"), "{many}");
    let patterns = within(&tree, &["a", "b"], Limits { patterns: 1, ..all }).expect_err("too many");
    assert!(patterns.contains("at most 1 patterns"), "{patterns}");
    let long = within(&tree, &["abc"], Limits { pattern_bytes: 2, ..all }).expect_err("too long");
    assert!(long.contains("at most 2 bytes"), "{long}");
    // Links that fan out would make ever longer ways through the same two directories.
    let fan = (0..20).fold(Tree::new(&["x/f", "y/f"]), |tree, at| {
        tree.with(&format!("x/l{at}"), Kind::SymlinkToDir("/work/space/y".into()))
            .with(&format!("y/l{at}"), Kind::SymlinkToDir(format!("/elsewhere/{at}")))
    });
    let fanned = within(&fan, &["--follow-symbolic-links", "**"], Limits { entries: 5000, ..all });
    assert!(fanned.is_ok_and(|hash| hash.len() == 64));
    let stars = format!("{}b", "*a".repeat(1000));
    let tree = Tree::new(&[&"a".repeat(250)]);
    check(&tree, &[&stars], &[]);
    check(&tree, &[&format!("{}b", "**/*/".repeat(500))], &[]);
}

proptest! {
    #[test]
    fn any_pattern_is_answered_or_refused(pattern in r"[a-c*?\[\]!^\\/.~\-{:]{0,16}") {
        let tree = Tree::new(&["a", "b/a", "b/c/a", "c/[a]"]);
        if let Ok(hash) = hash_files(&tree, &[pattern], PLACES) {
            prop_assert!(hash.is_empty() || hash.len() == 64);
        }
    }
}
