//! Limits that follow the health of a server: each source is asked periodically, and its limit grows by one while all is well and is halved when it is not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use muster_api::base::{duration_millis, error_chain, unix_millis_now};
use muster_contract::nrpe::{CheckState, RecordedCheck};
use muster_directory::{DirectoryHandle, SelectedNode, ValuePath};
use muster_filter::NodeFilter;
use muster_http::build_client;
use muster_schedule::{AdaptiveLimit, HealthSample, HealthTarget, LimitChange};
use muster_wire::identity::{Identity, SubjectName};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::report::EventReporter;

/// The event that a limit changed.
const LIMIT_CHANGED: &str = "schedule_limit";
/// A request to a URL that takes longer than this multiple of the highest healthy latency is an error.
const TIMEOUT_FACTOR: u32 = 4;
const MIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Path of the scheduled checks in a node's record.
const CHECKS_PATH: &str = "state.checks.checks";

/// A section `[plugins.schedule.health.POOL]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "HealthTable")]
pub struct HealthOptions {
    source: HealthSource,
    /// Highest healthy latency, in milliseconds.
    latency_ms: u64,
    /// Bounds of the limit.
    min: u32,
    max: u32,
    /// Time between two measurements.
    interval: Duration,
}

#[derive(Debug, Clone)]
enum HealthSource {
    /// A URL. It is healthy if it replies with a status below 400 in time.
    Url { url: String, ca: Option<PathBuf> },
    /// Healthy if the check's hard state is OK.
    Check { node: Identity, check: String },
}

/// The section as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HealthTable {
    url: Option<String>,
    /// PEM file of the authorities of the URL's certificate; those of the machine if absent.
    ca: Option<PathBuf>,
    node: Option<Identity>,
    check: Option<String>,
    #[serde(default = "default_latency")]
    latency_ms: u64,
    #[serde(default = "default_min")]
    min: u32,
    max: u32,
    #[serde(default = "default_interval")]
    interval_seconds: u64,
}

impl TryFrom<HealthTable> for HealthOptions {
    type Error = &'static str;

    fn try_from(table: HealthTable) -> Result<Self, Self::Error> {
        let source = match (table.url, table.ca, table.node, table.check) {
            (Some(url), ca, None, None) => HealthSource::Url { url, ca },
            (None, None, Some(node), Some(check)) => HealthSource::Check { node, check },
            _ => {
                return Err("a health source has `url` and optionally `ca`, or `node` and `check`");
            }
        };
        let interval = Duration::from_secs(table.interval_seconds.max(1));
        let HealthTable { latency_ms, min, max, .. } = table;
        Ok(Self { source, latency_ms, min, max, interval })
    }
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

    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

/// Never returns.
pub(crate) async fn follow_health(
    pool: SubjectName,
    options: HealthOptions,
    directory: DirectoryHandle,
    limits: PoolLimits,
    reporter: EventReporter,
) {
    let target = HealthTarget { latency: options.latency_ms, errors: 0 };
    let mut adaptive = AdaptiveLimit::new(options.min, options.max);
    limits.set(&pool, adaptive.current());
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let measured = match &options.source {
            HealthSource::Url { url, ca } => {
                let timeout = Duration::from_millis(options.latency_ms);
                Some(request_url(url.clone(), ca.clone(), timeout).await)
            }
            HealthSource::Check { node, check } => read_check(&directory, node, check),
        };
        let Some((sample, problem)) = measured else { continue };
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
async fn request_url(
    url: String,
    ca: Option<PathBuf>,
    latency: Duration,
) -> (HealthSample, Option<String>) {
    let started = Instant::now();
    let timeout = latency.saturating_mul(TIMEOUT_FACTOR);
    let requested = tokio::task::spawn_blocking(move || {
        let client = build_client(timeout.max(MIN_TIMEOUT), ca.as_deref());
        let client = client.map_err(|error| error_chain(&error))?;
        let response = client.get(&url).call().map_err(|error| error.to_string())?;
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

/// Reads the hard state of a scheduled check. `None` until the directory has read all records, and while the check has no hard state.
fn read_check(
    directory: &DirectoryHandle,
    node: &Identity,
    check: &str,
) -> Option<(HealthSample, Option<String>)> {
    let filter = NodeFilter::default().with_identity(node.as_str()).ok()?;
    let selected =
        directory.select_nodes(&filter, &[ValuePath::parse(CHECKS_PATH).ok()?]).ok()??;
    let recorded = |node: &SelectedNode| {
        let value = node.values.get(CHECKS_PATH)?.get(check)?.clone();
        serde_json::from_value::<RecordedCheck>(value).ok()
    };
    let problem = match selected.first() {
        Some(found) if found.is_missing => Some(format!("the node {node} is missing")),
        Some(found) => match recorded(found) {
            Some(RecordedCheck { state: Some(CheckState::Ok), .. }) => None,
            Some(RecordedCheck { state: Some(state), .. }) => {
                Some(format!("the check {check} on {node} is {}", state.as_str()))
            }
            Some(RecordedCheck { state: None, .. }) => return None,
            None => Some(format!("the node {node} has no scheduled check {check}")),
        },
        None => Some(format!("the directory has no record of the node {node}")),
    };
    Some((HealthSample { latency: 0, errors: u32::from(problem.is_some()) }, problem))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{HealthOptions, HealthSource};

    fn parse(section: Value) -> Result<HealthOptions, String> {
        serde_json::from_value(section).map_err(|error| error.to_string())
    }

    #[test]
    fn source_is_a_url_or_a_check_of_a_node() {
        let url = parse(json!({"url": "http://localhost/", "max": 3})).unwrap();
        assert!(matches!(url.source, HealthSource::Url { .. }));
        let check = parse(json!({"node": "db1.example.net", "check": "load", "max": 3})).unwrap();
        assert!(matches!(check.source, HealthSource::Check { .. }));
        let incomplete = [
            json!({"max": 3}),
            json!({"check": "load", "max": 3}),
            json!({"ca": "/ca.pem", "node": "db1.example.net", "check": "load", "max": 3}),
            json!({"url": "http://localhost/", "node": "db1.example.net", "check": "load", "max": 3}),
        ];
        for section in incomplete {
            let error = parse(section).unwrap_err();
            assert_eq!(
                error,
                "a health source has `url` and optionally `ca`, or `node` and `check`"
            );
        }
    }
}
