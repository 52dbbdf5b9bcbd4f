//! Between whole numbers and fractions, in one place.

/// A count as a fraction.
#[expect(clippy::cast_precision_loss, reason = "counts and milliseconds stay below 2^53")]
pub(super) fn float(count: i64) -> f64 {
    count as f64
}

/// The length of a list as a fraction.
pub(super) fn count(length: usize) -> f64 {
    float(i64::try_from(length).unwrap_or(i64::MAX))
}

/// The whole part of a number that is not negative; the largest number where it is too large.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a float stops at the bounds")]
pub(super) fn whole(number: f64) -> i64 {
    number.floor() as i64
}

/// A place in a list; such lists have fewer than 2^32 places.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).expect("loads are bounded far below 2^32")
}

/// An id of the queue for a place in a list.
pub(super) fn id(place: usize) -> i64 {
    i64::try_from(place).expect("no list is longer than 2^63")
}

/// The place that an id of the queue stands for.
pub(super) fn place(id: i64) -> usize {
    usize::try_from(id).expect("ids are made from places")
}

/// Seconds of milliseconds.
pub(super) fn seconds(millis: i64) -> f64 {
    float(millis) / 1000.0
}
