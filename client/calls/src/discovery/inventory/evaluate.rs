//! Evaluates a filter for each node of an inventory and explains the result, so that a filter can be tested without requests to nodes.
//!
//! Nodes use the same evaluation. An inventory has no results of data sources: each is either assumed by the caller or unknown.

use muster_filter::state::NodeView;
use muster_filter::{DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, TruthValue};
use muster_wire::identity::Identity;

use super::{FleetInventory, InventoryNodeView, InventorySelector, Result};
use crate::discovery::DiscoveryQuery;

/// Evaluation result of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEvaluation {
    /// The node.
    pub node: Identity,
    /// Whether the node matches.
    pub result: TruthValue,
    /// The data source lookups that would decide an unknown result, in the order in which the node would make them.
    pub needed_lookups: Vec<DataLookup>,
    /// Each condition and its result. Collective, names and groups form the first one, if present.
    pub conditions: Vec<(String, TruthValue)>,
}

impl FleetInventory {
    /// Evaluates the query for every node, in the order of the document. `known` holds assumed data source results, the same for all nodes.
    pub fn evaluate_nodes(
        &self,
        query: &DiscoveryQuery,
        known: &KnownLookups,
    ) -> Result<Vec<NodeEvaluation>> {
        let selector = InventorySelector::new(self, query)?;
        let entries = self.nodes.iter().enumerate();
        let evaluations = entries.map(|(index, node)| {
            let candidate = InventoryNodeView::new(index, node)?;
            let view = candidate.view();
            let admitted = selector.admits(node, &view);
            let (result, needed_lookups) = if admitted {
                evaluate_node(query, &view, known)
            } else {
                (TruthValue::False, Vec::new())
            };
            let mut conditions = query.filter.evaluate_conditions(&view, known);
            if let Some(named) = naming_text(query) {
                conditions.insert(0, (named, admitted.into()));
            }
            Ok(NodeEvaluation { node: candidate.identity, result, needed_lookups, conditions })
        });
        evaluations.collect()
    }
}

/// Returns whether the node matches, and which lookups it would make to decide.
fn evaluate_node(
    query: &DiscoveryQuery,
    view: &NodeView<'_>,
    known: &KnownLookups,
) -> (TruthValue, Vec<DataLookup>) {
    let mut known = known.clone();
    let mut needed_lookups = Vec::new();
    loop {
        match query.filter.evaluate_except_identity(view, &known) {
            EvaluationProgress::Decided(TruthValue::Unknown) => {
                return (TruthValue::Unknown, needed_lookups);
            }
            EvaluationProgress::Decided(value) => return (value, Vec::new()),
            // A node would have this result now. Here it is unknown, so continue with the next lookup that the node could make.
            EvaluationProgress::Needs(lookup) => {
                needed_lookups.push(lookup.clone());
                known.insert(lookup.clone(), DataLookupResult::Unknown(String::new()));
            }
        }
    }
}

/// The text of collective, names and groups, as typed; `None` if there are none.
fn naming_text(query: &DiscoveryQuery) -> Option<String> {
    let collective = query.collective.iter().map(|name| format!("-T {name}"));
    let identities = query.filter.identities().iter().map(|pattern| format!("-I {pattern}"));
    let groups = query.groups.iter().map(|name| format!("-I group:{name}"));
    let options: Vec<String> = collective.chain(identities).chain(groups).collect();
    (!options.is_empty()).then(|| options.join(" "))
}

#[cfg(test)]
mod tests {
    use muster_filter::{AssumedOutput, KnownLookups, NodeFilter, TruthValue};
    use muster_filter::{DataLookupResult, FilterError};
    use serde_json::{Map, json};

    use super::{FleetInventory, NodeEvaluation};
    use crate::discovery::DiscoveryQuery;
    use crate::discovery::inventory::INVENTORY_SCHEMA;

