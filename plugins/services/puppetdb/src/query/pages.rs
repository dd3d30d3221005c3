//! The pages: which query is at which path, and how its answer and its errors are written.

use muster_base::{error_chain, unix_millis_now};
use muster_directory::MountedPages;
use muster_filter::read_pql_syntax;
use muster_http::{HttpRequest, HttpResponse, HttpStatus};
use serde_json::{Map, Value, json};

use super::collect::{AnswerRows, page_rows};
use super::condition::Condition;
use super::entity::Entity;
use super::error::{QueryError, Result, invalid};
use super::event_counts::{aggregate_event_counts, event_counts};
use super::field::QueryField;
use super::parameters::QueryParameters;
use super::reader::QueryReader;
use super::run::QueryRun;
use super::sources::QuerySources;
use super::statement::QueryStatement;
use super::value::CompareOperator;
use crate::forms::format_time;

const JSON: &str = "application/json";
/// The version whose answers these are.
const VERSION: &str = "7.12.0";
const PATHS: [&str; 5] =
    ["/pdb/query/v4", "/pdb/meta/v1/", "/metrics/v1/mbeans", "/metrics/v2", "/status/v1/services"];
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The pages of a `PuppetDB`.
#[derive(Debug)]
pub struct PuppetdbPages {
    sources: QuerySources,
}

/// What is on a page.
enum Page {
    Document(Value),
    /// Rows, and the number of all if it was asked for.
    Rows(AnswerRows, bool),
}

impl MountedPages for PuppetdbPages {
    fn has_page(&self, path: &str) -> bool {
        PATHS.iter().any(|page| path.starts_with(page))
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let (status, document) = match self.page(request).and_then(write_page) {
            Ok(response) => return response,
            Err(QueryError::Invalid(message)) => {
                return HttpResponse::plain_text(HttpStatus::BadRequest, message);
            }
            Err(QueryError::NotFound(message)) => (HttpStatus::NotFound, json!({"error": message})),
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, path = request.path, "cannot answer a query");
                let message = "internal error; see the log of rpcd";
                return HttpResponse::plain_text(HttpStatus::InternalError, message);
            }
        };
        HttpResponse::page(status, JSON, document.to_string())
    }
}

impl PuppetdbPages {
    pub fn new(sources: QuerySources) -> Self {
        Self { sources }
    }

    fn page(&self, request: &HttpRequest) -> Result<Page> {
        let Ok(segments) = request.path_segments() else { return no_page(&request.path) };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let document = match segments.as_slice() {
            ["pdb", "query", "v4", path @ ..] => {
                return self.query_page(path, &QueryParameters::read(request)?);
            }
            ["pdb", "meta", "v1", "version"] => Some(json!({"version": VERSION})),
            ["pdb", "meta", "v1", "server-time"] => {
                Some(json!({"server_time": format_time(unix_millis_now())}))
            }
            ["metrics", "v1", "mbeans", path @ ..] => self.sources.metrics_v1(path),
            ["metrics", "v2", path @ ..] => self.sources.metrics_v2(path),
            ["status", "v1", "services", "puppetdb-status"] => Some(json!({
                "service_name": "puppetdb-status", "service_version": VERSION, "state": "running",
                "detail_level": "info",
                "status": {"maintenance_mode?": false, "read_db_up?": true, "write_db_up?": false},
            })),
            _ => None,
        };
        document.map_or_else(|| no_page(&request.path), |document| Ok(Page::Document(document)))
    }

    fn query_page(&self, path: &[&str], parameters: &QueryParameters) -> Result<Page> {
        match path {
            [] | [""] => self.root_page(parameters),
            ["event-counts"] => self.counts_page(parameters, false),
            ["aggregate-event-counts"] => self.counts_page(parameters, true),
            ["reports", hash, "events"] => {
                self.find_one(Entity::Reports, "hash", hash, &QueryParameters::default())?;
                self.list_page(Entity::Events, &[], &[("report", hash)], parameters)
            }
            ["reports", hash, part @ ("logs" | "metrics")] => {
                let mut report = self.find_one(Entity::Reports, "hash", hash, parameters)?;
                let mut expanded = report.remove(*part).unwrap_or_default();
                let data = expanded.get_mut("data").map(Value::take);
                Ok(Page::Document(data.unwrap_or_default()))
            }
            ["nodes", name, sub @ ("facts" | "resources"), tail @ ..]
            | ["catalogs", name, sub @ ("resources" | "edges"), tail @ ..]
            | ["factsets", name, sub @ "facts", tail @ ..] => {
                self.find_one(Entity::Nodes, "certname", name, &QueryParameters::default())?;
                self.list_sub_page(sub, tail, ("certname", name), parameters)
            }
            ["environments", name, sub, tail @ ..] => {
                self.list_sub_page(sub, tail, ("environment", name), parameters)
            }
            ["nodes", name] => self.one_page(Entity::Nodes, "certname", name, parameters),
            ["catalogs", name] => self.one_page(Entity::Catalogs, "certname", name, parameters),
            ["environments", name] => self.one_page(Entity::Environments, "name", name, parameters),
            [name, tail @ ..] => match Entity::find(name) {
                Some(entity) => self.list_page(entity, tail, &[], parameters),
                None => no_page(&path.join("/")),
            },
        }
    }

    /// A query that names its entity: PQL, or `["from", ...]`.
    fn root_page(&self, parameters: &QueryParameters) -> Result<Page> {
        let query = match &parameters.query {
            None => return invalid("Missing required query parameter 'query'"),
            Some(Value::String(pql)) => read_pql_syntax(pql)
                .or_else(|error| invalid(format!("PQL parse error: {error}")))?,
            Some(query) => query.clone(),
        };
        let statement = QueryStatement::read_from(&mut QueryReader::default(), &query)?;
        self.answer_rows(statement, parameters)
    }

