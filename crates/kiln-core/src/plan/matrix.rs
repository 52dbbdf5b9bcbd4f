//! A matrix becomes legs: product, then `exclude`, then `include`, as GitHub does it.

use std::fmt;

use crate::value::{Object, Value};

/// GitHub's limit on the legs of one matrix.
pub const MAX_LEGS: usize = 256;

/// Why a matrix cannot be expanded. `path` names the part at fault, such as `matrix.os`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixError {
    pub path: String,
    pub message: String,
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path, self.message)
    }
}

impl std::error::Error for MatrixError {}

fn error<T>(path: impl Into<String>, message: impl Into<String>) -> Result<T, MatrixError> {
    Err(MatrixError { path: path.into(), message: message.into() })
}

/// Expands an evaluated `matrix:` mapping. An empty matrix gives one empty leg.
pub fn expand(matrix: &Object) -> Result<Vec<Object>, MatrixError> {
    let mut vectors: Vec<(&str, &[Value])> = Vec::new();
    let (mut include, mut exclude): (&[Value], &[Value]) = (&[], &[]);
    for (key, value) in matrix.iter() {
        let items = list(key, value)?;
        match key {
            _ if key.eq_ignore_ascii_case("include") => include = items,
            _ if key.eq_ignore_ascii_case("exclude") => exclude = items,
            _ if items.is_empty() => {
                return error(format!("matrix.{key}"), "has no values, so no job could run");
            }
            _ => vectors.push((key, items)),
        }
    }
    let mut legs = product(&vectors)?;
    let exclude = filters("exclude", exclude)?;
    let include = filters("include", include)?;
    legs.retain(|leg| !exclude.iter().any(|filter| matches(leg, filter)));
    let legs = add_includes(&legs, &include);
    if legs.len() > MAX_LEGS {
        return too_many(legs.len());
    }
    if legs.is_empty() && vectors.is_empty() {
        return Ok(vec![Object::new()]);
    }
    Ok(legs)
}

fn too_many<T>(count: usize) -> Result<T, MatrixError> {
    error("matrix", format!("makes {count} jobs; at most {MAX_LEGS} are allowed"))
}

fn list<'a>(key: &str, value: &'a Value) -> Result<&'a [Value], MatrixError> {
    match value {
        Value::Array(items) => Ok(items),
        other => error(
            format!("matrix.{key}"),
            format!("must be a list, but is {}", article(other.kind())),
        ),
    }
}

fn article(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    let article = if kind.starts_with(['a', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn filters<'a>(name: &str, items: &'a [Value]) -> Result<Vec<&'a Object>, MatrixError> {
    let objects = items.iter().enumerate().map(|(index, item)| match item {
        Value::Object(object) => Ok(&**object),
        other => error(
            format!("matrix.{name}[{index}]"),
            format!("must be a mapping, but is {}", article(other.kind())),
        ),
    });
    objects.collect()
}

/// All combinations, the last vector varying fastest. The number is checked before any is built.
///
/// GitHub counts legs after `exclude`; a product may therefore be larger than the limit for a
/// moment, but not without bound.
fn product(vectors: &[(&str, &[Value])]) -> Result<Vec<Object>, MatrixError> {
    if vectors.is_empty() {
        return Ok(Vec::new());
    }
    let count = vectors.iter().try_fold(1_usize, |count, (_, items)| {
        count.checked_mul(items.len()).filter(|&count| count <= MAX_LEGS * 64)
    });
    if count.is_none() {
        let sizes = vectors.iter().map(|(_, items)| items.len());
        return too_many(sizes.fold(1, usize::saturating_mul));
    }
    let mut legs = vec![Object::new()];
    for (key, items) in vectors {
        let mut next = Vec::with_capacity(legs.len() * items.len());
        for leg in &legs {
            for item in *items {
                let mut leg = leg.clone();
                leg.insert(*key, item.clone());
                next.push(leg);
            }
        }
        legs = next;
    }
    Ok(legs)
}

/// Whether every key of the filter has the same value in the leg. Objects match when the leg's
/// value contains what the filter names.
fn matches(leg: &Object, filter: &Object) -> bool {
    filter.iter().all(|(key, wanted)| leg.get(key).is_some_and(|value| contains(value, wanted)))
}

fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| value.get(key).is_some_and(|value| contains(value, wanted))),
        _ => value.same(wanted),
    }
}

