//! Trees go and come back as they were, and nothing damaged comes back at all.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use tempfile::TempDir;

use super::entry::{Entry, Kind, pages, read_page};
use super::*;

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// A folder with many small files, a large one, an empty one, links and modes.
fn sample(at: &Path) {
    for number in 0..300_u64 {
        let text = format!("file {number} ").repeat(20 + usize::try_from(number).unwrap());
        write(&at.join(format!("pkg{}/lib/f{number}.js", number % 7)), text.as_bytes());
    }
    write(&at.join("big"), &noise(1, 5 << 20));
    write(&at.join("empty"), b"");
    fs::create_dir_all(at.join("hollow/folder")).unwrap();
    write(&at.join("bin/tool"), b"#!/bin/sh\n");
    fs::set_permissions(at.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("tool", at.join("bin/alias")).unwrap();
    symlink("/nowhere/at/all", at.join("dangling")).unwrap();
    let old = UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    let times = fs::FileTimes::new().set_modified(old);
    fs::File::open(at.join("bin/tool")).unwrap().set_times(times).unwrap();
}

/// Every path with what matters of it.
fn picture(at: &Path) -> Vec<String> {
    let mut shown = Vec::new();
    for found in walk::walk([at], &|_| false).unwrap() {
        let metadata = fs::symlink_metadata(&found.at).unwrap();
        let content = match &found.what {
            walk::What::File { .. } => Digest::of(&fs::read(&found.at).unwrap()).to_string(),
            other => format!("{other:?}"),
        };
        let time = if metadata.is_symlink() { 0 } else { metadata.mtime() };
        shown.push(format!("{} {:o} {time} {content}", found.path, found.mode));
    }
    shown
}

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shelf(&self) -> LocalShelf {
        LocalShelf::open(self.at("shelf")).unwrap()
    }
}

use std::path::PathBuf;

fn keep(place: &Place, names: &[&str]) -> io::Result<Saved> {
    let places = names.iter().map(|name| super::Place { name: (*name).into(), at: place.at(name) });
    save(&places.collect::<Vec<_>>(), &|_| false, &place.shelf())
}

fn read(saved: &Saved) -> Root {
    Root::read(&saved.root).unwrap()
}

/// C7 R8
#[test]
fn a_tree_comes_back_as_it_was() {
    let place = Place::new();
    sample(&place.at("tree"));
    write(&place.at("single.txt"), b"one file alone");
    let saved = keep(&place, &["tree", "single.txt"]).unwrap();
    assert_eq!(saved.files, 304);
    assert_eq!(read(&saved).places, ["tree", "single.txt"]);
    // What is in the way is replaced, a link is not followed, and what nobody saved stays.
    write(&place.at("new/big"), b"old");
    write(&place.at("outside"), b"untouched");
    symlink(place.at("outside"), place.at("new/empty")).unwrap();
    write(&place.at("new/other"), b"stays");
    let targets = [place.at("new"), place.at("deep/er/single.txt")];
    let restored = restore(&read(&saved), &targets, &place.shelf()).unwrap();
    assert_eq!((restored.files, restored.bytes), (saved.files, saved.bytes));
    assert_eq!(fs::read(place.at("new/other")).unwrap(), b"stays");
    assert_eq!(fs::read(place.at("outside")).unwrap(), b"untouched");
    assert_eq!(fs::read(place.at("deep/er/single.txt")).unwrap(), b"one file alone");
    fs::remove_file(place.at("new/other")).unwrap();
    let without_root = |mut lines: Vec<String>| lines.split_off(1);
    assert_eq!(without_root(picture(&place.at("new"))), without_root(picture(&place.at("tree"))));
}

