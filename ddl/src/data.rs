//! The schema of a data source: its query, its outputs and its timeout.
//!
//! The layout is that of an agent's DDL with one `query` in place of actions. A [`DataDdl`] has passed all checks.

use std::time::Duration;

use serde_json::Value;

use crate::JsonObject;
use crate::check;
use crate::error::{DataQueryError, DdlError, shown_value, truncate_text};
use crate::ordered_json::OrderedMap;
use crate::parse::{DocumentInput, DocumentOutput, read_document};
use crate::schema::{DdlMetadata, InputSchema, OutputSchema};
use crate::violation::ValueViolation;

/// The schema of one data source.
#[derive(Debug, Clone)]
pub struct DataDdl {
    metadata: DdlMetadata,
    query: Option<InputSchema>,
    outputs: Vec<OutputSchema>,
    examples: Vec<DataExample>,
    warnings: Vec<String>,
}

/// A query and its answer, for documentation and as a test of the schema.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct DataExample {
    /// An expression that uses the source.
    pub expression: String,
    /// What the expression means.
    #[serde(default)]
    pub description: String,
    /// The query.
    pub query: Option<String>,
    /// The answer.
    #[serde(default)]
    pub output: JsonObject,
}

#[derive(serde::Deserialize)]
struct DataDdlDocument {
    metadata: DdlMetadata,
    query: Option<DocumentInput>,
    #[serde(default)]
    output: OrderedMap<DocumentOutput>,
    #[serde(default)]
    examples: Vec<DataExample>,
}

impl DataDdl {
    /// Parses and checks a document. Unknown keys are tolerated, see [`DataDdl::warnings`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DdlError> {
        let (document, mut warnings) = read_document::<DataDdlDocument>(bytes)?;
        check::check_metadata(&document.metadata)?;
        let query = document
            .query
            .map(|query| check::check_input("query".to_owned(), query, "query", &mut warnings))
            .transpose()?;
        let ddl = Self {
            query,
            outputs: check::check_outputs(document.output, "data source", &mut warnings)?,
            metadata: document.metadata,
            examples: document.examples,
            warnings,
        };
        for (number, example) in (1..).zip(&ddl.examples) {
            ddl.check_query(example.query.as_deref())
                .and_then(|()| ddl.check_answer(example.output.clone()))
                .map_err(|source| DdlError::DataExample { number, source: Box::new(source) })?;
        }
        Ok(ddl)
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Timeout of one query.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.metadata.timeout)
    }

    /// Description, author, licence and the like.
    pub fn metadata(&self) -> &DdlMetadata {
        &self.metadata
    }

    /// The query's schema; `None` if the source takes no query.
    pub fn query_schema(&self) -> Option<&InputSchema> {
        self.query.as_ref()
    }

    /// The outputs, in document order.
    pub fn outputs(&self) -> &[OutputSchema] {
        &self.outputs
    }

    /// Example queries and answers.
    pub fn examples(&self) -> &[DataExample] {
        &self.examples
    }

    /// Tolerated problems of the document.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Checks that the source accepts this query.
    pub fn check_query(&self, query: Option<&str>) -> Result<(), DataQueryError> {
        let source = || self.name().to_owned();
        match (&self.query, query.filter(|query| !query.is_empty())) {
            (None, Some(_)) => Err(DataQueryError::Unexpected(source())),
            (Some(declared), None) if !declared.optional => Err(DataQueryError::Missing {
                source_name: source(),
                prompt: declared.prompt.clone(),
            }),
            (Some(declared), Some(query)) => {
                declared.check_value(&Value::from(query)).map_err(|violation| {
                    DataQueryError::Invalid {
                        source_name: source(),
                        query: truncate_text(query),
                        violation,
                    }
                })
            }
            (_, None) => Ok(()),
        }
    }

    /// The violation of a given query, if any.
    pub fn query_violation(&self, query: &str) -> Option<ValueViolation> {
        self.query.as_ref()?.check_value(&Value::from(query)).err()
    }

    /// The answer with null for missing outputs, or the reason for refusal.
    pub fn check_answer(&self, given: JsonObject) -> Result<JsonObject, DataQueryError> {
        let declared = |name: &str| self.outputs.iter().any(|output| output.name == name);
        if let Some(name) = given.keys().find(|name| !declared(name)) {
            return Err(DataQueryError::Undeclared {
                source_name: self.name().to_owned(),
                output: truncate_text(name),
            });
        }
        let mut complete = given;
        for output in &self.outputs {
            let value = complete.entry(output.name.clone()).or_insert(Value::Null);
            output.check_value(value).map_err(|violation| DataQueryError::Output {
                source_name: self.name().to_owned(),
                output: output.name.clone(),
                value: shown_value(value, output.sensitive),
                violation,
            })?;
        }
        Ok(complete)
    }
}
