//! How the daemon is, over HTTP, for those who watch machines: `/metrics` for Prometheus, `/healthz`, `/readyz`.
//!
//! It is off unless configured, tells no secrets, and changes nothing. Whoever reaches the port may read; requests to the node go
//! over the broker only.

mod exposition;
mod http;
mod page;
pub(crate) mod tally;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_api::{Finding, Level, Node as _};
use muster_bus::Bus;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use http::{Answer, Status};

/// How long to wait before a port that was taken is tried again.
const TAKEN: Duration = Duration::from_secs(30);
/// Pages that are made at once: making them looks at disks, on threads that requests need as well.
const PAGES: usize = 2;
/// Errors of these checks mean that a node should not be relied on. Others leave it able to answer: a policy that is refused denies.
const HINDRANCES: [&str; 3] = ["audit", "credentials", "disk"];

/// What is looked at.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The daemon's state.
    pub core: Arc<Core>,
    /// Its connection.
    pub bus: Bus,
    /// Whether it has subscribed.
    pub ready: Arc<AtomicBool>,
    /// Cancelled when it is about to end.
    pub stopping: CancellationToken,
}

/// Serves until it is dropped. A port that cannot be had costs the metrics and nothing else: it is told, and tried again.
pub async fn serve(address: SocketAddr, shown: Shown) {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "metrics are open to other machines: whoever reaches the port may read them");
    }
    let site = Arc::new(Site {
        shown,
        pages: Arc::new(Semaphore::new(PAGES)),
    });
    let health = site.shown.core.health();
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                health.set("metrics", Level::Warning, &[]);
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(%address, "metrics are served");
                return http::serve(listener, site).await;
            }
            Err(error) => {
                let problem = format!("metrics cannot be served on {address}: {error}");
                tracing::error!("{problem}");
                health.set("metrics", Level::Warning, &[problem]);
                tokio::time::sleep(TAKEN).await;
            }
        }
    }
}

/// What there is to ask for.
#[derive(Debug)]
struct Site {
    shown: Shown,
    pages: Arc<Semaphore>,
}

impl http::Site for Site {
    async fn answer(&self, path: &str) -> Answer {
        match path {
            "/metrics" => {
                let page = self.look(page::page).await;
                page.map_or_else(broken, |text| Answer {
                    content_type: exposition::CONTENT_TYPE,
                    ..Answer::text(Status::Ok, text)
                })
            }
            "/healthz" => Answer::text(Status::Ok, "ok\n"),
            "/readyz" => {
                let looked = |shown: &Shown| shown.hindrances(&shown.core.findings());
                self.look(looked)
                    .await
                    .map_or_else(broken, |why| readiness(&why))
            }
            _ => Answer::text(
                Status::NotFound,
                "there are /metrics, /healthz and /readyz\n",
            ),
        }
    }
}

impl Site {
    /// Makes something on a thread of its own, a few at a time. Whoever hangs up meanwhile does not make room for one more.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Shown) -> T + Send + 'static,
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

fn broken() -> Answer {
    Answer::text(
        Status::Broken,
        "this cannot be told now; the log may say why\n",
    )
}

fn readiness(why: &[String]) -> Answer {
    if why.is_empty() {
        return Answer::text(Status::Ok, "ready\n");
    }
    let lines = why.join("\n- ");
    Answer::text(Status::Unavailable, format!("not ready:\n- {lines}\n"))
}

impl Shown {
    /// Why requests would not be answered as they should be.
    fn hindrances(&self, findings: &[Finding]) -> Vec<String> {
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
        let findings = findings
            .iter()
            .filter(|finding| finding.level == Level::Error && HINDRANCES.contains(&finding.check));
        states
            .map(|(_, state)| state.to_owned())
            .chain(findings.map(|finding| format!("{}: {}", finding.check, finding.message)))
            .collect()
    }
}
