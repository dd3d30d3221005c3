//! A small HTTP server for pages that are only read: one GET, HEAD or POST per connection, heads of a few KiB, small bodies of POST only, deadlines on everything.
//!
//! `httparse` parses heads; there is no keep-alive, and no request that changes state. [`HttpLimits`] bounds what a client can send and how long it may take,
//! [`HttpConnections`] how many clients there are. Nothing here prints. [`build_client`] is for requests to other servers.

mod client;
mod connections;
mod request;
mod response;
mod serve;

pub use client::{CertificateFileError, build_client};
pub use connections::{ConnectionAdmission, HttpConnections};
pub use request::{HttpRequest, InvalidParameters};
pub use response::{HttpBody, HttpResponse, HttpStatus};
pub use serve::{HttpHandler, HttpLimits, serve_connection};
