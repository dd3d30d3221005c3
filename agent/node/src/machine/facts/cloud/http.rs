//! HTTP client for metadata services: plain HTTP with limits on time and size.
//!
//! No proxies and no redirects: only the link-local service itself may respond.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::RequestBuilder;
use ureq::http::Response;

/// On the link a connection takes a millisecond; outside a cloud there is no response at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of all requests of one collection together.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_VALUE_BYTES: u64 = 16 * 1024;
const MAX_DOCUMENT_BYTES: u64 = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The service of the configured provider does not respond, or is another service.
    #[error("no service of {0} responds")]
    NoResponse(&'static str),
    #[error("{path}: {error}")]
    Request { path: String, error: ureq::Error },
    #[error("{path} is not JSON: {error}")]
    NotJson { path: String, error: serde_json::Error },
    #[error("its replies took longer than {} s in total", SESSION_TIMEOUT.as_secs())]
    Timeout,
}

impl CloudError {
    fn request(path: &str) -> impl FnOnce(ureq::Error) -> Self {
        move |error| Self::Request { path: path.to_owned(), error }
    }
}

pub(super) type HttpHeader<'a> = (&'a str, &'a str);

#[derive(Debug, Clone)]
pub(super) struct MetadataService {
    base: String,
    agent: ureq::Agent,
}

/// The requests of one collection.
#[derive(Debug)]
pub(super) struct MetadataSession<'a> {
    service: &'a MetadataService,
    deadline: Instant,
}

impl MetadataService {
    pub(super) fn new(base: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(RESPONSE_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("muster");
        Self { base: base.trim_end_matches('/').to_owned(), agent: config.build().into() }
    }

    /// Whether a TCP connection to the service succeeds.
    pub(super) fn is_reachable(&self) -> bool {
        let authority = self.base.trim_start_matches("http://");
        let addresses =
            authority.to_socket_addrs().or_else(|_| format!("{authority}:80").to_socket_addrs());
        let first = addresses.ok().and_then(|mut addresses| addresses.next());
        first.is_some_and(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    }

    pub(super) fn start_session(&self) -> MetadataSession<'_> {
        MetadataSession { service: self, deadline: Instant::now() + SESSION_TIMEOUT }
    }
}

impl MetadataSession<'_> {
    /// The value at a path; `None` unless the status is 200.
    pub(super) fn fetch_value(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<String>, CloudError> {
        self.fetch_text(path, headers, MAX_VALUE_BYTES)
    }

    pub(super) fn fetch_document(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<Value>, CloudError> {
        let Some(text) = self.fetch_text(path, headers, MAX_DOCUMENT_BYTES)? else {
            return Ok(None);
        };
        let not_json = |error| CloudError::NotJson { path: path.to_owned(), error };
        serde_json::from_str(&text).map(Some).map_err(not_json)
    }

    fn fetch_text(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
        limit: u64,
    ) -> Result<Option<String>, CloudError> {
        read_body(self.send_get(path, headers)?, path, limit)
    }

    /// Sends a GET; returns the response, for callers that need its headers.
    pub(super) fn send_get(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Response<ureq::Body>, CloudError> {
        let agent = &self.service.agent;
        let request = add_headers(agent.get(self.service_url(path)?), headers);
        request.call().map_err(CloudError::request(path))
    }

    /// Sends a PUT without a body; returns the response body.
    pub(super) fn send_put(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<String>, CloudError> {
        let agent = &self.service.agent;
        let request = add_headers(agent.put(self.service_url(path)?), headers);
        let response = request.send_empty().map_err(CloudError::request(path))?;
        read_body(response, path, MAX_VALUE_BYTES)
    }

    /// The URL of a path, unless the session has lasted too long.
    fn service_url(&self, path: &str) -> Result<String, CloudError> {
        if Instant::now() >= self.deadline {
            return Err(CloudError::Timeout);
        }
        Ok(format!("{}{path}", self.service.base))
    }
}

fn add_headers<B>(request: RequestBuilder<B>, headers: &[HttpHeader<'_>]) -> RequestBuilder<B> {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// The body of a response with status 200; `None` for other responses.
fn read_body(
    mut response: Response<ureq::Body>,
    path: &str,
    limit: u64,
) -> Result<Option<String>, CloudError> {
    if response.status() != 200 {
        return Ok(None);
    }
    let text = response.body_mut().with_config().limit(limit).lossy_utf8(true).read_to_string();
    text.map(Some).map_err(CloudError::request(path))
}
