//! The page that prometheus-nats-exporter serves with `-varz -healthz`, made from the pages of a real nats-server. The program itself is in no
//! package registry that the tests use.
//!
//! What the exporter does, from its source (`collector/collector.go`, `collector/healthz.go`): each number of `/varz` is a gauge, with the names of nested objects
//! joined by `_`; a gauge keeps its last value when the server does not respond, or no longer has the key; the health is absent without a response.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::cluster::get_monitoring;

/// Longest request that is read.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// A running exporter; dropping it closes its port.
#[derive(Debug)]
pub struct NatsExporter {
    address: String,
    running: JoinHandle<()>,
}

impl NatsExporter {
    /// Starts an exporter for the server with this monitoring port.
    pub async fn start(monitoring: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let running = tokio::spawn(async move {
            let mut gauges = BTreeMap::new();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that closes its connection early gets no page.
                let _ = serve_page(stream, monitoring, &mut gauges).await;
            }
        });
        Self { address, running }
    }

    /// The address that Prometheus scrapes.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for NatsExporter {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn serve_page(
    mut stream: TcpStream,
    monitoring: u16,
    gauges: &mut BTreeMap<String, String>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let page = render_page(monitoring, gauges).await;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(format!("{head}{page}").as_bytes()).await
}

async fn render_page(monitoring: u16, gauges: &mut BTreeMap<String, String>) -> String {
    if let Some(values) = read_page(monitoring, "/varz").await {
        add_numbers(&values, "", gauges);
    }
    let server = format!("http://127.0.0.1:{monitoring}");
    let mut page = String::new();
    let mut add_gauge = |name: &str, value: &str| {
        writeln!(page, "# TYPE {name} gauge\n{name}{{server_id=\"{server}\"}} {value}").unwrap();
    };
    for (name, value) in gauges {
        add_gauge(&format!("gnatsd_varz_{name}"), value);
    }
    if let Some(health) = read_page(monitoring, "/healthz").await {
        let is_healthy = health.get("status").and_then(Value::as_str) == Some("ok");
        let value = if is_healthy { "0" } else { "1" };
        add_gauge("gnatsd_healthz_status", value);
    }
    page
}

/// A page of the server, whatever its status; `None` without a response.
async fn read_page(monitoring: u16, path: &str) -> Option<Map<String, Value>> {
    let answer = get_monitoring(monitoring, path).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

fn add_numbers(values: &Map<String, Value>, prefix: &str, gauges: &mut BTreeMap<String, String>) {
    for (key, value) in values {
        let name = join_names(prefix, key);
        match value {
            Value::Number(number) => {
                gauges.insert(name, number.to_string());
            }
            Value::Object(inner) => add_numbers(inner, &name, gauges),
            _ => {}
        }
    }
}

/// The name of a nested value: a slash becomes an underscore, and several become one.
fn join_names(prefix: &str, key: &str) -> String {
    let joined = format!("{prefix}_{key}").replace('/', "_");
    let parts: Vec<&str> = joined.split('_').filter(|part| !part.is_empty()).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::add_numbers;

    #[test]
    fn numbers_are_named_as_by_the_exporter_and_stay_without_their_key() {
        let mut gauges = BTreeMap::new();
        let page = json!({"mem": 5, "jetstream": {"config": {"max_storage": 7}}, "http_req_stats": {"/varz": 2}, "version": "2"});
        add_numbers(page.as_object().unwrap(), "", &mut gauges);
        add_numbers(json!({"mem": 6}).as_object().unwrap(), "", &mut gauges);
        let expected =
            [("http_req_stats_varz", "2"), ("jetstream_config_max_storage", "7"), ("mem", "6")];
        assert_eq!(
            gauges,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        );
    }
}
