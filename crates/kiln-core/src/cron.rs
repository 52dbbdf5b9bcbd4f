//! Schedules in five cron fields: minute, hour, day of the month, month, day of the week.
//!
//! The dialect is GitHub's: POSIX fields with names, ranges, lists and steps, Sunday is 0 or `SUN`
//! (never 7), and no `@daily` shorthands. Each field becomes a set of bits. Times here are plain
//! calendar values; whoever calls applies the time zone.

mod civil;
mod describe;
mod field;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

pub use civil::Civil;
use civil::{Date, days_in_month};
use field::{DAY, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH, Values};

/// A parsed schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cron {
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

/// What is wrong with a schedule, and where in its text (in bytes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError {
    pub message: String,
    pub span: Range<usize>,
}

impl CronError {
    fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span }
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CronError {}

const FIELDS: [&Field; 5] = [&MINUTE, &HOUR, &DAY, &MONTH, &DAY_OF_WEEK];

/// The calendar repeats after 400 years, weekdays included.
const DAYS_IN_CYCLE: i64 = 146_097;
const MINUTES_IN_DAY: u32 = 24 * 60;

impl Cron {
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.trim_start().starts_with('@') {
            return Err(shorthand_error(text));
        }
        let words: Vec<(usize, &str)> = words(text).collect();
        if words.len() != FIELDS.len() {
            return Err(field_count_error(text, &words));
        }
        let mut values = words.iter().zip(FIELDS).map(|(&(at, word), field)| field.parse(word, at));
        let mut next = || values.next().expect("there are five words, counted above");
        Ok(Self {
            minutes: next()?,
            hours: next()?,
            days: next()?,
            months: next()?,
            weekdays: next()?,
        })
    }

    /// Whether no calendar day can ever match, as with 30 February.
    pub fn never_fires(&self) -> bool {
        // Where either kind of day is enough, the weekday alone comes round every week.
        !self.either_day_is_enough()
            && !self.months.iter().any(|month| self.days.lowest() <= days_in_month(4, month))
    }

    /// The first matching time after the given one; nothing if there is none before year 10000.
    pub fn next_after(&self, time: Civil) -> Option<Civil> {
        if self.never_fires() {
            return None;
        }
        let today = time.date();
        if self.fires_on(today)
            && let Some((hour, minute)) = self.next_in_day(time.hour(), time.minute())
        {
            return Some(time.at(hour, minute));
        }
        let mut date = today.next_day()?;
        while !self.fires_on(date) {
            date = if self.months.contains(date.month()) {
                date.next_day()?
            } else {
                date.next_month()?
            };
        }
        Some(date.at(self.hours.lowest(), self.minutes.lowest()))
    }

    /// The fewest minutes between two firings, or nothing for a schedule that never fires.
    pub fn shortest_interval_minutes(&self) -> Option<u32> {
        if self.never_fires() {
            return None;
        }
        let moments: Vec<u32> = self
            .hours
            .iter()
            .flat_map(|hour| self.minutes.iter().map(move |minute| hour * 60 + minute))
            .collect();
        let within = moments.windows(2).map(|pair| pair[1] - pair[0]).min();
        let first = moments.first().expect("a field is never empty");
        let last = moments.last().expect("a field is never empty");
        let overnight = self.fewest_days_between() * MINUTES_IN_DAY + first - last;
        Some(within.map_or(overnight, |within| within.min(overnight)))
    }

    /// The schedule in words, such as "every day at 04:30".
    pub fn describe(&self) -> String {
        describe::describe(self)
    }

    fn fires_on(&self, date: Date) -> bool {
        let day = self.days.contains(date.day());
        let weekday = self.weekdays.contains(date.weekday());
        let fits = if self.either_day_is_enough() { day || weekday } else { day && weekday };
        fits && self.months.contains(date.month())
    }

    /// As in every cron: with both day fields restricted, one of them is enough. A field that
    /// starts with `*` counts as unrestricted even with a step.
    fn either_day_is_enough(&self) -> bool {
        !self.days.is_star() && !self.weekdays.is_star()
    }

    /// The next matching time on the same day, strictly after the given one.
    fn next_in_day(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if self.hours.contains(hour)
            && let Some(minute) = self.minutes.iter().find(|&at| at > minute)
        {
            return Some((hour, minute));
        }
        let hour = self.hours.iter().find(|&at| at > hour)?;
        Some((hour, self.minutes.lowest()))
    }

    /// The fewest days from one firing day to the next, over a whole cycle of the calendar.
    fn fewest_days_between(&self) -> u32 {
        let mut date = Date::new(2000, 1, 1).expect("a date of the calendar");
        let (mut first, mut last, mut fewest) = (None, None, DAYS_IN_CYCLE);
        for day in 0..DAYS_IN_CYCLE {
            if self.fires_on(date) {
                fewest = fewest.min(last.map_or(DAYS_IN_CYCLE, |last| day - last));
                first = first.or(Some(day));
                last = Some(day);
            }
            if fewest == 1 {
                break;
            }
            date = date.next_day().expect("the cycle ends in 2400");
        }
        if let (Some(first), Some(last)) = (first, last) {
            fewest = fewest.min(first + DAYS_IN_CYCLE - last);
        }
        u32::try_from(fewest).expect("at most the days of one cycle")
    }
}

/// The words of a text with where they start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let pieces = text.split(|c: char| c.is_ascii_whitespace()).scan(0, |at, piece| {
        let start = *at;
        *at += piece.len() + 1;
        Some((start, piece))
    });
    pieces.filter(|(_, word)| !word.is_empty())
}

fn shorthand_error(text: &str) -> CronError {
    let name = text.trim();
    let start = text.len() - text.trim_start().len();
    let fields = match name.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        "@monthly" => Some("0 0 1 * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@hourly" => Some("0 * * * *"),
        _ => None,
    };
    let message = match fields {
        Some(fields) => format!("`{name}` is not supported; write `{fields}`"),
        None => "shorthands with `@` are not supported; write the five fields".to_owned(),
    };
    CronError::new(message, start..start + name.len())
}

fn field_count_error(text: &str, words: &[(usize, &str)]) -> CronError {
    const NAMES: &str = "minute, hour, day of the month, month, day of the week";
    let (message, span) = match words.get(FIELDS.len()) {
        Some(&(start, _)) => (
            format!("a schedule has five fields ({NAMES}); seconds and years are not supported"),
            start..text.trim_end().len(),
        ),
        None => (
            format!("a schedule has five fields ({NAMES}), this has {}", words.len()),
            0..text.len(),
        ),
    };
    CronError::new(message, span)
}
