//! `kiln eval`: input and output that do not depend on the language.

use crate::Place;

#[test]
fn a_line_that_cannot_be_read_is_answered_and_the_next_is_read() {
    let place = Place::new();
    let input = "nonsense\n\n{\"expr\": 1}\n[]\n";
    let answer = place.kiln_in("", &["eval", "--jsonl"], input);
    answer.code(0);
    let kinds: Vec<_> = answer
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["error"]["kind"].clone()
        })
        .collect();
    assert_eq!(kinds, ["input", "input", "input"]);
}

#[test]
fn contexts_must_be_a_json_object() {
    let place = Place::new();
    place.file("list.json", "[]").file("broken.json", "{\"a\": ");
    let list = place.kiln(&["eval", "1", "--context", "list.json"]);
    assert!(list.code(2).err.contains("`list.json` must be a JSON object"), "{list:#?}");
    let broken = place.kiln(&["eval", "1", "--context", "broken.json"]);
    assert!(broken.code(2).err.contains("`broken.json` is not JSON"), "{broken:#?}");
    assert!(broken.err.contains("line 1 column"), "{broken:#?}");
}
