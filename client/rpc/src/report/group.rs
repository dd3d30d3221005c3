//! Groups equal replies with their nodes. Failures come first, then the smallest groups, because rare replies are usually the relevant ones.

use std::collections::BTreeMap;

use muster_client::NodeReply;
use muster_display::columns::wrap_words;
use muster_display::page::TextPage;
use muster_display::ranges::shorten_to_ranges;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use serde_json::json;

/// Maximum lines for the nodes of a group, unless all are requested.
const MAX_NODE_LINES: usize = 5;

#[derive(Debug)]
pub struct EqualReplyGroup<'a> {
    /// One of the replies.
    pub reply: &'a NodeReply,
    pub nodes: Vec<&'a Identity>,
}

pub fn group_equal_replies<'a>(
    replies: impl IntoIterator<Item = &'a NodeReply>,
) -> Vec<EqualReplyGroup<'a>> {
    let mut groups: BTreeMap<String, EqualReplyGroup<'a>> = BTreeMap::new();
    for reply in replies {
        let group = groups
            .entry(reply_key(reply))
            .or_insert_with(|| EqualReplyGroup { reply, nodes: Vec::new() });
        group.nodes.push(&reply.node);
    }
    let mut groups: Vec<EqualReplyGroup<'a>> = groups.into_values().collect();
    for group in &mut groups {
        group.nodes.sort();
    }
    groups.sort_by_key(|group| (group.reply.is_ok(), group.nodes.len()));
    groups
}

/// The comparison key of a reply, without values that differ between nodes by nature, such as durations and ages.
fn reply_key(reply: &NodeReply) -> String {
    let reason = reply.reason.as_ref().map(|reason| match reason {
        ReplyReason::Denied { rule } => (reason.as_str(), rule.as_str()),
        _ => (reason.as_str(), ""),
    });
    json!([reply.status, reply.message, reason, reply.data]).to_string()
}

impl EqualReplyGroup<'_> {
    /// The node names as ranges, wrapped at the width; cut if too long, unless `all` is set.
    pub fn wrapped_name_ranges(&self, indent: &str, width: usize, all: bool) -> String {
        let ranges = shorten_to_ranges(self.nodes.iter().copied());
        let lines = wrap_words(&ranges, width.saturating_sub(indent.len()));
        let mut page = TextPage::default();
        let max_lines = if all { lines.len() } else { MAX_NODE_LINES };
        for line in lines.iter().take(max_lines) {
            page.push_line(format_args!("{indent}{line}"));
        }
        if lines.len() > max_lines {
            page.push_line(format_args!("{indent}... (-v lists all)"));
        }
        page.into_text()
    }
}

#[cfg(test)]
mod tests {
    use muster_display::node_count_text;
    use muster_wire::status::ReplyReason;
    use serde_json::json;

    use super::group_equal_replies;
    use crate::report::testing::reply;

    #[test]
    fn groups_are_sorted_by_failure_and_rarity() {
        let mut replies: Vec<_> = (1..=5)
            .map(|n| reply(&format!("web{n}"), 0, "OK", json!({"status": "running"})))
            .collect();
        replies.push(reply("db1", 0, "OK", json!({"status": "stopped"})));
        for (node, age_ms) in [("old1", 90_000), ("old2", 91_000)] {
            let mut old = reply(node, 5, "stale", json!({}));
            old.reason = Some(ReplyReason::Expired { age_ms });
            replies.push(old);
        }
        let groups = group_equal_replies(&replies);
        let seen: Vec<_> = groups
            .iter()
            .map(|group| {
                (node_count_text(group.nodes.len()), group.wrapped_name_ranges(" ", 80, false))
            })
            .collect();
        let expected =
            [("2 nodes", " old[1,2]\n"), ("1 node", " db1\n"), ("5 nodes", " web[1-5]\n")];
        assert_eq!(seen, expected.map(|(count, names)| (count.to_owned(), names.to_owned())));
    }

    #[test]
    fn long_node_lists_are_truncated() {
        let replies: Vec<_> = (0..200)
            .map(|n| reply(&format!("node.d{n}.example.net"), 0, "OK", json!({})))
            .collect();
        let groups = group_equal_replies(&replies);
        let names = groups[0].wrapped_name_ranges("   ", 80, false);
        assert_eq!(names.lines().count(), 6);
        assert!(names.ends_with("... (-v lists all)\n"), "{names}");
        let all = groups[0].wrapped_name_ranges("   ", 80, true);
        assert!(all.lines().count() > 6);
    }
}
