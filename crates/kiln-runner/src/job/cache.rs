//! The built-in `actions/cache`, for when no mirror has the real one. It says what that one says, and keeps trees of
//! chunks, of which a second save moves only what changed.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kiln_blob::Digest;
use kiln_blob::tree::{self, Packed, Restored, Root, Shelf, Spot};
use kiln_core::run::Conclusion;
use kiln_proto::content::{Cache, FindCache, NewCache};

use crate::action::{CachePaths as Paths, check_keys};
use crate::gateway::{Reason, Stored};
use crate::process::Control;

use super::driver::{Done, JobRun};
use super::environment::Variables;
use super::frame::Frame;
use super::inputs::Inputs;

/// What the published action takes; all else is a mistake that is worth a word.
const INPUTS: [&str; 8] = [
    "path",
    "key",
    "restore-keys",
    "upload-chunk-size",
    "enableCrossOsArchive",
    "fail-on-cache-miss",
    "lookup-only",
    "save-always",
];
/// A longer root is none.
const LONGEST_ROOT: u64 = 256 << 20;

/// Which of its parts a step uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It restores, and saves at the end of the job.
    Whole,
    Restore,
    Save,
}

impl Part {
    /// By the folder in the repository of the action.
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "" => Some(Self::Whole),
            "restore" => Some(Self::Restore),
            "save" => Some(Self::Save),
            _ => None,
        }
    }
}

/// What a step asks for.
#[derive(Debug, Clone)]
struct Asked {
    paths: Paths,
    key: String,
    restore_keys: Vec<String>,
    fails_on_miss: bool,
    looks_only: bool,
}

impl Asked {
    fn new_cache(&self) -> NewCache {
        NewCache { key: self.key.clone(), version: self.paths.version() }
    }
}

/// A cache that is to be saved when the job has succeeded.
#[derive(Debug, Clone)]
pub(super) struct Later {
    /// The step that wants it.
    pub(super) key: String,
    asked: Asked,
    /// The key that was found.
    matched: Option<String>,
}

impl JobRun<'_, '_> {
    pub(super) fn cache(
        &mut self,
        frame: &Frame,
        (id, part): (&str, Part),
        with: &Variables,
        step_env: &Variables,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        let asked = self.asked(frame, with, step_env)?;
        if part == Part::Save {
            return Ok((self.save_cache(&asked, timeout), Vec::new()));
        }
        let (conclusion, matched) = self.restore_cache(&asked, timeout)?;
        let mut outputs = vec![("cache-primary-key".to_owned(), asked.key.clone())];
        if let Some(matched) = &matched {
            outputs.push(("cache-matched-key".to_owned(), matched.clone()));
            outputs.push(("cache-hit".to_owned(), is_same(matched, &asked.key).to_string()));
        }
        if part == Part::Whole && conclusion == Conclusion::Success {
            self.posts.register_cache(Later { key: frame.key(id), asked, matched });
        }
        Ok((conclusion, outputs))
    }

    fn asked(
        &self,
        frame: &Frame,
        with: &Variables,
        step_env: &Variables,
    ) -> Result<Asked, String> {
        self.warn_of_unknown(with, &INPUTS);
        let inputs = Inputs(with);
        if inputs.is_set("save-always")? {
            let text = "##[warning]`save-always` does not work as intended and is ignored, as on GitHub; \
                        use `actions/cache/save` with `if: always()`";
            self.output().say(self.step, text);
        }
        let (path, key) = (inputs.required("path")?, inputs.required("key")?.to_owned());
        let lines =
            inputs.get("restore-keys").lines().map(str::trim).filter(|line| !line.is_empty());
        let restore_keys: Vec<String> = lines.map(str::to_owned).collect();
        check_keys(&[&[key.clone()][..], &restore_keys].concat())?;
        let home = self.home(frame, step_env);
        let workspace = &self.shared.task.places.workspace;
        Ok(Asked {
            paths: Paths::read(path, workspace, home.as_deref())?,
            key,
            restore_keys,
            fails_on_miss: inputs.is_set("fail-on-cache-miss")?,
            looks_only: inputs.is_set("lookup-only")?,
        })
    }

