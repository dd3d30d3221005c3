//! Questions to a metadata service: HTTP without anything beside it, with limits on time and size.
//!
//! No proxy, no redirect: the answer comes from the machine's own link, or not at all.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Response;

/// How long it may take to be connected. On the link it takes a millisecond; where no cloud is, nobody answers at all.
const CONNECTING: Duration = Duration::from_millis(200);
/// How long one answer may take.
const ANSWERING: Duration = Duration::from_secs(1);
/// How long all questions of one collection may take together.
const ALL: Duration = Duration::from_secs(5);
/// Most bytes of a single value.
const VALUE_BYTES: u64 = 16 * 1024;
/// Most bytes of a document.
const DOCUMENT_BYTES: u64 = 256 * 1024;

/// A header.
pub(super) type Header<'a> = (&'a str, &'a str);

/// Where the service is.
#[derive(Debug, Clone)]
pub(super) struct Service {
    base: String,
    agent: ureq::Agent,
}

/// One collection's questions.
#[derive(Debug)]
pub(super) struct Session<'a> {
    service: &'a Service,
    ends: Instant,
}

impl Service {
    /// The service at this address.
    pub(super) fn new(base: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECTING))
            .timeout_global(Some(ANSWERING))
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
    pub(super) fn is_there(&self) -> bool {
        let authority = self.base.trim_start_matches("http://");
        let addresses = authority
            .to_socket_addrs()
            .or_else(|_| format!("{authority}:80").to_socket_addrs());
        let first = addresses.ok().and_then(|mut addresses| addresses.next());
        first.is_some_and(|address| TcpStream::connect_timeout(&address, CONNECTING).is_ok())
    }

    /// Begins to ask.
    pub(super) fn session(&self) -> Session<'_> {
        Session {
            service: self,
            ends: Instant::now() + ALL,
        }
    }
}

impl Session<'_> {
    /// The value at a path; nothing where there is none, or whoever answers wants something else.
    pub(super) fn value(
        &self,
        path: &str,
        headers: &[Header<'_>],
    ) -> Result<Option<String>, String> {
        self.text(path, headers, VALUE_BYTES)
    }

    /// The JSON document at a path.
    pub(super) fn document(
        &self,
        path: &str,
        headers: &[Header<'_>],
    ) -> Result<Option<Value>, String> {
        let Some(text) = self.text(path, headers, DOCUMENT_BYTES)? else {
            return Ok(None);
        };
        let read = serde_json::from_str(&text);
        read.map(Some)
            .map_err(|error| format!("{path} is not JSON: {error}"))
    }

    fn text(
        &self,
        path: &str,
        headers: &[Header<'_>],
        limit: u64,
    ) -> Result<Option<String>, String> {
        let response = self.get(path, headers)?;
        body(response, path, limit)
    }

    /// The answer itself, for whoever has to look at its headers first.
    pub(super) fn get(
        &self,
        path: &str,
        headers: &[Header<'_>],
    ) -> Result<Response<ureq::Body>, String> {
        self.in_time()?;
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
    pub(super) fn put(&self, path: &str, headers: &[Header<'_>]) -> Result<Option<String>, String> {
        self.in_time()?;
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
        body(response, path, VALUE_BYTES)
    }

    fn in_time(&self) -> Result<(), String> {
        if Instant::now() < self.ends {
            return Ok(());
        }
        Err(format!(
            "its answers took longer than {} s together",
            ALL.as_secs()
        ))
    }
}

/// The body of an answer that says "here it is"; nothing of any other.
fn body(
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
