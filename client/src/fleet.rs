//! The connection to the fleet for commands: connects and discovers nodes. Shows nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_base::unix_millis_now;
use muster_calls::{
    BrokerAddress, BrokerFollower, Client, ClientError, DIRECTORY_TIMEOUT, DirectoryError,
    DiscoveryMethod, DiscoverySource, DiscoveryWindow, RegisteredNodes,
};
use muster_wire::identity::SubjectName;
use muster_wire::request::REPLY_GRACE;

use crate::directory::QUERY_TIMEOUT;
use crate::directory_seen::DirectorySeen;
use crate::error::FleetRequestError;
use crate::interrupt::run_until_interrupt;
use crate::jobs::{JobFleet, SavedJob, SavedJobError};
use crate::locate::locate_offline;
use crate::located::Located;
use crate::observer::{RequestEvent, RequestObserver};
use crate::ping::list_answering;
use crate::settings::RpcSettings;
use crate::target::TargetSelection;
use crate::token_cache::PersistentTokenCache;

/// A connection to the fleet.
#[derive(Debug)]
pub struct FleetConnection {
    /// What sends its requests.
    pub client: Client,
    /// Saves verified tokens for the next command.
    _token_cache: PersistentTokenCache,
    /// Maximum wait for the first node.
    pub listen: Duration,
    /// The settings that it was made with.
    pub settings: RpcSettings,
}

impl FleetConnection {
    /// Connects as configured; the target's own collective, listening time and discovery source take precedence.
    pub async fn connect(
        settings: &RpcSettings,
        target: &TargetSelection,
    ) -> Result<Self, FleetRequestError> {
        target.discovery_source(Some(settings))?;
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
            client,
            listen: window.initial_wait,
            settings: settings.clone(),
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

    /// Maximum time to wait for a reply, in addition to the time that the action gets: the node stops the action and collects its results, and the
    /// reply is on its way.
    pub fn reply_grace_time(&self) -> Duration {
        REPLY_GRACE + self.listen
    }

    /// Finds the target nodes: those that are named, those that the directory or the selected method knows, or else those that answer a broadcast.
    pub async fn locate(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<Located, FleetRequestError> {
        let started = unix_millis_now();
        if let Some(located) = self.look_up(target, observer).await? {
            return Ok(located);
        }
        if let Some(named) = target.exact_nodes() {
            return Ok(Located::from_names(named));
        }
        let method = DiscoveryMethod::Broadcast;
        observer.observe(RequestEvent::DiscoveryStarted(method));
        let mut count = 0;
        let discovery = self.client.discover_with_progress(&target.filter, |_| {
            count += 1;
            observer.observe(RequestEvent::NodesCounted(count));
        });
        let discovered = run_until_interrupt(discovery).await??;
        observer.observe(RequestEvent::DiscoveryEnded(method, discovered.nodes.len()));
        observer.observe(RequestEvent::NodesRefused(&discovered.refusals));
        Ok(Located {
            complete: !discovered.incomplete,
            filter: target.node_filter(&DiscoverySource::Broadcast),
            started,
            took: discovered.took,
            ..Located::new(method, discovered.nodes)
        })
    }

    /// Like [`Self::locate`], but nodes that neither the directory nor another method knows must have replied: also named ones, and those that deny
    /// the request.
    pub async fn locate_answering(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<Located, FleetRequestError> {
        match self.look_up(target, observer).await? {
            Some(located) => Ok(located),
            None => list_answering(self, target, observer).await,
        }
    }

    /// Finds the target nodes without a request to the nodes. `None` if they are to be asked themselves: the method is broadcast, names are given, the filter
    /// needs data sources, or no directory answers and none was demanded.
    pub(crate) async fn look_up(
        &self,
        target: &TargetSelection,
        observer: &dyn RequestObserver,
    ) -> Result<Option<Located>, FleetRequestError> {
        if let Some(located) = locate_offline(target, &self.settings, observer).await? {
            return Ok(Some(located));
        }
        let (source, filter) = (target.discovery_source(Some(&self.settings))?, &target.filter);
        let has_lookups = filter.select().is_some_and(|select| !select.data_lookups().is_empty());
        let is_demanded = source == DiscoverySource::Directory;
        let asks_nodes = source == DiscoverySource::Broadcast
            || filter.identities_exact().is_some()
            || (has_lookups && !is_demanded);
        if asks_nodes {
            return Ok(None);
        }
        let (start, method) = (Instant::now(), DiscoveryMethod::Directory);
        let located = Located::new(method, BTreeSet::new());
        observer.observe(RequestEvent::DiscoveryStarted(method));
        let timeout = if is_demanded { QUERY_TIMEOUT } else { DIRECTORY_TIMEOUT };
        let seen = DirectorySeen::of_fleet(&self.settings);
        match self.client.find_registered(filter, timeout).await {
            Ok(RegisteredNodes { nodes, missing, cloned, .. }) => {
                seen.record();
                observer.observe(RequestEvent::DiscoveryEnded(method, nodes.len()));
                let (filter, took) = (target.node_filter(&source), start.elapsed());
                Ok(Some(Located { nodes, missing, cloned, filter, took, ..located }))
            }
            Err(error) if is_demanded => Err(error.into()),
            // Without permission to query the directory, or in a fleet without one, a broadcast is the normal method, so there is no warning.
            Err(DirectoryError::Client(_)) => Ok(None),
            Err(DirectoryError::Absent) if !seen.is_recent() => Ok(None),
            Err(error) => {
                observer.observe(RequestEvent::DirectoryUnavailable(&error));
                Ok(None)
            }
        }
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
