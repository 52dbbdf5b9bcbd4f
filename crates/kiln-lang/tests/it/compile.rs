//! Workflows become plans, and calls of workflows are held to what they declare.

use std::collections::HashMap;

use kiln_core::plan::matrix::leg_name;
use kiln_core::plan::{
    CallSecrets, Data, JobKind, Permissions, Plan, QueueMode, RetryOn, StepKind, Strategy, Template,
};
use kiln_lang::compile::{Compiled, Library, LoadedFile, Lookup, compile};
use kiln_lang::diag::Severity;
use kiln_lang::source::SourceMap;
use kiln_lang::workflow::uses::CallTarget;

/// Files by path; everything remote is out of reach.
#[derive(Default)]
struct Files(HashMap<String, String>);

impl Files {
    fn with(mut self, path: &str, text: &str) -> Self {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }

    fn file(&self, path: &str) -> Option<LoadedFile> {
        let text = self.0.get(path)?;
        Some(LoadedFile { path: path.to_owned(), text: text.clone() })
    }
}

impl Library for Files {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        match target {
            CallTarget::Local(path) => self.file(path).map_or(Lookup::Missing, Lookup::Found),
            CallTarget::Remote { .. } => Lookup::OutOfReach,
        }
    }

    fn companion(&self, workflow_path: &str) -> Option<LoadedFile> {
        self.file(&workflow_path.replace(".github/", ".kiln/"))
    }
}

const PATH: &str = ".github/workflows/ci.yml";

fn compile_with(text: &str, files: &Files, token: Option<&Permissions>) -> (Compiled, SourceMap) {
    let mut sources = SourceMap::new();
    let compiled = compile(&mut sources, PATH, text, files, token);
    (compiled, sources)
}

fn plan(text: &str) -> Plan {
    plan_with(text, &Files::default())
}

fn plan_with(text: &str, files: &Files) -> Plan {
    let (compiled, _) = compile_with(text, files, None);
    assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
    compiled.plan.expect("a file without errors has a plan")
}

/// The errors as `line: message`.
fn errors(text: &str, files: &Files, token: Option<&Permissions>) -> Vec<String> {
    let (compiled, sources) = compile_with(text, files, token);
    assert!(compiled.plan.is_none(), "a file with errors has no plan");
    let errors = compiled.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    errors.map(|found| format!("{}: {}", sources.start(found.span).line, found.message)).collect()
}

/// P1, P7
#[test]
fn jobs_keep_their_order_and_know_their_needs_by_place() {
    let plan = plan(
        "on: push\njobs:\n  test:\n    needs: [build, lint, build]\n    runs-on: x\n    steps: [{run: a}]\n  \
         build:\n    runs-on: [self-hosted, linux]\n    steps: [{run: a}]\n  lint:\n    runs-on: x\n    steps: []\n",
    );
    let jobs = &plan.root().jobs;
    assert_eq!(
        jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(),
        ["test", "build", "lint"]
    );
    assert_eq!(jobs[0].needs, [1, 2]);
    assert_eq!((jobs[1].place.line, jobs[1].place.column), (7, 3));
    assert_eq!(&*jobs[0].condition.text, "success()");
}

/// P1
#[test]
fn steps_get_githubs_ids_and_conditions() {
    let plan = plan(
        "on: push\njobs:\n  a:\n    runs-on: x\n    if: github.ref == 'x'\n    steps:\n      - run: one\n      - run: two\n        if: always()\n      \
         - uses: actions/checkout@v4\n        with: {fetch-depth: 0, path: 'a ${{ github.ref }}'}\n      - uses: ./local\n      - id: mine\n        run: 'echo ${{ 1 }}'\n        if: ${{ failure() || env.X }}\n",
    );
    let job = &plan.root().jobs[0];
    assert_eq!(&*job.condition.text, "success() && (github.ref == 'x')");
    let JobKind::Steps(job) = &job.kind else { panic!("a job with steps") };
    let ids: Vec<&str> = job.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["__run", "__run_2", "__actions_checkout", "__self", "mine"]);
    assert_eq!(&*job.steps[1].condition.text, "always()");
    assert_eq!(&*job.steps[4].condition.text, "failure() || env.X");
    let StepKind::Use(checkout) = &job.steps[2].kind else { panic!("an action") };
    let with = checkout.with.as_ref().expect("it has inputs");
    assert!(
        matches!(with.get("fetch-depth"), Some(Data::Scalar(Template::Literal(value))) if value.as_str() == Some("0"))
    );
    assert!(
        matches!(with.get("path"), Some(Data::Scalar(Template::Expr(text))) if &**text == "format('a {0}', github.ref)")
    );
    let StepKind::Run(run) = &job.steps[4].kind else { panic!("a script") };
    assert!(matches!(&run.script, Template::Expr(text) if &**text == "format('echo {0}', 1)"));
}

