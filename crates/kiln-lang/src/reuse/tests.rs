//! What is covered changes the fingerprint, and what is not pinned is refused. (P13)

use kiln_core::plan::{JobKind, Plan, StepsJob};
use kiln_core::value::{Object, Value};
use proptest::prelude::*;

use super::{File, Parts, Reading, Source, is_pinned_image};
use crate::compile::{NoLibrary, compile};
use crate::source::SourceMap;

fn plan(text: &str) -> Plan {
    let compiled =
        compile(&mut SourceMap::new(), ".github/workflows/ci.yml", text, &NoLibrary, None);
    compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))
}

/// A workflow whose only job has these lines, and the steps of that.
fn job(lines: &str) -> Plan {
    plan(&format!("on: push\njobs:\n  a:\n    runs-on: x\n{lines}"))
}

fn steps(plan: &Plan) -> &StepsJob {
    match &plan.root().jobs[0].kind {
        JobKind::Steps(steps) => steps,
        JobKind::Call(_) => panic!("a job with steps"),
    }
}

fn reading(plan: &Plan) -> Reading {
    Reading::of(plan.root(), &plan.root().jobs[0], steps(plan))
}

fn object(pairs: &[(&str, &str)]) -> Object {
    pairs.iter().map(|(name, value)| (*name, Value::from(*value))).collect()
}

