//! The section `[plugins.gateway]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The port of Puppet Server, on all addresses.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8140);
const DEFAULT_CONNECTIONS: usize = 2000;

/// The section `[plugins.gateway]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayOptions {
    /// Whether this host serves released catalogs to Puppet's agents.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
    /// Address and port; port 8140 of all addresses if absent.
    pub listen: Option<SocketAddr>,
    /// The certificate chain of this server, as PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, as PEM.
    pub key: Option<PathBuf>,
    /// Puppet's certificate authority, as PEM.
    pub ca: Option<PathBuf>,
    /// The authority's revocation lists, as PEM.
    pub crl: Option<PathBuf>,
    /// Most connections at once; 2000 if absent.
    pub connections: Option<usize>,
}

/// Why the section cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not set; the gateway needs certificate, key, ca and crl")]
pub struct GatewayOptionsError(&'static str);

/// The files of the TLS settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
    pub(crate) crl: PathBuf,
}

impl GatewayOptions {
    pub(crate) fn address(&self) -> SocketAddr {
        self.listen.unwrap_or(DEFAULT_ADDRESS)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.unwrap_or(DEFAULT_CONNECTIONS).max(1)
    }

    pub(crate) fn files(&self) -> Result<TlsFiles, GatewayOptionsError> {
        let file = |name, path: &Option<PathBuf>| path.clone().ok_or(GatewayOptionsError(name));
        Ok(TlsFiles {
            certificate: file("certificate", &self.certificate)?,
            key: file("key", &self.key)?,
            ca: file("ca", &self.ca)?,
            crl: file("crl", &self.crl)?,
        })
    }
}

impl TlsFiles {
    pub(crate) fn paths(&self) -> [&Path; 4] {
        [&self.certificate, &self.key, &self.ca, &self.crl]
    }
}
