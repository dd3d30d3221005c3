//! Minimal HTTP server for monitoring: one GET or HEAD per connection, heads of a few KiB, no bodies, deadlines on everything. `httparse` parses
//! heads; there is no keep-alive, no TLS, and no request that changes state.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Maximum size of a request head, in bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;
/// Maximum number of header lines.
const MAX_HEADERS: usize = 64;
/// Maximum number of connections; a further one closes the oldest, so that slow clients cannot block others.
const MAX_CONNECTIONS: usize = 32;
/// Timeout for the request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the whole connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of bytes read and discarded after the response: closing with unread data would reset the connection and lose the response.
const MAX_LINGER_BYTES: u64 = 64 * 1024;
/// Timeout for that read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The status line of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpStatus {
    Ok,
    BadRequest,
    NotFound,
    NotAllowed,
    RequestTimeout,
    TooLarge,
    InternalError,
    Unavailable,
}

impl HttpStatus {
    fn status_line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: HttpStatus,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl HttpResponse {
    /// A plain text response.
    pub(super) fn plain_text(status: HttpStatus, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn to_bytes(&self, with_body: bool) -> Vec<u8> {
        let allow = if self.status == HttpStatus::NotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status.status_line(),
            self.content_type,
            self.body.len(),
        );
        let body = if with_body { self.body.as_str() } else { "" };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Produces the responses.
pub(super) trait HttpHandler: Send + Sync + 'static {
    /// The response for this path.
    fn answer_path(&self, path: &str) -> impl Future<Output = HttpResponse> + Send;
}

/// Serves until dropped.
pub(super) async fn serve_http<S: HttpHandler>(listener: TcpListener, handler: Arc<S>) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Possibly out of file descriptors: an immediate retry would only use CPU time.
                tracing::debug!(%error, "cannot accept a metrics connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        oldest_first.retain(|connection| !connection.is_finished());
        if oldest_first.len() >= MAX_CONNECTIONS
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
        }
        let handler = Arc::clone(&handler);
        oldest_first.push_back(connections.spawn(async move {
            let served =
                tokio::time::timeout(CONNECTION_TIMEOUT, serve_connection(stream, &*handler)).await;
            if let Ok(Err(error)) = served {
                tracing::debug!(%error, "a metrics connection failed");
            }
        }));
    }
}

async fn serve_connection<S: HttpHandler>(mut stream: TcpStream, handler: &S) -> io::Result<()> {
    let received = tokio::time::timeout(HEAD_TIMEOUT, read_request(&mut stream)).await;
    let (response, with_body) = match received {
        Err(_) => (HttpResponse::plain_text(HttpStatus::RequestTimeout, "request timeout\n"), true),
        Ok(received) => match received? {
            HttpRequest::Empty => return Ok(()),
            HttpRequest::Invalid(status) => {
                (HttpResponse::plain_text(status, "unsupported request\n"), true)
            }
            HttpRequest::Valid { path, with_body } => (handler.answer_path(&path).await, with_body),
        },
    };
    stream.write_all(&response.to_bytes(with_body)).await?;
    stream.shutdown().await?;
    let (mut rest, mut sink) = (stream.take(MAX_LINGER_BYTES), tokio::io::sink());
    let lingering = tokio::io::copy(&mut rest, &mut sink);
    let _ = tokio::time::timeout(LINGER_TIMEOUT, lingering).await;
    Ok(())
}

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HttpRequest {
    /// The connection closed without a request.
    Empty,
    /// The request is rejected with this status.
    Invalid(HttpStatus),
    /// A path, and whether to send the body or only the head.
    Valid { path: String, with_body: bool },
}

async fn read_request(stream: &mut TcpStream) -> io::Result<HttpRequest> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let remaining = MAX_HEAD_BYTES.saturating_sub(head.len());
        if remaining == 0 {
            return Ok(HttpRequest::Invalid(HttpStatus::TooLarge));
        }
        let limit = u64::try_from(remaining).unwrap_or(u64::MAX);
        if (&mut *stream).take(limit).read_buf(&mut head).await? == 0 {
            let is_empty = head.is_empty();
            return Ok(if is_empty {
                HttpRequest::Empty
            } else {
                HttpRequest::Invalid(HttpStatus::BadRequest)
            });
        }
        if let Some(request) = parse_request(&head) {
            return Ok(request);
        }
    }
}

/// Parses a head; `None` while it is incomplete.
fn parse_request(head: &[u8]) -> Option<HttpRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => (request.method, request.path),
        Err(httparse::Error::TooManyHeaders) => {
            return Some(HttpRequest::Invalid(HttpStatus::TooLarge));
        }
        Err(_) => return Some(HttpRequest::Invalid(HttpStatus::BadRequest)),
    };
    Some(match parsed {
        (Some(method @ ("GET" | "HEAD")), Some(target)) => HttpRequest::Valid {
            path: target.split('?').next().unwrap_or(target).to_owned(),
            with_body: method == "GET",
        },
        _ => HttpRequest::Invalid(HttpStatus::NotAllowed),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{HttpRequest, HttpResponse, HttpStatus, parse_request};

    #[test]
    fn request_heads_are_complete_partial_or_refused() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse_request(&whole[..end]), None, "{end}");
        }
        let path = "/metrics".to_owned();
        assert_eq!(parse_request(whole), Some(HttpRequest::Valid { path, with_body: true }));
        let path = "/healthz".to_owned();
        let head = parse_request(b"HEAD /healthz HTTP/1.0\r\n\r\n");
        assert_eq!(head, Some(HttpRequest::Valid { path, with_body: false }));
        let post = parse_request(b"POST /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(post, Some(HttpRequest::Invalid(HttpStatus::NotAllowed)));
        let other = parse_request(b"\x16\x03\x01\x02\x00\x01\r\n\r\n");
        assert_eq!(other, Some(HttpRequest::Invalid(HttpStatus::BadRequest)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        let many = parse_request(many.as_bytes());
        assert_eq!(many, Some(HttpRequest::Invalid(HttpStatus::TooLarge)));
    }

    #[test]
    fn head_response_has_the_content_length_without_the_body() {
        let answer = HttpResponse::plain_text(HttpStatus::Ok, "ok\n");
        let text = String::from_utf8(answer.to_bytes(false)).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 3\r\n") && text.ends_with("\r\n\r\n"));
        assert!(answer.to_bytes(true).ends_with(b"\r\n\r\nok\n"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse_request(&head);
        }
    }
}
