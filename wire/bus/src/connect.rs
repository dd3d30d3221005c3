//! Connecting: addresses, credentials, TLS, and connection settings.

use muster_base::error_chain;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectErrorKind;
use muster_wire::sign::Signer;
use tokio::sync::watch;

use crate::connection::Bus;
use crate::error::{BusError, Result};
use crate::event::BusEventRecorder;
use crate::reconnect::ReconnectBackoff;
use crate::relocation::{self, BusLink, ConnectionTap};
use crate::tls;

/// A validated broker address: `tls://host:port`, or `nats://` on loopback if plain text is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    url: String,
    tls: bool,
}

impl BrokerAddress {
    /// Parses an address. The default scheme is TLS.
    pub fn parse(text: &str, plaintext_on_loopback: bool) -> Result<Self> {
        let invalid = || BusError::Address(text.to_owned());
        let (scheme, rest) = text.split_once("://").unwrap_or(("tls", text));
        if rest.is_empty() || rest.contains(['/', '@', ' ']) {
            return Err(invalid());
        }
        match scheme {
            "tls" => Ok(Self { url: format!("tls://{rest}"), tls: true }),
            "nats" if plaintext_on_loopback && is_loopback(rest) => {
                Ok(Self { url: format!("nats://{rest}"), tls: false })
            }
            "nats" => Err(BusError::PlainText(text.to_owned())),
            _ => Err(invalid()),
        }
    }

    /// The address with its scheme.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Whether the connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Host and port, without the brackets of an IPv6 address.
    pub(crate) fn host_and_port(&self, default: u16) -> (&str, u16) {
        let authority = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let split = authority
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains(':') || host.ends_with(']'))
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = split.unwrap_or((authority, default));
        (host.trim_start_matches('[').trim_end_matches(']'), port)
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

type NonceSigner = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;
type TokenProvider = Arc<dyn Fn() -> String + Send + Sync>;

/// Broker credentials: a user token, and a function that signs the broker's nonce with its key.
#[derive(Clone)]
pub struct BrokerCredentials {
    token: TokenProvider,
    sign: NonceSigner,
}

impl BrokerCredentials {
    /// `token` is called for each connection, so that the next connection uses a renewed token. `sign` must return the 64 bytes of an
    /// ed25519 signature by the token's key.
    pub fn new(
        token: impl Fn() -> String + Send + Sync + 'static,
        sign: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self { token: Arc::new(token), sign: Arc::new(sign) }
    }

    /// Credentials of this signer, with its current token at each connection.
    pub fn from_signer(signer: &Signer) -> Self {
        let (tokens, keys) = (signer.clone(), signer.clone());
        Self::new(
            move || tokens.token().to_string(),
            move |nonce| keys.key_pair().sign(nonce).to_bytes().to_vec(),
        )
    }
}

impl fmt::Debug for BrokerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Connection settings.
#[derive(Debug, Clone)]
pub struct BusOptions {
    /// Addresses of one broker or one cluster, tried in random order.
    pub servers: Vec<BrokerAddress>,
    /// PEM file of the authority that signed the broker's certificate; the system's trust store if absent.
    pub authority: Option<PathBuf>,
    /// Credentials. `None` only for a broker without authentication, as in benchmarks.
    pub credentials: Option<BrokerCredentials>,
    /// Client name in the broker's connection list.
    pub name: String,
    /// Prefix for reply subjects that only this user may subscribe to.
    pub inbox_prefix: Option<String>,
    /// Delays between reconnection attempts.
    pub backoff: ReconnectBackoff,
    /// Whether the first connection is retried in the background too, as a daemon needs at boot.
    pub retry_first: bool,
    /// Messages that a subscription buffers before it drops.
    pub subscription_capacity: usize,
    /// Later addresses, which are used from the next attempt to connect on; see [`crate::BrokerFollower`].
    pub followed: Option<watch::Receiver<Vec<BrokerAddress>>>,
}

impl BusOptions {
    /// Settings of a command: fails at once without a broker.
    pub fn for_command(name: impl Into<String>, servers: Vec<BrokerAddress>) -> Self {
        Self {
            servers,
            authority: None,
            credentials: None,
            name: name.into(),
            inbox_prefix: None,
            backoff: ReconnectBackoff::COMMAND,
            retry_first: false,
            subscription_capacity: 65_536,
            followed: None,
        }
    }

    /// Settings of a daemon: retries without limit.
    pub fn for_daemon(name: impl Into<String>, servers: Vec<BrokerAddress>) -> Self {
        Self {
            backoff: ReconnectBackoff::DAEMON,
            retry_first: true,
            subscription_capacity: 4_096,
            ..Self::for_command(name, servers)
        }
    }

    /// Checks what [`Self::connect`] would refuse without a connection: the addresses and the file of the authority.
    pub fn check(&self) -> Result<()> {
        server_addresses(&self.servers)?;
        self.authority.as_deref().map(tls::config_trusting_file).transpose().map(drop)
    }

