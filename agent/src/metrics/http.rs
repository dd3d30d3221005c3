//! The little HTTP that watching a machine takes: one GET or HEAD a connection, heads of a few KiB, no bodies, deadlines for
//! everything. Heads are parsed by `httparse`; there is no keep-alive, no TLS, and nothing that changes anything.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Largest head of a request in bytes.
const HEAD_BYTES: usize = 8 * 1024;
/// Header lines in it.
const HEADERS: usize = 64;
/// Connections at once; one more closes the oldest, so that those who are slow cannot keep out those who are not.
const CONNECTIONS: usize = 32;
/// How long a head may take to come.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may take in all.
const TIME: Duration = Duration::from_secs(20);
/// What is read and thrown away after the answer, so that closing does not take the answer away from one who still sends.
const LINGER_BYTES: u64 = 64 * 1024;
/// And for how long.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// How an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    NotAllowed,
    Slow,
    TooLarge,
    Broken,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::Slow => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Broken => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// What is said to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Answer {
    /// Plain text.
    pub(super) fn text(status: Status, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    fn bytes(&self, with_body: bool) -> Vec<u8> {
        let allow = if self.status == Status::NotAllowed {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len(),
        );
        let body = if with_body { self.body.as_str() } else { "" };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Who knows the answers.
pub(super) trait Site: Send + Sync + 'static {
    /// What there is at this path.
    fn answer(&self, path: &str) -> impl Future<Output = Answer> + Send;
}

/// Serves until it is dropped.
pub(super) async fn serve<S: Site>(listener: TcpListener, site: Arc<S>) {
    let mut talks = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, perhaps: trying again at once would only burn time.
                tracing::debug!(%error, "a connection for metrics was not taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while talks.try_join_next().is_some() {}
        oldest_first.retain(|talk| !talk.is_finished());
        if oldest_first.len() >= CONNECTIONS
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
        }
        let site = Arc::clone(&site);
        oldest_first.push_back(talks.spawn(async move {
            let talked = tokio::time::timeout(TIME, talk(stream, &*site)).await;
            if let Ok(Err(error)) = talked {
                tracing::debug!(%error, "a connection for metrics broke off");
            }
        }));
    }
}

async fn talk<S: Site>(mut stream: TcpStream, site: &S) -> io::Result<()> {
    let asked = tokio::time::timeout(HEAD_TIME, read(&mut stream)).await;
    let (answer, with_body) = match asked {
        Err(_) => (Answer::text(Status::Slow, "too slow\n"), true),
        Ok(asked) => match asked? {
            Asked::Nothing => return Ok(()),
            Asked::Wrongly(status) => (Answer::text(status, "this is no request for here\n"), true),
            Asked::For { path, with_body } => (site.answer(&path).await, with_body),
        },
    };
    stream.write_all(&answer.bytes(with_body)).await?;
    stream.shutdown().await?;
    let (mut rest, mut nowhere) = (stream.take(LINGER_BYTES), tokio::io::sink());
    let lingering = tokio::io::copy(&mut rest, &mut nowhere);
    let _ = tokio::time::timeout(LINGER_TIME, lingering).await;
    Ok(())
}

/// What somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    /// Came and left.
    Nothing,
    /// Cannot be answered.
    Wrongly(Status),
    /// A path, and whether its content or only the head of the answer.
    For { path: String, with_body: bool },
}

async fn read(stream: &mut TcpStream) -> io::Result<Asked> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let room = HEAD_BYTES.saturating_sub(head.len());
        if room == 0 {
            return Ok(Asked::Wrongly(Status::TooLarge));
        }
        let more = u64::try_from(room).unwrap_or(u64::MAX);
        if (&mut *stream).take(more).read_buf(&mut head).await? == 0 {
            let nothing = head.is_empty();
            return Ok(if nothing {
                Asked::Nothing
            } else {
                Asked::Wrongly(Status::BadRequest)
            });
        }
        if let Some(asked) = parse(&head) {
            return Ok(asked);
        }
    }
}

/// What a head asks for; nothing while it is not whole.
fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let asked = match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => (request.method, request.path),
        Err(httparse::Error::TooManyHeaders) => return Some(Asked::Wrongly(Status::TooLarge)),
        Err(_) => return Some(Asked::Wrongly(Status::BadRequest)),
    };
    Some(match asked {
        (Some(method @ ("GET" | "HEAD")), Some(target)) => Asked::For {
            path: target.split('?').next().unwrap_or(target).to_owned(),
            with_body: method == "GET",
        },
        _ => Asked::Wrongly(Status::NotAllowed),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Answer, Asked, Status, parse};

    #[test]
    fn heads_are_whole_or_wait_or_are_refused() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        let path = "/metrics".to_owned();
        assert_eq!(
            parse(whole),
            Some(Asked::For {
                path,
                with_body: true
            })
        );
        let path = "/healthz".to_owned();
        let head = parse(b"HEAD /healthz HTTP/1.0\r\n\r\n");
        assert_eq!(
            head,
            Some(Asked::For {
                path,
                with_body: false
            })
        );
        let post = parse(b"POST /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(post, Some(Asked::Wrongly(Status::NotAllowed)));
        let other = parse(b"\x16\x03\x01\x02\x00\x01\r\n\r\n");
        assert_eq!(other, Some(Asked::Wrongly(Status::BadRequest)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        let many = parse(many.as_bytes());
        assert_eq!(many, Some(Asked::Wrongly(Status::TooLarge)));
    }

    #[test]
    fn a_head_is_answered_with_the_length_of_what_is_not_sent() {
        let answer = Answer::text(Status::Ok, "ok\n");
        let text = String::from_utf8(answer.bytes(false)).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 3\r\n") && text.ends_with("\r\n\r\n"));
        assert!(answer.bytes(true).ends_with(b"\r\n\r\nok\n"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_trouble(head in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&head);
        }
    }
}
