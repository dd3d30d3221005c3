//! The pages of the API: who may read, and what is at each path.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use muster_api::ActionError;
use muster_contract::directory::{DirectoryListOutput, DirectoryShowOutput};
use muster_filter::MAX_QUERY_BYTES;
use muster_http::{ConnectionAdmission, HttpHandler, HttpRequest, HttpResponse, HttpStatus};
use muster_wire::status::ReplyStatus;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::api_metrics::DirectoryHttpMetrics;
use super::mounted::PageMount;
use super::openapi;
use super::parameters::ApiParameters;
use super::targets::{TargetGroup, target_group};
use super::tokens::TokenFile;
use super::watch::{self, WatchSource};
use crate::actions;
use crate::state::DirectoryHandle;

const JSON: &str = "application/json";
const NODE_LIST_PARAMETERS: [&str; 6] = ["q", "fields", "limit", "after", "stale", "documents"];
/// Connections of clients that may read: those on the socket, and those with a token.
const MAX_ADMITTED_CONNECTIONS: usize = 256;
/// Responses that are computed and written at once.
const MAX_REQUESTS: usize = 16;
/// Live queries at once.
const MAX_WATCHES: usize = 64;
/// Queries that are evaluated at once.
const MAX_QUERIES: usize = 4;
/// Events of live queries that are computed at once.
const MAX_WATCH_QUERIES: usize = 4;
/// Time to wait for one of these.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of a list of targets.
const MAX_TARGET_BYTES: usize = 16 * 1024 * 1024;

/// Limits of the whole API, over all sockets.
#[derive(Debug, Clone)]
pub(super) struct ApiLimits {
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    queries: Arc<Semaphore>,
    watch_queries: Arc<Semaphore>,
}

impl Default for ApiLimits {
    fn default() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            connections: semaphore(MAX_ADMITTED_CONNECTIONS),
            requests: semaphore(MAX_REQUESTS),
            watches: semaphore(MAX_WATCHES),
            queries: semaphore(MAX_QUERIES),
            watch_queries: semaphore(MAX_WATCH_QUERIES),
        }
    }
}

/// The API of one socket or address.
#[derive(Debug, Clone)]
pub(super) struct DirectoryApi {
    handle: DirectoryHandle,
    /// The tokens that are accepted. Without them, everyone who can connect may read.
    tokens: Option<Arc<TokenFile>>,
    limits: ApiLimits,
    mount: Option<PageMount>,
    metrics: Arc<DirectoryHttpMetrics>,
}

#[derive(Debug)]
pub(super) struct ApiConnection {
    api: DirectoryApi,
    admission: ConnectionAdmission,
    /// Held as long as the connection, once it is admitted.
    permit: OnceLock<OwnedSemaphorePermit>,
}

/// Why there is no page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    status: HttpStatus,
    message: String,
}

impl ApiError {
    pub(super) fn new(status: HttpStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn response(&self) -> HttpResponse {
        HttpResponse::page(self.status, JSON, json!({ "error": self.message }).to_string())
    }
}

impl From<String> for ApiError {
    fn from(message: String) -> Self {
        Self::new(HttpStatus::BadRequest, message)
    }
}

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        let status = match error.status {
            ReplyStatus::InvalidData => HttpStatus::BadRequest,
            _ => HttpStatus::InternalError,
        };
        Self::new(status, error.message)
    }
}

impl DirectoryApi {
    pub(super) fn new(
        handle: DirectoryHandle,
        tokens: Option<Arc<TokenFile>>,
        limits: ApiLimits,
        mount: Option<PageMount>,
        metrics: Arc<DirectoryHttpMetrics>,
    ) -> Self {
        Self { handle, tokens, limits, mount, metrics }
    }

    pub(super) fn connection(&self, admission: ConnectionAdmission) -> ApiConnection {
        ApiConnection { api: self.clone(), admission, permit: OnceLock::new() }
    }

    /// Most bytes of a POST: only mounted pages accept it.
    pub(super) fn max_body_bytes(&self) -> u64 {
        let limit = u64::try_from(MAX_QUERY_BYTES).unwrap_or(u64::MAX);
        if self.mount.is_some() { limit } else { 0 }
    }

