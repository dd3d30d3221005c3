//! Data sources: named values that queries and filters read from a node. The schema declares the query and the values; undeclared values are
//! rejected.

use std::any::TypeId;
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use muster_ddl::{DataDdl, DataQueryError, DdlError, builtin_data};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::{ActionFuture, encode_outputs};
use crate::context::{BlockingContext, CallContext};
use crate::error::ActionError;

/// A function from a query to values.
type QueryFunction = dyn for<'a> Fn(&'a CallContext, &'a str) -> ActionFuture<'a> + Send + Sync;

/// Queryable values on a node, such as `fact("os.family")` or `fstat("/etc/hosts")`, with their schema.
///
/// A source is a function of the state that it was made with, the context of the call, and the query, which the DDL has validated; it is empty if
/// there is none. The output serialises to a JSON object with the DDL's names. A value that is null or omitted is known to be absent; an error makes
/// every value unknown.
#[derive(Clone)]
pub struct ValidatedDataSource {
    ddl: Arc<DataDdl>,
    query: Arc<QueryFunction>,
    output: TypeId,
}

/// Why a data source cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum DataSourceError {
    /// The DDL is invalid.
    #[error("the DDL of a data source is invalid")]
    Ddl(#[from] DdlError),
    /// The DDL crate has no data source of this name.
    #[error("there is no built-in DDL of a data source `{0}`")]
    NotBuiltin(String),
}

impl ValidatedDataSource {
    /// Combines a function that waits with the JSON text of its schema. Its future is dropped at the deadline.
    pub fn new<S, O, Fut>(
        ddl: &str,
        state: &S,
        query: impl Fn(S, CallContext, String) -> Fut + Send + Sync + 'static,
    ) -> Result<Self, DataSourceError>
    where
        S: Clone + Send + Sync + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, ActionError>> + Send + 'static,
    {
        let state = state.clone();
        Self::from_function::<O>(ddl, move |cx, text| {
            let values = query(state.clone(), cx.clone(), text.to_owned());
            Box::pin(async move { encode_outputs("data source", values.await?) })
        })
    }

    /// Combines a function that works with files or programs with the built-in schema of this name. It runs on the pool for blocking work.
    pub fn blocking<S, O>(
        name: &str,
        state: &S,
        query: impl Fn(&S, &BlockingContext, &str) -> Result<O, ActionError> + Send + Sync + 'static,
    ) -> Result<Self, DataSourceError>
    where
        S: Clone + Send + Sync + 'static,
        O: Serialize + Send + 'static,
    {
        let query = Arc::new(query);
        Self::new(builtin_ddl(name)?, state, move |state: S, cx: CallContext, text| {
            let query = Arc::clone(&query);
            async move { cx.run_blocking_in_context(move |cx| query(&state, cx, &text)).await }
        })
    }

    /// Combines a function that reads memory only with the built-in schema of this name.
    pub fn immediate<O: Serialize + 'static>(
        name: &str,
        query: impl Fn(&CallContext, &str) -> O + Send + Sync + 'static,
    ) -> Result<Self, DataSourceError> {
        Self::from_function::<O>(builtin_ddl(name)?, move |cx, text| {
            Box::pin(ready(encode_outputs("data source", query(cx, text))))
        })
    }

    fn from_function<O: 'static>(
        ddl: &str,
        query: impl for<'a> Fn(&'a CallContext, &'a str) -> ActionFuture<'a> + Send + Sync + 'static,
    ) -> Result<Self, DataSourceError> {
        let ddl = Arc::new(DataDdl::from_slice(ddl.as_bytes())?);
        Ok(Self { ddl, query: Arc::new(query), output: TypeId::of::<O>() })
    }

    /// The name in a query.
    pub fn name(&self) -> &str {
        self.ddl.name()
    }

    /// The schema.
    pub fn ddl(&self) -> &Arc<DataDdl> {
        &self.ddl
    }

    /// Whether the values are of the type `O`.
    pub(crate) fn has_output<O: 'static>(&self) -> bool {
        self.output == TypeId::of::<O>()
    }

    /// Validates the query, runs it, and validates the result. Every declared value is present in the result; an absent one is null.
    pub async fn query_values(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<Map<String, Value>, ActionError> {
        let query = query.filter(|query| !query.is_empty());
        self.ddl.check_query(query).map_err(|error| map_query_error(&error))?;
        let values = (self.query)(cx, query.unwrap_or_default()).await?;
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

fn builtin_ddl(name: &str) -> Result<&'static str, DataSourceError> {
    builtin_data(name).ok_or_else(|| DataSourceError::NotBuiltin(name.to_owned()))
}

fn map_query_error(error: &DataQueryError) -> ActionError {
    if error.is_missing() {
        ActionError::missing_input(error.to_string())
    } else {
        ActionError::invalid_input(error.to_string())
    }
}
