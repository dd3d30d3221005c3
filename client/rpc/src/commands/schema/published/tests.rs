//! The published schemas equal those of the printed types. `UPDATE_GOLDEN=1` rewrites them; a renamed or removed field
//! then appears in the diff, and requires a new schema version.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::commands::nodes::node_history;
use crate::commands::schema::published::PUBLISHED_SCHEMAS;
use crate::commands::{
    again, audit, broker, check, checks, config, copy, doctor, events, explain, facts, filter,
    find, inventory, job, nodes, org, permit, ping, plugin, policy, provision, puppet, schedule,
    stats, whoami,
};
use crate::report::documents::ReportDocument;
use crate::report::{documents, jsonl};

/// The schema of the output of a type, with references inlined for readability.
fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    remove_ddl_keywords(&mut schema);
    schema
}

/// Removes what types of actions say for their DDL: titles of fields, and keys of ours.
fn remove_ddl_keywords(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            let is_ddl = |key: &str, value: &Value| {
                key.starts_with("x-") || (key == "title" && value.is_string())
            };
            keys.retain(|key, value| !is_ddl(key, value));
            keys.values_mut().for_each(remove_ddl_keywords);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_ddl_keywords),
        _ => {}
    }
}

/// Generates the schema of this name from its type.
fn made(name: &str) -> Value {
    let mut schema = match name {
        "muster.request.v1" => of::<documents::RequestDocument<'_>>(),
        "muster.request.lines.v1" => of::<jsonl::RequestJsonLine<'_>>(),
        "muster.event.line.v1" => of::<events::output::EventLine<'_>>(),
        "muster.config.deploy.v1" => of::<config::output::DeployDocument<'_>>(),
        "muster.config.status.v1" => {
            of::<ReportDocument<'_, config::output::ConfigStatusDocument<'_>>>()
        }
        "muster.policy.who.v1" => of::<ReportDocument<'_, policy::output::PolicyWhoDocument<'_>>>(),
        "muster.copy.v1" => of::<copy::output::CopyDocument<'_>>(),
        "muster.ping.v1" => of::<ping::output::PingDocument<'_>>(),
        "muster.nodes.v1" => of::<find::output::FoundNodesDocument<'_>>(),
        "muster.checks.v1" => of::<checks::output::FleetChecksDocument<'_>>(),
        "muster.check.v1" => of::<check::output::CheckDocument<'_>>(),
        "muster.facts.v1" => of::<ReportDocument<'_, facts::output::FactsDocument<'_>>>(),
        "muster.fact_names.v1" => of::<facts::fact_names::FactNamesDocument>(),
        "muster.stats.v1" => of::<ReportDocument<'_, stats::output::DaemonStatsDocument<'_>>>(),
        "muster.puppet.status.v1" => {
            of::<ReportDocument<'_, puppet::output::status::PuppetStatusDocument<'_>>>()
        }
        "muster.puppet.count.v1" => {
            of::<ReportDocument<'_, puppet::output::count::PuppetCountDocument<'_>>>()
        }
        "muster.puppet.summary.v1" => {
            of::<ReportDocument<'_, puppet::output::summary::LastRunsSummary>>()
        }
        "muster.puppet.runs.v1" => of::<puppet::output::runs::PuppetRunsDocument<'_>>(),
        "muster.puppet.runs.lines.v1" => of::<puppet::output::runs::PuppetRunsJsonLine<'_>>(),
        "muster.again.v1" => of::<ReportDocument<'_, again::output::AgainListDocument<'_>>>(),
        "muster.again.history.v1" => {
            of::<ReportDocument<'_, again::output::AgainHistoryDocument<'_>>>()
        }
        "muster.schedules.v1" => of::<
            schedule::output::ScheduleDocument<'_, muster_contract::schedule::ScheduleListOutput>,
        >(),
        "muster.schedule.v1" => of::<
            schedule::output::ScheduleDocument<'_, muster_contract::schedule::ScheduleShowOutput>,
        >(),
        "muster.schedule.added.v1" => of::<
            schedule::output::ScheduleDocument<'_, muster_contract::schedule::ScheduleAddOutput>,
        >(),
        "muster.schedule.history.v1" => of::<
            schedule::output::ScheduleDocument<
                '_,
                muster_contract::schedule::ScheduleHistoryOutput,
            >,
        >(),
        "muster.schedule.simulation.v1" => of::<schedule::load_output::SimulationDocument>(),
        "muster.permits.v1" => of::<ReportDocument<'_, permit::output::PermitPoolsDocument<'_>>>(),
        "muster.inventory.v1" => of::<inventory::output::NodeInventoryDocument<'_>>(),
        "muster.collectives.v1" => {
            of::<ReportDocument<'_, inventory::collectives_output::CollectivesDocument<'_>>>()
        }
        "muster.filter.test.v1" => of::<filter::output::FilterTestDocument<'_>>(),
        "muster.explain.v1" => of::<explain::output::RequestExplanation>(),
        "muster.jobs.v1" => of::<job::output::JobListDocument<'_>>(),
        "muster.job.v1" => of::<job::output::JobDocument<'_>>(),
        "muster.job.diff.v1" => of::<job::output::JobDifference>(),
        "muster.doctor.v1" => of::<doctor::output::DoctorDocument<'_>>(),
        "muster.whoami.v1" => of::<whoami::output::WhoamiDocument>(),
        "muster.contexts.v1" => of::<whoami::output::ContextListDocument>(),
        "muster.provision.v1" => of::<provision::output::ProvisioningDocument<'_>>(),
        "muster.plugin.v1" => of::<plugin::output::PluginDocument<'_>>(),
        "muster.plugins.v1" => of::<plugin::output::PluginListDocument<'_>>(),
        "muster.plugin.check.v1" => of::<plugin::check_output::DdlCheckDocument<'_>>(),
        "muster.policy.check.v1" => of::<policy::output::PolicyCheckDocument<'_>>(),
        "muster.policy.explain.v1" => of::<policy::output::PolicyExplainDocument<'_>>(),
        "muster.policy.test.v1" => of::<policy::output::PolicyTestDocument<'_>>(),
        "muster.audit.verdict.v1" => of::<audit::output::AuditVerdictDocument<'_>>(),
        "muster.registered-nodes.v1" => of::<nodes::RegisteredNodesDocument>(),
        "muster.verified-nodes.v1" => of::<find::verify::VerifiedNodesDocument>(),
        "muster.registered-facets.v1" => of::<nodes::RegisteredFacetsDocument>(),
        "muster.registered-node.v1" => of::<nodes::RegisteredNodeDocument>(),
        "muster.node-history.v1" => of::<node_history::NodeHistoryDocument<'_>>(),
        "muster.node-difference.v1" => of::<node_history::NodeDifferenceDocument<'_>>(),
        "muster.broker.balance.v1" => of::<broker::balance::BrokerBalanceDocument>(),
        "muster.broker.status.v1" => of::<broker::status::BrokerStatusDocument>(),
        "muster.org.list.v1" => of::<org::list::OrgListDocument>(),
        "muster.org.show.v1" => of::<org::show::OrganisationDocument<'_>>(),
        "muster.org.party.v1" => of::<org::show::PrincipalDocument>(),
        other => panic!("{other} is published, but no type generates it"),
    };
    name_itself(&mut schema, name);
    open(&mut schema);
    let root = schema.as_object_mut().unwrap();
    root.insert("$id".to_owned(), name.into());
    root.insert("title".to_owned(), name.into());
    schema
}

