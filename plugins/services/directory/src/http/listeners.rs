//! Binds the socket and the address, accepts connections, and does TLS.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use muster_files::bind_socket;
use muster_http::{HttpConnections, HttpLimits, serve_connection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{sleep, timeout};

use super::api::{ApiConnection, DirectoryApi};
use super::certificate::CertificateFiles;
use super::options::SocketOptions;

/// Pause before an address in use is tried again.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Connections of clients that have not presented a token yet; a further one closes the oldest.
const MAX_WAITING_CONNECTIONS: usize = 64;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const LIMITS: HttpLimits = HttpLimits {
    // A query can be in the address.
    head_bytes: 16 * 1024,
    head_timeout: Duration::from_secs(5),
    response_timeout: Duration::from_secs(30),
    body_bytes: 0,
    keeps_bodies: true,
    requests: 1,
};

/// Serves on a socket until dropped.
pub(super) async fn serve_socket(options: &SocketOptions, api: DirectoryApi) {
    let path = &options.path;
    let listener = loop {
        match bind_socket(path, options.group).and_then(UnixListener::from_std) {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot serve the directory on the socket");
                sleep(BIND_RETRY_INTERVAL).await;
            }
        }
    };
    tracing::info!(path = %path.display(), "serving the directory on a socket");
    let mut connections = HttpConnections::new(MAX_WAITING_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let api = api.clone();
                connections.spawn(|admission| async move {
                    serve_stream(stream, &api.connection(admission)).await;
                });
            }
            Err(error) => await_files(&error).await,
        }
    }
}

/// Serves with TLS until dropped.
pub(super) async fn serve_tls(
    address: SocketAddr,
    certificate: &CertificateFiles,
    api: DirectoryApi,
) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::error!(%address, %error, "cannot serve the directory on the address");
                sleep(BIND_RETRY_INTERVAL).await;
            }
        }
    };
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "serving the directory with TLS");
    let mut connections = HttpConnections::new(MAX_WAITING_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (api, acceptor) = (api.clone(), certificate.acceptor());
                connections.spawn(|admission| async move {
                    match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => serve_stream(stream, &api.connection(admission)).await,
                        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    }
                });
            }
            Err(error) => await_files(&error).await,
        }
    }
}

async fn serve_stream(stream: impl AsyncRead + AsyncWrite + Send + Unpin, api: &ApiConnection) {
    let limits = HttpLimits { body_bytes: api.max_body_bytes(), ..LIMITS };
    if let Err(error) = serve_connection(stream, api, limits).await {
        tracing::debug!(%error, "a connection to the directory's HTTP API failed");
    }
}

/// Possibly out of file descriptors: an immediate retry would only use CPU time.
async fn await_files(error: &io::Error) {
    tracing::debug!(%error, "cannot accept a connection to the directory's HTTP API");
    sleep(Duration::from_millis(100)).await;
}
