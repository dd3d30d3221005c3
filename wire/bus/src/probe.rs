//! Diagnoses the connection to one broker in steps: name, address, greeting, TLS. Sends no request and no credentials.
//!
//! [`BusOptions::connect`](crate::BusOptions::connect) performs the same steps at once and reports only one error.

use muster_base::since_epoch;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connect::BrokerAddress;
use crate::tls;

/// Timeout of each step.
const PROBE_STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest greeting that is read, in bytes; brokers send a few hundred.
const MAX_GREETING_BYTES: u64 = 64 * 1024;
/// The default port of NATS clients.
const DEFAULT_PORT: u16 = 4222;

/// The result of the steps for one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerProbe {
    /// The resolved addresses; an IP address resolves to itself.
    pub addresses: Vec<SocketAddr>,
    /// Duration of the name resolution.
    pub resolving: Duration,
    /// The address that accepted the connection, and the connection time.
    pub reached: Option<(SocketAddr, Duration)>,
    /// The broker's version, from its greeting.
    pub version: Option<String>,
    /// Expiry of the broker's certificate, in seconds since the epoch. `None` for plain text.
    pub certificate_ends: Option<i64>,
    /// The failed step; later steps were not attempted.
    pub failure: Option<BrokerProbeFailure>,
}

/// The failed step and its cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerProbeFailure {
    /// The name cannot be resolved.
    #[error("cannot resolve the name `{host}`: {problem}")]
    Name {
        /// The name.
        host: String,
        /// The resolver's error.
        problem: String,
    },
    /// No address accepts a connection.
    #[error("no address accepts a connection: {0}")]
    Unreachable(String),
    /// The server's greeting is not that of NATS.
    #[error("the server did not send the greeting of a NATS server: {0}")]
    Greeting(String),
    /// The certificate authority file is unusable.
    #[error("cannot use the certificate authority in {}: {problem}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// The certificate is untrusted, or the server does not support TLS.
    #[error("TLS failed: {0}")]
    Tls(String),
}

/// The fields of a broker's greeting that the diagnosis needs.
#[derive(Debug, serde::Deserialize)]
struct BrokerGreeting {
    #[serde(default)]
    version: String,
}

/// Probes a broker. Takes at most 20 seconds.
pub async fn probe_broker(server: &BrokerAddress, authority: Option<&Path>) -> BrokerProbe {
    let mut probe = BrokerProbe::default();
    probe.failure = run_probe(server, authority, &mut probe).await.err();
    probe
}

async fn run_probe(
    server: &BrokerAddress,
    authority: Option<&Path>,
    probe: &mut BrokerProbe,
) -> Result<(), BrokerProbeFailure> {
    let (host, port) = server.host_and_port(DEFAULT_PORT);
    probe.addresses = resolve_host(host, port, &mut probe.resolving).await?;
    let (stream, address, elapsed) = connect_tcp(&probe.addresses).await?;
    probe.reached = Some((address, elapsed));
    let (stream, version) = read_greeting(stream).await?;
    probe.version = Some(version);
    if server.is_tls() {
        probe.certificate_ends = tls_handshake(stream, host, authority).await?;
    }
    Ok(())
}

async fn resolve_host(
    host: &str,
    port: u16,
    elapsed: &mut Duration,
) -> Result<Vec<SocketAddr>, BrokerProbeFailure> {
    let start = Instant::now();
    let failed = |problem: String| BrokerProbeFailure::Name { host: host.to_owned(), problem };
    let addresses = run_step(tokio::net::lookup_host((host, port)), failed).await;
    *elapsed = start.elapsed();
    let addresses: Vec<SocketAddr> = addresses?.collect();
    if addresses.is_empty() {
        return Err(failed("the name has no address".to_owned()));
    }
    Ok(addresses)
}

async fn connect_tcp(
    addresses: &[SocketAddr],
) -> Result<(TcpStream, SocketAddr, Duration), BrokerProbeFailure> {
    let mut problems = Vec::new();
    let deadline = tokio::time::Instant::now() + PROBE_STEP_TIMEOUT;
    for address in addresses {
        let start = Instant::now();
        match tokio::time::timeout_at(deadline, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, *address, start.elapsed())),
            Ok(Err(error)) => problems.push(format!("{address}: {error}")),
            Err(_) => problems.push(format!("{address}: {}", timeout_message())),
        }
    }
    Err(BrokerProbeFailure::Unreachable(problems.join("; ")))
}

