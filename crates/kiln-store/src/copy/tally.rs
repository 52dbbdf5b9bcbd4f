//! A count and a checksum of the rows of a table that do not depend on their order.

use sha2::{Digest as _, Sha256};

use crate::Value;

/// What a table holds, in short. Two tables with the same tally hold the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub rows: u64,
    /// The sum of the digests of all rows, so that their order does not matter.
    pub sum: u128,
}

impl Tally {
    /// Adds rows, of which only some columns count.
    pub(super) fn add(&mut self, rows: &[Vec<Value>], columns: &[usize]) {
        for row in rows {
            self.add_row(row, columns);
        }
    }

    fn add_row(&mut self, row: &[Value], columns: &[usize]) {
        let mut digest = Sha256::new();
        for column in columns {
            encode(&row[*column], &mut digest);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let (first, _) = digest.split_first_chunk().expect("16 of 32 bytes");
        self.rows += 1;
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(*first));
    }
}

fn encode_text(text: &str, digest: &mut Sha256) {
    digest.update([3]);
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text.as_bytes());
}

/// One form for each value whichever database it comes from: its kind, its length, its bytes.
fn encode(value: &Value, digest: &mut Sha256) {
    match value {
        Value::Null => digest.update([0]),
        Value::Int(number) => {
            digest.update([1]);
            digest.update(number.to_be_bytes());
        }
        Value::Real(number) => {
            // SQLite knows no negative zero.
            let number = if *number == 0.0 { 0.0 } else { *number };
            digest.update([2]);
            digest.update(number.to_bits().to_be_bytes());
        }
        Value::Text(text) => encode_text(text, digest),
        Value::Word(word) => encode_text(word, digest),
        Value::Bytes(bytes) => {
            digest.update([4]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        Value::Array(items) => {
            digest.update([5]);
            digest.update((items.len() as u64).to_be_bytes());
            for item in items {
                encode(item, digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, Value};

    fn of(rows: &[Vec<Value>]) -> Tally {
        let mut tally = Tally::default();
        for row in rows {
            tally.add_row(row, &(0..row.len()).collect::<Vec<_>>());
        }
        tally
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_their_number_does() {
        let (one, two) = (vec![Value::Int(1)], vec![Value::Int(2)]);
        assert_eq!(of(&[one.clone(), two.clone()]), of(&[two.clone(), one.clone()]));
        assert_ne!(of(&[one.clone(), one.clone()]), of(&[two.clone(), two]));
        assert_ne!(of(&[one.clone(), one.clone()]), of(&[one]));
    }

    #[test]
    fn values_that_look_alike_differ() {
        let rows: Vec<Vec<Value>> = vec![
            vec![Value::Null, Value::from("")],
            vec![Value::from(""), Value::Null],
            vec![Value::from("ab"), Value::from("")],
            vec![Value::from("a"), Value::from("b")],
            vec![Value::Int(1), Value::Int(0)],
            vec![Value::Real(1.0), Value::Int(0)],
            vec![Value::from("1"), Value::Int(0)],
            vec![Value::from(&b"1"[..]), Value::Int(0)],
        ];
        let sums: std::collections::BTreeSet<u128> =
            rows.iter().map(|row| of(std::slice::from_ref(row)).sum).collect();
        assert_eq!(sums.len(), rows.len());
        assert_eq!(of(&[vec![Value::Real(-0.0)]]), of(&[vec![Value::Real(0.0)]]));
    }
}
