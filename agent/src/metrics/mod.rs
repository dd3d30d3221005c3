//! How the daemon is, over HTTP, for those who watch machines: `/metrics` for Prometheus, `/healthz`, `/readyz`.
//!
//! It is off unless configured, tells no secrets, and changes nothing. Whoever reaches the port may read; requests to the node go
//! over the broker only.

mod exposition;
mod http;
mod page;
pub(crate) mod request_metrics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_api::{FindingLevel, HealthFinding, NodeHandle as _};
use muster_bus::Bus;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::core::DaemonCore;
use http::{HttpResponse, HttpStatus};

/// How long to wait before a port that was taken is tried again.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Pages that are made at once: making them looks at disks, on threads that requests need as well.
const MAX_CONCURRENT_PAGES: usize = 2;
/// Errors of these checks mean that a node should not be relied on. Others leave it able to answer: a policy that is refused denies.
const READINESS_CHECKS: [&str; 3] = ["audit", "credentials", "disk"];

/// What is looked at.
#[derive(Debug, Clone)]
pub struct MetricsContext {
    /// The daemon's state.
    pub core: Arc<DaemonCore>,
    /// Its connection.
    pub bus: Bus,
    /// Whether it has subscribed.
    pub ready: Arc<AtomicBool>,
    /// Cancelled when it is about to end.
    pub stopping: CancellationToken,
}

/// Serves until it is dropped. A port that cannot be had costs the metrics and nothing else: it is told, and tried again.
pub async fn serve_metrics(address: SocketAddr, shown: MetricsContext) {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "metrics are open to other machines: whoever reaches the port may read them");
    }
    let site = Arc::new(MetricsEndpoints {
        shown,
        pages: Arc::new(Semaphore::new(MAX_CONCURRENT_PAGES)),
    });
    let health = site.shown.core.health();
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                health.set_findings("metrics", FindingLevel::Warning, &[]);
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(%address, "metrics are served");
                return http::serve_http(listener, site).await;
            }
            Err(error) => {
                let problem = format!("metrics cannot be served on {address}: {error}");
                tracing::error!("{problem}");
                health.set_findings("metrics", FindingLevel::Warning, &[problem]);
                tokio::time::sleep(BIND_RETRY_INTERVAL).await;
            }
        }
    }
}

/// What there is to ask for.
#[derive(Debug)]
struct MetricsEndpoints {
    shown: MetricsContext,
    pages: Arc<Semaphore>,
}

impl http::HttpHandler for MetricsEndpoints {
    async fn answer_path(&self, path: &str) -> HttpResponse {
        match path {
            "/metrics" => {
                let page = self.run_blocking(page::render_page).await;
                page.map_or_else(internal_error, |text| HttpResponse {
                    content_type: exposition::CONTENT_TYPE,
                    ..HttpResponse::plain_text(HttpStatus::Ok, text)
                })
            }
            "/healthz" => HttpResponse::plain_text(HttpStatus::Ok, "ok\n"),
            "/readyz" => {
                let looked =
                    |shown: &MetricsContext| shown.unready_reasons(&shown.core.collect_findings());
                self.run_blocking(looked)
                    .await
                    .map_or_else(internal_error, |why| readiness_response(&why))
            }
            _ => HttpResponse::plain_text(
                HttpStatus::NotFound,
                "there are /metrics, /healthz and /readyz\n",
            ),
        }
    }
}

impl MetricsEndpoints {
    /// Makes something on a thread of its own, a few at a time. Whoever hangs up meanwhile does not make room for one more.
    async fn run_blocking<T: Send + 'static>(
        &self,
        look: impl FnOnce(&MetricsContext) -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.pages).acquire_owned().await.ok()?;
        let shown = self.shown.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let seen = look(&shown);
            drop(place);
            seen
        });
        looking.await.ok()
    }
}

fn internal_error() -> HttpResponse {
    HttpResponse::plain_text(
        HttpStatus::Broken,
        "this cannot be told now; the log may say why\n",
    )
}

fn readiness_response(why: &[String]) -> HttpResponse {
    if why.is_empty() {
        return HttpResponse::plain_text(HttpStatus::Ok, "ready\n");
    }
    let lines = why.join("\n- ");
    HttpResponse::plain_text(HttpStatus::Unavailable, format!("not ready:\n- {lines}\n"))
}

impl MetricsContext {
    /// Why requests would not be answered as they should be.
    fn unready_reasons(&self, findings: &[HealthFinding]) -> Vec<String> {
        let connected = self.bus.is_connected();
        let states = [
            (self.stopping.is_cancelled(), "stopping"),
            (!connected, "not connected to the broker"),
            (
                connected && !self.ready.load(Ordering::Acquire),
                "not subscribed yet",
            ),
        ];
        let states = states.into_iter().filter(|(is_so, _)| *is_so);
        let findings = findings.iter().filter(|finding| {
            finding.level == FindingLevel::Error && READINESS_CHECKS.contains(&finding.check)
        });
        states
            .map(|(_, state)| state.to_owned())
            .chain(findings.map(|finding| format!("{}: {}", finding.check, finding.message)))
            .collect()
    }
}
