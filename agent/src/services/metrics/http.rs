//! Accepts the connections of monitoring: a bounded number, without TLS.

use std::sync::Arc;
use std::time::Duration;

use muster_http::{HttpConnections, HttpHandler, HttpLimits, serve_connection};
use tokio::net::TcpListener;

/// Maximum number of connections; a further one closes the oldest, so that slow clients cannot block others.
const MAX_CONNECTIONS: usize = 32;
const LIMITS: HttpLimits = HttpLimits {
    head_bytes: 8 * 1024,
    head_timeout: Duration::from_secs(5),
    response_timeout: Duration::from_secs(15),
    body_bytes: 0,
    keeps_bodies: false,
    requests: 1,
};

/// Serves until dropped.
pub(super) async fn serve_http<S: HttpHandler + 'static>(listener: TcpListener, handler: Arc<S>) {
    let mut connections = HttpConnections::new(MAX_CONNECTIONS);
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
        let handler = Arc::clone(&handler);
        connections.spawn(|_| async move {
            if let Err(error) = serve_connection(stream, &*handler, LIMITS).await {
                tracing::debug!(%error, "a metrics connection failed");
            }
        });
    }
}