/// Restricts each `schema` field to the name of this schema.
fn name_itself(schema: &mut Value, name: &str) {
    if let Some(field) = schema.pointer_mut("/properties/schema") {
        *field = json!({"const": name, "description": "The name and version of this schema."});
    }
    for variant in variants(schema) {
        name_itself(variant, name);
    }
}

fn variants(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten()
}

/// Removes the ban on additional fields: a version of a schema can gain fields.
fn open(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for word in ["additionalProperties", "unevaluatedProperties"] {
                if fields.get(word) == Some(&false.into()) {
                    fields.remove(word);
                }
            }
            fields.values_mut().for_each(open);
        }
        Value::Array(values) => values.iter_mut().for_each(open),
        _ => {}
    }
}

#[test]
fn published_schemas_equal_those_of_the_types() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas");
    for published in PUBLISHED_SCHEMAS {
        let text = serde_json::to_string_pretty(&made(published.name)).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(directory.join(published.name).with_added_extension("json"), text)
                .unwrap();
        } else {
            let name = published.name;
            assert_eq!(published.text, text, "{name}; UPDATE_GOLDEN=1 rewrites it");
        }
    }
}

#[test]
fn every_schema_file_is_listed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas");
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let mut listed: Vec<String> =
        PUBLISHED_SCHEMAS.iter().map(|schema| format!("{}.json", schema.name)).collect();
    files.sort();
    listed.sort();
    assert_eq!(files, listed);
}
