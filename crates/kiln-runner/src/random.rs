//! Words that nobody can guess.

use std::fmt::Write as _;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes, in hexadecimal.
pub(crate) fn hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut word = String::with_capacity(2 * BYTES);
    for byte in bytes {
        write!(word, "{byte:02x}").expect("a string takes all that is written");
    }
    Ok(word)
}
