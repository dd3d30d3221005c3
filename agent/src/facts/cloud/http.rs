//! Questions to a metadata service: HTTP without anything beside it, with limits on time and size.
//!
//! No proxy, no redirect: the answer comes from the machine's own link, or not at all.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Response;

/// How long it may take to be connected. On the link it takes a millisecond; where no cloud is, nobody answers at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
/// How long one answer may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long all questions of one collection may take together.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of a single value.
const MAX_VALUE_BYTES: u64 = 16 * 1024;
/// Most bytes of a document.
const MAX_DOCUMENT_BYTES: u64 = 256 * 1024;

/// A header.
pub(super) type HttpHeader<'a> = (&'a str, &'a str);

/// Where the service is.
#[derive(Debug, Clone)]
pub(super) struct MetadataService {
    base: String,
    agent: ureq::Agent,
}

/// One collection's questions.
#[derive(Debug)]
pub(super) struct MetadataSession<'a> {
    service: &'a MetadataService,
    ends: Instant,
}

impl MetadataService {
    /// The service at this address.
    pub(super) fn new(base: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(RESPONSE_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("muster");
        Self {
            base: base.trim_end_matches('/').to_owned(),
            agent: config.build().into(),
        }
    }

    /// Whether anybody is there at all.
    pub(super) fn is_reachable(&self) -> bool {
        let authority = self.base.trim_start_matches("http://");
        let addresses = authority
            .to_socket_addrs()
            .or_else(|_| format!("{authority}:80").to_socket_addrs());
        let first = addresses.ok().and_then(|mut addresses| addresses.next());
        first.is_some_and(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    }

    /// Begins to ask.
    pub(super) fn start_session(&self) -> MetadataSession<'_> {
        MetadataSession {
            service: self,
            ends: Instant::now() + SESSION_TIMEOUT,
        }
    }
}

impl MetadataSession<'_> {
    /// The value at a path; nothing where there is none, or whoever answers wants something else.
    pub(super) fn fetch_value(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<String>, String> {
        self.fetch_text(path, headers, MAX_VALUE_BYTES)
    }

    /// The JSON document at a path.
    pub(super) fn fetch_document(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<Value>, String> {
        let Some(text) = self.fetch_text(path, headers, MAX_DOCUMENT_BYTES)? else {
            return Ok(None);
        };
        let read = serde_json::from_str(&text);
        read.map(Some)
            .map_err(|error| format!("{path} is not JSON: {error}"))
    }

    fn fetch_text(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
        limit: u64,
    ) -> Result<Option<String>, String> {
        let response = self.send_get(path, headers)?;
        read_body(response, path, limit)
    }

    /// The answer itself, for whoever has to look at its headers first.
    pub(super) fn send_get(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Response<ureq::Body>, String> {
        self.check_deadline()?;
        let mut request = self
            .service
            .agent
            .get(format!("{}{path}", self.service.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.call().map_err(|error| format!("{path}: {error}"))
    }

    /// What comes back for an empty PUT.
    pub(super) fn send_put(
        &self,
        path: &str,
        headers: &[HttpHeader<'_>],
    ) -> Result<Option<String>, String> {
        self.check_deadline()?;
        let mut request = self
            .service
            .agent
            .put(format!("{}{path}", self.service.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request
            .send_empty()
            .map_err(|error| format!("{path}: {error}"))?;
        read_body(response, path, MAX_VALUE_BYTES)
    }

    fn check_deadline(&self) -> Result<(), String> {
        if Instant::now() < self.ends {
            return Ok(());
        }
        Err(format!(
            "its answers took longer than {} s together",
            SESSION_TIMEOUT.as_secs()
        ))
    }
}

/// The body of an answer that says "here it is"; nothing of any other.
fn read_body(
    mut response: Response<ureq::Body>,
    path: &str,
    limit: u64,
) -> Result<Option<String>, String> {
    if response.status() != 200 {
        return Ok(None);
    }
    let text = response
        .body_mut()
        .with_config()
        .limit(limit)
        .lossy_utf8(true)
        .read_to_string();
    text.map(Some).map_err(|error| format!("{path}: {error}"))
}
