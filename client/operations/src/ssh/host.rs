//! Addresses that may be given to OpenSSH: IP addresses and host names, and nothing that it could take for an option or a shell for a command.

use std::fmt;
use std::net::IpAddr;

use muster_wire::identity::Identity;
use serde_json::Value;

/// What names of the own machine begin with.
const LOCAL_LABELS: [&str; 3] = ["localhost", "ip6-localhost", "ip6-loopback"];

/// An IP address or a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAddress(String);

/// Why a value is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshAddressError {
    /// The node has no such fact.
    #[error("the node has no such fact")]
    Missing,
    /// The value is neither an IP address nor a host name.
    #[error("{0:?} is neither an IP address nor a host name")]
    Invalid(String),
    /// The address is that of the machine which connects.
    #[error("{0:?} is the machine itself that connects, and not a node")]
    Local(String),
}

impl SshAddress {
    /// The name of a node: its grammar is that of host names.
    pub fn of_node(node: &Identity) -> Self {
        Self(node.to_string())
    }

    /// Reads an address from a fact. Nodes set their own facts, so the value is checked.
    pub fn from_fact(value: Option<&Value>) -> Result<Self, SshAddressError> {
        let invalid =
            |value: &Value| SshAddressError::Invalid(value.to_string().chars().take(80).collect());
        match value {
            None => Err(SshAddressError::Missing),
            Some(Value::String(text)) => Self::parse(text),
            Some(other) => Err(invalid(other)),
        }
    }

    fn parse(text: &str) -> Result<Self, SshAddressError> {
        // A name has the grammar of identities: letters, digits, `-` and `_` in labels that neither begin nor end with `-`.
        if let Ok(address) = text.parse::<IpAddr>() {
            let plain = address.to_canonical();
            if plain.is_loopback() || plain.is_unspecified() {
                return Err(SshAddressError::Local(text.to_owned()));
            }
            return Ok(Self(address.to_string()));
        }
        let invalid = || SshAddressError::Invalid(text.chars().take(80).collect());
        let name = Identity::parse(text).map_err(|_| invalid())?;
        let (first, last) = (name.as_str().split('.').next(), name.as_str().rsplit('.').next());
        // For the C library, `127.1` and `0x7f000001` are addresses.
        if last.is_some_and(is_number) {
            return Err(invalid());
        }
        if first.is_some_and(|label| LOCAL_LABELS.contains(&label)) || last == Some("localhost") {
            return Err(SshAddressError::Local(name.to_string()));
        }
        Ok(Self::of_node(&name))
    }

    /// The address as scp writes it before a path: IPv6 in brackets.
    pub(super) fn before_path(&self) -> String {
        if self.0.contains(':') { format!("[{}]", self.0) } else { self.0.clone() }
    }
}

/// Whether the label of a name is a number for the C library, which knows hexadecimal ones, too.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => label.bytes().all(|b| b.is_ascii_digit()),
    }
}

impl fmt::Display for SshAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_and_names_are_accepted() {
        for (text, expected) in [
            ("10.0.0.7", "10.0.0.7"),
            ("2001:DB8::1", "2001:db8::1"),
            ("db1.acme.net", "db1.acme.net"),
            ("DB1", "db1"),
            ("2db", "2db"),
        ] {
            assert_eq!(SshAddress::from_fact(Some(&json!(text))).unwrap().to_string(), expected);
        }
        assert_eq!(SshAddress::parse("2001:db8::1").unwrap().before_path(), "[2001:db8::1]");
    }

    /// Part of the table of injections: a node sets its own facts.
    #[test]
    fn a6_4_facts_that_are_no_address_are_refused() {
        for value in [
            json!("-oProxyCommand=touch /tmp/owned"),
            json!("--"),
            json!("db1;reboot"),
            json!("$(reboot)"),
            json!("`reboot`"),
            json!("db1 db2"),
            json!("root@db1"),
            json!("db1\nHost *"),
            json!("db1:22"),
            json!("fe80::1%eth0"),
            json!("\u{1b}[31mdb1"),
            json!("%h"),
            json!(""),
            json!("."),
            json!("127.1"),
            json!("2130706433"),
            json!("0x7f000001"),
            json!(7),
            json!(["10.0.0.7"]),
            json!(null),
        ] {
            let refused = SshAddress::from_fact(Some(&value));
            assert!(matches!(refused, Err(SshAddressError::Invalid(_))), "{value}: {refused:?}");
        }
        assert_eq!(SshAddress::from_fact(None), Err(SshAddressError::Missing));
        for text in [
            "127.0.0.1",
            "127.7.7.7",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "localhost",
            "LocalHost.",
            "localhost.localdomain",
            "db1.localhost",
            "ip6-loopback",
        ] {
            let refused = SshAddress::from_fact(Some(&json!(text)));
            assert!(matches!(refused, Err(SshAddressError::Local(_))), "{text}: {refused:?}");
        }
    }
}
