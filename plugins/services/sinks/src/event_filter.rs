//! Which events a sink gets.

use std::collections::BTreeSet;

use muster_api::ActionError;
use muster_directory::DirectoryHandle;
use muster_filter::{FilterError, FilterPattern, NodeFilter};

use crate::event::{SinkEvent, SinkEventKind};
use crate::options::SinkOptions;

/// Conditions; each one that is empty admits everything.
#[derive(Debug, Clone)]
pub(crate) struct EventFilter {
    kinds: Vec<SinkEventKind>,
    identities: Vec<FilterPattern>,
    agents: Vec<String>,
    /// JSON of a filter, which the directory evaluates.
    nodes: Option<String>,
}

impl EventFilter {
    pub(crate) fn parse(options: &SinkOptions) -> Result<Self, FilterError> {
        let identities = options.identities.iter().map(|text| FilterPattern::parse(text));
        let filter = options.filter.as_ref().map(|text| NodeFilter::default().with_select(text));
        let to_json = |filter: NodeFilter| serde_json::to_string(&filter).unwrap_or_default();
        Ok(Self {
            kinds: options.kinds.clone(),
            identities: identities.collect::<Result<_, _>>()?,
            agents: options.agents.clone(),
            nodes: filter.transpose()?.map(to_json),
        })
    }

    /// The nodes that match now; `None` if all do.
    pub(crate) fn select_nodes(
        &self,
        directory: &DirectoryHandle,
    ) -> Result<Option<BTreeSet<String>>, ActionError> {
        let Some(filter) = &self.nodes else { return Ok(None) };
        let names = directory.select_names(Some(filter))?;
        Ok(Some(names.iter().map(|name| name.as_str().to_owned()).collect()))
    }

    /// `nodes`: those that the directory selected.
    pub(crate) fn admits(&self, event: &SinkEvent, nodes: Option<&BTreeSet<String>>) -> bool {
        let is_kind = |kind: &SinkEventKind| {
            *kind == event.kind || (*kind == SinkEventKind::Failure && event.has_failed)
        };
        let is_identity = |pattern: &FilterPattern| match pattern {
            FilterPattern::Exact(name) => name.eq_ignore_ascii_case(&event.node),
            FilterPattern::Regex(regex) => regex.is_match(&event.node),
        };
        (self.kinds.is_empty() || self.kinds.iter().any(is_kind))
            && (self.identities.is_empty() || self.identities.iter().any(is_identity))
            && (self.agents.is_empty()
                || event.agent.as_ref().is_some_and(|agent| self.agents.contains(agent)))
            && nodes.is_none_or(|nodes| nodes.contains(&event.node))
    }

    /// Whether any event of the provisioner may pass.
    pub(crate) fn admits_provisioning(&self) -> bool {
        let is_admitting = |kind: &SinkEventKind| {
            matches!(kind, SinkEventKind::Provision | SinkEventKind::Failure)
        };
        self.agents.is_empty() && (self.kinds.is_empty() || self.kinds.iter().any(is_admitting))
    }

    /// Whether the directory is asked.
    pub(crate) fn needs_directory(&self) -> bool {
        self.nodes.is_some()
    }
}
