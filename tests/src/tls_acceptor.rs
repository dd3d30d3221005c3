//! TLS for servers of tests, which ask for a certificate of the client and accept clients without one.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// An acceptor with a certificate and a key in this directory; `ca.pem` is the authority of clients.
pub fn build_tls_acceptor(directory: &Path, certificate: &str, key: &str) -> TlsAcceptor {
    let load = |name: &str| CertificateDer::from_pem_file(directory.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(load("ca.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
    let key = PrivateKeyDer::from_pem_file(directory.join(key)).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![load(certificate)], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
