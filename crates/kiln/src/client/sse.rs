//! Server-sent events out of the bytes of an answer, whichever way the network cut them.

/// No line of a stream may be longer.
const LONGEST_LINE: usize = 4 << 20;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Reads a stream piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    rest: Vec<u8>,
    next: Sent,
    has_data: bool,
    /// The id of the event that has not ended yet.
    id: Option<String>,
    /// The last id that was sent: where a new stream goes on.
    pub(crate) last_id: Option<String>,
}

impl Reader {
    /// Takes in bytes and gives the events that they end; nothing when a line has no end.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<Sent>> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            events.extend(self.line(line.trim_end_matches(['\n', '\r'])));
        }
        (self.rest.len() <= LONGEST_LINE).then_some(events)
    }

    /// Forgets what a broken stream left unfinished.
    pub(crate) fn begin_again(&mut self) {
        *self = Self { last_id: self.last_id.take(), ..Self::default() };
    }

    fn line(&mut self, line: &str) -> Option<Sent> {
        if line.is_empty() {
            if let Some(id) = self.id.take() {
                self.last_id = Some(id);
            }
            let event = std::mem::take(&mut self.next);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.next.data.push('\n');
                }
                self.next.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.next.name),
            "id" => self.id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            // Comments keep the connection alive; others are for newer readers.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b": hello\n\nid: 7\nevent: run\ndata: {\"a\":\ndata: 1}\n\nid: 8\r\ndata:x\r\n\r\nretry: 5\n\nid: 9\ndata: cut";

    #[test]
    fn events_are_read_however_they_are_cut() {
        let expect = [
            Sent { name: "run".to_owned(), data: "{\"a\":\n1}".to_owned() },
            Sent { name: String::new(), data: "x".to_owned() },
        ];
        for size in 1..STREAM.len() {
            let mut reader = Reader::default();
            let pieces = STREAM.chunks(size);
            let events: Vec<Sent> = pieces.flat_map(|piece| reader.take(piece).unwrap()).collect();
            assert_eq!(events, expect, "{size}");
        }
    }

    #[test]
    fn what_a_broken_stream_left_is_not_mixed_with_the_next() {
        let mut reader = Reader::default();
        reader.take(b"id: 1\ndata: a\n\nid: 2\ndata: half").unwrap();
        reader.begin_again();
        assert_eq!(reader.last_id.as_deref(), Some("1"), "the second was not whole");
        assert_eq!(reader.take(b"data: b\n\n").unwrap()[0].data, "b");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_forever() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..6).any(|_| reader.take(&piece).is_none()));
    }
}