    /// Connects.
    pub async fn connect(self) -> Result<Bus> {
        let recorder = Arc::new(BusEventRecorder::new());
        let tap = Arc::new(ConnectionTap::new(Arc::clone(&recorder)));
        let mut options = self.client_options(&recorder, &tap)?;
        if self.retry_first {
            options = options.retry_on_initial_connect();
        }
        let client = self.connect_client(options, server_addresses(&self.servers)?).await?;
        let followed = self.followed.clone();
        let link = BusLink::new(self, recorder, client, tap);
        if let Some(addresses) = followed {
            tokio::spawn(relocation::follow_addresses(Arc::downgrade(&link), addresses));
        }
        Ok(Bus::new(link))
    }

    /// One more connection with the same settings, without further attempts.
    pub(crate) async fn connect_once(
        &self,
        addresses: Vec<async_nats::ServerAddr>,
        recorder: &Arc<BusEventRecorder>,
        tap: &Arc<ConnectionTap>,
    ) -> Result<async_nats::Client> {
        self.connect_client(self.client_options(recorder, tap)?, addresses).await
    }

    async fn connect_client(
        &self,
        options: async_nats::ConnectOptions,
        addresses: Vec<async_nats::ServerAddr>,
    ) -> Result<async_nats::Client> {
        options.connect(addresses).await.map_err(|error| BusError::Connect {
            servers: self.servers.iter().map(BrokerAddress::as_str).collect::<Vec<_>>().join(", "),
            problem: match error.kind() {
                // Signing is the only step that fails with this kind.
                ConnectErrorKind::Authentication => NOT_A_NONCE_MESSAGE.to_owned(),
                _ => error_chain(&error),
            },
        })
    }

    fn client_options(
        &self,
        recorder: &Arc<BusEventRecorder>,
        tap: &Arc<ConnectionTap>,
    ) -> Result<async_nats::ConnectOptions> {
        let (backoff, backoff_recorder) = (self.backoff, Arc::clone(recorder));
        let tap = Arc::clone(tap);
        let tls = self.servers.iter().any(|server| server.tls);
        let mut options = self
            .authentication_options()
            .name(&self.name)
            .require_tls(tls)
            .ping_interval(Duration::from_secs(20))
            .connection_timeout(Duration::from_secs(10))
            .subscription_capacity(self.subscription_capacity)
            .reconnect_delay_callback(move |attempt| {
                backoff
                    .delay_before_attempt(attempt, backoff_recorder.mark_connection().connects > 0)
            })
            .event_callback(move |event| {
                tap.handle_event(event);
                std::future::ready(())
            });
        if let Some(authority) = &self.authority {
            // Validated here for better error messages. The library gets the file and not a prepared configuration: with a
            // configuration it loads all system authorities at each connection (30 ms, 1 MiB), discards them, and fails to
            // connect if one of them cannot be read.
            tls::config_trusting_file(authority)?;
            options = options.add_root_certificates(authority.clone());
        }
        if let Some(prefix) = &self.inbox_prefix {
            options = options.custom_inbox_prefix(prefix);
        }
        if !tls {
            // A broker announces the addresses of its cluster. Without TLS, non-loopback addresses would be used in plain text.
            options = options.ignore_discovered_servers();
        }
        Ok(options)
    }

