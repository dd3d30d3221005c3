//! Serves one connection: reads the head, asks the handler, writes the response.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::request::{HttpRequest, ReadRequest, read_request};
use crate::response::{HttpBody, HttpResponse, HttpStatus};

/// Maximum number of bytes read and discarded after the response: closing with unread data would reset the connection and lose the response.
const MAX_LINGER_BYTES: u64 = 64 * 1024;
/// Timeout for that read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Maximum size of a request head, in bytes.
    pub head_bytes: usize,
    /// Maximum size of the body of a POST, in bytes. Without bodies, POST is not allowed.
    pub body_bytes: usize,
    /// Timeout for the request: its head and its body.
    pub head_timeout: Duration,
    /// Timeout for a response, and for each part of a stream: until it is computed and written.
    pub response_timeout: Duration,
}

pub trait HttpHandler: Send + Sync {
    fn respond(&self, request: HttpRequest) -> impl Future<Output = HttpResponse> + Send;
}

/// Serves one request.
pub async fn serve_connection(
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    handler: &impl HttpHandler,
    limits: HttpLimits,
) -> io::Result<()> {
    let reading = read_request(&mut stream, limits.head_bytes, limits.body_bytes);
    let received = timeout(limits.head_timeout, reading).await;
    let respond = async {
        let (response, with_body) = match received {
            Err(_) => {
                (HttpResponse::plain_text(HttpStatus::RequestTimeout, "request timeout\n"), true)
            }
            Ok(received) => match received? {
                ReadRequest::Empty => return Ok(None),
                ReadRequest::Invalid(status) => {
                    (HttpResponse::plain_text(status, "unsupported request\n"), true)
                }
                ReadRequest::Valid(request) => {
                    let with_body = request.with_body;
                    (handler.respond(request).await, with_body)
                }
            },
        };
        stream.write_all(response.head().as_bytes()).await?;
        match response.body {
            _ if !with_body => Ok(None),
            HttpBody::Text(text) => stream.write_all(text.as_bytes()).await.map(|()| None),
            HttpBody::Stream(parts) => Ok(Some((parts, response.permit))),
        }
    };
    let parts = timeout(limits.response_timeout, respond).await??;
    if let Some((parts, _permit)) = parts {
        write_parts(&mut stream, parts, limits.response_timeout).await?;
    }
    stream.shutdown().await?;
    let (mut rest, mut sink) = (stream.take(MAX_LINGER_BYTES), tokio::io::sink());
    let _ = timeout(LINGER_TIMEOUT, tokio::io::copy(&mut rest, &mut sink)).await;
    Ok(())
}

async fn write_parts(
    stream: &mut (impl AsyncWrite + Unpin),
    mut parts: mpsc::Receiver<String>,
    part_timeout: Duration,
) -> io::Result<()> {
    while let Some(part) = parts.recv().await {
        let written = async {
            stream.write_all(part.as_bytes()).await?;
            stream.flush().await
        };
        timeout(part_timeout, written).await??;
    }
    Ok(())
}
