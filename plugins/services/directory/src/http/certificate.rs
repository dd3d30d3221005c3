//! The certificate of the API and its key. Both files are read again when one of them changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::base::error_chain;
use muster_files::{ReloadedFiles, SecretOwner, read_secret};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::options::DirectoryHttpError;

const MAX_KEY_BYTES: u64 = 64 * 1024;

pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    acceptor: ReloadedFiles<TlsAcceptor>,
}

impl CertificateFiles {
    pub(super) fn load(certificate: &Path, key: &Path) -> Result<Self, DirectoryHttpError> {
        let read = || read_acceptor(certificate, key);
        let acceptor = ReloadedFiles::load(&[certificate, key], read)?;
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), acceptor })
    }

    /// What a new connection uses.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let path = self.certificate.display();
        self.acceptor.current(
            || read_acceptor(&self.certificate, &self.key),
            |read| match read {
                Ok(()) => tracing::info!(%path, "the directory uses a new certificate"),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(%path, error, "the directory keeps its last certificate: the new one cannot be used");
                }
            },
        )
    }
}

fn read_acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, DirectoryHttpError> {
    let failed = |error: &dyn std::fmt::Display| DirectoryHttpError::Certificate {
        path: certificate.to_owned(),
        reason: error.to_string(),
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&error))?;
    let key = read_secret(key, SecretOwner::Daemon, MAX_KEY_BYTES)
        .map_err(|source| DirectoryHttpError::Secret { key: "key", source })?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    Ok(TlsAcceptor::from(Arc::new(config.map_err(|error| failed(&error))?)))
}
