//! TLS to the broker: rustls, always verified, with the organisation's own authority if configured.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::error::{BusError, Result};

/// A client configuration that trusts only the certificates in a PEM file.
pub(crate) fn config_trusting_file(authority: &Path) -> Result<ClientConfig> {
    let to_error = |problem: &dyn Display| BusError::Authority {
        path: authority.to_owned(),
        problem: problem.to_string(),
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(authority).map_err(|error| to_error(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| to_error(&error))?;
        roots.add(certificate).map_err(|error| to_error(&error))?;
    }
    if roots.is_empty() {
        return Err(to_error(&"the file contains no PEM certificate"));
    }
    client_config(roots).map_err(|error| to_error(&error))
}

/// A client configuration that trusts the system's trust store.
pub(crate) fn config_trusting_system() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    client_config(roots)
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    // Passed explicitly rather than installed as the process default: a library must not change global state.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