    /// Whether the request has a known token, if tokens are required.
    fn is_authorized(&self, request: &HttpRequest) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        let header = request.authorization.as_deref().and_then(|text| text.split_once(' '));
        let bearer = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = bearer.map(|(_, token)| token).or(request.x_authentication.as_deref());
        let name = token.and_then(|token| tokens.name_of(token.trim()));
        if let Some(name) = &name {
            tracing::debug!(token = name, path = request.path, "the directory is read over HTTP");
        }
        name.is_some()
    }

    async fn respond(&self, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
        let mounted = self.mount.as_ref().and_then(|mount| mount.pages_at(&request.path));
        if let Some(pages) = mounted {
            let request = request.clone();
            return self.query("puppetdb", move |_| Ok(pages.answer(&request))).await;
        }
        if request.posted.is_some() {
            let message = "no page of the directory accepts POST";
            return Err(ApiError::new(HttpStatus::NotAllowed, message));
        }
        let segments = request.path_segments().map_err(|_| not_found())?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["v1", "openapi.json"] => page_of(&openapi::openapi_document()),
            ["v1", "watch"] => {
                let accepted = ["q", "fields", "last_event_id"];
                let parameters = ApiParameters::read(request, &accepted)?;
                let permit = permit(&self.limits.watches)?;
                let source = WatchSource {
                    handle: self.handle.clone(),
                    queries: Arc::clone(&self.limits.watch_queries),
                };
                watch::start_watch(source, request, parameters, permit).await
            }
            ["v1", "nodes"] => {
                let parameters = ApiParameters::read(request, &NODE_LIST_PARAMETERS)?;
                self.query("nodes", move |handle| page_of(&list_nodes(handle, parameters)?)).await
            }
            ["v1", "nodes", name] => {
                ApiParameters::read(request, &[])?;
                let name = (*name).to_owned();
                self.query("node", move |handle| page_of(&show_node(handle, &name)?)).await
            }
            ["v1", "facets"] => {
                let parameters = ApiParameters::read(request, &["q", "path", "stale"])?;
                let path = parameters.path.ok_or("path: missing; name a fact".to_owned())?;
                let query = parameters.query;
                self.query("facets", move |handle| {
                    page_of(&actions::facets(handle, &path, &query)?)
                })
                .await
            }
            ["v1", "http_sd"] => {
                let parameters = ApiParameters::read(request, &["q", "port", "label", "stale"])?;
                self.query("http_sd", move |handle| page_of(&targets(handle, parameters)?)).await
            }
            _ => Err(not_found()),
        }
    }

    /// Evaluates a query on a thread where it can take its time.
    async fn query(
        &self,
        page: &'static str,
        run: impl FnOnce(&DirectoryHandle) -> Result<HttpResponse, ApiError> + Send + 'static,
    ) -> Result<HttpResponse, ApiError> {
        if !self.handle.read().is_ready {
            return Err(not_ready());
        }
        let started = Instant::now();
        let busy = || ApiError::new(HttpStatus::Unavailable, "too many requests; try again later");
        let held = timeout(PERMIT_TIMEOUT, Arc::clone(&self.limits.requests).acquire_owned());
        let held = held.await.ok().and_then(Result::ok).ok_or_else(busy)?;
        let running = timeout(PERMIT_TIMEOUT, Arc::clone(&self.limits.queries).acquire_owned());
        let running = running.await.ok().and_then(Result::ok).ok_or_else(busy)?;
        let handle = self.handle.clone();
        let task = spawn_blocking(move || {
            let response = run(&handle);
            drop(running);
            response
        });
        let failed = |_| ApiError::new(HttpStatus::InternalError, "internal error; see the log");
        let response = task.await.map_err(failed)??;
        self.metrics.record_query(page, started.elapsed());
        Ok(HttpResponse { permit: Some(held), ..response })
    }
}

impl ApiConnection {
    pub(super) fn max_body_bytes(&self) -> u64 {
        self.api.max_body_bytes()
    }

