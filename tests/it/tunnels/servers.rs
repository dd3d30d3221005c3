//! Servers on loopback at the end of a tunnel, and clients at its beginning.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// A server that does one thing with each connection.
pub(super) struct LoopbackServer {
    pub(super) port: u16,
    accepted: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl LoopbackServer {
    async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        let task: JoinHandle<()> = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(connection));
            }
        });
        Self { port, accepted, _task: AbortOnDropHandle::new(task) }
    }

    /// Sends back what it receives, and ends its direction after the other one.
    pub(super) async fn echo() -> Self {
        Self::start(|mut connection| async move {
            let (mut reader, mut writer) = connection.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
            let _ = writer.shutdown().await;
        })
        .await
    }

    /// Reads everything, and then sends the hash of it.
    pub(super) async fn hash() -> Self {
        Self::start(|mut connection| async move {
            let mut hash = Sha256::new();
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match connection.read(&mut buffer).await {
                    Ok(0) => break,
                    Ok(count) => hash.update(&buffer[..count]),
                    Err(_) => return,
                }
            }
            let _ = connection.write_all(&hash.finalize()).await;
            let _ = connection.shutdown().await;
        })
        .await
    }

    /// Sends this many bytes of the pattern, and ends its direction at once.
    pub(super) async fn source(bytes: usize) -> Self {
        Self::start(move |mut connection| async move {
            if send_pattern(&mut connection, bytes).await {
                let _ = connection.shutdown().await;
                let mut rest = Vec::new();
                let _ = connection.read_to_end(&mut rest).await;
            }
        })
        .await
    }

    /// Connections that were accepted so far.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

/// Sends bytes of the pattern; returns whether it succeeded.
pub(super) async fn send_pattern(connection: &mut TcpStream, bytes: usize) -> bool {
    let mut sent = 0;
    while sent < bytes {
        let chunk = pattern(sent, (bytes - sent).min(64 * 1024));
        if connection.write_all(&chunk).await.is_err() {
            return false;
        }
        sent += chunk.len();
    }
    true
}

/// Bytes that do not repeat in a small distance, from this offset.
pub(super) fn pattern(offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 16);
    for word in offset / 8..=(offset + length) / 8 {
        bytes.extend((word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    }
    bytes.drain(..offset % 8);
    bytes.truncate(length);
    bytes
}

/// The hash of this many bytes of the pattern.
pub(super) fn pattern_hash(bytes: usize) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < bytes {
        let chunk = pattern(at, (bytes - at).min(1024 * 1024));
        hash.update(&chunk);
        at += chunk.len();
    }
    hash.finalize().to_vec()
}

/// Sends a line through a tunnel, and returns what comes back.
pub(super) async fn exchange(address: SocketAddr, text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(text).await?;
    connection.shutdown().await?;
    let mut back = Vec::new();
    connection.read_to_end(&mut back).await?;
    Ok(back)
}