/// C7
#[test]
fn a_second_save_writes_only_what_changed() {
    let place = Place::new();
    sample(&place.at("tree"));
    let first = keep(&place, &["tree"]).unwrap();
    let same = keep(&place, &["tree"]).unwrap();
    assert_eq!((same.new_bytes, same.new_packs), (0, 0));
    assert_eq!(same.root, first.root);
    let changed = place.at("tree/pkg3/lib/f3.js");
    write(&changed, b"something else");
    let second = keep(&place, &["tree"]).unwrap();
    assert!(second.new_bytes > 0 && second.new_bytes < 10_000, "{}", second.new_bytes);
    assert_ne!(second.root, first.root);
    restore(&read(&second), &[place.at("new")], &place.shelf()).unwrap();
    assert_eq!(fs::read(place.at("new/pkg3/lib/f3.js")).unwrap(), b"something else");
    restore(&read(&first), &[place.at("old")], &place.shelf()).unwrap();
    assert!(fs::read(place.at("old/pkg3/lib/f3.js")).unwrap().starts_with(b"file 3 "));
}

#[test]
fn what_is_left_out_is_not_in_the_tree_and_the_packs_are_all_that_it_needs() {
    let place = Place::new();
    sample(&place.at("tree"));
    let all = [super::Place { name: "t".to_owned(), at: place.at("tree") }];
    let first = save(&all, &|_| false, &place.shelf()).unwrap();
    write(&place.at("tree/new"), b"new");
    let (big, bin) = (place.at("tree/big"), place.at("tree/bin"));
    let second = save(&all, &|at| at == big || at == bin, &place.shelf()).unwrap();
    assert_eq!(second.files, first.files - 1);
    restore(&read(&second), &[place.at("to")], &place.shelf()).unwrap();
    assert!(place.at("to/new").exists() && !place.at("to/big").exists());
    assert!(!place.at("to/bin").exists());
    // Nothing but its packs is needed.
    for entry in fs::read_dir(place.at("shelf")).unwrap() {
        let path = entry.unwrap().path();
        let digest = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        if !second.packs.contains(&digest) {
            fs::remove_file(path).unwrap();
        }
    }
    restore(&read(&second), &[place.at("again")], &place.shelf()).unwrap();
}

/// R9: what a stranger sends is looked at before anybody relies on it.
#[test]
fn a_pack_with_another_chunk_than_it_says_is_refused() {
    let pack = |digest: Digest, chunk: &[u8]| {
        let mut pack = pack::Filling::new(1).unwrap();
        pack.add(Digest::of(b"fine"), b"fine").unwrap();
        pack.add(digest, chunk).unwrap();
        Bytes::from(pack.take().unwrap().bytes)
    };
    let long = vec![7; 1 << 20];
    assert_eq!(check_pack(&pack(Digest::of(&long), &long)).unwrap().len(), 2);
    assert!(check_pack(&pack(Digest::of(b"trusted"), b"poison")).is_err());
    assert!(check_pack(&pack(Digest::of(b"trusted"), &long)).is_err());
    let mut bomb = pack::Filling::new(1).unwrap();
    for _ in 0..200 {
        bomb.add(Digest::of(&long), &long).unwrap();
    }
    let error = check_pack(&Bytes::from(bomb.take().unwrap().bytes)).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
}