    /// Library options with credentials only.
    fn authentication_options(&self) -> async_nats::ConnectOptions {
        let Some(BrokerCredentials { token, sign }) = self.credentials.clone() else {
            return async_nats::ConnectOptions::new();
        };
        async_nats::ConnectOptions::with_auth_callback(move |nonce| {
            let auth = is_nonce(&nonce).then(|| {
                let mut auth = async_nats::Auth::new();
                auth.jwt = Some(token());
                auth.signature = Some(sign(&nonce));
                auth
            });
            async move { auth.ok_or_else(|| async_nats::AuthError::new(NOT_A_NONCE_MESSAGE)) }
        })
    }
}

/// The addresses for the client library.
pub(crate) fn server_addresses(servers: &[BrokerAddress]) -> Result<Vec<async_nats::ServerAddr>> {
    if servers.is_empty() {
        return Err(BusError::NoAddress);
    }
    let parse = |server: &BrokerAddress| {
        server.url.parse().map_err(|_| BusError::Address(server.url.clone()))
    };
    servers.iter().map(parse).collect()
}

/// Longest nonce that is signed, in bytes. NATS uses 15.
const MAX_NONCE_BYTES: usize = 64;

const NOT_A_NONCE_MESSAGE: &str = "the server requested a signature of data that is not a nonce, which no broker does; nothing was signed; \
check which server listens at this address before you connect again";

/// Whether the bytes look like a broker's nonce: letters, digits, `-`, `_`, `+`, `/` and `=`. The same key signs messages, and the
/// signed bytes of every message begin with a protocol name that has a dot, and a NUL. Signing arbitrary bytes would let a broker
/// forge messages.
fn is_nonce(bytes: &[u8]) -> bool {
    let is_nonce_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/=".contains(byte);
    (1..=MAX_NONCE_BYTES).contains(&bytes.len()) && bytes.iter().all(is_nonce_byte)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn plain_text_requires_loopback_and_permission() {
        assert!(BrokerAddress::parse("nats://127.0.0.1:4222", true).is_ok());
        assert!(BrokerAddress::parse("nats://[::1]:4222", true).is_ok());
        assert!(BrokerAddress::parse("nats://localhost:4222", true).is_ok());
        for (text, allowed) in [
            ("nats://127.0.0.1:4222", false),
            ("nats://broker:4222", true),
            ("nats://10.0.0.1:1", true),
        ] {
            let refused = BrokerAddress::parse(text, allowed);
            assert!(matches!(refused, Err(BusError::PlainText { .. })), "{text}: {refused:?}");
        }
    }

    /// Accepts a connection, announces `other` as another address of the cluster, and closes after the client's handshake.
    async fn announce(listener: &TcpListener, other: &str) -> bool {
        let (mut stream, _) = listener.accept().await.unwrap();
        let info = serde_json::json!({
            "server_id": "A", "server_name": "a", "host": "127.0.0.1", "port": 4222, "version": "2.15.1", "go": "go",
            "headers": true, "max_payload": 1024, "proto": 1, "client_id": 1, "connect_urls": [other],
        });
        let greeting = format!("INFO {info}\r\n");
        stream.write_all(greeting.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"PING\r\n") {
            if stream.read_buf(&mut said).await.unwrap() == 0 {
                return false;
            }
        }
        stream.write_all(b"PONG\r\n").await.unwrap();
        true
    }

    /// Such an address could belong to another machine, to which the client would connect in plain text.
    #[tokio::test]
    async fn addresses_announced_by_a_plain_text_broker_are_ignored() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let announced = other.local_addr().unwrap().to_string();
        let url = format!("nats://{}", broker.local_addr().unwrap());
        let server = BrokerAddress::parse(&url, true).unwrap();
        let connecting = BusOptions::for_command("test", vec![server]).connect();
        let (bus, greeted) = tokio::join!(connecting, announce(&broker, &announced));
        let _bus = bus.unwrap();
        assert!(greeted);
        // After each close, the client must reconnect to its configured address.
        for round in 0..8 {
            tokio::select! {
                greeted = announce(&broker, &announced) => assert!(greeted),
                contacted = other.accept() => panic!("round {round}: {contacted:?}"),
            }
        }
    }

    /// The broker, or an attacker in its place, claims to have no TLS: the client starts a TLS handshake and sends no token.
    #[tokio::test]
    async fn broker_without_tls_gets_no_credentials() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("tls://{}", broker.local_addr().unwrap());
        let mut options =
            BusOptions::for_command("test", vec![BrokerAddress::parse(&url, true).unwrap()]);
        options.credentials = Some(BrokerCredentials::new(|| "token".to_owned(), |_| vec![0; 64]));
        let answering = async {
            let (mut stream, _) = broker.accept().await.unwrap();
            let info = "INFO {\"server_id\":\"A\",\"server_name\":\"a\",\"host\":\"\",\"port\":1,\"version\":\"2.15.1\",\"go\":\"go\",\"headers\":true,\"max_payload\":1024,\"proto\":1,\"client_id\":1,\"nonce\":\"Z3VkZW4gdGFnIQ\"}\r\n";
            stream.write_all(info.as_bytes()).await.unwrap();
            let mut first = [0; 16];
            let count = stream.read(&mut first).await.unwrap();
            first[..count].to_vec()
        };
        let (refused, first) = tokio::join!(options.connect(), answering);
        assert!(refused.is_err());
        // 22 is the type of a TLS handshake record.
        assert_eq!(first.first(), Some(&22), "{first:?}");
    }

    #[test]
    fn nonce_is_short_base64_text() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-_+/=".contains(&byte);
            assert_eq!(is_nonce(&[b'a', byte, b'b']), plain, "{byte}");
        }
        for length in 0..200 {
            let short = (1..=MAX_NONCE_BYTES).contains(&length);
            assert_eq!(is_nonce(&vec![b'a'; length]), short, "{length}");
        }
    }

    #[test]
    fn host_and_port_are_separated() {
        for (text, host, port) in [
            ("broker", "broker", 4222),
            ("broker:1", "broker", 1),
            ("[::1]", "::1", 4222),
            ("[::1]:1", "::1", 1),
            ("::1", "::1", 4222),
        ] {
            let server = BrokerAddress::parse(text, false).unwrap();
            assert_eq!(server.host_and_port(4222), (host, port), "{text}");
        }
    }

    #[test]
    fn address_without_a_scheme_uses_tls() {
        assert_eq!(
            BrokerAddress::parse("broker:4222", false).unwrap().as_str(),
            "tls://broker:4222"
        );
        for text in ["", "http://broker", "tls://", "tls://user@broker", "a b"] {
            assert!(
                matches!(BrokerAddress::parse(text, true), Err(BusError::Address { .. })),
                "{text}"
            );
        }
    }
}
