//! Names of headers that are ours.

/// A fresh access token for the runner, in every answer to a poll.
pub const ACCESS_TOKEN: &str = "kiln-access-token";
/// How many jobs wait that this runner could take, in every answer to a poll.
pub const QUEUE_SIZE: &str = "kiln-queue-size";
/// The protocol that a runner speaks, in every request of one.
pub const PROTOCOL: &str = "kiln-protocol";
/// A token of a runner, as document A calls it; `Authorization: Bearer` is the same.
pub const RUNNER_TOKEN: &str = "x-runner-token";
/// A token of a worker, as document E calls it.
pub const WORKER_TOKEN: &str = "x-worker-token";
/// The key that lets workers in, as document E calls it.
pub const API_KEY: &str = "x-api-key";
/// Makes a repeated trigger the same one.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The run that a dispatch in GitHub's shape made, which answers with no body.
pub const RUN_ID: &str = "kiln-run-id";
/// How many bytes are kept of a log, in every answer with a part of it.
pub const LOG_LENGTH: &str = "kiln-log-length";
/// How many lines it has, in answers that are about lines.
pub const LOG_LINES: &str = "kiln-log-lines";
