//! The built-in `actions/upload-artifact` and `actions/download-artifact`, for when no mirror has the real ones. They
//! say what those say; only what needs another run or repository is left to them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_lang::expr::coerce::to_text;
use kiln_proto::content::{Artifact, NewArtifact};

use crate::action::artifact::{self, Chosen, Manner};
use crate::gateway::{Reason, Spooled, Stored, check_artifact_name};
use crate::local::now;

use super::driver::{Done, JobRun};
use super::environment::Variables;
use super::frame::Frame;
use super::inputs::Inputs;

const UPLOAD: [&str; 8] = [
    "name",
    "path",
    "if-no-files-found",
    "retention-days",
    "compression-level",
    "overwrite",
    "include-hidden-files",
    "archive",
];
const DOWNLOAD: [&str; 8] = [
    "name",
    "artifact-ids",
    "path",
    "pattern",
    "merge-multiple",
    "github-token",
    "repository",
    "run-id",
];
const ZIP: &str = "application/zip";
const DAY: u64 = 24 * 60 * 60 * 1_000;
const USUAL_LEVEL: u32 = 6;

/// What a step does with artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Upload,
    /// `actions/upload-artifact/merge`
    Merge,
    Download,
}

impl Part {
    /// By the repository of the action and the folder in it.
    pub(super) fn of(repository: &str, path: &str) -> Option<Self> {
        match (repository, path) {
            ("upload-artifact", "") => Some(Self::Upload),
            ("upload-artifact", "merge") => Some(Self::Merge),
            ("download-artifact", "") => Some(Self::Download),
            _ => None,
        }
    }
}

impl JobRun<'_, '_> {
    pub(super) fn artifact(
        &mut self,
        frame: &Frame,
        part: Part,
        with: &Variables,
        step_env: &Variables,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        let home = self.home(frame, step_env);
        let done = match part {
            Part::Upload => self.upload(with, home.as_deref(), timeout),
            Part::Download => self.download(with, home.as_deref(), timeout),
            Part::Merge => {
                Err("there is no built-in `actions/upload-artifact/merge`; download with \
                                `merge-multiple`, or put `actions/upload-artifact` into the mirror"
                    .to_owned())
            }
        };
        if done.is_err() && self.step_control().is_cancelled() {
            return Ok((Conclusion::Cancelled, Vec::new()));
        }
        done
    }

    fn upload(
        &mut self,
        with: &Variables,
        home: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        self.warn_of_unknown(with, &UPLOAD);
        let inputs = Inputs(with);
        let path = inputs.required("path")?;
        let is_raw = !inputs.get("archive").is_empty() && !inputs.is_set("archive")?;
        let hidden = inputs.is_set("include-hidden-files")?;
        let level = inputs.number("compression-level", USUAL_LEVEL, 9)?;
        let mut new = new_artifact(inputs)?;
        let (end, workspace) = (self.end_of_step(timeout), &self.shared.task.places.workspace);
        let chosen = artifact::choose(path, workspace, home, hidden, &|| end.check())?;
        if chosen.files.is_empty() {
            return self.nothing_found(inputs.get("if-no-files-found"), path);
        }
        if is_raw {
            let file = artifact::only(&chosen)?;
            check_artifact_name(&file.name).map_err(|refusal| refusal.message)?;
            (new.name, new.content_type) = (file.name, Some(file.content_type.to_owned()));
        }
        let count = chosen.files.len();
        let text = format!("With the provided path, there will be {count} file(s) uploaded");
        self.output().say(self.step, &text);
        let manner = if is_raw { Manner::Raw } else { Manner::Packed(level) };
        let (id, spooled) = self.uploaded(&new, &chosen, manner, timeout)?;
        let (name, size) = (&new.name, spooled.size);
        let text = format!(
            "Artifact {name} has been successfully uploaded! Final size is {size} bytes. Artifact ID is {id}"
        );
        self.output().say(self.step, &text);
        let text = |name| self.shared.github.get(name).map(to_text).unwrap_or_default();
        let (server, repository, run) = (text("server_url"), text("repository"), text("run_id"));
        let url = format!("{server}/{repository}/actions/runs/{run}/artifacts/{id}");
        self.output().say(self.step, &format!("Artifact download URL: {url}"));
        let outputs = [
            ("artifact-id", id.to_string()),
            ("artifact-url", url),
            ("artifact-digest", spooled.hash),
        ];
        let outputs = outputs.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Ok((Conclusion::Success, outputs))
    }

