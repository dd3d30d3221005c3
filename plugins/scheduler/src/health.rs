//! Limits that follow the health of a server: each source is asked periodically, and its limit grows by one while all is well and is halved when it is not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use muster_api::base::{duration_millis, error_chain, unix_millis_now};
use muster_http::build_client;
use muster_schedule::{AdaptiveLimit, HealthSample, HealthTarget, LimitChange};
use muster_wire::identity::SubjectName;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::report::EventReporter;

/// The event that a limit changed.
const LIMIT_CHANGED: &str = "schedule_limit";
/// A request that takes longer than this multiple of the highest healthy latency is an error.
const TIMEOUT_FACTOR: u32 = 4;
/// Least time for a request.
const MIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A section `[plugins.schedule.health.POOL]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthOptions {
    /// The URL that is requested.
    pub url: String,
    /// PEM file of the authorities of its certificate; those of the machine if absent.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Highest healthy latency, in milliseconds.
    #[serde(default = "default_latency")]
    pub latency_ms: u64,
    /// Lower bound of the limit.
    #[serde(default = "default_min")]
    pub min: u32,
    /// Upper bound of the limit.
    pub max: u32,
    /// Seconds between two requests.
    #[serde(default = "default_interval")]
    pub interval_seconds: u64,
}

fn default_latency() -> u64 {
    1000
}

fn default_min() -> u32 {
    1
}

fn default_interval() -> u64 {
    10
}

/// The current limits of pools with a health source. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolLimits(Arc<LimitsInner>);

#[derive(Debug, Default)]
struct LimitsInner {
    limits: RwLock<BTreeMap<SubjectName, u32>>,
    changed: Notify,
}

impl PoolLimits {
    /// The limit of a pool; `None` without a health source.
    pub(crate) fn get(&self, pool: &SubjectName) -> Option<u32> {
        self.0.limits.read().unwrap_or_else(PoisonError::into_inner).get(pool).copied()
    }

    fn set(&self, pool: &SubjectName, limit: u32) {
        let mut limits = self.0.limits.write().unwrap_or_else(PoisonError::into_inner);
        limits.insert(pool.clone(), limit);
        drop(limits);
        self.0.changed.notify_one();
    }

    /// Waits until a limit changes.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

/// Follows the health of one pool's source. Never returns.
pub(crate) async fn follow_health(
    pool: SubjectName,
    options: HealthOptions,
    limits: PoolLimits,
    reporter: EventReporter,
) {
    let target = HealthTarget { latency: options.latency_ms, errors: 0 };
    let mut adaptive = AdaptiveLimit::new(options.min, options.max);
    limits.set(&pool, adaptive.current());
    let mut ticks = interval(Duration::from_secs(options.interval_seconds.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (sample, problem) = measure(options.clone()).await;
        let Some(change) = adaptive.observe(sample, target) else { continue };
        let LimitChange { from, to, reason } = change;
        let reason = problem.unwrap_or(reason);
        limits.set(&pool, to);
        tracing::info!(%pool, from, to, reason, "the limit of a pool changed");
        let text = format!("the limit of the pool {pool} is {to} instead of {from}: {reason}");
        let data = [
            ("pool", json!(pool)),
            ("from", json!(from)),
            ("to", json!(to)),
            ("reason", json!(reason)),
        ];
        reporter.publish(LIMIT_CHANGED, text, data.into(), unix_millis_now());
    }
}

/// Requests the URL once. A status of 400 and above is an error.
async fn measure(options: HealthOptions) -> (HealthSample, Option<String>) {
    let started = Instant::now();
    let timeout = Duration::from_millis(options.latency_ms).saturating_mul(TIMEOUT_FACTOR);
    let requested = tokio::task::spawn_blocking(move || {
        let client = build_client(timeout.max(MIN_TIMEOUT), options.ca.as_deref());
        let client = client.map_err(|error| error_chain(&error))?;
        let response = client.get(&options.url).call().map_err(|error| error.to_string())?;
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            return Err(format!("the health source replied with status {}", status.as_u16()));
        }
        Ok(())
    });
    let problem = match requested.await {
        Ok(Ok(())) => None,
        Ok(Err(problem)) => Some(problem),
        Err(error) => Some(error.to_string()),
    };
    let latency = duration_millis(started.elapsed());
    (HealthSample { latency, errors: u32::from(problem.is_some()) }, problem)
}