/// P1, P9
#[test]
fn a_written_matrix_has_legs_and_a_dynamic_one_waits() {
    let plan = plan(
        "on: push\njobs:\n  a:\n    runs-on: ${{ matrix.os }}\n    strategy:\n      fail-fast: false\n      matrix:\n        os: [l, w]\n        v: [1, 2]\n        exclude: [{os: w, v: 1}]\n    steps: []\n  \
         b:\n    needs: a\n    runs-on: x\n    strategy:\n      matrix:\n        v: ${{ fromJSON(needs.a.outputs.v) }}\n    steps: []\n  c:\n    needs: a\n    runs-on: x\n    strategy: ${{ fromJSON(needs.a.outputs.s) }}\n    steps: []\n",
    );
    let jobs = &plan.root().jobs;
    let Strategy::Legs { legs, fail_fast, .. } = &jobs[0].strategy else {
        panic!("legs are known")
    };
    assert_eq!(legs.iter().map(leg_name).collect::<Vec<_>>(), ["l, 1", "l, 2", "w, 2"]);
    assert!(matches!(fail_fast, Some(Template::Literal(value)) if value.same(&false.into())));
    let Strategy::Matrix { matrix, .. } = &jobs[1].strategy else { panic!("the matrix waits") };
    assert!(matrix.constant().is_none());
    assert!(
        matches!(&jobs[2].strategy, Strategy::Expr(text) if &**text == "fromJSON(needs.a.outputs.s)")
    );
}

const CALLEE: &str = "on:\n  workflow_call:\n    inputs:\n      name: {type: string, required: true}\n      fast: {type: boolean, default: false}\n    secrets:\n      token: {required: true}\n    outputs:\n      out: {value: '${{ jobs.x.outputs.y }}'}\n\
    jobs:\n  x:\n    runs-on: l\n    outputs: {y: '1'}\n    steps: [{run: a}]\n";

/// P9
#[test]
fn a_called_workflow_is_compiled_once_and_linked() {
    let files = Files::default().with(".github/workflows/callee.yml", CALLEE);
    let call = "    uses: ./.github/workflows/callee.yml\n    with: {name: a, fast: true}\n";
    let text = format!(
        "on: push\njobs:\n  one:\n{call}    secrets: inherit\n  two:\n{call}    secrets: {{token: '${{{{ secrets.T }}}}'}}\n"
    );
    let plan = plan_with(&text, &files);
    assert_eq!(plan.workflows.len(), 2);
    let secrets = |index: usize| match &plan.root().jobs[index].kind {
        JobKind::Call(call) => {
            assert_eq!(call.workflow, Some(1));
            call.secrets.clone()
        }
        JobKind::Steps(_) => panic!("both jobs are calls"),
    };
    assert!(matches!(secrets(0), CallSecrets::Inherit));
    assert!(matches!(secrets(1), CallSecrets::Named(_)));
    let interface = plan.workflows[1].call.as_ref().expect("it can be called");
    assert_eq!(interface.inputs.len(), 2);
    assert_eq!(interface.outputs[0].0, "out");
}

/// P9
#[test]
fn a_call_must_give_what_is_declared_and_nothing_else() {
    let files = Files::default().with(".github/workflows/callee.yml", CALLEE);
    let text = "on: push\njobs:\n  one:\n    uses: ./.github/workflows/callee.yml\n    with:\n      nam: a\n      fast: 'yes'\n    secrets:\n      toke: x\n  \
                two:\n    uses: ./.github/workflows/gone.yml\n  three:\n    uses: other/repo/.github/workflows/x.yml@v1\n    with: {anything: goes}\n";
    assert_eq!(
        errors(text, &files, None),
        [
            "4: `.github/workflows/callee.yml` requires the input `name`",
            "4: `.github/workflows/callee.yml` requires the secret `token`",
            "6: `.github/workflows/callee.yml` declares no input `nam`",
            "7: the input `fast` is a boolean, found a string",
            "9: `.github/workflows/callee.yml` declares no secret `toke`",
            "11: there is no file `.github/workflows/gone.yml`",
        ]
    );
}