#[test]
fn what_is_damaged_or_gone_is_said_and_not_restored() {
    let place = Place::new();
    sample(&place.at("tree"));
    let saved = keep(&place, &["tree"]).unwrap();
    let packs: Vec<PathBuf> =
        fs::read_dir(place.at("shelf")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for pack in &packs {
        let good = fs::read(pack).unwrap();
        let mut bad = good.clone();
        bad[10] ^= 1;
        fs::write(pack, &bad).unwrap();
        assert!(restore(&read(&saved), &[place.at("bad")], &place.shelf()).is_err());
        fs::write(pack, &good[..good.len() / 2]).unwrap();
        let error = restore(&read(&saved), &[place.at("bad")], &place.shelf()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        fs::write(pack, &good).unwrap();
    }
    restore(&read(&saved), &[place.at("good")], &place.shelf()).unwrap();
    assert!(Root::read(&saved.root[1..]).is_err());
    // A place that nobody named is not made up.
    let error = restore(&read(&saved), &[], &place.shelf()).unwrap_err();
    assert!(error.to_string().contains("no place"), "{error}");
}

#[test]
fn nothing_is_missing_where_there_is_nothing() {
    let place = Place::new();
    let saved = keep(&place, &["missing"]).unwrap();
    assert_eq!((saved.files, saved.bytes, saved.new_bytes), (0, 0, 0));
    restore(&read(&saved), &[place.at("missing")], &place.shelf()).unwrap();
    assert!(!place.at("missing").exists());
}

fn file(path: &str) -> Entry {
    let kind = Kind::File(vec![(Digest::of(path.as_bytes()), 7)]);
    Entry { place: 0, path: path.to_owned(), mode: 0o644, modified: -5, kind }
}

/// R9: zip-slip has no counterpart here.
#[test]
fn no_entry_leads_out_of_its_place() {
    for path in ["../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\0b", ".."] {
        let page = pages(&[file(path)]).concat();
        let error = read_page(&page).unwrap_err();
        assert!(error.to_string().contains("outside"), "{path:?}: {error}");
    }
    let entries = [file("a"), file("b/c..d"), file("…/é")];
    assert_eq!(read_page(&pages(&entries).concat()).unwrap(), entries);
}

/// A tree that somebody made by hand, with these entries.
fn crafted(place: &Place, entries: &[Entry]) -> io::Result<Restored> {
    let shelf = place.shelf();
    let mut pack = pack::Filling::new(1)?;
    let mut root = Root { places: Vec::new(), pages: Vec::new(), files: 0, bytes: 0 };
    for page in pages(entries) {
        let digest = Digest::of(&page);
        pack.add(digest, &page)?;
        root.pages.push((digest, u32::try_from(page.len()).unwrap()));
    }
    shelf.put(pack.take().unwrap())?;
    restore(&root, &[place.at("made")], &shelf)
}

/// R9
#[test]
fn nothing_lies_below_a_link_and_nothing_is_there_twice() {
    let place = Place::new();
    write(&place.at("secret/key"), b"mine");
    let entry = |path: &str, kind: Kind| Entry { kind, ..file(path) };
    let folder = || entry("", Kind::Folder);
    let out = || Kind::Link(place.at("secret").display().to_string());
    let bad = [
        vec![folder(), entry("a", out()), entry("a/key", Kind::Link("/nowhere".to_owned()))],
        vec![folder(), entry("a", out()), entry("a/key", Kind::File(Vec::new()))],
        vec![folder(), entry("a", Kind::Folder), entry("a", out()), entry("a/key", Kind::Folder)],
    ];
    for entries in bad {
        let error = crafted(&place, &entries).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
    assert_eq!(fs::read(place.at("secret/key")).unwrap(), b"mine");
    crafted(&place, &[folder(), entry("a", out()), entry("b", Kind::Folder)]).unwrap();
    assert!(place.at("made/a/key").exists());
}

#[test]
fn a_new_entry_changes_one_page() {
    let mut entries: Vec<Entry> =
        (0..5_000).map(|n| file(&format!("d{}/f{n:05}", n % 9))).collect();
    let before = pages(&entries);
    entries.insert(2_500, file("d4/new"));
    let after = pages(&entries);
    let changed = after.iter().filter(|page| !before.contains(page)).count();
    assert!(before.len() > 80 && (1..=2).contains(&changed), "{} {changed}", before.len());
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..400_usize) {
        let _ = Root::read(&bytes);
        let _ = read_page(&bytes);
        let _ = read_pack(&bytes);
        let page = pages(&[file("a"), file("b")]).concat();
        let _ = read_page(&page[..cut.min(page.len())]);
        let mut pack = pack::Filling::new(1).unwrap();
        pack.add(Digest::of(b"x"), b"x").unwrap();
        let mut packed = pack.take().unwrap().bytes;
        let at = cut % packed.len();
        packed[at] ^= bytes.first().copied().unwrap_or(1);
        let _ = read_pack(&packed);
    }
}
