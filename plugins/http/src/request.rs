//! Reads a request: parses its head, and takes the body of a POST.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::response::HttpStatus;

const MAX_HEADERS: usize = 64;

/// A request, as far as a server of pages needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The path, without the query, as it was sent.
    pub path: String,
    /// The query, as it was sent; empty if there is none.
    pub query: String,
    pub authorization: Option<String>,
    /// A token without a scheme, as clients of `PuppetDB` send it.
    pub x_authentication: Option<String>,
    pub last_event_id: Option<String>,
    /// Whether the body of the response is wanted: GET, not HEAD.
    pub with_body: bool,
    /// The body of a POST.
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
    Valid(HttpRequest),
}

/// What was parsed of the bytes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParsedHead {
    Complete(ReadRequest),
    /// A POST whose body begins at `start`.
    BeforeBody {
        request: HttpRequest,
        start: usize,
        length: usize,
    },
}

/// Reads a request. Without a limit for bodies, POST is not allowed.
pub(crate) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    max_head_bytes: usize,
    max_body_bytes: usize,
) -> io::Result<ReadRequest> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let remaining = max_head_bytes.saturating_sub(head.len());
        if remaining == 0 {
            return Ok(ReadRequest::Invalid(HttpStatus::TooLarge));
        }
        let limit = u64::try_from(remaining).unwrap_or(u64::MAX);
        if (&mut *stream).take(limit).read_buf(&mut head).await? == 0 {
            let is_empty = head.is_empty();
            return Ok(if is_empty {
                ReadRequest::Empty
            } else {
                ReadRequest::Invalid(HttpStatus::BadRequest)
            });
        }
        match parse_request(&head, max_body_bytes) {
            None => {}
            Some(ParsedHead::Complete(request)) => return Ok(request),
            Some(ParsedHead::BeforeBody { mut request, start, length }) => {
                let mut body = head.split_off(start);
                let missing = u64::try_from(length.saturating_sub(body.len())).unwrap_or(u64::MAX);
                stream.take(missing).read_to_end(&mut body).await?;
                if body.len() != length {
                    return Ok(ReadRequest::Invalid(HttpStatus::BadRequest));
                }
                request.posted = Some(body);
                return Ok(ReadRequest::Valid(request));
            }
        }
    }
}

/// Parses a head; `None` while it is incomplete.
fn parse_request(head: &[u8], max_body_bytes: usize) -> Option<ParsedHead> {
    let invalid = |status| Some(ParsedHead::Complete(ReadRequest::Invalid(status)));
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let (start, method, target) = match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(start)) => (start, request.method, request.path),
        Err(httparse::Error::TooManyHeaders) => return invalid(HttpStatus::TooLarge),
        Err(_) => return invalid(HttpStatus::BadRequest),
    };
    let header = |name: &str| {
        let mut found = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case(name));
        let value = std::str::from_utf8(found.next()?.value).ok()?;
        // A header that is sent twice has no value that both sides agree on.
        found.next().is_none().then(|| value.to_owned())
    };
    let (Some(method @ ("GET" | "HEAD" | "POST")), Some(target)) = (method, target) else {
        return invalid(HttpStatus::NotAllowed);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let read = HttpRequest {
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: header("authorization"),
        x_authentication: header("x-authentication"),
        last_event_id: header("last-event-id"),
        with_body: method != "HEAD",
        posted: None,
    };
    if method != "POST" {
        return Some(ParsedHead::Complete(ReadRequest::Valid(read)));
    }
    if max_body_bytes == 0 {
        return invalid(HttpStatus::NotAllowed);
    }
    // A body in chunks has no length.
    match header("content-length").and_then(|length| length.parse::<usize>().ok()) {
        None => invalid(HttpStatus::BadRequest),
        Some(length) if length > max_body_bytes => invalid(HttpStatus::BodyTooLarge),
        Some(length) => Some(ParsedHead::BeforeBody { request: read, start, length }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn valid(path: &str, query: &str, with_body: bool) -> ReadRequest {
        let (path, query) = (path.to_owned(), query.to_owned());
        ReadRequest::Valid(HttpRequest { path, query, with_body, ..HttpRequest::default() })
    }

    /// The result for bytes after which the connection sends nothing more.
    fn parse_request(bytes: &[u8]) -> Option<ReadRequest> {
        match super::parse_request(bytes, 0)? {
            ParsedHead::Complete(request) => Some(request),
            ParsedHead::BeforeBody { .. } => None,
        }
    }

    #[tokio::test]
    async fn bodies_of_posts_are_read_up_to_a_limit() {
        let read = async |text: &str, limit| {
            let mut stream = text.as_bytes();
            read_request(&mut stream, 1024, limit).await.unwrap()
        };
        let head = |length: &str| format!("POST /q HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        let whole = format!("{}{{}}", head("2"));
        match read(&whole, 4).await {
            ReadRequest::Valid(request) => assert_eq!(request.posted.as_deref(), Some(&b"{}"[..])),
            other => panic!("{other:?}"),
        }
        let chunked = "POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        for (text, limit, status) in [
            (whole.as_str(), 0, HttpStatus::NotAllowed),
            (whole.as_str(), 1, HttpStatus::BodyTooLarge),
            (&format!("{}{{", head("2")), 4, HttpStatus::BadRequest),
            (&head("-1"), 4, HttpStatus::BadRequest),
            (chunked, 4, HttpStatus::BadRequest),
        ] {
            assert_eq!(read(text, limit).await, ReadRequest::Invalid(status), "{text}");
        }
    }

    #[test]
    fn request_heads_are_complete_partial_or_refused() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse_request(&whole[..end]), None, "{end}");
        }
        assert_eq!(parse_request(whole), Some(valid("/metrics", "x=1", true)));
        let head = parse_request(b"HEAD /healthz HTTP/1.0\r\n\r\n");
        assert_eq!(head, Some(valid("/healthz", "", false)));
        let post = parse_request(b"POST /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(post, Some(ReadRequest::Invalid(HttpStatus::NotAllowed)));
        let other = parse_request(b"\x16\x03\x01\x02\x00\x01\r\n\r\n");
        assert_eq!(other, Some(ReadRequest::Invalid(HttpStatus::BadRequest)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        let many = parse_request(many.as_bytes());
        assert_eq!(many, Some(ReadRequest::Invalid(HttpStatus::TooLarge)));
    }

    #[test]
    fn headers_are_read_unless_they_are_ambiguous() {
        let read = |head: &str| match parse_request(head.as_bytes()) {
            Some(ReadRequest::Valid(request)) => request.authorization,
            other => panic!("{other:?}"),
        };
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
            if let Some(ReadRequest::Valid(request)) = parse_request(&head) {
                let _ = request.parameters();
                let _ = request.path_segments();
            }
        }
    }
}
