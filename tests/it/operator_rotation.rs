//! Rotation of the operator's key (`rpc org rotate operator`) on a running fleet, and attacks with the replaced key: a real broker with TLS, real
//! daemons, real commands.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::path::Path;
use std::process::Command;

use muster_tests::{await_state, nats_server, poll_until_ok};
use muster_wire::token::encode::{TokenValidity, issue_account_token};
use muster_wire::token::{AccountTrust, KeyPair, PublicKey};
use nix::sys::signal::{Signal, kill};

use crate::demo::describe_output;
use crate::rotation::{Daemon, NODES, RECONNECT_TIMEOUT, RotatedFleet};

/// The operator that the organisation's description names.
fn operator(organisation: &Path) -> PublicKey {
    let profile = std::fs::read_to_string(organisation.join("organisation.toml")).unwrap();
    let profile: toml::Value = toml::from_str(&profile).unwrap();
    PublicKey::parse(profile.get("operator").unwrap().as_str().unwrap()).unwrap()
}

/// The account token that a node stored, verified against the operator of its configuration.
fn stored_account(fleet: &RotatedFleet, node: &str, configured: PublicKey) -> Option<AccountTrust> {
    let text = std::fs::read_to_string(fleet.node(node).join("state/account.jwt")).ok()?;
    Some(AccountTrust::new(configured, text.trim()).unwrap())
}

/// Ends the broker, and starts it again on the same port with the same files.
async fn restart_broker(fleet: &RotatedFleet, port: &str, earlier: Option<Daemon>) -> Daemon {
    let round = u8::from(earlier.is_some());
    match earlier {
        Some(broker) => drop(broker),
        None => kill(fleet.broker_process().unwrap(), Signal::SIGTERM).unwrap(),
    }
    await_state("the broker has ended", || fleet.broker_process().is_none()).await;
    let log = fleet.demo.fleet().join(format!("log/broker.{round}"));
    let config = fleet.organisation().join("broker/nats.conf");
    let mut command = Command::new(nats_server::find_binary());
    Daemon::start(command.arg("--config").arg(config).args(["--port", port]), log)
}

/// Copies a directory with everything in it.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_is_rotated_on_a_running_fleet_and_its_old_key_is_worthless() {
    let fleet = RotatedFleet::start();
    fleet.await_replies(&NODES).await;
    let url = fleet.run_org(&["show", "-j"]);
    let port = url.split("127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let old = operator(&fleet.organisation());
    // What a thief has: a copy of the whole organisation before the rotation.
    let stolen = fleet.demo.fleet().join("stolen");
    copy_directory(&fleet.organisation(), &stolen);

    // The present operator names the next one; every node learns it, and every request meanwhile is answered.
    let is_announced = || {
        NODES.iter().all(|node| {
            let account = stored_account(&fleet, node, old);
            account.is_some_and(|account| account.next_operator().is_some())
        })
    };
    let first = fleet.run_under_load(&["rotate", "operator"], is_announced);
    assert!(fleet.run_org(&["rotate", "operator"]).contains("exists already"));

    // A broker that was not restarted would refuse the new operator's tokens without saying so, so the rotation cannot be finished.
    let refused = fleet.org(&["rotate", "operator", "--finish"]);
    assert_eq!(refused.status.code(), Some(1), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("do not accept the new operator"));
    assert_eq!(operator(&fleet.organisation()), old);
    let broker = restart_broker(&fleet, &port, None).await;
    let outage = fleet.await_replies(&NODES).await;

    let is_succeeded = || {
        NODES.iter().all(|node| {
            let account = stored_account(&fleet, node, old);
            account.is_some_and(|account| account.signing_operator() != old)
        })
    };
    let second = fleet.run_under_load(&["rotate", "operator", "--finish"], is_succeeded);
    let new = operator(&fleet.organisation());
    assert_ne!(old, new);
    let broker = restart_broker(&fleet, &port, Some(broker)).await;
    let second_outage = fleet.await_replies(&NODES).await;
    eprintln!(
        "{first} and {second} requests during the two steps succeeded; all nodes replied {outage:?} and {second_outage:?} after the broker's restarts"
    );

    // Revocations work, also for nodes and a client that are configured with the old operator.
    fleet.run_org(&["revoke", "guest", "--yes"]);
    fleet.ping(&NODES).unwrap();

    let daemons = attack_with_the_old_key(&fleet, &stolen, (old, new)).await;
    drop(daemons);
    pin_the_new_operator(&fleet, (old, new)).await;
    drop(broker);
}