    fn fleet() -> FleetInventory {
        let text = json!({
            "$schema": INVENTORY_SCHEMA,
            "groups": [{"name": "web", "filter": {"classes": ["apache"]}}],
            "nodes": [
                {"name": "web1", "collectives": ["uk"], "facts": {"country": "uk"}, "classes": ["Apache"], "agents": ["rpcutil"]},
                {"name": "db1", "collectives": ["de"], "facts": {"country": "de"}, "classes": ["mysql"], "agents": ["rpcutil"]},
            ],
        });
        FleetInventory::parse(&text.to_string(), None).unwrap()
    }

    fn judge(filter: Result<NodeFilter, FilterError>, known: &KnownLookups) -> Vec<NodeEvaluation> {
        let wanted = DiscoveryQuery { filter: filter.unwrap(), ..DiscoveryQuery::default() };
        fleet().evaluate_nodes(&wanted, known).unwrap()
    }

    fn asks(judgement: &NodeEvaluation) -> Vec<String> {
        judgement.needed_lookups.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn undecided_results_list_the_needed_lookups() {
        let text = "country=uk and (service('sshd').running or service('cron').running)";
        let judged = judge(NodeFilter::default().with_select(text), &KnownLookups::default());
        assert_eq!((judged[0].node.as_str(), judged[0].result), ("web1", TruthValue::Unknown));
        assert_eq!(asks(&judged[0]), ["service(\"sshd\")", "service(\"cron\")"]);
        // The fact alone decides: the state of the services is irrelevant.
        assert_eq!(judged[1].result, TruthValue::False);
        assert!(judged[1].needed_lookups.is_empty());
        assert_eq!(
            judged[1].conditions[..2],
            [
                ("country==uk".to_owned(), TruthValue::False),
                ("service(\"sshd\").running==true".to_owned(), TruthValue::Unknown)
            ]
        );
    }

    #[test]
    fn assumed_outputs_decide() {
        let stated: AssumedOutput = "service('sshd').running=false".parse().unwrap();
        let mut known = KnownLookups::default();
        let values = Map::from_iter([(stated.output, stated.value)]);
        known.insert(stated.lookup, DataLookupResult::Values(values));
        let filter = || NodeFilter::default().with_select("service('sshd').running");
        assert_eq!(judge(filter(), &known)[0].result, TruthValue::False);
        let filter = NodeFilter::default().with_select("service('sshd').enabled");
        let judged = judge(filter, &known);
        assert_eq!(
            judged[0].result,
            TruthValue::Unknown,
            "another output of the data source is known"
        );
    }

    #[test]
    fn identities_groups_and_collectives_are_one_condition() {
        let filter = NodeFilter::default()
            .with_identity("/^db/")
            .and_then(|filter| filter.with_agent("rpcutil"))
            .unwrap();
        let wanted = DiscoveryQuery {
            filter,
            groups: vec!["web".to_owned()],
            collective: Some("uk".parse().unwrap()),
            ..DiscoveryQuery::default()
        };
        let judged = fleet().evaluate_nodes(&wanted, &KnownLookups::default()).unwrap();
        assert_eq!(
            judged[0].conditions,
            [
                ("-T uk -I /^db/ -I group:web".to_owned(), TruthValue::True),
                ("-A rpcutil".to_owned(), TruthValue::True)
            ]
        );
        assert_eq!(judged[1].result, TruthValue::False, "the node is in another collective");
        let wanted =
            DiscoveryQuery { groups: vec!["nosuch".to_owned()], ..DiscoveryQuery::default() };
        assert!(fleet().evaluate_nodes(&wanted, &KnownLookups::default()).is_err());
    }

    #[test]
    fn evaluation_and_discovery_agree() {
        for text in ["country=uk", "not apache", "country=uk or service('x').running"] {
            let wanted = DiscoveryQuery {
                filter: NodeFilter::default().with_select(text).unwrap(),
                ..DiscoveryQuery::default()
            };
            let judged = fleet().evaluate_nodes(&wanted, &KnownLookups::default()).unwrap();
            let meant = judged.into_iter();
            let meant = meant.filter(|judgement| judgement.result == TruthValue::True);
            let meant: Vec<_> = meant.map(|judgement| judgement.node).collect();
            let found: Vec<_> = fleet().find_nodes(&wanted).unwrap().into_iter().collect();
            assert_eq!(meant, found, "{text}");
        }
    }
}
