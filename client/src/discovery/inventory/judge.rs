//! What a filter makes of each node of an inventory, and why: for whoever writes a filter, and asks nobody yet.
//!
//! The evaluation is the one that nodes have. What a data source would answer is not in an inventory: it is supposed, or unknown.

use muster_wire::filter::{Found, Known, Lookup, Progress, Truth};
use muster_wire::identity::Identity;
use muster_wire::state::NodeView;

use super::{Admission, Inventory, InventoryError, Seen};
use crate::discovery::Wanted;

/// What became of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The node.
    pub node: Identity,
    /// Whether it is meant.
    pub verdict: Truth,
    /// The questions to its data sources that would settle what is unknown, in the order in which it would ask them.
    pub asks: Vec<Lookup>,
    /// Each condition, and whether it holds. Collective, names and groups together are the first one, if there are any.
    pub conditions: Vec<(String, Truth)>,
}

impl Inventory {
    /// What is wanted, held against every node, in the order of the document. `known` is supposed of all of them.
    pub fn judge(&self, wanted: &Wanted, known: &Known) -> Result<Vec<Judgement>, InventoryError> {
        let admission = Admission::new(self, wanted)?;
        let entries = self.nodes.iter().enumerate();
        let judged = entries.map(|(index, node)| {
            let seen = Seen::new(index, node)?;
            let view = seen.view();
            let admitted = admission.admits(node, &view);
            let (verdict, asks) = if admitted {
                settle(wanted, &view, known)
            } else {
                (Truth::False, Vec::new())
            };
            let mut conditions = wanted.filter.conditions(&view, known);
            if let Some(named) = naming(wanted) {
                conditions.insert(0, (named, admitted.into()));
            }
            Ok(Judgement {
                node: seen.identity,
                verdict,
                asks,
                conditions,
            })
        });
        judged.collect()
    }
}

/// Whether the node is meant, and what it would have to ask before it could tell.
fn settle(wanted: &Wanted, view: &NodeView<'_>, known: &Known) -> (Truth, Vec<Lookup>) {
    let mut known = known.clone();
    let mut asks = Vec::new();
    loop {
        match wanted.filter.evaluate_apart_from_identity(view, &known) {
            Progress::Decided(Truth::Unknown) => return (Truth::Unknown, asks),
            Progress::Decided(truth) => return (truth, Vec::new()),
            // A node would know more now; as nobody does here, the next question is the one that it might ask then.
            Progress::Needs(lookup) => {
                asks.push(lookup.clone());
                known.insert(lookup.clone(), Found::Unknown(String::new()));
            }
        }
    }
}

/// Collective, names and groups as they are typed, if there are any.
fn naming(wanted: &Wanted) -> Option<String> {
    let collective = wanted.collective.iter().map(|name| format!("-T {name}"));
    let identities = wanted.filter.identities().iter();
    let identities = identities.map(|pattern| format!("-I {pattern}"));
    let groups = wanted.groups.iter();
    let groups = groups.map(|name| format!("-I group:{name}"));
    let words: Vec<String> = collective.chain(identities).chain(groups).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use muster_wire::filter::{Filter, Known, Stated, Truth};
    use muster_wire::filter::{FilterError, Found};
    use serde_json::{Map, json};

    use super::{Inventory, Judgement};
    use crate::discovery::Wanted;
    use crate::discovery::inventory::SCHEMA;

    fn fleet() -> Inventory {
        let text = json!({
            "$schema": SCHEMA,
            "groups": [{"name": "web", "filter": {"classes": ["apache"]}}],
            "nodes": [
                {"name": "web1", "collectives": ["uk"], "facts": {"country": "uk"}, "classes": ["Apache"], "agents": ["rpcutil"]},
                {"name": "db1", "collectives": ["de"], "facts": {"country": "de"}, "classes": ["mysql"], "agents": ["rpcutil"]},
            ],
        });
        Inventory::parse(&text.to_string(), None).unwrap()
    }

    fn judge(filter: Result<Filter, FilterError>, known: &Known) -> Vec<Judgement> {
        let wanted = Wanted {
            filter: filter.unwrap(),
            ..Wanted::default()
        };
        fleet().judge(&wanted, known).unwrap()
    }

    fn asks(judgement: &Judgement) -> Vec<String> {
        judgement.asks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn facts_decide_where_they_can_and_data_sources_are_named_where_they_cannot() {
        let text = "country=uk and (service('sshd').running or service('cron').running)";
        let judged = judge(Filter::default().with_select(text), &Known::default());
        assert_eq!(
            (judged[0].node.as_str(), judged[0].verdict),
            ("web1", Truth::Unknown)
        );
        assert_eq!(asks(&judged[0]), ["service(\"sshd\")", "service(\"cron\")"]);
        // Whatever the services do, this node is not in the country.
        assert_eq!(judged[1].verdict, Truth::False);
        assert!(judged[1].asks.is_empty());
        assert_eq!(
            judged[1].conditions[..2],
            [
                ("country==uk".to_owned(), Truth::False),
                ("service(\"sshd\").running==true".to_owned(), Truth::Unknown)
            ]
        );
    }

    #[test]
    fn what_is_supposed_of_data_sources_decides() {
        let stated: Stated = "service('sshd').running=false".parse().unwrap();
        let mut known = Known::default();
        let values = Map::from_iter([(stated.output, stated.value)]);
        known.insert(stated.lookup, Found::Values(values));
        let filter = || Filter::default().with_select("service('sshd').running");
        assert_eq!(judge(filter(), &known)[0].verdict, Truth::False);
        let filter = Filter::default().with_select("service('sshd').enabled");
        let judged = judge(filter, &known);
        assert_eq!(judged[0].verdict, Truth::Unknown, "another output of it");
    }

    #[test]
    fn names_groups_and_collectives_are_one_condition() {
        let filter = Filter::default()
            .with_identity("/^db/")
            .and_then(|filter| filter.with_agent("rpcutil"))
            .unwrap();
        let wanted = Wanted {
            filter,
            groups: vec!["web".to_owned()],
            collective: Some("uk".parse().unwrap()),
            ..Wanted::default()
        };
        let judged = fleet().judge(&wanted, &Known::default()).unwrap();
        assert_eq!(
            judged[0].conditions,
            [
                ("-T uk -I /^db/ -I group:web".to_owned(), Truth::True),
                ("-A rpcutil".to_owned(), Truth::True)
            ]
        );
        assert_eq!(judged[1].verdict, Truth::False, "of another collective");
        let wanted = Wanted {
            groups: vec!["nosuch".to_owned()],
            ..Wanted::default()
        };
        assert!(fleet().judge(&wanted, &Known::default()).is_err());
    }

    #[test]
    fn whoever_matches_is_found_too() {
        for text in [
            "country=uk",
            "not apache",
            "country=uk or service('x').running",
        ] {
            let wanted = Wanted {
                filter: Filter::default().with_select(text).unwrap(),
                ..Wanted::default()
            };
            let judged = fleet().judge(&wanted, &Known::default()).unwrap();
            let meant = judged.into_iter();
            let meant = meant.filter(|judgement| judgement.verdict == Truth::True);
            let meant: Vec<_> = meant.map(|judgement| judgement.node).collect();
            let found: Vec<_> = fleet().find(&wanted).unwrap().into_iter().collect();
            assert_eq!(meant, found, "{text}");
        }
    }
}
