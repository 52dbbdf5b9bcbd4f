//! Secrets and variables as people see them. Of secrets there are names; nobody but jobs gets their values.

use kiln_core::id::OrgId;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::{self, SecretName};
use kiln_store::directory::variables::{self, Variable};
use kiln_store::{Page, Scope, StoreError, Tx};

use crate::app::App;
use crate::http::error::Answer;

/// Whose settings are meant. Whoever asks was allowed to.
pub type Whose = (OrgId, Holder);

pub async fn secrets(app: &App, (org, holder): Whose) -> Answer<Vec<SecretName>> {
    let work = async move |tx: &mut Tx<'_>| {
        let (mut all, mut page) = (Vec::new(), Page::first(Page::LARGEST));
        loop {
            let piece = secrets::list(tx, Scope::Org(org), holder, page).await?;
            let Some(last) = piece.last().map(|secret| secret.id) else { break };
            all.extend(piece);
            page = Page::after(last, Page::LARGEST);
        }
        Ok::<_, StoreError>(all)
    };
    Ok(app.store.read(work).await?)
}

pub async fn variables(app: &App, (org, holder): Whose) -> Answer<Vec<Variable>> {
    let work = async move |tx: &mut Tx<'_>| {
        let (mut all, mut page) = (Vec::new(), Page::first(Page::LARGEST));
        loop {
            let piece = variables::list(tx, Scope::Org(org), holder, page).await?;
            let Some(last) = piece.last().map(|variable| variable.id) else { break };
            all.extend(piece);
            page = Page::after(last, Page::LARGEST);
        }
        Ok::<_, StoreError>(all)
    };
    Ok(app.store.read(work).await?)
}
