//! Why events were not delivered, and whether they are refused for good.

use std::io;

use muster_files::files::FileAccessError;
use muster_http::CertificateFileError;

/// Exit code with which a program refuses its input: `EX_DATAERR` of sysexits.h.
const EXIT_DATA_ERROR: i32 = 65;

/// Why events were not delivered. Errors are stored and logged, so none contains the path or query of a webhook, which often is its secret.
#[derive(Debug, thiserror::Error)]
pub enum SinkDeliveryError {
    #[error("cannot read the secret")]
    Secret(#[from] muster_files::SecretFileError),
    #[error(transparent)]
    Certificates(#[from] CertificateFileError),
    #[error("cannot send to {origin}")]
    Webhook { origin: String, source: Box<ureq::Error> },
    #[error("{origin} replied with status {status}")]
    Status { origin: String, status: u16 },
    #[error("the program exited with code {code}: {stderr}")]
    Exit { code: i32, stderr: String },
    #[error("cannot run the program: {0}")]
    Program(String),
    #[error("cannot send to {address}")]
    Syslog { address: String, source: io::Error },
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("a task of the sink ended")]
    Task(#[from] tokio::task::JoinError),
}

impl SinkDeliveryError {
    /// Whether the target will never take the same events.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => (400..500).contains(status) && !is_about_server(*status),
            Self::Exit { code, .. } => *code == EXIT_DATA_ERROR,
            // Longer than the socket takes in one message.
            Self::Syslog { source, .. } => {
                source.raw_os_error().is_some_and(|code| code == MESSAGE_TOO_LONG)
            }
            _ => false,
        }
    }
}

/// `EMSGSIZE` of Linux.
const MESSAGE_TOO_LONG: i32 = 90;

/// Statuses that say nothing of what was sent: no right, a wrong address, or too many requests. It is sent again when that is mended.
pub fn is_about_server(status: u16) -> bool {
    matches!(status, 401 | 403 | 404 | 405 | 407 | 408 | 421 | 425 | 429)
}
