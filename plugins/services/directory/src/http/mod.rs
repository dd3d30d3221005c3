//! The read-only HTTP API of an instance, on a Unix socket, or with TLS and tokens. Off unless it is configured.
//!
//! Everything that a client sends meets a limit before it is parsed. Connections without a valid token never displace those with one; queries run on a few
//! threads of their own, so that the instance answers callers meanwhile.

mod api;
mod api_metrics;
mod certificate;
mod listeners;
mod mounted;
mod openapi;
pub(crate) mod options;
mod parameters;
mod targets;
mod tokens;
mod watch;

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use api_metrics::{DirectoryHttpMetrics, QueryTimes};
pub use mounted::{MountedPages, PageMount};
pub use openapi::openapi_document;
pub use options::{DirectoryHttpError, DirectoryHttpOptions};
pub use tokens::TokenFileError;

use crate::state::DirectoryHandle;
use api::{ApiLimits, DirectoryApi};
use certificate::CertificateFiles;
use options::SocketOptions;
use tokens::TokenFile;

pub struct DirectoryHttp {
    socket: Option<SocketOptions>,
    tls: Option<TlsEndpoint>,
    mount: Option<PageMount>,
    metrics: Arc<DirectoryHttpMetrics>,
}

struct TlsEndpoint {
    address: std::net::SocketAddr,
    certificate: CertificateFiles,
    tokens: Arc<TokenFile>,
}

impl std::fmt::Debug for DirectoryHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.tls.as_ref().map(|tls| tls.address);
        f.debug_struct("DirectoryHttp")
            .field("socket", &self.socket)
            .field("listen", &address)
            .finish_non_exhaustive()
    }
}

impl DirectoryHandle {
    /// Answers a path and parameters of the API about nodes, for a service on the same host: the status and the document.
    pub fn answer_query(&self, path: &str, parameters: Vec<(String, String)>) -> (u16, Value) {
        let (status, document) = api::answer_local(self, path, parameters);
        (status.number(), document)
    }
}

impl DirectoryHttp {
    /// Checks the options, and reads the certificate, its key and the tokens. Binds nothing.
    pub fn load(options: &DirectoryHttpOptions) -> Result<Self, DirectoryHttpError> {
        let socket = options.socket()?;
        let tls = match options.tls()? {
            Some(tls) => Some(TlsEndpoint {
                address: tls.address,
                certificate: CertificateFiles::load(tls.certificate, tls.key)?,
                tokens: Arc::new(TokenFile::load(tls.tokens)?),
            }),
            None => None,
        };
        let mount = options.puppetdb.then(PageMount::default);
        Ok(Self { socket, tls, mount, metrics: Arc::default() })
    }

    /// Where the pages of `PuppetDB` are mounted, if they are enabled.
    pub fn mount(&self) -> Option<PageMount> {
        self.mount.clone()
    }

    pub fn metrics(&self) -> Arc<DirectoryHttpMetrics> {
        Arc::clone(&self.metrics)
    }

    /// An address that cannot be bound disables only itself: the error is logged, and binding is tried again.
    pub async fn run_until_stopped(self, handle: DirectoryHandle, stop: CancellationToken) {
        let limits = ApiLimits::default();
        let api_for = |tokens| {
            let metrics = Arc::clone(&self.metrics);
            DirectoryApi::new(handle.clone(), tokens, limits.clone(), self.mount.clone(), metrics)
        };
        let on_socket = async {
            if let Some(socket) = &self.socket {
                listeners::serve_socket(socket, api_for(None)).await;
            }
        };
        let on_tls = async {
            if let Some(tls) = &self.tls {
                let api = api_for(Some(Arc::clone(&tls.tokens)));
                listeners::serve_tls(tls.address, &tls.certificate, api).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            ((), ()) = async { tokio::join!(on_socket, on_tls) } => {}
        }
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(&socket.path);
        }
    }
}
