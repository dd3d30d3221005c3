//! A daemon reports that files which it reads at its start differ from those on disk, until it is restarted or they are put back.

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::token::UserCredentials;

use crate::monitoring::{
    METRICS_CONFIG, await_metrics_address, await_sample, await_status, scrape,
};

const NODE: &str = "web1.example.net";
const PENDING: &str = "muster_configuration_pending";

/// A node and a caller.
struct PendingFixture {
    organisation: Organisation,
    _server: NatsServer,
    node: Rpcd,
    address: String,
    rpc: RpcCommand,
}

impl PendingFixture {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let signer = organisation.node(NODE);
        let home = DaemonHome::new(&organisation, &signer, &server.url(), METRICS_CONFIG);
        let mut node = home.start();
        let address = await_metrics_address(&mut node).await;
        await_status(&address, "/readyz", 200).await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        Self { organisation, _server: server, node, address, rpc }
    }

    fn write(&self, name: &str, text: &str) {
        self.node.home().write(name, text, 0o600);
    }

    async fn assert_pending(&self, expected: &str) {
        assert_eq!(scrape(&self.address).await.get(PENDING).map(String::as_str), Some(expected));
    }

    /// Waits until `rpc doctor` says this about the node.
    async fn await_reported(&self, text: &str) {
        poll_until_ok(&format!("rpc doctor reports `{text}`"), NETWORK_TIMEOUT, async || {
            // A text is not wrapped there.
            let output = describe_output(&self.rpc.run(&["doctor", "-j"]).await);
            if output.contains(text) { Ok(()) } else { Err(output) }
        })
        .await;
    }

    /// Starts the daemon again, with the files that are there.
    async fn restart(&mut self) {
        self.node.kill_and_wait();
        self.node = self.node.home().clone().start();
        self.address = await_metrics_address(&mut self.node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_settings_are_reported_until_a_restart() {
    let mut fixture = PendingFixture::start().await;
    fixture.assert_pending("0").await;
    // Another text with the same settings, and a file that a reload reads.
    fixture.write("conf.d/empty.toml", "# nothing is set here\n");
    fixture.write("policies/more.policy", "policy default deny\n");
    fixture.assert_pending("0").await;
    fixture.write("conf.d/limits.toml", "[limits]\nqueue = 7\n");
    fixture.assert_pending("1").await;
    fixture.await_reported("differ from those that rpcd runs with: limits.queue; restart").await;
    fixture.restart().await;
    fixture.assert_pending("0").await;
    std::fs::remove_file(fixture.node.home().path("conf.d/limits.toml")).unwrap();
    fixture.assert_pending("1").await;
    fixture.write("conf.d/limits.toml", "[limits]\nqueue = 7\n");
    fixture.assert_pending("0").await;
    fixture.write("conf.d/limits.toml", "[limits]\nqueue = \"many\"\n");
    let error = "muster_findings{level=\"error\"}";
    await_sample(&fixture.address, error, "1").await;
    fixture.await_reported("rpcd would not start with it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_credentials_and_a_newer_account_token_are_reported() {
    let mut fixture = PendingFixture::start().await;
    let renewed = fixture.organisation.node(NODE);
    let creds = UserCredentials::new(&renewed.token(), renewed.key_pair().clone()).unwrap();
    fixture.write("node.creds", &creds.to_text());
    fixture.assert_pending("1").await;
    fixture.await_reported("node.creds was changed after rpcd had read it").await;
    fixture.restart().await;
    fixture.assert_pending("0").await;

    let gone = fixture.organisation.node("gone.example.net");
    let newer = fixture.organisation.revoke_user(&gone);
    fixture.write("account.jwt", &newer);
    fixture.assert_pending("1").await;
    fixture.await_reported("account.jwt was changed after rpcd had read it").await;
    fixture.restart().await;
    fixture.assert_pending("0").await;
}
