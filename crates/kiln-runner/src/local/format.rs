//! The text of a [`Record`]: JSON with a version, its own keys in a fixed order.

use kiln_core::run::{Conclusion, Memory, PastCall, PastJob, PastLeg};
use kiln_core::time::Timestamp;
use kiln_core::value::{Object, Value};
use kiln_lang::expr::json;

use super::{EventSource, Order, Record};

/// Raised when an older reader would misunderstand the file.
const VERSION: f64 = 1.0;

pub(super) fn write(record: &Record) -> Result<String, String> {
    let order = &record.order;
    let event = object([
        ("name", text(&order.event.name)),
        ("payload", Value::object(order.event.payload.clone())),
        ("ref", optional(order.event.reference.as_deref())),
    ]);
    let shapes = record.shapes.iter().map(|(key, shape)| (key.as_str(), text(shape))).collect();
    json::write(&object([
        ("version", Value::from(VERSION)),
        ("workflow", text(&order.workflow)),
        ("commit", text(&order.commit)),
        ("dirty", Value::from(order.dirty)),
        ("event", event),
        ("job", optional(order.job.as_deref())),
        ("from-step", optional(order.from_step.as_deref())),
        ("matrix", Value::array(order.matrix.iter().map(|pair| text(pair)).collect())),
        ("inputs", pairs(&order.inputs)),
        ("vars", pairs(&order.vars)),
        ("conclusion", text(record.conclusion.github())),
        ("attempt", Value::from(f64::from(record.memory.attempt))),
        ("shapes", Value::object(shapes)),
        ("jobs", jobs(&record.memory.jobs)),
    ]))
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::object(entries.into_iter().collect())
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn optional(value: Option<&str>) -> Value {
    value.map_or(Value::Null, text)
}

/// A list, because names may differ only in their case.
fn pairs(pairs: &[(String, String)]) -> Value {
    let pair = |(name, value): &(String, String)| Value::array(vec![text(name), text(value)]);
    Value::array(pairs.iter().map(pair).collect())
}

fn jobs(jobs: &[PastJob]) -> Value {
    let job = |job: &PastJob| {
        object([
            ("id", text(&job.id)),
            ("conclusion", text(job.conclusion.github())),
            ("note", optional(job.note.as_deref())),
            ("fail-fast", Value::from(job.fail_fast)),
            ("max-parallel", job.max_parallel.map_or(Value::Null, |most| f64::from(most).into())),
            ("legs", Value::array(job.legs.iter().map(leg).collect())),
        ])
    };
    Value::array(jobs.iter().map(job).collect())
}

fn leg(leg: &PastLeg) -> Value {
    let call = leg.call.as_ref().map(|call| {
        object([("inputs", Value::object(call.inputs.clone())), ("jobs", jobs(&call.jobs))])
    });
    object([
        ("matrix", Value::object(leg.matrix.clone())),
        ("conclusion", text(leg.conclusion.github())),
        ("tolerated", Value::from(leg.tolerated)),
        ("outputs", pairs(&leg.outputs)),
        ("ended", leg.ended.map_or(Value::Null, |at| text(&at.0.to_string()))),
        ("call", call.unwrap_or_default()),
    ])
}

pub(super) fn read(text: &str) -> Result<Record, String> {
    let Value::Object(file) = json::read(text)? else {
        return Err("it is not a JSON object".to_owned());
    };
    let file = Fields(&file);
    match file.number("version")? {
        version if version.total_cmp(&VERSION).is_eq() => {}
        other => return Err(format!("it is of version {other}, this kiln knows {VERSION}")),
    }
    let event = file.object("event")?;
    let order = Order {
        workflow: file.text("workflow")?,
        commit: file.text("commit")?,
        dirty: file.flag("dirty")?,
        event: EventSource {
            name: event.text("name")?,
            payload: event.object("payload")?.0.clone(),
            reference: event.optional("ref")?,
        },
        job: file.optional("job")?,
        // Earlier ones know nothing of it.
        from_step: file.0.get("from-step").and_then(Value::as_str).map(str::to_owned),
        matrix: file.texts("matrix")?,
        inputs: file.pairs("inputs")?,
        vars: file.pairs("vars")?,
    };
    let shapes = file.object("shapes")?;
    let shapes = shapes.0.iter().filter_map(|(key, shape)| Some((key, shape.as_str()?)));
    Ok(Record {
        order,
        conclusion: file.conclusion()?,
        shapes: shapes.map(|(key, shape)| (key.to_owned(), shape.to_owned())).collect(),
        memory: Memory { attempt: file.count("attempt")?, jobs: file.jobs()? },
    })
}

/// An object of the file. Each question names the key that it cannot answer.
struct Fields<'f>(&'f Object);

