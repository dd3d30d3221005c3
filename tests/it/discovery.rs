//! Finding nodes by every method, with the real programs and with the library.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_client::{CallTarget, Client, DiscoveryWindow};
use muster_filter::NodeFilter;
use muster_tests::organisation::Organisation;
use muster_tests::simulate_delay;
use muster_wire::identity::Identity;
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use serde_json::{Value, json};

use crate::answerer::{Answerer, answer_subject, pong};
use crate::ask::World;
use crate::demo::{Demo, told};

/// Longer than any test may take: whoever waits for it fails.
const FOREVER: Duration = Duration::from_mins(10);

/// What a command prints, and how it ends.
fn run(demo: &Demo, arguments: &[&str]) -> (Vec<String>, i32) {
    let output = demo.rpc(arguments);
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines = lines.lines().map(str::to_owned).collect();
    (lines, output.status.code().unwrap())
}

/// What a command prints that must succeed.
fn lines(demo: &Demo, arguments: &[&str]) -> Vec<String> {
    let output = demo.rpc(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What a command says that must end so.
fn complaint(demo: &Demo, arguments: &[&str], code: i32) -> String {
    let output = demo.rpc(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A configuration beside the demonstration's own, changed.
fn configuration(demo: &Demo, name: &str, change: impl FnOnce(String) -> String) -> String {
    let text = std::fs::read_to_string(demo.fleet().join("rpc.toml")).unwrap();
    let path = demo.fleet().join(name);
    std::fs::write(&path, change(text)).unwrap();
    path.display().to_string()
}

fn file(demo: &Demo, name: &str, text: &str) -> PathBuf {
    let path = demo.fleet().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_method_finds_what_it_is_asked_for() {
    let demo = Demo::start();
    an_inventory_answers_what_the_fleet_answers(&demo);
    groups_outlive_an_update(&demo);
    lists_come_from_files_and_pipes(&demo);
    a_program_knows_nodes(&demo);
    the_collective_that_is_named_is_asked(&demo);
    careless_requests_are_refused(&demo);
    collectives_are_counted_and_drawn(&demo);
}

fn an_inventory_answers_what_the_fleet_answers(demo: &Demo) {
    let fleet = demo.fleet().join("fleet.json");
    let fleet = fleet.to_str().unwrap();
    lines(demo, &["inventory", "--export", fleet]);
    let mode = std::fs::metadata(fleet).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(complaint(demo, &["inventory", "--export", fleet], 1).contains("--update"));
    assert_eq!(lines(demo, &["inventory", "--validate", fleet]).len(), 1);

    let option = format!("file={fleet}");
    for filter in [
        &[][..],
        &["-W", "environment=development customer=acme mysql::master"],
        &["-C", "/^apa/"],
        &["-F", "role!=web"],
        &["-F", "kernel=Linux", "-A", "puppetral"],
        &["-S", "apache and not (customer=acme or country=xx)"],
        &["-I", "/dev/"],
        // A fact that nobody has finds nobody, by any method.
        &["-F", "nobody=knows"],
        &["-A", "nobody_has"],
    ] {
        let (live, code) = run(demo, &[&["find"], filter].concat());
        let offline = [&["find", "--dm", "inventory", "--do", &option], filter].concat();
        assert_eq!(run(demo, &offline), (live, code), "{filter:?}");
    }
    let nobody = ["rpcutil", "ping", "-F", "nobody=knows"];
    assert_eq!(run(demo, &nobody), (vec![], 1));
    let found = demo.rpc(&["find", "-v", "--dm", "inventory", "--do", &option]);
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(
        said.contains("Discovered 5 nodes in ")
            && said.contains("using the inventory discovery method"),
        "{said}"
    );
    let document = lines(demo, &["find", "-j", "--dm", "inventory", "--do", &option]).concat();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document.get("method"), Some(&json!("inventory")));

    // The configured method, and the way around it; neither needs a broker that is there for `find`.
    let config = configuration(demo, "offline.toml", |text| {
        text.replace("127.0.0.1:", "127.0.0.1:1")
            + "\n[discovery]\nmethod = \"inventory\"\noptions.file = \"fleet.json\"\n"
    });
    assert_eq!(lines(demo, &["-c", &config, "find"]).len(), 5);
    assert_eq!(run(demo, &["-c", &config, "find", "--dm", "mc"]).1, 1);
}

fn groups_outlive_an_update(demo: &Demo) {
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
    lines(demo, &["inventory", "--export", fleet, "--update", "-C", "common"]);
    let option = format!("file={fleet}");
    let ping = ["rpcutil", "ping", "--senders", "--sort", "--dm", "inventory", "--do", &option];
    let asked = lines(demo, &[&ping[..], &["-I", "group:web", "-I", "db1.acme.net"]].concat());
    assert_eq!(asked, ["db1.acme.net", "web1.dev.acme.net"]);
    let told =
        complaint(demo, &["find", "--dm", "inventory", "--do", &option, "-I", "group:wbe"], 1);
    assert!(told.contains("it has databases, web"), "{told}");
    complaint(demo, &["find", "-I", "group:web"], 4);
    file(demo, "broken.yaml", "$schema: x\nnodes: [{name: a b}]\n");
    let broken = demo.fleet().join("broken.yaml");
    let (problems, code) = run(demo, &["inventory", "--validate", broken.to_str().unwrap()]);
    assert_eq!((problems.len(), code), (2, 1), "{problems:?}");
}

fn lists_come_from_files_and_pipes(demo: &Demo) {
    let ping = ["rpcutil", "ping", "--senders", "--sort"];
    let yaml =
        file(demo, "nodes.yaml", "# two of them\n- web1.dev.acme.net\n- sender: db1.acme.net\n");
    let yaml = yaml.to_str().unwrap();
    assert_eq!(lines(demo, &[&ping[..], &["--nodes", yaml]].concat()).len(), 2);
    let option = format!("file={yaml}");
    let narrowed = [&ping[..], &["--dm", "flatfile", "--do", &option, "-I", "/^db/"]].concat();
    assert_eq!(lines(demo, &narrowed), ["db1.acme.net"]);
    let pongs = lines(demo, &["ping", "--nodes", yaml]);
    let pongs = pongs.iter().filter(|line| line.contains("acme.net"));
    assert_eq!(pongs.count(), 2);
    assert!(lines(demo, &["facts", "role", "--nodes", yaml]).concat().contains("web"));
    let told = complaint(demo, &["find", "--nodes", yaml, "-S", "apache"], 4);
    assert!(told.contains("flat does not support expressions (-S)"), "{told}");
    complaint(demo, &["find", "--nodes", yaml, "--dm", "flat"], 4);

    let document = demo.rpc(&["find", "-C", "apache", "-j"]).stdout;
    let pipe = file(demo, "pipe", &String::from_utf8(document).unwrap());
    let piped = |more: &[&str]| {
        let output = demo.rpc_reading(File::open(&pipe).unwrap(), &[&ping[..], more].concat());
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(piped(&["--nodes", "-"]), 2);
    assert_eq!(piped(&["--dm", "stdin", "--do", "format=json"]), 2);
    // What nobody named is not read.
    assert_eq!(piped(&[]), 5);
}

fn a_program_knows_nodes(demo: &Demo) {
    let script = "#!/bin/sh\ngrep -q '\"cf_class\":\\[\"apache\"\\]' \"$1\" || exit 3\n\
        echo '{\"protocol\": \"io.choria.choria.discovery.v1.external_reply\", \"nodes\": [\"web1.dev.acme.net\"]}' > \"$2\"\n";
    let program = file(demo, "find-nodes", script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let option = format!("command={}", program.display());
    let external = ["--dm", "external", "--do", &option];
    let ping = ["rpcutil", "ping", "--senders"];
    assert_eq!(
        lines(demo, &[&ping[..], &external, &["-C", "apache"]].concat()),
        ["web1.dev.acme.net"]
    );
    assert!(complaint(demo, &[&["find"], &external[..]].concat(), 1).contains("exit status: 3"));
}

fn the_collective_that_is_named_is_asked(demo: &Demo) {
    let elsewhere = configuration(demo, "elsewhere.toml", |text| {
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
        let ping = ["-c", &elsewhere, "rpcutil", "ping", "--senders", "-C", "apache"];
        let asked = lines(demo, &[&ping[..], &["-T", "muster"], method].concat());
        assert_eq!(asked.len(), count, "{method:?}");
    }
    let listed =
        ["-c", &elsewhere, "rpcutil", "ping", "--senders", "--nodes", list, "-T", "muster"];
    assert_eq!(lines(demo, &listed).len(), 2);
    // Without -T an inventory leaves out who is in other collectives only.
    let nobody = ["-c", &elsewhere, "find", "--dm", "inventory", "--do", &inventory];
    assert_eq!(run(demo, &nobody), (vec![], 1));
}

fn careless_requests_are_refused(demo: &Demo) {
    let careful =
        configuration(demo, "careful.toml", |text| text + "\n[discovery]\nrequire_filter = true\n");
    let list = demo.fleet().join("nodes.yaml");
    let list = list.to_str().unwrap();
    let change = ["-c", &careful, "puppetral", "do", "type=user", "name=careless", "noop=true"];
    for unfiltered in [&[][..], &["-A", "puppetral"], &["-1"], &["--dm", "mc", "-A", "/./"]] {
        let told = complaint(demo, &[&change[..], unfiltered].concat(), 4);
        assert!(told.contains("no request sent: `do` is not read-only"), "{told}");
        assert!(told.contains("-I /./"), "{told}");
    }
    for filtered in [&["-C", "apache"][..], &["-I", "/./"], &["--nodes", list], &["-S", "apache"]] {
        let output = demo.rpc(&[&change[..], filtered].concat());
        assert!(output.status.success(), "{filtered:?}: {}", told(&output));
    }
    assert_eq!(lines(demo, &["-c", &careful, "rpcutil", "ping", "--senders"]).len(), 5);
}

fn collectives_are_counted_and_drawn(demo: &Demo) {
    let table = lines(demo, &["inventory", "--collectives", "-C", "apache"]);
    assert_eq!(table.len(), 2, "{table:?}");
    let row = table.last().unwrap();
    assert!(row.starts_with("muster ") && row.ends_with(" 2"), "{row}");
    let map = demo.fleet().join("fleet.dot");
    lines(demo, &["inventory", "--map", map.to_str().unwrap()]);
    let drawing = std::fs::read_to_string(map).unwrap();
    assert_eq!(drawing.matches("\"muster\" -- ").count(), 5, "{drawing}");
    complaint(demo, &["inventory"], 4);
    complaint(demo, &["inventory", "db1.acme.net", "-C", "apache"], 4);
}

/// A caller with this window, on a connection that stands.
fn patient(world: &World, quiet: Duration) -> Client {
    let window = DiscoveryWindow { initial_wait: FOREVER, quiet_time: quiet, max_wait: FOREVER };
    let collective = world.organisation.collective().clone();
    let (bus, signer) = (world.caller.bus.clone(), world.caller.signer.clone());
    Client::new(bus, signer, world.organisation.trust(), collective, window)
}

#[tokio::test]
async fn discovery_ends_when_it_is_quiet_and_not_when_the_time_is_up() {
    let world = World::new(|_| ()).await;
    let begun = Instant::now();
    let found = patient(&world, Duration::from_millis(500))
        .discover_nodes(&NodeFilter::default())
        .await
        .unwrap();
    assert_eq!((found.nodes.len(), found.incomplete), (1, false));
    assert!(begun.elapsed() < FOREVER / 2);
}

/// Ten thousand nodes that share a machine need longer than the first of them.
#[tokio::test]
async fn whoever_still_answers_is_waited_for() {
    let organisation = Organisation::new(&["muster"]);
    let nodes = ["node1", "node2"].map(|name| organisation.node(&format!("{name}.example.net")));
    let mut world = Answerer::of(organisation, &nodes[0], FOREVER).await;
    let window = DiscoveryWindow {
        initial_wait: Duration::from_millis(300),
        quiet_time: Duration::from_secs(2),
        max_wait: FOREVER,
    };
    let client = Client::new(
        world.caller.bus.clone(),
        world.caller.signer.clone(),
        world.organisation.trust(),
        world.organisation.collective().clone(),
        window,
    );
    let answering = async {
        let request = world.requests.next().await.unwrap();
        for (node, takes) in nodes.iter().zip([Duration::ZERO, window.initial_wait * 2]) {
            simulate_delay(takes).await;
            let reply = pong(&request, node.identity(), 1);
            let sealed = sign_envelope(EnvelopeKind::Reply, &reply, node).unwrap();
            let to = answer_subject(&request, nodes[0].identity());
            world.bus.publish(&to, sealed.into()).await.unwrap();
        }
    };
    let everybody = NodeFilter::default();
    let (found, ()) = tokio::join!(client.discover_nodes(&everybody), answering);
    let found = found.unwrap();
    assert_eq!((found.nodes.len(), found.incomplete), (2, false));
}

#[tokio::test]
async fn known_nodes_are_waited_for_until_all_have_answered_or_are_absent() {
    let world = World::new(|_| ()).await;
    let nodes: BTreeSet<Identity> = ["node1.example.net", "nobody.example.net"]
        .map(|name| Identity::parse(name).unwrap())
        .into();
    let begun = Instant::now();
    let mut heard = BTreeSet::new();
    let complete = patient(&world, FOREVER)
        .ping(CallTarget::Nodes(nodes), FOREVER, |answer| {
            heard.insert(answer.reply.sender.to_string());
        })
        .await
        .unwrap();
    assert!(complete && begun.elapsed() < FOREVER / 2);
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["node1.example.net"]);
}
