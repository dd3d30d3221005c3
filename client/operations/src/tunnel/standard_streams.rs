//! The standard input and output of the process as asynchronous streams. Each has a thread of its own, so that a read or write that never returns does not keep
//! the process from ending.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// Reads or writes that wait.
const MAX_WAITING_CHUNKS: usize = 4;

/// The standard input.
#[derive(Debug)]
pub struct ProcessInput {
    reads: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl ProcessInput {
    /// Begins to read.
    pub fn open() -> io::Result<Self> {
        let (sender, reads) = mpsc::channel(MAX_WAITING_CHUNKS);
        let work = move || {
            let mut input = io::stdin().lock();
            let mut buffer = vec![0; READ_BYTES];
            loop {
                let read = match input.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => {
                        Ok(Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default()))
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("stdin".to_owned()).spawn(work)?;
        Ok(Self { reads, rest: Bytes::new() })
    }
}

impl AsyncRead for ProcessInput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.reads.poll_recv(cx)) {
                Some(read) => self.rest = read?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(self.rest.get(..count).unwrap_or_default());
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The standard output.
#[derive(Debug)]
pub struct ProcessOutput {
    writes: PollSender<Bytes>,
    /// Sent when everything was written, or when writing failed.
    ended: oneshot::Receiver<io::Result<()>>,
}

impl ProcessOutput {
    /// Begins to write what it is given.
    pub fn open() -> io::Result<Self> {
        let (sender, mut writes) = mpsc::channel::<Bytes>(MAX_WAITING_CHUNKS);
        let (ended_sender, ended) = oneshot::channel();
        let work = move || {
            let mut output = io::stdout().lock();
            let mut result = Ok(());
            while let Some(bytes) = writes.blocking_recv() {
                result = output.write_all(&bytes).and_then(|()| output.flush());
                if result.is_err() {
                    break;
                }
            }
            // Without a receiver the stream was dropped.
            let _ = ended_sender.send(result);
        };
        thread::Builder::new().name("stdout".to_owned()).spawn(work)?;
        Ok(Self { writes: PollSender::new(sender), ended })
    }
}

impl AsyncWrite for ProcessOutput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.writes.poll_reserve(cx)).map_err(closed)?;
        self.writes.send_item(Bytes::copy_from_slice(bytes)).map_err(closed)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes.close();
        let ended = ready!(Pin::new(&mut self.ended).poll(cx));
        Poll::Ready(ended.unwrap_or(Err(io::ErrorKind::BrokenPipe.into())))
    }
}
