//! Copies of repositories that stay on this machine, so that a job fetches only what is new.
//!
//! A job borrows the objects of a mirror, so nothing in one is ever removed or packed anew while the
//! runner is there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::git::{self, GitError, Repository};

use super::http::is_loopback;

/// More names are of no use to the server.
const MOST_WARM: usize = 50;
/// Names the run that a mirror was fetched for last.
const FETCHED: &str = "kiln-fetched";

#[derive(Debug, Clone)]
pub(super) struct Mirrors {
    pub(super) directory: PathBuf,
    /// Certificates to trust besides those that git knows.
    pub(super) ca: Option<PathBuf>,
}

/// What a job needs of a repository.
#[derive(Clone)]
pub(super) struct Wanted {
    /// `owner/name`.
    pub(super) repo: String,
    pub(super) url: String,
    pub(super) token: String,
    pub(super) commit: String,
    pub(super) run: i64,
}

impl Mirrors {
    /// The mirror of a repository, which may not be there yet.
    pub(super) fn of(&self, repo: &str) -> Result<Repository, String> {
        let is_name = |part: &str| {
            !part.is_empty() && !part.starts_with(['.', '-']) && !part.contains(['/', '\\', '\0'])
        };
        match repo.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => {
                let folder = self.directory.join(owner).join(format!("{name}.git"));
                Ok(Repository::at(folder))
            }
            _ => Err(format!("`{repo}` is no name of a repository; expected `owner/name`")),
        }
    }

    /// The repositories that are here, the latest first.
    pub(super) fn warm(&self) -> Vec<String> {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for owner in entries(&self.directory) {
            for repository in entries(&owner.path()) {
                let (owner, name) = (owner.file_name(), repository.file_name());
                let used = fs::metadata(repository.path().join(FETCHED));
                let used = used.and_then(|used| used.modified());
                if let (Some(owner), Some(name), Ok(used)) = (owner.to_str(), name.to_str(), used)
                    && let Some(name) = name.strip_suffix(".git")
                {
                    found.push((used, format!("{owner}/{name}")));
                }
            }
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        found.truncate(MOST_WARM);
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Brings the commit of a run into its mirror, with the branches and tags of that moment. Other jobs
    /// of the run find it there.
    pub(super) fn fetch(&self, wanted: &Wanted) -> Result<(), GitError> {
        let mirror = self.of(&wanted.repo).map_err(GitError)?;
        let failed = |error: std::io::Error| {
            GitError(format!("cannot use the mirror `{}`: {error}", mirror.root().display()))
        };
        fs::create_dir_all(mirror.root()).map_err(failed)?;
        // One at a time for each repository, until the file is closed.
        let turn = File::create(mirror.root().with_extension("lock")).map_err(failed)?;
        turn.lock().map_err(failed)?;
        if !mirror.root().join("HEAD").exists() {
            mirror.ask(&["init", "-q", "--bare", "--template="])?;
        }
        let fetched = mirror.root().join(FETCHED);
        let run = format!("{} {}", wanted.run, wanted.commit);
        if fs::read_to_string(&fetched).is_ok_and(|last| last == run) {
            return Ok(());
        }
        self.fetch_into(&mirror, wanted)?;
        fs::write(&fetched, run).map_err(failed)
    }

    fn fetch_into(&self, mirror: &Repository, wanted: &Wanted) -> Result<(), GitError> {
        if !wanted.url.starts_with("http://") && !wanted.url.starts_with("https://") {
            return Err(GitError(format!("`{}` is no address to fetch from", wanted.url)));
        }
        let own = format!("+{0}:refs/kiln/{0}", wanted.commit);
        let words = ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "fetch", "-q", "--no-tags"];
        let refs = ["--prune", &wanted.url, &own, "+refs/heads/*:refs/heads/*"];
        let words = [&words[..], &refs, &["+refs/tags/*:refs/tags/*"]].concat();
        let env = self.environment(wanted, &git::environment());
        let env: Vec<(&str, &OsStr)> =
            env.iter().map(|(name, value)| (name.as_str(), value.as_os_str())).collect();
        mirror.bytes(&words, &env).map(|_| ())
    }

    /// The token goes to git by its environment: everybody can read a command line.
    fn environment(
        &self,
        wanted: &Wanted,
        own: &[(OsString, OsString)],
    ) -> Vec<(String, OsString)> {
        let known = own.iter().find(|(name, _)| name == "GIT_CONFIG_COUNT");
        let known = known.and_then(|(_, count)| count.to_str()?.parse::<u32>().ok()).unwrap_or(0);
        let password = BASE64.encode(format!("x-access-token:{}", wanted.token));
        let mut settings = vec![("http.extraHeader", format!("Authorization: Basic {password}"))];
        if is_loopback(&wanted.url) {
            // A proxy would look for the server on its own machine.
            settings.push(("http.proxy", String::new()));
        }
        let count = known as usize + settings.len();
        let mut env: Vec<(String, OsString)> = vec![
            ("GIT_TERMINAL_PROMPT".to_owned(), "0".into()),
            ("GIT_CONFIG_COUNT".to_owned(), count.to_string().into()),
        ];
        for (at, (name, value)) in (known..).zip(settings) {
            env.push((format!("GIT_CONFIG_KEY_{at}"), name.into()));
            env.push((format!("GIT_CONFIG_VALUE_{at}"), value.into()));
        }
        if let Some(ca) = &self.ca {
            env.push(("GIT_SSL_CAINFO".to_owned(), ca.clone().into_os_string()));
        }
        env
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_repositories_lead_to_folders() {
        let mirrors = Mirrors { directory: "/m".into(), ca: None };
        assert_eq!(mirrors.of("a/b").unwrap().root(), Path::new("/m/a/b.git"));
        for wrong in ["", "a", "a/", "/b", "../b", "a/..", "a/b/c", "-a/b", "a/b\\c"] {
            assert!(mirrors.of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_token_is_added_to_what_git_is_told_already() {
        let mirrors = Mirrors { directory: "/m".into(), ca: Some("/ca.pem".into()) };
        let own = vec![("GIT_CONFIG_COUNT".into(), "2".into())];
        let wanted = |url: &str| Wanted {
            repo: "a/b".into(),
            url: url.into(),
            token: "t".into(),
            commit: "0".repeat(40),
            run: 1,
        };
        let env = mirrors.environment(&wanted("https://ci.example/a/b.git"), &own);
        let get = |name: &str| {
            let found = env.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str())
        };
        assert_eq!(get("GIT_CONFIG_COUNT"), Some("3"));
        assert_eq!(get("GIT_CONFIG_KEY_2"), Some("http.extraHeader"));
        assert_eq!(
            get("GIT_CONFIG_VALUE_2"),
            Some("Authorization: Basic eC1hY2Nlc3MtdG9rZW46dA==")
        );
        assert_eq!(get("GIT_SSL_CAINFO"), Some("/ca.pem"));
        let env = mirrors.environment(&wanted("http://127.0.0.1:1/a/b.git"), &[]);
        let last = env.iter().find(|(name, _)| name == "GIT_CONFIG_KEY_1");
        assert_eq!(last.and_then(|(_, value)| value.to_str()), Some("http.proxy"));
    }

    #[test]
    fn nothing_but_http_is_fetched_from() {
        let folder = tempfile::tempdir().unwrap();
        let mirrors = Mirrors { directory: folder.path().into(), ca: None };
        for url in ["/etc", "file:///etc", "--upload-pack=x", "ext::sh -c x", "ssh://x"] {
            let wanted = Wanted {
                repo: "a/b".into(),
                url: url.into(),
                token: String::new(),
                commit: "0".repeat(40),
                run: 1,
            };
            let error = mirrors.fetch(&wanted).unwrap_err();
            assert!(error.0.contains("no address"), "{error}");
        }
        assert!(mirrors.warm().is_empty());
    }
}
