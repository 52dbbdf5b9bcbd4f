//! A log as it is followed: document A's messages, on a WebSocket and as events of a stream.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event of a log that is followed, as `text/event-stream` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// `attempt-line`, of lines: with it as `Last-Event-ID` a client goes on where it was.
    pub id: Option<String>,
    /// The type of the message.
    pub event: String,
    /// A `Message` as JSON.
    pub data: String,
}

/// One message. Steps and lines are numbered from 1, times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    LogLine(LogLine),
    /// How far a step has come.
    StepStatus {
        step: u32,
        name: String,
        /// `in_progress` or `completed`.
        status: String,
        conclusion: Option<String>,
        duration_ms: Option<u64>,
    },
    /// The job was lost and begins again; what follows is the log of this claim, from its first line.
    Restarted {
        attempt: u32,
    },
    /// The last message.
    JobComplete {
        conclusion: Option<String>,
        duration_ms: Option<u64>,
    },
}

impl Message {
    /// What its event is called in a stream.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LogLine(_) => "log_line",
            Self::StepStatus { .. } => "step_status",
            Self::Restarted { .. } => "restarted",
            Self::JobComplete { .. } => "job_complete",
        }
    }
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub step: u32,
    pub line_number: u64,
    pub timestamp: String,
    /// As it was printed; bytes that are no UTF-8 are replaced.
    pub content: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C9
    #[test]
    fn messages_have_the_shapes_of_document_a() {
        let check = |text: &str| {
            let message: Message = serde_json::from_str(text).expect("it is a message");
            assert_eq!(serde_json::to_string(&message).expect("it is JSON"), text);
            assert!(text.contains(&format!("\"type\":\"{}\"", message.kind())));
        };
        check(
            r#"{"type":"log_line","step":3,"line_number":145,"timestamp":"2024-01-15T10:35:22.123Z","content":"Installing dependencies..."}"#,
        );
        check(
            r#"{"type":"step_status","step":3,"name":"Install","status":"completed","conclusion":"success","duration_ms":45230}"#,
        );
        check(r#"{"type":"job_complete","conclusion":"success","duration_ms":180500}"#);
        check(r#"{"type":"restarted","attempt":2}"#);
    }
}
