//! A released catalog as an agent reads it. Pure.

use serde_json::{Map, Value};

/// Makes the paths of all sources absolute. Stored ones begin in the environment, and an agent refuses those. It reads no content from them, because each
/// source names its content by hash.
pub(crate) fn make_paths_absolute(catalog: &mut Map<String, Value>) {
    values_mut(catalog.get_mut("metadata")).for_each(make_path_absolute);
    for sources in values_mut(catalog.get_mut("recursive_metadata")) {
        let trees = values_mut(Some(sources)).filter_map(Value::as_array_mut);
        trees.flatten().for_each(make_path_absolute);
    }
}

fn make_path_absolute(metadata: &mut Value) {
    if let Some(Value::String(path)) = metadata.get_mut("path")
        && !path.starts_with('/')
    {
        path.insert(0, '/');
    }
}

fn values_mut(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::make_paths_absolute;

    #[test]
    fn paths_of_files_and_trees_become_absolute() {
        let catalog = |start: &str| {
            json!({
                "metadata": {"/etc/motd": {"path": format!("{start}modules/m/files/x")}},
                "recursive_metadata": {"/srv": {"puppet:///modules/m/d": [
                    {"path": format!("{start}modules/m/files/d"), "relative_path": "."},
                ]}},
                "resources": [{"title": "x", "parameters": {"path": "relative"}}],
            })
        };
        let Value::Object(mut found) = catalog("") else { panic!("no object") };
        make_paths_absolute(&mut found);
        assert_eq!(Value::Object(found), catalog("/"));
    }
}
