//! The workflow's own repository, as actions fetch it.
//!
//! `actions/checkout` and everything else that reads `GITHUB_SERVER_URL` talks to a server. In a run on
//! this machine that is a small one on loopback, which gives out the repository of the run and nothing
//! else, to those who know the token of the run. It starts with the first action that could ask and
//! ends with the run.

mod served;
mod submodules;
mod token;
mod upload_pack;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::git::{GitError, Repository};
use crate::loopback::server::{self, Server};
use crate::process::{Control, Tree};
use crate::random;

pub use served::{Fetch, Served};
use token::Tokens;
use upload_pack::UploadPack;

/// A name that official clients take for GitHub's own, and that git finds on loopback.
const HOST: &str = "kiln.ghe.localhost";
/// The secret that GitHub gives to every job.
pub const TOKEN_SECRET: &str = "GITHUB_TOKEN";

/// What the server tells of.
#[derive(Debug)]
struct Content {
    served: Served,
    /// `owner/repository`.
    name: String,
    commit: String,
    /// The full ref that the run is about.
    reference: String,
    published: OnceLock<Result<(), String>>,
}

#[derive(Debug)]
pub struct Origin {
    content: Arc<Content>,
    token: String,
    /// The token is not of our making.
    is_given: bool,
    tokens: Tokens,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    server: Server,
    control: Control,
}

impl Origin {
    /// The origin of a run at a commit. The token is the `GITHUB_TOKEN` of the secrets, or a new one.
    pub fn new(
        served: Served,
        name: &str,
        commit: &str,
        reference: &str,
        secrets: &[(String, String)],
    ) -> io::Result<Self> {
        let given = secrets.iter().find(|(name, _)| name.eq_ignore_ascii_case(TOKEN_SECRET));
        let token = match given {
            Some((_, token)) => token.clone(),
            None => random::hex::<32>()?,
        };
        let words = secrets.iter().map(|(_, value)| value.as_str()).chain([token.as_str()]);
        Ok(Self {
            tokens: Tokens::new(words),
            content: Arc::new(Content {
                served,
                name: name.to_owned(),
                commit: commit.to_owned(),
                reference: reference.to_owned(),
                published: OnceLock::new(),
            }),
            token,
            is_given: given.is_some(),
            running: Mutex::default(),
        })
    }

    /// The commit that runs.
    pub fn commit(&self) -> &str {
        &self.content.commit
    }

    /// What `github.token` is.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether the token was given to the run: then it is for whoever made it, with an interface of its
    /// own.
    pub fn is_for_others(&self) -> bool {
        self.is_given
    }

    /// The secrets of a job: GitHub gives each one a token.
    pub fn with_token(&self, mut secrets: Vec<(String, String)>) -> Vec<(String, String)> {
        if !secrets.iter().any(|(name, _)| name.eq_ignore_ascii_case(TOKEN_SECRET)) {
            secrets.push((TOKEN_SECRET.to_owned(), self.token.clone()));
        }
        secrets
    }

    /// The repository of the run on this machine, with all its refs.
    pub fn repository(&self) -> Result<&Repository, String> {
        self.content.repository()
    }

    /// Writes the files of the run's commit to a new directory.
    pub fn export(&self, directory: &Path) -> Result<(), String> {
        fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make `{}`: {error}", directory.display()))?;
        self.repository()?
            .export(&self.content.commit, directory)
            .map_err(|error| error.to_string())
    }

    /// The address of the server, which is started if it is not there yet. Its processes belong to
    /// the trees around `job`, so that they outlive the job but not the run.
    pub fn address(&self, job: &Tree) -> Result<String, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match &mut *running {
            Some(running) => running,
            none => {
                let started = self.start(job).map_err(|error| {
                    format!("cannot serve the repository to actions on loopback: {error}")
                })?;
                none.insert(started)
            }
        };
        Ok(format!("http://{HOST}:{}", running.server.port()))
    }

    fn start(&self, job: &Tree) -> io::Result<Running> {
        let control = Control::new()?;
        let content = Arc::clone(&self.content);
        let upload_pack = UploadPack {
            tokens: self.tokens.clone(),
            directory: content.served.directory().to_owned(),
            find: Arc::new(move |path| content.find(path)),
            control: control.clone(),
            tree: job.sibling()?,
            bodies: AtomicUsize::new(0),
        };
        let answer: Arc<server::Answer> = Arc::new(move |stream: &_| upload_pack.answer(stream));
        let server = Server::start("origin", &answer)?;
        Ok(Running { server, control })
    }

    /// Ends the server and every fetch that is under way. It does not start again by itself.
    pub fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { server, control }) = running {
            control.kill();
            server.stop();
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Content {
    fn repository(&self) -> Result<&Repository, String> {
        let publish = || {
            let published = self.served.publish(&self.commit, &self.reference);
            published.map_err(|error: GitError| error.to_string())
        };
        self.published.get_or_init(publish).clone()?;
        self.served.repository().map_err(|error| error.to_string())
    }

    /// The repository at a path: the run's own, or a submodule that is named relative to it.
    fn find(&self, path: &str) -> Result<Option<PathBuf>, String> {
        let own = self.repository()?;
        if is_at(path, &self.name) {
            return Ok(Some(own.root().to_owned()));
        }
        let modules = submodules::relative(own, &self.commit, &self.name);
        let Some(module) = modules.iter().find(|module| is_at(path, &module.address)) else {
            return Ok(None);
        };
        Ok(submodules::directory(self.served.source(), &module.name))
    }
}

/// Whether a path of a request means a repository; GitHub does not look at case.
fn is_at(path: &str, name: &str) -> bool {
    let bare = |text: &str| text.trim_matches('/').trim_end_matches(".git").to_ascii_lowercase();
    bare(path) == bare(name)
}
