//! Refreshes that the real `puppet agent` loses with catalogs of a real Puppet Server, and that are not lost through our
//! agent, which replays them with the cached catalog.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use std::fs;

use muster_tests::puppetserver::PuppetServer;
use serde_json::json;

use super::puppet_daemon::PuppetDaemonFixture;
use super::puppet_node::PuppetNode;

/// What happens between the change of S and the refresh of Y.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LossCause {
    /// Another dependency of Y fails (M1).
    Dependency,
    /// The refresh of Y fails (M2).
    Refresh,
    /// Y is in noop in the catalog (M4).
    Noop,
    /// Puppet is killed after the change of S, before it logs the change (M6).
    KillBeforeLog,
    /// Puppet is killed after S notified Y (M6).
    Kill,
}

impl LossCause {
    /// The result of the first run.
    fn result(self) -> &'static str {
        match self {
            Self::Dependency | Self::Refresh => "failed+changed",
            Self::Noop => "pending",
            Self::KillBeforeLog | Self::Kill => "killed",
        }
    }
}

/// A machine with a certificate of the server.
struct AgentNode<'a> {
    server: &'a PuppetServer,
    node: PuppetNode,
    cause: LossCause,
}

impl<'a> AgentNode<'a> {
    async fn enrol(server: &'a PuppetServer, cause: LossCause) -> Self {
        let name = format!("{cause:?}.example.net").to_lowercase();
        let node = PuppetNode::of_server(&name, server);
        // The first run ends without a certificate, and leaves a request for one.
        let output = node.run_stock_puppet(&[]);
        assert!(output.contains("Certificate for"), "{output}");
        server.sign_request(&name).await;
        Self { server, node, cause }
    }

    /// The machine before the first run, with the cause.
    fn reset(&self) {
        let w = self.node.path("w");
        fs::remove_dir_all(&w).unwrap();
        fs::create_dir(&w).unwrap();
        fs::write(w.join("broken"), "").unwrap();
        self.write_manifest(true);
    }

    fn remove_cause(&self) {
        fs::remove_file(self.node.path("w/broken")).unwrap();
        self.write_manifest(false);
    }

    /// S notifies Y, and Y notifies Z.
    fn write_manifest(&self, is_blocked: bool) {
        let w = self.node.path("w").display().to_string();
        let suicide = format!("if test -e {w}/broken; then kill -9 $PPID; fi");
        let code = |cause: LossCause, code: &str| {
            if self.cause == cause { code.to_owned() } else { "true".to_owned() }
        };
        let unbroken = format!("test ! -e {w}/broken");
        let is_noop = is_blocked && self.cause == LossCause::Noop;
        let s = code(LossCause::KillBeforeLog, &suicide);
        let between = match self.cause {
            LossCause::Kill => suicide,
            _ => code(LossCause::Dependency, &unbroken),
        };
        let y = code(LossCause::Refresh, &unbroken);
        let shell = |line: &str| format!("['/bin/sh', '-c', '{line}']");
        let (s, between) = (shell(&format!("touch {w}/s; {s}")), shell(&between));
        let (y, z) =
            (shell(&format!("{y} && echo Y >> {w}/log")), shell(&format!("echo Z >> {w}/log")));
        self.server.write_manifest(&format!(
            "exec {{ 'S': command => {s}, creates => '{w}/s', notify => Exec['Y'], before => Exec['between'] }}
exec {{ 'between': command => {between}, onlyif => '/usr/bin/test -e {w}/broken', before => Exec['Y'] }}
exec {{ 'Y': command => {y}, refreshonly => true, noop => {is_noop}, notify => Exec['Z'] }}
exec {{ 'Z': command => {z}, refreshonly => true }}
"
        ));
    }

    /// Without our agent: the second run is clean, and Y and Z never run.
    fn assert_lost_by_stock_agent(&self) {
        let (node, cause) = (&self.node, self.cause);
        self.reset();
        let output = node.run_stock_puppet(&[]);
        assert!(node.path("w/s").exists(), "{cause:?}: {output}");
        self.remove_cause();
        let output = node.run_stock_puppet(&[]);
        assert_eq!(node.report_status(), "unchanged", "{cause:?}: {output}");
        assert_eq!(node.log(), [""; 0], "{cause:?} does not lose the refresh any more: {output}");
    }

    /// Through our agent: pending after the first run, made once in the next.
    async fn assert_kept_by_agent(&self) {
        let (node, cause) = (&self.node, self.cause);
        self.reset();
        let fixture = PuppetDaemonFixture::start(node).await;
        let (first, exit) = fixture.run_puppet(&[]).await;
        assert_eq!((exit, &first["class"]), (2, &json!(cause.result())), "{cause:?}: {first}");
        assert_eq!(first["pending"], json!(["Exec[Y]"]), "{cause:?}: {first}");
        assert_eq!(node.log(), [""; 0], "{cause:?}");
        let cached = node.path(&format!("var/client_data/catalog/{}.json", node.name()));
        self.remove_cause();
        let (second, exit) = fixture.run_puppet(&[]).await;
        let result = (exit, &second["class"], &second["pending"]);
        assert_eq!(result, (0, &json!("changed"), &json!([])), "{cause:?}: {second}");
        assert_eq!(second["replayed"], json!(["Exec[Y]"]), "{cause:?}: {second}");
        assert_eq!(node.log(), ["Y", "Z"], "{cause:?}: {second}");
        let catalog = fs::read_to_string(cached).unwrap();
        assert!(!catalog.contains("earlier runs owe"), "the cached catalog is that of the server");
        let (third, exit) = fixture.run_puppet(&[]).await;
        assert_eq!((exit, &third["class"]), (0, &json!("clean")), "{cause:?}: {third}");
        assert_eq!(node.log(), ["Y", "Z"], "{cause:?}: a further run must not repeat them");
    }
}

/// Run by `make test-all`.
mod long {
    use super::{AgentNode, LossCause, PuppetServer};

    /// In one test, because the server takes 30 s to start.
    #[tokio::test]
    async fn puppetserver_agent_runs_of_m1_m2_m4_and_m6_lose_no_refresh() {
        let Some(server) = PuppetServer::start().await else {
            return;
        };
        for cause in [
            LossCause::Dependency,
            LossCause::KillBeforeLog,
            LossCause::Refresh,
            LossCause::Noop,
            LossCause::Kill,
        ] {
            let node = AgentNode::enrol(&server, cause).await;
            node.assert_lost_by_stock_agent();
            node.assert_kept_by_agent().await;
        }
    }
}
