//! Plans to JSON and back, by hand; those of real workflows are tested with the compiler.

use proptest::prelude::*;

use super::super::{Access, Action, ActionRuns, Condition, Permissions, Scope};
use super::*;

const PLAN: &str = r#"{
    "version_of_tomorrow": {"a": [1]},
    "workflows": [{
        "path": "ci.yml",
        "tomorrow": null,
        "jobs": [
            {"id": "a", "kind": {"steps": {"runs_on": "linux", "tomorrow": 1}}},
            {"id": "b", "needs": [0], "kind": {"call": {"uses": "./x.yml", "workflow": 0}}}
        ]
    }]
}"#;

fn read(text: &str) -> Result<Plan, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, expect: &str) {
    let error = read(text).expect_err("it is wrong");
    assert!(error.contains(expect), "{error}");
}

#[test]
fn what_is_absent_has_its_default_and_what_is_unknown_is_ignored() {
    let plan = read(PLAN).expect("it is a plan");
    let [a, b] = &plan.root().jobs[..] else { panic!("it has two jobs") };
    assert_eq!(a.condition, Condition::default());
    assert!(matches!(a.strategy, crate::plan::Strategy::Single));
    assert_eq!((a.place.line, b.needs.as_slice()), (0, &[0][..]));
    let JobKind::Steps(steps) = &a.kind else { panic!("it has steps") };
    assert_eq!(steps.runs_on.constant().expect("it is known").as_str(), Some("linux"));
    assert!(steps.env.is_none() && steps.steps.is_empty());
}

