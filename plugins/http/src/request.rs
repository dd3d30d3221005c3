//! Reads and parses the head of a request, and reads or skips its body.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::response::HttpStatus;

const MAX_HEADERS: usize = 64;
/// Bytes of a body that are read at once.
const SKIP_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpMethod {
    #[default]
    Get,
    Head,
    Post,
    Put,
}

impl HttpMethod {
    /// Whether requests of this method have a body.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// A request, as far as a server of pages needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: HttpMethod,
    /// The path, without the query, as it was sent.
    pub path: String,
    /// The query, as it was sent; empty if there is none.
    pub query: String,
    pub authorization: Option<String>,
    /// A token without a scheme, as clients of `PuppetDB` send it.
    pub x_authentication: Option<String>,
    pub last_event_id: Option<String>,
    pub accept: Option<String>,
    /// The body of a POST or PUT, if the server keeps bodies.
    pub posted: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidParameters;

impl HttpRequest {
    /// The names and values of the query, decoded, in their order.
    pub fn parameters(&self) -> Result<Vec<(String, String)>, InvalidParameters> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode_text(name, true)?, decode_text(value, true)?))
        });
        decoded.collect()
    }

    /// The segments of the path, decoded.
    pub fn path_segments(&self) -> Result<Vec<String>, InvalidParameters> {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        path.split('/').map(|segment| decode_text(segment, false)).collect()
    }
}

/// Decodes `%XX`, and `+` in a query.
fn decode_text(text: &str, plus_is_space: bool) -> Result<String, InvalidParameters> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' if plus_is_space => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let value = digit(bytes.next())
                    .and_then(|high| Some(high * 16 + digit(bytes.next())?))
                    .and_then(|value| u8::try_from(value).ok());
                value.ok_or(InvalidParameters)?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).map_err(|_| InvalidParameters)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadRequest {
    /// The connection closed without a request.
    Empty,
    /// The request is rejected with this status.
    Invalid(HttpStatus),
    Valid(Box<RequestHead>),
}

/// A request, and what follows its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) request: HttpRequest,
    head_bytes: usize,
    /// `None` if the head does not say it unambiguously.
    pub(crate) body_bytes: Option<u64>,
    /// Whether the client may send another request.
    pub(crate) stays_open: bool,
}

/// What was read from a connection and not used yet.
#[derive(Debug, Default)]
pub(crate) struct RequestReader(Vec<u8>);

impl RequestReader {
    pub(crate) async fn read_head(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        max_head_bytes: usize,
    ) -> io::Result<ReadRequest> {
        loop {
            if let Some(request) = parse_request(&self.0) {
                if let ReadRequest::Valid(head) = &request {
                    self.0.drain(..head.head_bytes.min(self.0.len()));
                }
                return Ok(request);
            }
            let remaining = max_head_bytes.saturating_sub(self.0.len());
            if remaining == 0 {
                return Ok(ReadRequest::Invalid(HttpStatus::TooLarge));
            }
            let limit = u64::try_from(remaining).unwrap_or(u64::MAX);
            if (&mut *stream).take(limit).read_buf(&mut self.0).await? == 0 {
                let is_empty = self.0.is_empty();
                return Ok(if is_empty {
                    ReadRequest::Empty
                } else {
                    ReadRequest::Invalid(HttpStatus::BadRequest)
                });
            }
        }
    }

    /// Reads the body of a request.
    pub(crate) async fn read_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        bytes: u64,
    ) -> io::Result<Vec<u8>> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut body: Vec<u8> = self.0.drain(..self.0.len().min(length)).collect();
        let missing = bytes.saturating_sub(u64::try_from(body.len()).unwrap_or(u64::MAX));
        stream.take(missing).read_to_end(&mut body).await?;
        if body.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(body) }
    }

    /// Reads the body of a request and forgets it.
    pub(crate) async fn skip_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        bytes: u64,
    ) -> io::Result<()> {
        let read = self.0.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.0.drain(..read);
        let mut remaining = bytes.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        let mut skipped = Vec::new();
        while remaining > 0 {
            skipped.clear();
            skipped.reserve(SKIP_BYTES);
            let limit = remaining.min(u64::try_from(SKIP_BYTES).unwrap_or(u64::MAX));
            let read = (&mut *stream).take(limit).read_buf(&mut skipped).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            remaining = remaining.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Parses a head; `None` while it is incomplete.
fn parse_request(head: &[u8]) -> Option<ReadRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Err(httparse::Error::TooManyHeaders) => {
            return Some(ReadRequest::Invalid(HttpStatus::TooLarge));
        }
        Err(_) => return Some(ReadRequest::Invalid(HttpStatus::BadRequest)),
    };
    let read = interpret_head(&request, head_bytes);
    Some(read.map_or_else(ReadRequest::Invalid, |head| ReadRequest::Valid(Box::new(head))))
}

