//! Texts of callers that are compiled or evaluated, against a limit of memory: each text is tried in a process of its own. One row of the tables is one
//! attempt.

#![expect(clippy::disallowed_types, reason = "starts one process for each attempt")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use muster_ddl::AgentDdl;
use muster_filter::{DocumentQuery, NodeFilter, SelectExpression};
use muster_policy::{CallerGroups, PolicyFile};
use muster_schedule::ScheduleSpec;
use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use muster_tests::tier::case_step;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Time of one attempt of the caller.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const LOAD_TIMEOUT: Duration = Duration::from_secs(40);
/// Most memory that one fragment of the message of the day may add to `rpcd`, in KiB.
const FRAGMENT_LIMIT_KIB: i64 = 64 * 1024;
/// Most memory that a template or an expression of the caller's own may add to `rpc`, in KiB.
const EVALUATION_LIMIT_KIB: i64 = 1024 * 1024;
/// Most memory that compiling a text may add to a process, in KiB.
const COMPILE_LIMIT_KIB: i64 = 64 * 1024;
/// The worker's attempt: a kind and a text, as JSON.
const ATTEMPT_VARIABLE: &str = "MUSTER_TEST_HOSTILE_TEXT";

/// Templates that exceed memory or time, by one of the language's means each.
const TEMPLATES: [&str; 22] = [
    "{% set a = 'x' * 1000000 %}{% for i in range(36) %}{% set a = a ~ a %}{% endfor %}{{ a }}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set n.a = n.a ~ n.a %}{% endfor %}{{ n.a }}",
    "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = n.a + n.a %}{% endfor %}{{ n.a | length }}{{ n.a }}",
    "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}",
    "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a == n.a }}{{ n.a | tojson | length }}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set n.a = [n.a, n.a] | join %}{% endfor %}{{ n.a | length }}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set n.a = n.a | replace('x', 'xx') %}{% endfor %}{{ n.a | length }}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set b %}{{ n.a }}{{ n.a }}{% endset %}{% set n.a = b %}{% endfor %}{{ n.a | length }}",
    "{% macro m(a, d) %}{% if d %}{{ m(a ~ a, d - 1) }}{% else %}{{ a }}{% endif %}{% endmacro %}{{ m('x', 40) }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ 'x' | indent(4000000000) }}",
    "{{ 'x\n' | indent(1000000000, true) }}",
    "{{ '%4000000000d' | format(1) }}",
    "{{ [1] | batch(4000000000, 'x') }}",
    "{{ [1] | slice(4000000000, 'x') }}",
    "{{ ['x' * 9000000] * 1000000 }}",
    "{{ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) ~ ('x' * 9000000) }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    "{% for i in range(90000) %}{{ range(90000) | list | length }}{% endfor %}",
    "{{ range(90000) | map('string') | map('indent', 90000) | list | length }}",
    "{{ 9 ** 9 ** 9 ** 9 }}",
    "{{ facts.large | list | tojson(indent=100000) | length }}",
];

/// Expressions of jq.
const JQ_EXPRESSIONS: [&str; 6] = [
    "[range(1e10)]",
    "reduce range(60) as $i (\"x\"; . + .)",
    "reduce range(60) as $i ([0]; . + .)",
    "\"x\" * 1e12",
    "[limit(1e9; repeat(\"xxxxxxxxxxxxxxxx\"))]",
    "def f: [., .] | f; f",
];

/// A text, the kind of text that it is, and how often its middle part is repeated.
const COMPILED_TEXTS: [(&str, &str, &str, usize, &str); 17] = [
    ("select", "", "(((a{500}){500}){500}){500}", 0, ""),
    ("select", "identity=/", "(((a{500}){500}){500}){500}", 1, "/"),
    ("select", "", "(", 100_000, "a"),
    ("select", "", "not ", 100_000, "a"),
    ("select", "", "a or ", 100_000, "a"),
    ("select", "identity=/", "\\pL{100}", 1000, "/"),
    ("query", "{", "a: {", 100_000, ""),
    ("query", "", "[", 100_000, ""),
    ("query", "{a: {'$regex': '", "((a{500}){500}){500}", 1, "'}}"),
    ("query", "{'$or': [", "{a: 1},", 100_000, "]}"),
    ("pql", "inventory { ", "(", 100_000, "certname = 'a' }"),
    ("pql", "inventory { certname ~ '", "((a{500}){500}){500}", 1, "' }"),
    ("pql", "inventory { certname in [", "'a',", 100_000, "'a'] }"),
    ("cron", "", "0-59,", 10_000, "0 * * * *"),
    ("cron", "*/1 * 1-31 * ", "1-7,", 10_000, "1"),
    ("policy", "policy default deny\nallow\t/", "((a{500}){500}){500}", 1, "/\t*\t*\t*\n"),
    ("ddl", "^", "((a{500}){500}){500}", 1, "$"),
];

/// The largest resident memory of the processes that have ended, in KiB.
fn largest_child_kib() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
}

fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that has ended does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Renders fragments as the daemon does; returns the outcomes that were written.
fn render_fragments(templates: &[&str]) -> Vec<Value> {
    let fragments: Vec<Value> = templates
        .iter()
        .map(|template| json!({"name": "10_x", "content": template, "is_literal": false}))
        .collect();
    let values = json!({"identity": "db1", "facts": {"large": "x".repeat(500_000)}, "classes": [], "state": {}});
    let order = json!({"target": "motd", "fragments": fragments, "values": values, "size": 0});
    let mut worker = Command::new(find_program("rpcd"));
    // The debug information that a backtrace reads would be counted.
    worker.env_clear().arg("render-fragments");
    let output = run_with_input(&mut worker, order.to_string().as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn fragments_are_rendered_within_their_memory() {
    assert_eq!(render_fragments(&["{{ identity }}"]), [json!({"Ok": "db1\n"})]);
    let usual = largest_child_kib();
    for template in TEMPLATES.iter().step_by(case_step(2)) {
        let outcomes = render_fragments(&["first", template]);
        assert_eq!(outcomes[0], json!({"Ok": "first\n"}), "{template}");
        let (more, shown) = (largest_child_kib() - usual, outcomes.get(1).cloned());
        assert!(more <= FRAGMENT_LIMIT_KIB, "{template}: {more} KiB");
        let text = shown.as_ref().and_then(|outcome| outcome["Ok"].as_str()).unwrap_or_default();
        assert!(text.len() <= 64 * 1024, "{template}");
    }
}

#[test]
fn texts_of_callers_are_compiled_within_their_memory() {
    let compile = |kind: &str, text: &str| {
        let mut worker = Command::new(std::env::current_exe().unwrap());
        worker.args([
            "--exact",
            "hostile::rendering::compile_one_text",
            "--ignored",
            "--nocapture",
        ]);
        // The text is larger than an argument or a variable may be.
        let output = run_with_input(worker.env(ATTEMPT_VARIABLE, kind), text.as_bytes());
        assert!(output.status.success(), "{kind} {text:.80}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    };
    compile("select", "a");
    let usual = largest_child_kib();
    for (kind, before, part, count, after) in COMPILED_TEXTS {
        let text = format!("{before}{}{after}", part.repeat(count.max(1)));
        compile(kind, &text);
        let more = largest_child_kib() - usual;
        assert!(more <= COMPILE_LIMIT_KIB, "{kind} {text:.80}: {more} KiB");
    }
}

/// Compiles the text in its standard input; the limits of the language refuse it, or it is small.
#[test]
#[ignore = "started by the test of compiled texts"]
fn compile_one_text() {
    let kind = std::env::var(ATTEMPT_VARIABLE).expect("the kind of text");
    let text = std::io::read_to_string(std::io::stdin()).unwrap();
    match kind.as_str() {
        "select" => {
            let _ = SelectExpression::parse(&text);
            let _ = serde_json::from_str::<NodeFilter>(&text);
        }
        "query" | "pql" => drop(DocumentQuery::parse_written(&text)),
        "cron" => {
            let spec = json!({"agent": "puppet", "action": "runonce", "cron": text});
            let spec = ScheduleSpec::from_json(spec.to_string().as_bytes());
            let _ = spec.map(|spec| spec.compile());
        }
        "policy" => drop(PolicyFile::parse(&text, &CallerGroups::default())),
        "ddl" => {
            let ddl = json!({"metadata": {"name": "a", "description": "a", "author": "a", "license": "a", "version": "1.0.0", "timeout": 5},
                "actions": [{"action": "a", "description": "a", "display": "always", "output": {},
                    "input": {"a": {"prompt": "a", "description": "a", "type": "string", "optional": true, "maxlength": 9, "validation": text}}}]});
            drop(AgentDdl::from_slice(ddl.to_string().as_bytes()));
        }
        other => panic!("no such kind of text: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_and_expressions_of_the_caller_end_within_their_memory() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = organisation.caller("rip");
    let rpc = RpcCommand::new(&server, &organisation, &caller, "");
    let node = organisation.node("web1.example.net");
    let daemon = DaemonHome::new(&organisation, &node, &server.url(), "").start();
    poll_until_ok("the node is ready", LOAD_TIMEOUT, async || {
        let output = rpc.run(&["find", "--template", "{{ node }}"]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    let run = async |arguments: &[&str]| {
        let mut command = rpc.prepare_command(arguments);
        // The debug information that a backtrace reads would be counted.
        let output = command.env_remove("RUST_BACKTRACE").output();
        // What costs the caller only time is ended by the caller.
        timeout(ATTEMPT_TIMEOUT, output).await.ok().map(Result::unwrap)
    };
    let usual = largest_child_kib();
    for template in TEMPLATES.iter().step_by(case_step(5)) {
        run(&["find", "--template", template]).await;
        let more = largest_child_kib() - usual;
        assert!(more <= EVALUATION_LIMIT_KIB, "{template}: {more} KiB");
    }
    for expression in JQ_EXPRESSIONS.iter().step_by(case_step(3)) {
        let output = run(&["whoami", "-j", "--jq", expression]).await;
        assert!(output.is_none_or(|output| !output.status.success()), "{expression}");
        let more = largest_child_kib() - usual;
        assert!(more <= EVALUATION_LIMIT_KIB, "{expression}: {more} KiB");
    }
    drop(daemon);
}
