//! The agents `provision` and `puppetca` with the simulated authority, and with the real Puppet Server and the real
//! Puppet.

#![expect(clippy::indexing_slicing, reason = "answers are indexed; tests end by panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::identity::Identity;
use muster_api::wire::status::ReplyReason;
use muster_api::{ActionError, Agent};
use muster_puppet::permits::PermitClient;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::puppet_ca::{PuppetCa, RequestHold, request};
use muster_tests::puppetserver::PuppetServer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// Calls an action of an agent as the host does.
async fn call_action(
    agent: &Agent,
    action: &str,
    input: Value,
) -> Result<Map<String, Value>, ActionError> {
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("node.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let mut cx = node.context(agent.name(), action, system).unwrap();
    // The real programs are slow on a busy machine.
    cx.deadline += Duration::from_mins(5);
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(declared.validate_output(&output).unwrap())
}

fn puppetca(options: Value, state: &Path) -> Agent {
    let options = serde_json::from_value(options).unwrap();
    muster_provision::puppetca::build_agent(options, state.join("puppetca")).unwrap()
}

fn with_option(mut options: Value, key: &str, value: impl Into<Value>) -> Value {
    options[key] = value.into();
    options
}

#[track_caller]
fn assert_contains(error: &ActionError, text: &str) {
    assert!(error.message.contains(text), "{error}");
}

/// Checks that hold for every authority: a request is compared, signed once, revoked, cleaned. `submit` sends a
/// request.
async fn check_request_lifecycle(
    options: &Value,
    state: &Path,
    submit: impl AsyncFn(&str, &str) -> u16,
    is_revoked: impl Fn(&str) -> bool,
) {
    let agent = puppetca(options.clone(), state);
    let name = json!({"certname": "web1.example.net"});
    let absent = call_action(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(absent["state"], json!("absent"));
    let nothing = call_action(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!(nothing["found"], json!(false));
    let (csr, _) = request("web1.example.net", &[]);
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    assert_eq!(submit("web1.example.net", &csr).await, 400);
    let listed = call_action(&agent, "list", json!({"state": "requested"})).await.unwrap();
    assert_eq!(listed["requests"], json!(["web1.example.net"]));
    let waiting = call_action(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(waiting["state"], json!("requested"));
    let original = muster_provision::certificate::CertificateRequest::parse(&csr).unwrap();
    assert_eq!(waiting["fingerprint"], json!(original.fingerprint));

    // A request of another key for the same name is not signed.
    let (other, _) = request("web1.example.net", &[]);
    let other = muster_provision::certificate::CertificateRequest::parse(&other).unwrap();
    let sign = |request: &muster_provision::certificate::CertificateRequest| json!({"certname": "web1.example.net", "fingerprint": request.fingerprint, "public_key": request.public_key});
    let error = call_action(&agent, "sign", sign(&other)).await.unwrap_err();
    assert_contains(&error, "was not signed: its fingerprint");
    let waiting = call_action(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(waiting["state"], json!("requested"));

    for changed in [true, false] {
        let signed = call_action(&agent, "sign", sign(&original)).await.unwrap();
        assert_eq!(signed["changed"], json!(changed));
        assert_eq!(signed["public_key"], json!(original.public_key));
    }
    let error = call_action(&agent, "sign", sign(&other)).await.unwrap_err();
    assert_contains(&error, "already has a certificate");
    let signed = call_action(&agent, "status", name.clone()).await.unwrap();
    assert_eq!(signed["state"], json!("signed"));
    assert_eq!(signed["public_key"], json!(original.public_key));
    assert_eq!(signed["dns_alt_names"], json!(["DNS:web1.example.net"]));
    let serial = signed["serial"].as_str().unwrap().to_owned();
    assert!(!is_revoked(&serial));

    for changed in [true, false] {
        let revoked = call_action(&agent, "revoke", name.clone()).await.unwrap();
        assert_eq!(revoked["changed"], json!(changed));
        assert_eq!(revoked["serial"], json!(serial));
    }
    assert!(is_revoked(&serial));
    let error = call_action(&agent, "sign", sign(&original)).await.unwrap_err();
    assert_contains(&error, "is revoked");
    let cleaned = call_action(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(false)));

    // The name is free again. Cleaning a signed name also revokes its certificate; cleaning a request removes the
    // request only.
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    let lifetime = with_option(sign(&original), "ttl", 3600);
    let signed = call_action(&agent, "sign", lifetime).await.unwrap();
    let remaining =
        signed["not_after"].as_i64().unwrap() - i64::try_from(muster_tests::now() / 1000).unwrap();
    assert!((0..=3600).contains(&remaining), "{remaining}");
    let cleaned = call_action(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(true)));
    assert!(is_revoked(cleaned["serial"].as_str().unwrap()));
    assert_eq!(submit("web1.example.net", &csr).await, 200);
    let cleaned = call_action(&agent, "clean", name.clone()).await.unwrap();
    assert_eq!((&cleaned["found"], &cleaned["revoked"]), (&json!(true), &json!(false)));
    let absent = call_action(&agent, "status", name).await.unwrap();
    assert_eq!(absent["state"], json!("absent"));

    // A request with additional names is denied by the agent; where the agent allows it, the authority refuses it.
    let (extended, _) = request("web2.example.net", &["puppet"]);
    assert_eq!(submit("web2.example.net", &extended).await, 200);
    let extended = muster_provision::certificate::CertificateRequest::parse(&extended).unwrap();
    let sign = json!({"certname": "web2.example.net", "fingerprint": extended.fingerprint});
    let error = call_action(&agent, "sign", sign.clone()).await.unwrap_err();
    assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })), "{error:?}");
    let lax = puppetca(with_option(options.clone(), "allow_alt_names", true), state);
    let error = call_action(&lax, "sign", sign).await.unwrap_err();
    assert_contains(&error, "subject alternative names");
    let by_name_only = json!({"certname": "web2.example.net"});
    let error = call_action(&agent, "sign", by_name_only).await.unwrap_err();
    assert_contains(&error, "a name alone does not identify a request");
}

