//! Serves one connection: reads a head and the body, asks the handler, writes the response.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::request::{HttpMethod, HttpRequest, ReadRequest, RequestHead, RequestReader};
use crate::response::{HttpBody, HttpResponse, HttpStatus};

/// Maximum number of bytes read and discarded after the response: closing with unread data would reset the connection and lose the response.
const MAX_LINGER_BYTES: u64 = 64 * 1024;
/// Timeout for that read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const UNSUPPORTED: &str = "unsupported request\n";

#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Maximum size of a request head, in bytes.
    pub head_bytes: usize,
    /// Until a head is complete, also that of a further request.
    pub head_timeout: Duration,
    /// Timeout for a response, and for each part of a stream: until it is computed and written.
    pub response_timeout: Duration,
    /// Maximum size of the body of a POST or PUT. 0: only GET and HEAD are accepted.
    pub body_bytes: u64,
    /// Whether the handler gets bodies. They are skipped otherwise.
    pub keeps_bodies: bool,
    /// Maximum number of requests of a connection.
    pub requests: usize,
}

pub trait HttpHandler: Send + Sync {
    fn respond(&self, request: HttpRequest) -> impl Future<Output = HttpResponse> + Send;

    /// Whether the connection may be used for another request.
    fn stays_open(&self) -> bool {
        true
    }
}

/// Serves the requests of a connection, one after the other.
pub async fn serve_connection(
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    handler: &impl HttpHandler,
    limits: HttpLimits,
) -> io::Result<()> {
    let mut reader = RequestReader::default();
    let mut remaining = limits.requests;
    while remaining > 0 {
        remaining -= 1;
        let head = timeout(limits.head_timeout, reader.read_head(&mut stream, limits.head_bytes));
        let received = match head.await {
            // A client that sends no further request gets no response to it.
            Err(_) if remaining + 1 < limits.requests => break,
            Err(_) => Received::Refused(HttpStatus::RequestTimeout, "request timeout\n"),
            Ok(read) => match read? {
                ReadRequest::Empty => break,
                ReadRequest::Invalid(status) => Received::Refused(status, UNSUPPORTED),
                ReadRequest::Valid(head) => check_body(*head, limits.body_bytes),
            },
        };
        let mut connection = Connection { stream: &mut stream, reader: &mut reader, limits };
        if !connection.answer(received, handler, remaining > 0).await? {
            break;
        }
    }
    stream.shutdown().await?;
    let (mut rest, mut sink) = (stream.take(MAX_LINGER_BYTES), tokio::io::sink());
    let _ = timeout(LINGER_TIMEOUT, tokio::io::copy(&mut rest, &mut sink)).await;
    Ok(())
}

enum Received {
    /// With the bytes of its body, and whether another request may follow.
    Request(HttpRequest, u64, bool),
    Refused(HttpStatus, &'static str),
}

/// A server that accepts no bodies reads none, so their length does not matter: only one request is served.
fn check_body(head: RequestHead, limit: u64) -> Received {
    match head.body_bytes {
        _ if limit == 0 && head.request.method.has_body() => {
            Received::Refused(HttpStatus::NotAllowed, UNSUPPORTED)
        }
        _ if limit == 0 => Received::Request(head.request, 0, false),
        None => Received::Refused(HttpStatus::BadRequest, UNSUPPORTED),
        Some(bytes) if bytes > limit => {
            Received::Refused(HttpStatus::BodyTooLarge, "the body is too large\n")
        }
        Some(bytes) => Received::Request(head.request, bytes, head.stays_open),
    }
}

struct Connection<'a, S> {
    stream: &'a mut S,
    reader: &'a mut RequestReader,
    limits: HttpLimits,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection<'_, S> {
    /// Returns whether another request may follow.
    async fn answer(
        &mut self,
        received: Received,
        handler: &impl HttpHandler,
        may_stay: bool,
    ) -> io::Result<bool> {
        let limit = self.limits.response_timeout;
        let begun = async {
            let (response, with_body, stays_open) = match received {
                Received::Refused(status, text) => {
                    (HttpResponse::plain_text(status, text), true, false)
                }
                Received::Request(mut request, body_bytes, stays_open) => {
                    if self.limits.keeps_bodies && request.method.has_body() {
                        let body = self.reader.read_body(self.stream, body_bytes).await?;
                        request.posted = Some(body);
                    } else {
                        self.reader.skip_body(self.stream, body_bytes).await?;
                    }
                    let with_body = request.method != HttpMethod::Head;
                    (handler.respond(request).await, with_body, stays_open)
                }
            };
            let stays_open = may_stay
                && stays_open
                && handler.stays_open()
                && !matches!(response.body, HttpBody::Stream(_));
            let head = response.head(stays_open);
            match response.body {
                HttpBody::Text(text) if with_body => {
                    self.stream.write_all((head + &text).as_bytes()).await?;
                    Ok::<_, io::Error>((None, stays_open))
                }
                body => {
                    self.stream.write_all(head.as_bytes()).await?;
                    Ok((with_body.then_some((body, response.permit)), stays_open))
                }
            }
        };
        let (body, stays_open) = timeout(limit, begun).await??;
        match body {
            Some((HttpBody::Stream(mut parts), _permit)) => {
                while let Some(part) = parts.recv().await {
                    self.write_part(part.as_bytes()).await?;
                }
            }
            Some((HttpBody::Sized { bytes, parts }, _permit)) => {
                self.write_sized(bytes, parts).await?;
            }
            _ => self.stream.flush().await?,
        }
        Ok(stays_open)
    }

    async fn write_sized(
        &mut self,
        bytes: u64,
        mut parts: mpsc::Receiver<Bytes>,
    ) -> io::Result<()> {
        let mut remaining = bytes;
        while remaining > 0 {
            let part = timeout(self.limits.response_timeout, parts.recv()).await?;
            let part = part.ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            remaining = remaining.checked_sub(length).ok_or(io::ErrorKind::InvalidData)?;
            self.write_part(&part).await?;
        }
        Ok(())
    }

    async fn write_part(&mut self, part: &[u8]) -> io::Result<()> {
        let written = async {
            self.stream.write_all(part).await?;
            self.stream.flush().await
        };
        timeout(self.limits.response_timeout, written).await?
    }
}
