//! A repository of a server, for commands that are about one.

use anyhow::{Context as _, Result};
use reqwest::Method;

use crate::cli::ServerArgs;
use crate::client::Client;
use crate::client::call::Call;

#[derive(Debug)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) owner: String,
    pub(super) name: String,
}

impl Place {
    /// What was typed, else the repository here.
    pub(super) async fn find(server: &ServerArgs, repo: Option<&str>) -> Result<Self> {
        let (client, repo) = Client::open_repo(server, repo).await?;
        let repo = repo.context(
            "you are in no repository that the server knows; name one with `--repo OWNER/NAME`",
        )?;
        let (owner, name) = repo.split_once('/').context("expected OWNER/NAME")?;
        let (owner, name) = (owner.to_owned(), name.to_owned());
        Ok(Self { client, owner, name })
    }

    /// A question about it in GitHub's shapes.
    pub(super) fn call(&self, method: Method, rest: &[&str]) -> Call<'_> {
        let path = [&["repos", self.owner.as_str(), self.name.as_str()], rest].concat();
        self.client.github_call(method, &path)
    }
}
