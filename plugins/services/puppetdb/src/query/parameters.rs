//! The parameters of a request: of its address, or of its body in JSON.

use muster_http::HttpRequest;
use serde_json::{Map, Value};

use super::error::{QueryError, Result, invalid};
use super::statement::{Paging, QueryStatement};

/// Parameters that change nothing here.
const IGNORED: [&str; 5] =
    ["pretty", "origin", "explain", "optimize_drop_unused_joins", "include_facts_expiration"];

/// The parameters of a query.
#[derive(Debug, Default)]
pub(super) struct QueryParameters {
    /// A list in JSON, or PQL.
    pub(super) query: Option<Value>,
    order: Vec<(String, bool)>,
    limit: Option<usize>,
    offset: Option<usize>,
    counts_all: bool,
    pub(super) summarize_by: Option<String>,
    pub(super) count_by: Option<String>,
    pub(super) counts_filter: Option<Value>,
}

impl QueryParameters {
    pub(super) fn read(request: &HttpRequest) -> Result<Self> {
        let mut parameters = Self::default();
        let Ok(pairs) = request.parameters() else {
            return invalid(
                "the query of the address is not valid: write %XX for other characters",
            );
        };
        for (name, value) in pairs {
            parameters.set(&name, value.into())?;
        }
        if let Some(body) = request.posted.as_deref().filter(|body| !body.is_empty()) {
            let fields: std::result::Result<Map<String, Value>, _> = serde_json::from_slice(body);
            let fields = fields.map_err(|error| {
                QueryError::Invalid(format!("the body is not an object in JSON: {error}"))
            })?;
            for (name, value) in fields {
                parameters.set(&name, value)?;
            }
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        match name {
            _ if value.is_null() => {}
            "query" => self.query = read_query(value)?,
            "order_by" => self.order = read_order(&parse_list(name, value)?)?,
            "limit" => self.limit = Some(read_number(name, &value)?),
            "offset" => self.offset = Some(read_number(name, &value)?),
            "include_total" => self.counts_all = is_true(&value),
            "summarize_by" => self.summarize_by = value.as_str().map(str::to_owned),
            "count_by" => self.count_by = value.as_str().map(str::to_owned),
            "counts_filter" => self.counts_filter = Some(parse_list(name, value)?),
            "distinct_resources" if !is_true(&value) => {}
            _ if IGNORED.contains(&name) => {}
            _ => return invalid(format!("Unsupported query parameter '{name}'")),
        }
        Ok(())
    }

    /// Sets the page of a query, where a parameter does.
    pub(super) fn apply_paging(&self, statement: &mut QueryStatement) {
        let paging = &mut statement.paging;
        if !self.order.is_empty() {
            paging.order.clone_from(&self.order);
        }
        paging.limit = self.limit.or(paging.limit);
        paging.offset = self.offset.unwrap_or(paging.offset);
        paging.counts_all = self.counts_all;
    }

    pub(super) fn paging(&self) -> Paging {
        let (limit, offset) = (self.limit, self.offset.unwrap_or_default());
        Paging { order: self.order.clone(), limit, offset, counts_all: self.counts_all }
    }

    /// Whether the number of all rows is wanted.
    pub(super) fn counts_all(&self) -> bool {
        self.counts_all
    }
}

/// A list in JSON stays; a text that is one is parsed, and another text is PQL.
fn read_query(value: Value) -> Result<Option<Value>> {
    match value {
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) if text.trim_start().starts_with('[') => {
            parse_list("query", Value::String(text)).map(Some)
        }
        other => Ok(Some(other)),
    }
}

fn parse_list(name: &str, value: Value) -> Result<Value> {
    let Value::String(text) = value else { return Ok(value) };
    serde_json::from_str(&text)
        .or_else(|error| invalid(format!("Malformed JSON for {name}: {error}")))
}

fn read_number(name: &str, value: &Value) -> Result<usize> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    number.map_or_else(
        || invalid(format!("Illegal value '{value}' for :{name}; expected a number")),
        Ok,
    )
}

fn is_true(value: &Value) -> bool {
    value == &Value::Bool(true) || value.as_str() == Some("true")
}

fn read_order(value: &Value) -> Result<Vec<(String, bool)>> {
    let fields = value.as_array().into_iter().flatten().map(|field| {
        let name = field.get("field").and_then(Value::as_str);
        let order = field.get("order").and_then(Value::as_str).unwrap_or("asc").to_lowercase();
        match (name, order.as_str()) {
            (Some(name), "asc" | "desc") => Ok((name.to_owned(), order == "desc")),
            _ => invalid(format!("Illegal value '{value}' for :order_by; expected an array of maps with field and order")),
        }
    });
    fields.collect()
}
