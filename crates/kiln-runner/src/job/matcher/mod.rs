//! Problem matchers: they find annotations in the output of compilers and linters.

mod config;
mod pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

pub use config::{Config, ConfigError, MatcherFault, parse};
use config::{PROPERTIES, Step};
use fancy_regex::Captures;
use pattern::Overrun;

use super::annotations::{Annotation, Severity, beneath};

/// After so many searches that were given up, a matcher is removed.
const MAX_OVERRUNS: u32 = 3;
/// No longer line is searched: with look-around the cost grows with the square of the length, and
/// an annotation keeps no longer message.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Most matchers at once; the oldest go.
const MAX_MATCHERS: usize = 200;

/// The matchers of a job, the newest first.
#[derive(Debug, Clone, Default)]
pub struct Matchers {
    list: Vec<Matcher>,
    next_id: u64,
}

#[derive(Debug, Clone)]
struct Matcher {
    id: u64,
    config: Arc<Config>,
    overruns: u32,
}

/// How far one stream of output has come in the matchers of several lines. Standard output and
/// standard error have one each, and every step new ones.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    running: Vec<(u64, Vec<Option<Found>>)>,
}

/// Where the files of annotations are looked for.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// Relative names are taken from here, and only files below are named.
    pub repository: &'a Path,
    pub is_file: &'a dyn Fn(&Path) -> bool,
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// What a line brought to light.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scanned {
    /// With the line as the log shows it: tagged and without colours.
    pub found: Option<(Annotation, String)>,
    /// Matchers that were removed because they cost too much, for the log.
    pub warnings: Vec<String>,
}

impl Matchers {
    /// Adds matchers; one with the same owner is replaced.
    pub fn add(&mut self, configs: Vec<Config>) {
        for config in configs {
            self.remove(&config.owner);
            let id = self.next_id;
            self.next_id += 1;
            self.list.insert(0, Matcher { id, config: Arc::new(config), overruns: 0 });
        }
        self.list.truncate(MAX_MATCHERS);
    }

    pub fn remove(&mut self, owner: &str) {
        self.list.retain(|matcher| !same_owner(&matcher.config.owner, owner));
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Shows one line of ordinary output to the matchers.
    pub fn scan(&mut self, progress: &mut Progress, line: &[u8], files: Files<'_>) -> Scanned {
        let mut scanned = Scanned::default();
        if self.list.is_empty() || line.len() > MAX_LINE_BYTES {
            return scanned;
        }
        let line = String::from_utf8_lossy(line);
        let line = without_colours(&line);
        progress.running.retain(|(id, _)| self.list.iter().any(|matcher| matcher.id == *id));
        for matcher in &mut self.list {
            let running = progress.of(matcher);
            match matcher.config.search(running, &line) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    progress.reset_all_but(matcher.id);
                    if let Some(annotation) = matcher.config.annotation(&found, files) {
                        let shown = format!("{}{line}", annotation.severity.tag());
                        scanned.found = Some((annotation, shown));
                        break;
                    }
                }
                Err(Overrun) => matcher.overruns += 1,
            }
        }
        self.list.retain(|matcher| {
            let stays = matcher.overruns < MAX_OVERRUNS;
            if !stays {
                scanned.warnings.push(format!(
                    "the problem matcher `{}` is removed: {MAX_OVERRUNS} lines took it too long",
                    matcher.config.owner
                ));
            }
            stays
        });
        scanned
    }
}

impl Progress {
    fn of(&mut self, matcher: &Matcher) -> &mut [Option<Found>] {
        let known = self.running.iter().position(|(id, _)| *id == matcher.id);
        let index = known.unwrap_or_else(|| {
            self.running.push((matcher.id, vec![None; matcher.config.patterns.len() - 1]));
            self.running.len() - 1
        });
        &mut self.running[index].1
    }

    fn reset_all_but(&mut self, id: u64) {
        self.running.retain(|(other, _)| *other == id);
    }
}

/// The texts of a match, by the index in [`PROPERTIES`]; a group that took no part is empty.
type Found = [Option<String>; PROPERTIES.len()];

impl Config {
    /// Moves the running matches on by one line. `running[i]` is the match up to pattern `i`.
    fn search(&self, running: &mut [Option<Found>], line: &str) -> Result<Option<Found>, Overrun> {
        // From the last to the first, so that a line is not used for two patterns in a row.
        for index in (0..self.patterns.len()).rev() {
            let step = &self.patterns[index];
            let before = match index.checked_sub(1) {
                None => Found::default(),
                Some(previous) => match &running[previous] {
                    None => continue,
                    Some(found) => found.clone(),
                },
            };
            let groups = step.pattern.captures(line)?;
            let is_last = index + 1 == self.patterns.len();
            let found = groups.map(|groups| extend(before, step, &groups));
            if !is_last {
                running[index] = found;
            } else if found.is_some() {
                let last = running.iter_mut().next_back().and_then(Option::take);
                running.fill(None);
                if step.repeats {
                    *running.last_mut().expect("only one of several patterns repeats") = last;
                }
                return Ok(found);
            } else if let Some(last) = running.last_mut() {
                *last = None;
            }
        }
        Ok(None)
    }

    /// Nothing when there is no message or the severity is unknown.
    fn annotation(&self, found: &Found, files: Files<'_>) -> Option<Annotation> {
        let [file, line, column, severity, code, message, from_path] =
            found.each_ref().map(|text| text.as_deref().filter(|text| !text.trim().is_empty()));
        let severity = match severity {
            Some(name) => Severity::from_name(name)?,
            None => self.severity.unwrap_or(Severity::Error),
        };
        let from_path = from_path.or(self.from_path.as_deref());
        Some(Annotation {
            file: file.and_then(|file| resolve(file, from_path, files)),
            line: line.and_then(|text| text.parse().ok()),
            column: column.and_then(|text| text.parse().ok()),
            code: code.map(|text| text.trim().to_owned()),
            ..Annotation::new(severity, message?)
        })
    }
}

/// Each property comes from one pattern only; what an earlier line found stays.
fn extend(mut found: Found, step: &Step, groups: &Captures<'_, str>) -> Found {
    for (text, group) in found.iter_mut().zip(step.groups) {
        if let (None, Some(group)) = (&text, group) {
            *text = Some(groups.get(group).map_or_else(String::new, |m| m.as_str().to_owned()));
        }
    }
    found
}

/// The file relative to the repository, if there is such a file. A project file in `from_path`
/// says from which directory a relative name counts.
fn resolve(file: &str, from_path: Option<&str>, files: Files<'_>) -> Option<String> {
    let directory =
        from_path.and_then(|path| Path::new(path).parent()).unwrap_or_else(|| Path::new(""));
    let relative = beneath(files.repository, &directory.join(file))?;
    (files.is_file)(&files.repository.join(&relative)).then_some(relative)
}

fn same_owner(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// The line without the escape sequences that set colours.
fn without_colours(line: &str) -> Cow<'_, str> {
    const START: &str = "\u{1b}[";
    let Some((first, mut rest)) = line.split_once(START) else { return Cow::Borrowed(line) };
    let mut plain = first.to_owned();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.strip_prefix(['m', 'K']).unwrap_or(rest);
        let Some((text, more)) = rest.split_once(START) else {
            plain.push_str(rest);
            return Cow::Owned(plain);
        };
        plain.push_str(text);
        rest = more;
    }
}
