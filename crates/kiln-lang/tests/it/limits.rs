//! Hostile and oversized files: each gets a clear error, and gets it soon.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kiln_lang::workflow::FileKind;

use crate::corpus::{Reading, read};

/// Far above what any of these takes even without optimization: a guard against hanging.
const SOON: Duration = Duration::from_secs(30);

fn read_soon(text: &str) -> Reading {
    let start = Instant::now();
    let reading = read("hostile.yml", FileKind::Workflow, text);
    let took = start.elapsed();
    assert!(took < SOON, "reading took {took:?}");
    reading
}

/// The first error must have this code and message.
#[track_caller]
fn check(text: &str, code: &str, message: &str) {
    let reading = read_soon(text);
    let first = reading.diagnostics.first().expect("there is an error");
    assert_eq!((first.code, first.message.as_str()), (code, message));
}

fn workflow(job: &str) -> String {
    format!("on: push\njobs:\n  build:\n    runs-on: linux\n{job}    steps: [{{run: make}}]\n")
}

fn many(count: usize, make: impl Fn(usize) -> String) -> String {
    (0..count).map(make).collect::<Vec<_>>().concat()
}

const TOO_DEEP: &str = "the document nests deeper than 100 levels";
const TOO_MANY: &str = "the document has more than 100000 nodes once aliases are expanded";

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = String::from("env:\n  a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for (previous, name) in ('a'..'j').zip('b'..='j') {
        let aliases = vec![format!("*{previous}"); 10].join(", ");
        writeln!(text, "  {name}: &{name} [{aliases}]").expect("strings take all");
    }
    check(&text, "too-many-nodes", TOO_MANY);
}

#[test]
fn laughter_through_merge_keys_is_refused() {
    let mut text = String::from("a: &a {k0: 0, k1: 1, k2: 2, k3: 3}\n");
    for (previous, name) in ('a'..'y').zip('b'..='y') {
        writeln!(
            text,
            "{name}: &{name} {{x{name}: *{previous}, <<: [*{previous}, *{previous}, *{previous}]}}"
        )
        .expect("strings take all");
    }
    check(&text, "too-many-nodes", TOO_MANY);
}

#[test]
fn merge_keys_of_many_aliases_stay_cheap() {
    let keys: String = many(300, |at| format!("k{at}: 0, "));
    let aliases = vec!["*base"; 100].join(", ");
    let text = format!("base: &base {{{keys}}}\nall: {{<<: [{aliases}]}}\n");
    let reading = read_soon(&text);
    assert!(reading.diagnostics.iter().any(|found| found.code == "unknown-key"));
}

#[test]
fn depth_is_bounded_in_flow_and_block_style() {
    const DEPTH: usize = 10_000;
    check(&format!("on: {}{}\n", "[".repeat(DEPTH), "]".repeat(DEPTH)), "too-deep", TOO_DEEP);
    check(&format!("on: {}", "[".repeat(DEPTH)), "too-deep", TOO_DEEP);
    check(&format!("on: {}", "{a: ".repeat(DEPTH)), "too-deep", TOO_DEEP);
    check(&format!("{}x\n", "- ".repeat(DEPTH)), "too-deep", TOO_DEEP);
    // Indentation makes a block of this depth larger than a file may be, hence the lower number.
    let block: String = many(800, |depth| format!("{}a:\n", " ".repeat(depth)));
    check(&block, "too-deep", TOO_DEEP);
}

#[test]
fn a_matrix_of_a_million_is_refused_before_it_is_built() {
    let vector = (0..100).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
    let vectors = ["a", "b", "c"].map(|name| format!("        {name}: [{vector}]\n")).concat();
    check(
        &workflow(&format!("    strategy:\n      matrix:\n{vectors}")),
        "matrix",
        "`matrix` makes 1000000 jobs; at most 256 are allowed",
    );
}

#[test]
fn a_file_of_500_kilobytes_is_refused() {
    let text = workflow("") + &"# padding\n".repeat(50_000);
    check(&text, "file-too-large", "the file has 488 KiB; at most 384 KiB are read");
}

#[test]
fn ten_thousand_jobs_in_a_chain_are_read() {
    let mut text = String::from("on: push\njobs:\n  j0: {runs-on: x}\n");
    for at in 1..10_000 {
        writeln!(text, "  j{at}: {{needs: j{}, runs-on: x}}", at - 1).expect("strings take all");
    }
    let reading = read_soon(&text);
    assert!(reading.diagnostics.is_empty(), "{:?}", reading.diagnostics.first());
    assert_eq!(reading.document.expect("it is read").jobs().count(), 10_000);
}

#[test]
fn a_circle_of_ten_thousand_jobs_is_found_and_named_briefly() {
    let mut text = String::from("on: push\njobs:\n  j0: {needs: j9999, runs-on: x}\n");
    for at in 1..10_000 {
        writeln!(text, "  j{at}: {{needs: j{}, runs-on: x}}", at - 1).expect("strings take all");
    }
    let reading = read_soon(&text);
    let found = reading.diagnostics.first().expect("there is an error");
    assert_eq!(found.code, "needs-cycle");
    assert!(found.message.len() < 500, "the message has {} characters", found.message.len());
}

