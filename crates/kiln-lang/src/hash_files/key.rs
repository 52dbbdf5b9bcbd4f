//! Keys of caches made from what they depend on: a prefix, the platform, files, variables.
//!
//! The files are found and hashed in a way of their own, not as `hashFiles` does: patterns are those of Python's
//! `glob` (names that begin with a point only where the pattern says so, nothing below what matches), the paths of
//! all matches are sorted, and each path goes into the hash before its content, so that a renamed file is another.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::segment::Segment;
use super::{Entry, Files, Kind, Limits};

/// How much of the hash is in a key.
const HEXADECIMALS: usize = 16;
const LONGEST_KEY: usize = 512;
/// What restore keys begin with when there is no prefix.
const USUAL_PREFIX: &str = "cache";

/// Files whose content can be read, too.
pub trait Contents: Files {
    /// Hands over the content of a file, piece by piece.
    fn feed(&self, path: &str, to: &mut dyn FnMut(&[u8])) -> Result<(), String>;
}

/// What a key is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySpec {
    pub prefix: Option<String>,
    /// As `runner.os` and `runner.arch` have them.
    pub os: String,
    pub arch: String,
    /// Patterns of files, relative to the workspace.
    pub files: Vec<String>,
    /// Names of variables, with their values; empty for one that is not set.
    pub env: Vec<(String, String)>,
}

/// A key, and beginnings of others that will do, best first; the key itself is the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub key: String,
    pub restore_keys: Vec<String>,
}

/// Makes the keys of a cache.
pub fn cache_keys(files: &dyn Contents, spec: &KeySpec) -> Result<Keys, String> {
    let prefix = spec.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let platform = format!("{}-{}", spec.os, spec.arch);
    let hash = hash(files, &spec.files)?;
    let variables = spec.env.iter().map(|(name, value)| format!("{name}={value}"));
    let parts = prefix.map(str::to_owned).into_iter().chain([platform.clone(), hash]);
    let key = parts.chain(variables).collect::<Vec<_>>().join("-");
    check(&key)?;
    let prefix = prefix.unwrap_or(USUAL_PREFIX);
    let restore_keys = vec![key.clone(), format!("{prefix}-{platform}-"), format!("{prefix}-")];
    Ok(Keys { key, restore_keys })
}

/// What caches refuse is better refused here, where it can be seen where it comes from.
fn check(key: &str) -> Result<(), String> {
    if key.chars().count() > LONGEST_KEY {
        return Err(format!("the key has more than {LONGEST_KEY} characters: `{key}`"));
    }
    if key.contains(',') || key.contains(char::is_control) {
        let shown = key.escape_debug();
        return Err(format!("a key has no comma and no line break, and this one has: `{shown}`"));
    }
    Ok(())
}

fn hash(files: &dyn Contents, patterns: &[String]) -> Result<String, String> {
    let limits = Limits::default();
    if patterns.len() > limits.patterns {
        return Err(format!("a key takes at most {} patterns", limits.patterns));
    }
    let mut search = Search { files, limits, seen: 0 };
    let mut found = Vec::new();
    for pattern in patterns {
        // What two patterns match counts twice.
        found.extend(search.pattern(pattern)?);
    }
    found.sort_unstable();
    let mut hasher = Sha256::new();
    for path in &found {
        hasher.update(path);
        files.feed(path, &mut |bytes| hasher.update(bytes))?;
    }
    let mut text = String::new();
    for byte in hasher.finalize().iter().take(HEXADECIMALS / 2) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

struct Search<'f> {
    files: &'f dyn Contents,
    limits: Limits,
    /// Names in all folders that were looked at.
    seen: usize,
}

