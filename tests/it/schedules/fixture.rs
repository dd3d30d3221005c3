//! A fleet with instances of the scheduler, an author, and the record of what nodes executed.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_calls::{CallTarget, Client, DiscoveryWindow, RpcCall};
use muster_contract::schedule::{ScheduleAddOutput, ScheduleListOutput};
use muster_contract::{read_values, write_values};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::schedule_grant::ScheduleGrant;
use muster_wire::sign::Signer;
use muster_wire::status::ReplyStatus;
use muster_wire::token::{ServiceRight, UserCredentials, UserRole};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Short intervals, so that tests are fast.
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nstate_interval_seconds = 0\n[broker]\nreconnect_spread_seconds = 1\n";
/// The shortest interval of a schedule is 5 s.
pub(super) const INTERVAL_SECONDS: u64 = 6;
/// Time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct ScheduleFixture {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) author: Signer,
    pub(super) client: Client,
}

/// A node that was started; some run an instance of the scheduler.
pub(super) struct ScheduleNode {
    pub(super) daemon: Rpcd,
}

/// One execution for a schedule in a node's audit log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Execution {
    time: String,
    pub(super) request: Uuid,
    pub(super) caller: String,
    pub(super) agent: String,
    pub(super) schedule: String,
    pub(super) scheduler: String,
    pub(super) statuscode: u64,
    verdict: String,
}

impl ScheduleFixture {
    pub(super) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let author = organisation.caller("anna");
        let client = Self::connect_client(&organisation, &server, &author).await;
        Self { organisation, server, author, client }
    }

    pub(super) async fn connect_client(
        organisation: &Organisation,
        server: &NatsServer,
        user: &Signer,
    ) -> Client {
        let bus = connect(server, user).await;
        let (trust, collective) = (organisation.trust(), organisation.collective().clone());
        Client::new(bus, user.clone(), trust, collective, DiscoveryWindow::default())
    }

    /// The policy of these nodes: the author and bob may do everything; services may do nothing in their own name.
    fn home(&self, signer: &Signer, facts: &str) -> DaemonHome {
        let home = DaemonHome::new(&self.organisation, signer, &self.server.url(), REGISTRATION);
        home.write("facts.d/site.json", facts, 0o644);
        let policy = "policy default deny\nallow\tanna bob\t*\t*\t*\n";
        home.write("policies/default.policy", policy, 0o644);
        home
    }

    pub(super) fn start_node(&self, name: &str, facts: &str) -> ScheduleNode {
        self.start_node_with(name, facts, "")
    }

    /// The same, with more settings.
    pub(super) fn start_node_with(&self, name: &str, facts: &str, more: &str) -> ScheduleNode {
        let home = self.home(&self.organisation.node(name), facts);
        home.write("conf.d/more.toml", more, 0o644);
        ScheduleNode { daemon: home.start() }
    }

    /// A node with an instance of the scheduler whose leader is replaced after two seconds.
    pub(super) fn start_scheduler(&self, node: &str, service: &str) -> ScheduleNode {
        self.start_scheduler_with(node, service, "lease_seconds = 2\n")
    }

    /// The same, with more settings.
    pub(super) fn start_scheduler_with(
        &self,
        node: &str,
        service: &str,
        more: &str,
    ) -> ScheduleNode {
        let home = self.home(&self.organisation.node(node), "{\"role\":\"scheduler\"}");
        let service = self.organisation.service(ServiceRight::Schedule, service);
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        home.write("service.creds", &creds.to_text(), 0o600);
        let options = "[plugins.schedule]\nenabled = true\ncredentials = \"../service.creds\"\n";
        home.write("conf.d/schedule.toml", &format!("{options}{more}"), 0o644);
        ScheduleNode { daemon: home.start() }
    }

    /// A node with one service that is an instance of the scheduler and of the directory.
    pub(super) fn start_double_service(&self, node: &str, service: &str) -> ScheduleNode {
        let tags = ServiceRight::tags(&[ServiceRight::Directory, ServiceRight::Schedule]);
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let service = self.organisation.user(UserRole::Service, service, &tags);
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        let home = self.home(&self.organisation.node(node), "{}");
        home.write("service.creds", &creds.to_text(), 0o600);
        let section = |name| {
            format!("[plugins.{name}]\nenabled = true\ncredentials = \"../service.creds\"\n")
        };
        home.write("conf.d/services.toml", &["schedule", "directory"].map(section).concat(), 0o644);
        ScheduleNode { daemon: home.start() }
    }

    /// A schedule that the author signs now and that ends in a day.
    pub(super) fn grant(&self, name: &str, spec: &Value) -> ScheduleGrant {
        let now = muster_tests::now();
        ScheduleGrant {
            id: Uuid::now_v7(),
            author: self.author.identity().clone(),
            collective: self.organisation.collective().clone(),
            name: SubjectName::parse(name).unwrap(),
            issued_at: now,
            expires_at: now + 24 * 60 * 60 * 1000,
            schedule: spec.as_object().unwrap().clone(),
        }
    }

    /// Adds a schedule; returns its signed text.
    pub(super) async fn add(&self, name: &str, spec: &Value) -> (ScheduleGrant, String) {
        let grant = self.grant(name, spec);
        let text = grant.sign(&self.author).unwrap();
        let input = json!({"grant": text});
        let reply = self.call("add", &input).await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg.raw());
        let added: ScheduleAddOutput = read_values(&reply.data).unwrap();
        assert_eq!(added.name, name);
        (grant, text)
    }

    /// Calls an action of the scheduler; tries again while none answers.
    pub(super) async fn call(&self, action: &str, input: &impl Serialize) -> Reply {
        let data = write_values(input);
        poll_until_ok(&format!("schedule {action}"), ANSWER_TIMEOUT * 2, async || {
            let mut call = RpcCall::new("schedule", action, CallTarget::AnyInstance).unwrap();
            call.data = data.clone();
            call.expect = Some(1);
            call.wait = ANSWER_TIMEOUT;
            let mut replies = Vec::new();
            let stats = self.client.run_call(call, |reply| replies.push(reply.reply.clone())).await;
            replies.pop().ok_or_else(|| format!("{stats:?}"))
        })
        .await
    }

    pub(super) async fn list(&self) -> ScheduleListOutput {
        read_values(&self.call("list", &Map::new()).await.data).unwrap()
    }

    /// Waits until the schedule matches this number of nodes.
    pub(super) async fn await_nodes(&self, count: usize) {
        poll_until_ok("the nodes match", Duration::from_mins(1), async || {
            let list = self.list().await;
            let nodes = list.schedules.first().map(|row| row.nodes);
            if nodes == Some(count) && list.leader.is_some() { Ok(()) } else { Err(list) }
        })
        .await;
    }
}

