//! The agents `provision` and `puppetca` at work: before the stub authority, and before the real Puppet Server with the real Puppet.

#![expect(clippy::indexing_slicing, reason = "answers are indexed; tests end by panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::identity::Identity;
use muster_api::wire::status::ReplyReason;
use muster_api::{ActionError, Agent};
use muster_permits::PermitClient;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::puppet_ca::{PuppetCa, request};
use muster_tests::puppetserver::PuppetServer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// Asks an agent as the host would.
async fn ask(agent: &Agent, action: &str, input: Value) -> Result<Map<String, Value>, ActionError> {
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("node.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let mut cx = node.context(agent.name(), action, system).unwrap();
    // The real thing takes its time on a busy machine.
    cx.deadline += Duration::from_mins(5);
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(declared.validate_output(&output).unwrap())
}

fn puppetca(options: Value, state: &Path) -> Agent {
    let options = serde_json::from_value(options).unwrap();
    muster_puppetca::build_agent(options, state.join("puppetca")).unwrap()
}

fn with(mut options: Value, key: &str, value: impl Into<Value>) -> Value {
    options[key] = value.into();
    options
}

#[track_caller]
fn assert_contains(error: &ActionError, text: &str) {
    assert!(error.message.contains(text), "{error}");
}

/// What holds before every authority: a request is compared, signed once, revoked, cleaned. `submit` sends a request.
async fn signs_what_is_meant(
    options: &Value,
    state: &Path,
    submit: impl AsyncFn(&str, &str) -> u16,
    is_revoked: impl Fn(&str) -> bool,
) {
    let agent = puppetca(options.clone(), state);
    let name = json!({"certname": "web1.example.net"});
    let absent = ask(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(absent["state"], json!("absent"));
    let nothing = ask(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!(nothing["found"], json!(false));
    let (csr, _) = request("web1.example.net", &[]);
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    assert_eq!(submit("web1.example.net", &csr).await, 400);
    let listed = ask(&agent, "list", json!({"state": "requested"})).await.unwrap();
    assert_eq!(listed["requests"], json!(["web1.example.net"]));
    let waiting = ask(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(waiting["state"], json!("requested"));
    let meant = muster_certificate::CertificateRequest::parse(&csr).unwrap();
    assert_eq!(waiting["fingerprint"], json!(meant.fingerprint));

    // One that somebody else sent for the name is not the one that is meant.
    let (other, _) = request("web1.example.net", &[]);
    let other = muster_certificate::CertificateRequest::parse(&other).unwrap();
    let sign = |of: &muster_certificate::CertificateRequest| json!({"certname": "web1.example.net", "fingerprint": of.fingerprint, "public_key": of.public_key});
    let error = ask(&agent, "sign", sign(&other)).await.unwrap_err();
    assert_contains(&error, "was not signed: its fingerprint");
    let waiting = ask(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(waiting["state"], json!("requested"));

    for changed in [true, false] {
        let signed = ask(&agent, "sign", sign(&meant)).await.unwrap();
        assert_eq!(signed["changed"], json!(changed));
        assert_eq!(signed["public_key"], json!(meant.public_key));
    }
    let error = ask(&agent, "sign", sign(&other)).await.unwrap_err();
    assert_contains(&error, "already has a certificate");
    let signed = ask(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(signed["state"], json!("signed"));
    assert_eq!(signed["public_key"], json!(meant.public_key));
    assert_eq!(signed["dns_alt_names"], json!(["DNS:web1.example.net"]));
    let serial = signed["serial"].as_str().unwrap().to_owned();
    assert!(!is_revoked(&serial));

    for changed in [true, false] {
        let revoked = ask(&agent, "revoke", name.clone()).await.unwrap();
        assert_eq!(revoked["changed"], json!(changed));
        assert_eq!(revoked["serial"], json!(serial));
    }
    assert!(is_revoked(&serial));
    let error = ask(&agent, "sign", sign(&meant)).await.unwrap_err();
    assert_contains(&error, "is revoked");
    let cleaned = ask(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(false)));

    // The name is free; what is cleaned with a valid certificate is revoked too, and a request alone just goes.
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    let lifetime = with(sign(&meant), "ttl", 3600);
    let signed = ask(&agent, "sign", lifetime).await.unwrap();
    let left =
        signed["not_after"].as_i64().unwrap() - i64::try_from(muster_tests::now() / 1000).unwrap();
    assert!((0..=3600).contains(&left), "{left}");
    let cleaned = ask(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(true)));
    assert!(is_revoked(cleaned["serial"].as_str().unwrap()));
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    let cleaned = ask(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(false)));
    let absent = ask(&agent, "status", name).await.unwrap();
    assert_eq!(absent["state"], json!("absent"));

    // A request for more than its name: refused by us, and where we would, by the authority.
    let (greedy, _) = request("web2.example.net", &["puppet"]);
    assert_eq!(submit("web2.example.net", &greedy).await, 200);
    let greedy = muster_certificate::CertificateRequest::parse(&greedy).unwrap();
    let sign = json!({"certname": "web2.example.net", "fingerprint": greedy.fingerprint});
    let error = ask(&agent, "sign", sign.clone()).await.unwrap_err();
    assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })), "{error:?}");
    let lax = puppetca(with(options.clone(), "allow_alt_names", true), state);
    let error = ask(&lax, "sign", sign).await.unwrap_err();
    assert_contains(&error, "subject alternative names");
    let alone = json!({"certname": "web2.example.net"});
    let error = ask(&agent, "sign", alone).await.unwrap_err();
    assert_contains(&error, "a name alone does not identify a request");
}

