//! Which files an invocation is about, and how to name them.
//!
//! A file has two names: the language sees its path from the root of the repository, as workflows
//! refer to each other that way, and people see the path they typed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kiln_lang::suggest::closest;

/// How deep below a directory actions are looked for.
const MAX_DEPTH: usize = 16;

/// How many directory entries are looked at before the search for actions is given up.
const MAX_ENTRIES: usize = 100_000;

/// Directories that hold other people's files.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// One file to read.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The path from the root of the repository, with slashes.
    pub(crate) name: String,
    /// The path as people see it.
    pub(crate) shown: String,
    /// The root of the repository, absolute.
    pub(crate) root: PathBuf,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Stdin,
    File(PathBuf),
}

impl Target {
    /// The target of a path that is one file, or `-` for standard input.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::stdin();
        }
        let located = located(path)?;
        let path = located.as_path();
        let real = real(path)?;
        if real.is_dir() {
            bail!("`{}` is a directory; name one workflow file", path.display());
        }
        let directory = real.parent().unwrap_or(&real);
        let root = repository_of(directory).unwrap_or(directory);
        Ok(Self {
            name: slashed(real.strip_prefix(root).unwrap_or(&real)),
            shown: slashed(path),
            root: root.to_owned(),
            origin: Origin::File(real.clone()),
        })
    }

    fn stdin() -> Result<Self> {
        Ok(Self {
            name: "<stdin>".into(),
            shown: "<stdin>".into(),
            root: home()?,
            origin: Origin::Stdin,
        })
    }

    /// How people see a file that the language names by its path from the root.
    pub(crate) fn shown(&self, name: &str) -> String {
        let name = name.strip_prefix("./").unwrap_or(name);
        if name == self.name {
            return self.shown.clone();
        }
        match self.shown.strip_suffix(&self.name) {
            Some(prefix) => format!("{prefix}{name}"),
            None => name.to_owned(),
        }
    }

    /// Where a file is that the language names by its path from the root.
    pub(crate) fn absolute(&self, name: &str) -> PathBuf {
        self.root.join(name.strip_prefix("./").unwrap_or(name))
    }
}

/// The targets in the order they are reported, and what people should know about the search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) targets: Vec<Target>,
    pub(crate) notes: Vec<String>,
}

/// Finds what to lint. A path that does not exist, or has nothing to lint, is an error.
pub(crate) fn targets(paths: &[PathBuf]) -> Result<Found> {
    let mut found = Found::default();
    if paths.is_empty() {
        let (root, typed) = enclosing_repository()?;
        below(&root, &typed, &mut found)?;
    }
    for path in paths {
        if path != Path::new("-") && path.is_dir() {
            below(&real(path)?, path, &mut found)?;
        } else {
            found.targets.push(Target::of(path)?);
        }
    }
    let mut seen = HashSet::new();
    found.targets.retain(|target| seen.insert(target.absolute(&target.name)));
    Ok(found)
}

/// The root of the repository around the current directory, or that directory itself.
pub(crate) fn home() -> Result<PathBuf> {
    let here = here()?;
    Ok(repository_of(&here).unwrap_or(&here).to_owned())
}

fn here() -> Result<PathBuf> {
    fs::canonicalize(".").context("the current directory cannot be read")
}

/// The repository around the current directory, absolute and as a path from there.
fn enclosing_repository() -> Result<(PathBuf, PathBuf)> {
    let here = here()?;
    let Some(root) = repository_of(&here) else {
        bail!(
            "`{}` is not in a repository (no `.git` or `.github` here or above); name the files to check",
            here.display()
        );
    };
    let levels = here.components().count() - root.components().count();
    let typed = (0..levels).map(|_| Component::ParentDir).collect();
    Ok((root.to_owned(), typed))
}

fn repository_of(directory: &Path) -> Option<&Path> {
    directory
        .ancestors()
        .find(|above| above.join(".git").exists() || above.join(".github").is_dir())
}