#[tokio::test]
async fn simulated_authority_signs_only_the_expected_request() {
    let (ca, state) = (PuppetCa::start().await, TempDir::new().unwrap());
    let submit = async |name: &str, csr: &str| ca.submit(name, csr).0;
    let is_revoked = |serial: &str| {
        let serial = u64::from_str_radix(serial, 16).unwrap();
        ca.revoked().contains(&serial)
    };
    check_request_lifecycle(&ca.options(), state.path(), submit, is_revoked).await;
    assert_eq!(ca.times_signed("web1.example.net"), 2);
}

/// A provisioner died while the authority was slow with its `clean`. The successor cleans, and has the new request signed:
/// the late `clean` does not remove that certificate, because changes of one name are made one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_clean_does_not_remove_a_newer_certificate() {
    const NAME: &str = "web1.example.net";
    let (ca, state) = (PuppetCa::start().await, TempDir::new().unwrap());
    let agent = Arc::new(puppetca(ca.options(), state.path()));
    let clean = |agent: Arc<Agent>| async move {
        call_action(&agent, "clean", json!({ "certname": NAME })).await.unwrap();
    };
    ca.hold_requests(RequestHold::Next);
    let late = tokio::spawn(clean(Arc::clone(&agent)));
    muster_tests::await_state("the clean waits for the authority", || ca.is_holding_next()).await;
    let (csr, _) = request(NAME, &[]);
    let submitted = muster_provision::certificate::CertificateRequest::parse(&csr).unwrap();
    let mut successor = std::pin::pin!(async {
        clean(Arc::clone(&agent)).await;
        assert_eq!(ca.submit(NAME, &csr).0, 200);
        let sign = json!({"certname": NAME, "fingerprint": submitted.fingerprint});
        call_action(&agent, "sign", sign).await.unwrap();
    });
    // How long the authority is slow.
    let is_over = tokio::time::timeout(Duration::from_secs(1), successor.as_mut()).await.is_ok();
    ca.hold_requests(RequestHold::None);
    late.await.unwrap();
    if !is_over {
        successor.await;
    }
    assert_eq!(ca.state(NAME), Some("signed"));
}

