//! Hand-made values for unit tests.

use kiln_core::plan::{
    Call, CallSecrets, Condition, Data, Job, JobKind, Limits, Place, Plan, Requires, Run,
    RunDefaults, Step, StepKind, StepsJob, Strategy, Template, Workflow,
};
use kiln_core::value::{Object, Value};
use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{FileId, SourceMap};

use crate::find::{Origin, Target};
use crate::lang::Read;
use crate::output::Checked;

/// A file in the repository `/repo` with the given findings.
pub(crate) fn checked(
    name: &str,
    text: &str,
    diagnostics: impl FnOnce(FileId) -> Vec<Diagnostic>,
) -> Checked {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    Checked {
        target: Target {
            name: name.into(),
            shown: name.into(),
            root: "/repo".into(),
            origin: Origin::Stdin,
        },
        read: Read { diagnostics: diagnostics(file), sources },
    }
}

pub(crate) fn literal(text: &str) -> Data {
    Data::Scalar(Template::literal(text))
}

pub(crate) fn expression(text: &str) -> Template {
    Template::Expr(text.into())
}

/// A job with steps on `ubuntu-latest`.
pub(crate) fn job(id: &str, needs: &[usize]) -> Job {
    Job {
        id: id.into(),
        name: None,
        needs: needs.to_vec(),
        condition: Condition::default(),
        strategy: Strategy::Single,
        permissions: None,
        concurrency: None,
        retry: None,
        kind: JobKind::Steps(Box::new(StepsJob {
            runs_on: literal("ubuntu-latest"),
            requires: Requires::default(),
            prefer: Vec::new(),
            limits: Limits::default(),
            env: None,
            defaults: RunDefaults::default(),
            container: None,
            services: None,
            environment: None,
            timeout_minutes: None,
            cancel_timeout_minutes: None,
            continue_on_error: None,
            outputs: Vec::new(),
            result_cache: None,
            steps: vec![step()],
        })),
        place: Place { line: 1, column: 1 },
    }
}

pub(crate) fn steps(job: &mut Job) -> &mut StepsJob {
    match &mut job.kind {
        JobKind::Steps(steps) => steps,
        JobKind::Call(_) => panic!("the job calls a workflow"),
    }
}

pub(crate) fn step() -> Step {
    Step {
        id: "__run".into(),
        name: None,
        condition: Condition::default(),
        left_out: None,
        env: None,
        continue_on_error: None,
        timeout_minutes: None,
        background: false,
        retry: None,
        kind: StepKind::Run(Run {
            script: Template::literal("make\nmake test"),
            shell: None,
            working_directory: None,
        }),
        place: Place::default(),
    }
}

/// A job that calls a workflow of the plan, or one that was not at hand.
pub(crate) fn call(id: &str, needs: &[usize], uses: &str, workflow: Option<usize>) -> Job {
    Job {
        kind: JobKind::Call(Box::new(Call {
            uses: uses.into(),
            workflow,
            with: None,
            secrets: CallSecrets::None,
        })),
        ..job(id, needs)
    }
}

/// A matrix with one key.
pub(crate) fn legs(key: &str, values: &[&str]) -> Strategy {
    Strategy::Legs {
        legs: values.iter().map(|value| Object::from_iter([(key, Value::from(*value))])).collect(),
        fail_fast: None,
        max_parallel: None,
    }
}

pub(crate) fn workflow(path: &str, name: &str, jobs: Vec<Job>) -> Workflow {
    Workflow { path: path.into(), name: Some(name.into()), jobs, ..Workflow::default() }
}

/// A workflow of usual size: checks, a matrix of tests, a reusable build, a release.
pub(crate) fn sample() -> Plan {
    let mut tests = job("test", &[0]);
    tests.strategy = legs("os", &["ubuntu-24.04", "macos-15", "windows-2025"]);
    steps(&mut tests).runs_on = Data::Scalar(expression("matrix.os"));
    let mut release = job("release", &[1, 2, 3]);
    release.name = Some(Template::literal("Release & \"publish\" <it>"));
    release.condition = Condition { text: "success() && github.ref == 'refs/heads/main'".into() };
    let mut dynamic = job("e2e", &[2]);
    dynamic.strategy = Strategy::Expr("fromJSON(needs.build.outputs.matrix)".into());
    let root = workflow(
        ".github/workflows/ci.yml",
        "CI",
        vec![
            job("lint", &[]),
            tests,
            call("build", &[0], "./.github/workflows/build.yml", Some(1)),
            dynamic,
            release,
            job("docs", &[]),
        ],
    );
    let build = workflow(
        ".github/workflows/build.yml",
        "Build",
        vec![job("compile", &[]), job("package", &[0])],
    );
    Plan { workflows: vec![root, build] }
}
