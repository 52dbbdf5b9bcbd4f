//! GitHub's own test vectors for the expression language, every one of them.
//!
//! They come with the published package of `github-actions-expressions`, whose code we do not use:
//! its place on this machine is asked from Cargo, so that no copy of the vectors is needed here.
//! Results are compared by value, errors by kind, since our messages are our own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_core::value::{Object, Value};
use kiln_lang::expr::eval::STANDALONE_MEMORY;
use kiln_lang::expr::{Env, ErrorKind, ExprError, Names, evaluate, parse_checked};
use serde_json::Value as Json;

const FILES: usize = 28;
const CASES: usize = 1020;

/// The contexts of one vector, with the memory that GitHub gives to an expression on its own.
struct Contexts(Object);

impl Env for Contexts {
    fn context(&self, name: &str) -> Option<Value> {
        self.0.context(name)
    }

    fn memory(&self) -> usize {
        STANDALONE_MEMORY
    }
}

/// P2
#[test]
fn all_of_githubs_expression_vectors_pass() {
    let mut cases = 0;
    let mut failures = Vec::new();
    let files = vector_files();
    assert_eq!(files.len(), FILES, "the package has another number of files");
    for file in &files {
        let (count, failed) = run_file(file);
        cases += count;
        if !failed.is_empty() {
            let name = file.file_name().unwrap_or_default().display();
            failures.push(format!(
                "{name}: {} of {count}\n  {}",
                failed.len(),
                failed.join("\n  ")
            ));
        }
    }
    assert_eq!(cases, CASES, "the package has another number of cases");
    assert!(failures.is_empty(), "vectors that fail:\n{}", failures.join("\n"));
}

fn vector_files() -> Vec<PathBuf> {
    let folder = package_folder().join("tests/testdata");
    let entries = fs::read_dir(&folder).expect("the package has test data");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

fn package_folder() -> PathBuf {
    let metadata =
        metadata(&["--offline"]).or_else(|| metadata(&[])).expect("cargo knows the packages");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    let package = packages
        .iter()
        .find(|package| package["name"] == "github-actions-expressions")
        .expect("the package is a dependency");
    let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
    Path::new(manifest).parent().expect("a manifest lies in a folder").to_owned()
}

fn metadata(options: &[&str]) -> Option<Json> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be started");
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("valid JSON"))
}

fn run_file(file: &Path) -> (usize, Vec<String>) {
    let text = fs::read_to_string(file).expect("the file can be read");
    let groups: Json = serde_json::from_str(&text).expect("the file is JSON");
    let groups = groups.as_object().expect("the file holds groups");
    let mut count = 0;
    let mut failed = Vec::new();
    for (group, cases) in groups {
        for case in cases.as_array().expect("a group is a list") {
            count += 1;
            if let Err(why) = run_case(case) {
                failed.push(format!("{group}: `{}`: {why}", case["expr"].as_str().unwrap_or("?")));
            }
        }
    }
    (count, failed)
}

fn run_case(case: &Json) -> Result<(), String> {
    let text = case["expr"].as_str().expect("a case has an expression");
    let contexts = contexts(&case["contexts"]);
    let outcome = outcome(text, contexts);
    match (case.get("result"), case.get("err")) {
        (Some(wanted), None) => {
            let value = outcome.map_err(|error| format!("failed with {error:?}"))?;
            let kind = wanted["kind"].as_str().expect("a result has a kind");
            let same = value.kind() == kind && same(&value, &wanted["value"]);
            if same { Ok(()) } else { Err(format!("is {value:?}, but {wanted} was wanted")) }
        }
        (None, Some(wanted)) => {
            let wanted = error_kind(wanted["kind"].as_str().expect("an error has a kind"));
            match outcome {
                Err(error) if error.kind == wanted => check_error(text, &error),
                Err(error) => Err(format!("failed with {error:?} instead of {wanted:?}")),
                Ok(value) => Err(format!("is {value:?} instead of a {wanted:?} error")),
            }
        }
        _ => Err("has neither a result nor an error".to_owned()),
    }
}

fn outcome(text: &str, contexts: Object) -> Result<Value, ExprError> {
    let names = Names::with_contexts(contexts.iter().map(|(name, _)| name), &[]);
    match parse_checked(text, &names)? {
        None => Ok(Value::Null),
        Some(expr) => evaluate(&expr, &Contexts(contexts)),
    }
}

/// Beyond the kind, an error must say something and point into the text.
fn check_error(text: &str, error: &ExprError) -> Result<(), String> {
    match text.get(error.span.clone()) {
        Some(_) if !error.message.is_empty() => Ok(()),
        _ => Err(format!("has a bad place or message: {error:?}")),
    }
}

fn error_kind(name: &str) -> ErrorKind {
    match name {
        "lexing" => ErrorKind::Lexing,
        "parsing" => ErrorKind::Parsing,
        "evaluation" => ErrorKind::Evaluation,
        other => panic!("unknown kind of error: {other}"),
    }
}

fn contexts(contexts: &Json) -> Object {
    let pairs = contexts.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.as_str(), to_value(value))).collect()
}

fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(number.as_f64().expect("every number fits")),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::array(items.iter().map(to_value).collect()),
        Json::Object(members) => Value::object(
            members.iter().map(|(key, value)| (key.as_str(), to_value(value))).collect(),
        ),
    }
}

/// Equality of all there is: the sign of zero, the order of items and of keys.
fn same(value: &Value, wanted: &Json) -> bool {
    match (value, wanted) {
        (Value::Null, Json::Null) => true,
        (Value::Bool(value), Json::Bool(wanted)) => value == wanted,
        (Value::Number(value), Json::Number(wanted)) => {
            wanted.as_f64().is_some_and(|wanted| wanted.to_bits() == value.to_bits())
        }
        // JSON has no such numbers, so the vectors spell them.
        (Value::Number(value), Json::String(wanted)) => match wanted.as_str() {
            "NaN" => value.is_nan(),
            "Infinity" => *value == f64::INFINITY,
            "-Infinity" => *value == f64::NEG_INFINITY,
            _ => false,
        },
        (Value::String(value), Json::String(wanted)) => **value == **wanted,
        (Value::Array(items), Json::Array(wanted)) => {
            items.len() == wanted.len()
                && items.iter().zip(wanted).all(|(item, wanted)| same(item, wanted))
        }
        (Value::Object(object), Json::Object(wanted)) => {
            object.len() == wanted.len()
                && object.iter().zip(wanted).all(|((key, value), (wanted_key, wanted))| {
                    key == wanted_key && same(value, wanted)
                })
        }
        _ => false,
    }
}
