//! Accepts connections, and serves those whose certificate is accepted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_bus::Bus;
use muster_directory::DirectoryContext;
use muster_http::{ConnectionAdmission, HttpConnections, HttpLimits, serve_connection};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::answer::{Gateway, GatewayConnection};
use crate::certificate::{GatewayCertificateError, GatewayCertificates, certificate_node};
use crate::options::GatewayOptions;
use crate::releases::ReleaseReader;

/// Pause before an address in use is tried again.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after an error, which may be the lack of a file descriptor.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Connections in the handshake; a further one closes the oldest. A fleet may connect at once.
const MAX_HANDSHAKES: usize = 2048;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
const LIMITS: HttpLimits = HttpLimits {
    head_bytes: 16 * 1024,
    // An agent works on a catalog for longer than this, and connects again.
    head_timeout: Duration::from_secs(15),
    response_timeout: Duration::from_mins(5),
    // Facts or a report.
    body_bytes: 16 * 1024 * 1024,
    keeps_bodies: false,
    requests: 10_000,
};

/// An instance of the gateway. It has no state, so there may be any number.
pub struct GatewayService {
    address: SocketAddr,
    certificates: Arc<GatewayCertificates>,
    connections: Arc<Semaphore>,
}

impl std::fmt::Debug for GatewayService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayService").field("address", &self.address).finish_non_exhaustive()
    }
}

impl GatewayService {
    /// Reads the files of the TLS settings. Binds nothing.
    pub fn load(options: &GatewayOptions) -> Result<Self, GatewayCertificateError> {
        let certificates = Arc::new(GatewayCertificates::load(options)?);
        let connections = Arc::new(Semaphore::new(options.connections()));
        Ok(Self { address: options.address(), certificates, connections })
    }

    /// An address that cannot be bound disables only the gateway: the error is logged, and binding is tried again.
    pub async fn run_until_stopped(
        self,
        bus: Bus,
        source: DirectoryContext,
        stop: CancellationToken,
    ) {
        let gateway = Arc::new(Gateway::new(ReleaseReader::new(&bus, source)));
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.serve(&gateway) => {}
        }
    }

    async fn serve(&self, gateway: &Arc<Gateway>) {
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(error) => {
                    tracing::error!(address = %self.address, %error, "cannot serve Puppet agents on the address");
                    sleep(BIND_RETRY_INTERVAL).await;
                }
            }
        };
        let address = listener.local_addr().unwrap_or(self.address);
        tracing::info!(%address, "serving released catalogs to Puppet agents");
        let mut connections = HttpConnections::new(MAX_HANDSHAKES);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => connections.spawn(|admission| {
                    let (gateway, certificates) =
                        (Arc::clone(gateway), Arc::clone(&self.certificates));
                    let permits = Arc::clone(&self.connections);
                    async move {
                        let served =
                            serve_stream(stream, admission, gateway, certificates, permits);
                        if let Err(error) = served.await {
                            tracing::debug!(%error, "a connection of a Puppet agent failed");
                        }
                    }
                }),
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection of a Puppet agent");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}

async fn serve_stream(
    stream: TcpStream,
    admission: ConnectionAdmission,
    gateway: Arc<Gateway>,
    certificates: Arc<GatewayCertificates>,
    connections: Arc<Semaphore>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let config = certificates.current();
    let accepted = TlsAcceptor::from(Arc::clone(&config)).accept(stream);
    let stream = timeout(HANDSHAKE_TIMEOUT, accepted).await??;
    let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let client = presented.and_then(certificate_node);
    let invalid = || io::Error::other("the certificate has no common name that is a node's");
    let client = client.ok_or_else(invalid)?;
    let permit = connections.try_acquire_owned();
    let _permit = permit.map_err(|_| io::Error::other("too many connections"))?;
    if !admission.admit() {
        return Ok(());
    }
    let connection = GatewayConnection { gateway, certificates, config, client };
    serve_connection(stream, &connection, LIMITS).await
}
