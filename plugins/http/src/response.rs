//! Responses: a page, or a stream of events.

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpStatus {
    Ok,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    NotAllowed,
    RequestTimeout,
    BodyTooLarge,
    TooLarge,
    InternalError,
    Unavailable,
}

impl HttpStatus {
    /// The code, such as `200`.
    pub fn code(self) -> &'static str {
        self.status_line().split(' ').next().unwrap_or_default()
    }

    /// The code as a number.
    pub fn number(self) -> u16 {
        let digits = self.code().chars().filter_map(|digit| digit.to_digit(10));
        digits.fold(0_u32, |number, digit| number * 10 + digit).try_into().unwrap_or(u16::MAX)
    }

    fn status_line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::BodyTooLarge => "413 Content Too Large",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    fn header(self) -> &'static str {
        match self {
            Self::NotAllowed => "Allow: GET, HEAD\r\n",
            Self::Unauthorized => "WWW-Authenticate: Bearer\r\n",
            _ => "",
        }
    }
}

#[derive(Debug)]
pub enum HttpBody {
    /// A page.
    Text(String),
    /// Parts that are written as they come, until the sender is dropped.
    Stream(mpsc::Receiver<String>),
    /// Bytes whose number is known. A sender that is dropped too early ends the connection.
    Sized { bytes: u64, parts: mpsc::Receiver<Bytes> },
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: HttpStatus,
    pub content_type: &'static str,
    pub body: HttpBody,
    /// The value of `X-Records`: how many rows there are in all pages of the answer.
    pub records: Option<usize>,
    /// What the server holds until the response is written.
    pub permit: Option<OwnedSemaphorePermit>,
}

impl HttpResponse {
    pub fn page(status: HttpStatus, content_type: &'static str, text: impl Into<String>) -> Self {
        let body = HttpBody::Text(text.into());
        Self { status, content_type, body, records: None, permit: None }
    }

    pub fn plain_text(status: HttpStatus, text: impl Into<String>) -> Self {
        Self::page(status, "text/plain; charset=utf-8", text)
    }

    /// A stream ends with the connection, so it has no length.
    pub(crate) fn head(&self, stays_open: bool) -> String {
        let length = match &self.body {
            HttpBody::Text(text) => format!("Content-Length: {}\r\n", text.len()),
            HttpBody::Sized { bytes, .. } => format!("Content-Length: {bytes}\r\n"),
            HttpBody::Stream(_) => String::new(),
        };
        let records = self.records.map(|count| format!("X-Records: {count}\r\n"));
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\n{length}{}{}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: {}\r\n\r\n",
            self.status.status_line(),
            self.content_type,
            self.status.header(),
            records.unwrap_or_default(),
            if stays_open { "keep-alive" } else { "close" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_has_the_length_of_a_page() {
        let head = HttpResponse::plain_text(HttpStatus::Ok, "ok\n").head(false);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Length: 3\r\n") && head.ends_with("\r\n\r\n"));
        let (_, receiver) = mpsc::channel(1);
        let stream = HttpResponse {
            body: HttpBody::Stream(receiver),
            ..HttpResponse::plain_text(HttpStatus::Ok, "")
        };
        assert!(!stream.head(false).contains("Content-Length"));
    }
}
