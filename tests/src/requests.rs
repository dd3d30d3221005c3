//! Requests that tests sign themselves, and the client settings in the files of a user.

use std::path::Path;

use muster_calls::{BrokerAddress, ClientSettings, DiscoveryWindow};
use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::{Request, RequestTarget};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A request without inputs that asks for a reply, issued now and valid for a minute. `names`: collective, agent and action.
pub fn unsigned_request(caller: &Identity, names: [&str; 3], target: RequestTarget) -> Request {
    let [collective, agent, action] = names.map(|name| SubjectName::parse(name).unwrap());
    Request {
        id: Uuid::now_v7(),
        caller: caller.clone(),
        collective,
        agent,
        action,
        target,
        filter: NodeFilter::default(),
        issued_at: crate::now(),
        ttl: 60_000,
        timeout: None,
        reply: true,
        trace: false,
        traceparent: None,
        stream: false,
        approval: None,
        grant: None,
        data: Map::new(),
        sealed: None,
    }
}

/// The settings in `rpc.toml`; its paths are relative to its directory.
pub fn read_client_settings(file: &Path) -> ClientSettings {
    let directory = file.parent().unwrap();
    let table: Value = toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let value = |pointer| table.pointer(pointer).and_then(Value::as_str);
    let path = |pointer, default| directory.join(value(pointer).unwrap_or(default));
    let urls = table.pointer("/broker/urls").and_then(Value::as_array).unwrap();
    let address = |url: &Value| BrokerAddress::parse(url.as_str().unwrap(), false).unwrap();
    ClientSettings {
        servers: urls.iter().map(address).collect(),
        authority: Some(path("/broker/ca", "ca.pem")),
        credentials: path("/broker/credentials", "user.creds"),
        operator: value("/trust/operator").unwrap().to_owned(),
        account: path("/trust/account", "account.jwt"),
        collective: SubjectName::parse(value("/collective").unwrap_or("muster")).unwrap(),
        window: DiscoveryWindow::default(),
    }
}
