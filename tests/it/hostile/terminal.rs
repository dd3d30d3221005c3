//! Nodes and services whose texts are terminal sequences: no form of any command's output contains one, and no line that a node made up.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use muster_bus::{Bus, Bytes, NewEvent};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::now;
use muster_tests::organisation::connect;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::directory::fixture::{DirectoryFixture, answer_for_directory};
use crate::fake_node::reply_subject;

const NODE: &str = "web1.example.net";

/// The beginning of a line that only a line end in a text could make.
const FORGED: &str = "web2.example.net";

/// ESC with colours, OSC 8 and 52, C1, bidirectional controls, NUL, BEL, CR, DEL and line separators.
const HOSTILE: &str = "x\u{1b}[31m\u{1b}]8;;http://a\u{7}\u{1b}]52;c;YQ==\u{1b}\\\u{9b}2J\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{61c}\u{0}\u{7f}\u{2028}\r\nweb2.example.net: ok";

/// Requests to the node. The first one is printed in every form, the others as text.
const REQUESTS: [&[&str]; 12] = [
    &["do", "rpcutil", "get_fact", "fact=os"],
    &["do", "rpcutil", "inventory"],
    &["do", "rpcutil", "agent_inventory"],
    &["do", "shell", "run", "command=id", "--yes"],
    &["do", "service", "status", "service=a"],
    &["do", "puppet", "status"],
    &["do", "package", "status", "package=a"],
    &["do", "puppetral", "find", "type=user", "name=a"],
    &["do", "nrpe", "runcommand", "command=a"],
    &["do", "motd", "render"],
    &["do", "motd", "register", "name=10_a", "content=a", "--yes"],
    &["do", "motd", "unregister", "name=10_a", "--yes"],
];

const FORMS: [&[&str]; 10] = [
    &[],
    &["-v"],
    &["--table"],
    &["--group"],
    &["--display", "all", "--sort"],
    &["-j"],
    &["--jsonl"],
    &["--jq", ".replies[] | (.statusmsg, .data)"],
    &["--jq", ".replies[].statusmsg | @json"],
    &["--template", "{{ sender }} {{ data }}"],
];

/// Commands with an output of their own.
const COMMANDS: [&[&str]; 33] = [
    &["facts", "os", "-I", NODE],
    &["facts", "-I", NODE],
    &["facts", "os", "-j", "-I", NODE],
    &["inventory", NODE],
    &["inventory", NODE, "-j"],
    &["inventory", NODE, "--template", "{{ facts }} {{ classes }}"],
    &["inventory", "--collectives"],
    &["find", "-S", "os=a", "-I", NODE],
    &["run", "id", "--yes", "-I", NODE],
    &["run", "id", "--yes", "--fold", "-I", NODE],
    &["puppet", "status", "-I", NODE],
    &["puppet", "summary", "-I", NODE],
    &["puppet", "count", "-I", NODE],
    &["check", "check_load", "-I", NODE],
    &["permit", "list"],
    &["cancel", "01890a5d-ac96-774b-bcce-b302099a8057"],
    &["again", "list"],
    &["config", "status"],
    &["plugin", "fetch", "unknownagent"],
    &["ping", "-v"],
    &["stats", "-I", NODE],
    &["doctor", "-I", NODE],
    &["doctor", "-j", "-I", NODE],
    &["provision", "status"],
    &["provision", "status", NODE],
    &["provision", "status", "-j"],
    &["provision", "watch"],
    &["job", "list"],
    &["job", "list", "-j"],
    &["job", "show", "earlier"],
    &["job", "show", "earlier", "-j"],
    &["job", "diff", "earlier", "later"],
    &["job", "diff", "earlier", "later", "-j"],
];

