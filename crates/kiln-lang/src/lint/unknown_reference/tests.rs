//! Tests of the references that a file does not have.

use super::super::testing;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    testing::check("unknown-reference", text, expected);
}

/// A workflow whose job `c` needs `b`, which needs `a`; the expression stands on line 16.
fn needs(expr: &str) -> String {
    format!(
        "on: push\njobs:\n  a:\n    runs-on: x\n    outputs: {{one: '1'}}\n    steps: [{{run: x}}]\n  b:\n    \
         needs: a\n    runs-on: x\n    outputs: {{two: '2'}}\n    steps: [{{run: x}}]\n  c:\n    needs: [b, d]\n    \
         runs-on: x\n    steps:\n      - run: echo ${{{{ {expr} }}}}\n  d:\n    \
         uses: ./.github/workflows/d.yml\n"
    )
}

#[test]
fn only_direct_needs_are_there() {
    check(
        &needs("needs.a.outputs.one"),
        &["16:23 job `c` does not need `a`, so this is always null"],
    );
    check(&needs("needs.bb.result"), &["16:23 job `c` does not need `bb`, so this is always null"]);
    check(
        &needs("needs.b.outputs.tow"),
        &["16:23 job `b` declares no output `tow`, so this is always null"],
    );
    check(&needs("needs.b.output.two"), &["16:23 a need has no `output`, so this is always null"]);
}

#[test]
fn needs_that_exist_are_fine() {
    for fine in [
        "needs.b.outputs.two",
        "needs.B.outputs.TWO",
        "needs.b.result",
        "needs.*.result",
        "toJSON(needs)",
        "needs[github.job].outputs.x",
        "needs.d.outputs.whatever",
    ] {
        check(&needs(fine), &[]);
    }
}

#[test]
fn only_earlier_steps_are_there() {
    let text = testing::steps(
        "- id: one\n  run: echo ${{ steps.two.outputs.x }}\n- id: two\n  run: echo ${{ steps.one.outputs.x }}\n\
         - id: three\n  run: echo ${{ steps.four.outcome }} ${{ steps.three.outcome }} ${{ steps.one.output }}",
    );
    check(
        &text,
        &[
            "8:23 step `two` runs after this one, so this is always null",
            "12:23 no step has the id `four`, so this is always null",
            "12:49 step `three` is not done when it reads itself, so this is null",
            "12:76 a step has no `output`, so this is always null",
        ],
    );
}

#[test]
fn the_outputs_of_a_job_see_all_steps() {
    let text = |id: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: x\n    outputs: {{x: '${{{{ steps.{id}.outputs.x }}}}'}}\n    \
             steps: [{{run: x, id: last}}]\n"
        )
    };
    check(&text("last"), &[]);
    check(&text("lost"), &["5:23 no step has the id `lost`, so this is always null"]);
}

#[test]
fn inputs_must_be_declared() {
    let text = |expr: &str| {
        format!(
            "on:\n  workflow_call: {{inputs: {{one: {{type: string}}}}}}\n  workflow_dispatch: {{inputs: {{two: }}}}\n\
             jobs:\n  a:\n    runs-on: x\n    if: {expr}\n    steps: [{{run: x}}]\n"
        )
    };
    check(&text("inputs.one == inputs.TWO"), &[]);
    check(&text("inputs.three"), &["7:9 no input `three` is declared, so this is always null"]);
    check(
        "on: push\njobs:\n  a:\n    runs-on: x\n    if: inputs.x\n",
        &["5:9 no input `x` is declared, so this is always null"],
    );
    check(
        "name: n\ndescription: d\ninputs: {x: }\nruns:\n  using: composite\n  steps:\n    - shell: sh\n      \
         run: ${{ inputs.x }} ${{ inputs.xs }}\n",
        &["8:32 no input `xs` is declared, so this is always null"],
    );
}

#[test]
fn a_matrix_that_is_written_out_is_known() {
    let text = |strategy: &str, expr: &str| {
        format!(
            "on: push\njobs:\n  a:\n    strategy: {strategy}\n    runs-on: x\n    name: ${{{{ {expr} }}}}\n    \
             steps: [{{run: x}}]\n"
        )
    };
    let known = "{matrix: {os: [a], include: [{os: a, more: b}]}}";
    check(&text(known, "matrix.os"), &[]);
    check(&text(known, "matrix.More"), &[]);
    check(&text(known, "toJSON(matrix)"), &[]);
    check(
        &text(known, "matrix.oss"),
        &["6:15 the matrix has no variable `oss`, so this is always null"],
    );
    let dynamic = "{matrix: '${{ fromJSON(vars.M) }}'}";
    check(&text(dynamic, "matrix.oss"), &[]);
    let dynamic = "{matrix: {os: [a], include: '${{ fromJSON(vars.M) }}'}}";
    check(&text(dynamic, "matrix.oss"), &[]);
    check(
        &text("{fail-fast: false}", "matrix.os"),
        &["6:15 job `a` has no matrix, so this is always null"],
    );
}

#[test]
fn the_outputs_of_a_called_workflow_name_its_jobs() {
    let text = |path: &str| {
        format!(
            "on:\n  workflow_call:\n    outputs:\n      x:\n        value: ${{{{ {path} }}}}\njobs:\n  a:\n    \
             runs-on: x\n    outputs: {{one: '1'}}\n    steps: [{{run: x}}]\n"
        )
    };
    check(&text("jobs.a.outputs.one"), &[]);
    check(
        &text("jobs.a.outputs.won"),
        &["5:20 job `a` declares no output `won`, so this is always null"],
    );
    check(&text("jobs.z.outputs.one"), &["5:20 there is no job `z`, so this is always null"]);
}
