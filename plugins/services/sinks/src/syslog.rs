//! Syslog: messages of RFC 5424 to a server on this host, over a socket, UDP or TCP.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use muster_base::format_rfc3339;
use serde::Deserialize;

use crate::delivery_error::SinkDeliveryError;
use crate::event::{SinkEvent, SinkEventKind};

const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// `daemon`.
const FACILITY: u8 = 3;
const WARNING: u8 = 4;
const INFORMATIONAL: u8 = 6;
/// Longest name of a node in a message, by the RFC.
const MAX_HOST_LENGTH: usize = 255;

/// Where messages are sent to: a path, or `udp://` or `tcp://` with a loopback address and a port. Messages are not encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SyslogAddress {
    Socket(PathBuf),
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

/// The text is no address for messages.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no address of syslog on this host; use a path such as /dev/log, or udp://127.0.0.1:PORT or tcp://127.0.0.1:PORT. A syslog server on this host can pass messages on over TLS"
)]
pub struct SyslogAddressError(String);

impl Default for SyslogAddress {
    fn default() -> Self {
        Self::Socket(PathBuf::from("/dev/log"))
    }
}

impl TryFrom<String> for SyslogAddress {
    type Error = SyslogAddressError;

    fn try_from(text: String) -> Result<Self, SyslogAddressError> {
        let server = |server: &str| {
            server.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())
        };
        let found = match text.split_once("://") {
            Some(("udp", address)) => server(address).map(Self::Udp),
            Some(("tcp", address)) => server(address).map(Self::Tcp),
            None if text.starts_with('/') => Some(Self::Socket(PathBuf::from(&text))),
            _ => None,
        };
        found.ok_or(SyslogAddressError(text))
    }
}

impl fmt::Display for SyslogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Udp(server) => write!(f, "udp://{server}"),
            Self::Tcp(server) => write!(f, "tcp://{server}"),
        }
    }
}

impl SyslogAddress {
    /// Sends each message. TCP has a connection for each batch. Blocks.
    pub(crate) fn send(&self, messages: &[String]) -> Result<(), SinkDeliveryError> {
        let sent = match self {
            Self::Socket(path) => UnixDatagram::unbound().and_then(|socket| {
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                socket.connect(path)?;
                messages.iter().try_for_each(|text| socket.send(text.as_bytes()).map(drop))
            }),
            Self::Udp(server) => send_datagrams(*server, messages),
            Self::Tcp(server) => send_frames(*server, messages),
        };
        sent.map_err(|source| SinkDeliveryError::Syslog { address: self.to_string(), source })
    }
}

fn send_datagrams(server: SocketAddr, messages: &[String]) -> io::Result<()> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    messages.iter().try_for_each(|text| socket.send(text.as_bytes()).map(drop))
}

/// Each message after its length: RFC 6587, octet counting.
fn send_frames(server: SocketAddr, messages: &[String]) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, SEND_TIMEOUT)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    let frames = messages.iter().map(|text| format!("{} {text}", text.len()));
    stream.write_all(frames.collect::<String>().as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// One message: the event as JSON, from its node.
pub(crate) fn format_message(event: &SinkEvent) -> String {
    let is_bad = event.has_failed || event.kind == SinkEventKind::Gap;
    let priority = FACILITY * 8 + if is_bad { WARNING } else { INFORMATIONAL };
    let (time, kind) = (format_rfc3339(event.time), event.kind.as_str());
    let host = event.node.chars().filter(char::is_ascii_graphic).take(MAX_HOST_LENGTH);
    let host = Some(host.collect::<String>()).filter(|host| !host.is_empty());
    let host = host.as_deref().unwrap_or("-");
    format!("<{priority}>1 {time} {host} muster - {kind} - {}", event.document)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{SyslogAddress, format_message};
    use crate::event::SinkEvent;

    #[test]
    fn message_has_priority_time_node_and_document() {
        let document =
            json!({"event": "failed", "node": "web 1", "changed": 1_764_201_600_250_u64});
        let event = SinkEvent::of_provision(document);
        let message = format_message(&event);
        let start = "<28>1 2025-11-27T00:00:00.250Z web1 muster - provision - {\"@timestamp\":";
        assert!(message.starts_with(start), "{message}");
    }

    #[test]
    fn addresses_are_paths_or_ports_of_this_host() {
        for text in ["/dev/log", "udp://127.0.0.1:514", "tcp://[::1]:601"] {
            assert_eq!(SyslogAddress::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in
            ["", "log", "udp://127.0.0.1", "udp://192.0.2.1:514", "http://[::1]:80", "tcp://:1"]
        {
            assert!(SyslogAddress::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
