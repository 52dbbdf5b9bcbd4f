//! Small servers on loopback, for what runs in jobs: connections, and HTTP/1.1 with a bound on everything.

pub(crate) mod http;
pub(crate) mod patience;
pub(crate) mod secret;
pub(crate) mod server;
