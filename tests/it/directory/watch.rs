//! Live queries: `rpc nodes --watch` shows joins, changes and leaves, also across a restart of the directory.

use muster_tests::nats_server::NETWORK_TIMEOUT;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::fixture::{DirectoryFixture, FleetNode};

struct NodeWatch {
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl NodeWatch {
    fn start(fleet: &DirectoryFixture, arguments: &[&str]) -> Self {
        let arguments = [&["nodes", "--watch"], arguments].concat();
        let mut child = fleet.rpc.prepare_command(&arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, child }
    }

    async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(NETWORK_TIMEOUT * 3, self.lines.next_line()).await;
        let Ok(line) = line else { panic!("no line in time") };
        line.unwrap().unwrap_or_else(|| panic!("the command ended"))
    }
}

fn change(node: &FleetNode, facts: &str) {
    node.daemon.home().write("facts.d/site.json", facts, 0o644);
    node.reload();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_shows_joins_changes_of_requested_fields_and_leaves() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let first = fleet.start_node("db1.acme.net", r#"{"tier": "production", "owner": "rip"}"#, "");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    let query = ["-Q", "{ 'facts.tier': 'production' }", "--fields", "owner"];
    let mut watch = NodeWatch::start(&fleet, &query);
    assert_eq!(watch.next_line().await, "+ db1.acme.net  present  owner=\"rip\"");

    let second = fleet.start_node("db2.acme.net", r#"{"tier": "production"}"#, "");
    assert_eq!(watch.next_line().await, "+ db2.acme.net  present");
    change(&first, r#"{"tier": "production", "owner": "zoe"}"#);
    assert_eq!(watch.next_line().await, "~ db1.acme.net  present  owner=\"zoe\"");
    // A fact that was not requested is no change; the next line is that of the other node.
    change(&first, r#"{"tier": "production", "owner": "zoe", "rack": 5}"#);
    change(&second, r#"{"tier": "test"}"#);
    assert_eq!(watch.next_line().await, "- db2.acme.net");
    change(&first, r#"{"tier": "test"}"#);
    assert_eq!(watch.next_line().await, "- db1.acme.net");
    watch.child.kill().await.unwrap();
}

/// Run by `make test-all`.
mod long {
    use super::{DirectoryFixture, NodeWatch, change};

    /// Cursors belong to one instance, and each request could reach another one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn watch_stays_with_one_of_two_instances_until_it_ends() {
        let fleet = DirectoryFixture::start().await;
        let mut instances = [
            fleet.start_directory("dir1.acme.net", "directory1"),
            fleet.start_directory("dir2.acme.net", "directory2"),
        ];
        let node = fleet.start_node("db1.acme.net", r#"{"tier": "production"}"#, "");
        fleet.await_present(&["db1.acme.net", "dir1.acme.net", "dir2.acme.net"]).await;
        let mut watch =
            NodeWatch::start(&fleet, &["-F", "tier=production", "--fields", "tier,owner"]);
        assert_eq!(watch.next_line().await, "+ db1.acme.net  present  tier=\"production\"");
        for owner in ["rip", "zoe", "joe"] {
            change(&node, &format!(r#"{{"tier": "production", "owner": "{owner}"}}"#));
            let expected =
                format!("~ db1.acme.net  present  owner=\"{owner}\"  tier=\"production\"");
            assert_eq!(watch.next_line().await, expected);
        }
        // One of them answers the watch. After it has ended, the other one does.
        let [first, second] = &mut instances;
        first.daemon.kill_and_wait();
        change(&node, r#"{"tier": "test"}"#);
        assert_eq!(watch.next_line().await, "- db1.acme.net");
        first.daemon = first.daemon.home().clone().start();
        fleet.await_present(&["db1.acme.net", "dir1.acme.net", "dir2.acme.net"]).await;
        second.daemon.kill_and_wait();
        change(&node, r#"{"tier": "production"}"#);
        assert_eq!(watch.next_line().await, "+ db1.acme.net  present  tier=\"production\"");
        watch.child.kill().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn watch_continues_after_a_restart_of_the_directory() {
        let fleet = DirectoryFixture::start().await;
        let mut directory = fleet.start_directory("dir1.acme.net", "directory1");
        let node = fleet.start_node("db1.acme.net", r#"{"tier": "production"}"#, "");
        fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
        let mut watch = NodeWatch::start(&fleet, &["-F", "tier=production"]);
        assert_eq!(watch.next_line().await, "+ db1.acme.net  present");
        directory.daemon.kill_and_wait();
        // It stops matching while no instance runs.
        change(&node, r#"{"tier": "test"}"#);
        directory.daemon = directory.daemon.home().clone().start();
        loop {
            let line = watch.next_line().await;
            match line.as_str() {
                "- db1.acme.net" => break,
                // The new instance has not seen it yet.
                "~ db1.acme.net  unknown" | "~ db1.acme.net  present" => {}
                other => panic!("{other}"),
            }
        }
        watch.child.kill().await.unwrap();
    }
}
