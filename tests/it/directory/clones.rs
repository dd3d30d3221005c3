//! Two daemons with one name and key, as on a machine and its copy: commands warn, and the daemon that was started later can ignore requests.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use serde_json::json;

use super::fixture::{ANSWER_TIMEOUT, DirectoryFixture, FleetNode};

const NAME: &str = "web1.acme.net";
const WARNING: &str = "two daemons with the same name and key are running";

/// A directory, a node, and its copy. A fact tells which of the two replies.
struct ClonedFleet {
    fleet: DirectoryFixture,
    _directory: FleetNode,
    original: FleetNode,
}

impl ClonedFleet {
    async fn start() -> Self {
        let fleet = DirectoryFixture::start().await;
        let directory = fleet.start_directory("dir1.acme.net", "directory1");
        let original = fleet.start_node(NAME, r#"{"copy": "no"}"#, "");
        fleet.await_present(&["dir1.acme.net", NAME]).await;
        Self { fleet, _directory: directory, original }
    }

    fn start_copy(&self, settings: &str) -> FleetNode {
        let signer = self.original.signer.clone();
        let home = self.fleet.node_home(&signer, r#"{"copy": "yes"}"#, "");
        home.write("conf.d/copy.toml", settings, 0o644);
        FleetNode { signer, daemon: home.start() }
    }

    /// Waits until the warning of a command says this.
    async fn await_warning(&self, command: &[&str], is_warned: bool) {
        let what = format!("{command:?} warns: {is_warned}");
        poll_until_ok(&what, ANSWER_TIMEOUT, async || {
            let output = self.fleet.rpc.run(command).await;
            let text = describe_output(&output);
            if text.contains(WARNING) == is_warned { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Which of the two replies.
    async fn replying(&self) -> String {
        let command = ["rpcutil", "get_fact", "fact=copy", "-I", NAME];
        let (document, _) = self.fleet.rpc.run_json(&command).await;
        document["replies"][0]["data"]["value"].as_str().unwrap_or_default().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_of_a_machine_is_reported_by_every_command_that_asks_it() {
    let fleet = ClonedFleet::start().await;
    let mut events = fleet.fleet.client().await.listen_for_events().await.unwrap();
    let commands: [&[&str]; 3] =
        [&["ping", "-I", NAME], &["rpcutil", "get_fact", "fact=copy", "-I", NAME], &["find"]];
    for command in commands {
        fleet.await_warning(command, false).await;
    }
    let mut copy = fleet.start_copy("");
    for command in commands {
        fleet.await_warning(command, true).await;
    }
    let (document, _) =
        fleet.fleet.rpc.run_json(&["rpcutil", "get_fact", "fact=copy", "-I", NAME]).await;
    assert_eq!(document["request_stats"]["cloned"], json!([NAME]), "{document:#}");
    let listed = fleet.fleet.rpc.run(&["nodes"]).await;
    let listed = describe_output(&listed);
    assert!(listed.contains("web1.acme.net: two daemons with this name and key"), "{listed}");
    let doctor = describe_output(&fleet.fleet.rpc.run(&["doctor"]).await);
    assert!(doctor.contains("another daemon with the name and key"), "{doctor}");
    let event = async {
        loop {
            if let Some(muster_calls::EventArrival::Event(event)) = events.next().await
                && event.kind.as_str() == "node_cloned"
            {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(ANSWER_TIMEOUT, event).await.unwrap();
    assert_eq!((event.sender.as_str(), &event.data["node"]), (NAME, &json!(NAME)));

    copy.daemon.kill_and_wait();
    for command in commands {
        fleet.await_warning(command, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_leaves_requests_to_the_original_if_configured() {
    let mut fleet = ClonedFleet::start().await;
    let copy = fleet.start_copy("[registration]\nyield_to_older = true\n");
    poll_until_ok("the copy knows the original", Duration::from_mins(1), async || {
        let log = copy.daemon.log();
        if log.contains("which was started earlier") { Ok(()) } else { Err(log) }
    })
    .await;
    for _ in 0..10 {
        assert_eq!(fleet.replying().await, "no");
    }
    fleet.original.daemon.kill_and_wait();
    poll_until_ok("the copy replies", Duration::from_mins(1), async || {
        let replying = fleet.replying().await;
        if replying == "yes" { Ok(()) } else { Err(replying) }
    })
    .await;
}
