//! A machine as the user names it: `[NAME=][USER@]HOST`.

use std::net::IpAddr;
use std::str::FromStr;

use muster_wire::identity::Identity;

/// Longest destination, in bytes: a user name and a host name.
const MAX_DESTINATION_BYTES: usize = 300;

/// A machine that OpenSSH reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHost {
    /// The name of the node, if the user gave one.
    pub name: Option<Identity>,
    /// The destination for ssh: a host, or an alias of `ssh_config`, perhaps with a user.
    pub destination: String,
}

/// The text names no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteHostError {
    /// The destination is empty, too long, or has characters that ssh or a shell would interpret.
    #[error("`{0}` is not a host; use HOST, USER@HOST or NAME=HOST")]
    Destination(String),
    /// The name before `=` is no name of a node.
    #[error("`{0}` is not a name of a node")]
    Name(String),
}

impl FromStr for RemoteHost {
    type Err = RemoteHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = |text: &str| text.chars().take(100).collect::<String>();
        let (name, destination) = match text.split_once('=') {
            Some((name, destination)) => {
                let name = Identity::parse(name).map_err(|_| RemoteHostError::Name(shown(name)))?;
                (Some(name), destination)
            }
            None => (None, text),
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "@._-:".contains(c);
        let has_valid_parts = destination
            .rsplit_once('@')
            .map_or([destination, "user"], |(user, host)| [host, user])
            .iter()
            .all(|part| !part.is_empty() && !part.starts_with('-'));
        if destination.len() > MAX_DESTINATION_BYTES
            || !destination.chars().all(is_allowed)
            || !has_valid_parts
        {
            return Err(RemoteHostError::Destination(shown(destination)));
        }
        Ok(Self { name, destination: destination.to_owned() })
    }
}

impl RemoteHost {
    /// The host without the user.
    pub fn host(&self) -> &str {
        self.destination.rsplit_once('@').map_or(&self.destination, |(_, host)| host)
    }

    /// The name of the node: the given one, or the host if it is a full host name. `None` if the machine has to say it.
    pub fn node_name(&self) -> Option<Identity> {
        let host = self.host();
        let is_full = host.contains('.') && host.parse::<IpAddr>().is_err();
        self.name.clone().or_else(|| Identity::parse(host).ok().filter(|_| is_full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_an_optional_name_and_user() {
        let parse = |text: &str| text.parse::<RemoteHost>();
        let name = |text: &str| parse(text).unwrap().node_name().map(|name| name.to_string());
        assert_eq!(name("web1.acme.net").as_deref(), Some("web1.acme.net"));
        assert_eq!(name("root@web1.acme.net").as_deref(), Some("web1.acme.net"));
        assert_eq!(name("web1.acme.net=admin@10.0.0.5").as_deref(), Some("web1.acme.net"));
        assert_eq!(parse("web1=admin@10.0.0.5").unwrap().destination, "admin@10.0.0.5");
        // The machine says its full name.
        assert_eq!([name("web1"), name("10.0.0.5"), name("2001:db8::1")], [None, None, None]);
        for wrong in ["", "-oProxyCommand=x", "a b", "x@", "@x", "root@-x", "a;id", "$(id)", "*=x"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
