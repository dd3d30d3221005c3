//! What a compile cannot do: harm another one, or reach files, credentials and the network.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use muster_catalogs::compiler::{CompileLimits, CompilerError};
use serde_json::json;

use super::fixture::{Environment, TestNode, message};

fn node() -> TestNode {
    TestNode::new("web1.acme.net", json!({}))
}

/// An environment with a class for each manifest, and a class `ruby` that runs this code.
fn with_classes(classes: &[(&str, &str)], ruby: &str) -> Option<Environment> {
    let environment = Environment::create()?;
    for (name, text) in classes {
        let class = format!("class w::{name} {{\n{text}\n}}\n");
        environment.write(&format!("modules/w/manifests/{name}.pp"), &class);
    }
    environment.write(
        "modules/w/manifests/ruby.pp",
        "class w::ruby { notify { 'r': message => w::f() } }\n",
    );
    let function = format!(
        "require 'socket'\nPuppet::Functions.create_function(:'w::f') do\ndef f()\n{ruby}\nend\nend\n"
    );
    environment.write("modules/w/lib/puppet/functions/w/f.rb", &function);
    Some(environment)
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_8_poisoned_compile_ends_at_its_limit_and_the_next_one_works() {
    let classes = [
        ("good", "notify { 'r': message => 'good' }"),
        ("broken", "notify { 'r': message => $absent['x'] + 1 }"),
        ("invalid", "notify { 'r' message }"),
        (
            "loop",
            "$a = Integer[1, 100000].map |$x| { Integer[1, 100000].reduce |$m, $y| { $m + $y } }",
        ),
        ("large", "$a = Integer[1, 100].reduce('xxxxxxxxxxxxxxxx') |$m, $x| { \"${m}${m}\" }"),
    ];
    let Some(environment) = with_classes(&classes, "loop { }") else { return };
    let limits = CompileLimits {
        cpu_seconds: 2,
        memory_bytes: 512 * 1024 * 1024,
        timeout: Duration::from_mins(1),
    };
    let compiler = environment.compiler_with(limits);
    let compile = async |class: &str| {
        let mut node = node();
        node.classes = vec![format!("w::{class}")];
        node.compile(&compiler).await
    };
    assert_eq!(message(&compile("good").await.unwrap()), "\"good\"");
    let broken = compile("broken").await.unwrap().result.unwrap_err();
    assert_eq!(broken.file.as_deref(), Some("modules/w/manifests/broken.pp"), "{broken:?}");
    let invalid = compile("invalid").await.unwrap().result.unwrap_err();
    assert!(invalid.message.contains("Syntax error at 'message'"), "{invalid:?}");
    for endless in ["loop", "ruby"] {
        let ended = compile(endless).await;
        assert!(matches!(ended, Err(CompilerError::Ended { cpu_seconds: 2, .. })), "{ended:?}");
    }
    // Ruby can report that it has no memory left, or end.
    let large = compile("large").await;
    assert!(
        large.as_ref().is_ok_and(|outcome| outcome.result.is_err())
            || matches!(large, Err(CompilerError::Ended { .. })),
        "{large:?}"
    );
    assert_eq!(message(&compile("good").await.unwrap()), "\"good\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_8_changed_function_concerns_its_environment_only() {
    let Some(first) = with_classes(&[], "'first'") else { return };
    let Some(second) = with_classes(&[], "'second'") else { return };
    let (first, second) = (first.compiler(), second.compiler());
    let mut node = node();
    node.classes = vec!["w::ruby".to_owned()];
    for _ in 0..2 {
        assert_eq!(message(&node.compile(&first).await.unwrap()), "\"first\"");
        assert_eq!(message(&node.compile(&second).await.unwrap()), "\"second\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_code_reads_no_other_file_and_opens_no_socket() {
    let Some(other) = Environment::create() else { return };
    other.write("secret", "secret\n");
    let secret = other.code_path().join("secret");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = other.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let environment_file = other.code_path().join("manifests/site.pp");
    let attempts = [
        format!("File.read('{}')", secret.display()),
        "File.read('/etc/shadow')".to_owned(),
        "File.read('/etc/machine-id')".to_owned(),
        "Dir.children('/root').join".to_owned(),
        "Dir.children('/home').join".to_owned(),
        "File.read('/proc/1/environ')".to_owned(),
        format!("TCPSocket.new('127.0.0.1', {}).inspect", tcp.local_addr().unwrap().port()),
        "UDPSocket.new.inspect".to_owned(),
        format!("UNIXSocket.new('{}').inspect", socket.display()),
        format!("File.write('{}', 'x').to_s", environment_file.display()),
        "File.write('../compiler.rb', 'x').to_s".to_owned(),
    ];
    let arms = attempts
        .iter()
        .enumerate()
        .map(|(number, attempt)| format!("when {number} then {attempt}\n"));
    let ruby = format!(
        "begin\ncase closure_scope['attempt']\n{}end\nrescue SystemCallError => error\n\"denied: #{{error.class}}\"\nend",
        arms.collect::<String>()
    );
    let Some(environment) = with_classes(&[("good", "notify { 'r': message => 'good' }")], &ruby)
    else {
        return;
    };
    let compiler = environment.compiler();
    let mut reached = Vec::new();
    for (number, attempt) in attempts.iter().enumerate() {
        let mut node = TestNode::new("web1.acme.net", json!({"attempt": number}));
        // The first compile of a process happens in the resident one; what is tried there must fail, too.
        node.classes = vec!["w::ruby".to_owned()];
        match node.compile(&compiler).await {
            Ok(outcome) if message(&outcome).contains("denied") => {}
            other => reached.push(format!("{attempt}: {other:?}")),
        }
    }
    assert!(reached.is_empty(), "{}", reached.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn exported_resources_fail_and_name_the_query() {
    let classes = [("export", "@@notify { 'r': }"), ("collect", "Notify <<| |>>")];
    let Some(environment) = with_classes(&classes, "1") else { return };
    let compiler = environment.compiler();
    for class in ["export", "collect"] {
        let mut node = node();
        node.classes = vec![format!("w::{class}")];
        let failure = node.compile(&compiler).await.unwrap().result.unwrap_err();
        assert!(failure.message.contains("search_nodes()"), "{failure:?}");
        assert_eq!(failure.file, Some(format!("modules/w/manifests/{class}.pp")), "{failure:?}");
    }
}
