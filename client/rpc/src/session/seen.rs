//! Remembers the names that a command has seen in the fleet: suggests them for names that match nothing, and names nodes that have disappeared.

use std::collections::BTreeSet;
use std::path::PathBuf;

use muster_base::{format_duration, nearest_name, unix_millis_now};
use muster_client::{LastSeenNodes, RequestReport, TargetSelection};
use muster_contract::rpcutil::RpcutilInventoryOutput;
use muster_display::node_count_text;
use muster_wire::identity::Identity;

use crate::session::context::CommandContext;
use crate::session::seen_names::SeenNamesCache;
use crate::session::suggest::{find_full_name, suggest_names, suggest_nodes};

const MAX_ABSENT_NAMES: usize = 10;

impl CommandContext<'_> {
    fn seen_names_path(&self) -> Option<PathBuf> {
        Some(self.settings().ok()?.fleet_cache_directory()?.join("seen.json"))
    }

    pub fn seen_names(&self) -> SeenNamesCache {
        SeenNamesCache::load(self.seen_names_path().as_deref())
    }

    /// Records that these nodes replied to a question to the whole fleet, and describes the nodes that replied within the last 7 days and did not now;
    /// nothing if there are none, or if the question had filters.
    pub fn describe_absent<'n>(
        &self,
        target: &TargetSelection,
        replied: impl IntoIterator<Item = &'n Identity>,
    ) -> Option<String> {
        let directory = self.settings().ok()?.fleet_cache_directory()?;
        if !target.filter.is_empty() {
            return None;
        }
        let path = directory.join("last-seen.json");
        let mut seen = LastSeenNodes::load(&path);
        let absent = seen.record_replies(unix_millis_now() / 1000, replied);
        seen.save(&path);
        if absent.is_empty() {
            return None;
        }
        let names = absent.iter().take(MAX_ABSENT_NAMES);
        let names = names.map(|(node, age)| format!("{node} ({} ago)", format_duration(*age)));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = match absent.len().saturating_sub(MAX_ABSENT_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = node_count_text(absent.len());
        Some(format!("{count} replied within the last 7 days, but not now: {names}{more}"))
    }

    pub fn remember_names(&self, names: SeenNamesCache) {
        SeenNamesCache::add_names(self.seen_names_path().as_deref(), names);
    }

    /// Saves the names in the inventories for completion.
    pub fn remember_inventories(&self, inventory: &RequestReport) {
        let mut seen = SeenNamesCache::default();
        for reply in inventory.successes() {
            seen.add_inventory(reply.typed_outputs::<RpcutilInventoryOutput>());
            seen.nodes.insert(reply.node.to_string());
        }
        self.remember_names(seen);
    }

    /// Prints that none of this many nodes has a fact, and the seen fact that was probably meant.
    pub fn report_no_values(&self, fact: &str, nodes: usize) {
        let nodes = node_count_text(nodes);
        self.printer.print_error(format_args!("none of {nodes} has a value of the fact `{fact}`"));
        let seen = self.seen_names();
        if let Some(nearest) = nearest_name(fact, seen.facts.keys().map(String::as_str)) {
            self.printer.print_hint(format_args!("did you mean `{nearest}`?"));
        } else {
            self.printer.print_hint("`rpc facts` lists the facts of all nodes");
        }
    }

    /// Saves the names of nodes that were discovered, and the names in the filter that has found them. Nodes that are named exactly are not discovered: they are known
    /// once they have replied.
    pub fn remember_discovered(&self, target: &TargetSelection, nodes: &BTreeSet<Identity>) {
        if target.filter.identities_exact().is_none() {
            self.remember_found(target, nodes);
        }
    }

    /// Saves the names of nodes, and the names in the filter that has found them.
    pub fn remember_found<'n>(
        &self,
        target: &TargetSelection,
        nodes: impl IntoIterator<Item = &'n Identity>,
    ) {
        let nodes = nodes.into_iter().map(Identity::to_string).collect();
        let mut names = SeenNamesCache { nodes, ..SeenNamesCache::default() };
        // Named nodes are not compared with the filter's other conditions.
        if !names.nodes.is_empty() && target.filter.identities_exact().is_none() {
            names.add_filter(&target.filter);
        }
        self.remember_names(names);
    }

    /// The node with this name, or the only seen one with this name and a domain, which is then printed.
    pub fn complete_node_name(&self, node: Identity) -> Identity {
        let seen = self.seen_names();
        let full = find_full_name(node.as_str(), &seen);
        let Some(full) = full.and_then(|full| Identity::parse(full).ok()) else {
            return node;
        };
        self.printer.print_message(format_args!("{node} is {full}"));
        full
    }

    /// Prints what the names in a filter that matched no node were probably meant to be.
    pub fn suggest_names(&self, target: &TargetSelection) {
        for suggestion in suggest_names(&target.filter, &self.seen_names()) {
            self.printer.print_hint(suggestion);
        }
    }

    /// Prints what the names of nodes that are not connected were probably meant to be.
    pub fn suggest_nodes<'n>(&self, not_connected: impl IntoIterator<Item = &'n Identity>) {
        let names: Vec<&str> = not_connected.into_iter().map(Identity::as_str).collect();
        if names.is_empty() {
            return;
        }
        let suggestions = suggest_nodes(names.iter().copied(), &self.seen_names());
        let short = names.iter().find(|name| !name.contains('.'));
        if let Some(name) = short.filter(|_| suggestions.is_empty()) {
            self.printer.print_hint(format_args!(
                "if `{name}` is a name without its domain, `rpc find {name}` finds the node"
            ));
        }
        for suggestion in suggestions {
            self.printer.print_hint(suggestion);
        }
    }
}
