//! The `OpenAPI` document of the API. The schemas are those of the values that the pages print.

use muster_contract::directory::{DirectoryFacetsOutput, DirectoryListOutput, DirectoryShowOutput};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::targets::TargetGroup;
use super::watch::WatchChange;

/// A change that clients can notice makes another path.
const API_VERSION: &str = "1";

/// The document, which is also at `/v1/openapi.json`.
pub fn openapi_document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.for_serialize().into_generator();
    let list = generator.subschema_for::<DirectoryListOutput>();
    let node = generator.subschema_for::<DirectoryShowOutput>();
    let facets = generator.subschema_for::<DirectoryFacetsOutput>();
    let targets = generator.subschema_for::<Vec<TargetGroup>>();
    let change = generator.subschema_for::<WatchChange>();
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    schemas.insert("Error".to_owned(), error_schema());
    // Nothing refers to it: OpenAPI does not describe the data of events.
    schemas.entry("WatchChange").or_insert_with(|| json!(change));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Directory of a Muster fleet",
            "version": API_VERSION,
            "description": "What the nodes of a fleet publish about themselves. Read only.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": {
            "/v1/nodes": page("listNodes", "Nodes that match a query, by name", &list, &[
                &QUERY, &FIELDS, &LIMIT, &AFTER, &STALE, &DOCUMENTS,
            ]),
            "/v1/nodes/{name}": page("showNode", "Everything that is known of a node", &node, &[
                &NAME,
            ]),
            "/v1/facets": page("countValues", "How many nodes have which value of a fact", &facets, &[
                &PATH, &QUERY, &STALE,
            ]),
            "/v1/watch": events("watchNodes", "Nodes that match a query, and then their changes: server-sent events. `reset` begins a new list, `nodes` has a WatchChange", &[
                &QUERY, &FIELDS, &LAST_EVENT_ID,
            ]),
            "/v1/http_sd": page("listTargets", "Targets for Prometheus' HTTP service discovery", &targets, &[
                &PORT, &QUERY, &LABEL, &STALE,
            ]),
            "/v1/openapi.json": page("describe", "This document", &json!({"type": "object"}), &[]),
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

struct Parameter {
    name: &'static str,
    place: &'static str,
    kind: &'static str,
    required: bool,
    description: &'static str,
}

const fn optional(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, required: false, description }
}

const fn required(
    name: &'static str,
    place: &'static str,
    kind: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, place, kind, required: true, description }
}

const QUERY: Parameter =
    optional("q", "string", "A query document, such as {'facts.os.family': 'Debian'}");
const FIELDS: Parameter =
    optional("fields", "string", "Paths of facts that each node has, separated by commas");
const LIMIT: Parameter = optional("limit", "integer", "At most this many nodes; 1,000 if absent");
const AFTER: Parameter =
    optional("after", "string", "Only nodes with names after this one: `next` of the last page");
const STALE: Parameter = optional("stale", "boolean", "Nodes that were not seen for an hour, too");
const DOCUMENTS: Parameter =
    optional("documents", "boolean", "The classes and all facts of each node");
const LAST_EVENT_ID: Parameter = optional(
    "last_event_id",
    "string",
    "The id of the last event that the client has, if it cannot send the header Last-Event-ID",
);
const LABEL: Parameter = optional(
    "label",
    "array",
    "FACT or LABEL=FACT: a label with the value of a fact; may be repeated",
);
const NAME: Parameter = required("name", "path", "string", "The name of the node");
const PATH: Parameter = required("path", "query", "string", "The path of the fact");
const PORT: Parameter = required("port", "query", "integer", "The port of the exporter");

impl Parameter {
    fn to_json(&self) -> Value {
        let schema = match self.kind {
            "array" => json!({"type": "array", "items": {"type": "string"}}),
            kind => json!({ "type": kind }),
        };
        json!({
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.description,
            "schema": schema,
        })
    }
}

fn page(
    id: &str,
    summary: &str,
    schema: &(impl serde::Serialize + ?Sized),
    parameters: &[&Parameter],
) -> Value {
    operation(id, summary, parameters, &json!({"application/json": {"schema": schema}}))
}

fn events(id: &str, summary: &str, parameters: &[&Parameter]) -> Value {
    let content = json!({"text/event-stream": {"schema": {"type": "string"}}});
    operation(id, summary, parameters, &content)
}

fn operation(id: &str, summary: &str, parameters: &[&Parameter], content: &Value) -> Value {
    let parameters: Vec<Value> = parameters.iter().map(|parameter| parameter.to_json()).collect();
    let error = |description: &str| {
        let schema = json!({"$ref": "#/components/schemas/Error"});
        json!({"description": description, "content": {"application/json": {"schema": schema}}})
    };
    json!({"get": {
        "operationId": id,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer", "content": content},
            "400": error("A parameter is not valid"),
            "401": error("No valid token"),
            "404": error("No such page or node"),
            "503": error("Records are still being read, or too many requests are"),
        },
    }})
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"error": {"type": "string", "description": "What is wrong"}},
        "required": ["error"],
    })
}
