//! One pattern of `hashFiles`, made absolute.

use super::Places;
use super::segment::{Segment, literal};

/// A pattern over absolute paths. Paths are lists of names; the root of the file system is the
/// empty list.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    negated: bool,
    /// A slash at the end: the pattern itself means directories only.
    only_directories: bool,
    /// The pattern was added for what lies below another one.
    is_implicit: bool,
    segments: Vec<Segment>,
    /// The names before the first wildcard, where the search starts.
    search_root: Vec<String>,
}

/// What a path matches as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    No,
    DirectoryOnly,
    Yes,
}

impl Pattern {
    pub(super) fn parse(line: &str, places: Places<'_>) -> Result<Self, String> {
        let mut text = line.trim();
        let mut negated = false;
        while let Some(rest) = text.strip_prefix('!') {
            negated = !negated;
            text = rest.trim();
        }
        if text.is_empty() {
            return Err(format!("the hashFiles pattern `{line}` has nothing behind its `!`"));
        }
        let (root, written) = split_root(text, places)?;
        refuse_relative_names(text, &written)?;
        let mut search_root = root.clone();
        let literals = written.iter().map_while(|name| literal(name));
        search_root.extend(literals);
        let mut segments: Vec<Segment> = root.into_iter().map(Segment::Literal).collect();
        segments.extend(written.iter().map(|name| Segment::parse(name)));
        Ok(Self {
            negated,
            only_directories: text.ends_with('/'),
            is_implicit: false,
            segments,
            search_root,
        })
    }

    /// The pattern for everything below what this one matches, unless this one says so itself.
    pub(super) fn descendants(&self) -> Option<Self> {
        if !self.only_directories && self.segments.last() == Some(&Segment::Globstar) {
            return None;
        }
        let mut below = Self { only_directories: false, is_implicit: true, ..self.clone() };
        below.segments.push(Segment::Globstar);
        Some(below)
    }

    pub(super) fn is_negated(&self) -> bool {
        self.negated
    }

    pub(super) fn search_root(&self) -> &[String] {
        &self.search_root
    }

    pub(super) fn matches(&self, path: &[&str]) -> Match {
        let ends_in_globstar = self.segments.last() == Some(&Segment::Globstar);
        // A final `**` wants at least one name. A written one is also content with the slash
        // behind the directory itself, which counts as an empty name.
        let matches = if ends_in_globstar && !self.is_implicit {
            let with_slash: Vec<&str> = path.iter().copied().chain([""]).collect();
            segments_match(&self.segments, &with_slash)
        } else {
            segments_match(&self.segments, path)
        };
        match (matches, self.only_directories) {
            (false, _) => Match::No,
            (true, true) => Match::DirectoryOnly,
            (true, false) => Match::Yes,
        }
    }

    /// Whether something below the path may match.
    pub(super) fn may_match_below(&self, path: &[&str]) -> bool {
        for (at, name) in path.iter().enumerate() {
            match self.segments.get(at) {
                Some(Segment::Globstar) => return true,
                Some(segment) if segment.matches(name) => {}
                _ => return false,
            }
        }
        true
    }
}

/// Greedy, with one step back to the last `**`, which is enough where only those repeat.
fn segments_match(segments: &[Segment], path: &[&str]) -> bool {
    let (mut segment, mut at) = (0, 0);
    let mut last_globstar = None;
    while at < path.len() {
        match segments.get(segment) {
            Some(Segment::Globstar) if segments[segment..].iter().all(is_globstar) => return true,
            Some(Segment::Globstar) => {
                segment += 1;
                last_globstar = Some((segment, at));
            }
            Some(one) if one.matches(path[at]) => {
                segment += 1;
                at += 1;
            }
            _ => {
                let Some((behind, taken)) = last_globstar else {
                    return false;
                };
                (segment, at) = (behind, taken + 1);
                last_globstar = Some((behind, at));
            }
        }
    }
    segment == segments.len()
}

fn is_globstar(segment: &Segment) -> bool {
    *segment == Segment::Globstar
}

/// The names a pattern starts from and those it writes itself.
fn split_root<'a>(
    text: &'a str,
    places: Places<'_>,
) -> Result<(Vec<String>, Vec<&'a str>), String> {
    let names = |path: &'a str| path.split('/').filter(|name| !name.is_empty()).collect();
    let owned = |path: &str| path.split('/').filter(|n| !n.is_empty()).map(str::to_owned).collect();
    if text.starts_with('/') {
        return Ok((Vec::new(), names(text)));
    }
    if text == "~" || text.starts_with("~/") {
        let home = places.home.filter(|home| home.starts_with('/')).ok_or_else(|| {
            format!("the hashFiles pattern `{text}` needs a home directory, and there is none")
        })?;
        return Ok((owned(home), names(&text[1..])));
    }
    let relative = if text == "." || text.starts_with("./") { &text[1..] } else { text };
    Ok((owned(places.workspace), names(relative)))
}

fn refuse_relative_names(text: &str, written: &[&str]) -> Result<(), String> {
    let is_relative = |name: &&str| matches!(literal(name).as_deref(), Some("." | ".."));
    if written.iter().any(is_relative) {
        return Err(format!(
            "the hashFiles pattern `{text}` may not contain `.` or `..`, except for `./` at its start"
        ));
    }
    Ok(())
}
