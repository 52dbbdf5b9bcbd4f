//! Trees to values.

use std::borrow::Cow;
use std::cmp::Ordering;

use kiln_core::value::{Object, Value};

use super::ast::{Call, Comparison, Expr, ExprKind, Logical};
use super::budget::Budget;
use super::coerce::{compare, is_primitive, to_number, to_text, truthy};
use super::error::{ErrorKind, ExprError};
use super::functions;
use super::names::{self, BUILT_IN, JOB_CONDITION, STEP};

/// What GitHub allows the values of a workflow, in bytes with two for a character.
pub const WORKFLOW_MEMORY: usize = 10 << 20;

/// What GitHub allows an expression on its own, without a workflow around it.
pub const STANDALONE_MEMORY: usize = 1 << 20;

/// A function that asks how the jobs or steps before this one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusFunction {
    Success,
    Always,
    Cancelled,
    Failure,
}

impl StatusFunction {
    pub const ALL: [Self; 4] = [Self::Success, Self::Always, Self::Cancelled, Self::Failure];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| name.eq_ignore_ascii_case(function.name()))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Always => "always",
            Self::Cancelled => "cancelled",
            Self::Failure => "failure",
        }
    }
}

/// The world of an expression. What is not overridden does not exist there.
pub trait Env {
    /// The value of a context, whose name is given in lower case.
    fn context(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The answer of a status function; `success` and `failure` may name jobs.
    fn status(&self, function: StatusFunction, _jobs: &[String]) -> Result<bool, String> {
        Err(format!("`{}()` has no meaning here", function.name()))
    }

    fn hash_files(&self, _patterns: &[String]) -> Result<String, String> {
        Err("`hashFiles()` has no files here".to_owned())
    }

    /// How much the values that an evaluation builds may take.
    fn memory(&self) -> usize {
        WORKFLOW_MEMORY
    }
}

/// An environment of contexts only.
impl Env for Object {
    fn context(&self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }
}

/// Evaluates an expression. Errors point at the part of the text that failed.
pub fn evaluate(expr: &Expr, env: &dyn Env) -> Result<Value, ExprError> {
    let mut evaluator = Evaluator { env, budget: Budget::new(env.memory()) };
    Ok(evaluator.operand(expr)?.value)
}

/// A value that remembers whether a filter made it: `.name` after a filter maps over its items.
struct Operand {
    value: Value,
    filtered: bool,
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Self { value, filtered: false }
    }
}

/// What stands in brackets or behind a dot, in both of its readings.
struct Key<'a> {
    name: Option<Cow<'a, str>>,
    index: Option<usize>,
}

impl<'a> Key<'a> {
    fn of(value: &'a Value) -> Self {
        let name = is_primitive(value).then(|| to_text(value));
        let number = to_number(value);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast truncates as GitHub does and saturates beyond every array"
        )]
        let index = (number.is_finite() && number >= 0.0).then_some(number as usize);
        Self { name, index }
    }
}

struct Evaluator<'a> {
    env: &'a dyn Env,
    budget: Budget,
}

