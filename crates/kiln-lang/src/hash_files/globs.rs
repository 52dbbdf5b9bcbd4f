//! The same patterns for whoever looks for files and folders themselves.

use super::pattern::{Match, Pattern};
use super::{Limits, Places, lines_of};

/// Patterns over absolute paths, of which later ones overrule earlier ones.
#[derive(Debug, Clone)]
pub struct Globs {
    patterns: Vec<Both>,
}

/// A pattern, and the one for what lies below.
#[derive(Debug, Clone)]
struct Both {
    own: Pattern,
    below: Option<Pattern>,
}

impl Both {
    fn is_own(&self, path: &[&str]) -> bool {
        self.own.matches(path) != Match::No
    }

    fn is_below(&self, path: &[&str]) -> bool {
        self.below.as_ref().is_some_and(|below| below.matches(path) != Match::No)
    }
}

impl Globs {
    /// One pattern in each line; those that begin with `!` take away.
    pub fn parse(text: &str, places: Places<'_>) -> Result<Self, String> {
        let read = |line: &str| {
            let own = Pattern::parse(line, places)?;
            Ok(Both { below: own.descendants(), own })
        };
        let texts = [text.to_owned()];
        let lines = lines_of(&texts, Limits::default())?;
        Ok(Self { patterns: lines.into_iter().map(read).collect::<Result<_, String>>()? })
    }

    /// The absolute paths from which a search begins.
    pub fn search_roots(&self) -> Vec<String> {
        let wanted = self.patterns.iter().filter(|both| !both.own.is_negated());
        let mut roots: Vec<String> =
            wanted.map(|both| format!("/{}", both.own.search_root().join("/"))).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Whether a pattern names this path, and none after it takes it away.
    pub fn takes(&self, path: &str) -> bool {
        let path = names(path);
        self.patterns.iter().fold(false, |so_far, both| {
            if both.own.is_negated() {
                so_far && !both.is_own(&path) && !both.is_below(&path)
            } else {
                so_far || both.is_own(&path)
            }
        })
    }

    /// Whether something below a folder may be named.
    pub fn may_take_below(&self, path: &str) -> bool {
        let path = names(path);
        let wanted = self.patterns.iter().filter(|both| !both.own.is_negated());
        wanted.into_iter().any(|both| both.own.may_match_below(&path))
    }

    /// Whether a file is meant: a pattern names it or a folder around it, and none after that takes it away.
    pub fn takes_file(&self, path: &str) -> bool {
        let path = names(path);
        let is_file = |pattern: &Pattern| pattern.matches(&path) == Match::Yes;
        self.patterns.iter().fold(false, |so_far, both| {
            let is_meant = is_file(&both.own) || both.below.as_ref().is_some_and(is_file);
            if is_meant { !both.own.is_negated() } else { so_far }
        })
    }

    /// Whether files that are meant may lie in this folder.
    pub fn may_take_files_in(&self, path: &str) -> bool {
        let path = names(path);
        let leads_on = |pattern: &Pattern| {
            pattern.matches(&path) != Match::No || pattern.may_match_below(&path)
        };
        let wanted = self.patterns.iter().filter(|both| !both.own.is_negated());
        wanted
            .into_iter()
            .any(|both| leads_on(&both.own) || both.below.as_ref().is_some_and(leads_on))
    }

    /// Whether a path is taken away that lies in a folder which is named.
    pub fn leaves_out(&self, path: &str) -> bool {
        let path = names(path);
        self.patterns.iter().fold(false, |so_far, both| {
            let is_meant = both.is_own(&path) || both.is_below(&path);
            if is_meant { both.own.is_negated() } else { so_far }
        })
    }
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places<'_> = Places { workspace: "/w", home: Some("/home/me") };

    #[test]
    fn paths_are_taken_and_left_out_as_the_lines_say() {
        let globs =
            Globs::parse("deps\n~/.cache/*\n!~/.cache/tmp\n!deps/**/*.log", PLACES).unwrap();
        assert_eq!(globs.search_roots(), ["/home/me/.cache", "/w/deps"]);
        for (path, taken, left_out) in [
            ("/w/deps", true, false),
            ("/w/deps/a", false, false),
            ("/w/deps/a/b.log", false, true),
            ("/home/me/.cache", false, false),
            ("/home/me/.cache/npm", true, false),
            ("/home/me/.cache/tmp", false, true),
            ("/home/me/.cache/tmp/x", false, true),
            ("/etc", false, false),
        ] {
            assert_eq!((globs.takes(path), globs.leaves_out(path)), (taken, left_out), "{path}");
        }
        assert!(globs.may_take_below("/home/me") && !globs.may_take_below("/home/you"));
        assert!(Globs::parse("../x", PLACES).is_err());
    }

    #[test]
    fn files_are_meant_with_the_folder_that_they_lie_in() {
        let globs = Globs::parse("dist/\n!dist/**/*.map\ndist/keep.map\na?.txt", PLACES).unwrap();
        for (path, taken) in [
            ("/w/dist", false),
            ("/w/dist/a.js", true),
            ("/w/dist/a/b/c.js", true),
            ("/w/dist/a/b/c.map", false),
            ("/w/dist/keep.map", true),
            ("/w/ab.txt", true),
            ("/w/abc.txt", false),
            ("/w/x/ab.txt", false),
        ] {
            assert_eq!(globs.takes_file(path), taken, "{path}");
        }
        for (path, may) in
            [("/w", true), ("/w/dist", true), ("/w/dist/a", true), ("/w/src", false), ("/x", false)]
        {
            assert_eq!(globs.may_take_files_in(path), may, "{path}");
        }
    }
}
