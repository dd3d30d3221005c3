//! What the content of a node's record may have, so that one node's record costs an instance of the directory a bounded amount of memory, and what is
//! still read of a record that has more.

use muster_filter::state::{MapField, MapFieldDefinition};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::identity::SubjectName;
use crate::limits::{
    MAX_NAME_BYTES, MAX_RECORD_AGENTS, MAX_RECORD_CLASSES, MAX_RECORD_COLLECTIVES,
};
use crate::node_record::NodeContent;

/// Seconds between two heartbeats of a node that does not say it: the default of the daemon.
const USUAL_HEARTBEAT_SECONDS: u32 = 60;

/// A record has more than the directory keeps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it has {found} {what}; at most {limit} are accepted")]
pub struct RecordBoundError {
    /// What there is too much of.
    pub what: String,
    /// How much there is.
    pub found: usize,
    /// The bound.
    pub limit: usize,
}

impl NodeContent {
    /// Checks the bounds of a record. Nodes check their own, too, to say what to exclude.
    ///
    /// # Errors
    /// Names the first part that exceeds its bound.
    pub fn check_bounds(&self) -> Result<(), RecordBoundError> {
        let versions = [&self.version].into_iter().chain(self.agents.values());
        let longest = versions.chain(self.agents.keys()).map(String::len).max();
        for (what, found, limit) in [
            ("collectives", self.collectives.len(), MAX_RECORD_COLLECTIVES),
            ("agents", self.agents.len(), MAX_RECORD_AGENTS),
            ("bytes in a name or version of an agent", longest.unwrap_or(0), MAX_NAME_BYTES * 2),
            ("classes", self.classes.as_ref().map_or(0, Vec::len), MAX_RECORD_CLASSES),
        ] {
            check_bound(what, found, limit)?;
        }
        for field in MapField::ALL {
            let Some(map) = self.map(field) else { continue };
            let MapFieldDefinition { name, names_text, max_names, max_bytes, .. } =
                field.definition();
            check_bound(names_text, map.len(), *max_names)?;
            check_bound(&format!("bytes of {name}"), map.accounted_bytes(), *max_bytes)?;
        }
        Ok(())
    }

    /// Version and collectives from the beginning of a content that is refused, as far as they can be read and are within the bounds.
    pub(crate) fn head_of(beginning: &[u8]) -> Self {
        let mut head = Self { heartbeat_seconds: USUAL_HEARTBEAT_SECONDS, ..Self::default() };
        // The text ends somewhere: what was read before that is kept.
        let _ =
            serde_json::Deserializer::from_slice(beginning).deserialize_map(HeadVisitor(&mut head));
        head.version.truncate(head.version.floor_char_boundary(MAX_NAME_BYTES));
        head
    }
}

fn check_bound(what: &str, found: usize, limit: usize) -> Result<(), RecordBoundError> {
    if found > limit {
        return Err(RecordBoundError { what: what.to_owned(), found, limit });
    }
    Ok(())
}

/// Reads the names in order, until the text ends.
struct HeadVisitor<'a>(&'a mut NodeContent);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the content of a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "version" => self.0.version = map.next_value()?,
                "collectives" => map.next_value_seed(FirstNames(&mut self.0.collectives))?,
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// Takes the first names of a list, as many as a record may have.
struct FirstNames<'a>(&'a mut Vec<SubjectName>);

impl<'de> DeserializeSeed<'de> for FirstNames<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for FirstNames<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.clear();
        while self.0.len() < MAX_RECORD_COLLECTIVES {
            let Some(name) = list.next_element()? else { return Ok(()) };
            self.0.push(name);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use muster_filter::state::NodeFacts;
    use serde_json::json;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("c{number}")).collect()
    }

    #[test]
    fn each_part_has_a_bound() {
        let collectives =
            |count| names(count).iter().map(|name| SubjectName::parse(name).unwrap()).collect();
        let facts = |value| NodeFacts::from_value(value).unwrap();
        let agents = |count| names(count).into_iter().map(|name| (name, String::new())).collect();
        let none = NodeContent::default;
        assert_eq!(none().check_bounds(), Ok(()));
        let full = NodeContent {
            collectives: collectives(MAX_RECORD_COLLECTIVES),
            classes: Some(names(MAX_RECORD_CLASSES)),
            agents: agents(MAX_RECORD_AGENTS),
            ..none()
        };
        assert_eq!(full.check_bounds(), Ok(()));
        for (content, what) in [
            (
                NodeContent { collectives: collectives(MAX_RECORD_COLLECTIVES + 1), ..none() },
                "collectives",
            ),
            (NodeContent { classes: Some(names(MAX_RECORD_CLASSES + 1)), ..none() }, "classes"),
            (NodeContent { agents: agents(MAX_RECORD_AGENTS + 1), ..none() }, "agents"),
            (NodeContent { version: "1".repeat(129), ..none() }, "bytes in a name"),
        ] {
            let error = content.check_bounds().unwrap_err();
            assert!(error.what.starts_with(what), "{error}");
            assert!(error.to_string().contains(&error.limit.to_string()), "{error}");
        }
        for field in MapField::ALL {
            let MapFieldDefinition { name, names_text, max_names, max_bytes, .. } =
                field.definition();
            let many = names(max_names + 1).into_iter().map(|name| (name, json!(0))).collect();
            let large = facts(json!({"a": "x".repeat(*max_bytes)}));
            for (map, what) in [
                (NodeFacts::from_map(many).unwrap(), (*names_text).to_owned()),
                (large, format!("bytes of {name}")),
            ] {
                assert_eq!(none().with_map(field, map).check_bounds().unwrap_err().what, what);
            }
        }
    }

    #[test]
    fn head_is_read_from_the_beginning_of_a_text_of_any_length() {
        let list = vec!["\"c\""; 100_000].join(",");
        let text = format!("{{\"version\":\"1.2\",\"collectives\":[{list}],\"facts\":{{}}}}");
        for end in [text.len(), 4000] {
            let head = NodeContent::head_of(&text.as_bytes()[..end]);
            assert_eq!((head.version.as_str(), head.collectives.len()), ("1.2", 64), "{end}");
        }
        for text in ["", "{", "[]", "{\"version\":", "{\"collectives\":[1", "\u{0}"] {
            let head = NodeContent::head_of(text.as_bytes());
            assert_eq!((head.version.as_str(), head.collectives.len()), ("", 0), "{text}");
        }
        assert_eq!(NodeContent::head_of(b"{\"collectives\":[\"a\",\"b").collectives.len(), 1);
    }
}
