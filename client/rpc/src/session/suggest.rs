//! What the names in a filter that matched no node were probably meant to be, from the names that were seen earlier. Pure.

use std::collections::BTreeSet;

use muster_base::nearest_name;
use muster_filter::state::MapField;
use muster_filter::{FactOperator, FilterPattern, NodeFilter, ReferencedFacts};

use crate::flags::named_nodes::short_name;
use crate::session::seen_names::SeenNamesCache;

/// A sentence for each name that was never seen and is similar to a seen one.
pub fn suggest_names(filter: &NodeFilter, seen: &SeenNamesCache) -> Vec<String> {
    let conditions = filter.classes().len()
        + filter.facts().len()
        + filter.identities().len()
        + usize::from(filter.select().is_some())
        + usize::from(filter.query().is_some());
    // With several conditions, nodes with the name may exist that differ in another condition. The agent of the request is not one of them.
    let subject = if conditions > 1 { "no known node" } else { "no node" };
    let kinds = [
        ("the class", filter.classes(), &seen.classes),
        ("the agent", filter.agents(), &seen.agents),
        ("the name", filter.identities(), &seen.nodes),
    ];
    let mut suggestions: Vec<String> = kinds
        .into_iter()
        .flat_map(|(kind, patterns, known)| {
            patterns.iter().filter_map(move |pattern| match pattern {
                FilterPattern::Exact(name) => suggest_name((subject, kind), name, known),
                FilterPattern::Regex(regex) => suggest_short_name(subject, regex.source(), known),
            })
        })
        .collect();
    suggestions.extend(suggest_expression_classes(filter, seen));
    for term in filter.facts() {
        let fact = term.fact_path().as_str();
        match seen.facts.get(fact) {
            None => {
                let facts = seen.facts.keys().cloned().collect();
                let similar = suggest_name((subject, "the fact"), fact, &facts);
                let values = || format!("`rpc facts {fact}` lists the values of this fact");
                suggestions.push(similar.unwrap_or_else(values));
            }
            Some(values) if term.operator() == FactOperator::Equal => {
                let kind = format!("the fact {fact} with the value");
                suggestions.extend(suggest_name((subject, &kind), &term.value_text(), values));
            }
            Some(_) => {}
        }
    }
    suggestions.extend(suggest_expression_facts(filter, seen));
    suggestions
}

/// A sentence for a short name of a node, from its regular expression.
fn suggest_short_name(subject: &str, regex: &str, nodes: &BTreeSet<String>) -> Option<String> {
    let name = short_name(regex)?;
    let known = nodes.iter().filter_map(|node| node.split('.').next()).map(str::to_owned);
    suggest_name((subject, "the name"), &name, &known.collect())
}

/// A sentence for each class in `-S` that was never seen.
fn suggest_expression_classes(filter: &NodeFilter, seen: &SeenNamesCache) -> Vec<String> {
    let Some(select) = filter.select() else {
        return Vec::new();
    };
    let (classes, either) = select.class_names();
    let names = seen.classes.union(&seen.agents).cloned().collect();
    let subject = "no known node";
    let classes = classes
        .into_iter()
        .filter_map(|name| suggest_name((subject, "the class"), name, &seen.classes));
    let either = either
        .into_iter()
        .filter_map(|name| suggest_name((subject, "the class or agent"), name, &names));
    classes.chain(either).collect()
}

/// A sentence for each fact in `-S` and `-Q` that was never seen.
fn suggest_expression_facts(filter: &NodeFilter, seen: &SeenNamesCache) -> Vec<String> {
    let ReferencedFacts::Named(names) = filter.referenced_values(MapField::Facts) else {
        return Vec::new();
    };
    // The names include the first segment of each path, which is part of a seen fact then.
    let is_seen = |name: &str| {
        seen.facts.keys().any(|fact| {
            fact.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let is_term = |name: &str| filter.facts().iter().any(|term| term.fact_path().as_str() == name);
    let known = seen.facts.keys().cloned().collect();
    let unseen = names.iter().filter(|name| !is_seen(name) && !is_term(name));
    unseen.filter_map(|name| suggest_name(("no known node", "the fact"), name, &known)).collect()
}

/// The most similar nodes of those that were seen, for names that are not among them.
pub fn suggest_nodes<'a>(
    names: impl IntoIterator<Item = &'a str>,
    seen: &SeenNamesCache,
) -> Vec<String> {
    let names = names.into_iter();
    names
        .filter_map(|name| suggest_name(("no known node", "the name"), name, &seen.nodes))
        .collect()
}

/// Whether a node with this name and a domain was seen, and none with exactly this name.
pub fn is_short_name(name: &str, seen: &SeenNamesCache) -> bool {
    let is_meant = |node: &String| node.split_once('.').is_some_and(|(short, _)| short == name);
    !seen.nodes.contains(name) && seen.nodes.iter().any(is_meant)
}

/// The only seen node that has this name and a domain; `None` if the name has a domain itself, or was seen without one.
pub fn find_full_name<'s>(name: &str, seen: &'s SeenNamesCache) -> Option<&'s str> {
    if name.contains('.') || seen.nodes.contains(name) {
        return None;
    }
    let is_meant = |node: &&String| node.split_once('.').is_some_and(|(short, _)| short == name);
    let mut meant = seen.nodes.iter().filter(is_meant);
    let full = meant.next()?;
    meant.next().is_none().then_some(full)
}

