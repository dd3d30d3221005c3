//! A small HTTP server for pages that are only read: heads of a few KiB, bodies of requests that are skipped or small, deadlines on everything.
//!
//! `httparse` parses heads; no request changes state. [`HttpLimits`] bounds what a client can send, how often, and how long it may take,
//! [`HttpConnections`] how many clients there are. Nothing here prints. [`build_client`] is for requests to other servers.

mod client;
mod connections;
mod request;
mod response;
mod serve;

pub use client::{CertificateFileError, build_client};
pub use connections::{ConnectionAdmission, HttpConnections};
pub use request::{HttpMethod, HttpRequest, InvalidParameters};
pub use response::{HttpBody, HttpResponse, HttpStatus};
pub use serve::{HttpHandler, HttpLimits, serve_connection};