fn check_obstacles(lines: &str, expect: &[&str]) {
    assert_eq!(reading(&job(lines)).obstacles(), expect, "{lines}");
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn what_is_not_pinned_or_never_the_same_is_refused_with_its_reason() {
    let script = |script: &str| format!("    steps: [{{run: \"{script}\"}}]\n");
    check_obstacles(&script("make test"), &[]);
    check_obstacles(&script("echo ${{ github.sha }} $GITHUB_REF ${{ matrix.os }}"), &[]);
    let never = |name: &str| format!("it uses `github.{name}`, which is never the same");
    check_obstacles(&script("echo ${{ github.run_id }}"), &[&never("run_id")]);
    check_obstacles(&script("echo ${{ github['RUN_NUMBER'] }}"), &[&never("run_number")]);
    check_obstacles(&script("echo $GITHUB_RUN_ATTEMPT"), &[&never("run_attempt")]);
    check_obstacles(&script("echo ${{ github.token }}"), &[&never("token")]);
    let all = "it uses all of `github`, part of which is never the same";
    check_obstacles(&script("echo '${{ toJSON(github) }}'"), &[all]);
    check_obstacles(&script("echo ${{ github[matrix.x] }}"), &[all]);
    check_obstacles(&script("x ${{ secrets.KEY }}"), &["it uses the secret `key`"]);
    check_obstacles(&script("x ${{ toJSON(secrets) }}"), &["it uses all secrets"]);
    let step = "    steps: [{run: a, if: \"github.run_number > 3\"}]\n";
    check_obstacles(step, &[&never("run_number")]);
    let environment = "    environment: production\n    steps: [{run: a}]\n";
    check_obstacles(environment, &["it deploys to an environment"]);
    let token = "    permissions: {id-token: write}\n    steps: [{run: a}]\n";
    check_obstacles(token, &["it may ask for identity tokens (`id-token: write`)"]);
}

#[test]
fn images_count_by_their_digest() {
    let unpinned =
        |image: &str| format!("the image `{image}` is not pinned by its digest (`…@sha256:…`)");
    let container = |image: &str| format!("    container: {image}\n    steps: [{{run: a}}]\n");
    check_obstacles(&container("node:20"), &[&unpinned("node:20")]);
    check_obstacles(&container(&format!("node@{DIGEST}")), &[]);
    check_obstacles(&container("{image: node}"), &[&unpinned("node")]);
    let computed = "the name of an image is known only when it runs";
    check_obstacles(&container("\"${{ matrix.image }}\""), &[computed]);
    let services = format!(
        "    services: {{a: {{image: 'db@{DIGEST}'}}, b: {{image: db}}}}\n    steps: [{{run: a}}]\n"
    );
    check_obstacles(&services, &[&unpinned("db")]);
    check_obstacles("    steps: [{uses: 'docker://alpine:3'}]\n", &[&unpinned("alpine:3")]);
    for wrong in ["node", "node@sha256:12", "node@sha256:", &format!("node@{DIGEST}0")] {
        assert!(!is_pinned_image(wrong), "{wrong}");
    }
}

#[test]
fn another_commit_than_that_of_the_run_is_not_covered() {
    let lines = "    steps: [{uses: actions/checkout@v4, with: {ref: main, repository: o/r}}]\n";
    let expect = ["ref", "repository"]
        .map(|key| format!("it checks out something else (`{key}` of `actions/checkout`)"));
    assert_eq!(reading(&job(lines)).obstacles(), expect);
    check_obstacles("    steps: [{uses: actions/checkout@v4, with: {fetch-depth: 0}}]\n", &[]);
}

#[test]
fn what_the_text_looks_at_is_covered_by_its_value() {
    let text = "    env: {A: \"${{ github.event.number }}\"}\n    steps: [{run: \"echo $GITHUB_ACTOR $GITHUB_OUTPUT ${{ github.workspace }}\"}]\n";
    let mut github = object(&[("actor", "ann"), ("ref", "refs/heads/main"), ("workspace", "/w")]);
    let event: Object = [("number", Value::from(7.0))].into_iter().collect();
    github.insert("event", Value::object(event));
    let covered = reading(&job(text)).covered(&github);
    let value = |name: &str| {
        let found = covered.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(value("actor"), Some("\"ann\""));
    assert_eq!(value("event.number"), Some("7.0"));
    assert_eq!(value("ref"), Some("\"refs/heads/main\""));
    assert_eq!((value("workspace"), value("output"), value("sha")), (None, None, None));
    // Whoever reads the file of the event may look at all of it.
    let whole = reading(&job("    steps: [{run: jq . $GITHUB_EVENT_PATH}]\n")).covered(&github);
    assert!(whole.contains(&("event".to_owned(), "{\"number\":7.0}".to_owned())), "{whole:?}");
}

/// All parts, each by a text.
#[derive(Debug, Clone, PartialEq)]
struct Texts(Vec<String>);

/// How many there are.
const PARTS: usize = 17;

fn fingerprint(texts: &Texts) -> String {
    let [
        script,
        step_env,
        job_env,
        workflow_env,
        shell,
        outputs,
        source,
        action,
        commit,
        looked,
        vars,
        inputs,
        needs,
        matrix,
        strategy,
        system,
        machine,
    ] = &texts.0[..]
    else {
        panic!("expected {PARTS} parts")
    };
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let text = format!(
        "on: push\nenv: {{A: {}}}\njobs:\n  a:\n    runs-on: {}\n    env: {{B: {}}}\n    outputs: {{o: {}}}\n    steps: [{{run: {}, shell: {}, env: {{C: {}}}}}]\n",
        quoted(workflow_env),
        quoted(machine),
        quoted(job_env),
        quoted(outputs),
        quoted(script),
        quoted(shell),
        quoted(step_env),
    );
    let plan = plan(&text);
    let one = |value: &str| object(&[("name", value)]);
    let (vars, inputs, needs) = (one(vars), one(inputs), one(needs));
    let (matrix, strategy) = (one(matrix), one(strategy));
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let files = vec![File { path: "a".to_owned(), content: source.clone() }];
    let parts = Parts {
        workflow: plan.root(),
        job: &plan.root().jobs[0],
        source: Source::Files(files),
        actions: pair(action, commit),
        looked_at: pair("ref", looked),
        vars: &vars,
        inputs: &inputs,
        needs: &needs,
        matrix: &matrix,
        strategy: &strategy,
        platform: pair("system", system),
    };
    parts.fingerprint()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_single_change_of_a_part_changes_the_fingerprint(
        texts in prop::collection::vec("[a-z]{1,8}", PARTS),
        at in 0..PARTS,
        other in "[a-z]{1,8}",
    ) {
        let before = Texts(texts);
        let mut after = before.clone();
        after.0[at] = other;
        let same = before == after;
        prop_assert_eq!(fingerprint(&before) == fingerprint(&after), same);
        prop_assert_eq!(fingerprint(&before), fingerprint(&before.clone()));
    }
}

#[test]
fn what_moves_between_parts_changes_the_fingerprint_too() {
    let plan = job("    steps: [{run: a}]\n");
    let nothing = Object::new();
    let parts = |actions: &[(&str, &str)], source: Source| {
        let actions = actions.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let (looked_at, platform) = (Vec::new(), Vec::new());
        let (vars, inputs, needs, matrix, strategy) =
            (&nothing, &nothing, &nothing, &nothing, &nothing);
        let (workflow, job) = (plan.root(), &plan.root().jobs[0]);
        Parts {
            workflow,
            job,
            source,
            actions,
            looked_at,
            vars,
            inputs,
            needs,
            matrix,
            strategy,
            platform,
        }
        .fingerprint()
    };
    let commit = || Source::Commit("c".to_owned());
    let all = [
        parts(&[], commit()),
        parts(&[("a", "b")], commit()),
        parts(&[("ab", "")], commit()),
        parts(&[("a", "b"), ("c", "d")], commit()),
        parts(&[("c", "d"), ("a", "b")], commit()),
        parts(&[], Source::Files(Vec::new())),
        parts(&[], Source::Files(vec![File { path: "c".to_owned(), content: String::new() }])),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_eq!(one.len(), 64);
        assert!(all.iter().skip(at + 1).all(|other| other != one), "{at}");
    }
}

#[test]
fn where_a_job_is_written_and_what_runs_beside_it_does_not_count() {
    let nothing = Object::new();
    let of = |text: &str| {
        let plan = plan(text);
        let (index, job) = plan.root().job("a").map(|(index, job)| (index, job.clone())).unwrap();
        let (vars, inputs, needs, matrix, strategy) =
            (&nothing, &nothing, &nothing, &nothing, &nothing);
        let parts = Parts {
            workflow: plan.root(),
            job: &job,
            source: Source::Commit("c".to_owned()),
            actions: Vec::new(),
            looked_at: Vec::new(),
            vars,
            inputs,
            needs,
            matrix,
            strategy,
            platform: Vec::new(),
        };
        (index, parts.fingerprint())
    };
    let (_, alone) = of("on: push\njobs:\n  a:\n    runs-on: x\n    steps: [{run: a}]\n");
    let (index, second) = of(
        "# a comment\non: push\njobs:\n  b:\n    runs-on: x\n    steps: [{run: b}]\n  a:\n    needs: b\n    if: always()\n    runs-on: x\n    steps: [{run: a}]\n",
    );
    assert_eq!((index, alone), (1, second));
}

#[test]
fn each_part_is_changed_by_what_it_stands_for_and_by_nothing_else() {
    let plan = job("    steps: [{run: a}]\n");
    let nothing = Object::new();
    let some: Object = [("a", Value::from("b"))].into_iter().collect();
    let pair = || vec![("a".to_owned(), "b".to_owned())];
    let usual = || Parts {
        workflow: plan.root(),
        job: &plan.root().jobs[0],
        source: Source::Commit("c".to_owned()),
        actions: Vec::new(),
        looked_at: Vec::new(),
        vars: &nothing,
        inputs: &nothing,
        needs: &nothing,
        matrix: &nothing,
        strategy: &nothing,
        platform: Vec::new(),
    };
    let before = usual().parts();
    assert_eq!(before.len(), 9);
    assert!(before.iter().all(|(_, short)| short.len() == 16));
    let check = |parts: Parts<'_>, expect: &[&str]| {
        assert_ne!(parts.fingerprint(), usual().fingerprint(), "{expect:?}");
        let after = parts.parts();
        let changed = before.iter().zip(&after).filter(|(one, other)| one != other);
        let changed: Vec<&str> = changed.map(|(one, _)| one.0).collect();
        assert_eq!(changed, expect);
    };
    let other = job("    steps: [{run: b}]\n");
    check(Parts { job: &other.root().jobs[0], ..usual() }, &["its text"]);
    check(Parts { source: Source::Commit("d".to_owned()), ..usual() }, &["the files"]);
    check(Parts { actions: pair(), ..usual() }, &["the actions"]);
    check(Parts { looked_at: pair(), ..usual() }, &["what it looks at of `github`"]);
    check(Parts { vars: &some, ..usual() }, &["the variables"]);
    check(Parts { inputs: &some, ..usual() }, &["the inputs"]);
    check(Parts { needs: &some, ..usual() }, &["the outputs of what it needs"]);
    check(Parts { matrix: &some, ..usual() }, &["its matrix"]);
    check(Parts { strategy: &some, ..usual() }, &["its matrix"]);
    check(Parts { platform: pair(), ..usual() }, &["the system"]);
    check(Parts { platform: pair(), vars: &some, ..usual() }, &["the variables", "the system"]);
}
