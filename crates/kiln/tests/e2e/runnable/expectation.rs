//! What the head of a workflow says about its run.
//!
//! ```text
//! # rule: the sentence it is about
//! # expect: success | failure | cancelled | timed out | invalid | nothing
//! # args: further arguments of `kiln run`
//! # job: NAME = CONCLUSION           a job that is not named must succeed
//! # fails: JOB > STEP > MESSAGE      exactly these steps fail, each with an error that has this text
//! # skipped: STEP                    exactly these steps are skipped
//! # log: TEXT        # no log: TEXT  in a line of the log, apart from the scripts themselves
//! # order: A | B | C                 lines of the log, in this order
//! # secret: TEXT                     must be nowhere at all
//! # annotation: SEVERITY|FILE|LINE|COLUMN|TITLE|MESSAGE   (`-` for none)
//! # annotation-like: TEXT   # no annotation: TEXT   # annotations: COUNT
//! # summary: TEXT    # no summary: TEXT
//! # stderr: TEXT
//! # waits for: a feature that does not exist yet
//! # not for act: why it is not compared with act
//! ```

#[derive(Debug, Default)]
pub(super) struct Expectation {
    pub(super) rule: String,
    pub(super) end: End,
    pub(super) args: Vec<String>,
    pub(super) jobs: Vec<(String, String)>,
    pub(super) fails: Vec<Failing>,
    pub(super) skipped: Vec<String>,
    pub(super) log: Vec<String>,
    pub(super) no_log: Vec<String>,
    pub(super) order: Vec<String>,
    pub(super) secrets: Vec<String>,
    pub(super) annotations: Vec<String>,
    pub(super) annotations_like: Vec<String>,
    pub(super) no_annotations: Vec<String>,
    pub(super) annotation_count: Option<usize>,
    pub(super) summaries: Vec<String>,
    pub(super) no_summaries: Vec<String>,
    pub(super) stderr: Vec<String>,
    pub(super) waits_for: Option<String>,
    pub(super) not_for_act: Option<String>,
}

/// A step that must fail.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) job: String,
    pub(super) step: String,
    pub(super) message: String,
}

/// How `kiln run` ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    Success,
    Failure,
    Cancelled,
    TimedOut,
    /// Refused before anything ran.
    Invalid,
    /// The event does not start it.
    Nothing,
}

impl End {
    fn of(word: &str) -> Result<Self, String> {
        Ok(match word {
            "success" => Self::Success,
            "failure" => Self::Failure,
            "cancelled" => Self::Cancelled,
            "timed out" => Self::TimedOut,
            "invalid" => Self::Invalid,
            "nothing" => Self::Nothing,
            other => return Err(format!("`{other}` is no end of a run")),
        })
    }

    pub(super) fn code(self) -> i32 {
        match self {
            Self::Success | Self::Nothing => 0,
            Self::Failure | Self::TimedOut => 1,
            Self::Invalid => 2,
            Self::Cancelled => 130,
        }
    }

    pub(super) fn runs(self) -> bool {
        !matches!(self, Self::Invalid | Self::Nothing)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Invalid | Self::Nothing => "",
        }
    }
}

impl Expectation {
    /// Reads the comments before the first other line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        let mut said = false;
        for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
            let (key, value) = line.split_once(": ").ok_or("a line of the head has no `: `")?;
            said |= key == "expect";
            read.set(key, value)?;
        }
        if !said || read.rule.is_empty() {
            return Err("the head needs `# rule:` and `# expect:`".to_owned());
        }
        Ok(read)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let text = value.to_owned();
        match key {
            "rule" => self.rule = text,
            "expect" => self.end = End::of(value)?,
            "args" => self.args = value.split(' ').map(str::to_owned).collect(),
            "job" => {
                let (name, conclusion) = value.rsplit_once(" = ").ok_or("`job` needs ` = `")?;
                self.jobs.push((name.to_owned(), conclusion.to_owned()));
            }
            "fails" => {
                let parts: Vec<&str> = value.splitn(3, " > ").collect();
                let [job, step, message] = parts[..] else {
                    return Err("`fails` is `JOB > STEP > MESSAGE`".to_owned());
                };
                let [job, step, message] = [job, step, message].map(str::to_owned);
                self.fails.push(Failing { job, step, message });
            }
            "skipped" => self.skipped.push(text),
            "log" => self.log.push(text),
            "no log" => self.no_log.push(text),
            "order" => self.order = value.split(" | ").map(str::to_owned).collect(),
            "secret" => self.secrets.push(text),
            "annotation" => self.annotations.push(text),
            "annotation-like" => self.annotations_like.push(text),
            "no annotation" => self.no_annotations.push(text),
            "annotations" => {
                self.annotation_count = Some(value.parse().map_err(|_| "it is no number")?);
            }
            "summary" => self.summaries.push(text),
            "no summary" => self.no_summaries.push(text),
            "stderr" => self.stderr.push(text),
            "waits for" => self.waits_for = Some(text),
            "not for act" => self.not_for_act = Some(text),
            other => return Err(format!("`{other}` is not known")),
        }
        Ok(())
    }
}

#[test]
fn a_head_with_an_unknown_or_missing_line_is_refused() {
    let check = |text: &str, message: &str| {
        assert_eq!(Expectation::read(text).expect_err("it is wrong"), message);
    };
    check("# rule: r\non: push", "the head needs `# rule:` and `# expect:`");
    check("# rule: r\n# expect: victory", "`victory` is no end of a run");
    check("# rule: r\n# expects: success", "`expects` is not known");
    check("# rule: r\n# fails: a > b", "`fails` is `JOB > STEP > MESSAGE`");
}
