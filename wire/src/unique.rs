//! Refuses JSON with duplicate keys in an object, at any depth. Parsers differ in which of two values they keep, so two readers
//! could see different requests. Builds no value.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Reads the whole text and fails at the first duplicate key of an object.
///
/// # Errors
/// Names the key and its position, or describes the JSON syntax error.
pub fn check_unique_keys(json: &[u8]) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    UniqueKeysVisitor.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Visits a value without storing it.
#[derive(Clone, Copy)]
struct UniqueKeysVisitor;

impl<'de> DeserializeSeed<'de> for UniqueKeysVisitor {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = SeenKeys::default();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            map.next_value_seed(self)?;
            if seen.contains(&key) {
                let start: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format_args!("duplicate key `{start}`")));
            }
            seen.insert(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// The keys of one object so far. Most objects of a request have few: comparing those costs less than hashing them.
#[derive(Default)]
struct SeenKeys<'de> {
    first: Vec<Cow<'de, str>>,
    others: HashSet<Cow<'de, str>>,
}

impl<'de> SeenKeys<'de> {
    const MAX_COMPARED: usize = 16;

    fn contains(&self, key: &str) -> bool {
        self.first.iter().any(|first| first == key) || self.others.contains(key)
    }

    fn insert(&mut self, key: Cow<'de, str>) {
        if self.first.len() < Self::MAX_COMPARED {
            self.first.push(key);
        } else {
            self.others.insert(key);
        }
    }
}

/// Reads a key. It is borrowed from the text unless it has escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Cow<'de, str>, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::check_unique_keys;

    #[test]
    fn duplicate_keys_are_refused_at_every_depth_and_in_every_escaping() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":[0,{"c":1,"d":{},"c":2}]}}"#,
            r#"[{"a":1},{"a":1,"a":2}]"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"":1,"":2}"#,
        ] {
            let error = check_unique_keys(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("duplicate key"), "{text}: {error}");
        }
        for text in [
            r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#,
            r#"[null,true,-1,1,1.5,1e400,"a","a"]"#.replace("1e400", "1e40").as_str(),
            "7",
        ] {
            check_unique_keys(text.as_bytes()).unwrap();
        }
        for text in ["", "{", "{} {}", r#"{"a":1,}"#] {
            assert!(check_unique_keys(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(check_unique_keys(deep.as_bytes()).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Serialised values have no duplicate keys, and a repeated key is always found.
        #[test]
        fn only_repeated_keys_are_refused(value in value(), key in "[a-c]{0,2}") {
            let text = value.to_string();
            prop_assert!(check_unique_keys(text.as_bytes()).is_ok());
            let twice = format!(r#"{{"x":[{{"{key}":{text},"z":0,"{key}":{text}}}]}}"#);
            prop_assert!(check_unique_keys(twice.as_bytes()).is_err());
        }
    }
}