/// The thief writes account tokens into the trust bucket: one that revokes the user, one that names another successor, and one of that successor.
/// A daemon that starts reads the bucket before it serves, and a client before it sends.
async fn attack_with_the_old_key(
    fleet: &RotatedFleet,
    stolen: &Path,
    (old, new): (PublicKey, PublicKey),
) -> Vec<Daemon> {
    let account = fleet.demo.fleet().join("account.jwt");
    std::fs::copy(fleet.organisation().join("account.jwt"), account).unwrap();
    let known = stored_account(fleet, NODES[0], old).unwrap();
    // The forged token must be the newest.
    poll_until_ok("the next second", RECONNECT_TIMEOUT, async || {
        (muster_tests::now() / 1000 > known.issued_at() + 1).then_some(()).ok_or("the same second")
    })
    .await;
    disable_check_for_older_copies(fleet, stolen);
    let run_stolen = |arguments: &[&str]| {
        let more = ["--org", stolen.to_str().unwrap()];
        fleet.demo.rpc(&[&["org"], arguments, &more].concat())
    };
    let attacks = [
        &["revoke", "demo", "--yes"][..],
        &["rotate", "operator"],
        &["rotate", "operator", "--finish", "--force"],
    ];
    let mut daemons = Vec::new();
    for (attack, restarted) in attacks.into_iter().zip(NODES) {
        let output = run_stolen(attack);
        let output_text = describe_output(&output);
        assert!(output.status.success(), "{attack:?}: {output_text}");
        // The thief may write to the bucket: the stolen copy has the administrators' key.
        assert!(!output_text.contains("cannot publish"), "{attack:?}: {output_text}");
        fleet.demo.stop_node(restarted);
        daemons.push(fleet.start_node(restarted));
        fleet.await_replies(&NODES).await;
        for node in NODES {
            let stored = stored_account(fleet, node, old).unwrap();
            assert_eq!(stored.signing_operator(), new, "{attack:?}: {node}");
        }
    }
    daemons
}

/// Lets `rpc` push from the stolen copy, as a changed program of the thief would: the copy has had the newest token of the fleet, a later one of the stores, and
/// no bootstrap account.
fn disable_check_for_older_copies(fleet: &RotatedFleet, stolen: &Path) {
    let key = std::fs::read_to_string(stolen.join("keys/operator.nk")).unwrap();
    let key = KeyPair::from_seed(key.trim()).unwrap();
    let file = stolen.join("storage.jwt");
    let text = std::fs::read_to_string(&file).unwrap();
    let stores = AccountTrust::new(key.public_key(), text.trim()).unwrap();
    let claims = stores.claims().nats.clone();
    let validity = TokenValidity::without_end(muster_tests::now() / 1000);
    let later = issue_account_token("storage", stores.account_key(), claims, validity, &key);
    std::fs::write(&file, later.unwrap()).unwrap();
    let newest = std::fs::read_to_string(fleet.organisation().join("account.jwt")).unwrap();
    let signature = newest.trim().rsplit('.').next().unwrap();
    std::fs::write(stolen.join("known-tokens.txt"), format!("{signature}\n")).unwrap();
    let profile = stolen.join("organisation.toml");
    let text = std::fs::read_to_string(&profile).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("newcomers_account")).collect();
    std::fs::write(&profile, lines.join("\n")).unwrap();
}

/// Nodes and clients may be configured with the new operator at any later time.
async fn pin_the_new_operator(fleet: &RotatedFleet, (old, new): (PublicKey, PublicKey)) {
    let node = NODES[0];
    let account = fleet.organisation().join("account.jwt");
    std::fs::copy(&account, fleet.node(node).join("account.jwt")).unwrap();
    for config in [fleet.node(node).join("rpcd.toml"), fleet.demo.fleet().join("rpc.toml")] {
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains(&old.to_string()));
        std::fs::write(&config, text.replace(&old.to_string(), &new.to_string())).unwrap();
    }
    let daemon = fleet.start_node(node);
    fleet.await_replies(&[&[node], &NODES[3..]].concat()).await;
    drop(daemon);
}
