//! TLS with Puppet's certificates: those of this server, and whose certificates are accepted. Files are read again when one of them changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_base::error_chain;
use muster_files::files::{FileAccessError, read_text};
use muster_files::{ReloadedFiles, SecretFileError, SecretOwner, read_secret};
use muster_wire::identity::Identity;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::options::{GatewayOptions, GatewayOptionsError, TlsFiles};

const MAX_PEM_BYTES: u64 = 16 * 1024 * 1024;
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// Why connections cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum GatewayCertificateError {
    #[error(transparent)]
    Options(#[from] GatewayOptionsError),
    #[error(transparent)]
    Access(#[from] FileAccessError),
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("cannot use {}: {problem}", path.display())]
    Pem { path: PathBuf, problem: String },
    #[error("cannot use certificate and key")]
    Tls(#[from] rustls::Error),
    #[error("cannot use ca and crl")]
    Verifier(#[from] VerifierBuilderError),
}

pub(crate) struct GatewayCertificates {
    files: TlsFiles,
    config: ReloadedFiles<Arc<ServerConfig>>,
}

impl GatewayCertificates {
    pub(crate) fn load(options: &GatewayOptions) -> Result<Self, GatewayCertificateError> {
        let files = options.files()?;
        let config = ReloadedFiles::load(&files.paths(), || read_config(&files))?;
        Ok(Self { files, config })
    }

    /// What a new connection uses. While changed files cannot be used, it is the last one that could.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.config.current(
            || read_config(&self.files),
            |read| match read {
                Ok(()) => tracing::info!("the gateway uses new certificates or revocations"),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "the gateway keeps its last certificates and revocations: the new ones cannot be used");
                }
            },
        )
    }
}

fn read_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, GatewayCertificateError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for root in read_pem::<CertificateDer<'static>>(&files.ca)? {
        roots.add(root)?;
    }
    // A certificate whose issuer has no list here is refused.
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .with_crls(read_pem::<CertificateRevocationListDer<'static>>(&files.crl)?)
            .only_check_end_entity_revocation()
            .build()?;
    let chain = read_pem(&files.certificate)?;
    let key = read_secret(&files.key, SecretOwner::Puppet, MAX_KEY_BYTES)?;
    // The parser's message could quote the key.
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| pem_error(&files.key, "it contains no private key in PEM format"))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    // Before it sends another request, the HTTP client of Ruby 3.1 reads a ticket that waits, and then blocks.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn read_pem<T: PemObject>(path: &Path) -> Result<Vec<T>, GatewayCertificateError> {
    let text = read_text(path, MAX_PEM_BYTES)?;
    let items: Result<Vec<T>, _> = T::pem_slice_iter(text.as_bytes()).collect();
    let items = items.map_err(|error| pem_error(path, &error.to_string()))?;
    if items.is_empty() {
        return Err(pem_error(path, "it has no such object in PEM format"));
    }
    Ok(items)
}

fn pem_error(path: &Path, problem: &str) -> GatewayCertificateError {
    GatewayCertificateError::Pem { path: path.to_owned(), problem: problem.to_owned() }
}

/// The node that a verified certificate is for: its one common name.
pub(crate) fn certificate_node(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    if names.next().is_some() {
        return None;
    }
    Identity::parse(name).ok()
}
