//! The JSON form of filters in requests:
//!
//! ```json
//! {"fact":[{"fact":"os.family","operator":"==","value":"Debian"}],
//!  "class":["apache","/^role::/"],"agent":["puppetral"],"identity":["db1.acme.net","/^web/"],
//!  "select":"country==uk or not apache","query":"{\"facts.customer\":\"acme\"}"}
//! ```
//!
//! A kind without conditions is omitted. An empty list, null, an unknown key, or a list in place of an object is an error, so
//! that a malformed request or a newer sender cannot select more nodes than intended.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ast::{MAX_FILTER_ELEMENTS, NodeFilter};
use super::document::DocumentQuery;
use super::error::FaultContext as _;
use super::pattern::FilterPattern;
use super::select::SelectExpression;
use super::term::{FactOperator, FactTerm};

/// The decoded form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterDocument {
    #[serde(default, deserialize_with = "deserialize_elements")]
    fact: Vec<FactTerm>,
    #[serde(default, deserialize_with = "deserialize_elements")]
    class: Vec<FilterPattern>,
    #[serde(default, deserialize_with = "deserialize_elements")]
    agent: Vec<FilterPattern>,
    #[serde(default, deserialize_with = "deserialize_elements")]
    identity: Vec<FilterPattern>,
    #[serde(default, deserialize_with = "deserialize_select")]
    select: Option<SelectExpression>,
    #[serde(default, deserialize_with = "deserialize_query")]
    query: Option<DocumentQuery>,
}

/// The parts of a fact term.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactTermDocument {
    fact: String,
    operator: FactOperator,
    value: String,
}

impl<'de> Deserialize<'de> for NodeFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let FilterDocument { fact, class, agent, identity, select, query } =
            deserialize_object(deserializer)?;
        let classes = class.into_iter().map(|pattern| {
            let text = pattern.to_string();
            pattern.ignoring_case().within_text(&text).map_err(Error::custom)
        });
        let filter = Self {
            facts: fact,
            classes: classes.collect::<Result<_, _>>()?,
            agents: agent,
            identities: identity,
            select: select.map(Box::new),
            query: query.map(Box::new),
        };
        filter.check_limits("").map_err(Error::custom)
    }
}

impl Serialize for FactTerm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fact = self.fact_path().as_str().to_owned();
        FactTermDocument { fact, operator: self.operator(), value: self.value_text() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FactTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let FactTermDocument { fact, operator, value } = deserialize_object(deserializer)?;
        Self::new(&fact, operator, &value).map_err(Error::custom)
    }
}

impl Serialize for FilterPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FilterPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_part(&text).map_err(|fault| Error::custom(fault.into_filter_error(&text)))
    }
}

impl Serialize for SelectExpression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SelectExpression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(Error::custom)
    }
}

impl Serialize for DocumentQuery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DocumentQuery {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(Error::custom)
    }
}

/// Refuses null, and queries that every node matches: a sender omits these.
fn deserialize_query<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DocumentQuery>, D::Error> {
    let query = DocumentQuery::deserialize(deserializer)?;
    if query.is_unconditional() {
        return Err(Error::custom("expected a query with a condition"));
    }
    Ok(Some(query))
}

/// Refuses null, which is not the absence of an expression.
fn deserialize_select<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SelectExpression>, D::Error> {
    SelectExpression::deserialize(deserializer).map(Some)
}

/// Refuses lists: derived structs also accept their fields as a list, so `[]` would decode as the empty filter.
fn deserialize_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// Decodes a non-empty list. It stops at the element limit, because each element costs a regex compilation.
fn deserialize_elements<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct ElementListVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ElementListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "a list of 1 to {MAX_FILTER_ELEMENTS} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = seq.next_element()? {
                elements.push(element);
                if elements.len() > MAX_FILTER_ELEMENTS {
                    return Err(Error::invalid_length(elements.len(), &self));
                }
            }
            if elements.is_empty() {
                return Err(Error::invalid_length(0, &self));
            }
            Ok(elements)
        }
    }

    deserializer.deserialize_seq(ElementListVisitor(PhantomData))
}

#[cfg(test)]
mod tests {
    use crate::NodeFilter;

