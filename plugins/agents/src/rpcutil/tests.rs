//! Tests of the agent and of the data sources through their handlers.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::ddl::{AgentDdl, REDACTED, builtin_agent};
use muster_api::filter::state::NodeFacts;
use muster_api::system::fake::FakeSystem;
use muster_api::system::real::RealSystem;
use muster_api::system::{FileAttributes, System};
use muster_api::testing::{TestNode, data_differences};
use muster_api::wire::identity::SubjectName;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, AgentProblem, CounterSnapshot, StatelessPlugin as _};
use serde_json::{Map, Value, json};

use crate::rpcutil::RpcutilPlugin;
use crate::rpcutil::data::{fstat, memory};

fn ddl(name: &str) -> Arc<AgentDdl> {
    let document = json!({
        "metadata": {
            "name": name, "description": "d", "author": "a", "license": "l", "version": "1.2.3", "url": "u", "timeout": 7,
        },
        "actions": [],
    });
    Arc::new(AgentDdl::from_slice(document.to_string().as_bytes()).unwrap())
}

fn node() -> TestNode {
    let facts =
        json!({"os": {"family": "Debian", "tags": ["a", "b"]}, "environment": "dev", "cpus": 4});
    let config = json!({
        "identity": "dev1.example.net",
        "broker.credentials": "/etc/muster/node.creds",
        "plugins.db": {"password": "hunter2", "password_file": "/etc/db", "pools": [{"api_token": "hunter2", "size": 3}]},
        "plugins.db.password": "hunter2",
    });
    let mut node = TestNode::named("dev1.example.net").unwrap();
    node.collectives = ["main", "eu"].map(|name| SubjectName::parse(name).unwrap()).to_vec();
    node.facts = Arc::new(NodeFacts::from_value(facts).unwrap());
    node.classes = ["mysql::master".to_owned()].into();
    node.ddls = vec![ddl("rpcutil"), ddl("puppetral")];
    node.data_sources = RpcutilPlugin::create_data_sources().unwrap();
    node.config = config.as_object().cloned().unwrap();
    node.stats = CounterSnapshot {
        total: 9,
        validated: 8,
        denied: 2,
        starttime: 1_700_000_000,
        ..CounterSnapshot::default()
    };
    node
}

/// Calls an action with inputs and outputs validated against the DDL, as the host does.
async fn ask_on(system: Arc<dyn System>, action: &str, input: Value) -> Result<Value, ActionError> {
    let agent = RpcutilPlugin::create_agent().unwrap();
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let cx = node().context("rpcutil", action, system).unwrap();
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(Value::Object(declared.validate_output(&output).unwrap()))
}

async fn ask(action: &str, input: Value) -> Value {
    ask_on(Arc::new(FakeSystem::new()), action, input).await.unwrap()
}

/// The values of a data source; none may be a list or an object.
async fn data(system: &Arc<dyn System>, source: &str, query: &str) -> Map<String, Value> {
    let input = json!({"source": source, "query": query});
    let answer = ask_on(Arc::clone(system), "get_data", input).await.unwrap();
    let values = answer["data"].as_object().cloned().unwrap();
    assert!(values.values().all(|value| !value.is_array() && !value.is_object()), "{values:?}");
    values
}

#[test]
fn data_sources_types_names_and_examples_equal_their_ddls() {
    let sources = RpcutilPlugin::create_data_sources().unwrap();
    let found: Vec<String> = [
        data_differences::<memory::AgentDataOutput>(&sources[0]),
        data_differences::<memory::ClassDataOutput>(&sources[1]),
        data_differences::<memory::CollectiveDataOutput>(&sources[2]),
        data_differences::<memory::ConfigItemDataOutput>(&sources[3]),
        data_differences::<memory::FactDataOutput>(&sources[4]),
        data_differences::<fstat::FstatDataOutput>(&sources[5]),
    ]
    .concat();
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn ping_returns_the_clock_of_the_node() {
    let system = FakeSystem::new();
    system.set_now(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_601));
    let answer = ask_on(Arc::new(system), "ping", json!({})).await.unwrap();
    assert_eq!(answer, json!({"pong": 1_767_225_601}));
}