/// Each entry extends every original leg whose own values it does not contradict; one that extends
/// none becomes a leg of its own.
fn add_includes(originals: &[Object], include: &[&Object]) -> Vec<Object> {
    let mut extended = originals.to_vec();
    let mut added = Vec::new();
    for entry in include {
        let mut merged = false;
        for (original, leg) in originals.iter().zip(&mut extended) {
            let fits = entry
                .iter()
                .all(|(key, value)| original.get(key).is_none_or(|own| own.same(value)));
            if fits {
                merged = true;
                for (key, value) in entry.iter() {
                    leg.insert(key, value.clone());
                }
            }
        }
        if !merged {
            added.push((*entry).clone());
        }
    }
    extended.append(&mut added);
    extended
}

/// What GitHub adds to the job's name: the values of the leg, nested ones flattened.
pub fn leg_name(leg: &Object) -> String {
    let mut parts = Vec::new();
    leg.values().for_each(|value| flatten(value, &mut parts));
    parts.join(", ")
}

fn flatten(value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::Null => parts.push(String::new()),
        Value::Bool(value) => parts.push(value.to_string()),
        Value::Number(number) => parts.push(number.to_string()),
        Value::String(text) => parts.push(text.to_string()),
        Value::Array(items) => items.iter().for_each(|item| flatten(item, parts)),
        Value::Object(object) => object.values().for_each(|value| flatten(value, parts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(pairs: &[(&str, Value)]) -> Object {
        pairs.iter().map(|(key, value)| (*key, value.clone())).collect()
    }

    fn strings(items: &[&str]) -> Value {
        Value::array(items.iter().map(|item| Value::from(*item)).collect())
    }

    fn names(matrix: &Object) -> Vec<String> {
        expand(matrix).expect("the matrix is valid").iter().map(leg_name).collect()
    }

    fn entry(pairs: &[(&str, &str)]) -> Value {
        Value::object(pairs.iter().map(|(key, value)| (*key, Value::from(*value))).collect())
    }

    /// P1
    #[test]
    fn the_last_vector_varies_fastest() {
        let matrix = object(&[("os", strings(&["l", "w"])), ("v", strings(&["1", "2"]))]);
        assert_eq!(names(&matrix), ["l, 1", "l, 2", "w, 1", "w, 2"]);
    }

    /// P1: the example of GitHub's documentation, which has every rule of `include` in it.
    #[test]
    fn fruit_and_animals_make_six_legs() {
        let matrix = object(&[
            ("fruit", strings(&["apple", "pear"])),
            ("animal", strings(&["cat", "dog"])),
            (
                "include",
                Value::array(vec![
                    entry(&[("color", "green")]),
                    entry(&[("color", "pink"), ("animal", "cat")]),
                    entry(&[("fruit", "apple"), ("shape", "circle")]),
                    entry(&[("fruit", "banana")]),
                    entry(&[("fruit", "banana"), ("animal", "cat")]),
                ]),
            ),
        ]);
        assert_eq!(
            names(&matrix),
            [
                "apple, cat, pink, circle",
                "apple, dog, green, circle",
                "pear, cat, pink",
                "pear, dog, green",
                "banana",
                "banana, cat",
            ]
        );
    }

    /// P1
    #[test]
    fn exclude_removes_what_it_partly_names_even_inside_objects() {
        let node = |version: &str| entry(&[("version", version), ("name", "node")]);
        let matrix = object(&[
            ("os", strings(&["l", "w"])),
            ("node", Value::array(vec![node("1"), node("2")])),
            (
                "exclude",
                Value::array(vec![Value::object(object(&[
                    ("os", Value::from("w")),
                    ("node", entry(&[("version", "1")])),
                ]))]),
            ),
        ]);
        assert_eq!(names(&matrix), ["l, 1, node", "l, 2, node", "w, 2, node"]);
    }

    #[test]
    fn includes_alone_are_the_legs() {
        let include = Value::array(vec![entry(&[("a", "1")]), entry(&[("a", "2")])]);
        assert_eq!(names(&object(&[("include", include)])), ["1", "2"]);
        assert_eq!(names(&Object::new()), [""]);
    }

    #[test]
    fn faults_name_the_part_and_the_rule() {
        let check = |matrix: &Object, expect: &str| {
            assert_eq!(expand(matrix).expect_err("the matrix is bad").to_string(), expect);
        };
        check(&object(&[("os", strings(&[]))]), "`matrix.os` has no values, so no job could run");
        check(&object(&[("os", Value::from("l"))]), "`matrix.os` must be a list, but is a string");
        check(
            &object(&[("include", strings(&["x"]))]),
            "`matrix.include[0]` must be a mapping, but is a string",
        );
        let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let many = strings(&many.iter().map(String::as_str).collect::<Vec<_>>());
        check(
            &object(&[("a", many.clone()), ("b", many)]),
            "`matrix` makes 1000000 jobs; at most 256 are allowed",
        );
    }
}