/// P9
#[test]
fn calls_in_a_circle_or_too_deep_are_refused() {
    let call = |target: &str| {
        format!("on: workflow_call\njobs:\n  j:\n    uses: ./.github/workflows/{target}.yml\n")
    };
    let circle = Files::default()
        .with(".github/workflows/a.yml", &call("b"))
        .with(".github/workflows/b.yml", &call("a"));
    assert_eq!(
        errors(&call("a"), &circle, None),
        ["4: `./.github/workflows/a.yml` ends up calling itself"]
    );
    let itself = call("ci").replace("on: workflow_call", "on: [push, workflow_call]");
    assert_eq!(
        errors(&itself, &Files::default(), None),
        ["4: `./.github/workflows/ci.yml` ends up calling itself"]
    );
    let mut chain = Files::default();
    for level in 1..12 {
        chain = chain
            .with(&format!(".github/workflows/f{level}.yml"), &call(&format!("f{}", level + 1)));
    }
    assert_eq!(
        errors(&call("f1"), &chain, None),
        ["4: reusable workflows are nested deeper than 10 levels"]
    );
    let plain =
        Files::default().with(".github/workflows/a.yml", "on: push\njobs: {j: {runs-on: x}}\n");
    assert_eq!(
        errors(&call("a"), &plain, None),
        ["4: `.github/workflows/a.yml` cannot be called: it does not listen to `workflow_call`"]
    );
}

/// P1
#[test]
fn a_called_workflow_cannot_have_more_permissions_than_its_caller() {
    let deploy = "on: workflow_call\njobs:\n  deploy:\n    permissions: {contents: write, issues: read}\n    runs-on: x\n    steps: [{run: a}]\n";
    let files = Files::default().with(".github/workflows/d.yml", deploy);
    let caller = |permissions: &str| {
        format!("on: push\n{permissions}jobs:\n  call:\n    uses: ./.github/workflows/d.yml\n")
    };
    let complaint = "job `deploy` of `./.github/workflows/d.yml` asks for `contents: write` (the caller has `read`)";
    assert_eq!(
        errors(&caller("permissions: read-all\n"), &files, None),
        [format!("4: {complaint}")]
    );
    let read_all = Permissions::read_all();
    assert_eq!(errors(&caller(""), &files, Some(&read_all)), [format!("3: {complaint}")]);
    plan_with(&caller("permissions: write-all\n"), &files);
    plan_with(&caller(""), &files);
}

/// P15, P13, S2, S20, S23
#[test]
fn a_companion_adds_kilns_own_keys() {
    let text = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - {id: flaky, run: t}\n";
    let companion = "jobs:\n  a:\n    retry: {max: 2, backoff: 10, on: any}\n    cache-result: {inputs: ['src/**']}\n    prefer: [{labels: fast, after: 60}, {pool: spot}]\n    requires: {system: x86_64-linux, features: kvm, tools: [docker, git], cores: 4, memory: 8 GB, disk: 1 TiB}\n    limits: {cores: 1.5, memory: 512MB}\n    steps:\n      flaky: {retry: {max: 1}}\n";
    let files = Files::default().with(".kiln/workflows/ci.yml", companion);
    let plan = plan_with(text, &files);
    let job = &plan.root().jobs[0];
    let retry = job.retry.as_ref().expect("it is retried");
    assert_eq!((retry.max, retry.backoff_seconds, retry.on), (2, 10, RetryOn::Any));
    let JobKind::Steps(steps) = &job.kind else { panic!("a job with steps") };
    assert_eq!(steps.result_cache.as_deref(), Some(&["src/**".to_owned()][..]));
    assert_eq!((steps.prefer[0].after_seconds, steps.prefer[1].after_seconds), (60, 30));
    assert_eq!(steps.prefer[1].pool.as_deref(), Some("spot"));
    let requires = &steps.requires;
    assert_eq!(requires.system.as_deref(), Some("x86_64-linux"));
    assert_eq!(
        (requires.features.join(" "), requires.tools.join(" ")),
        ("kvm".into(), "docker git".into())
    );
    let least = (requires.cores, requires.memory_mb, requires.disk_mb);
    assert_eq!(least, (Some(4), Some(8000), Some(1_099_512)));
    let limits = (steps.limits.cpu_millis, steps.limits.memory_mb, steps.limits.disk_mb);
    assert_eq!(limits, (Some(1500), Some(512), None));
    assert_eq!(steps.steps[0].retry.as_ref().map(|retry| retry.max), Some(1));
}