#[tokio::test]
async fn inventory_is_complete() {
    let answer = ask("inventory", json!({})).await;
    let expected = json!({
        "agents": ["puppetral", "rpcutil"],
        "facts": node().facts.as_map(),
        "classes": ["mysql::master"],
        "state": null,
        "version": env!("CARGO_PKG_VERSION"),
        "main_collective": "main",
        "collectives": ["main", "eu"],
        "data_plugins": ["agent", "class", "collective", "config_item", "fact", "fstat"],
        "agent_problems": [],
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn facts_are_found_by_path_and_missing_ones_are_null() {
    for (fact, value) in
        [("os.family", json!("Debian")), ("os.tags.1", json!("b")), ("os.nothing", Value::Null)]
    {
        let answer = ask("get_fact", json!({"fact": fact})).await;
        assert_eq!(answer, json!({"fact": fact, "value": value}));
    }
    let answer = ask("get_facts", json!({"facts": "cpus, os.family ,nothing"})).await;
    assert_eq!(answer, json!({"values": {"cpus": 4, "os.family": "Debian", "nothing": null}}));
}

#[tokio::test]
async fn daemon_stats_combine_counters_and_process_statistics() {
    let answer = ask("daemon_stats", json!({})).await;
    let counters = ["total", "validated", "denied", "replayed", "starttime"];
    let counted = counters.map(|name| answer[name].as_u64().unwrap());
    assert_eq!(counted, [9, 8, 2, 0, 1_700_000_000]);
    assert_eq!(answer["pid"], json!(std::process::id()));
    assert_eq!(answer["configfile"], json!("/etc/muster/rpcd.toml"));
    assert!(answer["threads"].as_u64().unwrap() >= 1);
    assert!(answer["times"]["user"].is_number() && answer["times"]["system"].is_number());
    assert!(answer["memory_bytes"].is_null() || answer["memory_bytes"].as_u64().unwrap() > 4096);
}

#[tokio::test]
async fn agents_and_collectives_are_described() {
    let answer = ask("agent_inventory", json!({})).await;
    let expected = json!({
        "agent": "puppetral", "name": "puppetral", "description": "d", "author": "a", "license": "l",
        "version": "1.2.3", "url": "u", "timeout": 7,
        "provider": "builtin",
    });
    assert_eq!(answer["agents"][0], expected);
    assert_eq!(answer["problems"], json!([]));
    assert_eq!(answer["agents"].as_array().unwrap().len(), 2);
    let answer = ask("collective_info", json!({})).await;
    assert_eq!(answer, json!({"main_collective": "main", "collectives": ["main", "eu"]}));
}

#[tokio::test]
async fn ddl_has_a_checksum_and_agent_problems_have_a_path() {
    let mut node = node();
    let document = AgentDdl::from_slice(builtin_agent("rpcutil").unwrap().as_bytes()).unwrap();
    node.ddls = vec![Arc::new(document)];
    node.agent_problems = vec![AgentProblem {
        agent: "disk".to_owned(),
        path: "/etc/muster/ddl/disk.json".to_owned(),
        problem: "no JSON".to_owned(),
    }];
    let agent = RpcutilPlugin::create_agent().unwrap();
    let ask = async |action: &str, input: Value| {
        let cx = node.context("rpcutil", action, Arc::new(FakeSystem::new()));
        let input = input.as_object().cloned().unwrap();
        agent.find_handler(action).unwrap().call(&cx.unwrap(), input).await
    };
    let answer = ask("ddl", json!({"agent": "rpcutil"})).await.unwrap();
    let text = answer["ddl"].as_str().unwrap();
    assert_eq!(AgentDdl::from_slice(text.as_bytes()).unwrap().name(), "rpcutil");
    assert_eq!(answer["version"], json!(document_version(text)));
    assert_eq!(answer["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        ask("ddl", json!({"agent": "ghost"})).await.unwrap_err().status,
        ReplyStatus::Failed
    );
    let answer = ask("agent_inventory", json!({})).await.unwrap();
    assert_eq!(answer["problems"][0]["path"], json!("/etc/muster/ddl/disk.json"));
}

fn document_version(text: &str) -> String {
    AgentDdl::from_slice(text.as_bytes()).unwrap().version().to_owned()
}

#[tokio::test]
async fn configuration_is_returned_with_redacted_secrets() {
    let cases = [
        ("identity", json!("dev1.example.net")),
        ("broker.credentials", json!("/etc/muster/node.creds")),
        ("nothing", Value::Null),
        ("plugins.db.password", json!(REDACTED)),
        (
            "plugins.db",
            json!({"password": REDACTED, "password_file": "/etc/db", "pools": [{"api_token": REDACTED, "size": 3}]}),
        ),
    ];
    for (item, value) in cases {
        let answer = ask("get_config_item", json!({"item": item})).await;
        assert_eq!(answer, json!({"item": item, "value": value}));
        let system: Arc<dyn System> = Arc::new(FakeSystem::new());
        let answer = Value::Object(data(&system, "config_item", item).await).to_string();
        assert!(!answer.contains("hunter2"), "{answer}");
    }
}

#[tokio::test]
async fn data_sources_return_facts_classes_collectives_and_agents() {
    let system: Arc<dyn System> = Arc::new(FakeSystem::new());
    let fact = data(&system, "fact", "os.tags").await;
    assert_eq!(
        Value::Object(fact),
        json!({"exists": true, "value": "[\"a\",\"b\"]", "value_encoding": "application/json"})
    );
    let fact = data(&system, "fact", "cpus").await;
    assert_eq!(
        Value::Object(fact),
        json!({"exists": true, "value": 4, "value_encoding": "text/plain"})
    );
    let fact = data(&system, "fact", "nothing").await;
    assert_eq!(
        Value::Object(fact),
        json!({"exists": false, "value": null, "value_encoding": null})
    );
    assert_eq!(data(&system, "class", "Mysql::Master").await["exists"], json!(true));
    assert_eq!(data(&system, "class", "mysql").await["exists"], json!(false));
    assert_eq!(data(&system, "collective", "eu").await["member"], json!(true));
    assert_eq!(data(&system, "collective", "us").await["member"], json!(false));
    let known = data(&system, "agent", "puppetral").await;
    assert_eq!((&known["exists"], &known["version"]), (&json!(true), &json!("1.2.3")));
    assert_eq!(data(&system, "agent", "x").await["exists"], json!(false));
    assert_eq!(data(&system, "config_item", "identity").await["value"], json!("dev1.example.net"));
}

#[tokio::test]
async fn fstat_describes_a_path() {
    let scratch = tempfile::tempdir().unwrap();
    let real: Arc<dyn System> = Arc::new(RealSystem::new(scratch.path().to_owned()));
    std::fs::create_dir(scratch.path().join("etc")).unwrap();
    let mode = |mode| FileAttributes { mode: Some(mode), ..FileAttributes::default() };
    real.write_file("/etc/hosts".as_ref(), b"hello", &mode(0o644)).unwrap();
    real.write_file("/etc/private".as_ref(), b"hello", &mode(0o640)).unwrap();
    symlink("nowhere", scratch.path().join("etc/link")).unwrap();

    let file = data(&real, "fstat", "/etc/hosts").await;
    assert_eq!(
        (&file["present"], &file["output"], &file["type"]),
        (&json!(true), &json!("present"), &json!("file"))
    );
    assert_eq!((&file["size"], &file["mode"]), (&json!(5), &json!("0644")));
    assert_eq!(file["md5"], json!("5d41402abc4b2a76b9719d911017c592"));
    let sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(file["sha256"], json!(sum));
    assert!(
        file["mtime_age"].as_u64().unwrap() < 60
            && file["mtime_seconds"].as_u64().unwrap() > 1_700_000_000
    );
    // A checksum would let a caller verify guesses of content that only some users may read.
    let private = data(&real, "fstat", "/etc/private").await;
    assert_eq!(
        (&private["size"], &private["md5"], &private["sha256"]),
        (&json!(5), &Value::Null, &Value::Null)
    );
    let link = data(&real, "fstat", "/etc/link").await;
    assert_eq!((&link["type"], &link["sha256"]), (&json!("symlink"), &Value::Null));
    assert_eq!(data(&real, "fstat", "/etc").await["type"], json!("directory"));
    let nothing = data(&real, "fstat", "/etc/nothing").await;
    assert_eq!((&nothing["present"], &nothing["output"]), (&json!(false), &json!("not present")));
}

#[tokio::test]
async fn unreadable_file_has_no_checksum_and_a_failed_stat_is_an_error() {
    let system = FakeSystem::new();
    system.add_file("/etc/shadow", "x");
    system.inject_failure("/etc/shadow", "read");
    let shared: Arc<dyn System> = Arc::new(system.clone());
    let file = data(&shared, "fstat", "/etc/shadow").await;
    assert_eq!((&file["size"], &file["sha256"]), (&json!(1), &Value::Null));

    system.inject_failure("/etc/shadow", "stat");
    let input = json!({"source": "fstat", "query": "/etc/shadow"});
    let error = ask_on(shared, "get_data", input).await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert!(error.message.starts_with("cannot stat /etc/shadow: "), "{}", error.message);
}

#[tokio::test]
async fn invalid_queries_have_a_status_other_than_failed() {
    let cases = [
        (json!({"source": "weather"}), ReplyStatus::InvalidData, "agent, class, collective"),
        (json!({"source": "fstat"}), ReplyStatus::MissingData, "absolute path"),
        (json!({"source": "fact", "query": ""}), ReplyStatus::MissingData, "path of a fact"),
        (json!({"source": "fstat", "query": "etc/hosts"}), ReplyStatus::InvalidData, "etc/hosts"),
        (json!({"source": "fstat", "query": "/../../etc"}), ReplyStatus::InvalidData, "absolute"),
    ];
    for (input, status, words) in cases {
        let system: Arc<dyn System> = Arc::new(FakeSystem::new());
        let error = ask_on(system, "get_data", input.clone()).await.unwrap_err();
        assert_eq!(error.status, status, "{input}");
        assert!(error.message.contains(words), "{}", error.message);
    }
}
