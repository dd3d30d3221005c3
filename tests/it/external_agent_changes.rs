//! External agents are added, changed and removed while the daemon runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_agent::services::external::ExternalAgentManager;
use muster_api::NodeHandle as _;
use muster_filter::NodeFilter;
use muster_host::external::{AgentDirectory, ExternalOptions};
use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::external::{
    AGENT_HEADER, create_world_readable_directory, ddl, replace_file, sandbox_helper,
};
use crate::node_fixture::NodeFixture;

const NODE: &str = "node1.example.net";

/// The agents write files next to their programs, which the user of the tests may do.
fn options_for_own_user() -> ExternalOptions {
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
    serde_json::from_value(json!({"agents": {"greet": {"user": own.name}}})).unwrap()
}

/// A node that watches a directory of external agents.
pub(crate) struct ExternalAgentFixture {
    pub(crate) fixture: NodeFixture,
    directory: TempDir,
    stop: CancellationToken,
}

impl ExternalAgentFixture {
    pub(crate) async fn start() -> Self {
        let fixture = NodeFixture::new(|_| {}).await;
        let core = Arc::clone(&fixture.node.core);
        let directory = create_world_readable_directory();
        let agent_directory = AgentDirectory::new(
            directory.path().to_owned(),
            options_for_own_user(),
            core.offer.registry.get().names().iter().cloned().collect(),
            sandbox_helper(),
            "/etc/muster/rpcd.toml".into(),
        );
        let limits = json!({"concurrency": 10, "queue": 100, "output_bytes": 65536});
        let externals = ExternalAgentManager::new(
            core,
            serde_json::from_value(limits).unwrap(),
            agent_directory,
        );
        let stop = CancellationToken::new();
        tokio::spawn(Arc::new(externals).poll_changes(Duration::from_millis(50), stop.clone()));
        Self { fixture, directory, stop }
    }

    pub(crate) fn agent_directory(&self) -> &Path {
        self.directory.path()
    }

    /// Installs an agent whose action waits for the file `go` and then returns its version.
    fn install_greet(&self, version: &str) {
        let directory = self.agent_directory();
        let wait = format!(
            ": > '{0}/begun{version}'\nwhile ! test -e '{0}/go'; do sleep 0.05; done\n",
            directory.display()
        );
        let text = format!(
            "{AGENT_HEADER}{wait}reply '{{\"statuscode\": 0, \"data\": {{\"said\": \"{version}\"}}}}'\n"
        );
        replace_file(&directory.join("greet"), &text, 0o755);
        let document = ddl("greet", version, &["greet"]);
        replace_file(&directory.join("greet.json"), &document.to_string(), 0o644);
    }

    /// Waits until the node offers this version, or none.
    pub(crate) async fn await_version(&self, version: Option<&str>) {
        let core = &self.fixture.node.core;
        await_state("the version is offered", || {
            let registry = core.offer.registry.get();
            let found = registry.agent("greet").map(|agent| agent.ddl().version().to_owned());
            found.as_deref() == version
        })
        .await;
    }

    pub(crate) async fn call_action(
        &self,
        agent: &str,
        action: &str,
        data: Value,
    ) -> muster_wire::reply::Reply {
        self.fixture.caller.call_action(NODE, agent, action, data).await.reply
    }

    /// Number of nodes that report the agent.
    async fn count_nodes(&self) -> usize {
        let filter = NodeFilter::default().with_agent("greet").unwrap();
        self.fixture.caller.client.discover_nodes(&filter).await.unwrap().nodes.len()
    }
}

impl Drop for ExternalAgentFixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_are_added_changed_and_removed_at_run_time() {
    let external = ExternalAgentFixture::start().await;
    assert_eq!(external.count_nodes().await, 0);
    external.install_greet("1.0.0");
    external.await_version(Some("1.0.0")).await;
    assert_eq!(external.count_nodes().await, 1);

