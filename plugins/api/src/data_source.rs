//! A data source: values that a node can be asked for by name, and filtered by. Its schema says what it is asked and
//! what it answers; nothing passes that the schema does not know.

use std::fmt;
use std::sync::Arc;

use muster_ddl::{DataDdl, DataQueryError, DdlError};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::ActionFuture;
use crate::context::CallContext;
use crate::error::ActionError;

/// Queryable values on a node, such as `fact("os.family")` or `fstat("/etc/hosts")`, with a type of their own.
pub trait DataSource: Send + Sync + 'static {
    /// The name in the DDL.
    const NAME: &'static str;
    /// The values: serialises to a JSON object with the DDL's names. What is null or left out is known to be nothing.
    type Output: Serialize + Send;

    /// Looks the values up, for a query that the DDL has validated. Dropped at the deadline; blocking work belongs on
    /// [`CallContext::run_blocking`]. An error makes every value unknown.
    fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;
}

/// A data source with its schema: JSON out, whatever its own type is.
#[derive(Clone)]
pub struct ValidatedDataSource {
    ddl: Arc<DataDdl>,
    source: Arc<dyn ErasedDataSource>,
}

/// Why a data source cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum DataSourceError {
    /// Its schema is not one.
    #[error("the DDL of the data source {name} cannot be used")]
    Ddl {
        /// The source, as the code names it.
        name: &'static str,
        /// Why.
        #[source]
        source: DdlError,
    },
    /// Schema and code disagree on the name.
    #[error("the data source {code} has the DDL of {ddl}")]
    Name {
        /// The name in the code.
        code: &'static str,
        /// The name in the schema.
        ddl: String,
    },
}

impl ValidatedDataSource {
    /// Puts code and the JSON of its schema together.
    pub fn new<S: DataSource>(ddl: &str, source: S) -> Result<Self, DataSourceError> {
        let ddl = DataDdl::from_slice(ddl.as_bytes()).map_err(|source| DataSourceError::Ddl {
            name: S::NAME,
            source,
        })?;
        if ddl.name() != S::NAME {
            return Err(DataSourceError::Name {
                code: S::NAME,
                ddl: ddl.name().to_owned(),
            });
        }
        Ok(Self {
            ddl: Arc::new(ddl),
            source: Arc::new(source),
        })
    }

    /// The same, with the built-in schema of that name.
    pub fn with_builtin_ddl<S: DataSource>(source: S) -> Result<Self, DataSourceError> {
        Self::new(
            muster_ddl::builtin_data(S::NAME).unwrap_or_default(),
            source,
        )
    }

    /// The name in a query.
    pub fn name(&self) -> &str {
        self.ddl.name()
    }

    /// The schema.
    pub fn ddl(&self) -> &Arc<DataDdl> {
        &self.ddl
    }

    /// Asks, between the checks of the schema: every declared value is there, null where it is nothing.
    pub async fn query_values(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<Map<String, Value>, ActionError> {
        let query = query.filter(|query| !query.is_empty());
        self.ddl
            .check_query(query)
            .map_err(|error| map_query_error(&error))?;
        let answer = self.source.query_json(cx, query).await?;
        self.ddl
            .check_answer(answer)
            .map_err(|error| ActionError::internal_error(error.to_string()))
    }
}

impl fmt::Debug for ValidatedDataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

fn map_query_error(error: &DataQueryError) -> ActionError {
    if error.is_missing() {
        ActionError::missing_input(error.to_string())
    } else {
        ActionError::invalid_input(error.to_string())
    }
}

/// A source without its type.
trait ErasedDataSource: Send + Sync + 'static {
    fn query_json<'a>(&'a self, cx: &'a CallContext, query: Option<&'a str>) -> ActionFuture<'a>;
}

impl<S: DataSource> ErasedDataSource for S {
    fn query_json<'a>(&'a self, cx: &'a CallContext, query: Option<&'a str>) -> ActionFuture<'a> {
        Box::pin(async move {
            let output = DataSource::query(self, cx, query).await?;
            match serde_json::to_value(output) {
                Ok(Value::Object(output)) => Ok(output),
                Ok(other) => Err(ActionError::internal_error(format!(
                    "the answer is {other}, not an object"
                ))),
                Err(error) => Err(ActionError::internal_error(format!(
                    "the answer is no JSON: {error}"
                ))),
            }
        })
    }
}
