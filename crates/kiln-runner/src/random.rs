//! Words that nobody can guess.

use std::fmt::Write as _;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes.
pub(crate) fn bytes<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

/// So many random bytes, in hexadecimal.
pub(crate) fn hex<const BYTES: usize>() -> io::Result<String> {
    let mut word = String::with_capacity(2 * BYTES);
    for byte in bytes::<BYTES>()? {
        write!(word, "{byte:02x}").expect("a string takes all that is written");
    }
    Ok(word)
}

/// From 0 to 1. Only for what may be guessed.
pub(crate) fn fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    // Without randomness all would wait equally long, which is no reason to fail.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}