    /// What `~` is for a step.
    pub(super) fn home(&self, frame: &Frame, step_env: &Variables) -> Option<String> {
        let own = [step_env, &frame.env, &self.env].into_iter().find_map(|env| env.get("HOME"));
        let inherited = || {
            let home = self.shared.host.inherited.get(std::ffi::OsStr::new("HOME"));
            home.and_then(|home| home.to_str()).map(str::to_owned)
        };
        own.cloned().or_else(inherited)
    }

    /// Says what was found.
    fn restore_cache(
        &mut self,
        asked: &Asked,
        timeout: Option<Duration>,
    ) -> Result<(Conclusion, Option<String>), String> {
        let say = |text: &str| self.output().say(self.step, text);
        let wanted = FindCache {
            key: asked.key.clone(),
            restore_keys: asked.restore_keys.clone(),
            version: asked.paths.version(),
        };
        let found = self.shared.task.services.find_cache(&wanted).unwrap_or_else(|refusal| {
            say(&format!("##[warning]Failed to restore: {refusal}"));
            None
        });
        let found = match found {
            Some(cache) if asked.looks_only => {
                say(&format!("Cache found and can be restored from key: {}", cache.key));
                return Ok((Conclusion::Success, Some(cache.key)));
            }
            Some(cache) => {
                say(&format!("Cache hit for: {}", cache.key));
                self.restore_tree(asked, cache, timeout)
            }
            None => None,
        };
        if self.step_control().is_cancelled() {
            return Ok((Conclusion::Cancelled, None));
        }
        if found.is_none() {
            if asked.fails_on_miss {
                return Err(format!(
                    "Failed to restore cache entry. Exiting as fail-on-cache-miss is set. Input key: {}",
                    asked.key
                ));
            }
            let keys = [&[asked.key.clone()][..], &asked.restore_keys].concat().join(", ");
            say(&format!("Cache not found for input keys: {keys}"));
        }
        Ok((Conclusion::Success, found))
    }

    /// Puts a tree in place. Returns its key, if that could be done.
    fn restore_tree(
        &self,
        asked: &Asked,
        cache: Cache,
        timeout: Option<Duration>,
    ) -> Option<String> {
        let restored = self.restored(asked, &cache, timeout);
        let say = |text: &str| self.output().say(self.step, text);
        match restored {
            Ok(restored) => {
                let Restored { files, bytes } = restored;
                say(&format!("Cache Size: ~{} MB ({bytes} B, {files} files)", bytes >> 20));
                say(&format!("Cache restored from key: {}", cache.key));
                Some(cache.key)
            }
            Err(error) => {
                say(&format!("##[warning]Failed to restore: {error}"));
                None
            }
        }
    }

    fn restored(
        &self,
        asked: &Asked,
        cache: &Cache,
        timeout: Option<Duration>,
    ) -> Result<Restored, String> {
        let services = &self.shared.task.services;
        let text = |error: io::Error| error.to_string();
        let mut root = Vec::new();
        let open = services.open(&Stored::from(cache), 0).map_err(|refusal| refusal.message)?;
        open.take(LONGEST_ROOT).read_to_end(&mut root).map_err(text)?;
        if Digest::of(&root).to_string() != cache.hash {
            return Err("the root of its tree is damaged".to_owned());
        }
        let root = Root::read(&root).map_err(text)?;
        let targets = root.places.iter().map(|name| asked.paths.target(name));
        let targets: Vec<PathBuf> = targets.collect::<Result<_, _>>()?;
        let shelf = services.trees().map_err(|refusal| refusal.message)?;
        tree::restore(&root, &targets, &self.stoppable(&*shelf, timeout)).map_err(text)
    }

