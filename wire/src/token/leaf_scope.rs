//! The permissions of leaf nodes, and the names of the nodes behind one.

use std::fmt;
use std::str::FromStr;

use super::claims::PermissionTemplate;
use super::scope::{USER_KEY_PLACEHOLDER, USER_NAME_PLACEHOLDER, UserRole, allow_only};
use crate::identity::{Identity, NameError, SubjectName};
use crate::{stores, subject};

/// Name of the leaf nodes' signing key in the fleet's account token. It is no [`UserRole`], as that of the administrators.
pub const LEAF_ROLE: &str = "leaf";

/// Roles whose users may connect behind a leaf node.
const ROLES_BEHIND_LEAFS: [UserRole; 2] = [UserRole::Node, UserRole::Caller];

/// The names of the nodes in the tags of a leaf node.
const NODES_PLACEHOLDER: &str = "{{tag(nodes)}}";

/// Names of nodes behind a leaf node, as in `*.berlin.acme.net`: `*` stands for one part between dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafNodePattern(String);

impl LeafNodePattern {
    /// Nodes of any name.
    pub fn any() -> Self {
        Self(">".to_owned())
    }

    /// The value of the tag in the scope of leaf nodes.
    pub fn to_tag(&self) -> String {
        format!("nodes:{self}")
    }
}

impl fmt::Display for LeafNodePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LeafNodePattern {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = text.split('.').map(|part| if part == "*" { "x" } else { part });
        Identity::parse(&parts.collect::<Vec<_>>().join("."))?;
        Ok(Self(text.trim_end_matches('.').to_ascii_lowercase()))
    }
}

/// The broker permissions of leaf nodes: the union of what nodes and callers of any name may publish and subscribe, but writes of nodes' records and
/// permits for the names in the leaf's tags only. The leaf's own server restricts each of its users further. The permissions are those of one connection for
/// many users, so a leaf node may publish and subscribe the same subject. The credentials are valid for leaf connections only.
pub fn leaf_template(collectives: &[SubjectName]) -> PermissionTemplate {
    let templates = ROLES_BEHIND_LEAFS.map(|role| role.permission_template(collectives));
    let [publish, subscribe] = [
        |template: &PermissionTemplate| template.publish.allow.clone(),
        |template: &PermissionTemplate| template.subscribe.allow.clone(),
    ]
    .map(|lines| {
        let lines = templates.iter().flat_map(lines);
        let mut patterns: Vec<String> = lines.map(|line| leaf_pattern(&line)).collect();
        patterns.sort();
        patterns.dedup();
        // The leaf's own server confirms.
        patterns.retain(|pattern| pattern != subject::CONFIRM_SUBJECT);
        patterns
    });
    let mut rest = serde_json::Map::new();
    rest.insert("allowed_connection_types".to_owned(), serde_json::json!(["LEAFNODE"]));
    PermissionTemplate {
        publish: allow_only(publish),
        subscribe: allow_only(subscribe),
        resp: None,
        subs: -1,
        data: -1,
        payload: -1,
        rest,
    }
}

/// A scope line for users of any name, key and tag. A name has several tokens and is always at the end.
///
/// The broker announces the imports of the stores to a leaf node whatever its permission, so writes of a node's keys need not be widened. It announces
/// other subscriptions only if the permission covers all of them, so answers, and reads of keys, are those of all names.
fn leaf_pattern(line: &str) -> String {
    for store in [stores::NODES_BUCKET, stores::PERMITS_BUCKET] {
        if line.starts_with(&subject::bucket_key(store.name, "")) {
            return line.replace(USER_NAME_PLACEHOLDER, NODES_PLACEHOLDER);
        }
    }
    for store in stores::ALL_BUCKETS.map(|store| store.name) {
        let buckets = [subject::bucket_key(store, ""), subject::bucket_get(store, "")];
        // The subject of reads is `$JS.API.DIRECT.GET.KV_NAME.$KV.NAME.KEY`, and the subscription `$JS.API.DIRECT.GET.KV_NAME.>`.
        let patterns = [subject::bucket_key(store, ">"), subject::bucket_list(store) + ".>"];
        for (bucket, pattern) in buckets.into_iter().zip(patterns) {
            if line.starts_with(&bucket) {
                return pattern;
            }
        }
    }
    line.replace(USER_NAME_PLACEHOLDER, ">")
        .replace(USER_KEY_PLACEHOLDER, "*")
        .replace("{{tag(agent)}}", "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_with_wildcards_for_whole_parts() {
        for (text, tag) in [
            ("*.berlin.acme.net", "nodes:*.berlin.acme.net"),
            ("Web1.acme.net", "nodes:web1.acme.net"),
            ("*", "nodes:*"),
            ("db.*.acme.net", "nodes:db.*.acme.net"),
        ] {
            assert_eq!(text.parse::<LeafNodePattern>().unwrap().to_tag(), tag);
        }
        for text in ["", ">", "acme.>", "web*.acme.net", "a..b", "a b", "{{name()}}", "*.>", "$x"] {
            assert!(text.parse::<LeafNodePattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_records_and_permits_of_named_nodes_are_written() {
        let template = leaf_template(&[SubjectName::parse("muster").unwrap()]);
        let writes = |bucket: &str| -> Vec<String> {
            let lines = template.publish.allow.iter();
            lines.filter(|line| line.starts_with(&format!("$KV.{bucket}."))).cloned().collect()
        };
        assert_eq!(writes("NODES"), ["$KV.NODES.{{tag(nodes)}}"]);
        let permits = writes("PERMITS");
        assert_eq!(permits.len(), 12);
        assert!(permits.iter().all(|line| line.ends_with(".{{tag(nodes)}}")), "{permits:?}");
    }
}
