//! Properties of all messages, tested with every message kind.

use muster_wire::sign::{Envelope, MessageRefusal, sign_envelope};
use muster_wire::token::{TokenCache, UserRole};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::samples::{Samples, kinds};
use crate::world::NOW;

#[test]
fn every_kind_has_an_authentic_sample() {
    let samples = Samples::new();
    for kind in kinds() {
        assert_eq!(samples.open(kind, &samples.sealed(kind)), Ok(()), "{kind:?}");
    }
}

/// Every byte of the protocol, the token, the signature, the body, and the JSON around them.
#[test]
fn changed_or_truncated_message_of_any_kind_is_refused() {
    let samples = Samples::new();
    for kind in kinds() {
        let bytes = samples.sealed(kind);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 7);
            assert!(samples.open(kind, &changed).is_err(), "{kind:?}, byte {at}");
        }
        for length in 0..bytes.len() {
            let cut = samples.open(kind, &bytes[..length]);
            assert!(cut.is_err(), "{kind:?}, cut at {length}");
        }
    }
}

/// The protocol name is part of the signed bytes, so this holds for all roles of sender and receiver.
#[test]
fn message_of_one_kind_is_refused_as_any_other_kind() {
    let samples = Samples::new();
    let (fleet, newcomers) = (&samples.place.fleet.trust, &samples.place.newcomers);
    for sealed in kinds() {
        let bytes = samples.sealed(sealed);
        let text = String::from_utf8(bytes.clone()).unwrap();
        for read in kinds() {
            let same = read == sealed;
            assert_eq!(samples.open(read, &bytes).is_ok(), same, "{sealed:?} as {read:?}");
            let renamed = text.replacen(sealed.protocol_name(), read.protocol_name(), 1);
            let opened = samples.open(read, renamed.as_bytes());
            assert_eq!(opened.is_ok(), same, "{sealed:?} renamed to {read:?}");
            let envelope = Envelope::decode(read, renamed.as_bytes()).unwrap();
            let cache = TokenCache::default();
            let verified = [fleet, newcomers]
                .map(|trust| envelope.verify(trust, &cache, NOW, &UserRole::ALL).is_ok());
            assert_eq!(verified.contains(&true), same, "{sealed:?} renamed to {read:?}");
        }
    }
}

#[test]
fn size_limit_of_every_kind_is_checked_before_parsing() {
    for kind in kinds() {
        let decode = |length: usize| Envelope::decode(kind, &vec![b'['; length]).unwrap_err();
        assert!(matches!(decode(kind.max_bytes()), MessageRefusal::Malformed(_)), "{kind:?}");
        let limit = kind.max_bytes();
        assert!(
            matches!(decode(limit + 1), MessageRefusal::Oversized { length, limit: at } if (length, at) == (limit + 1, limit)),
            "{kind:?}"
        );
    }
}

#[test]
fn every_kind_refuses_duplicate_fields_and_deep_nesting() {
    let samples = Samples::new();
    for kind in kinds() {
        let text = String::from_utf8(samples.sealed(kind)).unwrap();
        for field in ["protocol", "token", "signature", "body"] {
            let message: Map<String, Value> = serde_json::from_str(&text).unwrap();
            let twice = text.replacen('{', &format!("{{\"{field}\":{},", message[field]), 1);
            assert!(samples.open(kind, twice.as_bytes()).is_err(), "{kind:?}: {field}");
        }
        let more = text.replacen('{', "{\"more\":1,", 1);
        assert!(samples.open(kind, more.as_bytes()).is_err(), "{kind:?}");
        for depth in [200, kind.max_bytes() / 4] {
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let raw = serde_json::value::RawValue::from_string(deep).unwrap();
            let bytes = sign_envelope(kind, &raw, &samples.signer(kind)).unwrap();
            assert!(samples.open(kind, &bytes).is_err(), "{kind:?}: {depth}");
        }
    }
}

/// An arbitrary JSON value that replaces another one.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,30}".prop_map(Value::from),
        "[a-z0-9.*>/ -]{0,30}".prop_map(Value::from),
        Just(json!("x".repeat(70_000))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,9}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Collects the JSON pointers of this value and of all values within it.
fn collect_pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect_pointers(inner, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (number, inner) in list.iter().enumerate() {
                collect_pointers(inner, &format!("{at}/{number}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A valid signature does not imply a valid body: every parser behind the verification accepts or refuses it without a panic.
    #[test]
    fn correctly_signed_body_of_any_shape_does_not_panic(
        kind in prop::sample::select(kinds()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let samples = Samples::new();
        let mut body = samples.body(kind);
        for (position, value) in changes {
            let mut found = Vec::new();
            collect_pointers(&body, "", &mut found);
            let pointer = position.get::<String>(&found);
            *body.pointer_mut(pointer).unwrap() = value;
        }
        // A body above the size limit of its kind is not signed.
        if let Ok(bytes) = sign_envelope(kind, &body, &samples.signer(kind)) {
            let _ = samples.open(kind, &bytes);
        }
    }

    /// Messages with removed, inserted and overwritten bytes.
    #[test]
    fn mangled_message_of_any_kind_is_refused_without_panic(
        kind in prop::sample::select(kinds()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..6), 0..4_usize), 1..5),
    ) {
        let samples = Samples::new();
        let bytes = samples.sealed(kind);
        let mut mangled = bytes.clone();
        for (position, with, remove) in edits {
            let from = position.index(mangled.len().max(1)).min(mangled.len());
            let to = (from + remove).min(mangled.len());
            mangled.splice(from..to, with);
        }
        let opened = samples.open(kind, &mangled);
        prop_assert!(opened.is_err() || parses_equal(&bytes, &mangled), "{:?}", kind);
        for other in kinds() {
            let _ = samples.open(other, &mangled);
        }
    }
}

/// Whether both messages parse to equal JSON. White space outside the body is not signed.
fn parses_equal(one: &[u8], other: &[u8]) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    read(one) == read(other)
}
