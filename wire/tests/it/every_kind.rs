//! What is claimed of messages in general, tried with messages of every kind.

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

/// Every byte of every kind: protocol, token, signature, body, and the JSON around them.
#[test]
fn no_byte_of_any_kind_can_be_changed() {
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

/// Whatever the roles of sender and receiver are: the name of the kind is part of what is signed.
#[test]
fn no_kind_is_ever_taken_for_another() {
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
fn every_kind_meets_its_size_limit_before_a_parser() {
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
fn every_kind_refuses_fields_that_come_twice_and_deep_nesting() {
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

/// A JSON value of any shape that a sender might put in place of another.
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

/// The pointers to all values within this one, itself included.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (number, inner) in list.iter().enumerate() {
                pointers(inner, &format!("{at}/{number}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A sender whose signature is good may say anything: every parser behind the signature accepts it or refuses it.
    #[test]
    fn a_well_signed_body_of_any_shape_panics_nowhere(
        kind in prop::sample::select(kinds()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let samples = Samples::new();
        let mut body = samples.body(kind);
        for (place, value) in changes {
            let mut found = Vec::new();
            pointers(&body, "", &mut found);
            let pointer = place.get::<String>(&found);
            *body.pointer_mut(pointer).unwrap() = value;
        }
        // A body above the kind's limit is not sealed; that is a refusal too.
        if let Ok(bytes) = sign_envelope(kind, &body, &samples.signer(kind)) {
            let _ = samples.open(kind, &bytes);
        }
    }

    /// Bytes of no sender: cut, doubled, overwritten.
    #[test]
    fn mangled_bytes_of_any_kind_are_refused_and_panic_nowhere(
        kind in prop::sample::select(kinds()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..6), 0..4_usize), 1..5),
    ) {
        let samples = Samples::new();
        let bytes = samples.sealed(kind);
        let mut mangled = bytes.clone();
        for (place, with, remove) in edits {
            let from = place.index(mangled.len().max(1)).min(mangled.len());
            let to = (from + remove).min(mangled.len());
            mangled.splice(from..to, with);
        }
        let opened = samples.open(kind, &mangled);
        prop_assert!(opened.is_err() || same_message(&bytes, &mangled), "{:?}", kind);
        for other in kinds() {
            let _ = samples.open(other, &mangled);
        }
    }
}

/// Whether both say the same under the same signature. White space outside the body is not signed, and means nothing.
fn same_message(one: &[u8], other: &[u8]) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    read(one) == read(other)
}