    async fn page(&self, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
        if !self.api.is_authorized(request) {
            let message = "send a token: `Authorization: Bearer TOKEN`";
            return Err(ApiError::new(HttpStatus::Unauthorized, message));
        }
        // A connection that gets no permit still counts as one that newer ones close.
        let too_many = || ApiError::new(HttpStatus::Unavailable, "too many connections");
        let permit = Arc::clone(&self.api.limits.connections).try_acquire_owned();
        let _ = self.permit.set(permit.map_err(|_| too_many())?);
        if !self.admission.admit() {
            return Err(too_many());
        }
        self.api.respond(request).await
    }
}

impl HttpHandler for ApiConnection {
    async fn respond(&self, request: HttpRequest) -> HttpResponse {
        let page = self.page(&request).await;
        let response = page.unwrap_or_else(|error| error.response());
        self.api.metrics.record_response(response.status);
        response
    }
}

fn not_found() -> ApiError {
    ApiError::new(HttpStatus::NotFound, "no such page; /v1/openapi.json describes all pages")
}

/// An answer now would lack nodes.
pub(super) fn not_ready() -> ApiError {
    ApiError::new(
        HttpStatus::Unavailable,
        "the directory has not read all records yet; try again in some seconds",
    )
}

fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(semaphore).try_acquire_owned().map_err(|_| {
        ApiError::new(HttpStatus::Unavailable, format!("more than {MAX_WATCHES} live queries"))
    })
}

fn page_of(document: &impl Serialize) -> Result<HttpResponse, ApiError> {
    let text = serde_json::to_string(document)
        .map_err(|error| ApiError::new(HttpStatus::InternalError, error.to_string()))?;
    Ok(HttpResponse::page(HttpStatus::Ok, JSON, text))
}

fn list_nodes(
    handle: &DirectoryHandle,
    parameters: ApiParameters,
) -> Result<DirectoryListOutput, ApiError> {
    let ApiParameters { query, documents, .. } = parameters;
    Ok(actions::list(handle, &query, documents, Instant::now())?)
}

fn show_node(handle: &DirectoryHandle, name: &str) -> Result<DirectoryShowOutput, ApiError> {
    let unknown = || format!("the directory knows no node `{name}`");
    actions::show_known(handle, name)?.ok_or_else(|| ApiError::new(HttpStatus::NotFound, unknown()))
}

/// A page of the API about nodes for a service on the same host, which has no socket: its status and its document.
pub(super) fn answer_local(
    handle: &DirectoryHandle,
    path: &str,
    parameters: Vec<(String, String)>,
) -> (HttpStatus, Value) {
    let page = || {
        if !handle.read().is_ready {
            return Err(not_ready());
        }
        let request = HttpRequest { path: path.to_owned(), ..HttpRequest::default() };
        let segments = request.path_segments().map_err(|_| not_found())?;
        let document = match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["v1", "nodes"] => {
                let parameters = ApiParameters::of_pairs(parameters, &NODE_LIST_PARAMETERS)?;
                serde_json::to_value(list_nodes(handle, parameters)?)
            }
            ["v1", "nodes", name] => serde_json::to_value(show_node(handle, name)?),
            _ => return Err(not_found()),
        };
        document.map_err(|error| ApiError::new(HttpStatus::InternalError, error.to_string()))
    };
    match page() {
        Ok(document) => (HttpStatus::Ok, document),
        Err(error) => (error.status, json!({ "error": error.message })),
    }
}

/// All targets: Prometheus reads no pages.
fn targets(
    handle: &DirectoryHandle,
    parameters: ApiParameters,
) -> Result<Vec<TargetGroup>, ApiError> {
    let port = parameters.port.filter(|port| *port > 0);
    let port = port.ok_or("port: missing; name the port of the exporter".to_owned())?;
    let mut query = parameters.query;
    query.fields = parameters.labels.iter().map(|label| label.path.as_str().to_owned()).collect();
    let (mut groups, mut bytes) = (Vec::new(), 0);
    actions::for_each_row(handle, &query, |row, classes| {
        let group = target_group(&row, classes, port, &parameters.labels);
        bytes += serde_json::to_string(&group).map_or(0, |text| text.len());
        groups.push(group);
        bytes <= MAX_TARGET_BYTES
    })?;
    if bytes > MAX_TARGET_BYTES {
        let message = format!("more than {MAX_TARGET_BYTES} bytes of targets; add conditions to q");
        return Err(ApiError::new(HttpStatus::BadRequest, message));
    }
    Ok(groups)
}
