//! The connection to the fleet for commands: connects and discovers nodes. Shows progress; renders no results.

use muster_base::unix_millis_now;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_client::{
    BrokerAddress, CallStats, CallTarget, Client, ClientError, DiscoveryMethod, DiscoverySource,
    DiscoveryWindow, ReceivedReply, RpcCall,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::trace::TraceContext;

use super::error::FleetRequestError;
use super::interrupt::InterruptListener;
use super::locate::locate_nodes;
use super::progress::ProgressReporter;
use super::target::TargetSelection;
use super::token_cache::PersistentTokenCache;
use crate::report::{RequestStats, ResultGap};
use crate::settings::RpcSettings;

/// A connection to the fleet.
#[derive(Debug)]
pub struct FleetConnection {
    pub(super) client: Client,
    /// Saves verified tokens for the next command.
    _token_cache: PersistentTokenCache,
    /// Maximum wait for the first node.
    pub(super) listen: Duration,
    /// Discovery source.
    source: DiscoverySource,
    /// Whether sensitive inputs are sent unencrypted.
    pub(super) plain_secrets: bool,
}

/// The discovered nodes.
#[derive(Debug, Default)]
pub struct DiscoveredNodes {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// Statistics of the discovery.
    pub stats: RequestStats,
}

/// Target and options of a ping.
#[derive(Debug, Clone, Copy)]
pub struct PingRequest<'a> {
    /// The target.
    pub target: &'a TargetSelection,
    /// Stop after this many replies.
    pub expect: Option<usize>,
    /// The trace context of the ping; if set, nodes report the duration of each of their stages.
    pub traceparent: Option<TraceContext>,
}

impl DiscoveredNodes {
    /// Creates a result from named nodes, without discovery.
    pub fn from_names(nodes: BTreeSet<Identity>) -> Self {
        let stats = RequestStats { started: unix_millis_now(), ..RequestStats::default() };
        Self { nodes, stats }
    }
}

impl FleetConnection {
    /// Connects as configured; the target's own collective, listening time and discovery source take precedence.
    pub async fn connect(
        settings: &RpcSettings,
        target: &TargetSelection,
    ) -> Result<Self, FleetRequestError> {
        let source = target.discovery_source(Some(settings))?;
        let servers = settings
            .urls
            .iter()
            .map(|url| BrokerAddress::parse(url, settings.plaintext_on_loopback));
        let servers = servers.collect::<Result<_, _>>().map_err(ClientError::from)?;
        let window = discovery_window(settings, target);
        let client = Client::connect(muster_client::ClientSettings {
            servers,
            authority: settings.ca.clone(),
            credentials: settings.credentials.clone(),
            operator: settings.operator.to_string(),
            account: settings.account.clone(),
            collective: target.collective.clone().unwrap_or_else(|| settings.collective.clone()),
            window,
        });
        let client = client.await?;
        Ok(Self {
            _token_cache: PersistentTokenCache::load_for_client(client.clone(), settings),
            client,
            listen: window.initial_wait,
            source,
            plain_secrets: settings.plain_secrets,
        })
    }

    /// The collective that requests are sent to.
    pub fn collective(&self) -> &SubjectName {
        self.client.collective()
    }

    /// The discovery method.
    pub fn discovery_method(&self) -> DiscoveryMethod {
        self.source.method()
    }

    /// Pings the target, and shows each reply as it arrives. Returns whether no reply was lost.
    pub async fn ping(
        &self,
        target: &TargetSelection,
        progress: &ProgressReporter<'_>,
        show: impl FnMut(&ReceivedReply),
    ) -> Result<bool, FleetRequestError> {
        let ping = PingRequest { target, expect: None, traceparent: None };
        let stats = self.ping_with_stats(ping, progress, show).await?;
        Ok(stats.is_none_or(|stats| stats.incomplete.is_none()))
    }

