//! A data source: values that a node can be asked for by name, and filtered by. Its schema says what it is asked and
//! what it answers; nothing passes that the schema does not know.

use std::fmt;
use std::sync::Arc;

use muster_ddl::{DataDdl, DdlError, QueryError};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::Answer;
use crate::context::Context;
use crate::error::ActionError;

/// Queryable values on a node, such as `fact("os.family")` or `fstat("/etc/hosts")`, with a type of their own.
pub trait DataSource: Send + Sync + 'static {
    /// The name in the DDL.
    const NAME: &'static str;
    /// The values: serialises to a JSON object with the DDL's names. What is null or left out is known to be nothing.
    type Output: Serialize + Send;

    /// Looks the values up, for a query that the DDL has validated. Dropped at the deadline; blocking work belongs on
    /// [`Context::blocking`]. An error makes every value unknown.
    fn query(
        &self,
        cx: &Context,
        query: Option<&str>,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;
}

/// A data source with its schema: JSON out, whatever its own type is.
#[derive(Clone)]
pub struct Data {
    ddl: Arc<DataDdl>,
    source: Arc<dyn Erased>,
}

/// Why a data source cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
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

impl Data {
    /// Puts code and the JSON of its schema together.
    pub fn new<S: DataSource>(ddl: &str, source: S) -> Result<Self, DataError> {
        let ddl = DataDdl::from_slice(ddl.as_bytes()).map_err(|source| DataError::Ddl {
            name: S::NAME,
            source,
        })?;
        if ddl.name() != S::NAME {
            return Err(DataError::Name {
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
    pub fn builtin<S: DataSource>(source: S) -> Result<Self, DataError> {
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
    pub async fn query(
        &self,
        cx: &Context,
        query: Option<&str>,
    ) -> Result<Map<String, Value>, ActionError> {
        let query = query.filter(|query| !query.is_empty());
        self.ddl
            .check_query(query)
            .map_err(|error| refused(&error))?;
        let answer = self.source.query(cx, query).await?;
        self.ddl
            .check_answer(answer)
            .map_err(|error| ActionError::broken(error.to_string()))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

fn refused(error: &QueryError) -> ActionError {
    if error.is_missing() {
        ActionError::missing(error.to_string())
    } else {
        ActionError::invalid(error.to_string())
    }
}

/// A source without its type.
trait Erased: Send + Sync + 'static {
    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a>;
}

impl<S: DataSource> Erased for S {
    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let output = DataSource::query(self, cx, query).await?;
            match serde_json::to_value(output) {
                Ok(Value::Object(output)) => Ok(output),
                Ok(other) => Err(ActionError::broken(format!(
                    "the answer is {other}, not an object"
                ))),
                Err(error) => Err(ActionError::broken(format!(
                    "the answer is no JSON: {error}"
                ))),
            }
        })
    }
}
