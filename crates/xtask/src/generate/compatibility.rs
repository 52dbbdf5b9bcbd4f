//! `docs/compatibility.md`: the language, as the parser's own table has it.

use anyhow::Result;

use super::Output;
use crate::repository::Repository;

#[expect(clippy::unnecessary_wraps, reason = "every generator has the same shape")]
pub(super) fn generate(_repository: &Repository) -> Result<Vec<Output>> {
    let text = kiln_lang::schema::reference::page();
    Ok(vec![Output { path: "docs/compatibility.md".to_owned(), text }])
}
