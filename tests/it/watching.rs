//! Agents that come, change and go while the daemon runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_agent::external::ExternalAgentManager;
use muster_api::NodeHandle as _;
use muster_filter::NodeFilter;
use muster_host::external::{AgentDirectory, ExternalOptions};
use muster_tests::await_state;
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::ask::World;
use crate::external::{HEAD, ddl, helper, open_directory, put};

const NODE: &str = "node1.example.net";

/// The agents here write files beside themselves, which only the tests' own user may.
fn as_own_user() -> ExternalOptions {
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
    serde_json::from_value(json!({"agents": {"greet": {"user": own.name}}})).unwrap()
}

/// A node that watches a directory.
pub(crate) struct Watching {
    pub(crate) world: World,
    directory: TempDir,
    stop: CancellationToken,
}

impl Watching {
    pub(crate) async fn start() -> Self {
        let world = World::new(|_| {}).await;
        let core = Arc::clone(&world.node.core);
        let directory = open_directory();
        let shelf = AgentDirectory::new(
            directory.path().to_owned(),
            as_own_user(),
            core.registry.get().names().iter().cloned().collect(),
            helper(),
            "/etc/muster/rpcd.toml".into(),
        );
        let limits = json!({"concurrency": 10, "queue": 100, "output_bytes": 65536});
        let externals =
            ExternalAgentManager::new(core, serde_json::from_value(limits).unwrap(), shelf);
        let stop = CancellationToken::new();
        tokio::spawn(Arc::new(externals).poll_changes(Duration::from_millis(50), stop.clone()));
        Self { world, directory, stop }
    }

    pub(crate) fn here(&self) -> &Path {
        self.directory.path()
    }

    /// An agent whose action says its version, when a file is there.
    fn greet(&self, version: &str) {
        let here = self.here();
        let wait = format!(
            ": > '{0}/begun{version}'\nwhile ! test -e '{0}/go'; do sleep 0.05; done\n",
            here.display()
        );
        let text = format!("{HEAD}{wait}reply '{{\"data\": {{\"said\": \"{version}\"}}}}'\n");
        put(&here.join("greet"), &text, 0o755);
        let document = ddl("greet", version, &["greet"]);
        put(&here.join("greet.json"), &document.to_string(), 0o644);
    }

    /// Waits until the node offers this version, or none.
    pub(crate) async fn offered(&self, version: Option<&str>) {
        let core = &self.world.node.core;
        await_state("the version is offered", || {
            let registry = core.registry.get();
            let found = registry.agent("greet").map(|agent| agent.ddl().version().to_owned());
            found.as_deref() == version
        })
        .await;
    }

    pub(crate) async fn ask(
        &self,
        agent: &str,
        action: &str,
        data: Value,
    ) -> muster_wire::reply::Reply {
        self.world.caller.ask(NODE, agent, action, data).await.reply
    }

    /// How many nodes say that they have the agent.
    async fn found(&self) -> usize {
        let filter = NodeFilter::default().with_agent("greet").unwrap();
        self.world.caller.client.discover_nodes(&filter).await.unwrap().nodes.len()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_come_change_and_go_while_the_daemon_runs() {
    let watching = Watching::start().await;
    assert_eq!(watching.found().await, 0);
    watching.greet("1.0.0");
    watching.offered(Some("1.0.0")).await;
    assert_eq!(watching.found().await, 1);

    // A call of the old version runs while the new one comes.
    let running = watching.ask("greet", "greet", json!({}));
    let meanwhile = async {
        let begun = watching.here().join("begun1.0.0");
        await_state("the call runs", || begun.exists()).await;
        watching.greet("2.0.0");
        watching.offered(Some("2.0.0")).await;
        std::fs::write(watching.here().join("go"), "").unwrap();
    };
    let (old, ()) = tokio::join!(running, meanwhile);
    assert_eq!(old.data["said"], json!("1.0.0"), "{old:?}");
    let new = watching.ask("greet", "greet", json!({})).await;
    assert_eq!(new.data["said"], json!("2.0.0"), "{new:?}");
    let fetched = watching.ask("rpcutil", "ddl", json!({"agent": "greet"})).await;
    assert_eq!(fetched.data["version"], json!("2.0.0"));

    std::fs::remove_file(watching.here().join("greet.json")).unwrap();
    watching.offered(None).await;
    let gone = watching.ask("greet", "greet", json!({})).await;
    assert_eq!(gone.statuscode, ReplyStatus::UnknownAction);
    assert_eq!(watching.found().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_keeps_the_version_before_it_and_is_told() {
    let watching = Watching::start().await;
    std::fs::write(watching.here().join("go"), "").unwrap();
    watching.greet("1.0.0");
    watching.offered(Some("1.0.0")).await;
    put(&watching.here().join("greet.json"), "{\"metadata\": {\"name\": 7}}", 0o644);
    let core = &watching.world.node.core;
    await_state("the trouble is told", || !core.agent_problems().is_empty()).await;
    let inventory = watching.ask("rpcutil", "agent_inventory", json!({})).await;
    assert_eq!(inventory.data["problems"][0]["agent"], json!("greet"));
    let agents = inventory.data["agents"].as_array().unwrap();
    let greet = agents.iter().find(|agent| agent["agent"] == "greet").unwrap();
    assert_eq!((&greet["version"], &greet["provider"]), (&json!("1.0.0"), &json!("external")));
    let answer = watching.ask("greet", "greet", json!({})).await;
    assert_eq!(answer.data["said"], json!("1.0.0"), "{answer:?}");
    watching.greet("3.0.0");
    watching.offered(Some("3.0.0")).await;
    await_state("the trouble is over", || core.agent_problems().is_empty()).await;
}
