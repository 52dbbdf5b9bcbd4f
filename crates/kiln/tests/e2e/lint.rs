//! `kiln lint`: files, formats and exit codes that do not depend on the language.
//!
//! A file that is not UTF-8 is an error whatever the language says.

use serde_json::json;

use crate::Place;

const BAD: &[u8] = b"on: push\nname: caf\xe9\n";

#[test]
fn a_file_that_is_no_text_is_a_finding_with_its_place() {
    let place = Place::new();
    place.file("bad.yml", BAD);
    let answer = place.kiln(&["lint", "bad.yml"]);
    answer.code(1);
    let expect = "\
error[unreadable-file]: the file is not UTF-8 text
 --> bad.yml:2:10
  |
2 | name: caf\u{fffd}
  |          ^

";
    assert_eq!(answer.out, expect);
    assert!(answer.err.starts_with("checked 1 file: 1 error ("), "{answer:#?}");
}

/// The fields are a promise.
#[test]
fn json_is_an_array_of_findings_and_jsonl_one_per_line() {
    let place = Place::new();
    place.file("bad.yml", BAD);
    let finding = json!({
        "file": "bad.yml", "line": 2, "column": 10, "end_line": 2, "end_column": 11,
        "severity": "error", "code": "unreadable-file",
        "message": "the file is not UTF-8 text", "help": null,
    });
    let answer = place.kiln(&["lint", "--format", "json", "bad.yml"]);
    assert_eq!(answer.code(1).json(), json!([finding]));
    assert_eq!(answer.err, "");
    let lines = place.kiln(&["lint", "--format", "jsonl", "bad.yml"]);
    assert_eq!(lines.code(1).out.lines().count(), 1);
    assert_eq!(lines.json(), finding);
}

#[test]
fn paths_are_shown_as_typed_but_annotated_from_the_root() {
    let place = Place::repository();
    place.file("sub/deep/bad.yml", BAD);
    let shown = place.kiln_in("sub", &["lint", "./deep/bad.yml", "--format", "json"], "");
    assert_eq!(shown.code(1).json()[0]["file"], "deep/bad.yml");
    let github = place.kiln_in("sub", &["lint", "deep", "--format", "github"], "");
    assert_eq!(
        github.code(1).out,
        "::error file=sub/deep/bad.yml,line=2,endLine=2,col=10,endColumn=11,\
         title=unreadable-file::the file is not UTF-8 text\n"
    );
    let sarif = place.kiln_in("sub", &["lint", "deep", "--format", "sarif"], "");
    let log = sarif.code(1).json();
    let location = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        location["artifactLocation"],
        json!({"uri": "sub/deep/bad.yml", "uriBaseId": "%SRCROOT%"})
    );
    assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["id"], "unreadable-file");
}

#[test]
fn without_a_path_the_repository_around_is_checked() {
    let place = Place::repository();
    place.file(".github/workflows/bad.yml", BAD).file("src/main.rs", "");
    let answer = place.kiln_in("src", &["lint", "--format", "json"], "");
    assert_eq!(answer.code(1).json()[0]["file"], "../.github/workflows/bad.yml");
    let root = place.kiln(&["lint", "--format", "json"]);
    assert_eq!(root.code(1).json()[0]["file"], ".github/workflows/bad.yml");
}

#[test]
fn a_place_with_nothing_to_check_is_an_error_that_says_so() {
    let place = Place::repository();
    place.file("readme.md", "");
    let answer = place.kiln(&["lint"]);
    answer.code(2);
    assert!(answer.err.contains("no workflows or actions in"), "{answer:#?}");
}

#[test]
fn many_files_are_reported_in_order() {
    let place = Place::new();
    for index in 0..50 {
        place.file(&format!("many/{index:02}.yml"), BAD);
    }
    let findings = place.kiln(&["lint", "many", "--format", "json"]).code(1).json();
    let files: Vec<_> =
        findings.as_array().unwrap().iter().map(|found| found["file"].as_str().unwrap()).collect();
    let expect: Vec<_> = (0..50).map(|index| format!("many/{index:02}.yml")).collect();
    assert_eq!(files, expect);
}

#[test]
fn quiet_shows_errors_without_a_summary() {
    let place = Place::new();
    place.file("bad.yml", BAD);
    let answer = place.kiln(&["lint", "-q", "bad.yml"]);
    assert_eq!(answer.code(1).err, "");
    assert!(answer.out.starts_with("error[unreadable-file]"));
}

#[cfg(unix)]
#[test]
fn a_file_that_never_ends_is_refused() {
    let place = Place::new();
    let answer = place.kiln(&["lint", "/dev/zero", "--format", "json"]);
    assert_eq!(answer.code(1).json()[0]["message"], "the file is larger than 16 MiB");
}

#[test]
fn a_flood_of_findings_is_cut_for_people_and_whole_for_programs() {
    let place = Place::new();
    let keys = (0..700).map(|number| format!("k{number}: 1")).collect::<Vec<_>>().join("\n");
    place.file(
        "flood.yml",
        format!("on: push\npermissions: {{}}\njobs: {{a: {{runs-on: x}}}}\n{keys}"),
    );
    let human = place.kiln(&["lint", "flood.yml"]);
    assert!(human.code(1).err.contains("200 more findings are not shown"), "{}", human.err);
    let json = place.kiln(&["lint", "--format", "json", "flood.yml"]);
    assert_eq!(json.code(1).json().as_array().map(Vec::len), Some(700));
}
