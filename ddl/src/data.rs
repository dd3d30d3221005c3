//! The schema of a data source: what it is asked, what it answers, how long that may take.
//!
//! The layout is that of an agent's DDL with one `query` in the place of actions. Values of [`DataDdl`] exist only
//! after every check has passed.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::check;
use crate::error::{DdlError, QueryError, shortened, shown_value};
use crate::parse::{DocumentInput, DocumentOutput, InOrder, read};
use crate::schema::{Input, Metadata, Output};
use crate::validate::Violation;

/// The schema of one data source.
#[derive(Debug, Clone)]
pub struct DataDdl {
    metadata: Metadata,
    query: Option<Input>,
    outputs: Vec<Output>,
    examples: Vec<DataExample>,
    warnings: Vec<String>,
}

/// A question and its answer, for documentation and as a proof that code and schema agree.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct DataExample {
    /// An expression that uses the source.
    pub expression: String,
    /// What the expression says.
    #[serde(default)]
    pub description: String,
    /// The query.
    #[serde(default)]
    pub query: Option<String>,
    /// The answer.
    #[serde(default)]
    pub output: Map<String, Value>,
}

#[derive(serde::Deserialize)]
struct Document {
    metadata: Metadata,
    #[serde(default)]
    query: Option<DocumentInput>,
    #[serde(default)]
    output: InOrder<DocumentOutput>,
    #[serde(default)]
    examples: Vec<DataExample>,
}

impl DataDdl {
    /// Reads and checks a document. Unknown keys are tolerated, see [`DataDdl::warnings`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DdlError> {
        let (document, mut warnings) = read::<Document>(bytes)?;
        check::metadata(&document.metadata)?;
        let query = document
            .query
            .map(|query| check::input("query".to_owned(), query, "query", &mut warnings))
            .transpose()?;
        let ddl = Self {
            query,
            outputs: check::outputs(document.output, "output", &mut warnings)?,
            metadata: document.metadata,
            examples: document.examples,
            warnings,
        };
        for (number, example) in (1..).zip(&ddl.examples) {
            ddl.check_query(example.query.as_deref())
                .and_then(|()| ddl.check_answer(example.output.clone()))
                .map_err(|source| DdlError::DataExample {
                    number,
                    source: Box::new(source),
                })?;
        }
        Ok(ddl)
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// How long one answer may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.metadata.timeout)
    }

    /// Description, author, licence and the like.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What it is asked for; none, if there is nothing to ask.
    pub fn query(&self) -> Option<&Input> {
        self.query.as_ref()
    }

    /// What it answers, in the document's order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Questions and their answers.
    pub fn examples(&self) -> &[DataExample] {
        &self.examples
    }

    /// What was odd about the document and yet tolerated.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the source may be asked this.
    pub fn check_query(&self, query: Option<&str>) -> Result<(), QueryError> {
        let source = || self.name().to_owned();
        match (&self.query, query.filter(|query| !query.is_empty())) {
            (None, Some(_)) => Err(QueryError::Needless {
                source_name: source(),
            }),
            (Some(declared), None) if !declared.optional => Err(QueryError::Missing {
                source_name: source(),
                prompt: declared.prompt.clone(),
            }),
            (Some(declared), Some(query)) => {
                declared
                    .check(&Value::from(query))
                    .map_err(|violation| QueryError::Invalid {
                        source_name: source(),
                        query: shortened(query),
                        violation,
                    })
            }
            (_, None) => Ok(()),
        }
    }

    /// What is wrong with a query that is given, if it is.
    pub fn query_violation(&self, query: &str) -> Option<Violation> {
        self.query.as_ref()?.check(&Value::from(query)).err()
    }

    /// The answer with null for what was left out, or why it is refused.
    pub fn check_answer(
        &self,
        given: Map<String, Value>,
    ) -> Result<Map<String, Value>, QueryError> {
        let declared = |name: &str| self.outputs.iter().any(|output| output.name == name);
        if let Some(name) = given.keys().find(|name| !declared(name)) {
            return Err(QueryError::Undeclared {
                source_name: self.name().to_owned(),
                output: shortened(name),
            });
        }
        let mut complete = given;
        for output in &self.outputs {
            let value = complete.entry(output.name.clone()).or_insert(Value::Null);
            output
                .check(value)
                .map_err(|violation| QueryError::Output {
                    source_name: self.name().to_owned(),
                    output: output.name.clone(),
                    value: shown_value(value, output.sensitive),
                    violation,
                })?;
        }
        Ok(complete)
    }
}
