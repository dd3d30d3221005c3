//! What other programs get of a fleet, while they answer, are away, refuse and hang.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

mod spans;

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use muster_tests::webhook::{Webhook, WebhookRequest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::history::{HistoryFleet, write_catalog};
use crate::monitoring::{await_metrics_address, await_sample, scrape};

const NODE: &str = "web1.acme.net";
const SECRET: &str = "the signing secret";
const TIMEOUT: Duration = Duration::from_mins(3);

/// The section of the sinks, without targets.
fn section(home: &DaemonHome) -> String {
    let directory = home.path("sinks");
    format!("[plugins.sinks]\nenabled = true\ndirectory = \"{}\"\n", directory.display())
}

/// A target with these keys.
fn target(name: &str, kind: &str, keys: &str) -> String {
    format!("[[plugins.sinks.targets]]\nname = {name:?}\nkind = {kind:?}\n{keys}\n")
}

fn file_target(home: &DaemonHome, name: &str, keys: &str) -> String {
    target(name, "file", &format!("path = \"{}\"\n{keys}", home.path(name).display()))
}

/// HMAC-SHA256, as RFC 2104 defines it.
fn hmac_sha256(key: &[u8], text: &[u8]) -> String {
    let pad = |byte: u8| {
        let mut pad = [byte; 64];
        pad.iter_mut().zip(key).for_each(|(pad, key)| *pad ^= key);
        pad
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    HEXLOWER.encode(&Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize())
}

/// The events of a request, whose signature is verified.
fn signed_events(request: &WebhookRequest) -> Vec<Value> {
    let expected = format!("sha256={}", hmac_sha256(SECRET.as_bytes(), &request.body));
    assert_eq!(request.header("x-muster-signature"), expected);
    serde_json::from_slice(&request.body).unwrap()
}

/// The events that a receiver has accepted, without those that were sent again.
fn accepted_events(hook: &Webhook) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    for request in hook.requests() {
        let accepted = request.answer.is_some_and(|status| status < 300);
        let new = signed_events(&request);
        events.extend(
            new.into_iter().filter(|event| accepted && !events.contains(event)).collect::<Vec<_>>(),
        );
    }
    events
}

fn file_events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn await_events(what: &str, count: usize, read: impl Fn() -> Vec<Value>) -> Vec<Value> {
    poll_until_ok(what, TIMEOUT, async || {
        let events = read();
        if events.len() >= count { Ok(events) } else { Err(json!(events).to_string()) }
    })
    .await
}

/// Applies a catalog with this message.
async fn apply_message(fleet: &HistoryFleet, home: &DaemonHome, message: &str) {
    let notify = json!({"type": "Notify", "title": message, "tags": [], "exported": false});
    let file = write_catalog(home, &[notify]);
    fleet.begin_apply(&file).await.unwrap();
}

fn resources(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["muster"]["resource"].as_str().unwrap()).collect()
}

/// The document in a message of RFC 5424.
fn parse_message(message: &str) -> Value {
    let head: Vec<&str> = message.splitn(8, ' ').collect();
    assert!(matches!(head[0], "<28>1" | "<30>1"), "{message}");
    let event: Value = serde_json::from_str(head[7]).unwrap();
    assert_eq!(head[1..4], [event["@timestamp"].as_str().unwrap(), NODE, "muster"], "{message}");
    assert_eq!((head[4], head[6]), ("-", "-"), "{message}");
    event
}

/// Datagrams that a socket has received until now.
fn receive_messages(receive: impl Fn(&mut [u8]) -> std::io::Result<usize>) -> Vec<Value> {
    let mut buffer = vec![0; 64 * 1024];
    let mut messages = Vec::new();
    while let Ok(length) = receive(&mut buffer) {
        messages.push(parse_message(std::str::from_utf8(&buffer[..length]).unwrap()));
    }
    messages
}

/// Messages of a connection, each after its length.
fn parse_frames(mut text: &str) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = text.split_once(' ') {
        let (message, rest) = rest.split_at(length.parse().unwrap());
        messages.push(parse_message(message));
        text = rest;
    }
    messages
}

