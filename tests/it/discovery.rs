//! Discovery by every method, with the real programs and with the library.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_calls::{CallTarget, Client, DiscoveryWindow};
use muster_filter::NodeFilter;
use muster_node::ground::clock::WallClock;
use muster_tests::command::RpcCommand;
use muster_tests::organisation::Organisation;
use muster_tests::simulate_delay;
use muster_wire::identity::Identity;
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use serde_json::{Value, json};

use crate::demo::{Demo, describe_output};
use crate::fake_node::{FakeNodeFixture, pong_reply, reply_subject};
use crate::node_fixture::NodeFixture;

/// Longer than any test may take; a test that waits for it fails.
const UNREACHABLE_DURATION: Duration = Duration::from_mins(10);

/// The lines that a command prints, and its exit code.
fn run_lines(demo: &Demo, arguments: &[&str]) -> (Vec<String>, i32) {
    let output = demo.rpc(arguments);
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines = lines.lines().map(str::to_owned).collect();
    (lines, output.status.code().unwrap())
}

/// The lines that a successful command prints.
fn successful_lines(demo: &Demo, arguments: &[&str]) -> Vec<String> {
    let output = demo.rpc(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", describe_output(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The standard error of a command with this exit code.
fn failure_text(demo: &Demo, arguments: &[&str], code: i32) -> String {
    let output = demo.rpc(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", describe_output(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A modified copy of the demonstration's configuration.
fn write_configuration(demo: &Demo, name: &str, change: impl FnOnce(String) -> String) -> String {
    let text = std::fs::read_to_string(demo.fleet().join("rpc.toml")).unwrap();
    let path = demo.fleet().join(name);
    std::fs::write(&path, change(text)).unwrap();
    path.display().to_string()
}

fn write_file(demo: &Demo, name: &str, text: &str) -> PathBuf {
    let path = demo.fleet().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_discovery_method_finds_the_requested_nodes() {
    let demo = Demo::start();
    check_inventory_equals_fleet(&demo);
    check_groups_survive_update(&demo);
    check_lists_from_files_and_pipes(&demo);
    check_external_method(&demo);
    check_named_collective(&demo);
    check_required_filter(&demo);
    check_collective_report(&demo);
}

fn check_inventory_equals_fleet(demo: &Demo) {
    let fleet = demo.fleet().join("fleet.json");
    let fleet = fleet.to_str().unwrap();
    successful_lines(demo, &["inventory", "--export", fleet]);
    let mode = std::fs::metadata(fleet).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(failure_text(demo, &["inventory", "--export", fleet], 1).contains("--update"));
    assert_eq!(successful_lines(demo, &["inventory", "--validate", fleet]).len(), 1);

    let option = format!("file={fleet}");
    for filter in [
        &[][..],
        &["-W", "environment=development customer=acme mysql::master"],
        &["-C", "/^apa/"],
        &["-F", "role!=web"],
        &["-F", "kernel=Linux", "-A", "puppetral"],
        &["-S", "apache and not (customer=acme or country=xx)"],
        &["-I", "/dev/"],
        // A fact that no node has matches no node, with any method.
        &["-F", "nobody=knows"],
        &["-A", "nobody_has"],
    ] {
        let (live, code) = run_lines(demo, &[&["find"], filter].concat());
        let offline = [&["find", "--dm", "inventory", "--do", &option], filter].concat();
        assert_eq!(run_lines(demo, &offline), (live, code), "{filter:?}");
    }
    let no_match = ["rpcutil", "ping", "-F", "nobody=knows"];
    assert_eq!(run_lines(demo, &no_match), (vec![], 1));
    let found = demo.rpc(&["find", "-v", "--dm", "inventory", "--do", &option]);
    let stderr = String::from_utf8_lossy(&found.stderr);
    assert!(
        stderr.contains("Discovered 5 nodes in ")
            && stderr.contains("using the inventory discovery method"),
        "{stderr}"
    );
    let document =
        successful_lines(demo, &["find", "-j", "--dm", "inventory", "--do", &option]).concat();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document.get("method"), Some(&json!("inventory")));

    // The configured method, and an override; `find` needs no reachable broker for the former.
    let config = write_configuration(demo, "offline.toml", |text| {
        text.replace("127.0.0.1:", "127.0.0.1:1")
            + "\n[discovery]\nmethod = \"inventory\"\noptions.file = \"fleet.json\"\n"
    });
    assert_eq!(successful_lines(demo, &["-c", &config, "find"]).len(), 5);
    assert_eq!(run_lines(demo, &["-c", &config, "find", "--dm", "mc"]).1, 1);
}

fn check_groups_survive_update(demo: &Demo) {
    let fleet = demo.fleet().join("fleet.json");
    let text = std::fs::read_to_string(&fleet).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let groups = json!([
        {"name": "databases", "filter": {"classes": ["mysql::master"]}},
        {"name": "web", "filter": {"compound": "apache and customer=acme"}},
    ]);
    document.as_object_mut().unwrap().insert("groups".to_owned(), groups);
    std::fs::write(&fleet, document.to_string()).unwrap();
    let fleet = fleet.to_str().unwrap();
    successful_lines(demo, &["inventory", "--export", fleet, "--update", "-C", "common"]);
    let option = format!("file={fleet}");
    let ping = ["rpcutil", "ping", "--senders", "--sort", "--dm", "inventory", "--do", &option];
    let senders =
        successful_lines(demo, &[&ping[..], &["-I", "group:web", "-I", "db1.acme.net"]].concat());
    assert_eq!(senders, ["db1.acme.net", "web1.dev.acme.net"]);
    let message =
        failure_text(demo, &["find", "--dm", "inventory", "--do", &option, "-I", "group:wbe"], 1);
    assert!(message.contains("it has databases, web"), "{message}");
    failure_text(demo, &["find", "-I", "group:web"], 4);
    write_file(demo, "broken.yaml", "$schema: x\nnodes: [{name: a b}]\n");
    let broken = demo.fleet().join("broken.yaml");
    let (problems, code) = run_lines(demo, &["inventory", "--validate", broken.to_str().unwrap()]);
    assert_eq!((problems.len(), code), (2, 1), "{problems:?}");
}

fn check_lists_from_files_and_pipes(demo: &Demo) {
    let ping = ["rpcutil", "ping", "--senders", "--sort"];
    let yaml = write_file(
        demo,
        "nodes.yaml",
        "# two of them\n- web1.dev.acme.net\n- sender: db1.acme.net\n",
    );
    let yaml = yaml.to_str().unwrap();
    assert_eq!(successful_lines(demo, &[&ping[..], &["--nodes", yaml]].concat()).len(), 2);
    let option = format!("file={yaml}");
    let narrowed = [&ping[..], &["--dm", "flatfile", "--do", &option, "-I", "/^db/"]].concat();
    assert_eq!(successful_lines(demo, &narrowed), ["db1.acme.net"]);
    let pongs = successful_lines(demo, &["ping", "--nodes", yaml]);
    let pongs = pongs.iter().filter(|line| line.contains("acme.net"));
    assert_eq!(pongs.count(), 2);
    assert!(successful_lines(demo, &["facts", "role", "--nodes", yaml]).concat().contains("web"));
    let message = failure_text(demo, &["find", "--nodes", yaml, "-S", "apache"], 4);
    assert!(message.contains("flat does not support expressions (-S)"), "{message}");
    failure_text(demo, &["find", "--nodes", yaml, "--dm", "flat"], 4);

    let document = demo.rpc(&["find", "-C", "apache", "-j"]).stdout;
    let pipe = write_file(demo, "pipe", &String::from_utf8(document).unwrap());
    let piped = |more: &[&str]| {
        let output = demo.rpc_with_input(File::open(&pipe).unwrap(), &[&ping[..], more].concat());
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(piped(&["--nodes", "-"]), 2);
    assert_eq!(piped(&["--dm", "stdin", "--do", "format=json"]), 2);
    // Standard input is read only if the command line names it.
    assert_eq!(piped(&[]), 5);
}

fn check_external_method(demo: &Demo) {
    let script = "#!/bin/sh\ngrep -q '\"cf_class\":\\[\"apache\"\\]' \"$1\" || exit 3\n\
        echo '{\"protocol\": \"io.choria.choria.discovery.v1.external_reply\", \"nodes\": [\"web1.dev.acme.net\"]}' > \"$2\"\n";
    let program = write_file(demo, "find-nodes", script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let option = format!("command={}", program.display());
    let external = ["--dm", "external", "--do", &option];
    let ping = ["rpcutil", "ping", "--senders"];
    assert_eq!(
        successful_lines(demo, &[&ping[..], &external, &["-C", "apache"]].concat()),
        ["web1.dev.acme.net"]
    );
    assert!(failure_text(demo, &[&["find"], &external[..]].concat(), 1).contains("exit status: 3"));
}

fn check_named_collective(demo: &Demo) {
    let other_collective = write_configuration(demo, "elsewhere.toml", |text| {
        text.replace("collective = \"muster\"", "collective = \"elsewhere\"")
    });
    let inventory = format!("file={}", demo.fleet().join("fleet.json").display());
    let list = demo.fleet().join("nodes.yaml");
    let list = list.to_str().unwrap();
    let program = format!("command={}", demo.fleet().join("find-nodes").display());
    for (method, count) in [
        (&[][..], 2),
        (&["--dm", "inventory", "--do", &inventory], 2),
        (&["--dm", "external", "--do", &program], 1),
    ] {
        let ping = ["-c", &other_collective, "rpcutil", "ping", "--senders", "-C", "apache"];
        let senders = successful_lines(demo, &[&ping[..], &["-T", "muster"], method].concat());
        assert_eq!(senders.len(), count, "{method:?}");
    }
    let listed =
        ["-c", &other_collective, "rpcutil", "ping", "--senders", "--nodes", list, "-T", "muster"];
    assert_eq!(successful_lines(demo, &listed).len(), 2);
    // Without -T an inventory omits nodes that are in other collectives only.
    let no_match = ["-c", &other_collective, "find", "--dm", "inventory", "--do", &inventory];
    assert_eq!(run_lines(demo, &no_match), (vec![], 1));
}

fn check_required_filter(demo: &Demo) {
    let strict = write_configuration(demo, "careful.toml", |text| {
        text + "\n[discovery]\nrequire_filter = true\n"
    });
    let list = demo.fleet().join("nodes.yaml");
    let list = list.to_str().unwrap();
    let change = ["-c", &strict, "puppetral", "do", "type=user", "name=careless", "noop=true"];
    for unfiltered in [&[][..], &["-A", "puppetral"], &["-1"], &["--dm", "mc", "-A", "/./"]] {
        let message = failure_text(demo, &[&change[..], unfiltered].concat(), 4);
        assert!(message.contains("no request sent: `do` is not read-only"), "{message}");
        assert!(message.contains("-I /./"), "{message}");
    }
    for filtered in [&["-C", "apache"][..], &["-I", "/./"], &["--nodes", list], &["-S", "apache"]] {
        let output = demo.rpc(&[&change[..], filtered].concat());
        assert!(output.status.success(), "{filtered:?}: {}", describe_output(&output));
    }
    assert_eq!(successful_lines(demo, &["-c", &strict, "rpcutil", "ping", "--senders"]).len(), 5);
}

fn check_collective_report(demo: &Demo) {
    let table = successful_lines(demo, &["inventory", "--collectives", "-C", "apache"]);
    assert_eq!(table.len(), 2, "{table:?}");
    let row = table.last().unwrap();
    assert!(row.starts_with("muster ") && row.ends_with(" 2"), "{row}");
    let map = demo.fleet().join("fleet.dot");
    successful_lines(demo, &["inventory", "--map", map.to_str().unwrap()]);
    let drawing = std::fs::read_to_string(map).unwrap();
    assert_eq!(drawing.matches("\"muster\" -- ").count(), 5, "{drawing}");
    failure_text(demo, &["inventory"], 4);
    failure_text(demo, &["inventory", "db1.acme.net", "-C", "apache"], 4);
}

/// A client with this discovery window, on the caller's connection.
fn client_with_window(fixture: &NodeFixture, quiet: Duration) -> Client {
    let window = DiscoveryWindow {
        initial_wait: UNREACHABLE_DURATION,
        quiet_time: quiet,
        max_wait: UNREACHABLE_DURATION,
    };
    let collective = fixture.organisation.collective().clone();
    let (bus, signer) = (fixture.caller.bus.clone(), fixture.caller.signer.clone());
    Client::new(bus, signer, fixture.organisation.trust(), collective, window)
}

#[tokio::test]
async fn discovery_ends_after_the_quiet_time_before_the_maximum() {
    let fixture = NodeFixture::new(|_| ()).await;
    let started = Instant::now();
    let found = client_with_window(&fixture, Duration::from_millis(500))
        .discover_nodes(&NodeFilter::default())
        .await
        .unwrap();
    assert_eq!((found.nodes.len(), found.incomplete), (1, false));
    assert!(started.elapsed() < UNREACHABLE_DURATION / 2);
}

/// 10,000 nodes on one machine need longer than the first reply.
#[tokio::test]
async fn discovery_waits_while_replies_arrive() {
    let organisation = Organisation::new(&["muster"]);
    let nodes = ["node1", "node2"].map(|name| organisation.node(&format!("{name}.example.net")));
    let mut fixture = FakeNodeFixture::start(organisation, &nodes[0], UNREACHABLE_DURATION).await;
    let window = DiscoveryWindow {
        initial_wait: Duration::from_millis(300),
        quiet_time: Duration::from_secs(2),
        max_wait: UNREACHABLE_DURATION,
    };
    let client = Client::new(
        fixture.caller.bus.clone(),
        fixture.caller.signer.clone(),
        fixture.organisation.trust(),
        fixture.organisation.collective().clone(),
        window,
    );
    let send_replies = async {
        let request = fixture.requests.next().await.unwrap();
        for (node, delay) in nodes.iter().zip([Duration::ZERO, window.initial_wait * 2]) {
            simulate_delay(delay).await;
            let reply = pong_reply(&request, node.identity(), 1);
            let signed = sign_envelope(EnvelopeKind::Reply, &reply, node).unwrap();
            let to = reply_subject(&request, nodes[0].identity());
            fixture.bus.publish(&to, signed.into()).await.unwrap();
        }
    };
    let all_nodes = NodeFilter::default();
    let (found, ()) = tokio::join!(client.discover_nodes(&all_nodes), send_replies);
    let found = found.unwrap();
    assert_eq!((found.nodes.len(), found.incomplete), (2, false));
}

/// Replies are verified in batches, but each time is that of its own arrival.
#[tokio::test]
async fn each_reply_has_its_own_arrival_time() {
    const DELAY: Duration = Duration::from_millis(300);
    let organisation = Organisation::new(&["muster"]);
    let nodes = ["node1", "node2"].map(|name| organisation.node(&format!("{name}.example.net")));
    let mut fixture = FakeNodeFixture::start(organisation, &nodes[0], UNREACHABLE_DURATION).await;
    fixture.call.expect = Some(2);
    let send_replies = async {
        let request = fixture.requests.next().await.unwrap();
        for node in &nodes {
            let reply = pong_reply(&request, node.identity(), 1);
            let signed = sign_envelope(EnvelopeKind::Reply, &reply, node).unwrap();
            let to = reply_subject(&request, nodes[0].identity());
            fixture.bus.publish(&to, signed.into()).await.unwrap();
            fixture.bus.flush().await.unwrap();
            simulate_delay(DELAY).await;
        }
    };
    let ((answers, _), ()) = tokio::join!(fixture.caller.call(fixture.call.clone()), send_replies);
    let times: Vec<Duration> = answers.values().map(|answer| answer.after).collect();
    // The receiver may read the first one late.
    assert!(times[1] >= times[0] + DELAY / 2, "{times:?}");
}

/// The clock of the caller differs from those of all nodes. They reply, and refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_refuse_because_of_a_clock_are_named() {
    const DIFFERENCE: Duration = Duration::from_mins(11);
    let fixture = NodeFixture::new(|setup| {
        let ahead = || muster_tests::now() + u64::try_from(DIFFERENCE.as_millis()).unwrap();
        setup.clock = WallClock::new(ahead);
    })
    .await;
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &fixture.caller.signer, "");
    let commands = [
        &["ping"][..],
        &["find"],
        &["do", "rpcutil", "get_fact", "fact=identity"],
        &["facts", "x"],
    ];
    for command in commands {
        let output = rpc.run(command).await;
        let text = describe_output(&output);
        assert_ne!(output.status.code(), Some(0), "{command:?}: {text}");
        for part in ["node1.example.net refused the request: the request is 11 m", "clocks"] {
            assert!(text.contains(part), "{command:?}: {part}: {text}");
        }
    }
}

#[tokio::test]
async fn waits_for_known_nodes_until_each_replied_or_is_absent() {
    let fixture = NodeFixture::new(|_| ()).await;
    let nodes: BTreeSet<Identity> = ["node1.example.net", "nobody.example.net"]
        .map(|name| Identity::parse(name).unwrap())
        .into();
    let started = Instant::now();
    let mut replied = BTreeSet::new();
    let complete = client_with_window(&fixture, UNREACHABLE_DURATION)
        .ping(CallTarget::Nodes(nodes), UNREACHABLE_DURATION, |answer| {
            replied.insert(answer.reply.sender.to_string());
        })
        .await
        .unwrap();
    assert!(complete && started.elapsed() < UNREACHABLE_DURATION / 2);
    assert_eq!(replied.into_iter().collect::<Vec<_>>(), ["node1.example.net"]);
}

/// A node that was there and is not is named by the commands that look at the whole fleet.
#[test]
fn absent_nodes_are_named() {
    let demo = Demo::start();
    let named = |arguments: &[&str]| {
        // `rpc doctor` wraps its findings.
        let output = describe_output(&demo.rpc(arguments));
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        output.contains("1 node replied within the last 7 days, but not now: web1.dev.acme.net")
    };
    assert!(!named(&["ping"]));
    demo.stop_node("web1.dev.acme.net");
    // The directory of the demonstration still knows it as present: only nodes that are asked can be silent.
    for arguments in [&["ping"][..], &["find", "--dm", "broadcast"], &["doctor"]] {
        assert!(named(arguments), "{arguments:?}");
    }
    // Nothing is known about a node that may not match the filter.
    assert!(!named(&["find", "--dm", "broadcast", "-C", "apache"]));
}
