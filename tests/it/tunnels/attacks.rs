//! Stolen keys of other users and nodes, and a broker that reads, repeats and invents messages.

use muster_bus::{BusSubscription, Bytes};
use muster_tests::await_state;
use muster_tests::raw_nats::RawNats;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::TunnelFleet;
use super::servers::LoopbackServer;

/// Sends a text and waits until it is back.
async fn echo(connection: &mut TcpStream, text: &[u8]) {
    connection.write_all(text).await.unwrap();
    let mut back = vec![0; text.len()];
    connection.read_exact(&mut back).await.unwrap();
    assert_eq!(back, text);
}

/// The messages on the subjects of tunnels, and of replies, that were seen until now.
fn seen_messages(spy: &mut BusSubscription) -> Vec<(String, Bytes)> {
    let mut seen = Vec::new();
    while let Some(message) = spy.try_next() {
        seen.push((message.subject().to_owned(), message.payload().clone()));
    }
    seen
}

const SECRET: &[u8] = b"the-password-is-in-this-text";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_others_neither_inject_into_a_tunnel_nor_read_it() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let (_bus, mut spy) = fleet.organisation.subscribe_all(&fleet.server).await;
    let tunnel = fleet.open(server.port).await;
    let mut connection = TcpStream::connect(tunnel.address).await.unwrap();
    echo(&mut connection, SECRET).await;
    let seen = seen_messages(&mut spy);
    let to_node = seen.iter().find(|(subject, _)| subject.starts_with("_T.")).unwrap().0.clone();
    let to_caller = to_node.replacen("_T.", "_R.", 1);
    assert!(seen.iter().any(|(subject, _)| *subject == to_caller), "{to_caller}");
    let victim = to_node.split('.').nth(1).unwrap().to_owned();

    let anna = fleet.organisation.caller("anna");
    let mut stolen = RawNats::connect(&fleet.server, &anna).await;
    stolen.publish(&to_node, "", "", "forged").await;
    stolen.publish(&to_caller, "", "", "forged").await;
    for subject in [&to_caller, &to_node, &format!("_R.{victim}.>"), "_T.>", "_T.*.*.n1"] {
        stolen.subscribe(subject, "").await;
    }
    let output = stolen.sync().await;
    assert_eq!(output.refusals.len(), 7, "{output:?}");
    // Under her own key she reaches no tunnel: the node listens for the key that opened it.
    let own = to_node.replacen(&victim, &anna.public_key().to_string(), 1);
    stolen.publish(&own, "", "", "forged").await;
    assert_eq!(stolen.sync().await.refusals.len(), 0);

    let other = fleet.organisation.node("n2");
    let mut stolen = RawNats::connect(&fleet.server, &other).await;
    stolen.publish(&to_caller, "", "", "forged").await;
    stolen.publish(&to_node, "", "", "forged").await;
    for subject in [&to_caller, &to_node, "_T.>", "_T.*.*.n1", "_T.*.*.*"] {
        stolen.subscribe(subject, "").await;
    }
    let output = stolen.sync().await;
    assert_eq!(output.refusals.len(), 7, "{output:?}");
    // Under its own name the caller does not listen.
    let own = to_caller.replacen(".n1", ".n2", 1);
    stolen.publish(&own, "", "", "forged").await;
    stolen.subscribe("_T.*.*.n2", "").await;
    let output = stolen.sync().await;
    assert_eq!(output.refusals.len(), 0, "{output:?}");

    echo(&mut connection, b"unharmed").await;
    drop(connection);
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["data"]["messages_refused"], 0, "{closed:?}");
    assert_eq!(closed[0]["data"]["bytes_to_node"], (SECRET.len() + 8) as u64);
}

/// A user without restrictions stands for a broker in the hands of an attacker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_can_neither_read_nor_repeat_nor_invent_data() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let (bus, mut spy) = fleet.organisation.subscribe_all(&fleet.server).await;
    let tunnel = fleet.open(server.port).await;
    let mut connection = TcpStream::connect(tunnel.address).await.unwrap();
    echo(&mut connection, SECRET).await;
    // Replies to the request are on the caller's subjects, too; acknowledgements come some time after the data.
    let mut seen = Vec::new();
    await_state("messages of the tunnel are seen", || {
        seen.extend(seen_messages(&mut spy));
        let to_node = seen.iter().find(|(subject, _)| subject.starts_with("_T.")).cloned();
        to_node.is_some_and(|(to_node, _)| {
            let to_caller = to_node.replacen("_T.", "_R.", 1);
            seen.iter().filter(|(found, _)| *found == to_node || *found == to_caller).count() >= 4
        })
    })
    .await;
    let contains = |bytes: &Bytes| bytes.windows(SECRET.len()).any(|window| window == SECRET);
    assert!(!seen.iter().any(|(_, payload)| contains(payload)));

    let to_node = seen.iter().find(|(subject, _)| subject.starts_with("_T.")).unwrap().0.clone();
    let to_caller = to_node.replacen("_T.", "_R.", 1);
    let data: Vec<&(String, Bytes)> =
        seen.iter().filter(|(subject, _)| *subject == to_node || *subject == to_caller).collect();
    assert!(data.len() >= 4, "{data:?}");
    let mut count = 0;
    for (subject, payload) in &data {
        let other = if *subject == to_node { &to_caller } else { &to_node };
        let mut altered = payload.to_vec();
        *altered.last_mut().unwrap() ^= 1;
        let altered = Bytes::from(altered);
        for (subject, payload) in [(subject, payload), (other, payload), (subject, &altered)] {
            bus.publish(subject, payload.clone()).await.unwrap();
            count += u64::from(*subject == to_node);
        }
    }
    for junk in [&b""[..], b"x", &[0; 25], &[0xff; 16_000]] {
        bus.publish(&to_node, Bytes::copy_from_slice(junk)).await.unwrap();
        bus.publish(&to_caller, Bytes::copy_from_slice(junk)).await.unwrap();
        count += 1;
    }
    bus.flush().await.unwrap();
    echo(&mut connection, b"unharmed").await;
    connection.shutdown().await.unwrap();
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["reason"], "complete", "{closed:?}");
    assert_eq!(closed[0]["data"]["bytes_to_node"], (SECRET.len() + 8) as u64);
    // The reply to the request is on the subject of the tunnel's requests, not of its data.
    assert_eq!(closed[0]["data"]["messages_refused"], count, "{closed:?}");
}
