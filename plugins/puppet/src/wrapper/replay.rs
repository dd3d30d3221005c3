//! Builds a replay catalog: the same catalog with one more resource that notifies the targets of owed refreshes.
//!
//! Puppet does the rest: dependencies, schedules and noop apply to these refreshes as to any other.

use serde_json::{Map, Value, json};

const REPLAY_TITLE: &str = "Refreshes that earlier runs owe";

pub fn replay_reference() -> String {
    format!("Notify[{REPLAY_TITLE}]")
}

/// Adds the replay resource, after removing that of an earlier replay. `None` if this is not a catalog.
pub fn add_replay_resource(mut catalog: Value, targets: &[String]) -> Option<Value> {
    let map = catalog.as_object_mut()?;
    let is_ours = |resource: &Value| {
        let field = |name: &str| resource.get(name).and_then(Value::as_str);
        field("type") == Some("Notify") && field("title") == Some(REPLAY_TITLE)
    };
    let resources = map.get_mut("resources")?.as_array_mut()?;
    resources.retain(|resource| !is_ours(resource));
    let container = resources.iter().find_map(main_class);
    resources.push(json!({
        "type": "Notify", "title": REPLAY_TITLE, "kind": "compilable_type", "exported": false,
        "tags": ["notify", "muster"],
        "parameters": {"message": replay_message(targets), "loglevel": "info", "notify": targets},
    }));
    add_containment(map, container.as_deref());
    Some(catalog)
}

fn replay_message(targets: &[String]) -> String {
    format!("refreshes pending since earlier runs: {}", targets.join(", "))
}

fn main_class(resource: &Value) -> Option<String> {
    let title = resource.get("title")?.as_str()?;
    let is_main = resource.get("type")?.as_str()? == "Class" && title.eq_ignore_ascii_case("main");
    is_main.then(|| format!("Class[{title}]"))
}

/// Adds the resource to a container; otherwise it would be outside of every stage.
fn add_containment(catalog: &mut Map<String, Value>, container: Option<&str>) {
    let reference = replay_reference();
    let edges = catalog.entry("edges").or_insert_with(|| json!([]));
    let Some(edges) = edges.as_array_mut() else { return };
    edges.retain(|edge| edge.get("target").and_then(Value::as_str) != Some(reference.as_str()));
    if let Some(container) = container {
        edges.push(json!({"source": container, "target": reference}));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{add_replay_resource, replay_reference};

    #[test]
    fn replay_resource_is_added_only_once() {
        let catalog = json!({"name": "n1", "resources": [{"type": "Class", "title": "main"}, {"type": "Exec", "title": "Y"}]});
        let once = add_replay_resource(catalog, &["Exec[Y]".to_owned()]).unwrap();
        assert_eq!(once["resources"][2]["parameters"]["notify"], json!(["Exec[Y]"]));
        assert_eq!(once["resources"][2]["kind"], "compilable_type");
        assert_eq!(once["edges"], json!([{"source": "Class[main]", "target": replay_reference()}]));
        let twice = add_replay_resource(once, &["Exec[Z]".to_owned()]).unwrap();
        assert_eq!(twice["resources"].as_array().unwrap().len(), 3);
        assert_eq!(twice["edges"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn documents_that_are_not_catalogs_are_ignored() {
        for document in [Value::Null, json!([]), json!({}), json!({"resources": 1})] {
            assert_eq!(add_replay_resource(document, &[]), None);
        }
    }
}
