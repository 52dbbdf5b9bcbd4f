//! Random expressions, evaluated by both: values must be the same, and so must be the kinds of errors.

use std::collections::BTreeMap;

use kiln_core::value::{Object, Value};
use kiln_lang::expr::{ErrorKind, ExprError, Names, evaluate, json as kiln_json, parse_checked};
use serde_json::{Value as Json, json};

use crate::random::Random;

const COUNT: usize = 3000;

const CONTEXTS: &str = r#"{
    "github": {"ref": "refs/heads/main", "key": "list", "number": 12, "flag": true, "none": null, "Ünï": "ß"},
    "a": {
        "list": [1, "two", null, true, 2.5],
        "objects": [{"name": "x", "tags": ["p", "q"]}, {"name": "Y"}, 3, {"other": null}],
        "object": {"one": 1, "two": [2], "three": {"name": "z"}, "b c": "space", "text": "it's {0}"},
        "nested": [[1, [2]], [], {}],
        "empty": {}
    }
}"#;

const ATOMS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "+2",
    "2.5",
    "0xff",
    "0o17",
    "1e3",
    "-0",
    ".5",
    "1.5e-3",
    "3.",
    "NaN",
    "Infinity",
    "-Infinity",
    "''",
    "'a'",
    "'A'",
    "'1'",
    "'0'",
    "' 12 '",
    "'true'",
    "'it''s'",
    "'ß'",
    "'two'",
    "'null'",
    "'0x1F'",
    "'1e2'",
    "'{0}-{1}'",
    "'{{{0}}}'",
    "'{2}'",
    "'{'",
    "','",
    "'list'",
    "'[1, {\"k\": [null]}]'",
    "'{\"k\": \"v\"}'",
    "'oops'",
    "github",
    "a",
    "github.ref",
    "github.number",
    "github.flag",
    "github.none",
    "github.missing",
    "github['Ünï']",
    "GITHUB.REF",
    "a.list",
    "a.list[0]",
    "a.list[1.9]",
    "a.list['1']",
    "a.list[-1]",
    "a.list[9]",
    "a[github.key]",
    "a['object']['b c']",
    "a.*",
    "a.list.*",
    "a.objects.*.name",
    "a.objects.*.tags",
    "a.objects.*.tags[0]",
    "a.objects[*].other",
    "a.object.*",
    "a.object.*.name",
    "a.object.three.name",
    "a.object.text",
    "a.nested",
    "a.nested[0][1][0]",
    "a.nested.*.*",
    "a.empty",
    "a.empty.*",
    "a.missing.deeper.still",
    "a.list[a.object.one]",
    "a.object[null]",
    "a.object[true]",
    "a.list[null]",
    "a.list[true]",
    "a.list['x']",
    "a.object[a]",
];

const OPERATORS: &[&str] = &["==", "!=", "<", "<=", ">", ">=", "&&", "||"];

fn expression(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return random.pick(ATOMS).to_owned();
    }
    let mut inner = || expression(random, depth - 1);
    let (one, two, three) = (inner(), inner(), inner());
    match random.below(16) {
        0..=4 => format!("{one} {} {two}", random.pick(OPERATORS)),
        5 => format!("!{one}"),
        6 => format!("({one})"),
        7 => format!("({one}{}{two})", random.pick(OPERATORS)),
        8 => format!("contains({one}, {two})"),
        9 => format!("{}( {one},{two} )", random.pick(&["startsWith", "ENDSWITH"])),
        10 => format!("format({one}, {two}, {three})"),
        11 => format!("join({one}, {two})"),
        12 => format!("toJSON({one})"),
        13 => format!("fromJSON({one})"),
        14 => format!("case({one} == {two}, {two}, {three})"),
        _ => {
            format!("fromJSON(toJSON({one})){}", random.pick(&["[0]", ".k", ".*", "['name']", ""]))
        }
    }
}

/// Most are well formed; some get a character too many, too few or a wrong one.
fn random_expression(random: &mut Random) -> String {
    let depth = random.below(4);
    let mut text: Vec<char> = expression(random, depth).chars().collect();
    if random.below(5) == 0 {
        let at = random.below(text.len());
        let odd: Vec<char> = "()[],.'!=&|<>*\"+ x1#".chars().collect();
        let odd = odd[random.below(odd.len())];
        match random.below(3) {
            0 => text.insert(at, odd),
            1 => text[at] = odd,
            _ => drop(text.remove(at)),
        }
    }
    text.into_iter().collect()
}

