//! Errors of the broker connection.

use std::path::PathBuf;
use std::time::Duration;

/// A broker connection error.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The broker address is invalid.
    #[error("`{url}` is not a broker address; write it as tls://HOST:PORT")]
    Address {
        /// The given address.
        url: String,
    },
    /// No address is configured.
    #[error("no broker address is configured")]
    NoAddress,
    /// Plain text for a non-loopback address, or without permission in the configuration.
    #[error(
        "`{url}` is plain text; use tls://, or allow plain text for a loopback address in the configuration"
    )]
    PlainText {
        /// The given address.
        url: String,
    },
    /// The certificate authority file is unusable.
    #[error("cannot use the certificate authority in {}: {problem}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// The broker is unreachable or refuses the connection.
    #[error("cannot connect to {servers}: {problem}")]
    Connect {
        /// The tried addresses.
        servers: String,
        /// The reason, with its causes.
        problem: String,
    },
    /// The broker did not complete an operation in time.
    #[error("the broker did not {operation} within {} s", timeout.as_secs_f64())]
    Timeout {
        /// The operation.
        operation: &'static str,
        /// The timeout.
        timeout: Duration,
    },
    /// The connection was closed permanently.
    #[error("the connection to the broker is closed: {0}")]
    Closed(String),
    /// The message exceeds the broker's limit.
    #[error("the message has {size} bytes; the broker accepts at most {limit}")]
    TooLarge {
        /// Size of the payload in bytes.
        size: usize,
        /// The broker's `max_payload`.
        limit: usize,
    },
}