impl Search<'_> {
    fn pattern(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        let wrong = |why: &str| Err(format!("the pattern `{pattern}` {why}"));
        if pattern.len() > self.limits.pattern_bytes {
            return wrong("is too long");
        }
        if pattern.starts_with('/') || pattern.starts_with('~') {
            return wrong("leads out of the workspace; expected a relative path");
        }
        let names: Vec<&str> =
            pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return wrong("leads out of the workspace with its `..`");
        }
        let parts: Vec<Part> = names.iter().map(|name| Part::parse(name)).collect();
        let mut found = Vec::new();
        self.below("", &parts, 0, &mut found)?;
        found.sort_unstable();
        // Several `**` find the same in several ways.
        found.dedup();
        Ok(found)
    }

    /// Adds what the parts match below a folder.
    fn below(
        &mut self,
        folder: &str,
        parts: &[Part],
        depth: usize,
        found: &mut Vec<String>,
    ) -> Result<(), String> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if depth > self.limits.depth {
            return Err(format!("`{folder}` lies deeper than {} folders", self.limits.depth));
        }
        let is_any_depth = part.segment == Segment::Globstar;
        if is_any_depth && !rest.is_empty() {
            self.below(folder, rest, depth, found)?;
        }
        for entry in self.list(folder)? {
            let path = if folder.is_empty() {
                entry.name.clone()
            } else {
                format!("{folder}/{}", entry.name)
            };
            let is_file = matches!(entry.kind, Kind::File | Kind::SymlinkToFile);
            if is_any_depth {
                let is_hidden = entry.name.starts_with('.');
                if is_file && rest.is_empty() && !is_hidden {
                    found.push(path);
                } else if entry.kind == Kind::Dir && !is_hidden {
                    // Links are not followed here: they may lead back.
                    self.below(&path, parts, depth + 1, found)?;
                }
            } else if part.matches(&entry.name) {
                if rest.is_empty() && is_file {
                    found.push(path);
                } else if matches!(entry.kind, Kind::Dir | Kind::SymlinkToDir(_)) {
                    self.below(&path, rest, depth + 1, found)?;
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, folder: &str) -> Result<Vec<Entry>, String> {
        let entries = self.files.list(folder)?;
        self.seen += entries.len();
        if self.seen > self.limits.entries {
            return Err(format!("more than {} files were looked at", self.limits.entries));
        }
        Ok(entries)
    }
}

/// What stands between two slashes.
struct Part {
    segment: Segment,
    names_hidden: bool,
}

impl Part {
    fn parse(name: &str) -> Self {
        Self { segment: Segment::parse(name), names_hidden: name.starts_with('.') }
    }

    fn matches(&self, name: &str) -> bool {
        (self.names_hidden || !name.starts_with('.')) && self.segment.matches(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Files by their paths.
    struct Known(BTreeMap<&'static str, &'static str>);

    impl Files for Known {
        fn list(&self, dir: &str) -> Result<Vec<Entry>, String> {
            let mut entries: Vec<Entry> = Vec::new();
            for path in self.0.keys() {
                let below = if dir.is_empty() {
                    Some(*path)
                } else {
                    path.strip_prefix(&format!("{dir}/"))
                };
                let Some(below) = below else { continue };
                let (name, kind) = match below.split_once('/') {
                    Some((name, _)) => (name, Kind::Dir),
                    None => (below, Kind::File),
                };
                if !entries.iter().any(|entry| entry.name == name) {
                    entries.push(Entry { name: name.to_owned(), kind });
                }
            }
            Ok(entries)
        }

        fn sha256(&self, _: &str) -> Result<[u8; 32], String> {
            Err("a key reads the content itself".to_owned())
        }
    }

    impl Contents for Known {
        fn feed(&self, path: &str, to: &mut dyn FnMut(&[u8])) -> Result<(), String> {
            let text = self.0.get(path).ok_or("there is no such file")?;
            // In pieces, as files are read.
            text.as_bytes().chunks(3).for_each(to);
            Ok(())
        }
    }

    fn known() -> Known {
        Known(BTreeMap::from([
            ("package-lock.json", "root"),
            ("web/package-lock.json", "web"),
            ("web/src/a.js", "a"),
            (".cache/package-lock.json", "hidden"),
            ("web/.npmrc", "rc"),
        ]))
    }

    fn spec(files: &[&str]) -> KeySpec {
        KeySpec {
            prefix: Some("npm".to_owned()),
            os: "Linux".to_owned(),
            arch: "X64".to_owned(),
            files: files.iter().map(|&file| file.to_owned()).collect(),
            env: Vec::new(),
        }
    }

    fn digest(text: &str) -> String {
        let hash = Sha256::digest(text);
        let words = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
        words.collect::<Vec<_>>().concat()
    }

    /// R8
    #[test]
    fn a_key_has_a_prefix_a_platform_a_hash_and_variables() {
        let mut asked = spec(&["package-lock.json"]);
        asked.env =
            vec![("NODE_VERSION".to_owned(), "20".to_owned()), ("X".to_owned(), String::new())];
        let hash = digest("package-lock.jsonroot");
        let keys = cache_keys(&known(), &asked).unwrap();
        assert_eq!(keys.key, format!("npm-Linux-X64-{hash}-NODE_VERSION=20-X="));
        assert_eq!(keys.restore_keys, [keys.key.as_str(), "npm-Linux-X64-", "npm-"]);
        let keys = cache_keys(&known(), &KeySpec { prefix: None, ..asked }).unwrap();
        assert_eq!(keys.key, format!("Linux-X64-{hash}-NODE_VERSION=20-X="));
        assert_eq!(keys.restore_keys[1..], ["cache-Linux-X64-", "cache-"]);
    }

    #[test]
    fn files_are_found_as_by_pythons_glob_and_names_count() {
        let check = |patterns: &[&str], hashed: &str| {
            let keys = cache_keys(&known(), &spec(patterns)).unwrap();
            assert_eq!(keys.key, format!("npm-Linux-X64-{}", digest(hashed)), "{patterns:?}");
        };
        let (root, web) = ("package-lock.jsonroot", "web/package-lock.jsonweb");
        check(&[], "");
        check(&["nothing/*"], "");
        check(&["**/package-lock.json"], &format!("{root}{web}"));
        // What two patterns match counts twice, in the order of the paths.
        check(&["package-lock.json", "**/package-lock.json"], &format!("{root}{root}{web}"));
        check(&["web/*"], web);
        check(&["web/**"], &format!("{web}web/src/a.jsa"));
        check(&["**/**/a.js"], "web/src/a.jsa");
        check(&["web/.*", "[.]cache/*"], "web/.npmrcrc");
        check(&[".cache/*"], ".cache/package-lock.jsonhidden");
        check(&["./w?b/s[p-s]c/a.js"], "web/src/a.jsa");
    }

    #[test]
    fn what_caches_refuse_is_refused() {
        let fails = |spec: &KeySpec, why: &str| {
            let message = cache_keys(&known(), spec).unwrap_err();
            assert!(message.contains(why), "{message}");
        };
        fails(&spec(&["/etc/passwd"]), "out of the workspace");
        fails(&spec(&["~/x"]), "out of the workspace");
        fails(&spec(&["a/../../b"]), "`..`");
        let with =
            |value: &str| KeySpec { env: vec![("A".to_owned(), value.to_owned())], ..spec(&[]) };
        fails(&with("1,2"), "comma");
        fails(&with("1\n2"), "line break");
        fails(&with(&"x".repeat(600)), "512");
    }
}