/// P2
#[test]
fn random_expressions_have_the_same_value_as_on_github() {
    let contexts: Json = serde_json::from_str(CONTEXTS).expect("the contexts are JSON");
    let mut random = Random::new(2026);
    let mut texts: Vec<String> = (0..COUNT).map(|_| random_expression(&mut random)).collect();
    texts.extend(KNOWN_TO_DIFFER.iter().map(|(text, _)| (*text).to_owned()));
    let questions: Vec<Json> =
        texts.iter().map(|text| json!({"expr": text, "contexts": contexts})).collect();
    let answers = super::ask_github("expressions", &questions);
    let ours = our_contexts();
    let mut unexplained = Vec::new();
    let mut explained = BTreeMap::new();
    for (text, github) in texts.iter().zip(answers) {
        let kiln = outcome(text, &ours);
        match (same(&kiln, &github), reason(text, &kiln, &github)) {
            (true, _) => {}
            (false, Some(reason)) => *explained.entry(reason).or_insert(0) += 1,
            (false, None) => {
                unexplained.push(format!("{text}\n  Kiln:   {kiln}\n  GitHub: {github}"));
            }
        }
    }
    assert!(unexplained.is_empty(), "{}:\n{}", unexplained.len(), unexplained.join("\n"));
    for (text, reason) in KNOWN_TO_DIFFER {
        assert!(explained.contains_key(reason), "no longer differs ({reason}): {text}");
    }
}

const LEXED_FIRST: &str = "GitHub's parser reads all words before it looks at their order";
const LAZY_CASE: &str = "`case` evaluates only what it needs";
const TRAILING_COMMA: &str = "GitHub's parser takes a comma after the last argument";
const DIGITS: &str = "Numbers have at most 15 digits as text, as on the runner";

const CAPITALS: &str =
    "A letter whose capital is two letters, such as ß, is compared as itself, as on the runner";

const SAME_KEYS: &str =
    "Keys of an object that differ only in case are both kept; GitHub's parser keeps the first";
const SPELLINGS: &str = "A text in capital `0X` or binary `0b` is no number, as on the runner";

/// One example of each difference, so that a reason which no longer holds is noticed.
pub(super) const KNOWN_TO_DIFFER: &[(&str, &str)] = &[
    ("1 1 #", LEXED_FIRST),
    ("case(true, 1, fromJSON('oops'))", LAZY_CASE),
    ("join(a.list,)", TRAILING_COMMA),
    ("format('{0}', 12345678901234567)", DIGITS),
    ("'two' < 'ß'", CAPITALS),
    ("fromJSON('{\"a\": 1, \"A\": 2}')", SAME_KEYS),
    ("'0XFF' == 255", SPELLINGS),
    ("'0b1' == 1", SPELLINGS),
];

fn reason(text: &str, kiln: &Json, github: &Json) -> Option<&'static str> {
    let kind = |said: &Json| said["error"]["kind"].as_str().map(str::to_owned);
    match (kind(kiln).as_deref(), kind(github).as_deref()) {
        (Some("parsing"), Some("lexing")) => Some(LEXED_FIRST),
        (None, Some("evaluation")) if text.contains("case(") => Some(LAZY_CASE),
        (Some("parsing"), _) if text.replace(' ', "").contains(",)") => Some(TRAILING_COMMA),
        (None, None) if text.contains("12345678901234567") => Some(DIGITS),
        (None, None) if text.contains("\"A\"") => Some(SAME_KEYS),
        (None, None) if text.contains("0X") || text.contains("0b") => Some(SPELLINGS),
        (None, None) if text.contains("ß") || text.contains("Ünï") => Some(CAPITALS),
        _ => None,
    }
}

fn our_contexts() -> Object {
    let Ok(Value::Object(contexts)) = kiln_json::read(CONTEXTS) else {
        panic!("the contexts are an object");
    };
    contexts.iter().map(|(name, value)| (name, value.clone())).collect()
}

fn outcome(text: &str, contexts: &Object) -> Json {
    let names = Names::with_contexts(contexts.iter().map(|(name, _)| name), &[]);
    let value = parse_checked(text, &names)
        .and_then(|expr| expr.map_or(Ok(Value::Null), |expr| evaluate(&expr, contexts)));
    match value {
        Ok(value) => json!({"kind": value.kind(), "value": to_json(&value)}),
        Err(error) => json!({"error": {"kind": error_kind(&error), "message": error.message}}),
    }
}

fn error_kind(error: &ExprError) -> &'static str {
    match error.kind {
        ErrorKind::Lexing => "lexing",
        ErrorKind::Parsing => "parsing",
        ErrorKind::Evaluation => "evaluation",
    }
}

/// Numbers that JSON does not have are spelt, and zero has no sign.
fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Number(number) if !number.is_finite() => {
            json!(kiln_lang::expr::number::format(*number))
        }
        Value::Number(number) => json!(number + 0.0),
        Value::String(text) => json!(&**text),
        Value::Array(items) => items.iter().map(to_json).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect()
        }
    }
}

fn same(kiln: &Json, github: &Json) -> bool {
    match (kiln.get("error"), github.get("error")) {
        (Some(ours), Some(theirs)) => ours["kind"] == theirs["kind"],
        (None, None) => {
            kiln["kind"] == github["kind"] && same_value(&kiln["value"], &github["value"])
        }
        _ => false,
    }
}

/// As `==`, but 1 and 1.0 are the same number and the order of keys counts.
fn same_value(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(ours), Json::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (Json::Array(ours), Json::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| same_value(ours, theirs))
        }
        (Json::Object(ours), Json::Object(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len()
                && pairs.all(|(ours, theirs)| ours.0 == theirs.0 && same_value(ours.1, theirs.1))
        }
        _ => ours == theirs,
    }
}