    /// Pings the target with these options, and shows each reply as it arrives. Returns the statistics; `None` if there was no target node.
    pub async fn ping_with_stats(
        &self,
        ping: PingRequest<'_>,
        progress: &ProgressReporter<'_>,
        mut show: impl FnMut(&ReceivedReply),
    ) -> Result<Option<CallStats>, FleetRequestError> {
        let call_target = match self.locate_nodes(ping.target, progress).await? {
            Some(nodes) if nodes.is_empty() => return Ok(None),
            Some(nodes) => CallTarget::Nodes(nodes),
            None => CallTarget::Filter(ping.target.filter.clone()),
        };
        let mut call = RpcCall::new("rpcutil", "ping", call_target).map_err(ClientError::from)?;
        call.wait = self.listen;
        call.expect = ping.expect;
        call.trace = ping.traceparent.is_some();
        call.traceparent = ping.traceparent;
        let mut interrupt = InterruptListener::listen();
        let show_ok = |answer: &ReceivedReply| {
            if answer.is_ok() {
                show(answer);
            }
        };
        tokio::select! {
            stats = self.client.run_call(call, show_ok) => Ok(Some(stats?)),
            () = interrupt.wait_for_signal() => Err(FleetRequestError::Interrupted),
        }
    }

    /// Discovers the target nodes. Named nodes are used without discovery.
    pub async fn discover_nodes(
        &self,
        target: &TargetSelection,
        progress: &ProgressReporter<'_>,
    ) -> Result<DiscoveredNodes, FleetRequestError> {
        let started = unix_millis_now();
        let start = Instant::now();
        if let Some(nodes) = self.locate_nodes(target, progress).await? {
            let stats =
                RequestStats { started, discovering: start.elapsed(), ..RequestStats::default() };
            return Ok(DiscoveredNodes { nodes, stats });
        }
        let filter = &target.filter;
        if filter.identities_exact().is_some() {
            let nodes = self.client.discover_nodes(filter).await?.nodes;
            return Ok(DiscoveredNodes::from_names(nodes));
        }
        let indicator = progress.show_discovery(DiscoveryMethod::Broadcast);
        let mut interrupt = InterruptListener::listen();
        let mut count = 0;
        let discovered = tokio::select! {
            discovered = self.client.discover_with_progress(filter, |_| { count += 1; indicator.set_count(count); }) => discovered?,
            () = interrupt.wait_for_signal() => return Err(FleetRequestError::Interrupted),
        };
        progress.finish_discovery(indicator, DiscoveryMethod::Broadcast, discovered.nodes.len());
        let gaps = discovered.incomplete.then_some(ResultGap::Discovery).into_iter().collect();
        let stats =
            RequestStats { started, gaps, discovering: discovered.took, ..RequestStats::default() };
        Ok(DiscoveredNodes { nodes: discovered.nodes, stats })
    }

    /// Returns the target nodes, if they can be found without a request to the fleet.
    async fn locate_nodes(
        &self,
        target: &TargetSelection,
        progress: &ProgressReporter<'_>,
    ) -> Result<Option<BTreeSet<Identity>>, FleetRequestError> {
        let query = target.discovery_query(&self.source, Some(self.client.collective()));
        if self.discovery_method() == DiscoveryMethod::Broadcast {
            return Ok(None);
        }
        let indicator = progress.show_discovery(self.discovery_method());
        let nodes = locate_nodes(&self.source, &query, progress.printer()).await?;
        let count = nodes.as_ref().map_or(0, BTreeSet::len);
        progress.finish_discovery(indicator, self.discovery_method(), count);
        Ok(nodes)
    }
}

/// Minimum quiet time after the last reply when nodes must query data sources first.
const DATA_SOURCE_QUIET_TIME: Duration = Duration::from_secs(2);

/// Maximum total wait while nodes keep replying, as a multiple of the wait for the first reply.
const MAX_LISTEN_FACTOR: u32 = 5;

/// An explicit listening time is used exactly; otherwise the quiet window ends the wait.
fn discovery_window(settings: &RpcSettings, target: &TargetSelection) -> DiscoveryWindow {
    let quiet_time = settings.discovery_window.unwrap_or(DiscoveryWindow::default().quiet_time);
    match target.listen {
        Some(listen) => {
            DiscoveryWindow { initial_wait: listen, quiet_time: listen, max_wait: listen }
        }
        None if target.lookup_time > Duration::ZERO => DiscoveryWindow {
            initial_wait: settings.discovery_timeout + target.lookup_time,
            quiet_time: quiet_time.max(DATA_SOURCE_QUIET_TIME),
            max_wait: settings.discovery_timeout * MAX_LISTEN_FACTOR + target.lookup_time,
        },
        None => DiscoveryWindow {
            initial_wait: settings.discovery_timeout,
            quiet_time,
            max_wait: settings.discovery_timeout * MAX_LISTEN_FACTOR,
        },
    }
}
