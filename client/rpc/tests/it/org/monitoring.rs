//! `rpc org monitor`: what a monitoring system's directory permits, with a real nats-server.

use std::fs;

use muster_bus::Bytes;

use super::broker::{Broker, nats_server};
use super::newcomers::assert_refused;
use super::world::{World, files, mode, talk};

/// Requests that users of the system account with other rights send: tokens, connections, and commands to a server.
const REFUSED: [&str; 16] = [
    "$SYS.REQ.CLAIMS.UPDATE",
    "$SYS.REQ.CLAIMS.LIST",
    "$SYS.REQ.CLAIMS.DELETE",
    "$SYS.REQ.CLAIMS.PACK",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.SERVER.PING.CONNZ",
    "$SYS.REQ.SERVER.PING.SUBSZ",
    "$SYS.REQ.SERVER.PING.PROFILEZ",
    "$SYS.REQ.SERVER.PING.RELOAD",
    "$SYS.REQ.SERVER.PING.KICK",
    "$SYS.REQ.SERVER.NAAA.KICK",
    "$SYS.REQ.SERVER.NAAA.LDM",
    "$SYS.REQ.SERVER.NAAA.VARZ",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    "$SYS.REQ.ACCOUNT.AAAA.CLAIMS.LOOKUP",
    "$SYS.REQ.USER.INFO",
];

#[tokio::test]
async fn monitoring_system_reads_the_state_of_the_broker_and_does_nothing_else() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    let directory = world.scratch.path().join("monitoring");
    let directory = directory.to_str().unwrap();
    world.ok(&["org", "monitor", directory]);
    let status = ["broker", "status", "--org", directory];
    world.ok(&status);
    // It gets no later token of the account, and reports none.
    world.ok(&["org", "revoke", "rip", "--yes"]);
    world.ok(&status);

    for file in files(directory.as_ref()) {
        let name = file.to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let is_secret = ["SEED", "PRIVATE KEY"].iter().any(|word| text.contains(word));
        assert_eq!(is_secret, name.ends_with("creds/system.creds"), "{name}");
        assert_eq!(mode(&file), if is_secret { 0o600 } else { 0o644 }, "{name}");
    }
    let creds = format!("{directory}/creds/system.creds");
    let thief = broker.connect(&world, &creds).await.unwrap();
    for subject in REFUSED {
        let publish = async { thief.publish(subject, Bytes::from("{}")).await.unwrap() };
        assert_refused(&thief, publish).await;
    }
    for subject in ["$SYS.>", "$SYS.ACCOUNT.>", "$SYS.REQ.>", "_INBOX.>", ">"] {
        assert_refused(&thief, async { drop(thief.subscribe(subject).await.unwrap()) }).await;
    }
    let push = world.rpc(&["org", "push", "--org", directory]);
    assert_ne!(push.status.code(), Some(0), "{}", talk(&push));

    let second = world.scratch.path().join("second");
    let second = second.to_str().unwrap();
    world.ok(&["org", "monitor", second, "--replace"]);
    world.ok(&["broker", "status", "--org", second]);
    let ended = world.rpc(&status);
    assert_eq!(ended.status.code(), Some(1), "{}", talk(&ended));
    // A rotation of the organisation's own credentials leaves it as it is.
    world.ok(&["org", "rotate", "system"]);
    world.ok(&["broker", "status"]);
    world.ok(&["broker", "status", "--org", second]);
}
