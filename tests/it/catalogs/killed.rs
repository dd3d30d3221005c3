//! A host that is killed while it compiles: another one compiles the node.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::Value;

use super::fixture::Environment;

const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n";
/// A compile that creates the file `begun`, and ends when the file `end` exists.
const MANIFEST: &str = "$waited = generate('/bin/sh', '-c', \
    'touch \"$TMPDIR/begun\"; until test -e \"$TMPDIR/end\"; do sleep 0.05; done; echo done')\n\
    notify { \"it is ${waited.strip}\": }\n";

/// A host that compiles, with its directory.
struct CompilerHost {
    daemon: Rpcd,
    state: PathBuf,
}

impl CompilerHost {
    fn start(
        environment: &Environment,
        organisation: &Organisation,
        url: &str,
        name: &str,
    ) -> Self {
        let node = organisation.node(&format!("{name}.acme.net"));
        let home = DaemonHome::new(organisation, &node, url, REGISTRATION);
        let service = organisation.service(ServiceRight::Compile, name);
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        home.write("service.creds", &creds.to_text(), 0o600);
        home.write("secret.key", &format!("{}\n", "ab".repeat(32)), 0o600);
        let state = environment.path().join("state").join(name);
        let options = format!(
            "[plugins.compiler]\nenabled = true\ncredentials = \"../service.creds\"\nsecret_key = \"../secret.key\"\n\
             directory = \"{}\"\nlease_seconds = 2\n\
             [plugins.compiler.environments.production]\ndirectory = \"{}\"\nnodes = \"role=web\"\n",
            state.display(),
            environment.code_path().display(),
        );
        home.write("conf.d/compiler.toml", &options, 0o644);
        Self { daemon: home.start(), state }
    }

    /// The directory of a compile that has begun.
    fn begun(&self) -> Option<PathBuf> {
        let compilers = fs::read_dir(self.state.join("compilers")).ok()?;
        let mut work = compilers.map(|compiler| compiler.unwrap().path().join("work"));
        work.find(|work| work.join("begun").exists())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_2_node_of_a_killed_host_is_compiled_by_another_one() {
    let Some(environment) = Environment::create() else { return };
    environment.write("manifests/site.pp", MANIFEST);
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
    let url = server.url();
    let mut hosts = ["compiler1", "compiler2"]
        .map(|name| CompilerHost::start(&environment, &organisation, &url, name));
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &url, REGISTRATION);
    home.write("facts.d/role.json", "{\"role\": \"web\"}", 0o644);
    let _node = home.start();
    let first = poll_until_ok("a host compiles the node", TIMEOUT, async || {
        hosts.iter().position(|host| host.begun().is_some()).ok_or("none")
    })
    .await;
    hosts[first].daemon.kill_and_wait();
    // The program that the killed compile has started ends.
    fs::write(hosts[first].begun().unwrap().join("end"), "").unwrap();
    let work = poll_until_ok("the other host compiles it", TIMEOUT, async || {
        hosts[1 - first].begun().ok_or("not yet")
    })
    .await;
    fs::write(work.join("end"), "").unwrap();
    poll_until_ok("the catalog is stored", TIMEOUT, async || {
        let output = rpc.run(&["catalog", "show", NODE, "-j"]).await;
        let shown: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
        let text = shown["catalog"].to_string();
        if text.contains("it is done") { Ok(()) } else { Err(text) }
    })
    .await;
}