/// Commands that print what nodes send or wrote without a request, each with the line after which it waits.
const LISTENERS: [(&[&str], &str); 6] = [
    (&["events", "--count", "1"], "Waiting for events"),
    (&["events", "--count", "1", "--jsonl"], "Waiting for events"),
    (&["listen", "box", "rpcutil", "get_fact", "--expect", "1"], "Listening on "),
    (&["listen", "box", "rpcutil", "get_fact", "--expect", "1", "-v"], "Listening on "),
    (&["listen", "box", "rpcutil", "get_fact", "--expect", "1", "-j"], "Listening on "),
    (&["listen", "box", "rpcutil", "get_fact", "--expect", "1", "--jsonl"], "Listening on "),
];

/// Commands that read files of a node, in the caller's directory.
const FILE_COMMANDS: [&[&str]; 8] = [
    &["audit", "show", "audit.log"],
    &["audit", "show", "audit.log", "-j"],
    &["audit", "verify", "audit.log"],
    &["audit", "verify", "audit.log", "-j"],
    &["prompt", "--file", "prompt.json", "--shell", "bash", "--width", "4000"],
    &["prompt", "--file", "prompt.json", "--shell", "zsh"],
    &["prompt", "--file", "prompt.json", "--shell", "fish"],
    &["prompt", "--file", "prompt.json", "--shell", "sh"],
];

/// Commands that ask the directory.
const DIRECTORY_COMMANDS: [&[&str]; 9] = [
    &["nodes"],
    &["nodes", "-o", "wide", "--fields", "os"],
    &["nodes", "-o", "name"],
    &["nodes", "-o", "json"],
    &["nodes", "-o", "yaml"],
    &["nodes", "-o", "jsonpath=$.nodes[*]['node','state','version','problem','fields']"],
    &["nodes", "--facets", "os"],
    &["node", NODE],
    &["find", "--dm", "directory"],
];

fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Outputs that have this text in every place of which some command shows a value.
fn outputs() -> Value {
    let all = json!({HOSTILE: HOSTILE, "os": HOSTILE, "list": [HOSTILE, {HOSTILE: HOSTILE}]});
    let texts = [
        "value version main_collective stdout stderr output message status ensure idling applying",
        "daemon_present disable_message perfdata command agent action caller provider name outcome leader text",
    ];
    let texts = texts.iter().flat_map(|names| names.split(' ')).map(|name| (name, json!(HOSTILE)));
    let lists = ["classes", "collectives", "agents"].map(|name| (name, json!([HOSTILE])));
    let agents = json!([{"agent": HOSTILE, "name": HOSTILE, "version": HOSTILE}]);
    let history = json!([{"at": 1, "step": HOSTILE, "what": HOSTILE, "words": HOSTILE}]);
    let row = json!({
        "node": HOSTILE, "state": HOSTILE, "step": HOSTILE, "attempt": 2, "done": [HOSTILE], "error": HOSTILE,
        "master": HOSTILE, "serial": HOSTILE, "since": 1, "changed": 2, "history": history,
    });
    let others = [
        ("facts", all.clone()),
        (HOSTILE, all),
        ("exitcode", json!(2)),
        ("counts", json!({HOSTILE: HOSTILE})),
        ("nodes", json!([row])),
        ("files", json!([{HOSTILE: HOSTILE}])),
        ("problems", json!([HOSTILE])),
    ];
    let named = others.into_iter().chain([("agent_inventory", agents)]).chain(lists).chain(texts);
    named.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Answers every request for the node as if the action had ended with the status.
async fn answer_for_node(bus: Bus, node: Signer, status: Arc<AtomicU8>) {
    let own = format!("muster.*.*.node.{}", node.identity());
    let mut to_all = bus.subscribe("muster.*.*.all").await.unwrap();
    let mut to_node = bus.subscribe(&own).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = tokio::select! {
            request = to_all.next() => request,
            request = to_node.next() => request,
        } {
            let body: Value = serde_json::from_slice(request.payload()).unwrap();
            let (agent, action) = (body.pointer("/body/agent"), body.pointer("/body/action"));
            let is_ping = action == Some(&json!("ping"));
            let code = status.load(Ordering::Relaxed);
            // Jobs with different outcomes have different outputs, so that a comparison shows both.
            let mut data = outputs();
            let value = json!(format!("{HOSTILE}{code}"));
            data.as_object_mut().unwrap().insert("value".to_owned(), value);
            let reply = json!({
                "request": body.pointer("/body/id"), "sender": node.identity(), "agent": agent,
                "action": action, "statuscode": if is_ping { 0 } else { code }, "statusmsg": HOSTILE,
                "data": if is_ping { json!({"pong": 1}) } else { data }, "time": now(), "took": 0,
            });
            let signed = sign_envelope(EnvelopeKind::Reply, &reply, &node).unwrap();
            let to = reply_subject(&request, node.identity());
            bus.publish(&to, Bytes::from(signed)).await.unwrap();
        }
    });
}

