//! Puppet's rich data: values that JSON cannot represent, written as objects with `__ptype`.
//!
//! Values with a textual form become strings. Values that only Puppet can evaluate are rejected.

use serde_json::{Map, Value as Json};

/// A value without rich data, and whether it contains a secret.
#[derive(Debug, PartialEq)]
pub(super) struct PlainValue {
    pub(super) value: Json,
    pub(super) sensitive: bool,
}

/// Converts rich data to plain values. The error names the unsupported kind.
pub(super) fn to_plain_value(value: &Json) -> Result<PlainValue, String> {
    match value {
        Json::Object(object) if object.contains_key("__ptype") => unwrap_typed_value(object),
        Json::Object(object) => {
            let mut sensitive = false;
            let mut plain_object = Map::new();
            for (key, value) in object {
                let plain = to_plain_value(value)?;
                sensitive |= plain.sensitive;
                plain_object.insert(key.clone(), plain.value);
            }
            Ok(PlainValue { value: Json::Object(plain_object), sensitive })
        }
        Json::Array(values) => {
            let plain: Vec<PlainValue> =
                values.iter().map(to_plain_value).collect::<Result<_, _>>()?;
            Ok(PlainValue {
                sensitive: plain.iter().any(|plain| plain.sensitive),
                value: Json::Array(plain.into_iter().map(|plain| plain.value).collect()),
            })
        }
        other => Ok(PlainValue { value: other.clone(), sensitive: false }),
    }
}

fn unwrap_typed_value(object: &Map<String, Json>) -> Result<PlainValue, String> {
    let name = object.get("__ptype").and_then(Json::as_str).unwrap_or("?");
    let inner = object.get("__pvalue");
    let plain = |value: Json| PlainValue { value, sensitive: false };
    match (name, inner) {
        ("Sensitive", Some(inner)) => Ok(PlainValue { sensitive: true, ..to_plain_value(inner)? }),
        ("Timestamp" | "Timespan" | "Regexp" | "SemVer" | "URI", Some(inner)) => {
            Ok(plain(inner.clone()))
        }
        ("Default", _) => Ok(plain(Json::from("default"))),
        ("Binary", Some(Json::String(encoded))) => decode_binary(encoded).map(plain),
        ("Hash", Some(Json::Array(pairs))) => {
            let mut hash = Map::new();
            for pair in pairs.chunks(2) {
                let [key, value] = pair else {
                    return Err("is a hash with a key that has no value".to_owned());
                };
                let key = match to_plain_value(key)?.value {
                    Json::String(key) => key,
                    other => other.to_string(),
                };
                hash.insert(key, to_plain_value(value)?.value);
            }
            Ok(plain(Json::Object(hash)))
        }
        ("Deferred", _) => {
            let function = object.get("name").and_then(Json::as_str).unwrap_or("?");
            Err(format!(
                "is a deferred call of `{function}`, which only Puppet on the node can evaluate; compute the value during compilation instead"
            ))
        }
        (other, _) => Err(format!("has the Puppet type `{other}`, which is not supported")),
    }
}

fn decode_binary(encoded: &str) -> Result<Json, String> {
    let bytes = data_encoding::BASE64
        .decode(encoded.as_bytes())
        .map_err(|error| format!("is binary data that is not base64: {error}"))?;
    String::from_utf8(bytes).map(Json::from).map_err(|_| {
        "is binary data that is not UTF-8; store it in a file and set `source` to its path"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PlainValue, to_plain_value};

    #[test]
    fn secrets_are_unwrapped_and_told() {
        let value = json!({"a": ["b", {"__ptype": "Sensitive", "__pvalue": "s3cret"}]});
        let expected = PlainValue { value: json!({"a": ["b", "s3cret"]}), sensitive: true };
        assert_eq!(to_plain_value(&value), Ok(expected));
    }

    #[test]
    fn what_is_text_becomes_text() {
        let value = json!([
            {"__ptype": "Timestamp", "__pvalue": "2024-01-01T00:00:00.000000000 UTC"},
            {"__ptype": "Binary", "__pvalue": "YWJj"},
            {"__ptype": "Default"},
            {"__ptype": "Hash", "__pvalue": [1, "one"]},
        ]);
        let plain = to_plain_value(&value).expect("plain");
        let expected = json!(["2024-01-01T00:00:00.000000000 UTC", "abc", "default", {"1": "one"}]);
        assert_eq!(plain.value, expected);
    }

    #[test]
    fn what_must_be_computed_is_refused() {
        let deferred = json!({"__ptype": "Deferred", "name": "sprintf", "arguments": []});
        assert!(to_plain_value(&deferred).unwrap_err().contains("sprintf"));
        assert!(to_plain_value(&json!({"__ptype": "Binary", "__pvalue": "/w=="})).is_err());
    }
}
