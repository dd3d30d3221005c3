//! Errors of the broker connection.

use std::path::PathBuf;
use std::time::Duration;

/// A result of the connection.
pub(crate) type Result<T, E = BusError> = std::result::Result<T, E>;

/// A broker connection error.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The broker address is invalid.
    #[error("`{0}` is not a broker address; write it as tls://HOST:PORT")]
    Address(String),
    /// No address is configured.
    #[error("no broker address is configured")]
    NoAddress,
    /// Plain text for a non-loopback address, or without permission in the configuration.
    #[error(
        "`{0}` is plain text; use tls://, or allow plain text for a loopback address in the configuration"
    )]
    PlainText(String),
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
    /// The broker refused a message or a subscription: the credentials do not permit it.
    #[error("the broker refuses `{subject}`: {reason}")]
    Refused {
        /// The subject, or its beginning.
        subject: String,
        /// The broker's reason.
        reason: String,
    },
    /// There is no connection at the moment.
    #[error("there is no connection to the broker")]
    Disconnected,
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

impl BusError {
    /// The error of an operation that the library refuses, because the connection is closed.
    pub(crate) fn closed(error: impl std::fmt::Display) -> Self {
        Self::Closed(error.to_string())
    }
}

/// The library's publishing, flushing and requesting fail only if the connection is closed.
impl<K> From<async_nats::error::Error<K>> for BusError
where
    K: Clone + std::fmt::Debug + std::fmt::Display + PartialEq,
{
    fn from(error: async_nats::error::Error<K>) -> Self {
        Self::closed(error)
    }
}
