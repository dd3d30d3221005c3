//! DDLs of data sources, used to check filter expressions before they are sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_ddl::{BUILTIN_DATA_SOURCES, DataDdl, ValueType};
use muster_filter::{
    DeclaredQuery, DeclaredSource, DeclaredSources, NodeFilter, OutputKind, SelectExpression,
};

use crate::ddl::{DdlStoreError, read_json_files};

/// Maximum time that nodes spend on the data sources of one request.
const MAX_NODE_EVALUATION_TIME: Duration = Duration::from_secs(10);

/// DDLs of data sources by name.
#[derive(Debug, Default)]
pub struct DataDdlStore {
    ddls: BTreeMap<String, Arc<DataDdl>>,
    problems: Vec<DdlStoreError>,
}

impl DataDdlStore {
    /// Loads the built-in DDLs, and those in `directory/data/*.json`, which take precedence. A file that cannot be used is left out; see
    /// [`Self::problems`].
    pub fn load(directory: Option<&Path>) -> Result<Self, DdlStoreError> {
        let mut store = Self::default();
        for (name, text) in BUILTIN_DATA_SOURCES {
            store.add_file(Path::new(name), text.as_bytes())?;
        }
        let directory = directory.map(|directory| directory.join("data"));
        for (path, read) in read_json_files(directory.as_deref())? {
            if let Err(problem) = read.and_then(|bytes| store.add_file(&path, &bytes)) {
                store.problems.push(problem);
            }
        }
        Ok(store)
    }

    /// The files that cannot be used.
    pub fn problems(&self) -> &[DdlStoreError] {
        &self.problems
    }

    fn add_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), DdlStoreError> {
        let ddl = DataDdl::from_slice(bytes)
            .map_err(|source| DdlStoreError::Ddl { path: path.to_owned(), source })?;
        self.ddls.insert(ddl.name().to_owned(), Arc::new(ddl));
        Ok(())
    }

    /// All DDLs, by name.
    pub fn all(&self) -> impl Iterator<Item = &DataDdl> {
        self.ddls.values().map(Arc::as_ref)
    }

    /// The declarations for expression checks.
    pub fn declared_sources(&self) -> DeclaredSources {
        let mut sources = DeclaredSources::default();
        for (name, ddl) in &self.ddls {
            sources.declare_source(name, declare_source(ddl));
        }
        sources
    }

    /// Additional time that nodes may need to evaluate this filter, beyond the normal reply time.
    pub fn evaluation_time(&self, filter: &NodeFilter) -> Duration {
        let lookups = filter.select().map(SelectExpression::data_lookups).unwrap_or_default();
        let timeouts = lookups.into_iter().map(|lookup| {
            let ddl = self.ddls.get(&lookup.source);
            ddl.map_or(MAX_NODE_EVALUATION_TIME, |ddl| ddl.timeout())
        });
        timeouts.sum::<Duration>().min(MAX_NODE_EVALUATION_TIME)
    }
}

fn declare_source(ddl: &Arc<DataDdl>) -> DeclaredSource {
    let outputs = ddl.outputs().iter();
    DeclaredSource {
        query: ddl.query_schema().map(|query| DeclaredQuery {
            optional: query.optional,
            prompt: query.prompt.clone(),
            check: {
                let ddl = Arc::clone(ddl);
                Arc::new(move |query| match ddl.query_violation(query) {
                    None => Ok(()),
                    Some(violation) => Err(violation.into()),
                })
            },
        }),
        outputs: outputs
            .map(|output| (output.name.clone(), value_kind(output.value_type)))
            .collect(),
    }
}

