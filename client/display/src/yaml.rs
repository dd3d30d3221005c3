//! Renders documents as YAML.

use serde::Serialize;

use crate::printable::escape_unprintable;

/// The document as YAML, without control characters.
pub fn to_yaml(document: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    let text = serde_saphyr::to_string(document)?;
    Ok(escape_unprintable(&text).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn yaml_reads_back_as_the_same_document() {
        let document = json!({
            "nodes": [{"node": "db1", "fields": {"os": "Debian\u{1b}[31m", "on": "no", "text": "a\nb: c", "n": 1.5, "none": null, "list": []}}],
            "stale": 0,
        });
        let text = to_yaml(&document).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), document, "{text}");
    }
}
