//! What called workflows see of secrets, and what jobs say about their environments.

use crate::Place;
use crate::run::{commit_all, jobs, repository};

/// Prints what it sees in a way that no mask changes.
const CALLEE: &str = "on:\n  workflow_call:\n    inputs: {who: {type: string}}\n    secrets: {given: {}}\n    outputs: {seen: {value: '${{ jobs.look.outputs.seen }}'}}\njobs:\n  look:\n    runs-on: x\n    outputs: {seen: '${{ steps.s.outputs.seen }}'}\n    steps:\n      - id: s\n        env: {A: '${{ secrets.A }}', B: '${{ secrets.B }}', GIVEN: '${{ secrets.given }}', TOKEN: '${{ secrets.GITHUB_TOKEN }}'}\n        run: |\n          say() { if [ -n \"$2\" ]; then echo \"${{ inputs.who }} sees $1 of ${#2}\"; fi; }\n          say A \"$A\"; say B \"$B\"; say GIVEN \"$GIVEN\"; say TOKEN \"$TOKEN\"\n          echo \"leak aaaa-secret\"\n";

const MIDDLE: &str = "on:\n  workflow_call:\n    secrets: {given: {}}\njobs:\n  inherit:\n    uses: ./.github/workflows/callee.yml\n    with: {who: nested}\n    secrets: inherit\n";

fn place() -> Place {
    let place = Place::new();
    let callee = "uses: ./.github/workflows/callee.yml";
    let calls = format!(
        "  none:\n    {callee}\n    with: {{who: none}}\n  \
           all:\n    {callee}\n    with: {{who: all}}\n    secrets: inherit\n  \
           some:\n    {callee}\n    with: {{who: some}}\n    secrets: {{given: 'x${{{{ secrets.B }}}}'}}\n  \
           middle:\n    uses: ./.github/workflows/middle.yml\n    secrets: {{given: '${{{{ secrets.B }}}}'}}\n"
    );
    place.file(".github/workflows/ci.yml", jobs(&calls));
    place.file(".github/workflows/callee.yml", CALLEE);
    place.file(".github/workflows/middle.yml", MIDDLE);
    commit_all(place.path());
    place
}

/// R6, P9
#[test]
fn a_called_workflow_gets_none_all_or_the_named_secrets_and_all_stay_masked() {
    let place = place();
    let secrets = [
        "--secret",
        "A=aaaa-secret",
        "--secret",
        "B=bbbbbb-secret",
        "--secret",
        "GITHUB_TOKEN=tok",
    ];
    let answer =
        place.kiln(&[&["run", "--workflow", ".github/workflows/ci.yml"][..], &secrets].concat());
    let out = &answer.code(0).out;
    let mut seen: Vec<&str> = out
        .lines()
        .filter_map(|line| line.split_once("│ "))
        .map(|(_, text)| text)
        .filter(|text| text.contains(" sees ") && !text.starts_with('▸'))
        .collect();
    seen.sort_unstable();
    let expect = [
        "all sees A of 11",
        "all sees B of 13",
        "all sees TOKEN of 3",
        "nested sees GIVEN of 13",
        "nested sees TOKEN of 3",
        "none sees TOKEN of 3",
        "some sees GIVEN of 14",
        "some sees TOKEN of 3",
    ];
    assert_eq!(seen, expect, "{out}");
    assert!(!out.contains("aaaa-secret"), "a job hides also what it does not see: {out}");
    let kept = std::process::Command::new("grep")
        .args(["-rl", "-e", "aaaa-secret", "-e", "bbbbbb-secret"])
        .arg(place.path().join(".git/kiln-state"))
        .output()
        .expect("there is grep");
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "", "nothing on disk holds a secret");
}

/// P9
#[test]
fn a_required_secret_that_the_call_does_not_hand_on_is_an_error_before_anything_starts() {
    let place = Place::new();
    place.file(".github/workflows/ci.yml", jobs("  a:\n    runs-on: x\n    steps: [{run: echo started}]\n  call:\n    uses: ./.github/workflows/callee.yml\n"));
    place.file(".github/workflows/callee.yml", "on:\n  workflow_call:\n    secrets: {KEY: {required: true}}\njobs:\n  a:\n    runs-on: x\n    steps: [{run: 'true'}]\n");
    commit_all(place.path());
    let answer =
        place.kiln(&["run", "--secret", "KEY=12345678", "--workflow", ".github/workflows/ci.yml"]);
    assert!(answer.code(2).err.contains("requires the secret `KEY`"), "{answer:#?}");
    assert!(!answer.out.contains("started"), "{answer:#?}");
}

/// G3
#[test]
fn an_environment_is_reported_with_the_address_that_the_job_gives_at_its_end() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    strategy: {matrix: {to: [lab]}}\n    environment: {name: '${{ matrix.to }}-1', url: 'https://${{ steps.d.outputs.host }}/x'}\n    steps: [{id: d, run: 'echo host=h.example >> $GITHUB_OUTPUT'}]\n  \
         secret:\n    runs-on: x\n    environment: {name: b, url: 'https://${{ steps.d.outputs.host }}/'}\n    steps: [{id: d, env: {T: '${{ secrets.T }}'}, run: 'echo host=$T >> $GITHUB_OUTPUT'}]\n  \
         wrong:\n    runs-on: x\n    environment: {name: c, url: '${{ fromJSON(steps.d.outputs.none) }}'}\n    steps: [{id: d, run: 'true'}]\n",
    ));
    let answer = place.kiln(&["run", "--secret", "T=hidden-host"]);
    let out = &answer.code(1).out;
    assert!(out.contains("deployed to lab-1 (https://h.example/x)"), "{out}");
    assert!(out.contains("may hold a secret and is dropped"), "{out}");
    assert!(out.contains("`environment.url`") && out.contains("wrong failed"), "{out}");
    let json = place.kiln(&["run", "--json", "--secret", "T=hidden-host"]);
    let deployed = json.code(1).out.lines().filter(|line| line.contains(r#""event":"deployed""#));
    let mut deployed: Vec<serde_json::Value> =
        deployed.map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    deployed.sort_by_key(|event| event["environment"].to_string());
    let found: Vec<_> =
        deployed.iter().map(|event| (&event["environment"], &event["url"])).collect();
    let null = serde_json::Value::Null;
    assert_eq!(
        found,
        [
            (&"b".into(), &null),
            (&"c".into(), &null),
            (&"lab-1".into(), &"https://h.example/x".into())
        ]
    );
    let last: serde_json::Value =
        serde_json::from_str(json.out.lines().last().expect("it ends")).expect("JSON");
    assert_eq!(last["jobs"][0]["environment_url"], "https://h.example/x");
}
