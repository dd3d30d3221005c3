//! An address of a server: host and optional port, as in options of `rpc broker config`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::authority::is_host;

/// A host name or IP address with an optional port. An IPv6 address with a port is in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: Option<u16>,
}

/// The text is not an address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an address of a server; write HOST or HOST:PORT, and an IPv6 address with a port as [ADDRESS]:PORT"
)]
pub struct ServerAddressError(String);

impl ServerAddress {
    /// The address `HOST:PORT`, with this port unless the address has one.
    pub fn with_default_port(&self, port: u16) -> String {
        let port = self.port.unwrap_or(port);
        if self.host.parse::<Ipv6Addr>().is_ok() {
            return format!("[{}]:{port}", self.host);
        }
        format!("{}:{port}", self.host)
    }
}

impl FromStr for ServerAddress {
    type Err = ServerAddressError;

    fn from_str(text: &str) -> Result<Self, ServerAddressError> {
        let invalid = || ServerAddressError(text.chars().take(80).collect());
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(invalid)?)),
            None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
        if !is_host(host) || port == Some(None) {
            return Err(invalid());
        }
        Ok(Self { host: host.to_owned(), port: port.flatten() })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => f.write_str(&self.with_default_port(port)),
            None => f.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;

    #[test]
    fn addresses_have_a_host_and_optionally_a_port() {
        for (text, expected) in [
            ("broker1.acme.net", "broker1.acme.net:6222"),
            ("10.0.0.1:7000", "10.0.0.1:7000"),
            ("::1", "[::1]:6222"),
            ("[2001:db8::1]:7000", "[2001:db8::1]:7000"),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!(address.with_default_port(6222), expected);
        }
        for bad in ["", ":6222", "a:", "a:0", "a:70000", "tls://a:1", "[::1]7000", "a:1:2", "a b"] {
            let error = bad.parse::<ServerAddress>().unwrap_err();
            assert!(error.to_string().contains("HOST:PORT"), "{bad}");
        }
    }
}