/// P15
#[test]
fn a_companion_that_names_nothing_of_the_workflow_is_refused() {
    let text = "on: push\njobs:\n  build:\n    runs-on: x\n    steps: [{id: flaky, run: t}]\n  call:\n    uses: o/r/.github/workflows/x.yml@v1\n  big: {runs-on: x, steps: [{run: t}]}\n  picky: {runs-on: x, steps: [{run: t}]}\n";
    let companion = "jobs:\n  biuld: {retry: {max: 1}}\n  build:\n    retry: {max: 99}\n    prefer: [{after: 1}]\n    steps: {flakey: {retry: {max: 1.5}}}\n  call: {prefer: [], limits: {cores: 1}}\n  big:\n    requires: {cores: 0, memory: 8, disk: much, tools: [\"a\\tb\"]}\n    limits: {cores: 0, memory: 8 G}\n  picky:\n    prefer: [&a {pool: a}, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n";
    let files = Files::default().with(".kiln/workflows/ci.yml", companion);
    assert_eq!(
        errors(text, &files, None),
        [
            "2: the workflow has no job `biuld`",
            "4: expected a whole number from 1 to 10, found `99`",
            "5: a preference needs `labels` or a `pool`",
            "6: the workflow has no step `flakey`",
            "7: `prefer` does not apply to a job that calls a workflow",
            "7: `limits` does not apply to a job that calls a workflow",
            "8: the tool `a\u{fffd}b` has a control character; expected plain text",
            "9: expected a whole number from 1 to 4096, found `0`",
            "9: expected a size such as `512 MB` or `4 GB`, found `8`",
            "9: expected a size such as `512 MB` or `4 GB`, found `much`",
            "10: expected a number of cores from 0.01 to 4096, found `0`",
            "10: expected a size such as `512 MB` or `4 GB`, found `8 G`",
            "11: 17 preferences are too many; at most 16",
        ]
    );
}

/// S9, P14
#[test]
fn concurrency_and_background_steps_are_carried_over() {
    let plan = plan(
        "on: push\nconcurrency: {group: g, queue: max}\njobs:\n  a:\n    runs-on: x\n    concurrency: ${{ github.ref }}\n    steps:\n      - {id: db, run: serve, background: true}\n      - parallel: [{run: a}, {run: b}]\n      - wait: db\n      - cancel: db\n      - wait-all:\n",
    );
    let workflow = plan.root();
    assert_eq!(workflow.concurrency.as_ref().map(|found| found.queue), Some(QueueMode::Max));
    assert!(matches!(
        workflow.jobs[0].concurrency.as_ref().map(|found| &found.group),
        Some(Template::Expr(_))
    ));
    let JobKind::Steps(job) = &workflow.jobs[0].kind else { panic!("a job with steps") };
    assert!(job.steps[0].background);
    assert!(matches!(&job.steps[1].kind, StepKind::Parallel(inner) if inner.len() == 2));
    assert!(matches!(&job.steps[2].kind, StepKind::Wait(ids) if ids == &["db"]));
    assert!(matches!(job.steps[4].kind, StepKind::WaitAll));
}

/// P1, R5
#[test]
fn actions_are_compiled_with_their_scripts_and_steps() {
    use kiln_core::plan::ActionRuns;
    use kiln_lang::compile::action;

    let compile = |text: &str| {
        let (action, diagnostics) = action(&mut SourceMap::new(), "a/action.yml", text);
        action.unwrap_or_else(|| panic!("{diagnostics:?}"))
    };
    let node = compile(
        "name: n\ndescription: d\ninputs: {token: {default: '${{ github.token }}'}, depth: {default: 1}}\n\
         runs: {using: node20, main: dist/index.js, post: dist/post.js, post-if: success()}\n",
    );
    assert_eq!(node.inputs[1].default.as_ref().and_then(Template::as_str), Some("1"));
    let ActionRuns::JavaScript { node: 20, main, pre: None, post: Some(post) } = &node.runs else {
        panic!("{:?}", node.runs)
    };
    assert_eq!((main.as_str(), &*post.condition.text), ("dist/index.js", "success()"));
    let composite = compile(
        "name: n\ndescription: d\noutputs: {o: {value: '${{ steps.a.outputs.x }}'}}\n\
         runs:\n  using: composite\n  steps: [{id: a, run: x, shell: bash}, {uses: ./b}]\n",
    );
    let ActionRuns::Composite(steps) = &composite.runs else { panic!("{:?}", composite.runs) };
    assert_eq!(steps.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["a", "__self"]);
    assert!(matches!(&composite.outputs[0].1, Some(Template::Expr(_))));
}

