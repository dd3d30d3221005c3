//! `rpc check --expect`: a node that the directory knows, and that does not answer, is not missing from the result.

use muster_tests::command::describe_output;
use muster_wire::sign::Signer;

use super::fixture::{DirectoryFixture, FleetNode};

fn start_checked_node(fleet: &DirectoryFixture, signer: Signer) -> FleetNode {
    let home = fleet.node_home(&signer, "{}", "");
    home.write("nrpe.cfg", "command[check_x]=/bin/echo fine\n", 0o644);
    let options = format!("[plugins.nrpe]\nconfig = \"{}\"\n", home.path("nrpe.cfg").display());
    home.write("conf.d/nrpe.toml", &options, 0o644);
    FleetNode { signer, daemon: home.start() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expected_node_that_is_down_is_unknown() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1", "directory1");
    let [_up, mut down] =
        ["node1", "node2"].map(|name| start_checked_node(&fleet, fleet.organisation.node(name)));
    fleet.await_present(&["dir1", "node1", "node2"]).await;
    let check = async |options: &[&str]| {
        let output = fleet.rpc.run(&[&["check", "check_x"], options].concat()).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" checktime="), "{}", describe_output(&output));
        (text.split_once(" checktime=").unwrap().0.to_owned(), text, output.status.code())
    };
    let (counts, _, exit) = check(&["--expect"]).await;
    assert!(counts.ends_with("|total=2 ok=2 warn=0 crit=0 unknown=0"), "{counts}");
    assert_eq!(exit, Some(0));
    down.daemon.kill_and_wait();
    // A broadcast does not find a node that is down.
    let (counts, _, exit) = check(&["--dm", "broadcast"]).await;
    assert!(counts.ends_with("|total=1 ok=1 warn=0 crit=0 unknown=0"), "{counts}");
    assert_eq!(exit, Some(0));
    for options in [&["--expect"][..], &["--expect", "--dm", "broadcast"]] {
        let (counts, text, exit) = check(options).await;
        assert!(counts.ends_with("|total=2 ok=1 warn=0 crit=0 unknown=1"), "{counts}");
        assert!(text.ends_with("\nUNKNOWN:\n  node2: not connected\n"), "{text}");
        assert_eq!(exit, Some(3));
    }
}