    fn nothing_found(&self, what_then: &str, path: &str) -> Result<Done, String> {
        let path = path.lines().collect::<Vec<_>>().join(", ");
        let text = format!(
            "No files were found with the provided path: {path}. No artifacts will be uploaded."
        );
        match what_then {
            "" | "warn" => self.output().say(self.step, &format!("##[warning]{text}")),
            "ignore" => self.output().say(self.step, &text),
            "error" => return Err(text),
            other => {
                return Err(format!(
                    "`if-no-files-found` is `{other}`, expected `warn`, `error` or `ignore`"
                ));
            }
        }
        Ok((Conclusion::Success, Vec::new()))
    }

    fn uploaded(
        &self,
        new: &NewArtifact,
        chosen: &Chosen,
        manner: Manner,
        timeout: Option<Duration>,
    ) -> Result<(i64, Spooled), String> {
        let services = &self.shared.task.services;
        let reserved = services.reserve_artifact(new).map_err(|refusal| match refusal.reason {
            Reason::Exists => format!(
                "Failed to CreateArtifact: an artifact with the name `{}` already exists on the workflow run; \
                 set `overwrite: true` to replace it",
                new.name
            ),
            _ => format!("Failed to CreateArtifact: {refusal}"),
        })?;
        let (end, draft) = (self.end_of_step(timeout), self.spool_file());
        let packed = artifact::pack(chosen, manner, draft.clone(), &|| end.check());
        let uploaded = packed.and_then(|spooled| {
            let failed = |refusal: crate::gateway::Refusal| format!("Failed to upload: {refusal}");
            services.send(&spooled).map_err(failed)?;
            let id = services.complete_artifact(reserved, new, &spooled).map_err(failed)?;
            Ok((id, spooled))
        });
        // Whoever keeps it may have taken the file itself.
        let _ = fs::remove_file(draft);
        uploaded
    }

    /// Where bytes lie that are on their way.
    fn spool_file(&self) -> PathBuf {
        self.shared.task.places.scripts.join(format!("artifact-{}", self.next_number()))
    }

    fn download(
        &mut self,
        with: &Variables,
        home: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        self.warn_of_unknown(with, &DOWNLOAD);
        let inputs = Inputs(with);
        self.refuse_elsewhere(inputs)?;
        let all = self.shared.task.services.artifacts().map_err(|refusal| refusal.message)?;
        let wanted = Wanted::read(inputs)?;
        let chosen = wanted.choose(all)?;
        let folder = self.target(inputs.get("path"), home);
        if !matches!(wanted, Wanted::Named(_)) {
            let text = format!("Found {} artifact(s)", chosen.len());
            self.output().say(self.step, &text);
        }
        let is_flat = inputs.is_set("merge-multiple")? || wanted.is_one();
        fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
        for artifact in &chosen {
            let to = if is_flat { folder.clone() } else { folder.join(&artifact.name) };
            self.downloaded(artifact, &to, timeout)?;
        }
        let text = format!("Total of {} artifact(s) downloaded", chosen.len());
        self.output().say(self.step, &text);
        let path = folder.to_string_lossy().into_owned();
        Ok((Conclusion::Success, vec![("download-path".to_owned(), path)]))
    }

    /// Other runs and repositories are asked by GitHub's interface.
    fn refuse_elsewhere(&self, inputs: Inputs<'_>) -> Result<(), String> {
        for (input, own) in [("run-id", "run_id"), ("repository", "repository")] {
            let own = self.shared.github.get(own).map(to_text).unwrap_or_default();
            let given = inputs.get(input);
            if !given.is_empty() && !given.eq_ignore_ascii_case(&own) {
                return Err(format!(
                    "the built-in download knows the artifacts of its own run only; put \
                     `actions/download-artifact` into the mirror for `{input}: {given}`"
                ));
            }
        }
        Ok(())
    }

    fn target(&self, path: &str, home: Option<&str>) -> PathBuf {
        let workspace = &self.shared.task.places.workspace;
        match (path, path.strip_prefix('~'), home) {
            ("", ..) => workspace.clone(),
            (_, Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                PathBuf::from(format!("{home}{rest}"))
            }
            _ => workspace.join(path),
        }
    }

