//! What the checks look at: the tracked files and the workspace's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

#[derive(Debug)]
pub struct Repository {
    pub root: PathBuf,
    pub files: Vec<TrackedFile>,
    pub packages: Vec<Package>,
}

#[derive(Debug)]
pub struct TrackedFile {
    /// Relative to the root, with forward slashes.
    pub path: String,
    pub bytes: u64,
    /// `None` for what is not UTF-8, which no check reads.
    pub text: Option<String>,
}

/// A member of the workspace as `cargo metadata` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub description: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub only_for_tests: bool,
}

impl Repository {
    /// The repository that this program was built from.
    pub fn open() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let files = tracked_files(&root)?;
        let packages = packages(&root)?;
        Ok(Self { root, files, packages })
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// Path and text of every file whose name ends in `suffix`.
    pub fn texts<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(suffix))
            .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    #[cfg(test)]
    pub(crate) fn fixture(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| TrackedFile {
                path: (*path).to_owned(),
                bytes: text.len() as u64,
                text: Some((*text).to_owned()),
            })
            .collect();
        Self { root: PathBuf::new(), files, packages: Vec::new() }
    }
}

/// Files that git tracks or would track: a new file is checked before its first commit.
fn tracked_files(root: &Path) -> Result<Vec<TrackedFile>> {
    // A checkout owned by another user is fine here: git only lists names.
    let words = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"];
    let listing = output(root, "git", &[&words[..], &["--exclude-standard"]].concat())?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let full = root.join(path);
        // A file deleted but not yet committed is still listed; a link is checked where it leads.
        if !full.symlink_metadata().is_ok_and(|found| found.is_file()) {
            continue;
        }
        let content = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
        let bytes = content.len() as u64;
        files.push(TrackedFile {
            path: path.to_owned(),
            bytes,
            text: String::from_utf8(content).ok(),
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let words = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata: Value = serde_json::from_str(&output(root, &cargo(), &words)?)?;
    let listed = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut packages: Vec<Package> = listed.iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn package(described: &Value) -> Package {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependencies = described["dependencies"].as_array().into_iter().flatten();
    Package {
        name: word(&described["name"]),
        description: word(&described["description"]),
        dependencies: dependencies
            .map(|dependency| Dependency {
                name: word(&dependency["name"]),
                only_for_tests: dependency["kind"] == "dev",
            })
            .collect(),
    }
}

/// The cargo that runs us, so that a toolchain chosen by the caller is kept.
#[expect(clippy::disallowed_methods, reason = "cargo names itself in the environment")]
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a chore may start programs; the product may not")]
pub(crate) fn command(root: &Path, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).current_dir(root);
    command
}

fn output(root: &Path, program: &str, words: &[&str]) -> Result<String> {
    let finished = command(root, program, words)
        .output()
        .with_context(|| format!("cannot start {program}; is it installed?"))?;
    let complaint = String::from_utf8_lossy(&finished.stderr);
    ensure!(finished.status.success(), "{program} {} failed: {complaint}", words.join(" "));
    Ok(String::from_utf8(finished.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_repository_lists_its_files_and_packages() {
        let repository = Repository::open().unwrap();
        assert!(repository.text("Cargo.toml").unwrap().contains("[workspace]"));
        let xtask = repository.packages.iter().find(|package| package.name == "xtask").unwrap();
        let lang = Dependency { name: "kiln-lang".to_owned(), only_for_tests: false };
        assert!(xtask.dependencies.contains(&lang));
    }

    #[test]
    fn a_program_that_fails_says_what_it_said() {
        let error = output(Path::new("."), "git", &["no-such-verb"]).unwrap_err().to_string();
        assert!(error.contains("git no-such-verb failed"), "{error}");
        assert!(error.contains("not a git command"), "{error}");
    }
}