#[test]
fn what_is_empty_is_not_written() {
    let text = serde_json::to_string(&read(PLAN).expect("it is a plan")).expect("it is written");
    let steps = r#"{"id":"a","kind":{"steps":{"runs_on":"linux"}}}"#;
    let call = r#"{"id":"b","needs":[0],"kind":{"call":{"uses":"./x.yml","workflow":0}}}"#;
    assert_eq!(text, format!(r#"{{"workflows":[{{"path":"ci.yml","jobs":[{steps},{call}]}}]}}"#));
}

#[test]
fn indices_that_lead_nowhere_are_refused() {
    refused(
        &PLAN.replace("[0]", "[2]"),
        "job `b` of `ci.yml` needs the job number 2, which is not there",
    );
    refused(
        &PLAN.replace("\"workflow\": 0", "\"workflow\": 1"),
        "job `b` of `ci.yml` calls the workflow number 1, which is not there",
    );
    refused(r#"{"workflows": []}"#, "a plan needs at least one workflow");
    refused("{}", "missing field `workflows`");
}

#[test]
fn wrong_texts_are_errors() {
    refused(&PLAN.replace("\"steps\"", "\"stops\""), "unknown variant `stops`");
    refused(&PLAN.replace("\"id\": \"a\",", ""), "missing field `id`");
    refused(&PLAN.replace("[0]", "[-1]"), "invalid value");
    refused("null", "invalid type");
    for end in 0..PLAN.trim_end().len() {
        assert!(read(&PLAN[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn permissions_are_those_that_are_granted() {
    let text = r#"{"contents":"write","id-token":"write"}"#;
    let permissions: Permissions = serde_json::from_str(text).expect("they are known");
    assert_eq!(permissions.get(Scope::Contents), Access::Write);
    assert_eq!(serde_json::to_string(&permissions).expect("they are written"), text);
    let unknown = serde_json::from_str(r#"{"tomorrow":"write","pages":"none"}"#);
    assert_eq!(unknown.ok(), Some(Permissions::none()));
    assert!(serde_json::from_str::<Permissions>(r#"{"pages":"own"}"#).is_err());
}

#[test]
fn an_action_comes_back() {
    let text = r#"{"name":"a","outputs":[["x",{"$expr":"1"}],["y",null]],"runs":{"javascript":{"node":20,"main":"m.js","post":{"path":"p.js","condition":"always()"}}}}"#;
    let action: Action = serde_json::from_str(text).expect("it is an action");
    assert!(matches!(&action.runs, ActionRuns::JavaScript { node: 20, pre: None, .. }));
    assert_eq!(serde_json::to_string(&action).expect("it is written"), text);
}

#[track_caller]
fn check(data: &Data, text: &str) {
    assert_eq!(serde_json::to_string(data).expect("every tree can be written"), text);
    let back: Data = serde_json::from_str(text).expect(text);
    assert_eq!(format!("{back:?}"), format!("{data:?}"));
}

fn scalar(value: impl Into<Value>) -> Data {
    Data::Scalar(Template::literal(value))
}

#[test]
fn a_tree_is_the_json_it_describes() {
    check(&scalar("x"), r#""x""#);
    check(&scalar(3.0), "3.0");
    check(&scalar(Value::Null), r#"{"$value":null}"#);
    check(&scalar(f64::NAN), r#"{"$value":{"$number":"NaN"}}"#);
    check(&scalar(Value::array(vec![])), r#"{"$value":[]}"#);
    check(&Data::List(vec![scalar(true), Data::Map(vec![])]), "[true,{}]");
    check(&Data::Scalar(Template::Expr("a".into())), r#"{"$expr":"a"}"#);
    let keys = ["b", "$expr", "$insert", "$", "a", "b"];
    let entries = keys.map(|key| (MapKey::Name(key.into()), scalar(false)));
    check(
        &Data::Map(entries.to_vec()),
        r#"{"b":false,"$$expr":false,"$$insert":false,"$$":false,"a":false,"b":false}"#,
    );
    let entries = [MapKey::Insert, MapKey::Expr("x".into()), MapKey::Expr("".into())];
    check(
        &Data::Map(entries.map(|key| (key, scalar(1.0))).to_vec()),
        r#"{"$insert":1.0,"$expr:x":1.0,"$expr:":1.0}"#,
    );
}

#[test]
fn a_tree_with_unknown_marks_is_refused() {
    for text in [
        r#"{"$other":1}"#,
        r#"{"a":1,"$expr":"x"}"#,
        r#"{"$expr":"x","a":1}"#,
        r#"{"$expr":1}"#,
        "null",
        "[null]",
    ] {
        assert!(serde_json::from_str::<Data>(text).is_err(), "{text}");
    }
    for text in ["[]", "{}", r#"{"a":1}"#] {
        assert!(serde_json::from_str::<Template>(text).is_err(), "{text}");
    }
}

fn trees() -> impl Strategy<Value = Data> {
    let text = prop_oneof!["\\$*(expr|value|insert)?:?", "\\PC{0,4}"];
    let key = (0..4_u8, text.clone()).prop_map(|(kind, text)| match kind {
        0 => MapKey::Expr(text.into()),
        1 => MapKey::Insert,
        _ => MapKey::Name(text.into()),
    });
    let leaf = prop_oneof![
        text.clone().prop_map(|text| Data::Scalar(Template::Expr(text.into()))),
        text.prop_map(scalar),
        any::<f64>().prop_map(scalar),
        any::<bool>().prop_map(scalar),
        Just(scalar(Value::Null)),
        Just(scalar(f64::NEG_INFINITY)),
        Just(scalar(Value::object([("$number", Value::Null)].into_iter().collect()))),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Data::List),
            prop::collection::vec((key.clone(), inner), 0..4).prop_map(Data::Map),
        ]
    })
}

proptest! {
    #[test]
    fn every_tree_comes_back_as_it_was(tree in trees()) {
        let text = serde_json::to_string(&tree).expect("every tree can be written");
        let back: Data = serde_json::from_str(&text).expect(&text);
        prop_assert_eq!(format!("{back:?}"), format!("{tree:?}"));
        prop_assert_eq!(serde_json::to_string(&back).expect("as before"), text);
    }
}