    fn downloaded(
        &self,
        artifact: &Artifact,
        to: &std::path::Path,
        timeout: Option<Duration>,
    ) -> Result<(), String> {
        let failed =
            |why: String| format!("Unable to download artifact(s): `{}`: {why}", artifact.name);
        let (end, draft) = (self.end_of_step(timeout), self.spool_file());
        let go_on = || end.check();
        let services = &self.shared.task.services;
        let open = services.open(&Stored::from(artifact), 0);
        let open = open.map_err(|refusal| failed(refusal.message))?;
        let content = (&*artifact.hash, artifact.size);
        let placed = artifact::fetch(open, content, &draft, &go_on).and_then(|()| {
            if artifact.content_type == ZIP {
                return artifact::unpack(&draft, to, &go_on);
            }
            check_artifact_name(&artifact.name).map_err(|refusal| refusal.message)?;
            let text = |error: std::io::Error| error.to_string();
            fs::create_dir_all(to).map_err(text)?;
            let path = to.join(&artifact.name);
            let _ = fs::remove_file(&path);
            fs::copy(&draft, path).map_err(text).map(|_| 1)
        });
        let _ = fs::remove_file(&draft);
        let files = placed.map_err(failed)?;
        let text = format!(
            "Artifact {} (ID {}, {} bytes, {files} files) was downloaded to {}",
            artifact.name,
            artifact.id,
            artifact.size,
            to.display()
        );
        self.output().say(self.step, &text);
        Ok(())
    }
}

/// Which artifacts a step asks for.
#[derive(Debug)]
enum Wanted {
    Named(String),
    Numbered(Vec<i64>),
    Like(String),
    All,
}

impl Wanted {
    fn read(inputs: Inputs<'_>) -> Result<Self, String> {
        let (name, ids, pattern) =
            (inputs.get("name"), inputs.get("artifact-ids"), inputs.get("pattern"));
        if !name.is_empty() && !ids.is_empty() {
            return Err("Inputs 'name' and 'artifact-ids' cannot be used together. Please specify only one."
                .to_owned());
        }
        if !ids.is_empty() {
            let parsed = ids.split(',').map(str::trim).filter(|id| !id.is_empty()).map(|id| {
                id.parse().map_err(|_| format!("Invalid artifact ID: '{id}'. Must be a number."))
            });
            return Ok(Self::Numbered(parsed.collect::<Result<_, _>>()?));
        }
        Ok(match (name, pattern) {
            ("", "") => Self::All,
            ("", pattern) => Self::Like(pattern.to_owned()),
            (name, _) => Self::Named(name.to_owned()),
        })
    }

    /// Whether it goes to where the step says, without a folder of its own.
    fn is_one(&self) -> bool {
        match self {
            Self::Named(_) => true,
            Self::Numbered(ids) => ids.len() == 1,
            Self::Like(_) | Self::All => false,
        }
    }

    fn choose(&self, all: Vec<Artifact>) -> Result<Vec<Artifact>, String> {
        let missing = |what: &str| {
            format!(
                "Unable to download artifact(s): Artifact not found for {what}; the run has: {}",
                names(&all)
            )
        };
        match self {
            Self::Named(name) => {
                // The newest, if a job was run again and wrote it anew.
                let found = all.iter().rfind(|artifact| artifact.name == *name);
                Ok(vec![found.cloned().ok_or_else(|| missing(&format!("name: {name}")))?])
            }
            Self::Numbered(ids) => {
                let find = |id: &i64| {
                    let found = all.iter().find(|artifact| artifact.id == *id);
                    found.cloned().ok_or_else(|| missing(&format!("ID: {id}")))
                };
                ids.iter().map(find).collect()
            }
            Self::Like(pattern) => {
                let mut chosen = Vec::new();
                for artifact in all {
                    if artifact::is_named(pattern, &artifact.name)? {
                        chosen.push(artifact);
                    }
                }
                Ok(chosen)
            }
            Self::All => Ok(all),
        }
    }
}

fn names(all: &[Artifact]) -> String {
    match all {
        [] => "none".to_owned(),
        all => all.iter().map(|artifact| &*artifact.name).collect::<Vec<_>>().join(", "),
    }
}

fn new_artifact(inputs: Inputs<'_>) -> Result<NewArtifact, String> {
    let name = match inputs.get("name") {
        "" => "artifact",
        name => name,
    };
    check_artifact_name(name).map_err(|refusal| refusal.message)?;
    let days = u64::from(inputs.number("retention-days", 0, 36_500)?);
    let until = Timestamp(now().0 + days * DAY);
    Ok(NewArtifact {
        name: name.to_owned(),
        content_type: Some(ZIP.to_owned()),
        expires_at: (days > 0).then(|| until.rfc3339()),
        overwrite: inputs.is_set("overwrite")?,
    })
}
