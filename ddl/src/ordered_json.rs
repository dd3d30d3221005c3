//! JSON that keeps the order of keys, and refuses an object with a key that stands twice in it.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderedJson {
    /// Null, a boolean, a number or a text.
    Scalar(Value),
    /// An array.
    List(Vec<OrderedJson>),
    /// An object.
    Object(OrderedMap<OrderedJson>),
}

/// The entries of a JSON object, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedMap<T>(pub Vec<(String, T)>);

impl OrderedJson {
    /// The value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// The entries, if this is an object.
    pub fn as_object(&self) -> Option<&OrderedMap<Self>> {
        match self {
            Self::Object(entries) => Some(entries),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }

    /// The items, if this is an array.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Scalar(_) | Self::Object(_) => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(value) => value.as_str(),
            Self::List(_) | Self::Object(_) => None,
        }
    }
}

impl<T> OrderedMap<T> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Serialize for OrderedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::List(items) => items.serialize(serializer),
            Self::Object(entries) => entries.serialize(serializer),
        }
    }
}

impl<T: Serialize> Serialize for OrderedMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
    type Value = OrderedMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of named definitions")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            if !seen.insert(name.clone()) {
                return Err(M::Error::custom(format_args!("`{name}` is declared twice")));
            }
            entries.push((name, value));
        }
        Ok(OrderedMap(entries))
    }
}

impl<'de> Deserialize<'de> for OrderedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = OrderedJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<OrderedJson, E> {
        Ok(OrderedJson::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedJson, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(OrderedJson::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OrderedJson, A::Error> {
        OrderedMap::deserialize(MapAccessDeserializer::new(map)).map(OrderedJson::Object)
    }
}
