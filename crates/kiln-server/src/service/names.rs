//! What the ids of rows are called, each looked up once.

use std::collections::{BTreeSet, HashMap};

use kiln_core::id::{OrgId, RepoId, RunnerId, WorkflowId};
use kiln_store::directory::{organizations, repositories, runners, workflows};
use kiln_store::{Duty, Refusal, Scope, StoreError, Tx};

/// Whoever asks for a name was allowed to see the row that has the id.
const SCOPE: Scope = Scope::System(Duty::Administration);

/// Names for the time of one answer.
#[derive(Debug, Default)]
pub struct Names {
    orgs: HashMap<OrgId, String>,
    repos: HashMap<RepoId, RepoName>,
    workflows: HashMap<WorkflowId, WorkflowName>,
    runners: HashMap<RunnerId, Option<String>>,
}

#[derive(Debug, Clone, Default)]
pub struct RepoName {
    pub owner: String,
    pub name: String,
}

impl RepoName {
    pub fn full(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

#[derive(Debug, Clone, Default)]
pub struct WorkflowName {
    pub path: String,
    pub name: String,
}

impl Names {
    /// Looks up many at once, so that none is asked for alone.
    pub async fn bring(
        &mut self,
        tx: &mut Tx<'_>,
        repos: BTreeSet<RepoId>,
        workflows: BTreeSet<WorkflowId>,
    ) -> Result<(), StoreError> {
        let repos: Vec<RepoId> = repos.into_iter().collect();
        for (id, owner, name) in repositories::names_of(tx, &repos).await? {
            self.repos.insert(id, RepoName { owner, name });
        }
        let workflows: Vec<WorkflowId> = workflows.into_iter().collect();
        for (id, path, name) in workflows::names_of(tx, &workflows).await? {
            self.workflows.insert(id, WorkflowName { path, name });
        }
        Ok(())
    }

    pub async fn org(&mut self, tx: &mut Tx<'_>, id: OrgId) -> Result<String, StoreError> {
        if let Some(name) = self.orgs.get(&id) {
            return Ok(name.clone());
        }
        let name = organizations::get(tx, SCOPE, id).await?.name;
        self.orgs.insert(id, name.clone());
        Ok(name)
    }

    pub async fn repo(&mut self, tx: &mut Tx<'_>, id: RepoId) -> Result<RepoName, StoreError> {
        if let Some(name) = self.repos.get(&id) {
            return Ok(name.clone());
        }
        let repo = repositories::get(tx, SCOPE, id).await?;
        let name = RepoName { owner: self.org(tx, repo.org).await?, name: repo.name };
        self.repos.insert(id, name.clone());
        Ok(name)
    }

    pub async fn workflow(
        &mut self,
        tx: &mut Tx<'_>,
        id: WorkflowId,
    ) -> Result<WorkflowName, StoreError> {
        if let Some(name) = self.workflows.get(&id) {
            return Ok(name.clone());
        }
        let workflow = workflows::get(tx, SCOPE, id).await?;
        let name = WorkflowName { path: workflow.path, name: workflow.name };
        self.workflows.insert(id, name.clone());
        Ok(name)
    }

    /// None for a runner that is gone for good.
    pub async fn runner(
        &mut self,
        tx: &mut Tx<'_>,
        id: RunnerId,
    ) -> Result<Option<String>, StoreError> {
        if let Some(name) = self.runners.get(&id) {
            return Ok(name.clone());
        }
        let name = match runners::get(tx, SCOPE, id).await {
            Ok(runner) => Some(runner.name),
            Err(StoreError::Refused(Refusal::NotFound(_))) => None,
            Err(error) => return Err(error),
        };
        self.runners.insert(id, name.clone());
        Ok(name)
    }
}
