//! One field of a schedule: its limits, its names and the values written in it.

use std::ops::Range;

use super::CronError;

/// What a field is called and may hold.
pub(super) struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    /// Names for the values from `low` on.
    names: &'static [&'static str],
}

pub(super) const MINUTE: Field = Field { name: "minute", low: 0, high: 59, names: &[] };
pub(super) const HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[] };
pub(super) const DAY: Field = Field { name: "day of the month", low: 1, high: 31, names: &[] };
pub(super) const MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
pub(super) const DAY_OF_WEEK: Field = Field {
    name: "day of the week",
    low: 0,
    high: 6,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// The values of a field as bits; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Values {
    bits: u64,
    /// The field was written with a leading `*`.
    star: bool,
}

impl Values {
    pub(super) fn contains(self, value: u32) -> bool {
        self.bits >> value & 1 == 1
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |&value| self.contains(value))
    }

    pub(super) fn lowest(self) -> u32 {
        self.bits.trailing_zeros()
    }

    pub(super) fn count(self) -> u32 {
        self.bits.count_ones()
    }

    pub(super) fn is_star(self) -> bool {
        self.star
    }
}

impl Field {
    /// How many values the field can hold.
    pub(super) fn size(&self) -> u32 {
        self.high - self.low + 1
    }

    /// Reads a word that starts at `at` in the schedule.
    pub(super) fn parse(&self, word: &str, at: usize) -> Result<Values, CronError> {
        let mut bits = 0;
        let mut start = at;
        for item in word.split(',') {
            bits |= self.item(item, start)?;
            start += item.len() + 1;
        }
        Ok(Values { bits, star: word.starts_with('*') })
    }

    /// `*`, `5`, `1-5`, each with an optional `/2`.
    fn item(&self, item: &str, at: usize) -> Result<u64, CronError> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, at + range.len() + 1)?)),
            None => (item, None),
        };
        let (low, high) = self.range(range, at)?;
        // As GitHub reads it, `5/15` starts at 5 and runs to the end of the field.
        let is_one_value = range != "*" && !range.contains('-');
        let high = if step.is_some() && is_one_value { self.high } else { high };
        let values = (low..=high).step_by(step.unwrap_or(1) as usize);
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn range(&self, range: &str, at: usize) -> Result<(u32, u32), CronError> {
        if range == "*" {
            return Ok((self.low, self.high));
        }
        let Some((low, high)) = range.split_once('-') else {
            let value = self.value(range, at)?;
            return Ok((value, value));
        };
        let low_value = self.value(low, at)?;
        let high_value = self.value(high, at + low.len() + 1)?;
        if low_value > high_value {
            let message = format!(
                "the range `{range}` of the {} runs backwards; \
                 write it as two ranges with a comma between them",
                self.name
            );
            return Err(CronError::new(message, at..at + range.len()));
        }
        Ok((low_value, high_value))
    }

    fn value(&self, text: &str, at: usize) -> Result<u32, CronError> {
        let span = at..at + text.len();
        let named =
            self.names.iter().zip(self.low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, value)) = named {
            return Ok(value);
        }
        match number(text) {
            Some(value) if (self.low..=self.high).contains(&value) => Ok(value),
            Some(7) if self.high == DAY_OF_WEEK.high => {
                Err(CronError::new("there is no day of the week 7; Sunday is `0` or `SUN`", span))
            }
            _ => Err(self.value_error(text, span)),
        }
    }

    fn value_error(&self, text: &str, span: Range<usize>) -> CronError {
        let Self { name, low, high, .. } = self;
        let allowed = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("{low} to {high} or {first} to {last}"),
            _ => format!("{low} to {high}"),
        };
        let message = if text.is_empty() {
            format!("a value is missing here; the {name} goes from {allowed}")
        } else if text == "?" {
            format!("`?` is not supported; write `*` for any {name}")
        } else {
            format!("`{text}` does not fit the {name}, which goes from {allowed}")
        };
        CronError::new(message, span)
    }

    fn step(&self, text: &str, at: usize) -> Result<u32, CronError> {
        number(text).filter(|step| (1..=self.high).contains(step)).ok_or_else(|| {
            let message = format!(
                "`/` must be followed by a step for the {}, a number from 1 to {}",
                self.name, self.high
            );
            // Where the step is missing, the mark goes on the slash.
            let start = if text.is_empty() { at - 1 } else { at };
            CronError::new(message, start..at + text.len())
        })
    }
}

/// A number of plain digits; one too large for any field is still a number.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}