    /// What a job that went well leaves for others.
    pub(super) fn save_later(&self, later: &Later) -> Conclusion {
        if later.matched.as_ref().is_some_and(|matched| is_same(matched, &later.asked.key)) {
            let key = &later.asked.key;
            let text = format!("Cache hit occurred on the primary key {key}, not saving cache.");
            self.output().say(self.step, &text);
            return Conclusion::Success;
        }
        self.save_cache(&later.asked, None)
    }

    /// What goes wrong here fails no job.
    fn save_cache(&self, asked: &Asked, timeout: Option<Duration>) -> Conclusion {
        if let Err(warning) = self.saved(asked, timeout) {
            self.output().say(self.step, &format!("##[warning]{warning}"));
        }
        if self.step_control().is_cancelled() { Conclusion::Cancelled } else { Conclusion::Success }
    }

    fn saved(&self, asked: &Asked, timeout: Option<Duration>) -> Result<(), String> {
        let places = asked.paths.places()?;
        if places.is_empty() {
            return Err(
                "Path Validation Error: Path(s) specified in the action for caching do(es) not \
                        exist, hence no cache is being saved."
                    .to_owned(),
            );
        }
        let (services, new) = (&self.shared.task.services, asked.new_cache());
        let reserved = services.reserve_cache(&new).map_err(|refusal| match refusal.reason {
            Reason::Exists => format!(
                "Failed to save: Unable to reserve cache with key {}, another job may be creating this cache.",
                asked.key
            ),
            _ => format!("Failed to save: {refusal}"),
        })?;
        let failed = |why: String| format!("Failed to save: {why}");
        let shelf = services.trees().map_err(|refusal| failed(refusal.message))?;
        let leaves_out = |at: &Path| asked.paths.leaves_out(at);
        let saved = tree::save(&places, &leaves_out, &self.stoppable(&*shelf, timeout))
            .map_err(|error| failed(error.to_string()))?;
        services
            .complete_tree(reserved, &new, &saved)
            .map_err(|refusal| failed(refusal.message))?;
        let (bytes, files, sent) =
            (saved.bytes, saved.files, saved.new_bytes + saved.root.len() as u64);
        let size =
            format!("Cache Size: ~{} MB ({bytes} B, {files} files); new: {sent} B", bytes >> 20);
        self.output().say(self.step, &size);
        self.output().say(self.step, &format!("Cache saved with key: {}", asked.key));
        Ok(())
    }

    fn stoppable<'s>(&self, shelf: &'s dyn Shelf, timeout: Option<Duration>) -> Stoppable<'s> {
        Stoppable { shelf, end: self.end_of_step(timeout) }
    }

    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(super) fn end_of_step(&self, timeout: Option<Duration>) -> EndOfStep {
        let until = Instant::now() + self.leash(timeout).wall;
        EndOfStep { control: self.step_control(), until }
    }
}

/// Keys are compared as GitHub does.
fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// A shelf that is not used any more when the step is to end.
struct Stoppable<'s> {
    shelf: &'s dyn Shelf,
    end: EndOfStep,
}

/// When a step that is no process is to end.
pub(super) struct EndOfStep {
    control: Control,
    until: Instant,
}

impl EndOfStep {
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(super) fn check(&self) -> io::Result<()> {
        let stop = |why: &str| Err(io::Error::new(io::ErrorKind::Interrupted, why));
        if self.control.is_cancelled() {
            return stop("it was cancelled");
        }
        if Instant::now() > self.until {
            return stop("it took longer than the step or the job may");
        }
        Ok(())
    }
}

impl Shelf for Stoppable<'_> {
    fn put(&self, pack: Packed) -> io::Result<()> {
        self.end.check()?;
        self.shelf.put(pack)
    }

    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>> {
        self.end.check()?;
        self.shelf.find(chunks)
    }

    fn read(&self, pack: Digest, from: u32, to: u32) -> io::Result<Bytes> {
        self.end.check()?;
        self.shelf.read(pack, from, to)
    }
}