/// Reads the greeting line, which the broker sends first, in plain text.
async fn read_greeting(stream: TcpStream) -> Result<(TcpStream, String), BrokerProbeFailure> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream);
    let mut limited = (&mut reader).take(MAX_GREETING_BYTES);
    run_step(limited.read_until(b'\n', &mut line), BrokerProbeFailure::Greeting).await?;
    let greeting: BrokerGreeting = line
        .strip_prefix(b"INFO ")
        .and_then(|json| serde_json::from_slice(json).ok())
        .ok_or_else(|| {
            let start: String = String::from_utf8_lossy(&line).chars().take(40).collect();
            BrokerProbeFailure::Greeting(format!("received {start:?}"))
        })?;
    Ok((reader.into_inner(), greeting.version))
}

/// Performs the TLS handshake; returns the expiry of the certificate.
async fn tls_handshake(
    stream: TcpStream,
    host: &str,
    authority: Option<&Path>,
) -> Result<Option<i64>, BrokerProbeFailure> {
    let config = match authority {
        Some(path) => tls::config_trusting_file(path).map_err(|error| {
            BrokerProbeFailure::Authority { path: path.to_owned(), problem: error.to_string() }
        })?,
        None => tls::config_trusting_system()
            .map_err(|error| BrokerProbeFailure::Tls(error.to_string()))?,
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| BrokerProbeFailure::Tls(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = run_step(connector.connect(name, stream), BrokerProbeFailure::Tls).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    Ok(certificates.and_then(<[CertificateDer<'_>]>::first).and_then(certificate_end))
}

fn certificate_end(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Runs a step, at most for [`PROBE_STEP_TIMEOUT`].
async fn run_step<T>(
    step: impl Future<Output = io::Result<T>>,
    failed: impl Fn(String) -> BrokerProbeFailure,
) -> Result<T, BrokerProbeFailure> {
    let result = tokio::time::timeout(PROBE_STEP_TIMEOUT, step).await;
    let result = result.map_err(|_| failed(timeout_message()))?;
    result.map_err(|error| failed(error.to_string()))
}

fn timeout_message() -> String {
    format!("no answer within {} s", PROBE_STEP_TIMEOUT.as_secs())
}

impl BrokerProbe {
    /// Whole days until the broker's certificate expires; negative after expiry.
    pub fn certificate_days(&self) -> Option<i64> {
        let now = i64::try_from(since_epoch(SystemTime::now()).as_secs()).unwrap_or(i64::MAX);
        Some(self.certificate_ends?.saturating_sub(now).div_euclid(86_400))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::{BrokerProbeFailure, probe_broker};
    use crate::BrokerAddress;

    /// Starts a server that sends these bytes to the first client.
    async fn somebody(says: impl Into<Vec<u8>>) -> BrokerAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let says = says.into();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&says).await.unwrap();
        });
        BrokerAddress::parse(&url, true).unwrap()
    }

    #[tokio::test]
    async fn each_step_has_its_own_failure() {
        let name = BrokerAddress::parse("tls://no-such-host.invalid:4222", false).unwrap();
        let seen = probe_broker(&name, None).await;
        assert!(matches!(seen.failure, Some(BrokerProbeFailure::Name { .. })));

        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let closed = BrokerAddress::parse(&format!("nats://{address}"), true).unwrap();
        let seen = probe_broker(&closed, None).await;
        assert_eq!(seen.addresses, [address]);
        assert!(matches!(seen.failure, Some(BrokerProbeFailure::Unreachable { .. })));

        let other = somebody(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        let seen = probe_broker(&other, None).await;
        let failure = seen.failure.map(|failure| failure.to_string());
        assert!(failure.unwrap().contains("SSH-2.0"));
        assert!(seen.reached.is_some() && seen.version.is_none());

        let endless = somebody(vec![b'x'; 70_000]).await;
        let seen = probe_broker(&endless, None).await;
        assert!(matches!(seen.failure, Some(BrokerProbeFailure::Greeting { .. })));
    }

    #[tokio::test]
    async fn plain_text_broker_is_probed_successfully() {
        let broker = somebody(b"INFO {\"version\":\"2.10.1\",\"proto\":1}\r\n").await;
        let seen = probe_broker(&broker, None).await;
        assert_eq!(seen.failure, None);
        assert_eq!(seen.version.as_deref(), Some("2.10.1"));
        assert_eq!(seen.certificate_days(), None);
    }
}
