//! The certificate of the API and its key. Both files are read again when one of them changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use muster_api::base::error_chain;
use muster_files::FileStamp;
use muster_files::{SecretOwner, read_secret};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::options::DirectoryHttpError;

const MAX_KEY_BYTES: u64 = 64 * 1024;

pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    known: Mutex<KnownCertificate>,
}

/// The versions of the files that were read last, and what new connections use.
struct KnownCertificate {
    versions: [Option<FileStamp>; 2],
    acceptor: TlsAcceptor,
}

impl CertificateFiles {
    pub(super) fn load(certificate: &Path, key: &Path) -> Result<Self, DirectoryHttpError> {
        let versions = [FileStamp::read(certificate), FileStamp::read(key)];
        let acceptor = read_acceptor(certificate, key)?;
        let known = Mutex::new(KnownCertificate { versions, acceptor });
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), known })
    }

    /// What a new connection uses. While changed files cannot be used, for example because only one of them was replaced yet, it is the last certificate that could.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = [FileStamp::read(&self.certificate), FileStamp::read(&self.key)];
        if known.versions != versions {
            known.versions = versions;
            let path = self.certificate.display();
            match read_acceptor(&self.certificate, &self.key) {
                Ok(acceptor) => {
                    known.acceptor = acceptor;
                    tracing::info!(%path, "the directory uses a new certificate");
                }
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(%path, error, "the directory keeps its last certificate: the new one cannot be used");
                }
            }
        }
        known.acceptor.clone()
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
