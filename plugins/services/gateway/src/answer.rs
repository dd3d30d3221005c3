//! One request, one response: who may have what, and its form.

use std::sync::Arc;
use std::time::Duration;

use muster_base::error_chain;
use muster_catalogs::releases::ReleasedCatalog;
use muster_http::{HttpBody, HttpHandler, HttpRequest, HttpResponse, HttpStatus};
use muster_wire::catalog::content::{CHUNK_BYTES, ContentAddress, MAX_CHUNKS};
use muster_wire::catalog::has_secret;
use muster_wire::identity::Identity;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::catalog::make_paths_absolute;
use crate::certificate::GatewayCertificates;
use crate::error::{GatewayError, JSON};
use crate::plugins::{describe_plugin, describe_plugins, find_plugin};
use crate::releases::ReleaseReader;
use crate::route::GatewayRoute;

/// JSON with the types that only Puppet has. An agent that understands it says so.
const RICH_JSON: &str = "application/vnd.puppet.rich+json";
const BYTES: &str = "application/octet-stream";
const KIB: u64 = 1024;
/// Bytes of all responses that are in memory at once, in KiB.
const MAX_RESPONSE_KIB: u32 = 256 * 1024;
/// What a file of any size takes while it is passed on: its reader fetches this many bytes ahead.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Time for what is read from the broker, and for waiting until others are served. An agent waits for ten minutes, and does not ask again.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(4);

/// What all connections share.
pub(crate) struct Gateway {
    pub(crate) releases: ReleaseReader,
    memory: Arc<Semaphore>,
}

/// The handler of one connection.
pub(crate) struct GatewayConnection {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) certificates: Arc<GatewayCertificates>,
    /// Under which its certificate was verified.
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) client: Identity,
}

impl HttpHandler for GatewayConnection {
    async fn respond(&self, request: HttpRequest) -> HttpResponse {
        let answered = timeout(ANSWER_TIMEOUT, self.gateway.answer(&self.client, &request)).await;
        let answered = answered.unwrap_or(Err(GatewayError::Timeout));
        answered.unwrap_or_else(|error| error.response(&self.client))
    }

    /// After a change of the revocations, a client has to connect again.
    fn stays_open(&self) -> bool {
        Arc::ptr_eq(&self.config, &self.certificates.current())
    }
}

impl Gateway {
    pub(crate) fn new(releases: ReleaseReader) -> Self {
        let permits = usize::try_from(MAX_RESPONSE_KIB).unwrap_or(usize::MAX);
        Self { releases, memory: Arc::new(Semaphore::new(permits)) }
    }

    async fn answer(
        &self,
        client: &Identity,
        request: &HttpRequest,
    ) -> Result<HttpResponse, GatewayError> {
        let route = GatewayRoute::parse(request)?;
        route.check_node(client)?;
        match route {
            GatewayRoute::Status => Ok(HttpResponse::plain_text(HttpStatus::Ok, "running")),
            GatewayRoute::Node(_) => {
                let release = self.releases.read_release(client).await?;
                let node = json!({
                    "name": client, "environment": release.environment, "classes": {},
                    "parameters": {},
                });
                self.page(JSON, node.to_string()).await
            }
            GatewayRoute::Catalog(_) => {
                let form = catalog_form(request);
                let text = self.releases.read_catalog(client, write_catalog).await?;
                self.page(form, text).await
            }
            GatewayRoute::PluginList(mount, query) => {
                let list = self.releases.read_plugins(client).await?;
                self.page(JSON, describe_plugins(&list, mount, &query).to_string()).await
            }
            GatewayRoute::PluginMetadata(mount, path) => {
                let list = self.releases.read_plugins(client).await?;
                match describe_plugin(&list, mount, &path) {
                    Some(entry) => self.page(JSON, entry.to_string()).await,
                    None => Err(GatewayError::NoPlugin { node: client.clone(), path }),
                }
            }
            GatewayRoute::PluginContent(mount, path) => {
                let list = self.releases.read_plugins(client).await?;
                match find_plugin(&list, mount, &path) {
                    Some(file) => self.send_file(file).await,
                    None => Err(GatewayError::NoPlugin { node: client.clone(), path }),
                }
            }
            GatewayRoute::Content(file) => {
                if !self.releases.names_file(client, file).await? {
                    return Err(GatewayError::NotNamed { node: client.clone(), file });
                }
                self.send_file(file).await
            }
            // The daemon of the node reads the run from the files that Puppet writes.
            GatewayRoute::Report(_) => Ok(HttpResponse::page(HttpStatus::Ok, JSON, "[]")),
        }
    }

    async fn page(
        &self,
        content_type: &'static str,
        text: String,
    ) -> Result<HttpResponse, GatewayError> {
        let permit = self.reserve(u64::try_from(text.len()).unwrap_or(u64::MAX)).await?;
        let page = HttpResponse::page(HttpStatus::Ok, content_type, text);
        Ok(HttpResponse { permit: Some(permit), ..page })
    }

    /// Passes a file on while it is read.
    async fn send_file(&self, file: ContentAddress) -> Result<HttpResponse, GatewayError> {
        let limit = u64::try_from(CHUNK_BYTES * MAX_CHUNKS).unwrap_or(u64::MAX);
        let open = self.releases.content().open_file(file, limit).await?;
        let bytes = open.bytes();
        let permit = self.reserve(bytes.min(MAX_FILE_BYTES)).await?;
        let (sender, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            if let Err(error) = open.send_parts(sender).await {
                let error = error_chain(&error);
                tracing::warn!(%file, error, "a file was not sent to its end");
            }
        });
        let body = HttpBody::Sized { bytes, parts };
        let (status, records) = (HttpStatus::Ok, None);
        Ok(HttpResponse { status, content_type: BYTES, body, records, permit: Some(permit) })
    }

    /// Waits until the responses in memory leave room for this many bytes.
    async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, GatewayError> {
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX).min(MAX_RESPONSE_KIB);
        let permits = Arc::clone(&self.memory).acquire_many_owned(kib);
        permits.await.map_err(|_| GatewayError::Busy)
    }
}

fn catalog_form(request: &HttpRequest) -> &'static str {
    let accepts_rich = request.accept.as_deref().is_some_and(|accept| accept.contains(RICH_JSON));
    if accepts_rich { RICH_JSON } else { JSON }
}

fn write_catalog(mut released: ReleasedCatalog) -> Result<String, GatewayError> {
    make_paths_absolute(&mut released.catalog);
    let catalog = Value::Object(released.catalog);
    if has_secret(&catalog) {
        return Err(GatewayError::Secrets(released.statement.node));
    }
    Ok(catalog.to_string())
}
