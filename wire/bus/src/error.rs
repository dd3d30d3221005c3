//! What can go wrong between us and the broker.

use std::path::PathBuf;
use std::time::Duration;

/// A failure at the door to NATS.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// A broker address that is no address.
    #[error("`{url}` is not a broker address; write it as tls://HOST:PORT")]
    Address {
        /// What was given.
        url: String,
    },
    /// No address at all.
    #[error("no broker address is configured")]
    NoAddress,
    /// Plain text was asked for where it would leave the machine, or was not asked for.
    #[error(
        "`{url}` is plain text; use tls://, or allow plain text for a loopback address in the configuration"
    )]
    PlainText {
        /// What was given.
        url: String,
    },
    /// The certificate authority's file cannot be used.
    #[error("cannot use the certificate authority in {}: {problem}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The broker cannot be reached, or refuses us.
    #[error("cannot connect to {servers}: {problem}")]
    Connect {
        /// The addresses that were tried.
        servers: String,
        /// Why, with the causes beneath it.
        problem: String,
    },
    /// The broker did not take or confirm something in time.
    #[error("the broker did not {what} within {} s", within.as_secs_f64())]
    Slow {
        /// The thing that was waited for.
        what: &'static str,
        /// How long was waited.
        within: Duration,
    },
    /// The connection was closed for good.
    #[error("the connection to the broker is closed: {0}")]
    Closed(String),
    /// The message is larger than the broker takes.
    #[error("the message is {size} bytes, and the broker takes {limit}")]
    TooLarge {
        /// Size of the payload in bytes.
        size: usize,
        /// The broker's `max_payload`.
        limit: usize,
    },
}
