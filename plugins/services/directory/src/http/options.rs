//! The section `[plugins.directory.http]`, and the checks of its values.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::unistd::Group;
use serde::Deserialize;

/// The section `[plugins.directory.http]`. Without a socket and an address, there is no API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectoryHttpOptions {
    /// Path of a Unix socket. The permissions of the socket decide who may read.
    pub socket: Option<PathBuf>,
    /// The group that may use the socket, besides its owner.
    pub socket_group: Option<String>,
    /// Address and port for TLS.
    pub listen: Option<SocketAddr>,
    /// The certificate chain for `listen`, as PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, as PEM.
    pub key: Option<PathBuf>,
    /// Names and hashes of the tokens that `listen` accepts.
    pub tokens: Option<PathBuf>,
    /// Whether queries for a `PuppetDB` are answered, too.
    pub puppetdb: bool,
}

/// Why the section is not valid.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryHttpError {
    #[error(
        "[plugins.directory.http]: `listen` is set, but `{0}` is not; the API is served with TLS and tokens only, or on a `socket`"
    )]
    Missing(&'static str),
    #[error(
        "[plugins.directory.http]: `{key}` is set, but `{needs}` is not; set `{needs}`, or remove `{key}`"
    )]
    WithoutEffect {
        key: &'static str,
        /// The key that it belongs to.
        needs: &'static str,
    },
    #[error(
        "[plugins.directory.http]: `socket_group` is `{0}`, but this machine has no such group; create it, or name another one"
    )]
    Group(String),
    /// The key or the tokens may be read by others, or cannot be read.
    #[error("[plugins.directory.http]: `{key}`")]
    Secret {
        key: &'static str,
        #[source]
        source: muster_files::SecretFileError,
    },
    #[error("[plugins.directory.http]: the certificate in {} cannot be used: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error(transparent)]
    Tokens(#[from] super::tokens::TokenFileError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SocketOptions {
    pub(super) path: PathBuf,
    pub(super) group: Option<nix::unistd::Gid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsOptions<'a> {
    pub(super) address: SocketAddr,
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
    pub(super) tokens: &'a Path,
}

impl DirectoryHttpOptions {
    pub(super) fn socket(&self) -> Result<Option<SocketOptions>, DirectoryHttpError> {
        if self.puppetdb && self.socket.is_none() && self.listen.is_none() {
            return Err(DirectoryHttpError::WithoutEffect { key: "puppetdb", needs: "socket" });
        }
        let Some(path) = &self.socket else {
            return match &self.socket_group {
                Some(_) => {
                    Err(DirectoryHttpError::WithoutEffect { key: "socket_group", needs: "socket" })
                }
                None => Ok(None),
            };
        };
        let group = match &self.socket_group {
            Some(name) => match Group::from_name(name) {
                Ok(Some(group)) => Some(group.gid),
                _ => return Err(DirectoryHttpError::Group(name.clone())),
            },
            None => None,
        };
        Ok(Some(SocketOptions { path: path.clone(), group }))
    }

    /// What TLS needs, if there is an address.
    pub(super) fn tls(&self) -> Result<Option<TlsOptions<'_>>, DirectoryHttpError> {
        let files = [
            ("certificate", self.certificate.as_deref()),
            ("key", self.key.as_deref()),
            ("tokens", self.tokens.as_deref()),
        ];
        for (key, path) in files {
            if path.is_none() && self.listen.is_some() {
                return Err(DirectoryHttpError::Missing(key));
            }
        }
        match (self.listen, files) {
            (Some(address), [(_, Some(certificate)), (_, Some(key)), (_, Some(tokens))]) => {
                Ok(Some(TlsOptions { address, certificate, key, tokens }))
            }
            (Some(_), _) => Ok(None),
            (None, files) => match files.iter().find(|(_, path)| path.is_some()) {
                Some((key, _)) => Err(DirectoryHttpError::WithoutEffect { key, needs: "listen" }),
                None => Ok(None),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(options: &DirectoryHttpOptions) -> String {
        let socket = options.socket().map(drop).err();
        let error = socket.or_else(|| options.tls().map(drop).err());
        error.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn incomplete_options_are_refused_with_the_missing_key() {
        let none = DirectoryHttpOptions::default();
        assert_eq!(error_of(&none), "");
        let listen = Some("127.0.0.1:8443".parse().unwrap());
        let path = |text: &str| Some(PathBuf::from(text));
        for (options, expected) in [
            (DirectoryHttpOptions { listen, ..none.clone() }, "`certificate` is not"),
            (
                DirectoryHttpOptions {
                    listen,
                    certificate: path("/c"),
                    key: path("/k"),
                    ..none.clone()
                },
                "`tokens` is not",
            ),
            (DirectoryHttpOptions { key: path("/k"), ..none.clone() }, "`listen` is not"),
            (DirectoryHttpOptions { puppetdb: true, ..none.clone() }, "`socket` is not"),
            (
                DirectoryHttpOptions { socket_group: Some("root".into()), ..none.clone() },
                "`socket` is not",
            ),
            (
                DirectoryHttpOptions {
                    socket: path("/a.sock"),
                    socket_group: Some("no-such-group".into()),
                    ..none.clone()
                },
                "no such group",
            ),
        ] {
            let error = error_of(&options);
            assert!(error.contains(expected), "{error}");
        }
    }
}