fn interpret_head(
    parsed: &httparse::Request<'_, '_>,
    head_bytes: usize,
) -> Result<RequestHead, HttpStatus> {
    let method = match parsed.method {
        Some("GET") => HttpMethod::Get,
        Some("HEAD") => HttpMethod::Head,
        Some("POST") => HttpMethod::Post,
        Some("PUT") => HttpMethod::Put,
        _ => return Err(HttpStatus::NotAllowed),
    };
    let target = parsed.path.ok_or(HttpStatus::BadRequest)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let fields = |name: &'static str| {
        parsed.headers.iter().filter(move |one| one.name.eq_ignore_ascii_case(name))
    };
    let header = |name: &'static str| {
        let mut found = fields(name);
        let value = std::str::from_utf8(found.next()?.value).ok()?;
        // A header that is sent twice has no value that both sides agree on.
        found.next().is_none().then(|| value.to_owned())
    };
    // Only a length says where the next request begins.
    let digits = header("content-length");
    let body_bytes = match &digits {
        _ if fields("transfer-encoding").next().is_some() => None,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits.parse().ok(),
        None if fields("content-length").next().is_none() => Some(0),
        _ => None,
    };
    let closes = header("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
    let request = HttpRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: header("authorization"),
        x_authentication: header("x-authentication"),
        last_event_id: header("last-event-id"),
        accept: header("accept"),
        posted: None,
    };
    Ok(RequestHead {
        request,
        head_bytes,
        body_bytes,
        stays_open: parsed.version == Some(1) && !closes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn valid(head: &[u8]) -> RequestHead {
        match parse_request(head) {
            Some(ReadRequest::Valid(head)) => *head,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn request_heads_are_complete_partial_or_refused() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse_request(&whole[..end]), None, "{end}");
        }
        let head = valid(whole);
        assert_eq!((head.request.path.as_str(), head.request.query.as_str()), ("/metrics", "x=1"));
        assert!(head.stays_open && head.body_bytes == Some(0));
        let head = valid(b"HEAD /healthz HTTP/1.0\r\n\r\n");
        assert_eq!((head.request.method, head.stays_open), (HttpMethod::Head, false));
        let post = valid(b"POST /x HTTP/1.1\r\nContent-Length: 7\r\nConnection: close\r\n\r\n");
        assert_eq!((post.request.method, post.body_bytes), (HttpMethod::Post, Some(7)));
        assert!(!post.stays_open);
        let delete = parse_request(b"DELETE /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(delete, Some(ReadRequest::Invalid(HttpStatus::NotAllowed)));
        for fields in [
            "Content-Length: -1",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Content-Length: 1\r\nContent-Length: 1",
            "Transfer-Encoding: chunked",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            assert_eq!(valid(head.as_bytes()).body_bytes, None, "{fields}");
        }
        let other = parse_request(b"\x16\x03\x01\x02\x00\x01\r\n\r\n");
        assert_eq!(other, Some(ReadRequest::Invalid(HttpStatus::BadRequest)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        let many = parse_request(many.as_bytes());
        assert_eq!(many, Some(ReadRequest::Invalid(HttpStatus::TooLarge)));
    }

    #[test]
    fn headers_are_read_unless_they_are_ambiguous() {
        let read = |head: &str| valid(head.as_bytes()).request.authorization;
        let one = "GET / HTTP/1.1\r\nAUTHORIZATION: Bearer x\r\n\r\n";
        assert_eq!(read(one), Some("Bearer x".to_owned()));
        let two = "GET / HTTP/1.1\r\nauthorization: a\r\nAuthorization: b\r\n\r\n";
        assert_eq!(read(two), None);
    }

    #[test]
    fn parameters_are_decoded() {
        let parse = |query: &str| {
            HttpRequest { query: query.to_owned(), ..HttpRequest::default() }.parameters()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = vec![pair("q", "{a: 'b c'}"), pair("x", ""), pair("q", "=")];
        assert_eq!(parse("q=%7Ba%3a+'b%20c'}&x&&q=="), Ok(expected));
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert_eq!(parse(wrong), Err(InvalidParameters), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..512)) {
            if let Some(ReadRequest::Valid(head)) = parse_request(&head) {
                let _ = head.request.parameters();
                let _ = head.request.path_segments();
            }
        }
    }
}