/// `None` if the name was seen, in any letter case, or no seen one is similar.
fn suggest_name(
    (subject, kind): (&str, &str),
    name: &str,
    known: &BTreeSet<String>,
) -> Option<String> {
    if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let nearest = nearest_name(name, known.iter().map(String::as_str))?;
    Some(format!("{subject} has {kind} {name:?}; did you mean {nearest:?}?"))
}

#[cfg(test)]
mod tests {
    use muster_filter::NodeFilter;
    use serde_json::json;

    use super::{SeenNamesCache, find_full_name, is_short_name, suggest_names, suggest_nodes};

    fn seen() -> SeenNamesCache {
        serde_json::from_value(json!({
            "nodes": ["web1.acme.net"], "classes": ["apache", "mysql::master"], "agents": ["service"],
            "facts": {"country": ["uk", "de"], "os.family": ["Debian"]},
        }))
        .unwrap()
    }

    fn suggest(words: &str) -> Vec<String> {
        suggest_names(&NodeFilter::default().with_words(words).unwrap(), &seen())
    }

    #[test]
    fn unseen_names_are_compared_with_seen_ones() {
        assert_eq!(suggest("apach"), ["no node has the class \"apach\"; did you mean \"apache\"?"]);
        assert_eq!(
            suggest("contry=uk"),
            ["no node has the fact \"contry\"; did you mean \"country\"?"]
        );
        assert_eq!(suggest("zone=a"), ["`rpc facts zone` lists the values of this fact"]);
        assert_eq!(
            suggest("os.family=Debain"),
            ["no node has the fact os.family with the value \"Debain\"; did you mean \"Debian\"?"]
        );
        let filter = NodeFilter::default().with_identity("web1.acme.nt").unwrap();
        let suggestions = suggest_names(&filter.with_agent("servce").unwrap(), &seen());
        assert_eq!(suggestions.len(), 2, "{suggestions:?}");
        assert_eq!(
            suggest("country=uk apach"),
            ["no known node has the class \"apach\"; did you mean \"apache\"?"]
        );
        assert_eq!(suggest_nodes(["web1.acme.net", "web1.acne.net"], &seen()).len(), 1);
    }

    #[test]
    fn facts_in_expressions_and_documents_are_compared_too() {
        let select = NodeFilter::default().with_select("contry=uk and os.famly=Debian").unwrap();
        let query = NodeFilter::default().with_query("{'facts.contry': 'uk'}").unwrap();
        let country = "no known node has the fact \"contry\"; did you mean \"country\"?";
        let family = "no known node has the fact \"os.famly\"; did you mean \"os.family\"?";
        assert_eq!(suggest_names(&select, &seen()), [country, family]);
        assert_eq!(suggest_names(&query, &seen()), [country]);
        let good =
            NodeFilter::default().with_select("country=fr and not os.family=Debian").unwrap();
        assert_eq!(suggest_names(&good, &seen()), [] as [&str; 0]);
    }

    #[test]
    fn classes_in_expressions_and_short_names_of_nodes_are_compared_too() {
        let select = NodeFilter::default().with_select("apach and country=uk").unwrap();
        assert_eq!(
            suggest_names(&select, &seen()),
            ["no known node has the class \"apach\"; did you mean \"apache\"?"]
        );
        let good = NodeFilter::default().with_select("service or not mysql::master").unwrap();
        assert_eq!(suggest_names(&good, &seen()), [] as [&str; 0]);
        let name = |pattern: &str| {
            let filter = NodeFilter::default().with_identity(pattern).unwrap();
            suggest_names(&filter, &seen())
        };
        assert_eq!(
            name("/^wbe1(\\.|$)/"),
            ["no node has the name \"wbe1\"; did you mean \"web1\"?"]
        );
        assert_eq!(name("/^web1(\\.|$)/"), [] as [&str; 0]);
        assert_eq!(name("/wbe1/"), [] as [&str; 0]);
    }

    #[test]
    fn short_name_of_exactly_one_seen_node_is_completed() {
        let nodes = ["db1.a.net", "db1.b.net", "web1.a.net", "web2", "web2.a.net", "web10.a.net"];
        let seen: SeenNamesCache = serde_json::from_value(json!({ "nodes": nodes })).unwrap();
        assert_eq!(find_full_name("web1", &seen), Some("web1.a.net"));
        for name in ["db1", "web", "web1.a", "web1.a.net", "web2", "no"] {
            assert_eq!(find_full_name(name, &seen), None, "{name}");
        }
        let short: Vec<_> = ["db1", "web1", "web", "web2", "no"]
            .into_iter()
            .filter(|name| is_short_name(name, &seen))
            .collect();
        assert_eq!(short, ["db1", "web1"]);
    }

    #[test]
    fn seen_and_dissimilar_names_have_no_suggestion() {
        for words in ["apache", "APACHE", "nginx", "country=fr", "country=UK", "/apach/"] {
            assert_eq!(suggest(words), [] as [&str; 0], "{words}");
        }
    }
}
