//! The connection to the fleet for commands: connects and discovers nodes. Shows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::jobs::{JobFleet, SavedJob, SavedJobError};
use muster_base::unix_millis_now;
use muster_calls::{
    BrokerAddress, BrokerFollower, CallStats, CallTarget, Client, ClientError, DIRECTORY_TIMEOUT,
    DirectoryError, DiscoveryMethod, DiscoverySource, DiscoveryWindow, ReceivedReply,
    RegisteredNodes, RpcCall,
};
use muster_contract::rpcutil::RpcutilPing;
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::trace::TraceContext;

use crate::directory::QUERY_TIMEOUT;
use crate::directory_seen::DirectorySeen;
use crate::error::FleetRequestError;
use crate::interrupt::run_until_interrupt;
use crate::locate::locate_nodes;
use crate::observer::{RequestEvent, RequestObserver};
use crate::report::{RequestStats, ResultGap};
use crate::settings::RpcSettings;
use crate::target::TargetSelection;
use crate::token_cache::PersistentTokenCache;

/// A connection to the fleet.
#[derive(Debug)]
pub struct FleetConnection {
    pub(crate) client: Client,
    /// Whether the absence of the directory deserves a message.
    directory_seen: DirectorySeen,
    /// Saves verified tokens for the next command.
    _token_cache: PersistentTokenCache,
    /// Maximum wait for the first node.
    pub(crate) listen: Duration,
    /// Discovery source.
    source: DiscoverySource,
    /// Whether sensitive inputs are sent unencrypted.
    pub(crate) plain_secrets: bool,
}

/// The discovered nodes.
#[derive(Debug, Default)]
pub struct DiscoveredNodes {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// What each of them must still match when it gets a request.
    pub filter: NodeFilter,
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
        Self { nodes, filter: NodeFilter::default(), stats }
    }
}