impl ScheduleNode {
    /// What the node executed for schedules, in order.
    pub(super) fn executions(&self) -> Vec<Execution> {
        let text =
            std::fs::read_to_string(self.daemon.home().path("audit.log")).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Execution>(line).ok());
        records.filter(|record| record.verdict == "executed").collect()
    }
}

impl Execution {
    /// When it was executed, in milliseconds since the epoch.
    pub(super) fn at(&self) -> u64 {
        let time: jiff::Timestamp = self.time.parse().unwrap();
        time.as_millisecond().try_into().unwrap()
    }

    /// The time in the schedule, which the id contains.
    fn slot(&self) -> u64 {
        let (seconds, nanos) = self.request.get_timestamp().unwrap().to_unix();
        seconds * 1000 + u64::from(nanos / 1_000_000)
    }
}

/// A schedule that touches a file on each node with the fact `role` `web`.
pub(super) fn touch_spec(path: &str) -> Value {
    json!({
        "agent": "filemgr", "action": "touch", "inputs": {"path": path}, "every": INTERVAL_SECONDS,
        "filter": filter(), "timeout": 10,
    })
}

fn filter() -> Value {
    let filter = muster_filter::NodeFilter::default().with_words("role=web").unwrap();
    serde_json::to_value(filter).unwrap()
}

/// Number of executions by the time in the schedule.
pub(super) fn slots(executions: &[Execution]) -> BTreeMap<u64, usize> {
    let mut slots = BTreeMap::new();
    for execution in executions {
        *slots.entry(execution.slot()).or_default() += 1;
    }
    slots
}

pub(super) fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}