#[tokio::test]
async fn unauthorized_access_to_the_authority_is_explained() {
    let (ca, state) = (PuppetCa::start().await, TempDir::new().unwrap());
    let options = with_option(ca.options(), "cert", ca.path("stranger.pem").display().to_string());
    let options = with_option(options, "key", ca.path("stranger.key").display().to_string());
    let error = call_action(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "pp_cli_auth");
    // Another authority than the configured one.
    let other = PuppetCa::start().await;
    let options = with_option(ca.options(), "ca", other.path("ca.pem").display().to_string());
    let error = call_action(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "no valid response from");
    assert!(
        ca.handled_requests().iter().all(|handled| handled.status == 403),
        "{:?}",
        ca.handled_requests()
    );
    let options = with_option(ca.options(), "url", "http://localhost:1");
    let error = call_action(&puppetca(options, state.path()), "list", json!({})).await.unwrap_err();
    assert_contains(&error, "https://");
}

/// Submits a request as a node does, over HTTP with `curl`.
#[expect(clippy::disallowed_types, reason = "speaks HTTP for a node")]
async fn submit_request(server: &PuppetServer, name: &str, csr: &str) -> u16 {
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

/// A Puppet that prints its paths and runs briefly. The last argument is the node's directory.
const FAKE_PUPPET: &str = r#"#!/bin/sh
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

/// X1: every Puppet run takes a permit of its pool, including those of the provisioner.
#[tokio::test]
async fn provisioning_runs_respect_the_limit_of_their_pool() {
    use std::os::unix::fs::PermissionsExt as _;
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let home = TempDir::new().unwrap();
    let puppet = home.path().join("puppet");
    std::fs::write(&puppet, FAKE_PUPPET).unwrap();
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
            muster_provision::ProvisionShared::without_daemon(permits),
        )
        .unwrap();
        runs.push(async move { call_action(&agent, "run_puppet", json!({})).await });
    }
    for run in futures_util::future::join_all(runs).await {
        assert_eq!(run.unwrap()["class"], json!("clean"));
    }
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert_eq!(log, "begin\nend\n".repeat(4));
}

fn provision(server: &PuppetServer, state: &Path, name: &str) -> Agent {
    let options = json!({"enabled": true, "command": ["/usr/bin/puppet"], "arguments": server.agent_arguments(name)});
    let options = serde_json::from_value(options).unwrap();
    let permits = PermitClient::new(Identity::parse(name).unwrap());
    let shared = muster_provision::ProvisionShared::without_daemon(permits);
    muster_provision::build_agent(options, state.join(name), shared).unwrap()
}