impl FleetConnection {
    /// Connects as configured; the target's own collective, listening time and discovery source take precedence.
    pub async fn connect(
        settings: &RpcSettings,
        target: &TargetSelection,
    ) -> Result<Self, FleetRequestError> {
        let source = target.discovery_source(Some(settings))?;
        let place = settings.broker_place();
        let parse = |url: &String| BrokerAddress::parse(url, settings.plaintext_on_loopback);
        let servers = place.urls.iter().map(parse);
        let servers = servers.collect::<Result<_, _>>().map_err(ClientError::from)?;
        let window = discovery_window(settings, target);
        let client = Client::connect(muster_calls::ClientSettings {
            servers,
            authority: place.authority,
            credentials: settings.credentials.clone(),
            operator: settings.operator.to_string(),
            account: settings.account.clone(),
            collective: target.collective.clone().unwrap_or_else(|| settings.collective.clone()),
            window,
        });
        let client = client.await?;
        follow_broker(settings.broker_follower(), &client);
        Ok(Self {
            _token_cache: PersistentTokenCache::load_for_client(client.clone(), settings),
            directory_seen: DirectorySeen::of_fleet(settings),
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

    /// The fleet, as saved in jobs.
    pub fn job_fleet(&self) -> JobFleet {
        JobFleet::of_account(&self.client.trust())
    }

    /// Fails unless the job was sent to this connection's fleet and collective.
    pub fn check_job(&self, job: &SavedJob) -> Result<(), SavedJobError> {
        job.header.check_fleet(&self.job_fleet(), self.collective())
    }

    /// The discovery method.
    pub fn discovery_method(&self) -> DiscoveryMethod {
        self.source.method()
    }

    /// Pings the target with these options, and shows each reply as it arrives. Returns the statistics; `None` if there was no target node.
    pub async fn ping(
        &self,
        ping: PingRequest<'_>,
        observer: &dyn RequestObserver,
        show: impl FnMut(&ReceivedReply),
    ) -> Result<Option<CallStats>, FleetRequestError> {
        match self.locate_nodes(ping.target, observer).await? {
            Some(nodes) if nodes.is_empty() => Ok(None),
            Some(nodes) => {
                let target = CallTarget::Nodes(nodes);
                self.send_ping(target, ping, observer, show).await.map(Some)
            }
            None => self.ping_by_broadcast(ping, observer, show).await.map(Some),
        }
    }

    /// Like [`Self::ping`], by a broadcast to all nodes, whatever the discovery method.
    pub async fn ping_by_broadcast(
        &self,
        ping: PingRequest<'_>,
        observer: &dyn RequestObserver,
        show: impl FnMut(&ReceivedReply),
    ) -> Result<CallStats, FleetRequestError> {
        let target = CallTarget::Filter(ping.target.filter.clone());
        self.send_ping(target, ping, observer, show).await
    }

    async fn send_ping(
        &self,
        call_target: CallTarget,
        ping: PingRequest<'_>,
        observer: &dyn RequestObserver,
        mut show: impl FnMut(&ReceivedReply),
    ) -> Result<CallStats, FleetRequestError> {
        let mut refusals = BTreeMap::new();
        let mut call = RpcCall::of_action::<RpcutilPing>(&EmptyInput {}, call_target)
            .map_err(ClientError::from)?;
        call.wait = self.listen;
        call.expect = ping.expect;
        call.trace = ping.traceparent.is_some();
        call.traceparent = ping.traceparent;
        // A node that denies the request is there, and matches.
        let show_present = |answer: &ReceivedReply| {
            if answer.is_ok() || answer.denial().is_some() {
                show(answer);
            } else {
                refusals.insert(answer.reply.sender.clone(), answer.reply.statusmsg.clone());
            }
        };
        let stats = run_until_interrupt(self.client.run_call(call, show_present)).await??;
        observer.observe(RequestEvent::NodesRefused(&refusals));
        Ok(stats)
    }

    /// Discovers the target nodes. Named nodes are used without discovery.
    pub async fn discover_nodes(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<DiscoveredNodes, FleetRequestError> {
        let started = unix_millis_now();
        let start = Instant::now();
        let filter = &target.filter;
        if let Some(nodes) = self.locate_nodes(target, observer).await? {
            let stats =
                RequestStats { started, discovering: start.elapsed(), ..RequestStats::default() };
            let filter = target.node_filter(&self.source);
            return Ok(DiscoveredNodes { nodes, filter, stats });
        }
        if filter.identities_exact().is_some() {
            let nodes = self.client.discover_nodes(filter).await?.nodes;
            let filter = target.node_filter(&self.source);
            return Ok(DiscoveredNodes { filter, ..DiscoveredNodes::from_names(nodes) });
        }
        let method = DiscoveryMethod::Broadcast;
        observer.observe(RequestEvent::DiscoveryStarted(method));
        let mut count = 0;
        let discovery = self.client.discover_with_progress(filter, |_| {
            count += 1;
            observer.observe(RequestEvent::NodesCounted(count));
        });
        let discovered = run_until_interrupt(discovery).await??;
        observer.observe(RequestEvent::DiscoveryEnded(method, discovered.nodes.len()));
        observer.observe(RequestEvent::NodesRefused(&discovered.refusals));
        let gaps = discovered.incomplete.then_some(ResultGap::Discovery).into_iter().collect();
        let stats =
            RequestStats { started, gaps, discovering: discovered.took, ..RequestStats::default() };
        let filter = target.node_filter(&self.source);
        Ok(DiscoveredNodes { nodes: discovered.nodes, filter, stats })
    }

    /// The target nodes according to the directory. `None` if the nodes themselves are to be asked: the method is broadcast, names are given, the filter needs
    /// data sources, or no directory answers and none was demanded.
    pub async fn find_registered(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<Option<RegisteredNodes>, FleetRequestError> {
        let (source, filter) = (&self.source, &target.filter);
        let has_lookups = filter.select().is_some_and(|select| !select.data_lookups().is_empty());
        let is_demanded = *source == DiscoverySource::Directory;
        let asks_nodes = *source == DiscoverySource::Broadcast
            || filter.identities_exact().is_some()
            || (has_lookups && !is_demanded);
        if asks_nodes {
            return Ok(None);
        }
        let method = DiscoveryMethod::Directory;
        observer.observe(RequestEvent::DiscoveryStarted(method));
        let timeout = if is_demanded { QUERY_TIMEOUT } else { DIRECTORY_TIMEOUT };
        match self.client.find_registered(filter, timeout).await {
            Ok(found) => {
                self.directory_seen.record();
                observer.observe(RequestEvent::DiscoveryEnded(method, found.nodes.len()));
                Ok(Some(found))
            }
            Err(error) if is_demanded => Err(error.into()),
            // Without permission to query the directory, or in a fleet without one, a broadcast is the normal method, so there is no warning.
            Err(DirectoryError::Client(_)) => Ok(None),
            Err(DirectoryError::Absent) if !self.directory_seen.is_recent() => Ok(None),
            Err(error) => {
                observer.observe(RequestEvent::DirectoryUnavailable(&error));
                Ok(None)
            }
        }
    }

    /// Returns the target nodes, if they can be found without a request to the nodes.
    async fn locate_nodes(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<Option<BTreeSet<Identity>>, FleetRequestError> {
        let method = self.discovery_method();
        if method.asks_fleet() {
            let found = self.find_registered(target, observer).await?;
            return Ok(found.map(|found| found.nodes));
        }
        let query = target.discovery_query(&self.source, Some(self.client.collective()));
        observer.observe(RequestEvent::DiscoveryStarted(method));
        let nodes = locate_nodes(&self.source, &query, observer).await?;
        let count = nodes.as_ref().map_or(0, BTreeSet::len);
        observer.observe(RequestEvent::DiscoveryEnded(method, count));
        Ok(nodes)
    }
}

/// Minimum quiet time after the last reply when nodes must query data sources first.
const DATA_SOURCE_QUIET_TIME: Duration = Duration::from_secs(2);

/// Maximum total wait while nodes keep replying, as a multiple of the wait for the first reply.
const MAX_LISTEN_FACTOR: u32 = 5;

/// An explicit listening time is used exactly; otherwise the quiet window ends the wait.
fn discovery_window(settings: &RpcSettings, target: &TargetSelection) -> DiscoveryWindow {
    if let Some(listen) = target.listen {
        return DiscoveryWindow { initial_wait: listen, quiet_time: listen, max_wait: listen };
    }
    let quiet_time = settings.discovery_window.unwrap_or(DiscoveryWindow::default().quiet_time);
    let has_lookups = target.lookup_time > Duration::ZERO;
    DiscoveryWindow {
        initial_wait: settings.discovery_timeout + target.lookup_time,
        quiet_time: if has_lookups { quiet_time.max(DATA_SOURCE_QUIET_TIME) } else { quiet_time },
        max_wait: settings.discovery_timeout * MAX_LISTEN_FACTOR + target.lookup_time,
    }
}

/// Tries new addresses of the account token while the command runs, for the next command.
fn follow_broker(follower: Option<BrokerFollower>, client: &Client) {
    if let (Some(follower), Some(record)) = (follower, client.trust().broker_record().cloned()) {
        // What fails is tried again by the next command.
        tokio::spawn(async move { follower.follow(&record).await.map(drop) });
    }
}