#[tokio::test]
async fn the_stub_authority_signs_what_is_meant() {
    let (ca, state) = (PuppetCa::start().await, TempDir::new().unwrap());
    let submit = async |name: &str, csr: &str| ca.submit(name, csr).0;
    let is_revoked = |serial: &str| {
        let serial = u64::from_str_radix(serial, 16).unwrap();
        ca.revoked().contains(&serial)
    };
    signs_what_is_meant(&ca.options(), state.path(), submit, is_revoked).await;
    assert_eq!(ca.times_signed("web1.example.net"), 2);
}

#[tokio::test]
async fn who_may_not_administer_the_authority_is_told_why() {
    let (ca, state) = (PuppetCa::start().await, TempDir::new().unwrap());
    let options = with(ca.options(), "cert", ca.path("stranger.pem").display().to_string());
    let options = with(options, "key", ca.path("stranger.key").display().to_string());
    let error = ask(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "pp_cli_auth");
    // An authority that is not the one that is configured.
    let other = PuppetCa::start().await;
    let options = with(ca.options(), "ca", other.path("ca.pem").display().to_string());
    let error = ask(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "no valid response from");
    assert!(
        ca.handled_requests().iter().all(|asked| asked.status == 403),
        "{:?}",
        ca.handled_requests()
    );
    let options = with(ca.options(), "url", "http://localhost:1");
    let error = ask(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "https://");
}

/// A request as the node sends it; over HTTP, by the program that every machine has.
#[expect(clippy::disallowed_types, reason = "speaks HTTP for a node")]
async fn put(server: &PuppetServer, name: &str, csr: &str) -> u16 {
    let output = tokio::process::Command::new("curl")
        .args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT"])
        .args(["-H", "Content-Type: text/plain", "--data-binary", csr, "--cacert"])
        .arg(server.path("ssl/certs/ca.pem"))
        .arg(format!("{}/puppet-ca/v1/certificate_request/{name}", server.url()))
        .output()
        .await
        .unwrap();
    let code = String::from_utf8_lossy(&output.stdout).into_owned();
    code.parse().unwrap_or_else(|_| panic!("{output:?}"))
}

/// Says where things are, and is at work for a moment. The last word is the node's directory.
const PUPPET: &str = r#"#!/bin/sh
for dir; do :; done
if [ "$1" = config ]; then
  echo "certname = web1"
  for name in hostcert hostprivkey hostpubkey hostcsr localcacert hostcrl lastrunfile agent_disabled_lockfile agent_catalog_run_lockfile; do
    echo "$name = $dir/$name"
  done
  exit 0
