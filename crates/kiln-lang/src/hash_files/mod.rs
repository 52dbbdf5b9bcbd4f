//! `hashFiles`: one hash over the files that match, byte for byte the one GitHub computes.
//!
//! Cache keys depend on it, so order matters as much as matching: search roots in the order of
//! their patterns, depth first, names of a directory by their bytes. The digest of each file goes,
//! as 32 raw bytes, into an outer SHA-256; without a match the answer is the empty text.
//!
//! Three oddities of GitHub's library are left out: it counts a character beyond the basic plane
//! as two for `?`, takes `[[:print:]]` for its opposite, and can miss matches of patterns with
//! three `**` between names.
//!
//! The tree is somebody else's. [`Limits`] bound how much of it is looked at.

mod class;
mod globs;
mod key;
mod pattern;
mod segment;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

pub use globs::Globs;
pub use key::{Contents, KeySpec, Keys, cache_keys};
use pattern::Pattern;
use walk::Walk;

/// The option that may stand in front of the patterns.
const FOLLOW: &str = "--follow-symbolic-links";

/// A view of the workspace. Paths are relative to it, with `/` between names; the workspace itself
/// is the empty path. Names of links in a path are followed.
pub trait Files {
    /// What a directory holds, in any order.
    fn list(&self, dir: &str) -> Result<Vec<Entry>, String>;
    /// The digest of a file's content, behind any links.
    fn sha256(&self, path: &str) -> Result<[u8; 32], String>;
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    SymlinkToFile,
    /// With the absolute path of the directory it leads to in the end, free of links.
    SymlinkToDir(String),
    /// To what is not there.
    BrokenSymlink,
    /// One whose target cannot be looked for: it leads in a circle, or through a file.
    EndlessSymlink,
    /// A socket, pipe or device.
    Special,
}

/// The places patterns refer to, as absolute paths free of links.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    pub workspace: &'a str,
    /// What `~` stands for.
    pub home: Option<&'a str>,
}

/// How much of a tree may be looked at.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub patterns: usize,
    pub pattern_bytes: usize,
    /// Directories below each other, counted from the workspace.
    pub depth: usize,
    /// Names in all visited directories together.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patterns: 1000, pattern_bytes: 4096, depth: 256, entries: 2_000_000 }
    }
}

/// The value of `hashFiles(patterns…)`, empty if nothing matches.
pub fn hash_files(
    files: &dyn Files,
    patterns: &[String],
    places: Places<'_>,
) -> Result<String, String> {
    hash_files_within(files, patterns, places, Limits::default())
}

/// As [`hash_files`], with limits of the caller's choice.
pub fn hash_files_within(
    files: &dyn Files,
    arguments: &[String],
    places: Places<'_>,
    limits: Limits,
) -> Result<String, String> {
    let (follow, texts) = split_option(arguments)?;
    let patterns = read_patterns(texts, places, limits)?;
    let mut outer = Sha256::new();
    let mut found = false;
    Walk::new(files, &patterns, places, limits, follow).run(&mut |path| {
        outer.update(files.sha256(path)?);
        found = true;
        Ok(())
    })?;
    if !found {
        return Ok(String::new());
    }
    Ok(outer.finalize().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string can be written to");
        hex
    }))
}

fn split_option(arguments: &[String]) -> Result<(bool, &[String]), String> {
    match arguments {
        [first, rest @ ..] if first.eq_ignore_ascii_case(FOLLOW) => Ok((true, rest)),
        [first, ..] if first.starts_with("--") => {
            Err(format!("hashFiles knows no option `{first}`; the only one is `{FOLLOW}`"))
        }
        _ => Ok((false, arguments)),
    }
}

/// What is written in the lines of all arguments.
fn lines_of(texts: &[String], limits: Limits) -> Result<Vec<&str>, String> {
    let lines = texts.iter().flat_map(|text| text.split('\n')).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<&str> = lines.take(limits.patterns + 1).collect();
    if lines.len() > limits.patterns {
        return Err(format!("hashFiles takes at most {} patterns", limits.patterns));
    }
    if lines.iter().any(|line| line.len() > limits.pattern_bytes) {
        return Err(format!("a hashFiles pattern has at most {} bytes", limits.pattern_bytes));
    }
    Ok(lines)
}

/// The patterns of all arguments, each with the one for its descendants behind it.
fn read_patterns(
    texts: &[String],
    places: Places<'_>,
    limits: Limits,
) -> Result<Vec<Pattern>, String> {
    let mut patterns = Vec::new();
    for line in lines_of(texts, limits)? {
        let pattern = Pattern::parse(line, places)?;
        let descendants = pattern.descendants();
        patterns.push(pattern);
        patterns.extend(descendants);
    }
    Ok(patterns)
}
