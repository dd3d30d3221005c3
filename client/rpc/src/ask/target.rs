//! Which nodes are meant, in which collective, where they are looked for, and for how long: the filter flags, read.

use std::path::Path;
use std::time::Duration;

use muster_client::discovery::{Kind, Options};
use muster_client::{DataStore, Source, Wanted};
use muster_ddl::Action;
use muster_wire::filter::{Filter, FilterError};
use muster_wire::identity::Name;

use super::error::AskError;
use crate::cli::filters::{Conditions, Filters};
use crate::settings::Settings;

/// Which nodes are meant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// What they must satisfy, the agent that is asked among it.
    pub filter: Filter,
    /// What was typed of it.
    typed: Filter,
    /// Groups of an inventory: `-I group:NAME`.
    groups: Vec<String>,
    /// Queries for `PuppetDB`: `-I pql:QUERY`.
    pql: Vec<String>,
    /// Where they are looked for; the configured place when absent.
    source: Option<Source>,
    /// The collective; the configured one when absent.
    pub collective: Option<Name>,
    /// Listen exactly this long for nodes.
    pub listen: Option<Duration>,
    /// How much longer nodes may take, for the data sources that they must ask.
    pub patience: Duration,
}

type With = fn(Filter, &str) -> Result<Filter, FilterError>;

impl Target {
    /// Reads the flags; expressions are checked against the data sources that are known.
    pub fn read(flags: &Filters, data: &DataStore) -> Result<Self, AskError> {
        let mut identities = Vec::new();
        let (mut groups, mut pql) = (Vec::new(), Vec::new());
        let Conditions {
            facts,
            classes,
            agents,
            identities: named,
            mixed,
            select,
        } = &flags.conditions;
        for text in named {
            match text.split_once(':') {
                Some(("group", name)) => groups.push(name.to_owned()),
                Some(("pql", query)) => pql.push(query.to_owned()),
                _ => identities.push(text.clone()),
            }
        }
        let kinds: [(&'static str, &[String], With); 5] = [
            ("--with-fact", facts, Filter::with_fact),
            ("--with-class", classes, Filter::with_class),
            ("--with-agent", agents, Filter::with_agent),
            ("--with-identity", &identities, Filter::with_identity),
            ("--with", mixed, Filter::with_words),
        ];
        let mut filter = Filter::default();
        for (flag, texts, with) in kinds {
            for text in texts {
                filter = with(filter, text).map_err(|source| AskError::Filter { flag, source })?;
            }
        }
        let sources = data.sources();
        for text in select {
            filter = filter
                .with_declared_select(text, &sources)
                .map_err(|source| AskError::Filter {
                    flag: "--select",
                    source,
                })?;
        }
        Ok(Self {
            typed: filter.clone(),
            patience: data.patience(&filter),
            filter,
            groups,
            pql,
            source: source(flags)?,
            collective: flags.target.clone(),
            listen: flags.discovery_timeout,
        })
    }

    /// All nodes of a collective, or of the configured one.
    pub fn of_collective(collective: Option<Name>) -> Self {
        Self {
            collective,
            source: Some(Source::Broadcast),
            ..Self::default()
        }
    }

    /// Where the nodes are looked for. What is wanted of them must be something that can be answered there.
    pub fn source(&self, settings: Option<&Settings>) -> Result<Source, AskError> {
        let configured = || settings.map(|settings| settings.source.clone());
        let source = self.source.clone().or_else(configured);
        let source = source.unwrap_or(Source::Broadcast);
        let method = source.method();
        method.check(&self.wanted(&source, None))?;
        Ok(source)
    }

    /// What is wanted of nodes that are looked for there. A source that knows nothing of agents is not asked for the one that the
    /// request is for: a node without it says so.
    pub fn wanted(&self, source: &Source, collective: Option<&Name>) -> Wanted {
        let knows_agents = source.method().answers().contains(&Kind::Agents);
        let filter = if knows_agents {
            &self.filter
        } else {
            &self.typed
        };
        Wanted {
            filter: filter.clone(),
            groups: self.groups.clone(),
            pql: self.pql.clone(),
            collective: self.collective.as_ref().or(collective).cloned(),
        }
    }

    /// Refuses a request that may change something and means everybody, where the settings want it to say whom it means. The
    /// agent alone says nothing: everybody has it.
    pub fn check_filtered(
        &self,
        source: &Source,
        action: &Action,
        settings: &Settings,
    ) -> Result<(), AskError> {
        let typed = &self.typed;
        let filtered = !typed.facts().is_empty()
            || !typed.classes().is_empty()
            || !typed.identities().is_empty()
            || typed.select().is_some()
            || !self.groups.is_empty()
            || !self.pql.is_empty()
            || matches!(source, Source::Flat { .. } | Source::Stdin { .. });
        if filtered || action.read_only() || !settings.require_filter {
            return Ok(());
        }
        Err(AskError::Unfiltered {
            action: action.name().to_owned(),
            file: settings.file.clone(),
        })
    }

    /// The target of a request to `agent`: whoever has it, unless nodes are named.
    pub fn with_agent(mut self, agent: &str) -> Result<Self, AskError> {
        let is_named = self.groups.is_empty()
            && self.pql.is_empty()
            && self.filter.identities_exact().is_some();
        if !is_named {
            let with = self.filter.with_agent(agent);
            self.filter = with.map_err(|source| AskError::Filter {
                flag: "--with-agent",
                source,
            })?;
        }
        Ok(self)
    }
}

/// Where the flags say that nodes are looked for, if they do.
fn source(flags: &Filters) -> Result<Option<Source>, AskError> {
    if let Some(list) = &flags.nodes {
        let (file, form) = (list.clone(), None);
        let is_stdin = list.as_os_str() == "-";
        return Ok(Some(if is_stdin {
            Source::Stdin { form }
        } else {
            Source::Flat { file, form }
        }));
    }
    let Some(method) = flags.method else {
        return Ok(None);
    };
    let mut options = Options::default();
    for pair in &flags.options {
        options.pair(pair)?;
    }
    Ok(Some(Source::read(method, &options, Path::new(""))?))
}

#[cfg(test)]
mod tests {
    use muster_client::DataStore;