/// The path itself, or what a bare name or a path from the root of the repository means.
pub(crate) fn located(path: &Path) -> Result<PathBuf> {
    if path.exists() || path.is_absolute() {
        return Ok(path.to_owned());
    }
    let (home, here) = (home()?, here()?);
    let workflows = home.join(".github/workflows");
    let mut places = vec![home.join(path)];
    for ending in ["", ".yml", ".yaml"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        places.push(workflows.join(name));
    }
    if let Some(found) = places.into_iter().find(|place| place.is_file()) {
        return Ok(found.strip_prefix(&here).map(Path::to_owned).unwrap_or(found));
    }
    let names: Vec<String> = yaml_files(&workflows)
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let typed = path.to_string_lossy();
    match closest(&typed, names.iter().map(String::as_str)) {
        Some(meant) => bail!("cannot find `{typed}`; did you mean `{meant}`?"),
        None if names.is_empty() => bail!("cannot find `{typed}`"),
        None => bail!("cannot find `{typed}`; the workflows here are {}", names.join(", ")),
    }
}

/// The absolute path, with only the directory part resolved: a workflow may be a symbolic link and
/// still belongs to the repository it is found in.
fn real(path: &Path) -> Result<PathBuf> {
    let missing = || format!("cannot find `{}`", path.display());
    fs::metadata(path).with_context(missing)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !path.is_dir() => {
            let parent = if parent == Path::new("") { Path::new(".") } else { parent };
            Ok(fs::canonicalize(parent).with_context(missing)?.join(name))
        }
        _ => fs::canonicalize(path).with_context(missing),
    }
}

/// Adds what is to be linted in and below a directory.
fn below(directory: &Path, typed: &Path, found: &mut Found) -> Result<()> {
    let root = repository_of(directory).unwrap_or(directory);
    let mut files = workflows(directory);
    files.append(&mut yaml_files(&directory.join(".kiln/workflows")));
    if directory.file_name() == Some(OsStr::new(".kiln")) {
        files.append(&mut yaml_files(&directory.join("workflows")));
    }
    let mut search = Search::default();
    search.actions(directory, 0);
    files.append(&mut search.found);
    files.sort();
    files.dedup();
    if files.is_empty() {
        let shown = if typed == Path::new("") { directory } else { typed };
        bail!("no workflows or actions in `{}`", shown.display());
    }
    if search.given_up {
        found.notes.push(format!(
            "`{}` is large: only its first {MAX_ENTRIES} entries, {MAX_DEPTH} levels deep, were searched for actions",
            typed.display()
        ));
    }
    for file in files {
        let inside = file.strip_prefix(directory).unwrap_or(&file);
        found.targets.push(Target {
            name: slashed(file.strip_prefix(root).unwrap_or(&file)),
            shown: slashed(&typed.join(inside)),
            root: root.to_owned(),
            origin: Origin::File(file),
        });
    }
    Ok(())
}

/// The workflows of a directory; its own files when it is not the root of a repository.
fn workflows(directory: &Path) -> Vec<PathBuf> {
    let github = directory.join(".github");
    let place = if directory.file_name() == Some(OsStr::new(".github")) {
        directory.join("workflows")
    } else if github.is_dir() {
        github.join("workflows")
    } else {
        directory.to_owned()
    };
    yaml_files(&place)
}

fn yaml_files(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml"))
        .filter(|path| path.is_file())
        .collect()
}

#[derive(Default)]
struct Search {
    found: Vec<PathBuf>,
    entries: usize,
    given_up: bool,
}

impl Search {
    /// Collects the actions below a directory; directories that cannot be read are passed over,
    /// symbolic links to directories are not followed.
    fn actions(&mut self, directory: &Path, depth: usize) {
        let mut entries: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES || depth > MAX_DEPTH {
                self.given_up = true;
                return;
            }
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                self.actions(&entry.path(), depth + 1);
            } else if !kind.is_dir() && (name == "action.yml" || name == "action.yaml") {
                self.found.push(entry.path());
            }
        }
    }
}

