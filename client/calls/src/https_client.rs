//! Requests with JSON to an HTTP server of another program. Connections are kept and shared by all requests of a client.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_files::Zeroizing;
use ureq::http::Response;
use ureq::{Agent, Body, RequestBuilder};

use crate::https::{HttpsFileError, HttpsLimits, HttpsServer};

/// A client of one server. Its clones share the connections.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    agent: Agent,
    url: String,
    authorization: Option<HttpsPassword>,
}

/// A user with its password, as the header `Authorization` has it.
#[derive(Clone)]
pub struct HttpsPassword(Zeroizing<String>);

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpsAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpsRequestError {
    /// The server's certificate is not valid, or the server refuses the client's.
    #[error("no trusted TLS connection")]
    Tls(#[source] Box<ureq::Error>),
    /// The response is larger than the limit.
    #[error("the response has more than {0} bytes")]
    TooLarge(u64),
    /// The time limit was reached.
    #[error("no response within the time limit")]
    Timeout(#[source] Box<ureq::Error>),
    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[source] Box<ureq::Error>),
}

impl HttpsClient {
    /// Reads the files of the server's settings. Connects at the first request. Without a password, requests have no user but that of the certificate.
    pub fn open(
        server: &HttpsServer,
        authorization: Option<HttpsPassword>,
        limits: HttpsLimits,
    ) -> Result<Self, HttpsFileError> {
        let agent = server.build_agent(limits)?;
        Ok(Self { agent, url: server.url().to_owned(), authorization })
    }

    /// Sends a JSON text. The response may have `max_bytes`.
    pub fn post_json(
        &self,
        path: &str,
        body: &[u8],
        max_bytes: u64,
    ) -> Result<HttpsAnswer, HttpsRequestError> {
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = self.add_headers(request).header("content-type", "application/json");
        read_answer(request.send(body), max_bytes)
    }

    /// Fetches a JSON text.
    pub fn get_json(&self, path: &str, max_bytes: u64) -> Result<HttpsAnswer, HttpsRequestError> {
        let request = self.agent.get(format!("{}{path}", self.url));
        read_answer(self.add_headers(request).call(), max_bytes)
    }

    fn add_headers<T>(&self, request: RequestBuilder<T>) -> RequestBuilder<T> {
        let request = request.header("accept", "application/json");
        match &self.authorization {
            Some(HttpsPassword(value)) => request.header("authorization", value.as_str()),
            None => request,
        }
    }

    /// Closes all connections, so that running requests of other threads fail at once instead of at their time limit.
    pub fn shut_down(&self) {
        self.agent.clone().shutdown();
    }
}

impl HttpsPassword {
    /// The user must not contain a colon.
    pub fn new(user: &str, password: &str) -> Self {
        let pair = Zeroizing::new(format!("{user}:{password}"));
        Self(Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes()))))
    }
}

impl fmt::Debug for HttpsPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpsPassword(..)")
    }
}

fn read_answer(
    response: Result<Response<Body>, ureq::Error>,
    max_bytes: u64,
) -> Result<HttpsAnswer, HttpsRequestError> {
    let mut response = response.map_err(classify_error)?;
    let body = response.body_mut().with_config().limit(max_bytes).read_to_vec();
    Ok(HttpsAnswer { status: response.status().as_u16(), body: body.map_err(classify_error)? })
}

fn classify_error(error: ureq::Error) -> HttpsRequestError {
    match error {
        ureq::Error::BodyExceedsLimit(limit) => HttpsRequestError::TooLarge(limit),
        ureq::Error::Timeout(_) | ureq::Error::BodyStalled => {
            HttpsRequestError::Timeout(Box::new(error))
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => HttpsRequestError::Tls(Box::new(error)),
        error if is_tls_error(&error) => HttpsRequestError::Tls(Box::new(error)),
        error => HttpsRequestError::Connection(Box::new(error)),
    }
}

/// Whether an error of the connection is one of TLS. Its handshake is part of the first read or write, whose errors are those of input and output.
fn is_tls_error(error: &ureq::Error) -> bool {
    let ureq::Error::Io(error) = error else { return false };
    let Some(inner) = error.get_ref() else { return false };
    inner.is::<rustls::Error>()
}

#[cfg(test)]
mod tests {
    use super::HttpsPassword;

    #[test]
    fn password_is_a_header_and_never_debug_output() {
        let password = HttpsPassword::new("muster", "hunter2");
        assert_eq!(password.0.as_str(), "Basic bXVzdGVyOmh1bnRlcjI=");
        assert_eq!(format!("{password:?}"), "HttpsPassword(..)");
    }
}
