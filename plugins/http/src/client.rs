//! Requests to other servers: a client that verifies certificates, follows no redirects, and gives up after a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
#[error("cannot read the certificates in {}", path.display())]
pub struct CertificateFileError {
    pub path: PathBuf,
    #[source]
    pub source: std::io::Error,
}

/// A client for blocking requests. Certificates are verified with the authorities in `ca`, a PEM file, or those of this machine. A status is no error.
pub fn build_client(
    timeout: Duration,
    ca: Option<&Path>,
) -> Result<ureq::Agent, CertificateFileError> {
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(load_root_certificates(ca)?)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent("muster")
        .tls_config(tls);
    Ok(config.build().new_agent())
}

fn load_root_certificates(ca: Option<&Path>) -> Result<ureq::tls::RootCerts, CertificateFileError> {
    let certificates = match ca {
        Some(path) => {
            let failed = |source| CertificateFileError { path: path.to_owned(), source };
            let pem = std::fs::read(path).map_err(failed)?;
            let to_certificate = |item: Result<ureq::tls::PemItem<'static>, _>| match item {
                Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            };
            ureq::tls::parse_pem(&pem).filter_map(to_certificate).collect()
        }
        None => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned())
            .collect::<Vec<_>>(),
    };
    Ok(ureq::tls::RootCerts::Specific(Arc::new(certificates)))
}
