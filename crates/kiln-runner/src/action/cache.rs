//! What the inputs of `actions/cache` mean: which files are saved, and where they are put back.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_blob::tree::Place;
use kiln_lang::hash_files::{Globs, Places};

/// What sets these caches apart from those of GitHub's client, which are archives.
const FORM: &str = "kiln-tree-2";
const LONGEST_KEY: usize = 512;
const MOST_KEYS: usize = 10;
/// How deep folders are looked into for what a pattern names.
const DEEPEST: usize = 256;

/// The files of a cache.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    lines: Vec<String>,
    globs: Globs,
    workspace: String,
    home: Option<String>,
}

impl Paths {
    pub(crate) fn read(text: &str, workspace: &Path, home: Option<&str>) -> Result<Self, String> {
        let workspace = workspace.to_str().ok_or("the path of the workspace is no text")?;
        let home = home.filter(|home| home.starts_with('/')).map(|home| home.trim_end_matches('/'));
        let globs = Globs::parse(text, Places { workspace, home })
            .map_err(|why| why.replace("hashFiles pattern", "pattern of `path`"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(Self {
            lines: lines.map(str::to_owned).collect(),
            globs,
            workspace: workspace.trim_end_matches('/').to_owned(),
            home: home.map(str::to_owned),
        })
    }

    /// Caches of other paths, or of another form, are others.
    pub(crate) fn version(&self) -> String {
        let text = format!("{}|{FORM}|1.0", self.lines.join("|"));
        crate::local::digest(text.as_bytes())
    }

    /// What is there of it.
    pub(crate) fn places(&self) -> Result<Vec<Place>, String> {
        let mut found = Vec::new();
        for root in self.globs.search_roots() {
            self.look(Path::new(&root), 0, &mut found)?;
        }
        found.sort_by(|one: &Place, other| one.at.cmp(&other.at));
        found.dedup();
        // What lies in another place is saved with that.
        let mut outer: Vec<Place> = Vec::new();
        for place in found {
            if !outer.last().is_some_and(|last| place.at.starts_with(&last.at)) {
                outer.push(place);
            }
        }
        Ok(outer)
    }

    fn look(&self, at: &Path, depth: usize, found: &mut Vec<Place>) -> Result<(), String> {
        let Ok(metadata) = fs::symlink_metadata(at) else { return Ok(()) };
        let text = at.to_str().ok_or_else(|| format!("`{}` is no text", at.display()))?;
        if self.globs.takes(text) {
            found.push(Place { name: self.name(text), at: at.to_owned() });
            return Ok(());
        }
        if !metadata.is_dir() || !self.globs.may_take_below(text) || depth > DEEPEST {
            return Ok(());
        }
        let failed = |error: std::io::Error| format!("cannot list `{text}`: {error}");
        for entry in fs::read_dir(at).map_err(failed)? {
            self.look(&entry.map_err(failed)?.path(), depth + 1, found)?;
        }
        Ok(())
    }

    pub(crate) fn leaves_out(&self, at: &Path) -> bool {
        at.to_str().is_some_and(|text| self.globs.leaves_out(text))
    }

    /// What a tree calls a place, so that it fits on another machine.
    fn name(&self, at: &str) -> String {
        let below = |base: &str| {
            let rest = at.strip_prefix(base)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        };
        if let Some(rest) = below(&self.workspace) {
            return format!(".{rest}");
        }
        match self.home.as_deref().and_then(below) {
            Some(rest) => format!("~{rest}"),
            None => at.to_owned(),
        }
    }

    /// Where a place of a tree goes here: only to where these paths lead.
    pub(crate) fn target(&self, name: &str) -> Result<PathBuf, String> {
        let strange =
            || format!("the cache holds `{name}`, which is not among the paths of the step");
        let whole = match (name.strip_prefix('.'), name.strip_prefix('~'), &self.home) {
            (Some(rest), _, _) => format!("{}{rest}", self.workspace),
            (_, Some(rest), Some(home)) => format!("{home}{rest}"),
            (None, None, _) if name.starts_with('/') => name.to_owned(),
            _ => return Err(strange()),
        };
        let is_plain = whole.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
        if is_plain && self.globs.takes(&whole) { Ok(PathBuf::from(whole)) } else { Err(strange()) }
    }
}

/// A key and those that will do, as GitHub has them.
pub(crate) fn check_keys(keys: &[String]) -> Result<(), String> {
    if keys.len() > MOST_KEYS {
        return Err(format!("Key Validation Error: Keys are limited to a maximum of {MOST_KEYS}."));
    }
    for key in keys {
        if key.chars().count() > LONGEST_KEY {
            return Err(format!(
                "Key Validation Error: {key} cannot be larger than {LONGEST_KEY} characters."
            ));
        }
        if key.contains(',') {
            return Err(format!("Key Validation Error: {key} cannot contain commas."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    /// R8
    #[test]
    fn places_are_found_by_patterns_and_put_back_where_the_same_patterns_lead() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("work"), folder.path().join("home"));
        for file in ["a/node_modules/x", "b/node_modules/y/node_modules/z", "b/src/main", "one.txt"]
        {
            write(&work.join(file));
        }
        write(&home.join(".npm/_cacache/1"));
        write(&home.join(".npm/_logs/1"));
        let check = |text: &str, expect: &[&str]| {
            let paths = Paths::read(text, &work, home.to_str()).unwrap();
            let places = paths.places().unwrap();
            let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
            assert_eq!(names, expect, "{text}");
            for place in places {
                assert_eq!(paths.target(&place.name).unwrap(), place.at);
            }
            paths
        };
        check("**/node_modules", &["./a/node_modules", "./b/node_modules"]);
        check("one.txt\nnowhere\nb/src/", &["./b/src", "./one.txt"]);
        let paths = check("~/.npm\n!~/.npm/_logs", &["~/.npm"]);
        assert!(paths.leaves_out(&home.join(".npm/_logs/1")));
        assert!(!paths.leaves_out(&home.join(".npm/_cacache/1")));
        check("~/.npm/*\n!~/.npm/_logs", &["~/.npm/_cacache"]);
        check("", &[]);
        for strange in ["~/.ssh", "/etc", "./../x", "~/.npm/../x", "x", ""] {
            paths.target(strange).unwrap_err();
        }
        let elsewhere = Paths::read("~/.npm", Path::new("/w"), Some("/root/")).unwrap();
        assert_eq!(elsewhere.target("~/.npm").unwrap(), Path::new("/root/.npm"));
        assert_ne!(elsewhere.version(), paths.version());
        assert!(Paths::read("../x", &work, None).unwrap_err().contains("pattern of `path`"));
        assert!(Paths::read("~/x", &work, None).unwrap_err().contains("home"));
    }

    #[test]
    fn keys_that_github_refuses_are_refused() {
        check_keys(&["a".to_owned(), "b".repeat(512)]).unwrap();
        assert!(check_keys(&["a,b".to_owned()]).unwrap_err().contains("commas"));
        assert!(check_keys(&["b".repeat(513)]).unwrap_err().contains("larger"));
        assert!(check_keys(&vec!["a".to_owned(); 11]).unwrap_err().contains("maximum"));
    }
}
