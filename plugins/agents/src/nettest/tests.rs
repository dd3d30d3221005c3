//! Tests of the agent through its handlers, on loopback only.

use std::sync::Arc;

use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, CallContext, StatelessPlugin as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::nettest::NettestPlugin;

fn context(system: &FakeSystem, action: &str) -> CallContext {
    let node = TestNode::named("dev1.example.net").unwrap();
    node.context("nettest", action, Arc::new(system.clone())).unwrap()
}

async fn ask(system: &FakeSystem, action: &str, input: Value) -> Result<Value, ActionError> {
    let agent = NettestPlugin::create_agent().unwrap();
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let cx = context(system, action);
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(Value::Object(declared.validate_output(&output).unwrap()))
}

#[tokio::test]
async fn open_and_closed_ports_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let input = json!({"host": "127.0.0.1", "port": address.port()});
    let system = FakeSystem::new();
    let open = ask(&system, "connect", input.clone()).await.unwrap();
    assert_eq!((&open["connected"], &open["address"]), (&json!(true), &json!(address.to_string())));
    drop(listener);
    let closed = ask(&system, "connect", input).await.unwrap();
    assert_eq!((&closed["connected"], &closed["address"]), (&json!(false), &Value::Null));
    assert!(closed["result"].as_str().unwrap().contains("refused"), "{closed}");
    for port in [0, 65536] {
        let input = json!({"host": "127.0.0.1", "port": port});
        let error = ask(&system, "connect", input).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData);
    }
}

#[tokio::test]
async fn name_is_resolved() {
    let system = FakeSystem::new();
    let found = ask(&system, "dns", json!({"name": "localhost"})).await.unwrap();
    let addresses = found["addresses"].as_array().unwrap();
    assert!(addresses.contains(&json!("127.0.0.1")) || addresses.contains(&json!("::1")));
    // An address is returned without a name server.
    let same = ask(&system, "dns", json!({"name": "192.0.2.7"})).await.unwrap();
    assert_eq!(same["addresses"], json!(["192.0.2.7"]));
}

#[tokio::test]
async fn ping_counts_echoes() {
    let system = FakeSystem::new();
    let text = "2 packets transmitted, 2 received, 0% packet loss, time 1ms\nrtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms\n";
    system.script_output(&["ping"], CommandOutput::new(0, text));
    let answer = ask(&system, "ping", json!({"host": "db1", "count": 2})).await;
    assert_eq!(answer.unwrap(), json!({"alive": true, "sent": 2, "received": 2, "rtt": 0.2}));
    assert_eq!(system.recorded_command_lines(), ["ping -n -c 2 -W 2 db1"]);
    system.script_output(
        &["ping"],
        CommandOutput::new(2, "ping: nowhere: Name or service not known\n"),
    );
    let error = ask(&system, "ping", json!({"host": "nowhere"})).await.unwrap_err();
    assert_eq!(error.message, "`ping` ended with code 2: ping: nowhere: Name or service not known");
    let agent = NettestPlugin::create_agent().unwrap();
    let refused = agent.ddl().find_action("ping").unwrap();
    let option = json!({"host": "-f"});
    assert!(refused.validate_input(option.as_object().unwrap()).is_err());
}
