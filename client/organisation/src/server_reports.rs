//! Reports of the broker's servers about themselves, from requests to the system account.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_bus::{Bus, BusMessage, Bytes};
use muster_wire::subject;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Organisation;
use crate::push::PushError;

/// The servers have answered when none has answered for this time.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(1);
/// Number of servers from which three replicas are possible.
pub(crate) const REPLICATED_CLUSTER_SIZE: usize = 3;

/// Answers of the servers, by name.
pub(crate) type ByServer<T> = BTreeMap<String, T>;

#[derive(Debug, Deserialize)]
pub(crate) struct SystemAnswer<T> {
    pub(crate) server: AnsweringServer,
    pub(crate) data: T,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AnsweringServer {
    pub(crate) name: String,
    /// Identifies the server in requests to it alone.
    #[serde(default)]
    pub(crate) id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ServerVariables {
    pub(crate) version: String,
    pub(crate) uptime: String,
    #[serde(default)]
    pub(crate) cluster: ClusterVariables,
    #[serde(default)]
    pub(crate) connections: u64,
    #[serde(default)]
    pub(crate) remotes: u64,
    #[serde(default)]
    pub(crate) leafnodes: u64,
    #[serde(default)]
    pub(crate) slow_consumers: u64,
    #[serde(default)]
    pub(crate) max_control_line: usize,
    #[serde(default)]
    pub(crate) jetstream: StorageVariables,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ClusterVariables {
    #[serde(default)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct StorageVariables {
    #[serde(default)]
    pub(crate) meta: Option<RaftGroup>,
    /// Absent without `JetStream`.
    #[serde(default)]
    pub(crate) config: Option<StorageSettings>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StorageSettings {
    /// Whether writes are on disk before they are confirmed.
    #[serde(default)]
    pub(crate) sync_always: bool,
    /// Space for streams, in bytes.
    #[serde(default)]
    pub(crate) max_storage: u64,
}

/// A group of servers that agree on one log.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct RaftGroup {
    #[serde(default)]
    pub(crate) leader: String,
    #[serde(default)]
    pub(crate) replicas: Vec<RaftPeer>,
    #[serde(default)]
    pub(crate) cluster_size: usize,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RaftPeer {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) current: bool,
    #[serde(default)]
    pub(crate) offline: bool,
    #[serde(default)]
    pub(crate) lag: u64,
}

/// What a server says about its own health.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ServerHealth {
    /// Absent if it is healthy.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct LeafList {
    #[serde(default)]
    pub(crate) leafs: Vec<LeafConnection>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LeafConnection {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) account: String,
    #[serde(default)]
    pub(crate) ip: String,
    #[serde(default)]
    pub(crate) rtt: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct StorageReport {
    /// Whether the server stores no streams.
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    meta_cluster: Option<RaftGroup>,
    #[serde(default)]
    pub(crate) account_details: Vec<AccountStorage>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AccountStorage {
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) stream_detail: Vec<StreamReport>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StreamReport {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) cluster: RaftGroup,
    #[serde(default)]
    pub(crate) config: StreamSettings,
    #[serde(default)]
    pub(crate) state: StreamContent,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct StreamSettings {
    #[serde(default)]
    pub(crate) num_replicas: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct StreamContent {
    #[serde(default)]
    pub(crate) messages: u64,
    #[serde(default)]
    pub(crate) bytes: u64,
    /// Number of the last message.
    #[serde(default)]
    pub(crate) last_seq: u64,
}

/// The servers of the broker that store streams.
#[derive(Debug, Default)]
pub(crate) struct StorageServers {
    /// Servers of the cluster, also those that are down; 1 without a cluster.
    pub(crate) cluster_size: usize,
    /// Servers that answered.
    pub(crate) answered: usize,
    /// For each stream the servers that have files of it.
    pub(crate) holders: BTreeMap<String, Vec<String>>,
}

impl StorageServers {
    /// The number of replicas that streams of this broker have by default. Two replicas need both servers for each write, so they are less
    /// available than one.
    pub(crate) fn default_replicas(&self) -> usize {
        if self.cluster_size >= REPLICATED_CLUSTER_SIZE { REPLICATED_CLUSTER_SIZE } else { 1 }
    }
}

impl Organisation {
    /// Asks the servers how many they are, and which streams they store.
    pub(crate) async fn query_storage_servers(&self) -> Result<StorageServers, PushError> {
        let client = SystemClient::connect(self).await?;
        let storage = client.ask_streams().await?;
        client.close().await?;
        let account = self.stores_account().to_string();
        let cluster_size = storage_cluster_size(&storage);
        let answered = storage.values().filter(|report| !report.disabled).count();
        let mut servers = StorageServers { cluster_size, answered, holders: BTreeMap::new() };
        for (server, stream) in streams_of_account(&storage, &account) {
            servers.holders.entry(stream.name.clone()).or_default().push(server.clone());
        }
        Ok(servers)
    }
}

/// A connection to the system account.
pub(crate) struct SystemClient {
    bus: Bus,
    inbox: String,
}

impl SystemClient {
    pub(crate) async fn connect(organisation: &Organisation) -> Result<Self, PushError> {
        let creds = organisation.system_credentials()?;
        let key = creds.key_pair().public_key().to_string();
        let inbox = subject::inbox_prefix(&key);
        Ok(Self { bus: organisation.connect(&creds).await?, inbox })
    }

    pub(crate) async fn close(self) -> Result<(), PushError> {
        Ok(self.bus.close().await?)
    }

    /// Asks all servers for one of their reports. Ignores answers that cannot be parsed.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        report: &str,
        options: &'static str,
    ) -> Result<ByServer<T>, PushError> {
        self.ask_until(report, options, |_| false).await
    }

    /// Asks all servers for one of their reports; the answers with the servers' ids.
    pub(crate) async fn ask_with_ids<T: DeserializeOwned>(
        &self,
        report: &str,
        options: Bytes,
    ) -> Result<Vec<SystemAnswer<T>>, PushError> {
        Ok(parse_answers(&self.request_reports(report, options, |_| false).await?).collect())
    }

    /// Sends a request to the server with this id, and returns its answer; `None` if it cannot be parsed.
    pub(crate) async fn ask_server<T: DeserializeOwned>(
        &self,
        server: &str,
        request: &str,
        options: Bytes,
    ) -> Result<Option<SystemAnswer<T>>, PushError> {
        let subject = format!("$SYS.REQ.SERVER.{server}.{request}");
        let answer = self.bus.request(&subject, options).await?;
        Ok(serde_json::from_slice(answer.payload()).ok())
    }

    /// The streams of all accounts that each server stores.
    pub(crate) async fn ask_streams(&self) -> Result<ByServer<StorageReport>, PushError> {
        // The first answer says how many servers store streams.
        let is_complete =
            |found: &ByServer<StorageReport>| found.len() >= storage_cluster_size(found);
        self.ask_until("JSZ", STREAMS_OPTIONS, is_complete).await
    }

    async fn ask_until<T: DeserializeOwned>(
        &self,
        report: &str,
        options: &'static str,
        is_complete: impl Fn(&ByServer<T>) -> bool,
    ) -> Result<ByServer<T>, PushError> {
        let is_enough = |answers: &[BusMessage]| is_complete(&by_server(answers));
        let options = Bytes::from_static(options.as_bytes());
        Ok(by_server(&self.request_reports(report, options, is_enough).await?))
    }

    async fn request_reports(
        &self,
        report: &str,
        options: Bytes,
        is_enough: impl Fn(&[BusMessage]) -> bool,
    ) -> Result<Vec<BusMessage>, PushError> {
        let subject = format!("$SYS.REQ.SERVER.PING.{report}");
        let reply_to = format!("{}.{report}", self.inbox);
        Ok(self.bus.request_until(&subject, &reply_to, options, QUIET_TIME, is_enough).await?)
    }
}

/// Options of the report on streams.
const STREAMS_OPTIONS: &str = r#"{"accounts":true,"streams":true,"config":true}"#;

fn by_server<T: DeserializeOwned>(answers: &[BusMessage]) -> ByServer<T> {
    parse_answers(answers).map(|answer| (answer.server.name, answer.data)).collect()
}

/// The answers that can be parsed.
fn parse_answers<T: DeserializeOwned>(
    answers: &[BusMessage],
) -> impl Iterator<Item = SystemAnswer<T>> + '_ {
    answers.iter().filter_map(|answer| serde_json::from_slice(answer.payload()).ok())
}

/// Servers of the group that decides which server stores which stream, also those that are down; 1 without a cluster.
pub(crate) fn cluster_size<'a>(groups: impl Iterator<Item = &'a RaftGroup>) -> usize {
    groups.map(|group| group.cluster_size).max().unwrap_or(1)
}

fn storage_cluster_size(reports: &ByServer<StorageReport>) -> usize {
    cluster_size(reports.values().filter_map(|report| report.meta_cluster.as_ref()))
}

/// What each server reports of the streams of this account.
pub(crate) fn streams_of_account<'a>(
    storage: &'a ByServer<StorageReport>,
    account: &'a str,
) -> impl Iterator<Item = (&'a String, &'a StreamReport)> {
    storage.iter().flat_map(move |(server, report)| {
        let accounts = report.account_details.iter().filter(move |found| found.id == account);
        accounts
            .flat_map(move |found| found.stream_detail.iter().map(move |stream| (server, stream)))
    })
}
