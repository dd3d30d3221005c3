//! Selects the target nodes: filter, collective, discovery source and listening time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_calls::discovery::{ConditionKind, DiscoveryOptions};
use muster_calls::{DataDdlStore, DiscoveryMethod, DiscoveryQuery, DiscoverySource};
use muster_ddl::ActionSchema;
use muster_filter::{FilterError, NodeFilter};
use muster_wire::identity::{Identity, SubjectName};

use crate::error::FleetRequestError;
use crate::settings::RpcSettings;

/// Selection of target nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetSelection {
    /// The filter, including the agent of the request.
    pub filter: NodeFilter,
    /// The filter as typed, with groups of an inventory and queries for `PuppetDB`.
    typed: DiscoveryQuery,
    /// The discovery source; the configured one when absent.
    source: Option<DiscoverySource>,
    /// The collective; the configured one when absent.
    pub collective: Option<SubjectName>,
    /// Exact time to listen for nodes.
    pub listen: Option<Duration>,
    /// Additional reply time for the data sources that nodes must query.
    pub lookup_time: Duration,
}

/// The selection as the user gives it. Without conditions, all nodes match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Facts: `FACT=VALUE`, and other comparisons.
    pub facts: Vec<String>,
    /// Classes, names or regular expressions.
    pub classes: Vec<String>,
    /// Agents, names or regular expressions.
    pub agents: Vec<String>,
    /// Identities, names or regular expressions; also `group:NAME` and `pql:QUERY`.
    pub identities: Vec<String>,
    /// Facts and classes, separated by spaces.
    pub mixed: Vec<String>,
    /// Expressions, which must all match.
    pub select: Vec<String>,
    /// Query documents, which must all match.
    pub query: Vec<String>,
    /// Whether query documents compare numbers with texts, too.
    pub loose: bool,
    /// The collective; the configured one when absent.
    pub collective: Option<SubjectName>,
    /// Exact time to listen for nodes.
    pub listen: Option<Duration>,
    /// A file that lists the nodes; `-` is the standard input.
    pub nodes: Option<PathBuf>,
    /// The discovery method; the configured source when absent.
    pub method: Option<DiscoveryMethod>,
    /// Options of the method, as `KEY=VALUE`.
    pub method_options: Vec<String>,
}

type AddConditionFn = fn(NodeFilter, &str) -> Result<NodeFilter, FilterError>;