/// P9: the limit does not depend on which call comes first.
#[test]
fn a_deep_chain_is_refused_even_when_its_end_was_compiled_before() {
    let call = |target: &str| {
        format!("on: workflow_call\njobs:\n  j:\n    uses: ./.github/workflows/{target}.yml\n")
    };
    let mut files = Files::default();
    for level in 1..9 {
        files = files
            .with(&format!(".github/workflows/c{level}.yml"), &call(&format!("c{}", level + 1)));
    }
    files = files.with(".github/workflows/c9.yml", "on: workflow_call\njobs: {j: {runs-on: x}}\n");
    files = files
        .with(".github/workflows/e1.yml", &call("e2"))
        .with(".github/workflows/e2.yml", &call("c1"));
    let text = "on: push\njobs:\n  a:\n    uses: ./.github/workflows/c1.yml\n  b:\n    uses: ./.github/workflows/e1.yml\n";
    assert_eq!(
        errors(text, &files, None),
        ["4: reusable workflows are nested deeper than 10 levels"]
    );
    plan_with("on: push\njobs:\n  a:\n    uses: ./.github/workflows/c1.yml\n", &files);
}

/// P9: files as they are found in the wild, each with what the strict table says about it.
#[test]
fn the_action_files_of_others_are_read_as_loosely_as_the_runner_does() {
    use kiln_lang::compile::{action, published_action};

    let check = |text: &str, runs: bool| {
        let (strict, _) = action(&mut SourceMap::new(), "a/action.yml", text);
        assert!(strict.is_none(), "the strict table takes it: {text}");
        let (loose, found) = published_action(&mut SourceMap::new(), "a/action.yml", text);
        assert_eq!(loose.is_some(), runs, "{text}{found:?}");
        assert_eq!(found.is_empty(), runs, "nothing is said about what runs: {found:?}");
        loose
    };
    let node = "runs: {using: node20, main: index.js}\n";
    check(node, true);
    check(&format!("name: n\n{node}"), true);
    check(&format!("name: n\ndescription: d\ndeprecated: true\nx-own: {{a: [1]}}\n{node}"), true);
    check(&format!("name: 1\ndescription: [a]\nbranding: {{color: pink, icon: 2}}\n{node}"), true);
    check(&format!("inputs:\noutputs:\n{node}"), true);
    let odd = check(
        &format!(
            "inputs:\n  a: {{type: number, default: 08}}\n  b: {{default: true, required: 'yes'}}\n  c:\n  d: {{default: ~}}\n  e: {{default: 1.50, deprecationMessage: 3}}\n{node}"
        ),
        true,
    );
    let inputs = odd.map(|action| action.inputs).unwrap_or_default();
    let defaults: Vec<_> =
        inputs.iter().map(|input| input.default.as_ref().and_then(Template::as_str)).collect();
    assert_eq!(defaults[1..4], [Some("true"), None, Some("")]);
    assert_eq!(inputs[4].deprecation.as_deref(), Some("3"));
    check("runs: {using: Node16, main: index.js, post-If: x}\n", true);
    check("runs: {using: node99, main: index.js}\n", true);
    check(
        "runs: {using: 'Docker', image: Dockerfile, shell: bash}\noutputs: {a: , b: {type: x}}\n",
        true,
    );
    check("runs: {using: COMPOSITE, steps: [{run: a, shell: bash}]}\n", true);
    // What decides how it runs is as strict as ever.
    check("name: n\n", false);
    check("runs: {main: index.js}\n", false);
    check("runs: {using: node20}\n", false);
    check("runs: {using: nodejs, main: index.js}\n", false);
    check("runs: {using: ruby, main: index.rb}\n", false);
    check("runs: {plugin: checkout}\n", false);
    check("runs: {using: composite, steps: [{run: a}]}\n", false);
    check("runs: {using: composite, steps: [{uses: nowhere}]}\n", false);
    check(&format!("inputs: {{a: {{default: '${{{{ nonsense( }}}}'}}}}\n{node}"), false);
    check(&format!("inputs: [a]\n{node}"), false);
    check("a: b: c", false);
}