fi
echo begin >> $dir/../log
sleep 0.1
printf 'version:\n  config: 7\nresources:\n  total: 9\n' > $dir/lastrunfile
echo end >> $dir/../log
"#;

/// X1: whoever runs Puppet takes a place among the nodes that do, a provisioner's runs too.
#[tokio::test]
async fn provisioning_runs_keep_within_the_limit_of_their_pool() {
    use std::os::unix::fs::PermissionsExt as _;
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let home = TempDir::new().unwrap();
    let puppet = home.path().join("puppet");
    std::fs::write(&puppet, PUPPET).unwrap();
    std::fs::set_permissions(&puppet, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut runs = Vec::new();
    for number in 0..4 {
        let directory = home.path().join(format!("node{number}"));
        std::fs::create_dir(&directory).unwrap();
        let options = json!({"command": [puppet], "arguments": ["--at", directory], "limit": 1});
        let signer = organisation.node(&format!("node{number}"));
        let permits = PermitClient::new(signer.identity().clone());
        permits.connect(connect(&server, &signer).await);
        let options = serde_json::from_value(options).unwrap();
        let agent = muster_provision::build_agent(
            options,
            directory.join("state"),
            permits,
            Arc::default(),
        )
        .unwrap();
        runs.push(async move { ask(&agent, "run_puppet", json!({})).await });
    }
    for run in futures_util::future::join_all(runs).await {
        assert_eq!(run.unwrap()["class"], json!("clean"));
    }
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert_eq!(log, "begin\nend\n".repeat(4));
}

/// Everything that needs the real server, in one story: it takes half a minute to start.
#[tokio::test]
async fn puppetserver_makes_machines_nodes() {
    let Some(server) = PuppetServer::start().await else {
        return;
    };
    let state = TempDir::new().unwrap();
    let submit = async |name: &str, csr: &str| put(&server, name, csr).await;
    let is_revoked = |serial: &str| server.revoked().contains(&serial.to_owned());
    signs_what_is_meant(&server.options(), state.path(), submit, is_revoked).await;
    let ca = puppetca(server.options(), state.path());
    ask(&ca, "clean", json!({"certname": "web2.example.net"})).await.unwrap();
    let by_command = with(server.options(), "backend", "command");
    let by_command = puppetca(by_command, state.path());

    let node = new_node(&server, state.path(), &ca).await;
    runs_are_told_apart(&server, state.path(), &by_command).await;
    certificates_end(&server, &ca, &node).await;
}

fn provision(server: &PuppetServer, state: &Path, name: &str) -> Agent {
    let options = json!({"enabled": true, "command": ["/usr/bin/puppet"], "arguments": server.agent_arguments(name)});
    let options = serde_json::from_value(options).unwrap();
    let permits = PermitClient::new(Identity::parse(name).unwrap());
    muster_provision::build_agent(options, state.join(name), permits, Arc::default()).unwrap()
}

/// A9.2 from the node's side: request, signature, first run, second run.
async fn new_node(server: &PuppetServer, state: &Path, ca: &Agent) -> Agent {
    let name = "db1.example.net";
    let node = provision(server, state, name);
    let lock = ask(&node, "lock", json!({"owner": "tests", "lease": 600})).await.unwrap();
    let fence = lock["fence"].clone();
    let fenced = json!({"fence": fence});
    let error = ask(&node, "run_puppet", fenced.clone()).await.unwrap_err();
    assert_eq!(error.data["class"], json!("no_certificate"), "{error:?}");
    // That run has sent a request already.
    let sent = ask(&node, "request_certificate", fenced.clone()).await.unwrap();
    assert_eq!(sent["state"], json!("pending"), "{sent:?}");
    let sign = json!({"certname": name, "fingerprint": sent["fingerprint"], "public_key": sent["public_key"]});
    let signed = ask(ca, "sign", sign).await.unwrap();
    assert_eq!(signed["changed"], json!(true));

    let run = ask(&node, "bootstrap_puppet", fenced.clone()).await.unwrap();
    assert_eq!(
        (&run["class"], &run["environment"]),
        (&json!("changed"), &json!("bootstrap")),
        "{run:?}"
    );
    assert!(server.out(name).join("bootstrapped").exists());
    let found = ask(&node, "has_cert", json!({})).await.unwrap();
    assert_eq!(found["has_cert"], json!(true), "{found:?}");
    assert_eq!(found["serial"], signed["serial"]);
    for class in ["changed", "clean"] {
        let run = ask(&node, "run_puppet", fenced.clone()).await.unwrap();
        assert_eq!(
            (&run["class"], &run["environment"]),
            (&json!(class), &json!("production")),
            "{run:?}"
        );
    }
    assert!(server.out(name).join("motd").exists());
    // Somebody disabled the agent by hand.
    let disabled = server.path("nodes").join(name).join("var/state/agent_disabled.lock");
    std::fs::write(&disabled, r#"{"disabled_message":"hand hacking"}"#).unwrap();
    let error = ask(&node, "run_puppet", fenced.clone()).await.unwrap_err();
    assert_eq!(error.data["class"], json!("disabled"), "{error:?}");
    std::fs::remove_file(&disabled).unwrap();
    let done = ask(&node, "release", fenced).await.unwrap();
    assert_eq!(done["changed"], json!(true));
    node
}

/// A9.6 on the real thing, signed by the command line: every way to fail is a failure, and each is another one.
async fn runs_are_told_apart(server: &PuppetServer, state: &Path, ca: &Agent) {
    for (name, class, code) in [
        ("fail1.example.net", "failed", 4),
        ("mixed1.example.net", "failed+changed", 6),
        ("broken1.example.net", "not_applied", 1),
    ] {
        let node = provision(server, state, name);
        let sent = ask(&node, "request_certificate", json!({})).await.unwrap();
        let sign = json!({"certname": name, "public_key": sent["public_key"]});
        let signed = ask(ca, "sign", sign).await.unwrap();
        assert_eq!(signed["changed"], json!(true), "{signed:?}");
        // The directory is there: what fails is all that happens.
        std::fs::create_dir_all(server.out(name)).unwrap();
        let error = ask(&node, "run_puppet", json!({})).await.unwrap_err();
        assert_eq!(
            (&error.data["class"], &error.data["exitcode"]),
            (&json!(class), &json!(code)),
            "{error:?}"
        );
    }
    let listed = ask(ca, "list", json!({})).await.unwrap();
    let signed = listed["signed"].as_array().unwrap();
    assert!(signed.contains(&json!("fail1.example.net")), "{listed:?}");
}

/// A certificate that is cleaned is worth nothing from then on, and the machine gets a new one with its key.
async fn certificates_end(server: &PuppetServer, ca: &Agent, node: &Agent) {
    let name = "db1.example.net";
    let cleaned = ask(ca, "clean", json!({"certname": name})).await.unwrap();
    assert!(server.revoked().contains(&cleaned["serial"].as_str().unwrap().to_owned()));
    let error = ask(node, "run_puppet", json!({})).await.unwrap_err();
    assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })), "{error:?}");
    ask(node, "reprovision", json!({})).await.unwrap();
    let before = ask(node, "has_cert", json!({})).await.unwrap();
    let sent = ask(node, "request_certificate", json!({"fresh": true})).await.unwrap();
    assert_eq!(sent["state"], json!("submitted"), "{sent:?}");
    assert_eq!(sent["public_key"], before["public_key"]);
    let sign = json!({"certname": name, "fingerprint": sent["fingerprint"]});
    let signed = ask(ca, "sign", sign).await.unwrap();
    assert_ne!(signed["serial"], before["serial"]);
    let run = ask(node, "run_puppet", json!({})).await.unwrap();
    assert_eq!(run["class"], json!("clean"), "{run:?}");
}
