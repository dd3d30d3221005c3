//! Remembers the names that a command has seen in the fleet, and suggests them for names that match nothing.

use std::path::PathBuf;

use muster_request::{RequestReport, TargetSelection};
use muster_wire::identity::Identity;

use super::context::CommandContext;
use crate::completion::memory::SeenNamesCache;
use crate::completion::{suggest_names, suggest_nodes};

impl CommandContext<'_> {
    /// The file with the names that were seen in the configured fleet.
    fn seen_names_path(&self) -> Option<PathBuf> {
        Some(self.settings().ok()?.fleet_cache_directory()?.join("seen.json"))
    }

    /// The names that were seen in the configured fleet.
    pub fn seen_names(&self) -> SeenNamesCache {
        SeenNamesCache::load(self.seen_names_path().as_deref())
    }

    /// Saves names.
    pub fn remember_names(&self, names: SeenNamesCache) {
        SeenNamesCache::add_names(self.seen_names_path().as_deref(), names);
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

    /// Prints what the names in a filter that matched no node were probably meant to be.
    pub fn suggest_names(&self, target: &TargetSelection) {
        for suggestion in suggest_names(&target.filter, &self.seen_names()) {
            self.printer.print_hint(suggestion);
        }
    }

    /// Prints what the names of nodes that are not connected were probably meant to be.
    pub fn suggest_nodes(&self, report: &RequestReport) {
        if report.stats.not_connected.is_empty() {
            return;
        }
        let names = report.stats.not_connected.iter().map(Identity::as_str);
        for suggestion in suggest_nodes(names, &self.seen_names()) {
            self.printer.print_hint(suggestion);
        }
    }
}
