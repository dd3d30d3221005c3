//! Stores a record if the memory suffices. Otherwise what was known of the node stays, and the node has a problem.

use std::sync::Arc;

use muster_filter::state::MapField;
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::node_record::{NodeContent, NodeRecord};
use muster_wire::token::VerifiedUser;

use super::{NodeTable, StaleRecord, StoredNode};
use crate::liveness::NodeLiveness;
use crate::memory::content_bytes;

/// A node as it can be stored again.
struct NodeCopy {
    record: NodeRecord,
    content: NodeContent,
    liveness: NodeLiveness,
    revision: u64,
    sender: Option<Arc<VerifiedUser>>,
}

impl NodeTable {
    /// Adds a node, or replaces what is known of it; the caller has verified the signature. A record that its node made earlier than the known one is refused, unless the known one is from the future
    /// (`now` is this instance's clock): then the node's clock was wrong. If the memory does not suffice for a record, that is a problem of the node, and what was known of it stays.
    pub fn store(
        &mut self,
        record: &NodeRecord,
        content: NodeContent,
        revision: u64,
        now: Millis,
    ) -> Result<&mut StoredNode, StaleRecord> {
        self.check_time(record, now)?;
        let before = self.memory_bytes();
        if self.memory_limit.permits(before.saturating_add(content_bytes(&content))) {
            return self.replace(record, content, revision);
        }
        let known = self.get(&record.sender).map(|node| self.copy(node));
        let head = self.head_of(&content);
        self.replace(record, content, revision)?;
        let added = self.memory_bytes().saturating_sub(before);
        if let Err(refusal) = self.memory_limit.check(before, added, self.len()) {
            match known {
                Some(known) => self.restore(known)?,
                None => self.replace(record, head, revision).map(drop)?,
            }
            self.problems.insert(record.sender.clone(), refusal.to_string().into());
        }
        self.get_mut(&record.sender).ok_or(StaleRecord::Older)
    }

    /// What of a content is kept if the memory does not suffice for it. Only collectives that other nodes have: a name in an index takes more than the rest.
    fn head_of(&self, content: &NodeContent) -> NodeContent {
        let collectives = content.collectives.iter();
        let is_known = |name: &&SubjectName| self.collectives.has_name(name.as_str());
        NodeContent {
            version: content.version.clone(),
            collectives: collectives.filter(is_known).cloned().collect(),
            heartbeat_seconds: content.heartbeat_seconds,
            ..NodeContent::default()
        }
    }

    fn copy(&self, node: &StoredNode) -> NodeCopy {
        let agents = node.agents.iter().cloned().zip(node.agent_versions.iter().cloned());
        let collectives = node.collectives.iter().filter_map(|name| SubjectName::parse(name).ok());
        let mut content = NodeContent {
            version: node.version.to_string(),
            collectives: collectives.collect(),
            agents: agents.collect(),
            classes: node.classes_known.then(|| node.classes.to_vec()),
            ..NodeContent::default()
        };
        for field in MapField::ALL {
            if let Some(map) = self.map_of(node, field) {
                content = content.with_map(field, map);
            }
        }
        NodeCopy {
            record: NodeRecord {
                sender: node.identity.clone(),
                time: node.record_time,
                digest: node.digest.to_string(),
                content: String::new(),
                history: None,
            },
            content,
            liveness: node.liveness.clone(),
            revision: node.revision,
            sender: node.sender.clone(),
        }
    }

    fn restore(&mut self, copy: NodeCopy) -> Result<(), StaleRecord> {
        let node = self.replace(&copy.record, copy.content, copy.revision)?;
        (node.liveness, node.sender) = (copy.liveness, copy.sender);
        Ok(())
    }
}