impl TargetSelection {
    /// Parses the options; expressions are checked against the known data sources.
    pub fn parse(options: TargetOptions, data: &DataDdlStore) -> Result<Self, FleetRequestError> {
        let mut identities = Vec::new();
        let mut typed = DiscoveryQuery::default();
        for text in &options.identities {
            match text.split_once(':') {
                Some(("group", name)) => typed.groups.push(name.to_owned()),
                Some(("pql", query)) => typed.pql.push(query.to_owned()),
                _ => identities.push(text.clone()),
            }
        }
        let with_query =
            if options.loose { NodeFilter::with_loose_query } else { NodeFilter::with_query };
        let kinds: [(&'static str, &[String], AddConditionFn); 6] = [
            ("--with-fact", &options.facts, NodeFilter::with_fact),
            ("--with-class", &options.classes, NodeFilter::with_class),
            ("--with-agent", &options.agents, NodeFilter::with_agent),
            ("--with-identity", &identities, NodeFilter::with_identity),
            ("--with", &options.mixed, NodeFilter::with_words),
            ("--query", &options.query, with_query),
        ];
        let mut filter = NodeFilter::default();
        for (flag, texts, with) in kinds {
            for text in texts {
                filter = with(filter, text).map_err(filter_error(flag))?;
            }
        }
        let sources = data.declared_sources();
        for text in &options.select {
            let with = filter.with_declared_select(text, &sources);
            filter = with.map_err(filter_error("--select"))?;
        }
        Ok(Self {
            typed: DiscoveryQuery { filter: filter.clone(), ..typed },
            lookup_time: data.evaluation_time(&filter),
            filter,
            source: parse_source(&options)?,
            collective: options.collective,
            listen: options.listen,
        })
    }

    /// Selects all nodes of a collective, or of the configured one.
    pub fn for_collective(collective: Option<SubjectName>) -> Self {
        Self { collective, source: Some(DiscoverySource::Broadcast), ..Self::default() }
    }

    /// Selects the nodes of a collective, or of the configured one, that match a filter.
    pub fn from_filter(filter: NodeFilter, collective: Option<SubjectName>) -> Self {
        let typed = DiscoveryQuery { filter: filter.clone(), ..DiscoveryQuery::default() };
        Self { filter, typed, collective, ..Self::default() }
    }

    /// The same nodes, found by this source instead of the configured one.
    #[must_use]
    pub fn with_source(self, source: DiscoverySource) -> Self {
        Self { source: Some(source), ..self }
    }

    /// The nodes of a selection that consists only of exact names.
    pub(crate) fn exact_nodes(&self) -> Option<BTreeSet<Identity>> {
        DiscoveryQuery { filter: self.filter.clone(), ..self.typed.clone() }.exact_nodes()
    }

    /// Returns the discovery source. Fails if it does not support every condition.
    pub fn discovery_source(
        &self,
        settings: Option<&RpcSettings>,
    ) -> Result<DiscoverySource, FleetRequestError> {
        let configured = settings.map(|settings| &settings.source);
        let source = self.source.as_ref().or(configured).unwrap_or(&DiscoverySource::Automatic);
        source.method().check_supported(&self.discovery_query(source, None))?;
        Ok(source.clone())
    }

    /// Returns the query for this source. The agent of the request is omitted for a source without agent data: a node without the agent reports that
    /// itself.
    pub fn discovery_query(
        &self,
        source: &DiscoverySource,
        collective: Option<&SubjectName>,
    ) -> DiscoveryQuery {
        let knows_agents = source.method().supported_conditions().contains(&ConditionKind::Agents);
        let filter = if knows_agents { &self.filter } else { &self.typed.filter };
        let collective = self.collective.as_ref().or(collective).cloned();
        DiscoveryQuery { filter: filter.clone(), collective, ..self.typed.clone() }
    }

    /// What a node that was found by this source must match when it gets the request. Empty if the conditions cannot be checked by nodes: names are listed,
    /// or the source has groups or queries of its own. The agent of the request is left out, because a node without it says so. Of a source on this
    /// machine, whose facts and classes may be others than those that nodes have, only identities count.
    pub fn node_filter(&self, source: &DiscoverySource) -> NodeFilter {
        let DiscoveryQuery { filter, groups, pql, .. } = &self.typed;
        let is_listed = filter.identities_exact().is_some();
        if is_listed || !groups.is_empty() || !pql.is_empty() {
            NodeFilter::default()
        } else if source.method().asks_fleet() || source.method() == DiscoveryMethod::PuppetDb {
            filter.clone()
        } else {
            filter.only_identities()
        }
    }

    /// Rejects a request without a filter that may change something, if the settings require a filter. The agent alone is no filter, because every
    /// node may have it.
    pub fn check_required_filter(
        &self,
        action: &ActionSchema,
        settings: &RpcSettings,
    ) -> Result<(), FleetRequestError> {
        let source = self.discovery_source(Some(settings))?;
        let filtered = self.is_filtered()
            || matches!(source, DiscoverySource::Flat { .. } | DiscoverySource::Stdin { .. });
        if filtered || action.is_read_only() || !settings.require_filter {
            return Ok(());
        }
        Err(FleetRequestError::Unfiltered {
            action: action.name().to_owned(),
            file: settings.file.clone(),
        })
    }

    /// Whether a filter limits the nodes. The agent alone is no filter, because every node may have it.
    pub fn is_filtered(&self) -> bool {
        let DiscoveryQuery { filter: typed, groups, pql, .. } = &self.typed;
        !typed.facts().is_empty()
            || !typed.classes().is_empty()
            || !typed.identities().is_empty()
            || typed.select().is_some()
            || typed.query().is_some()
            || !groups.is_empty()
            || !pql.is_empty()
    }

    /// Adds the agent to the filter, unless nodes are named.
    pub fn with_agent(mut self, agent: &str) -> Result<Self, FleetRequestError> {
        let DiscoveryQuery { groups, pql, .. } = &self.typed;
        let is_named =
            groups.is_empty() && pql.is_empty() && self.filter.identities_exact().is_some();
        if !is_named {
            self.filter = self.filter.with_agent(agent).map_err(filter_error("--with-agent"))?;
        }
        Ok(self)
    }
}

fn filter_error(flag: &'static str) -> impl FnOnce(FilterError) -> FleetRequestError {
    move |source| FleetRequestError::Filter { flag, source }
}

/// The discovery source of the options, if any.
fn parse_source(options: &TargetOptions) -> Result<Option<DiscoverySource>, FleetRequestError> {
    let form = None;
    match (&options.nodes, options.method) {
        (Some(list), _) if list.as_os_str() == "-" => Ok(Some(DiscoverySource::Stdin { form })),
        (Some(list), _) => Ok(Some(DiscoverySource::Flat { file: list.clone(), form })),
        (None, None) => Ok(None),
        (None, Some(method)) => {
            let mut method_options = DiscoveryOptions::default();
            for pair in &options.method_options {
                method_options.add_pair(pair)?;
            }
            Ok(Some(DiscoverySource::from_options(method, &method_options, Path::new(""))?))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::DataDdlStore;

    use super::{TargetOptions, TargetSelection};
    use crate::error::FleetRequestError;

    fn read(options: TargetOptions) -> Result<TargetSelection, FleetRequestError> {
        TargetSelection::parse(options, &DataDdlStore::load(None).unwrap())
    }

    fn words(text: &str) -> TargetOptions {
        TargetOptions { mixed: vec![text.to_owned()], ..TargetOptions::default() }
    }

    #[test]
    fn flags_are_combined_into_one_filter() {
        let flags = TargetOptions {
            facts: vec!["customer=acme".into()],
            classes: vec!["mysql::master".into()],
            agents: vec!["puppetral".into()],
            identities: vec!["/^db/".into()],
            mixed: vec!["environment=development apache".into()],
            select: vec!["a or b".into(), "not c".into()],
            query: vec!["{facts.a: 1}".into(), "{classes: b}".into()],
            loose: true,
            ..TargetOptions::default()
        };
        let filter = read(flags).unwrap().filter;
        assert_eq!((filter.facts().len(), filter.classes().len()), (2, 2));
        assert_eq!((filter.agents().len(), filter.identities().len()), (1, 1));
        let select = filter.select().map(ToString::to_string);
        assert_eq!(select.as_deref(), Some("(a or b) and not c"));
        let query = filter.query().map(ToString::to_string);
        let joined = r#"{"$and":[{"$loose":{"facts.a":1}},{"$loose":{"classes":"b"}}]}"#;
        assert_eq!(query.as_deref(), Some(joined));
    }

    #[test]
    fn error_points_at_the_column() {
        let error = read(words("environment=development =x")).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --with: cannot use filter "environment=development =x": expected the name of a fact at column 25

          environment=development =x
                                  ^
        "#);
        assert!(matches!(error, FleetRequestError::Filter { flag: "--with", .. }));
    }

    #[test]
    fn error_of_a_query_points_at_the_column() {
        let flags = TargetOptions {
            query: vec!["{customer: acme, $where: 'x'}".into()],
            ..TargetOptions::default()
        };
        let error = read(flags).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --query: cannot use filter "{customer: acme, $where: 'x'}": expected identity, facts, classes, agents, collectives or state (a fact is written facts.customer) at column 2

          {customer: acme, $where: 'x'}
           ^
        "#);
        assert!(matches!(error, FleetRequestError::Filter { flag: "--query", .. }));
    }

    #[test]
    fn expressions_are_checked_before_discovery() {
        let flags = TargetOptions {
            select: vec!["apache and fstat('/etc/hosts').md=/^ab/".into()],
            ..TargetOptions::default()
        };
        let error = read(flags).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --select: cannot use filter "apache and fstat('/etc/hosts').md=/^ab/": expected an output of fstat (md is unknown; did you mean md5?) at column 32

          apache and fstat('/etc/hosts').md=/^ab/
                                         ^
        "#);
        assert!(matches!(error, FleetRequestError::Filter { flag: "--select", .. }));
    }

    #[test]
    fn discovery_methods_refuse_unsupported_filters() {
        let flags = |nodes: Option<&str>, words: &[&str], identities: &[&str]| TargetOptions {
            nodes: nodes.map(Into::into),
            mixed: words.iter().map(ToString::to_string).collect(),
            identities: identities.iter().map(ToString::to_string).collect(),
            ..TargetOptions::default()
        };
        let listed = read(flags(Some("list"), &[], &["/^web/"])).unwrap();
        let listed = listed.with_agent("service").unwrap();
        let source = listed.discovery_source(None).unwrap();
        // The agent filter is implied, but a list of nodes has no agents.
        let wanted = listed.discovery_query(&source, None);
        assert_eq!((wanted.filter.agents().len(), wanted.filter.identities().len()), (0, 1));
        for (flags, told) in [
            (
                flags(Some("-"), &["apache"], &[]),
                "the discovery method stdin does not support classes (-C, -W)",
            ),
            (
                flags(None, &[], &["group:web"]),
                "auto does not support groups (-I group:NAME); use inventory",
            ),
            (
                flags(None, &[], &["pql:nodes[certname] { }"]),
                "does not support PQL (-I pql:QUERY); use puppetdb",
            ),
        ] {
            let error = read(flags).unwrap().discovery_source(None).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
            assert!(matches!(error, FleetRequestError::UnsupportedCondition(_)));
        }
    }

    #[test]
    fn filter_requires_the_agent_unless_nodes_are_named() {
        let target = read(words("apache")).unwrap().with_agent("rpcutil").unwrap();
        assert_eq!(target.filter.agents().len(), 1);
        let named = TargetOptions { identities: vec!["db1".into()], ..TargetOptions::default() };
        let target = read(named).unwrap().with_agent("rpcutil").unwrap();
        assert_eq!(target.filter.identities_exact(), Some(vec!["db1"]));
    }
}
