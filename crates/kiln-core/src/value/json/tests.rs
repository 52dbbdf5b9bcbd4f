//! Values to JSON and back.

use proptest::prelude::*;

use super::*;

fn write(value: &Value) -> String {
    serde_json::to_string(value).expect("every value can be written")
}

fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[track_caller]
fn check(value: &Value, text: &str) {
    assert_eq!(write(value), text);
    // Unlike `same`, the derived form tells -0.0 from 0.0 and knows the order of keys.
    assert_eq!(format!("{:?}", read(text).expect(text)), format!("{value:?}"));
}

fn object(key: &str, value: Value) -> Value {
    Value::object([(key, value)].into_iter().collect())
}

#[test]
fn plain_values_are_plain_json() {
    check(&Value::Null, "null");
    check(&Value::from(true), "true");
    check(&Value::from(3.0), "3.0");
    check(&Value::from(0.1), "0.1");
    check(&Value::from(-0.0), "-0.0");
    check(&Value::from("a \"quoted\" word"), r#""a \"quoted\" word""#);
    check(&Value::array(vec![Value::Null, Value::from("x")]), r#"[null,"x"]"#);
    let mixed: Object = ["z", "A", "a"].map(|key| (key, Value::Null)).into_iter().collect();
    check(&Value::object(mixed), r#"{"z":null,"A":null,"a":null}"#);
}

#[test]
fn whole_numbers_that_others_wrote_are_read() {
    for (text, expect) in [("3", 3.0), ("-3", -3.0), ("18446744073709551615", 2_f64.powi(64))] {
        assert!(read(text).expect(text).same(&Value::from(expect)), "{text}");
    }
}

#[test]
fn numbers_beyond_json_have_an_escape() {
    check(&Value::from(f64::NAN), r#"{"$number":"NaN"}"#);
    check(&Value::from(f64::INFINITY), r#"{"$number":"Infinity"}"#);
    check(&Value::from(f64::NEG_INFINITY), r#"{"$number":"-Infinity"}"#);
}

#[test]
fn objects_that_look_like_the_escape_are_none() {
    check(&object("$number", "NaN".into()), r#"{"$$number":"NaN"}"#);
    check(&object("$$number", Value::Null), r#"{"$$$number":null}"#);
    check(&object("number", "NaN".into()), r#"{"number":"NaN"}"#);
    check(&object("$ref", "x".into()), r#"{"$ref":"x"}"#);
    check(&object("$number$number", Value::Null), r#"{"$number$number":null}"#);
    let two: Object = ["$number", "b"].map(|key| (key, "NaN".into())).into_iter().collect();
    check(&Value::object(two), r#"{"$number":"NaN","b":"NaN"}"#);
}

#[test]
fn an_object_on_its_own_is_never_an_escape() {
    let object: Object = [("$number", Value::from("NaN"))].into_iter().collect();
    let text = serde_json::to_string(&object).expect("every object can be written");
    assert_eq!(text, r#"{"$number":"NaN"}"#);
    let back: Object = serde_json::from_str(&text).expect("it was just written");
    assert_eq!(format!("{back:?}"), format!("{object:?}"));
}

#[test]
fn wrong_texts_are_errors() {
    for text in [r#"{"$number":"nan"}"#, r#"{"$number":1}"#, "[1,", r#"{"a":}"#, "", "NaN"] {
        assert!(read(text).is_err(), "{text}");
    }
    let error = read(r#"{"$number":"nan"}"#).expect_err("it is no number");
    assert!(error.starts_with("`$number` must be `NaN`, `Infinity` or `-Infinity`"), "{error}");
    assert!(serde_json::from_str::<Object>("[]").is_err());
}

/// The language stops at 100 levels, the reader of JSON at 128.
#[test]
fn depth_is_bounded_above_what_the_language_allows() {
    let nested = |depth: usize| {
        (0..depth).fold(Value::from(f64::NAN), |value, level| {
            if level % 2 == 0 { object("$number", value) } else { Value::array(vec![value]) }
        })
    };
    let deep = nested(120);
    assert!(read(&write(&deep)).expect("it is within the limit").same(&deep));
    assert!(read(&write(&nested(200))).expect_err("it is too deep").contains("recursion limit"));
    assert!(read(&"[".repeat(100_000)).is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let key = prop_oneof!["\\$*number", "\\PC{0,4}", "[$a]{0,3}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(|number| Value::from(f64::from_bits(number.cast_unsigned()))),
        (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
        Just(Value::from(-0.0)),
        "\\PC*".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop_oneof!["NaN", "Infinity", "-Infinity"].prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let entries = prop::collection::vec((key.clone(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::array),
            entries.prop_map(|entries| Value::object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_comes_back_as_it_was(value in values()) {
        let text = write(&value);
        let back = read(&text).expect(&text);
        prop_assert_eq!(format!("{back:?}"), format!("{value:?}"));
        prop_assert_eq!(write(&back), text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}\",:$a-z0-9.eE+-]{0,60}") {
        let _ = read(&text);
    }
}