#[test]
fn expressions_are_bounded_in_depth_and_length() {
    let too_deep = "the expression is nested deeper than 50 levels";
    let too_long = "the expression is longer than 21000 characters";
    let condition = |text: &str| workflow(&format!("    if: {text}\n"));
    let nested = |depth: usize| format!("{}github.ref{}", "(".repeat(depth), ")".repeat(depth));
    check(&condition(&nested(10_000)), "expression", too_deep);
    check(&condition(&nested(20_000)), "expression", too_long);
    check(&condition(&format!("${{{{ {}true }}}}", "!".repeat(10_000))), "expression", too_deep);
    check(&condition(&format!("github{}", ".a".repeat(10_000))), "expression", too_deep);
    check(&condition(&format!("github{}", "[github".repeat(2_000))), "expression", too_deep);
}

#[test]
fn a_hundred_thousand_keys_are_too_many() {
    let keys: String = many(100_000, |at| format!("{at}: {{}}\n"));
    // Shorter keys would still be more than a file may hold.
    check(&keys, "file-too-large", "the file has 965 KiB; at most 384 KiB are read");
    let items = format!("on: [{}]\n", "a,".repeat(100_001));
    check(&items, "too-many-nodes", TOO_MANY);
}

#[test]
fn sixty_thousand_keys_that_repeat_each_other_are_answered_soon() {
    check(&"A:\na:\n".repeat(30_000), "too-many-nodes", TOO_MANY);
    let reading = read_soon(&"A:\na:\n".repeat(20_000));
    let duplicates = reading.diagnostics.iter().filter(|found| found.code == "duplicate-key");
    assert_eq!(duplicates.count(), 39_999);
}

#[test]
fn many_unknown_keys_are_answered_soon() {
    let unknown: String = many(20_000, |at| format!("stepz{at}: x\n"));
    assert!(read_soon(&unknown).diagnostics.len() >= 20_000);
}

#[test]
fn many_unknown_needs_are_answered_soon() {
    let mut needs = String::from("on: push\njobs:\n");
    for at in 0..8_000 {
        writeln!(needs, "  job{at}: {{needs: jib{at}, runs-on: x}}").expect("strings take all");
    }
    assert_eq!(read_soon(&needs).diagnostics.len(), 8_000);
}

#[test]
fn many_unknown_steps_are_answered_soon() {
    let steps: String = many(4_000, |at| format!("{{id: step{at}, run: x}}, {{wait: stop{at}}}, "));
    let text = format!("on: push\njobs:\n  a:\n    runs-on: x\n    steps: [{steps}]\n");
    assert_eq!(read_soon(&text).diagnostics.len(), 4_000);
}

#[test]
fn many_unknown_events_and_time_zones_are_answered_soon() {
    let events = format!("on: [{}]\njobs: {{a: {{runs-on: x}}}}\n", "pusj, ".repeat(20_000));
    assert!(!read_soon(&events).diagnostics.is_empty());
    let zones = "{cron: '0 0 * * *', timezone: Europe/Berlim}, ".repeat(8_000);
    let zones = format!("on: {{schedule: [{zones}]}}\njobs: {{a: {{runs-on: x}}}}\n");
    assert!(!read_soon(&zones).diagnostics.is_empty());
}

#[test]
fn long_lines_and_texts_are_answered_soon() {
    let expressions = "${{ x }} ".repeat(30_000);
    assert!(!read_soon(&workflow(&format!("    name: {expressions}\n"))).diagnostics.is_empty());
    let faults = "${{ a = b }} ".repeat(250);
    assert!(!read_soon(&workflow(&format!("    name: {faults}\n"))).diagnostics.is_empty());
    let quotes = format!("name: \"{}\n", "x: '".repeat(60_000));
    assert!(!read_soon(&quotes).diagnostics.is_empty());
    let block: String = (0..10_000).map(|_| "        echo ${{ nope.x }}\n").collect();
    assert!(
        !read_soon(&workflow(&format!("    env:\n      A: |\n{block}"))).diagnostics.is_empty()
    );
}

#[test]
fn many_faults_in_one_text_are_answered_soon() {
    let titled = |text: &str| workflow(&format!("    name: {text}\n"));
    assert!(!read_soon(&titled(&"${{ a = b }} ".repeat(20_000))).diagnostics.is_empty());
    let names = format!("${{{{ a{} }}}} ", "||b".repeat(6_000));
    assert!(!read_soon(&titled(&names)).diagnostics.is_empty());
    let lines = format!("    env:\n      A: |\n{}", "        ${{ x.y }} ${{ z }}\n".repeat(120));
    assert!(!read_soon(&workflow(&lines)).diagnostics.is_empty());
}

#[test]
fn long_texts_behind_many_aliases_are_refused() {
    let script = many(2_000, |line| format!("          echo {line}\n"));
    let steps = many(4_000, |_| "      - run: *script\n".to_owned());
    let text = format!(
        "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: &script |\n{script}{steps}"
    );
    check(
        &text,
        "too-many-nodes",
        "the document has more than 4 MiB of text once aliases are expanded",
    );
}

#[test]
fn thousands_of_steps_without_ids_are_compiled_soon() {
    use kiln_lang::compile::{NoLibrary, compile};
    let steps = many(20_000, |_| "    - run: x\n".to_owned());
    let text = format!("on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n{steps}");
    let start = Instant::now();
    let compiled =
        compile(&mut kiln_lang::source::SourceMap::new(), "a.yml", &text, &NoLibrary, None);
    assert!(compiled.plan.is_some(), "{:?}", compiled.diagnostics.first());
    assert!(start.elapsed() < SOON, "compiling took {:?}", start.elapsed());
}
