//! Which nodes are meant, in which collective, and how long is listened for them: the filter flags, read.

use std::time::Duration;

use muster_wire::filter::{Filter, FilterError, Sources};
use muster_wire::identity::Name;

use super::error::AskError;
use crate::cli::filters::Filters;

/// Which nodes are meant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// What they must satisfy.
    pub filter: Filter,
    /// The collective; the configured one when absent.
    pub collective: Option<Name>,
    /// Listen exactly this long for nodes.
    pub listen: Option<Duration>,
}

type With = fn(Filter, &str) -> Result<Filter, FilterError>;

/// No data source can be asked yet: it would match nowhere.
fn with_select(filter: Filter, text: &str) -> Result<Filter, FilterError> {
    filter.with_declared_select(text, &Sources::default())
}

impl Target {
    /// Reads the flags.
    pub fn read(flags: &Filters) -> Result<Self, AskError> {
        let kinds: [(&'static str, &[String], With); 6] = [
            ("--with-fact", &flags.facts, Filter::with_fact),
            ("--with-class", &flags.classes, Filter::with_class),
            ("--with-agent", &flags.agents, Filter::with_agent),
            ("--with-identity", &flags.identities, Filter::with_identity),
            ("--with", &flags.mixed, Filter::with_words),
            ("--select", &flags.select, with_select),
        ];
        let mut filter = Filter::default();
        for (flag, texts, with) in kinds {
            for text in texts {
                filter = with(filter, text).map_err(|source| AskError::Filter { flag, source })?;
            }
        }
        Ok(Self {
            filter,
            collective: flags.target.clone(),
            listen: flags.discovery_timeout,
        })
    }

    /// The target of a request to `agent`: whoever has it, unless nodes are named.
    pub fn with_agent(mut self, agent: &str) -> Result<Self, AskError> {
        if self.filter.identities_exact().is_none() {
            let with = self.filter.with_agent(agent);
            self.filter = with.map_err(|source| AskError::Filter {
                flag: "--with-agent",
                source,
            })?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Target;
    use crate::cli::filters::Filters;
    use crate::exit::Exit;

    fn words(text: &str) -> Filters {
        Filters {
            mixed: vec![text.to_owned()],
            ..Filters::default()
        }
    }

    #[test]
    fn all_flags_go_into_one_filter() {
        let flags = Filters {
            facts: vec!["customer=acme".into()],
            classes: vec!["mysql::master".into()],
            agents: vec!["puppetral".into()],
            identities: vec!["/^db/".into()],
            mixed: vec!["environment=development apache".into()],
            select: vec!["a or b".into(), "not c".into()],
            ..Filters::default()
        };
        let filter = Target::read(&flags).unwrap().filter;
        assert_eq!((filter.facts().len(), filter.classes().len()), (2, 2));
        assert_eq!((filter.agents().len(), filter.identities().len()), (1, 1));
        let select = filter.select().map(ToString::to_string);
        assert_eq!(select.as_deref(), Some("(a or b) and not c"));
    }

    #[test]
    fn a_fault_is_pointed_at() {
        let error = Target::read(&words("environment=development =x")).unwrap_err();
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
        let flags = Filters {
            select: vec!["apache and fstat('/etc/hosts').md5=/^ab/".into()],
            ..Filters::default()
        };
        let error = Target::read(&flags).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        --select: cannot use filter "apache and fstat('/etc/hosts').md5=/^ab/": expected a known data source (fstat is none) at column 12

          apache and fstat('/etc/hosts').md5=/^ab/
                     ^
        "#);
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn whoever_has_the_agent_is_asked_unless_nodes_are_named() {
        let target = Target::read(&words("apache"))
            .unwrap()
            .with_agent("rpcutil")
            .unwrap();
        assert_eq!(target.filter.agents().len(), 1);
        let named = Filters {
            identities: vec!["db1".into()],
            ..Filters::default()
        };
        let target = Target::read(&named).unwrap().with_agent("rpcutil").unwrap();
        assert_eq!(target.filter.identities_exact(), Some(vec!["db1"]));
    }
}