/// How many events of each kind have each outcome.
fn count_kinds(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let name = format!("{} {}", event["muster"]["kind"], event["event"]["outcome"]);
        *counts.entry(name.replace('"', "")).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_sink_gets_all_events_in_order() {
    let hook = Webhook::start().await;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut unix = None;
    let (mut fleet, home) = HistoryFleet::start_with(|home| {
        home.write("secret", SECRET, 0o600);
        unix = Some(UnixDatagram::bind(home.path("log.sock")).unwrap());
        let url = format!("url = {:?}\nsecret_file = {:?}", hook.url(), home.path("secret"));
        let syslog =
            |name: &str, address: &str| target(name, "syslog", &format!("address = {address:?}"));
        let program = format!("command = [\"/usr/bin/tee\", \"-a\", {:?}]", home.path("program"));
        [
            section(home),
            target("url", "url", &url),
            target("program", "program", &program),
            file_target(home, "file", ""),
            syslog("unix", home.path("log.sock").to_str().unwrap()),
            syslog("udp", &format!("udp://{}", udp.local_addr().unwrap())),
            syslog("tcp", &format!("tcp://{}", tcp.local_addr().unwrap())),
        ]
        .concat()
    })
    .await;
    let address = await_metrics_address(&mut fleet.history).await;
    home.write("policies/nettest.policy", "policy default deny\n", 0o644);
    let _node = home.clone().start();
    fleet.await_node().await;
    let motd = home.path("motd");
    let name = format!("name={}", motd.display());
    fleet.set_file(&name, "one").await;
    fleet.set_file(&name, "two").await;
    fleet.rpc.run(&["do", "puppetral", "type=file", "name=relative", "-I", NODE]).await;
    let denied = ["do", "nettest", "connect", "host=127.0.0.1", "port=1", "-I", NODE];
    fleet.rpc.run(&denied).await;
    apply_message(&fleet, &home, "three").await;
    let user = ["type=user", "name=sink-test", "password=$6$verysecret", "noop=true"];
    fleet.rpc.run(&[&["do", "puppetral", "-I", NODE], user.as_slice()].concat()).await;

    // Four requests, one that failed, one that was denied, four changes, of which one was not made, and a run.
    let host = fleet.history.home();
    let file = host.path("file");
    let events = await_events("the file has the events", 11, || file_events(&file)).await;
    let kind_counts = count_kinds(&events);
    let expected = [
        ("change success", 3),
        ("change unknown", 1),
        ("request failure", 2),
        ("request success", 4),
        ("run success", 1),
    ];
    assert_eq!(
        kind_counts,
        expected.map(|(name, count)| (name.to_owned(), count)).into(),
        "{events:#?}"
    );
    let changes: Vec<Value> =
        events.iter().filter(|event| event["muster"]["kind"] == "change").cloned().collect();
    let of_motd = format!("File[{}]", motd.display());
    assert_eq!(
        resources(&changes),
        [&of_motd, &of_motd, "Notify[three]", "User[sink-test]"].map(|name: &str| name)
    );
    assert_eq!(
        (&changes[0]["muster"]["property"], &changes[1]["muster"]["property"]),
        (&json!("ensure"), &json!("content"))
    );
    let refused = events.iter().find(|event| event["event"]["type"] == json!(["denied"])).unwrap();
    assert_eq!(
        (&refused["event"]["action"], &refused["event"]["outcome"]),
        (&json!("nettest.connect"), &json!("failure"))
    );
    assert_eq!((&refused["host"]["name"], &refused["user"]["name"]), (&json!(NODE), &json!("rip")));

    // The others have the same.
    assert_eq!(await_events("the URL has them", 11, || accepted_events(&hook)).await, events);
    let program = host.path("program");
    assert_eq!(await_events("the program has them", 11, || file_events(&program)).await, events);
    let unix = unix.unwrap();
    unix.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    assert_eq!(receive_messages(|buffer| unix.recv(buffer)), events);
    assert_eq!(receive_messages(|buffer| udp.recv(buffer)), events);
    tcp.set_nonblocking(true).unwrap();
    let mut frames = String::new();
    for sink in ["url", "program", "file", "unix", "udp", "tcp"] {
        await_sample(&address, &format!("muster_sink_delivered_total{{sink=\"{sink}\"}}"), "11")
            .await;
    }
    while let Ok((mut stream, _)) = tcp.accept() {
        std::io::Read::read_to_string(&mut stream, &mut frames).unwrap();
    }
    assert_eq!(parse_frames(&frames), events);

    // A file that was rotated is created again.
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    fs::rename(&file, host.path("file.1")).unwrap();
    fleet.set_file(&name, "three").await;
    await_events("the new file has the next events", 2, || file_events(&file)).await;
    assert_eq!(file_events(&host.path("file.1")), events);

    // No secret is in an event or in the log.
    let log = fleet.history.log();
    for text in [json!(events).to_string(), json!(file_events(&file)).to_string(), log] {
        assert!(!text.contains("verysecret") && !text.contains(SECRET), "{text}");
    }
}

fn dead_letters(home: &DaemonHome, sink: &str) -> Vec<Value> {
    let entries = fs::read_dir(home.path("sinks").join(sink).join("dead")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_targets_fail_and_the_daemon_restarts() {
    let hook = Webhook::start().await;
    // One is busy first, two is refused, three is not answered first.
    let later = [Some(503), Some(204), Some(400), None];
    hook.answer_next(&later);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut fleet, home) = HistoryFleet::start_with(|home| {
        home.write("secret", SECRET, 0o600);
        let url = format!(
            "url = {:?}\nsecret_file = {:?}\nkinds = [\"change\"]\nbatch = 1\ntimeout_seconds = 1",
            hook.url(),
            home.path("secret"),
        );
        // Refuses each batch that has the second message.
        let script = "input=$(cat); case $input in *'[two]'*) exit 65; esac; printf '%s\\n' \"$input\" >> \"$0\"";
        let program = format!(
            "kinds = [\"change\"]\ncommand = [\"/bin/sh\", \"-c\", {script:?}, {:?}]",
            home.path("program"),
        );
        let down = format!("kinds = [\"change\"]\naddress = \"tcp://{closed}\"");
        let targets = [target("hook", "url", &url), target("picky", "program", &program), target("down", "syslog", &down)];
        section(home) + &targets.concat()
    })
    .await;
    let address = await_metrics_address(&mut fleet.history).await;
    let _node = home.clone().start();
    fleet.await_node().await;
    for message in ["one", "two", "three"] {
        apply_message(&fleet, &home, message).await;
    }
    poll_until_ok("the third event is sent", TIMEOUT, async || {
        let count = hook.requests().len();
        if count >= later.len() { Ok(()) } else { Err(count) }
    })
    .await;
    let samples = scrape(&address).await;
    assert_eq!(samples["muster_sink_delivered_total{sink=\"hook\"}"], "1");
    await_sample(&address, "muster_sink_dead_letters_total{sink=\"hook\"}", "1").await;
    await_sample(&address, "muster_sink_dead_letters_total{sink=\"picky\"}", "1").await;
    await_sample(&address, "muster_sink_delivered_total{sink=\"down\"}", "0").await;
    let host_home = fleet.history.home().clone();
    for sink in ["hook", "picky"] {
        let [letter] = &dead_letters(&host_home, sink)[..] else { panic!("one dead letter") };
        assert_eq!(letter["event"]["muster"]["resource"], "Notify[two]");
    }
    let letter = &dead_letters(&host_home, "hook")[0];
    assert!(letter["reason"].as_str().unwrap().ends_with("replied with status 400"), "{letter}");
    assert!(!letter.to_string().contains("/hook"), "{letter}");

    // Killed while the third event is not answered.
    fleet.history.kill_and_wait();
    apply_message(&fleet, &home, "four").await;
    let expected = ["Notify[one]", "Notify[three]", "Notify[four]"];
    let restarted = host_home.clone().start();
    let events = await_events("the URL has the others", 3, || accepted_events(&hook)).await;
    assert_eq!(resources(&events), expected);
    let program = host_home.path("program");
    let events = await_events("the program has the others", 3, || file_events(&program)).await;
    assert_eq!(resources(&events), expected);
    // The target that was away gets everything, the refused event of the others, too.
    let listener = TcpListener::bind(closed).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut frames = String::new();
    let received = poll_until_ok("the target is back", TIMEOUT, async || {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            std::io::Read::read_to_string(&mut stream, &mut frames).unwrap();
        }
        let received = parse_frames(&frames);
        if received.len() >= 4 { Ok(received) } else { Err(received.len()) }
    })
    .await;
    assert_eq!(
        resources(&received),
        ["Notify[one]", "Notify[two]", "Notify[three]", "Notify[four]"]
    );
    assert_eq!(dead_letters(&host_home, "hook").len(), 1);
    assert!(!restarted.log().contains("/hook"), "the path of a URL may be a secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_select_by_kind_node_and_agent() {
    let (fleet, home) = HistoryFleet::start_with(|home| {
        let targets = [
            file_target(home, "failures", "kinds = [\"failure\"]"),
            file_target(home, "databases", "identities = [\"/^db/\"]"),
            file_target(home, "acme", "filter = \"customer=acme\"\nkinds = [\"request\"]"),
            file_target(home, "other", "filter = \"customer=other\""),
            file_target(home, "catalogs", "agents = [\"catalog\"]\nkinds = [\"request\"]"),
        ];
        section(home) + &targets.concat()
    })
    .await;
    home.write("facts.d/site.json", r#"{"customer": "acme"}"#, 0o644);
    let _node = home.clone().start();
    fleet.await_node().await;
    let host = fleet.history.home().clone();
    let read = |name: &str| file_events(&host.path(name));
    let name = format!("name={}", home.path("motd").display());
    // Until the index has the record of the node, no node matches.
    let acme = poll_until_ok("the directory knows the node", TIMEOUT, async || {
        fleet.set_file(&name, "one").await;
        let events = read("acme");
        if events.is_empty() { Err("no event") } else { Ok(events) }
    })
    .await;
    assert!(acme.iter().all(|event| event["event"]["action"] == "puppetral.do"), "{acme:#?}");
    fleet.rpc.run(&["do", "puppetral", "type=file", "name=relative", "-I", NODE]).await;
    apply_message(&fleet, &home, "one").await;
    let catalogs = await_events("the request has arrived", 1, || read("catalogs")).await;
    assert_eq!(catalogs[0]["event"]["action"], "catalog.apply");
    let failures = await_events("the failure has arrived", 1, || read("failures")).await;
    assert_eq!((failures.len(), &failures[0]["event"]["outcome"]), (1, &json!("failure")));
    assert_eq!((read("databases"), read("other")), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn sinks_without_events_are_refused() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node(NODE);
    let options = "[plugins.sinks]\nenabled = true\n";
    let mut host = DaemonHome::new(&organisation, &node, &server.url(), options).start();
    let status = poll_until_ok("the daemon ends", TIMEOUT, async || {
        host.exit_status().ok_or_else(|| host.log())
    })
    .await;
    assert!(!status.success());
    assert!(host.log().contains("enable history or provisioner here, too"), "{}", host.log());
}
