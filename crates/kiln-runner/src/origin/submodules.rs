//! Submodules whose address is relative: git looks for them where the repository itself came from.

use std::path::PathBuf;

use crate::git::Repository;

/// A submodule that would be fetched from the origin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// `owner/repository`.
    pub(super) address: String,
}

/// The relative submodules of a commit.
pub(super) fn relative(repository: &Repository, commit: &str, own: &str) -> Vec<Module> {
    let blob = format!("{commit}:.gitmodules");
    let question = ["config", "-z", "--blob", &blob, "--get-regexp", r"^submodule\..*\.url$"];
    // A commit without submodules has no such file.
    let listed = repository.bytes(&question, &[]).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let entries = listed.split('\0').filter_map(|entry| entry.split_once('\n'));
    let modules = entries.filter_map(|(key, url)| {
        let name = key.strip_prefix("submodule.")?.strip_suffix(".url")?;
        Some(Module { name: name.to_owned(), address: resolve(own, url)? })
    });
    modules.collect()
}

/// Where the user's repository keeps a submodule that was fetched.
pub(super) fn directory(source: &Repository, name: &str) -> Option<PathBuf> {
    if name.split('/').any(|part| part == "..") {
        return None;
    }
    let path = format!("modules/{name}");
    let found = source.ask(&["rev-parse", "--path-format=absolute", "--git-path", &path]).ok()?;
    Some(PathBuf::from(found)).filter(|found| found.join("HEAD").is_file())
}

/// A relative address as git understands it: each `../` takes a name off the end.
fn resolve(own: &str, url: &str) -> Option<String> {
    if !url.starts_with("./") && !url.starts_with("../") {
        return None;
    }
    let mut parts: Vec<&str> = own.split('/').collect();
    for part in url.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses_start_at_the_repository() {
        let check = |url: &str, expect: Option<&str>| {
            assert_eq!(resolve("acme/app", url).as_deref(), expect, "{url}");
        };
        check("../lib.git", Some("acme/lib.git"));
        check("../../other/lib", Some("other/lib"));
        check("./part", Some("acme/app/part"));
        check(".././lib/", Some("acme/lib"));
        check("../../../lib", None);
        check("https://localhost/lib", None);
        check("/srv/lib", None);
    }
}
