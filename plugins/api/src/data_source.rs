//! Data sources: named values that queries and filters read from a node. The schema declares the query and the values; undeclared values are
//! rejected.

use std::fmt;
use std::sync::Arc;

use muster_ddl::{DataDdl, DataQueryError, DdlError};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::ActionFuture;
use crate::context::CallContext;
use crate::error::ActionError;

/// Queryable values on a node, such as `fact("os.family")` or `fstat("/etc/hosts")`, with a typed output.
pub trait DataSource: Send + Sync + 'static {
    /// The name in the DDL.
    const NAME: &'static str;
    /// The values: serialises to a JSON object with the DDL's names. A value that is null or omitted is known to be absent.
    type Output: Serialize + Send;

    /// Looks up the values for a query that the DDL has validated. The future is dropped at the deadline; use [`CallContext::run_blocking`] for
    /// blocking work. An error makes every value unknown.
    fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;
}

/// A type-erased data source with its schema: the output is JSON.
#[derive(Clone)]
pub struct ValidatedDataSource {
    ddl: Arc<DataDdl>,
    source: Arc<dyn ErasedDataSource>,
}

/// Why a data source cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum DataSourceError {
    /// The DDL is invalid.
    #[error("the DDL of the data source `{name}` is invalid")]
    Ddl {
        /// The name of the source in the code.
        name: &'static str,
        /// The cause.
        #[source]
        source: DdlError,
    },
    /// The schema and the code have different names.
    #[error("the data source `{code}` has the DDL of `{ddl}`")]
    Name {
        /// The name in the code.
        code: &'static str,
        /// The name in the schema.
        ddl: String,
    },
}

impl ValidatedDataSource {
    /// Combines a source with the JSON text of its schema.
    pub fn new<S: DataSource>(ddl: &str, source: S) -> Result<Self, DataSourceError> {
        let ddl = DataDdl::from_slice(ddl.as_bytes())
            .map_err(|source| DataSourceError::Ddl { name: S::NAME, source })?;
        if ddl.name() != S::NAME {
            return Err(DataSourceError::Name { code: S::NAME, ddl: ddl.name().to_owned() });
        }
        Ok(Self { ddl: Arc::new(ddl), source: Arc::new(source) })
    }

    /// Combines a source with the built-in schema of the same name.
    pub fn with_builtin_ddl<S: DataSource>(source: S) -> Result<Self, DataSourceError> {
        Self::new(muster_ddl::builtin_data(S::NAME).unwrap_or_default(), source)
    }

    /// The name in a query.
    pub fn name(&self) -> &str {
        self.ddl.name()
    }

    /// The schema.
    pub fn ddl(&self) -> &Arc<DataDdl> {
        &self.ddl
    }

    /// Validates the query, runs it, and validates the result. Every declared value is present in the result; an absent one is null.
    pub async fn query_values(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<Map<String, Value>, ActionError> {
        let query = query.filter(|query| !query.is_empty());
        self.ddl.check_query(query).map_err(|error| map_query_error(&error))?;
        let values = self.source.query_json(cx, query).await?;
        self.ddl
            .check_answer(values)
            .map_err(|error| ActionError::internal_error(error.to_string()))
    }
}

impl fmt::Debug for ValidatedDataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").field("name", &self.name()).finish_non_exhaustive()
    }
}

fn map_query_error(error: &DataQueryError) -> ActionError {
    if error.is_missing() {
        ActionError::missing_input(error.to_string())
    } else {
        ActionError::invalid_input(error.to_string())
    }
}

/// A type-erased data source.
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
                    "the data source returned {other}, not an object"
                ))),
                Err(error) => Err(ActionError::internal_error(format!(
                    "cannot write the outputs as JSON: {error}"
                ))),
            }
        })
    }
}
