//! HTTP endpoints for monitoring: `/metrics` for Prometheus, `/healthz`, `/readyz`.
//!
//! Disabled unless configured, contains no secrets, and changes nothing. Anyone who can reach the port may read; requests to the node go over the
//! broker only.

pub(crate) mod directory_metrics;
mod exposition;
pub(crate) mod history_metrics;
mod http;
mod page;
mod puppetdb_metrics;
pub(crate) mod sink_metrics;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use muster_agents::tunnel::TunnelHub;
use muster_api::{FindingLevel, HealthFinding, NodeHandle as _};
use muster_bus::Bus;
use muster_http::{HttpHandler, HttpRequest, HttpResponse, HttpStatus};
use muster_node::core::DaemonCore;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use directory_metrics::RunningDirectory;
use history_metrics::RunningHistory;
use sink_metrics::RunningSinks;

/// Delay before a port in use is tried again.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of pages rendered at once: rendering inspects disks, on threads that requests need as well.
const MAX_CONCURRENT_PAGES: usize = 2;
/// An error of one of these checks makes the node unready. The node can still reply under other errors: an invalid policy denies.
const READINESS_CHECKS: [&str; 3] = ["audit", "credentials", "disk"];

#[derive(Debug, Clone)]
pub(crate) struct MetricsContext {
    pub(crate) core: Arc<DaemonCore>,
    pub(crate) bus: Bus,
    pub(crate) tunnels: TunnelHub,
    /// The instance of the directory on this host, once it runs.
    pub(crate) directory: Arc<OnceLock<RunningDirectory>>,
    /// The instance of the history on this host, once it runs.
    pub(crate) history: Arc<OnceLock<RunningHistory>>,
    /// The sinks of this host.
    pub(crate) sinks: RunningSinks,
    /// Whether the daemon has subscribed.
    pub(crate) ready: Arc<AtomicBool>,
    /// Cancelled when the daemon is about to stop.
    pub(crate) stopping: CancellationToken,
}

/// Serves until dropped. A port that cannot be bound disables only the metrics: the error is logged, and binding is retried.
pub(crate) async fn serve_metrics(address: SocketAddr, context: MetricsContext) {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "metrics are readable without authentication from other machines");
    }
    let endpoints = Arc::new(MetricsEndpoints {
        context,
        pages: Arc::new(Semaphore::new(MAX_CONCURRENT_PAGES)),
    });
    let health = &endpoints.context.core.health;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                health.set_findings("metrics", FindingLevel::Warning, &[]);
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(%address, "serving metrics");
                return http::serve_http(listener, endpoints).await;
            }
            Err(error) => {
                let problem = format!("cannot serve metrics on {address}: {error}");
                tracing::error!("{problem}");
                health.set_findings("metrics", FindingLevel::Warning, &[problem]);
                tokio::time::sleep(BIND_RETRY_INTERVAL).await;
            }
        }
    }
}

#[derive(Debug)]
struct MetricsEndpoints {
    context: MetricsContext,
    pages: Arc<Semaphore>,
}

impl HttpHandler for MetricsEndpoints {
    async fn respond(&self, request: HttpRequest) -> HttpResponse {
        match request.path.as_str() {
            "/metrics" => {
                let page = self.run_blocking(page::render_page).await;
                page.map_or_else(internal_error, |text| {
                    HttpResponse::page(HttpStatus::Ok, exposition::CONTENT_TYPE, text)
                })
            }
            "/healthz" => HttpResponse::plain_text(HttpStatus::Ok, "ok\n"),
            "/readyz" => {
                let unready_reasons = |context: &MetricsContext| {
                    context.unready_reasons(&context.core.collect_findings())
                };
                self.run_blocking(unready_reasons)
                    .await
                    .map_or_else(internal_error, |reasons| readiness_response(&reasons))
            }
            _ => HttpResponse::plain_text(
                HttpStatus::NotFound,
                "not found; the available paths are /metrics, /healthz and /readyz\n",
            ),
        }
    }
}

impl MetricsEndpoints {
    /// Runs a function on a blocking thread, with limited concurrency. The permit is held until the function ends, even if the client disconnects.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MetricsContext) -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.pages).acquire_owned().await.ok()?;
        let context = self.context.clone();
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&context);
            drop(permit);
            result
        });
        task.await.ok()
    }
}

fn internal_error() -> HttpResponse {
    HttpResponse::plain_text(
        HttpStatus::InternalError,
        "internal error; see the log of the daemon\n",
    )
}

fn readiness_response(reasons: &[String]) -> HttpResponse {
    if reasons.is_empty() {
        return HttpResponse::plain_text(HttpStatus::Ok, "ready\n");
    }
    let lines = reasons.join("\n- ");
    HttpResponse::plain_text(HttpStatus::Unavailable, format!("not ready:\n- {lines}\n"))
}

impl MetricsContext {
    /// Why the node is not ready for requests.
    fn unready_reasons(&self, findings: &[HealthFinding]) -> Vec<String> {
        let connected = self.bus.is_connected();
        let states = [
            (self.stopping.is_cancelled(), "stopping"),
            (!connected, "not connected to the broker"),
            (connected && !self.ready.load(Ordering::Acquire), "not subscribed yet"),
        ];
        let states = states.into_iter().filter(|(applies, _)| *applies);
        let findings = findings.iter().filter(|finding| {
            finding.level == FindingLevel::Error && READINESS_CHECKS.contains(&finding.check)
        });
        states
            .map(|(_, state)| state.to_owned())
            .chain(findings.map(|finding| format!("{}: {}", finding.check, finding.message)))
            .collect()
    }
}
