//! The limit of `bench/run`: puts the time before each line of its input and writes all to a file.

use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

const BUFFER: usize = 256 * 1024;

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).expect("the path of the output is given");
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    let mut output = BufWriter::with_capacity(BUFFER, std::fs::File::create(path)?);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write!(output, "{} ", now.as_millis())?;
        output.write_all(&line)?;
        line.clear();
    }
    output.flush()
}
