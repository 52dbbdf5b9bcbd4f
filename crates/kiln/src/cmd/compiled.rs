//! Reading and compiling the one workflow that `plan` and `graph` are about.

use std::path::Path;

use anyhow::{Result, anyhow};
use kiln_core::plan::Plan;
use kiln_lang::diag::{self, Severity};

use crate::events::Triggers;
use crate::find::Target;
use crate::lang::{self, Read};
use crate::output::{Checked, Console, Finding, findings, human};
use crate::read;

/// A workflow without errors.
pub(crate) struct Compiled {
    pub(crate) plan: Plan,
    pub(crate) triggers: Triggers,
}

/// Compiles the workflow; `None` when it has errors, which are then on standard error.
pub(crate) fn compile(path: &Path, console: &mut Console) -> Result<Option<Compiled>> {
    let target = Target::of(path)?;
    let text = read::target(&target);
    let text = text.map_err(|error| anyhow!("`{}`: {}", target.shown, error.message))?;
    let mut read = Read::default();
    let compiled =
        lang::compile(&mut read.sources, &target.name, &text, &read::repository(&target.root));
    read.diagnostics = compiled.diagnostics;
    diag::tidy(&mut read.diagnostics);
    let refused = read.diagnostics.iter().any(|found| found.severity == Severity::Error);
    match compiled.plan {
        Some(plan) if !refused => Ok(Some(Compiled { plan, triggers: compiled.triggers })),
        _ => {
            let checked = [Checked { target, read }];
            console.eprint(&human::render(&errors_of(&checked)));
            Ok(None)
        }
    }
}

fn errors_of(checked: &[Checked]) -> Vec<Finding<'_>> {
    let mut findings = findings(checked);
    findings.retain(|found| found.diagnostic.severity == Severity::Error);
    findings
}