    // A call of the old version runs while the new version is installed.
    let running = external.call_action("greet", "greet", json!({}));
    let replace_agent = async {
        let marker = external.agent_directory().join("begun1.0.0");
        await_state("the call runs", || marker.exists()).await;
        external.install_greet("2.0.0");
        external.await_version(Some("2.0.0")).await;
        std::fs::write(external.agent_directory().join("go"), "").unwrap();
    };
    let (old, ()) = tokio::join!(running, replace_agent);
    assert_eq!(old.data["said"], json!("1.0.0"), "{old:?}");
    let new = external.call_action("greet", "greet", json!({})).await;
    assert_eq!(new.data["said"], json!("2.0.0"), "{new:?}");
    let fetched = external.call_action("rpcutil", "ddl", json!({"agent": "greet"})).await;
    assert_eq!(fetched.data["version"], json!("2.0.0"));

    std::fs::remove_file(external.agent_directory().join("greet.json")).unwrap();
    external.await_version(None).await;
    let gone = external.call_action("greet", "greet", json!({})).await;
    assert_eq!(gone.statuscode, ReplyStatus::UnknownAction);
    assert_eq!(external.count_nodes().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_agent_keeps_its_previous_version_and_is_reported() {
    let external = ExternalAgentFixture::start().await;
    std::fs::write(external.agent_directory().join("go"), "").unwrap();
    external.install_greet("1.0.0");
    external.await_version(Some("1.0.0")).await;
    replace_file(
        &external.agent_directory().join("greet.json"),
        "{\"metadata\": {\"name\": 7}}",
        0o644,
    );
    let core = &external.fixture.node.core;
    await_state("the problem is reported", || !core.agent_problems().is_empty()).await;
    let inventory = external.call_action("rpcutil", "agent_inventory", json!({})).await;
    assert_eq!(inventory.data["problems"][0]["agent"], json!("greet"));
    let agents = inventory.data["agents"].as_array().unwrap();
    let greet = agents.iter().find(|agent| agent["agent"] == "greet").unwrap();
    assert_eq!((&greet["version"], &greet["provider"]), (&json!("1.0.0"), &json!("external")));
    let answer = external.call_action("greet", "greet", json!({})).await;
    assert_eq!(answer.data["said"], json!("1.0.0"), "{answer:?}");
    external.install_greet("3.0.0");
    external.await_version(Some("3.0.0")).await;
    await_state("the problem is resolved", || core.agent_problems().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_cached_ddl_is_fetched_again_for_unknown_words() {
    let external = ExternalAgentFixture::start().await;
    let NodeFixture { organisation, server, .. } = &external.fixture;
    let rpc = RpcCommand::new(server, organisation, &organisation.caller("ann"), "");
    let install = async |version: &str, document: Value| {
        let directory = external.agent_directory();
        let said = "{\"statuscode\": 0, \"data\": {\"said\": \"$action\"}}";
        let text = format!("{AGENT_HEADER}reply '{}'\n", said.replace("$action", "'$action'"));
        replace_file(&directory.join("greet"), &text, 0o755);
        replace_file(&directory.join("greet.json"), &document.to_string(), 0o644);
        external.await_version(Some(version)).await;
    };
    install("1.0.0", ddl("greet", "1.0.0", &["greet"])).await;
    let fetched = rpc.run(&["plugin", "fetch", "greet"]).await;
    assert_eq!(fetched.status.code(), Some(0), "{}", describe_output(&fetched));

    install("2.0.0", ddl("greet", "2.0.0", &["greet", "bow"])).await;
    let output = rpc.run(&["greet", "bow", "-j"]).await;
    let told = describe_output(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("using 2.0.0 from node1.example.net"), "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["replies"][0]["data"]["said"], "bow");
    // It is cached now.
    let again = rpc.run(&["greet", "bow", "-j"]).await;
    assert!(!describe_output(&again).contains("using 2.0.0"), "{}", describe_output(&again));

    let mut third = ddl("greet", "3.0.0", &["greet", "bow"]);
    let text = third.pointer("/actions/0/input/text").unwrap().clone();
    *third.pointer_mut("/actions/0/input").unwrap() = json!({"nick": text});
    install("3.0.0", third).await;
    let output = rpc.run(&["greet", "greet", "nick=x", "-j"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));

    // The new DDL decides.
    let output = rpc.run(&["greet", "bwo"]).await;
    let told = describe_output(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("its actions: greet, bow"), "{told}");
}