    use super::Target;
    use crate::ask::error::AskError;
    use crate::cli::filters::{Conditions, Filters};
    use crate::exit::Exit;

    fn read(flags: &Filters) -> Result<Target, AskError> {
        Target::read(flags, &DataStore::load(None).unwrap())
    }

    fn of(conditions: Conditions) -> Filters {
        Filters {
            conditions,
            ..Filters::default()
        }
    }

    fn words(text: &str) -> Filters {
        of(Conditions {
            mixed: vec![text.to_owned()],
            ..Conditions::default()
        })
    }

    #[test]
    fn all_flags_go_into_one_filter() {
        let flags = of(Conditions {
            facts: vec!["customer=acme".into()],
            classes: vec!["mysql::master".into()],
            agents: vec!["puppetral".into()],
            identities: vec!["/^db/".into()],
            mixed: vec!["environment=development apache".into()],
            select: vec!["a or b".into(), "not c".into()],
        });
        let filter = read(&flags).unwrap().filter;
        assert_eq!((filter.facts().len(), filter.classes().len()), (2, 2));
        assert_eq!((filter.agents().len(), filter.identities().len()), (1, 1));
        let select = filter.select().map(ToString::to_string);
        assert_eq!(select.as_deref(), Some("(a or b) and not c"));
    }

    #[test]
    fn a_fault_is_pointed_at() {
        let error = read(&words("environment=development =x")).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --with: cannot use filter "environment=development =x": expected the name of a fact at column 25

          environment=development =x
                                  ^
        "#);
        assert_eq!(error.exit(), Exit::Usage);
        assert_eq!(error.hints().len(), 1);
    }

    #[test]
    fn an_expression_is_checked_before_anybody_is_asked() {
        let flags = of(Conditions {
            select: vec!["apache and fstat('/etc/hosts').md=/^ab/".into()],
            ..Conditions::default()
        });
        let error = read(&flags).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --select: cannot use filter "apache and fstat('/etc/hosts').md=/^ab/": expected an output of fstat (md is none; did you mean md5?) at column 32

          apache and fstat('/etc/hosts').md=/^ab/
                                         ^
        "#);
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn a_source_is_asked_only_what_it_can_answer() {
        let flags = |nodes: Option<&str>, words: &[&str], identities: &[&str]| Filters {
            nodes: nodes.map(Into::into),
            conditions: Conditions {
                mixed: words.iter().map(ToString::to_string).collect(),
                identities: identities.iter().map(ToString::to_string).collect(),
                ..Conditions::default()
            },
            ..Filters::default()
        };
        let listed = read(&flags(Some("list"), &[], &["/^web/"])).unwrap();
        let listed = listed.with_agent("service").unwrap();
        let source = listed.source(None).unwrap();
        // The agent is implied, and a list knows nothing of agents.
        let wanted = listed.wanted(&source, None);
        assert_eq!(
            (
                wanted.filter.agents().len(),
                wanted.filter.identities().len()
            ),
            (0, 1)
        );
        for (flags, told) in [
            (
                flags(Some("-"), &["apache"], &[]),
                "the discovery method stdin cannot answer classes (-C, -W)",
            ),
            (
                flags(None, &[], &["group:web"]),
                "broadcast cannot answer groups (-I group:NAME); only inventory can",
            ),
            (
                flags(None, &[], &["pql:nodes[certname] { }"]),
                "cannot answer PQL (-I pql:QUERY); only puppetdb can",
            ),
        ] {
            let error = read(&flags).unwrap().source(None).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
            assert_eq!(error.exit(), Exit::Usage);
        }
    }

    #[test]
    fn whoever_has_the_agent_is_asked_unless_nodes_are_named() {
        let target = read(&words("apache"))
            .unwrap()
            .with_agent("rpcutil")
            .unwrap();
        assert_eq!(target.filter.agents().len(), 1);
        let named = of(Conditions {
            identities: vec!["db1".into()],
            ..Conditions::default()
        });
        let target = read(&named).unwrap().with_agent("rpcutil").unwrap();
        assert_eq!(target.filter.identities_exact(), Some(vec!["db1"]));
    }
}
