//! `kiln eval`: the value of one expression, or of one expression per line.

use std::io::{self, BufRead, Read as _};

use anyhow::{Context as _, Result};
use kiln_core::value::{Object, Value};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::Outcome;
use crate::cli::EvalArgs;
use crate::lang::{self, EvalError};
use crate::output::{Console, human, json, value};
use crate::read;

pub(crate) fn run(args: &EvalArgs, console: &mut Console) -> Result<Outcome> {
    match &args.expr {
        Some(text) => one(text, args, console),
        None => lines(io::stdin().lock(), console),
    }
}

fn one(text: &str, args: &EvalArgs, console: &mut Console) -> Result<Outcome> {
    let contexts = args.context.as_deref().map(read::json_object).transpose()?.unwrap_or_default();
    let result = evaluate(text, &contexts);
    match &result {
        _ if args.json => console.print_raw(&json::line(&answer(&result)))?,
        Ok(value) => console.print_raw(&format!("{}\n", value::plain(value)))?,
        Err(error) => console.eprint(&human::expression(text, error)),
    }
    Ok(if result.is_ok() { Outcome::Clean } else { Outcome::Errors })
}

/// Evaluates with or without `${{ }}`; spans of errors count from the start of `text`.
fn evaluate(text: &str, contexts: &Object) -> Result<Value, EvalError> {
    let inner = inner(text);
    let offset = inner.as_ptr().addr() - text.as_ptr().addr();
    lang::evaluate(inner, contexts).map_err(|error| EvalError {
        span: error.span.start + offset..error.span.end + offset,
        ..error
    })
}

fn inner(text: &str) -> &str {
    let trimmed = text.trim();
    let between = trimmed.strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}"));
    between.unwrap_or(text)
}

fn answer(result: &Result<Value, EvalError>) -> Json {
    match result {
        Ok(value) => json!({ "kind": value.kind(), "value": value::to_json(value) }),
        Err(error) => failure(error.kind, &error.message),
    }
}

fn failure(kind: &str, message: &str) -> Json {
    json!({ "error": { "kind": kind, "message": message } })
}

/// One line of input. Other fields are allowed, so that test vectors can be fed as they are.
#[derive(Deserialize)]
struct Question {
    expr: String,
    #[serde(default)]
    contexts: Map<String, Json>,
}

/// Answers line by line, so that a program can talk to this one.
fn lines(mut input: impl BufRead, console: &mut Console) -> Result<Outcome> {
    while let Some(line) = next_line(&mut input)? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        console.print_raw(&json::line(&reply(&line)))?;
        if console.is_closed() {
            break;
        }
    }
    Ok(Outcome::Clean)
}

fn reply(line: &[u8]) -> Json {
    if line.len() as u64 > read::MAX_BYTES {
        return failure("input", "the line is too long");
    }
    match serde_json::from_slice::<Question>(line) {
        Ok(question) => {
            answer(&evaluate(&question.expr, &value::object_from_json(question.contexts)))
        }
        Err(error) => failure("input", &error.to_string()),
    }
}

/// The next line, or one byte more than the limit of it with the rest passed over.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let failed = "cannot read standard input";
    let mut line = Vec::new();
    input.take(read::MAX_BYTES + 1).read_until(b'\n', &mut line).context(failed)?;
    if line.len() as u64 > read::MAX_BYTES && !line.ends_with(b"\n") {
        input.skip_until(b'\n').context(failed)?;
    }
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_braces_are_optional() {
        assert_eq!(inner("github.ref"), "github.ref");
        assert_eq!(inner(" ${{ github.ref }} "), " github.ref ");
        assert_eq!(inner("${{ a"), "${{ a");
        assert_eq!(inner("'${{ }}'"), "'${{ }}'");
    }

    #[test]
    fn an_error_points_into_the_text_as_typed() {
        let error = evaluate("${{ $ }}", &Object::new()).unwrap_err();
        assert!(error.span.start >= 3 && error.span.end <= 8, "{error:?}");
    }

    #[test]
    fn a_line_that_is_no_question_is_an_input_error() {
        for line in ["nonsense", "{}", "[1]", r#"{"expr": 1}"#, r#"{"expr": "1", "contexts": []}"#]
        {
            let reply = reply(line.as_bytes());
            assert_eq!(reply["error"]["kind"], "input", "{line}: {reply}");
        }
    }

    #[test]
    fn a_line_without_end_is_answered_and_passed_over() {
        let endless = io::repeat(b'x').take(read::MAX_BYTES * 2);
        let mut input = io::BufReader::new(endless.chain(&b"\nnext\n"[..]));
        let first = next_line(&mut input).unwrap().unwrap();
        assert_eq!(reply(&first)["error"]["message"], "the line is too long");
        assert_eq!(next_line(&mut input).unwrap().unwrap(), b"next\n");
        assert!(next_line(&mut input).unwrap().is_none());
    }

    #[test]
    fn answers_have_the_promised_shape() {
        let answer = |value: Value| answer(&Ok(value)).to_string();
        assert_eq!(answer(Value::from(1.0)), r#"{"kind":"Number","value":1}"#);
        assert_eq!(answer(Value::from("x")), r#"{"kind":"String","value":"x"}"#);
        assert_eq!(answer(Value::Null), r#"{"kind":"Null","value":null}"#);
        assert_eq!(answer(Value::Number(f64::NAN)), r#"{"kind":"Number","value":"NaN"}"#);
    }
}
