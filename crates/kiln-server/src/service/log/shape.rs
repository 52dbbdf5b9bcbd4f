//! Lines as they are given out.

use kiln_core::time::Timestamp;
use kiln_proto::live::{LogLine, Message};
use kiln_proto::log::Line;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Lines as they were printed.
    #[default]
    Text,
    /// Lines as they are kept.
    Raw,
    /// Each line with its time, as GitHub gives logs out.
    Timed,
    /// Lines as they are kept, each with its number before it.
    Numbered,
    /// Messages of [`kiln_proto::live`], one on each line.
    Json,
}

impl Form {
    /// Whether it says which line is which.
    pub fn has_numbers(self) -> bool {
        matches!(self, Self::Numbered | Self::Json)
    }

    /// Adds a line. The number counts only where the form shows it.
    pub(super) fn add(self, number: u64, line: &Line<'_>, to: &mut Vec<u8>) {
        match self {
            Self::Text => {}
            Self::Timed => {
                to.extend_from_slice(Timestamp(line.at).rfc3339().as_bytes());
                to.push(b' ');
            }
            Self::Numbered => {
                to.extend_from_slice(number.to_string().as_bytes());
                to.push(b' ');
                return line.write(to);
            }
            Self::Raw => return line.write(to),
            Self::Json => {
                let message = Message::LogLine(told(number, line));
                to.extend_from_slice(&serde_json::to_vec(&message).unwrap_or_default());
                return to.push(b'\n');
            }
        }
        to.extend_from_slice(line.text);
        to.push(b'\n');
    }
}

/// A line as people's programs are told of it.
pub(super) fn told(number: u64, line: &Line<'_>) -> LogLine {
    LogLine {
        step: line.step.saturating_add(1),
        line_number: number,
        timestamp: Timestamp(line.at).rfc3339(),
        content: String::from_utf8_lossy(line.text).into_owned(),
    }
}
