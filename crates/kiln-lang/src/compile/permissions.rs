//! What job tokens may do, and that calls only ever narrow it.

use std::collections::HashSet;

use kiln_core::plan::{Access, JobKind, Permissions, Scope};

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::yaml::Node;

use super::Compiler;

/// Reads a `permissions` value that the table has vouched for.
pub(super) fn read(node: &Node) -> Permissions {
    match node.text() {
        Some("read-all") => return Permissions::read_all(),
        Some("write-all") => return Permissions::write_all(),
        _ => {}
    }
    let mut permissions = Permissions::none();
    for entry in node.entries() {
        let access = match entry.value.text() {
            Some("read") => Access::Read,
            Some("write") => Access::Write,
            _ => Access::None,
        };
        if let Some(scope) = Scope::parse(entry.name()) {
            permissions.set(scope, access);
        }
    }
    permissions
}

/// Checks every call of the plan: no job of a called workflow may ask for more than its caller has.
pub(super) fn check(compiler: &mut Compiler<'_>, token: Option<&Permissions>) {
    let mut visitor = Visitor { compiler, seen: HashSet::new(), found: Vec::new() };
    if !visitor.compiler.workflows.is_empty() {
        visitor.workflow(0, token);
    }
    let found = visitor.found;
    compiler.diagnostics.extend(found);
}

struct Visitor<'v, 'a> {
    compiler: &'v Compiler<'a>,
    /// Files with the permissions they were already entered with.
    seen: HashSet<(usize, String)>,
    found: Vec<Diagnostic>,
}

impl Visitor<'_, '_> {
    /// Goes down the calls of a workflow that has `token` where it says nothing itself.
    fn workflow(&mut self, index: usize, token: Option<&Permissions>) {
        if !self.seen.insert((index, format!("{token:?}"))) {
            return;
        }
        let unit = &self.compiler.workflows[index];
        for (job, span) in unit.workflow.jobs.iter().zip(&unit.job_spans) {
            let JobKind::Call(call) = &job.kind else { continue };
            let Some(callee) = call.workflow else { continue };
            let written = job.permissions.as_ref().or(unit.workflow.permissions.as_ref());
            let limit = written.or(token);
            if let Some(limit) = limit {
                self.callee(callee, limit, &call.uses, *span);
            }
            self.workflow(callee, limit);
        }
    }

    /// What the called file asks for: as a whole, and job by job where jobs say more.
    fn callee(&mut self, index: usize, limit: &Permissions, uses: &str, span: Span) {
        let workflow = &self.compiler.workflows[index].workflow;
        let whole = workflow
            .permissions
            .as_ref()
            .filter(|_| workflow.jobs.iter().any(|job| job.permissions.is_none()));
        let whole = whole.map(|wanted| (format!("`{uses}`"), wanted));
        let single = workflow.jobs.iter().filter_map(|job| {
            Some((format!("job `{}` of `{uses}`", job.id), job.permissions.as_ref()?))
        });
        for (who, wanted) in whole.into_iter().chain(single) {
            let beyond = wanted.beyond(limit);
            if !beyond.is_empty() {
                self.found.push(exceeded(&who, &beyond, span));
            }
        }
    }
}

fn exceeded(who: &str, beyond: &[(Scope, Access, Access)], span: Span) -> Diagnostic {
    let wants: Vec<String> = beyond
        .iter()
        .map(|(scope, wanted, has)| {
            format!("`{}: {}` (the caller has `{}`)", scope.as_str(), wanted.as_str(), has.as_str())
        })
        .collect();
    Diagnostic::error("permissions-exceeded", span, format!("{who} asks for {}", wants.join(", ")))
        .label("a called workflow cannot have more than its caller")
        .help("grant these under `permissions` of this job, or ask for less in the called one")
}