/// The comparisons that expressions may use for an output of this type.
pub fn value_kind(value_type: ValueType) -> OutputKind {
    match value_type {
        ValueType::String | ValueType::List => OutputKind::Text,
        ValueType::Boolean => OutputKind::Boolean,
        ValueType::Integer | ValueType::Float | ValueType::Number => OutputKind::Number,
        ValueType::Array | ValueType::Hash => OutputKind::List,
        ValueType::Any => OutputKind::Any,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_filter::{NodeFilter, SelectExpression};

    use super::DataDdlStore;

    #[test]
    fn data_source_examples_are_declared_expressions() {
        let store = DataDdlStore::load(None).unwrap();
        let sources = store.declared_sources();
        for ddl in store.all() {
            for example in ddl.examples() {
                let select = SelectExpression::parse_declared(&example.expression, &sources);
                let select = select.unwrap_or_else(|error| panic!("{}: {error}", ddl.name()));
                let lookups = select.data_lookups();
                assert_eq!(lookups[0].source, ddl.name());
                assert_eq!(lookups[0].query, example.query);
            }
        }
    }

    #[test]
    fn undeclared_lookups_are_refused_with_their_column() {
        let sources = DataDdlStore::load(None).unwrap().declared_sources();
        for (text, column, expected) in [
            ("servise('sshd').running", 1, "did you mean service?"),
            ("weather('x').rain", 1, "known are agent, class, collective"),
            ("a and service('sshd').runing", 23, "did you mean running?"),
            ("service('sshd').weather", 17, "known are enabled, present"),
            ("service().running", 1, "service(\"...\") with the name of a service"),
            ("puppet('x').enabled", 9, "puppet() without a query"),
            ("fstat('etc/hosts').md5=/a/", 8, "\"etc/hosts\" must match"),
            ("service('ssh d').running", 10, "query for service"),
            ("puppet()", 1, "an output after puppet(...), such as puppet(...).applying"),
            (
                "package('openssl').version",
                27,
                "a comparison after package(\"openssl\").version, because it is a string",
            ),
            ("package('openssl').version >= 3", 31, "semver(..., \">= 1.2\")"),
            ("puppet().enabled > 1", 20, "= or !=, not"),
            (
                "puppet().enabled = maybe",
                20,
                "true or false, because puppet().enabled is true or false",
            ),
            ("puppet().enabled =~ t", 21, "instead of a regular expression"),
            (
                "process('nginx').count > many",
                26,
                "a number, because process(\"nginx\").count is a number",
            ),
            ("process('nginx').count = /1/", 26, "a number instead of"),
            ("process('nginx').pids > 1", 25, "include(...)"),
            (
                "'x' in package('o').version",
                8,
                "a list, because package(\"o\").version is a string",
            ),
            ("semver(puppet().enabled, '1')", 8, "a string, because puppet().enabled"),
            ("process('nginx').count in [1, two]", 31, "a number"),
        ] {
            let error = SelectExpression::parse_declared(text, &sources).unwrap_err();
            assert!(error.expected().contains(expected), "{text}: {error}");
            assert_eq!(error.column(), column, "{text}: {error}");
        }
        for text in [
            "fstat('/etc/hosts').md5=/^ab/ and !(puppet().enabled=false)",
            "service('sshd').running and semver(package('openssl').version, '>= 3')",
            "8 in process('/nginx: worker/').pids or process('nginx').count in [1, 2]",
            "config_item('x').value > 3 and config_item('x').value",
            "fact('a').value=1 and fact('a').exists and agent('x').version=1 and class('y')",
        ] {
            assert!(SelectExpression::parse_declared(text, &sources).is_ok(), "{text}");
        }
    }

    #[test]
    fn timeout_covers_the_timeouts_of_the_data_sources() {
        let store = DataDdlStore::load(None).unwrap();
        let patience =
            |text: &str| store.evaluation_time(&NodeFilter::default().with_select(text).unwrap());
        assert_eq!(patience("country=uk"), Duration::ZERO);
        let twice = "fstat('/a').size>1 and fstat('/a').mtime_age>1";
        assert_eq!(patience(twice), Duration::from_secs(5));
        let long = "fstat('/a').size>1 or fstat('/b').size>1 or fstat('/c').size>1";
        assert_eq!(patience(long), Duration::from_secs(10));
    }
}