impl<'f> Fields<'f> {
    fn get(&self, key: &str) -> Result<&'f Value, String> {
        self.0.get(key).ok_or_else(|| format!("`{key}` is missing"))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        self.optional(key)?.ok_or_else(|| format!("`{key}` is not a text"))
    }

    fn optional(&self, key: &str) -> Result<Option<String>, String> {
        match self.get(key)? {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.to_string())),
            _ => Err(format!("`{key}` is not a text")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        match self.get(key)? {
            Value::Bool(flag) => Ok(*flag),
            _ => Err(format!("`{key}` is neither true nor false")),
        }
    }

    fn number(&self, key: &str) -> Result<f64, String> {
        match self.get(key)? {
            Value::Number(number) => Ok(*number),
            _ => Err(format!("`{key}` is not a number")),
        }
    }

    fn count(&self, key: &str) -> Result<u32, String> {
        let number = self.number(key)?;
        number.to_string().parse().map_err(|_| format!("`{key}` is not a count"))
    }

    fn object(&self, key: &str) -> Result<Fields<'f>, String> {
        match self.get(key)? {
            Value::Object(object) => Ok(Fields(object)),
            _ => Err(format!("`{key}` is not an object")),
        }
    }

    fn list(&self, key: &str) -> Result<&'f [Value], String> {
        match self.get(key)? {
            Value::Array(items) => Ok(items),
            _ => Err(format!("`{key}` is not a list")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let item = |item: &Value| item.as_str().map(str::to_owned);
        let items: Option<Vec<String>> = self.list(key)?.iter().map(item).collect();
        items.ok_or_else(|| format!("`{key}` is not a list of texts"))
    }

    fn pairs(&self, key: &str) -> Result<Vec<(String, String)>, String> {
        let pair = |item: &Value| match item {
            Value::Array(pair) => match pair.as_slice() {
                [name, value] => Some((name.as_str()?.to_owned(), value.as_str()?.to_owned())),
                _ => None,
            },
            _ => None,
        };
        let pairs: Option<Vec<_>> = self.list(key)?.iter().map(pair).collect();
        pairs.ok_or_else(|| format!("`{key}` is not a list of pairs"))
    }

    fn conclusion(&self) -> Result<Conclusion, String> {
        let word = self.text("conclusion")?;
        Conclusion::of_github(&word).ok_or_else(|| format!("no job can end as `{word}`"))
    }

    fn objects(&self, key: &str) -> Result<Vec<Fields<'f>>, String> {
        let item = |item: &'f Value| match item {
            Value::Object(object) => Ok(Fields(object)),
            _ => Err(format!("`{key}` is not a list of objects")),
        };
        self.list(key)?.iter().map(item).collect()
    }

    fn jobs(&self) -> Result<Vec<PastJob>, String> {
        let job = |job: Fields<'_>| {
            Ok(PastJob {
                id: job.text("id")?,
                conclusion: job.conclusion()?,
                note: job.optional("note")?,
                fail_fast: job.flag("fail-fast")?,
                max_parallel: match job.get("max-parallel")? {
                    Value::Null => None,
                    _ => Some(job.count("max-parallel")?.max(1)),
                },
                legs: job
                    .objects("legs")?
                    .into_iter()
                    .map(Fields::leg)
                    .collect::<Result<_, _>>()?,
            })
        };
        self.objects("jobs")?.into_iter().map(job).collect()
    }

    fn leg(self) -> Result<PastLeg, String> {
        let ended = self.optional("ended")?.map(|at| at.parse().map(Timestamp));
        Ok(PastLeg {
            matrix: self.object("matrix")?.0.clone(),
            conclusion: self.conclusion()?,
            tolerated: self.flag("tolerated")?,
            outputs: self.pairs("outputs")?,
            ended: ended.transpose().map_err(|_| "`ended` is not a time".to_owned())?,
            call: match self.get("call")? {
                Value::Null => None,
                _ => {
                    let call = self.object("call")?;
                    Some(PastCall { inputs: call.object("inputs")?.0.clone(), jobs: call.jobs()? })
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let matrix: Object =
            [("b", Value::from(1.5)), ("a", Value::from("ü\n"))].into_iter().collect();
        let inner = PastJob {
            id: "inner".to_owned(),
            conclusion: Conclusion::TimedOut,
            note: Some("why".to_owned()),
            fail_fast: false,
            max_parallel: Some(3),
            legs: Vec::new(),
        };
        let leg = PastLeg {
            matrix: matrix.clone(),
            conclusion: Conclusion::Failure,
            tolerated: true,
            outputs: vec![("x".to_owned(), "1".to_owned()), ("X".to_owned(), "2".to_owned())],
            ended: Some(Timestamp(1_790_000_000_123)),
            call: Some(PastCall { inputs: matrix.clone(), jobs: vec![inner.clone()] }),
        };
        let order = Order {
            workflow: "/w/ci.yml".to_owned(),
            commit: "c".to_owned(),
            dirty: true,
            event: EventSource { name: "push".to_owned(), payload: matrix, reference: None },
            job: Some("inner".to_owned()),
            from_step: Some("2".to_owned()),
            matrix: vec!["a=1".to_owned()],
            inputs: vec![("i".to_owned(), "1".to_owned())],
            vars: Vec::new(),
        };
        let jobs = vec![PastJob { legs: vec![leg], ..inner }];
        let shapes = [("k".to_owned(), "s".to_owned())].into();
        let memory = Memory { attempt: 7, jobs };
        Record { order, conclusion: Conclusion::Cancelled, memory, shapes }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = record();
        let text = write(&record).expect("it can be written");
        assert_eq!(format!("{:?}", read(&text).expect("it can be read")), format!("{record:?}"));
    }

    #[test]
    fn a_damaged_record_is_refused_and_named() {
        let check = |from: &str, to: &str, expect: &str| {
            let text = write(&record()).expect("it can be written");
            assert!(text.contains(from), "{from} is not in {text}");
            let fault = read(&text.replacen(from, to, 1)).expect_err("it is damaged");
            assert!(fault.contains(expect), "{fault}");
        };
        check("\"version\": 1", "\"version\": 2", "version 2, this kiln knows 1");
        check("\"commit\"", "\"komit\"", "`commit` is missing");
        check("\"timed_out\"", "\"lost\"", "no job can end as `lost`");
        check("\"attempt\": 7", "\"attempt\": -7", "`attempt` is not a count");
        check("\"tolerated\": true", "\"tolerated\": 1", "neither true nor false");
        check("\"1790000000123\"", "\"noon\"", "`ended` is not a time");
        let text = write(&record()).expect("it can be written");
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert!(read(&text[..cut]).is_err(), "half of it was taken for all of it");
        }
    }
}
