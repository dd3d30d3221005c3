//! The figures of a `PuppetDB` that tools show: how many nodes and resources there are.

use serde_json::{Map, Value, json};

use super::sources::QuerySources;

const POPULATION: &str = "puppetlabs.puppetdb.population";
const NAMES: [&str; 3] = ["num-nodes", "num-resources", "avg-resources-per-node"];

impl QuerySources {
    /// `/metrics/v2/read/NAME` and `/metrics/v2/list`, in the form of Jolokia, which has errors in the document.
    pub(super) fn metrics_v2(&self, path: &[&str]) -> Option<Value> {
        let timestamp = muster_base::unix_millis_now() / 1000;
        match path {
            [] | ["version"] => Some(json!({
                "request": {"type": "version"}, "value": {"agent": "muster", "protocol": "7.2"},
                "timestamp": timestamp, "status": 200,
            })),
            ["list"] => {
                let names =
                    NAMES.map(|name| (format!("name={name}"), json!({"attr": {"Value": {}}})));
                let names: Map<String, Value> = names.into_iter().collect();
                Some(json!({
                    "request": {"type": "list"}, "value": {POPULATION: names},
                    "timestamp": timestamp, "status": 200,
                }))
            }
            ["read", names @ ..] => {
                let name = names.join("/");
                let request = json!({"mbean": name, "type": "read"});
                Some(match self.metric(&name) {
                    Some(value) => json!({
                        "request": request, "value": value, "timestamp": timestamp, "status": 200,
                    }),
                    None => json!({
                        "request": request, "error": format!("no metric {name}"), "status": 404,
                    }),
                })
            }
            _ => None,
        }
    }

    /// `/metrics/v1/mbeans` and `/metrics/v1/mbeans/NAME`.
    pub(super) fn metrics_v1(&self, path: &[&str]) -> Option<Value> {
        match path {
            [] => {
                let names = NAMES.map(|name| format!("{POPULATION}:name={name}"));
                let links =
                    names.map(|name| (name.clone(), format!("/metrics/v1/mbeans/{name}").into()));
                Some(Value::Object(links.into_iter().collect()))
            }
            names => self.metric(&names.join("/")),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an average is not exact")]
    fn metric(&self, name: &str) -> Option<Value> {
        let name = name.strip_prefix(POPULATION)?.strip_prefix(":name=")?;
        let nodes = self.directory.record_times().unwrap_or_default().len() as u64;
        let summaries = self.catalogs.as_ref().map(|known| known.summaries()).unwrap_or_default();
        let resources: u64 = summaries.values().map(|summary| summary.resources).sum();
        let value: Value = match name {
            "num-nodes" => nodes.into(),
            "num-resources" => resources.into(),
            "avg-resources-per-node" if nodes == 0 => 0.into(),
            "avg-resources-per-node" => (resources as f64 / nodes as f64).into(),
            _ => return None,
        };
        Some(json!({"Value": value}))
    }
}
