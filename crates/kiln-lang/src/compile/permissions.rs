//! What job tokens may do, and that calls only ever narrow it.

use std::collections::HashSet;

use kiln_core::plan::{Access, JobKind, Permissions, Scope};

use crate::diag::Diagnostic;
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

    fn callee(&mut self, index: usize, limit: &Permissions, uses: &str, span: crate::source::Span) {
        let workflow = &self.compiler.workflows[index].workflow;
        for job in &workflow.jobs {
            let Some(wanted) = job.permissions.as_ref().or(workflow.permissions.as_ref()) else {
                continue;
            };
            let beyond = wanted.beyond(limit);
            if beyond.is_empty() {
                continue;
            }
            let wants: Vec<String> = beyond
                .iter()
                .map(|(scope, wanted, has)| {
                    format!(
                        "`{}: {}` (the caller has `{}`)",
                        scope.as_str(),
                        wanted.as_str(),
                        has.as_str()
                    )
                })
                .collect();
            let message = format!("job `{}` of `{uses}` asks for {}", job.id, wants.join(", "));
            self.found.push(
                Diagnostic::error("permissions-exceeded", span, message)
                    .label("a called workflow cannot have more than its caller")
                    .help("grant these under `permissions` of this job, or ask for less in the called one"),
            );
        }
    }
}