/// A9.2 from the node's side: request, signature, first run, second run.
async fn check_new_node(server: &PuppetServer, state: &Path, ca: &Agent) -> Agent {
    let name = "db1.example.net";
    let node = provision(server, state, name);
    let lock = call_action(&node, "lock", json!({"owner": "tests", "lease": 600})).await.unwrap();
    let fence = lock["fence"].clone();
    let fenced = json!({"fence": fence});
    let error = call_action(&node, "run_puppet", fenced.clone()).await.unwrap_err();
    assert_eq!(error.data["class"], json!("no_certificate"), "{error:?}");
    // The failed run has already sent a request.
    let sent = call_action(&node, "request_certificate", fenced.clone()).await.unwrap();
    assert_eq!(sent["state"], json!("pending"), "{sent:?}");
    let sign = json!({"certname": name, "fingerprint": sent["fingerprint"], "public_key": sent["public_key"]});
    let signed = call_action(ca, "sign", sign).await.unwrap();
    assert_eq!(signed["changed"], json!(true));

    let run = call_action(&node, "bootstrap_puppet", fenced.clone()).await.unwrap();
    assert_eq!(
        (&run["class"], &run["environment"]),
        (&json!("changed"), &json!("bootstrap")),
        "{run:?}"
    );
    assert!(server.out(name).join("bootstrapped").exists());
    let found = call_action(&node, "has_cert", json!({})).await.unwrap();
    assert_eq!(found["has_cert"], json!(true), "{found:?}");
    assert_eq!(found["serial"], signed["serial"]);
    for class in ["changed", "clean"] {
        let run = call_action(&node, "run_puppet", fenced.clone()).await.unwrap();
        assert_eq!(
            (&run["class"], &run["environment"]),
            (&json!(class), &json!("production")),
            "{run:?}"
        );
    }
    assert!(server.out(name).join("motd").exists());
    // The agent was disabled by an operator.
    let disabled = server.path("nodes").join(name).join("var/state/agent_disabled.lock");
    std::fs::write(&disabled, r#"{"disabled_message":"hand hacking"}"#).unwrap();
    let error = call_action(&node, "run_puppet", fenced.clone()).await.unwrap_err();
    assert_eq!(error.data["class"], json!("disabled"), "{error:?}");
    std::fs::remove_file(&disabled).unwrap();
    let done = call_action(&node, "release", fenced).await.unwrap();
    assert_eq!(done["changed"], json!(true));
    node
}

/// A9.6 with the real server, signed through the command: each kind of failure is reported as its own class.
async fn check_run_classes(server: &PuppetServer, state: &Path, ca: &Agent) {
    for (name, class, code) in [
        ("fail1.example.net", "failed", 4),
        ("mixed1.example.net", "failed+changed", 6),
        ("broken1.example.net", "not_applied", 1),
    ] {
        let node = provision(server, state, name);
        let sent = call_action(&node, "request_certificate", json!({})).await.unwrap();
        let sign = json!({"certname": name, "public_key": sent["public_key"]});
        let signed = call_action(ca, "sign", sign).await.unwrap();
        assert_eq!(signed["changed"], json!(true), "{signed:?}");
        // The directory exists, so the intended failure is the only one.
        std::fs::create_dir_all(server.out(name)).unwrap();
        let error = call_action(&node, "run_puppet", json!({})).await.unwrap_err();
        assert_eq!(
            (&error.data["class"], &error.data["exitcode"]),
            (&json!(class), &json!(code)),
            "{error:?}"
        );
    }
    let listed = call_action(ca, "list", json!({})).await.unwrap();
    let signed = listed["signed"].as_array().unwrap();
    assert!(signed.contains(&json!("fail1.example.net")), "{listed:?}");
}

/// A cleaned certificate is no longer accepted, and the machine gets a new one for the same key.
async fn check_certificate_revocation(server: &PuppetServer, ca: &Agent, node: &Agent) {
    let name = "db1.example.net";
    let cleaned = call_action(ca, "clean", json!({"certname": name})).await.unwrap();
    assert!(server.revoked().contains(&cleaned["serial"].as_str().unwrap().to_owned()));
    let error = call_action(node, "run_puppet", json!({})).await.unwrap_err();
    assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })), "{error:?}");
    call_action(node, "reprovision", json!({})).await.unwrap();
    let before = call_action(node, "has_cert", json!({})).await.unwrap();
    let sent = call_action(node, "request_certificate", json!({"fresh": true})).await.unwrap();
    assert_eq!(sent["state"], json!("submitted"), "{sent:?}");
    assert_eq!(sent["public_key"], before["public_key"]);
    let sign = json!({"certname": name, "fingerprint": sent["fingerprint"]});
    let signed = call_action(ca, "sign", sign).await.unwrap();
    assert_ne!(signed["serial"], before["serial"]);
    let run = call_action(node, "run_puppet", json!({})).await.unwrap();
    assert_eq!(run["class"], json!("clean"), "{run:?}");
}

/// Run by `make test-all`.
mod long {
    use super::{
        PuppetServer, TempDir, call_action, check_certificate_revocation, check_new_node,
        check_request_lifecycle, check_run_classes, json, puppetca, submit_request, with_option,
    };

    /// All checks that need the real server, in one test: the server takes 30 s to start.
    #[tokio::test]
    async fn puppetserver_enrols_machines() {
        let Some(server) = PuppetServer::start().await else {
            return;
        };
        let state = TempDir::new().unwrap();
        let submit = async |name: &str, csr: &str| submit_request(&server, name, csr).await;
        let is_revoked = |serial: &str| server.revoked().contains(&serial.to_owned());
        check_request_lifecycle(&server.options(), state.path(), submit, is_revoked).await;
        let ca = puppetca(server.options(), state.path());
        call_action(&ca, "clean", json!({"certname": "web2.example.net"})).await.unwrap();
        let by_command = with_option(server.options(), "backend", "command");
        let by_command = puppetca(by_command, state.path());

        let node = check_new_node(&server, state.path(), &ca).await;
        check_run_classes(&server, state.path(), &by_command).await;
        check_certificate_revocation(&server, &ca, &node).await;
    }
}
