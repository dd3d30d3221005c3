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

#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum RichDataError {
    #[error("is a hash with a key that has no value")]
    MissingValue,
    #[error(
        "is a deferred call of `{0}`, which only Puppet on the node can evaluate; compute the value during compilation instead"
    )]
    Deferred(String),
    #[error("has the Puppet type `{0}`, which is not supported")]
    UnsupportedType(String),
    #[error("is binary data that is not base64: {0}")]
    InvalidBase64(#[from] data_encoding::DecodeError),
    #[error("is binary data that is not UTF-8; store it in a file and set `source` to its path")]
    NotText,
}

pub(super) fn to_plain_value(value: &Json) -> Result<PlainValue, RichDataError> {
    let mut sensitive = false;
    let value = strip_types(value, &mut sensitive)?;
    Ok(PlainValue { value, sensitive })
}

/// The value without rich data; sets `sensitive` if it contains a secret.
fn strip_types(value: &Json, sensitive: &mut bool) -> Result<Json, RichDataError> {
    let mut plain = |value| strip_types(value, sensitive);
    match value {
        Json::Object(object) if object.contains_key("__ptype") => {
            strip_typed_value(object, sensitive)
        }
        Json::Object(object) => {
            let pairs = object.iter().map(|(key, value)| Ok((key.clone(), plain(value)?)));
            Ok(Json::Object(pairs.collect::<Result<_, RichDataError>>()?))
        }
        Json::Array(values) => Ok(Json::Array(values.iter().map(plain).collect::<Result<_, _>>()?)),
        other => Ok(other.clone()),
    }
}

fn strip_typed_value(
    object: &Map<String, Json>,
    sensitive: &mut bool,
) -> Result<Json, RichDataError> {
    let text = |key| object.get(key).and_then(Json::as_str).unwrap_or("?");
    match (text("__ptype"), object.get("__pvalue")) {
        ("Sensitive", Some(inner)) => {
            *sensitive = true;
            strip_types(inner, sensitive)
        }
        ("Timestamp" | "Timespan" | "Regexp" | "SemVer" | "URI", Some(inner)) => Ok(inner.clone()),
        ("Default", _) => Ok(Json::from("default")),
        ("Binary", Some(Json::String(encoded))) => {
            let bytes = data_encoding::BASE64.decode(encoded.as_bytes())?;
            String::from_utf8(bytes).map(Json::from).map_err(|_| RichDataError::NotText)
        }
        ("Hash", Some(Json::Array(pairs))) => {
            let mut hash = Map::new();
            for pair in pairs.chunks(2) {
                let [key, value] = pair else { return Err(RichDataError::MissingValue) };
                let key = match strip_types(key, sensitive)? {
                    Json::String(key) => key,
                    other => other.to_string(),
                };
                hash.insert(key, strip_types(value, sensitive)?);
            }
            Ok(Json::Object(hash))
        }
        ("Deferred", _) => Err(RichDataError::Deferred(text("name").to_owned())),
        (other, _) => Err(RichDataError::UnsupportedType(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PlainValue, to_plain_value};

    #[test]
    fn sensitive_values_are_unwrapped_and_marked() {
        let value = json!({"a": ["b", {"__ptype": "Sensitive", "__pvalue": "s3cret"}]});
        let expected = PlainValue { value: json!({"a": ["b", "s3cret"]}), sensitive: true };
        assert_eq!(to_plain_value(&value), Ok(expected));
        let secret = json!({"__ptype": "Sensitive", "__pvalue": "s3cret"});
        let hash = json!({"__ptype": "Hash", "__pvalue": [1, secret]});
        let expected = PlainValue { value: json!({"1": "s3cret"}), sensitive: true };
        assert_eq!(to_plain_value(&hash), Ok(expected));
    }

    #[test]
    fn textual_types_become_strings() {
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
    fn deferred_and_invalid_binary_values_are_refused() {
        let deferred = json!({"__ptype": "Deferred", "name": "sprintf", "arguments": []});
        assert!(to_plain_value(&deferred).unwrap_err().to_string().contains("sprintf"));
        assert!(to_plain_value(&json!({"__ptype": "Binary", "__pvalue": "/w=="})).is_err());
    }
}