    fn list_sub_page(
        &self,
        name: &str,
        tail: &[&str],
        restriction: (&str, &str),
        parameters: &QueryParameters,
    ) -> Result<Page> {
        match Entity::find(name) {
            Some(entity) => self.list_page(entity, tail, &[restriction], parameters),
            None => no_page(name),
        }
    }

    /// The rows of an entity, with the restrictions of the path.
    fn list_page(
        &self,
        entity: Entity,
        tail: &[&str],
        restrictions: &[(&str, &str)],
        parameters: &QueryParameters,
    ) -> Result<Page> {
        let query = parameters.query.as_ref();
        let mut statement = QueryStatement::read(&mut QueryReader::default(), entity, query)?;
        for (name, text) in restrictions {
            statement.restrict(equals(entity, name, (*text).into())?);
        }
        for condition in tail_conditions(entity, tail)? {
            statement.restrict(condition);
        }
        if entity == Entity::FactNames && statement.columns.is_none() {
            let answer = self.run_paged(statement, parameters)?;
            let names = answer.rows.into_iter().filter_map(|mut row| row.remove("name"));
            return Ok(Page::Document(names.collect()));
        }
        self.answer_rows(statement, parameters)
    }

    fn answer_rows(&self, statement: QueryStatement, parameters: &QueryParameters) -> Result<Page> {
        let answer = self.run_paged(statement, parameters)?;
        Ok(Page::Rows(answer, parameters.counts_all()))
    }

    fn run_paged(
        &self,
        mut statement: QueryStatement,
        parameters: &QueryParameters,
    ) -> Result<AnswerRows> {
        parameters.apply_paging(&mut statement);
        QueryRun::new(&self.sources).answer(statement)
    }

    fn one_page(
        &self,
        entity: Entity,
        field: &str,
        name: &str,
        parameters: &QueryParameters,
    ) -> Result<Page> {
        let found = self.find_one(entity, field, name, parameters)?;
        Ok(Page::Document(Value::Object(found)))
    }

    /// The row that a path names.
    fn find_one(
        &self,
        entity: Entity,
        field: &str,
        name: &str,
        parameters: &QueryParameters,
    ) -> Result<Map<String, Value>> {
        let query = parameters.query.as_ref();
        let mut statement = QueryStatement::read(&mut QueryReader::default(), entity, query)?;
        statement.restrict(equals(entity, field, name.into())?);
        let found = QueryRun::new(&self.sources).answer(statement)?.rows.into_iter().next();
        found.ok_or_else(|| {
            let kind = entity.name().trim_end_matches('s');
            QueryError::NotFound(format!("No information is known about {kind} {name}"))
        })
    }

    fn counts_page(&self, parameters: &QueryParameters, is_aggregate: bool) -> Result<Page> {
        let Some(summarize_by) = &parameters.summarize_by else {
            return invalid("Missing required query parameter 'summarize_by'");
        };
        let run = QueryRun::new(&self.sources);
        if is_aggregate {
            let rows = aggregate_event_counts(&run, parameters, summarize_by)?;
            return Ok(Page::Rows(AnswerRows { total: rows.len(), rows }, false));
        }
        let rows = event_counts(&run, parameters, summarize_by)?;
        Ok(Page::Rows(page_rows(rows, &parameters.paging())?, parameters.counts_all()))
    }
}

fn no_page<T>(path: &str) -> Result<T> {
    Err(QueryError::NotFound(format!("no such page: {path}")))
}

fn equals(entity: Entity, name: &str, wanted: Value) -> Result<Condition> {
    let (field, operator) = (QueryField::parse(entity, name)?, CompareOperator::Equal);
    Ok(Condition::Compare { field, operator, wanted })
}

/// What follows an entity in a path: `facts/NAME/VALUE`, `resources/TYPE/TITLE`. The last part may have slashes.
fn tail_conditions(entity: Entity, tail: &[&str]) -> Result<Vec<Condition>> {
    let names = match entity {
        Entity::Facts => ["name", "value"],
        Entity::Resources => ["type", "title"],
        _ if tail.is_empty() => return Ok(Vec::new()),
        _ => return no_page(&tail.join("/")),
    };
    let mut conditions = Vec::new();
    if let Some((first, rest)) = tail.split_first() {
        conditions.push(equals(entity, names[0], (*first).into())?);
        if !rest.is_empty() {
            let text = rest.join("/");
            let mut values = vec![equals(entity, names[1], text.as_str().into())?];
            // The address does not say whether 4 is a number.
            if let (Entity::Facts, Ok(value)) = (entity, serde_json::from_str::<Value>(&text))
                && (value.is_number() || value.is_boolean())
            {
                values.push(equals(entity, names[1], value)?);
            }
            conditions.push(Condition::Any(values));
        }
    }
    Ok(conditions)
}

fn write_page(page: Page) -> Result<HttpResponse> {
    let (text, records) = match page {
        Page::Document(document) => (document.to_string(), None),
        Page::Rows(answer, counts_all) => {
            let mut text = String::from("[");
            for row in &answer.rows {
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(&serde_json::to_string(row)?);
                if text.len() > MAX_ANSWER_BYTES {
                    return invalid(format!(
                        "the answer has more than {MAX_ANSWER_BYTES} bytes; add conditions or a limit"
                    ));
                }
            }
            text.push(']');
            (text, counts_all.then_some(answer.total))
        }
    };
    Ok(HttpResponse { records, ..HttpResponse::page(HttpStatus::Ok, JSON, text) })
}