/// The path with slashes and without a leading `./`.
fn slashed(path: &Path) -> String {
    let mut text = String::new();
    for part in path.components() {
        let part = match part {
            Component::CurDir => continue,
            Component::RootDir => {
                text.push('/');
                continue;
            }
            other => other.as_os_str().to_string_lossy(),
        };
        if !text.is_empty() && !text.ends_with('/') {
            text.push('/');
        }
        text.push_str(&part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        directory
    }

    fn check(files: &[&str], path: &str, expect: &[&str]) {
        let directory = tree(files);
        let real = fs::canonicalize(directory.path()).unwrap();
        let found = targets(&[real.join(path)]).unwrap();
        let names: Vec<_> = found.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, expect);
    }

    #[test]
    fn a_repository_has_its_workflows_and_all_its_actions() {
        check(
            &[
                ".github/workflows/b.yaml",
                ".github/workflows/a.yml",
                ".github/workflows/notes.md",
                ".kiln/workflows/a.yml",
                ".github/dependabot.yml",
                ".github/actions/setup/action.yml",
                "compose.yml",
                "deep/er/action.yaml",
                "node_modules/x/action.yml",
                "target/action.yml",
                ".git/action.yml",
            ],
            "",
            &[
                ".github/actions/setup/action.yml",
                ".github/workflows/a.yml",
                ".github/workflows/b.yaml",
                ".kiln/workflows/a.yml",
                "deep/er/action.yaml",
            ],
        );
    }

    #[test]
    fn a_plain_directory_has_its_own_files_and_keeps_their_place_in_the_repository() {
        check(
            &[".git/HEAD", "examples/one.yml", "examples/deep/two.yml"],
            "examples",
            &["examples/one.yml"],
        );
    }

    #[test]
    fn the_github_directory_means_its_workflows() {
        check(
            &[".github/dependabot.yml", ".github/workflows/a.yml"],
            ".github",
            &[".github/workflows/a.yml"],
        );
    }

    #[test]
    fn a_file_named_twice_is_read_once() {
        let directory = tree(&[".github/workflows/a.yml"]);
        let file = directory.path().join(".github/workflows/a.yml");
        let found = targets(&[directory.path().to_owned(), file]).unwrap();
        assert_eq!(found.targets.len(), 1);
    }

    #[test]
    fn a_missing_path_and_an_empty_directory_are_errors_that_name_them() {
        let directory = tree(&["readme.md"]);
        let error = targets(&[directory.path().join("nowhere.yml")]).unwrap_err();
        assert!(error.to_string().contains("nowhere.yml"), "{error}");
        let error = targets(&[directory.path().to_owned()]).unwrap_err();
        assert!(error.to_string().starts_with("no workflows or actions in"), "{error}");
    }

    #[test]
    fn companions_are_shown_beside_the_file_that_led_to_them() {
        let target = Target {
            name: ".github/workflows/ci.yml".into(),
            shown: "../app/.github/workflows/ci.yml".into(),
            root: "/work/app".into(),
            origin: Origin::Stdin,
        };
        assert_eq!(target.shown(".github/workflows/ci.yml"), "../app/.github/workflows/ci.yml");
        assert_eq!(target.shown("./.github/workflows/x.yml"), "../app/.github/workflows/x.yml");
        assert_eq!(target.absolute("./a.yml"), Path::new("/work/app/a.yml"));
    }

    #[test]
    fn paths_are_written_with_slashes_and_without_a_leading_dot() {
        assert_eq!(slashed(Path::new("./a//b/./c.yml")), "a/b/c.yml");
        assert_eq!(slashed(Path::new("/a/../b")), "/a/../b");
        assert_eq!(slashed(Path::new("../a")), "../a");
    }
}