impl Evaluator<'_> {
    fn value(&mut self, expr: &Expr) -> Result<Value, ExprError> {
        Ok(self.operand(expr)?.value)
    }

    fn operand(&mut self, expr: &Expr) -> Result<Operand, ExprError> {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(value.clone().into()),
            ExprKind::Context(name) => self.context(name, expr),
            ExprKind::Property { object, name, .. } => {
                let object = self.operand(object)?;
                let key = Key { name: Some(Cow::Borrowed(name)), index: None };
                self.access(&object, &key).map_err(|message| failed(expr, message))
            }
            ExprKind::Index { object, index } => {
                let object = self.operand(object)?;
                let index = self.value(index)?;
                self.access(&object, &Key::of(&index)).map_err(|message| failed(expr, message))
            }
            ExprKind::Filter { object } => {
                let object = self.operand(object)?;
                self.filter(&object).map_err(|message| failed(expr, message))
            }
            ExprKind::Call(call) => self.call(call, expr),
            ExprKind::Not(operand) => Ok(Value::Bool(!truthy(&self.value(operand)?)).into()),
            ExprKind::Compare { operator, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.charge_comparison(&left, &right).map_err(|message| failed(expr, message))?;
                Ok(Value::Bool(holds(*operator, compare(&left, &right))).into())
            }
            ExprKind::Logical { operator, operands } => self.logical(*operator, operands),
        }
    }

    fn context(&mut self, name: &str, expr: &Expr) -> Result<Operand, ExprError> {
        let upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
        let name = if upper { name.to_ascii_lowercase().into() } else { Cow::Borrowed(name) };
        let value = self.env.context(&name);
        value
            .map(Operand::from)
            .ok_or_else(|| failed(expr, format!("the context `{name}` has no value here")))
    }

    /// The first operand that decides, or the last one.
    fn logical(&mut self, operator: Logical, operands: &[Expr]) -> Result<Operand, ExprError> {
        let mut result = Operand::from(Value::Null);
        for operand in operands {
            result = self.operand(operand)?;
            if truthy(&result.value) == (operator == Logical::Or) {
                break;
            }
        }
        Ok(result)
    }

    fn charge_comparison(&mut self, left: &Value, right: &Value) -> Result<(), String> {
        match (left, right) {
            (Value::String(left), Value::String(right)) => {
                self.budget.work(left.len().min(right.len()))
            }
            _ => Ok(()),
        }
    }

    fn access(&mut self, object: &Operand, key: &Key<'_>) -> Result<Operand, String> {
        if !object.filtered {
            return Ok(self.part(&object.value, key)?.unwrap_or_default().into());
        }
        let mut found = Vec::new();
        for item in items(&object.value) {
            self.budget.work(1)?;
            if let Some(part) = self.part(item, key)? {
                self.budget.items(1)?;
                found.push(part);
            }
        }
        Ok(Operand { value: Value::array(found), filtered: true })
    }

    /// A member of an object or an item of an array, if there is one.
    fn part(&mut self, value: &Value, key: &Key<'_>) -> Result<Option<Value>, String> {
        match value {
            Value::Object(object) => {
                let Some(name) = &key.name else { return Ok(None) };
                // A key of another case is found by looking at all of them.
                self.budget.work(object.len())?;
                Ok(object.get(name).cloned())
            }
            Value::Array(items) => Ok(key.index.and_then(|index| items.get(index)).cloned()),
            _ => Ok(None),
        }
    }

    fn filter(&mut self, object: &Operand) -> Result<Operand, String> {
        let mut found = Vec::new();
        if object.filtered {
            for item in items(&object.value) {
                self.budget.work(1)?;
                self.collect(item, &mut found)?;
            }
        } else {
            self.collect(&object.value, &mut found)?;
        }
        Ok(Operand { value: Value::array(found), filtered: true })
    }

    fn collect(&mut self, value: &Value, found: &mut Vec<Value>) -> Result<(), String> {
        match value {
            Value::Array(items) => {
                self.budget.items(items.len())?;
                found.extend(items.iter().cloned());
            }
            Value::Object(object) => {
                self.budget.items(object.len())?;
                found.extend(object.values().cloned());
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, expr: &Expr) -> Result<Operand, ExprError> {
        let known = BUILT_IN.iter().chain(JOB_CONDITION).chain(STEP);
        let function = names::find(known, &call.name)
            .ok_or_else(|| failed(expr, format!("unknown function `{}`", call.name)))?;
        function
            .check_arguments(call.arguments.len(), call.name_span.clone())
            .map_err(|error| ExprError { kind: ErrorKind::Evaluation, ..error })?;
        if function.name == "case" {
            return self.case(&call.arguments);
        }
        let arguments: Result<Vec<Value>, _> =
            call.arguments.iter().map(|argument| self.value(argument)).collect();
        let arguments = arguments?;
        let result = if let Some(status) = StatusFunction::from_name(function.name) {
            self.env.status(status, &texts(&arguments)).map(Value::Bool)
        } else if function.name == names::HASH_FILES.name {
            self.env.hash_files(&texts(&arguments)).map(Value::from)
        } else {
            functions::call(function.name, &arguments, &mut self.budget)
        };
        result.map(Operand::from).map_err(|message| failed(expr, message))
    }

    /// Pairs of a condition and a value, then a default; only what is needed is evaluated.
    fn case(&mut self, arguments: &[Expr]) -> Result<Operand, ExprError> {
        let mut rest = arguments;
        while let [condition, value, after @ ..] = rest {
            match self.value(condition)? {
                Value::Bool(true) => return self.operand(value),
                Value::Bool(false) => rest = after,
                other => {
                    let kind = other.kind();
                    let message = format!("a condition of `case` must be a boolean, not {kind}");
                    return Err(failed(condition, message));
                }
            }
        }
        rest.first().map_or_else(|| Ok(Value::Null.into()), |default| self.operand(default))
    }
}

fn holds(operator: Comparison, order: Option<Ordering>) -> bool {
    match operator {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| to_text(value).into_owned()).collect()
}

fn failed(expr: &Expr, message: String) -> ExprError {
    ExprError::evaluation(expr.span.clone(), message)
}

#[cfg(test)]
mod tests;
