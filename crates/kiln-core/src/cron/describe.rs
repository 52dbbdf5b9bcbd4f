//! A schedule in words.

use super::Cron;
use super::field::{DAY, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH, Values};

const WEEKDAYS: [&str; 7] =
    ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Times of day beyond this number are told as minutes and hours.
const MOST_TIMES: u32 = 6;

pub(super) fn describe(cron: &Cron) -> String {
    let time = times(cron);
    let days = days(cron);
    let every_day = days.is_none() && time.starts_with("at ");
    let words = [
        every_day.then(|| "every day".to_owned()),
        Some(time),
        days,
        (!is_full(cron.months, &MONTH))
            .then(|| format!("in {}", list(cron.months, &|month| month_name(month).to_owned()))),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn times(cron: &Cron) -> String {
    let Cron { minutes, hours, .. } = *cron;
    let hourly = is_full(hours, &HOUR);
    if let Some(step) = even_step(minutes, &MINUTE) {
        let often = if step == 1 { "every minute".into() } else { format!("every {step} minutes") };
        return if hourly { often } else { format!("{often} {}", during(hours)) };
    }
    if minutes.count() * hours.count() <= MOST_TIMES {
        let moments = hours
            .iter()
            .flat_map(|hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}")));
        return format!("at {}", join(&moments.collect::<Vec<_>>()));
    }
    let past = list(minutes, &|minute| minute.to_string());
    let plural = if minutes.count() == 1 { "minute" } else { "minutes" };
    let hour = match even_step(hours, &HOUR) {
        Some(1) => "every hour".to_owned(),
        Some(step) => format!("every {step} hours"),
        None => format!("every hour {}", during(hours)),
    };
    if minutes.count() == 1 && minutes.contains(0) {
        hour
    } else {
        format!("{hour} at {plural} {past}")
    }
}

/// The hours of the day as spans of time.
fn during(hours: Values) -> String {
    let spans = runs(hours).into_iter().map(|(low, high)| format!("{low:02}:00 to {high:02}:59"));
    format!("from {}", join(&spans.collect::<Vec<_>>()))
}

fn days(cron: &Cron) -> Option<String> {
    let weekdays = (!is_full(cron.weekdays, &DAY_OF_WEEK)).then(|| weekday_names(cron.weekdays));
    let days = (!is_full(cron.days, &DAY)).then(|| {
        let plural = if cron.days.count() == 1 { "day" } else { "days" };
        format!("on {plural} {} of the month", list(cron.days, &|day| day.to_string()))
    });
    if cron.either_day_is_enough() && (days.is_none() || weekdays.is_none()) {
        // One of the fields lists every value, and either one is enough.
        return None;
    }
    match (days, weekdays) {
        (Some(days), Some(weekdays)) if cron.either_day_is_enough() => {
            Some(format!("{days} and {weekdays}"))
        }
        (Some(days), Some(weekdays)) => Some(format!("{weekdays} that fall {days}")),
        (days, weekdays) => days.or(weekdays),
    }
}

fn weekday_names(days: Values) -> String {
    let written: Vec<u32> = days.iter().collect();
    match written.as_slice() {
        [1, 2, 3, 4, 5] => "on weekdays".to_owned(),
        [0, 6] => "on weekends".to_owned(),
        _ => format!("on {}", list(days, &|day| WEEKDAYS[day as usize].to_owned())),
    }
}

fn month_name(month: u32) -> &'static str {
    MONTHS[month as usize - 1]
}

fn is_full(values: Values, field: &Field) -> bool {
    values.count() == field.size()
}

/// The step if the values start at the low end and are spread evenly round the clock.
fn even_step(values: Values, field: &Field) -> Option<u32> {
    let (size, count) = (field.size(), values.count());
    let step = (count > 1 && size.is_multiple_of(count)).then(|| size / count)?;
    (0..size).step_by(step as usize).all(|value| values.contains(value)).then_some(step)
}

/// Values in words, three or more neighbours as a range.
fn list(values: Values, name: &dyn Fn(u32) -> String) -> String {
    let words = runs(values).into_iter().flat_map(|(low, high)| match high - low {
        0 => vec![name(low)],
        1 => vec![name(low), name(high)],
        _ => vec![format!("{} to {}", name(low), name(high))],
    });
    join(&words.collect::<Vec<_>>())
}

/// Neighbouring values as ranges with both ends.
fn runs(values: Values) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values.iter() {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == value => *high = value,
            _ => runs.push((value, value)),
        }
    }
    runs
}

fn join(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
