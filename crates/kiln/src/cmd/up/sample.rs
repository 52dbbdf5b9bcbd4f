//! A sample repository, made with git, and run to show that everything works.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kiln_proto::api::{NewRepo, Repo, RunDetail, Trigger, Triggered};
use kiln_runner::git::Repository;

use crate::client::Client;

/// The files of the repository.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../../../examples/sample/README.md")),
    ("greet.sh", include_str!("../../../../../examples/sample/greet.sh")),
    (
        ".github/workflows/hello.yml",
        include_str!("../../../../../examples/sample/.github/workflows/hello.yml"),
    ),
];

const OWNER: &str = "kiln";
const NAME: &str = "sample";
/// How often we look whether it has ended.
const LOOK: Duration = Duration::from_millis(100);
/// The sample takes a second or two; a machine that is very busy gets much more.
const LONGEST: Duration = Duration::from_mins(5);

/// Makes the repository, unless there is something in its place.
pub(super) fn make(data: &Path) -> Result<PathBuf> {
    let folder = data.join("sample");
    if folder.exists() {
        return Ok(folder);
    }
    // Beside its place first, so that half of one is never taken for whole.
    let next = data.join("sample.new");
    let _ = fs::remove_dir_all(&next);
    for (name, text) in FILES {
        let path = next.join(name);
        let parent = path.parent().context("a file has a folder")?;
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make `{}`", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let git = Repository::at(&next);
    git.ask(&["init", "-q", "-b", "main"])?;
    git.ask(&["add", "-A"])?;
    let author = ["-c", "user.name=Kiln", "-c", "user.email=kiln@localhost"];
    let commit = ["-c", "commit.gpgSign=false", "commit", "-q", "-m", "A sample"];
    git.ask(&[&author[..], &commit[..]].concat())?;
    fs::rename(&next, &folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    Ok(folder)
}

/// Adds the repository to the server and starts its workflow. Says which run that is.
pub(super) async fn start(client: &Client, folder: &Path) -> Result<String> {
    let new = NewRepo {
        owner: OWNER.to_owned(),
        name: NAME.to_owned(),
        source: folder.display().to_string(),
        default_branch: Some("main".to_owned()),
    };
    client.post(&["repos"]).body(&new).json::<Repo>().await?;
    let trigger = Trigger { event: Some("push".to_owned()), ..Trigger::default() };
    let call = client.post(&["repos", OWNER, NAME, "trigger"]).body(&trigger).once("first start");
    let triggered: Triggered = call.json().await?;
    match triggered.runs.first() {
        Some(run) => Ok(run.slug.clone()),
        None => bail!("the workflow of the sample did not start: {:?}", triggered.skipped),
    }
}

/// Waits until the run has ended.
pub(super) async fn ended(client: &Client, run: &str) -> Result<RunDetail> {
    let wait = async {
        loop {
            let detail = client.run(run, None).await?;
            if detail.run.status == "completed" {
                return Ok(detail);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(LONGEST, wait).await {
        Ok(detail) => detail,
        Err(_) => bail!("the sample has not ended after {} minutes", LONGEST.as_secs() / 60),
    }
}