    fn decode(text: &str) -> Result<NodeFilter, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn wire_format_is_stable() {
        let filter = NodeFilter::default()
            .with_words("os.family=Debian kernel!=/^4/i apache /^role::/")
            .and_then(|filter| filter.with_agent("puppetral"))
            .and_then(|filter| filter.with_identity("DB1.acme.net"))
            .and_then(|filter| filter.with_identity("/^web/"))
            .and_then(|filter| filter.with_select("Country = uk || !(Apache)"))
            .and_then(|filter| filter.with_query("{ facts.a: /b/i, classes: ['x'], }"))
            .and_then(|filter| filter.with_loose_query("{ facts.n: 1 }"))
            .unwrap();
        let wire = concat!(
            r#"{"fact":[{"fact":"os.family","operator":"==","value":"Debian"},"#,
            r#"{"fact":"kernel","operator":"!~","value":"/^4/i"}],"#,
            r#""class":["apache","/^role::/"],"agent":["puppetral"],"#,
            r#""identity":["db1.acme.net","/^web/"],"#,
            r#""select":"Country==uk or not apache","#,
            r#""query":"{\"$and\":[{\"facts.a\":/b/i,\"classes\":[\"x\"]},"#,
            r#"{\"$loose\":{\"facts.n\":1}}]}"}"#,
        );
        assert_eq!(serde_json::to_string(&filter).unwrap(), wire);
        assert_eq!(decode(wire).unwrap(), filter);
        assert_eq!(serde_json::to_string(&NodeFilter::default()).unwrap(), "{}");
        assert_eq!(decode("{}").unwrap(), NodeFilter::default());
    }

    #[test]
    fn invalid_filters_are_refused() {
        for (text, why) in [
            ("", "EOF"),
            ("null", "an object"),
            ("[]", "an object"),
            ("\"\"", "an object"),
            (r#"[[],["a"]]"#, "an object"),
            (r#"{"classes":["a"]}"#, "unknown field"),
            (r#"{"class":["a"],"collective":"x"}"#, "unknown field"),
            (r#"{"class":["a"],"class":["b"]}"#, "duplicate field"),
            (r#"{"class":[]}"#, "a list of 1 to 64"),
            (r#"{"class":null}"#, "a list of 1 to 64"),
            (r#"{"class":"a"}"#, "a list of 1 to 64"),
            (r#"{"class":[""]}"#, "not an empty string"),
            (r#"{"class":["a",""]}"#, "not an empty string"),
            (r#"{"class":[" "]}"#, "without spaces"),
            (r#"{"agent":["//"]}"#, "not empty"),
            (r#"{"identity":["/(/"]}"#, "valid regular"),
            (r#"{"identity":["/\\w{500}/"]}"#, "smaller"),
            (r#"{"identity":[null]}"#, "a string"),
            (r#"{"select":null}"#, "a string"),
            (r#"{"select":["a"]}"#, "a string"),
            (r#"{"select":""}"#, "a condition"),
            (r#"{"select":"a and"}"#, "a condition"),
            (r#"{"select":"puppet(x).enabled=true"}"#, "a string in quotes"),
            (r#"{"query":null}"#, "a string"),
            (r#"{"query":{"identity":"a"}}"#, "a string"),
            (r#"{"query":""}"#, "a value"),
            (r#"{"query":"{}"}"#, "a query with a condition"),
            (r#"{"query":"{$or: [{}, {identity: a}]}"}"#, "a query with a condition"),
            (r#"{"query":"{identity: }"}"#, "a value"),
            (r#"{"query":"{$where: 'x'}"}"#, "no code"),
            (r#"{"fact":[{}]}"#, "missing field"),
            (r#"{"fact":[["a","==","b"]]}"#, "an object"),
            (r#"{"fact":["a=b"]}"#, "an object"),
            (r#"{"fact":[{"fact":"","operator":"==","value":"b"}]}"#, "the name of a fact"),
            (r#"{"fact":[{"fact":"a","operator":"==","value":""}]}"#, "not empty"),
            (r#"{"fact":[{"fact":"a","operator":"=","value":"b"}]}"#, "unknown variant"),
            (r#"{"fact":[{"fact":"a","operator":"=~","value":"b"}]}"#, "between slashes"),
            (r#"{"fact":[{"fact":"a","operator":"==","value":1}]}"#, "a string"),
            (r#"{"fact":[{"fact":"a","operator":"==","value":"b","x":1}]}"#, "unknown field"),
        ] {
            let error = decode(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let many = |count: usize| format!(r#"{{"class":[{}]}}"#, vec!["\"a\""; count].join(","));
        assert!(decode(&many(64)).is_ok());
        assert!(decode(&many(65)).is_err());
    }
}