/// Runs a command and checks its output. Returns what it printed.
async fn run_checked(rpc: &RpcCommand, words: &[&str], keeps_lines: bool) -> String {
    let colours = ["--color", "never"];
    let mut command = rpc.prepare_command(&[words, &colours].concat());
    let output = command.current_dir(rpc.home()).output().await.unwrap();
    check_output(words, &output, keeps_lines)
}

fn check_output(words: &[&str], output: &Output, keeps_lines: bool) -> String {
    let text = describe_output(output);
    for stream in [&output.stdout, &output.stderr] {
        let stream = String::from_utf8_lossy(stream);
        assert!(!stream.contains(is_harmful), "{words:?}: {stream:?}");
        let forged = stream.lines().find(|line| line.starts_with(FORGED));
        assert!(keeps_lines || forged.is_none(), "{words:?}: {stream}");
    }
    assert!(!text.contains("Usage: rpc") && !text.contains("panicked"), "{words:?}: {text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_node_reaches_the_terminal_unescaped() {
    let fleet = DirectoryFixture::start().await;
    let (node, status) = (fleet.organisation.node(NODE), Arc::new(AtomicU8::new(0)));
    let bus = connect(&fleet.server, &node).await;
    answer_for_node(bus, node, Arc::clone(&status)).await;
    let mut shown = String::new();
    for (code, job) in [(0, "earlier"), (5, "later")] {
        status.store(code, Ordering::Relaxed);
        let words = [REQUESTS[0], &["--job", job, "-I", NODE]].concat();
        shown += &run_checked(&fleet.rpc, &words, false).await;
    }
    for code in [0, 5] {
        status.store(code, Ordering::Relaxed);
        for (at, request) in REQUESTS.iter().enumerate() {
            for form in FORMS.iter().take(if at == 0 { FORMS.len() } else { 1 }) {
                let keeps_lines = ["--jq", "--template"].iter().any(|flag| form.contains(flag));
                let words = [request, &["-I", NODE][..], form].concat();
                shown += &run_checked(&fleet.rpc, &words, keeps_lines).await;
            }
        }
        for command in COMMANDS {
            let keeps_lines = command.contains(&"--template");
            shown += &run_checked(&fleet.rpc, command, keeps_lines).await;
        }
    }
    let raw = ["--raw", "--template", "{{ statusmsg }}"];
    let raw = fleet.rpc.run(&[REQUESTS[0], &["-I", NODE], &raw].concat()).await;
    assert_eq!(String::from_utf8_lossy(&raw.stdout), format!("{HOSTILE}\n"));
    // The commands show the text, escaped.
    for escaped in ["\\x1b[31m", "\\u{202e}", "\\u001b[31m", "\\u202e"] {
        assert!(shown.matches(escaped).count() > 10, "{escaped}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_directory_reaches_the_terminal_unescaped() {
    let fleet = DirectoryFixture::start().await;
    let service = fleet.organisation.service(ServiceRight::Directory, "liar");
    let row = json!({
        "node": HOSTILE, "state": HOSTILE, "seen": 1, "version": HOSTILE, "collectives": [HOSTILE],
        "classes": 1, "fields": {"os": HOSTILE, HOSTILE: HOSTILE}, "problem": HOSTILE,
    });
    let told = json!({
        "nodes": [row], "node": row, "total": 1, "more": 0, "freshness": {"ready": true},
        "facts": {HOSTILE: HOSTILE}, "agents": {HOSTILE: HOSTILE}, "classes": [HOSTILE],
        "state": {HOSTILE: HOSTILE}, "values": [{"value": HOSTILE, "nodes": 1}],
    });
    let bus = connect(&fleet.server, &service).await;
    answer_for_directory(bus, service, move |_, _| told.clone()).await;
    let mut shown = String::new();
    for command in DIRECTORY_COMMANDS {
        shown += &run_checked(&fleet.rpc, command, false).await;
    }
    assert!(shown.contains("\\u{202e}") && shown.contains("\\u202e"), "{shown}");
    let expression = "jsonpath=$.nodes[*].node";
    let raw = fleet.rpc.run(&["nodes", "--raw", "-o", expression]).await;
    assert_eq!(String::from_utf8_lossy(&raw.stdout), format!("{HOSTILE}\n"));
    for form in [&["-j", "--jq", ".nodes[].node"][..], &["-o", expression]] {
        let text = run_checked(&fleet.rpc, &[&["nodes"], form].concat(), true).await;
        assert!(text.contains("\\x1b[31m"), "{text}");
    }
}

/// Runs a command that waits; `send` makes the node send something as soon as it does.
async fn run_listener(
    rpc: &RpcCommand,
    (words, ready): (&[&str], &str),
    send: impl AsyncFnOnce(),
) -> String {
    let options = ["-t", "60", "--color", "never"];
    let mut child = rpc.prepare_command(&[words, &options].concat()).spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(ready) {
        line.clear();
        assert!(messages.read_line(&mut line).await.unwrap() > 0, "{words:?}: not {ready}");
    }
    send().await;
    let mut output = child.wait_with_output().await.unwrap();
    messages.read_to_end(&mut output.stderr).await.unwrap();
    check_output(words, &output, false)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_in_events_replies_to_others_and_files_reaches_the_terminal_unescaped() {
    let fleet = DirectoryFixture::start().await;
    let (node, status) = (fleet.organisation.node(NODE), Arc::new(AtomicU8::new(0)));
    let bus = connect(&fleet.server, &node).await;
    answer_for_node(bus.clone(), node.clone(), Arc::clone(&status)).await;
    let data = json!({HOSTILE: HOSTILE}).as_object().unwrap().clone();
    let shows_text = |text: &str| text.contains("\\u{202e}") || text.contains("\\u202e");
    for listener in LISTENERS {
        let text = run_listener(&fleet.rpc, listener, async || {
            let (text, data) = (HOSTILE.to_owned(), data.clone());
            let event = NewEvent { kind: "restart_failed", text, data, time: now() };
            bus.publish_event(&node, event).await.unwrap();
            let to_box = [REQUESTS[0], &["-I", NODE, "--reply-to", "box"]].concat();
            let sent = fleet.rpc.run(&to_box).await;
            assert!(sent.status.success(), "{}", describe_output(&sent));
        });
        let text = text.await;
        assert!(shows_text(&text), "{listener:?}: {text}");
    }

    let names = ["time", "verdict", "caller", "statuscode", "reason", "rule", "count", "node"];
    let fields = |names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), json!(HOSTILE))).collect()
    };
    let records = [
        fields(&[&names[..], &["agent", "action"]].concat()),
        fields(&[&names[..], &["claimed"]].concat()),
        fields(&["audit", "node", "key", "sig", "prev"]),
    ];
    fleet.rpc.write("audit.log", &records.map(|record| format!("{record}\n")).concat());
    let segment = json!({"text": HOSTILE, "color": "red"});
    let prompt = json!({"segments": [segment], "roles": [HOSTILE], "warnings": [HOSTILE]});
    fleet.rpc.write("prompt.json", &prompt.to_string());
    for command in FILE_COMMANDS {
        let text = run_checked(&fleet.rpc, command, false).await;
        assert!(command[1] != "show" || shows_text(&text), "{command:?}: {text}");
        assert!(command[0] != "prompt" || text.contains("x__31m"), "{command:?}: {text}");
    }
}
