//! The JSON Schemas of printed documents, as files in `docs/reference/schemas`. Tests generate them from the printed types.

use clap::builder::PossibleValuesParser;
#[cfg(test)]
use muster_client::documents::{
    NodeDifferenceDocument, NodeHistoryDocument, PuppetRunsDocument, PuppetRunsJsonLine,
    RegisteredFacetsDocument, RegisteredNodeDocument, RegisteredNodesDocument, ScheduleDocument,
};
#[cfg(test)]
use muster_contract::schedule::{
    ScheduleAddOutput, ScheduleHistoryOutput, ScheduleListOutput, ScheduleShowOutput,
};

#[cfg(test)]
use crate::commands::{
    again, audit, broker, check, checks, config, copy, doctor, events, explain, facts, filter,
    find, inventory, job, org, permit, ping, plugin, policy, provision, puppet, schedule, stats,
    whoami,
};
#[cfg(test)]
use crate::report::documents::{ReportDocument, RequestDocument};
#[cfg(test)]
use crate::report::jsonl::RequestJsonLine;

#[derive(Debug)]
pub struct PublishedSchema {
    /// Its name and version, as in a document's `schema`.
    pub name: &'static str,
    /// The commands that print such documents.
    pub commands: &'static str,
    pub text: &'static str,
    /// Generates the schema from the type of the document.
    #[cfg(test)]
    generate: fn() -> serde_json::Value,
}

macro_rules! published {
    ($($name:literal: $commands:literal, $document:ty;)*) => {
        pub const PUBLISHED_SCHEMAS: &[PublishedSchema] = &[$(PublishedSchema {
            name: $name,
            commands: $commands,
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../docs/reference/schemas/",
                $name,
                ".json"
            )),
            #[cfg(test)]
            generate: tests::generate::<$document>,
        }),*];
    };
}

published! {
    "muster.request.v1": "rpc do -j, rpc run -j, rpc listen -j, rpc cancel -j", RequestDocument<'_>;
    "muster.request.lines.v1": "each line of rpc do --jsonl, rpc run --jsonl, rpc listen --jsonl", RequestJsonLine<'_>;
    "muster.event.line.v1": "each line of rpc events --jsonl", events::output::EventLine<'_>;
    "muster.config.deploy.v1": "rpc config deploy -j, rpc config revert -j", config::output::DeployDocument<'_>;
    "muster.config.status.v1": "rpc config status -j", ReportDocument<'_, config::output::ConfigStatusDocument<'_>>;
    "muster.copy.v1": "rpc cp -j", copy::output::CopyDocument<'_>;
    "muster.ping.v1": "rpc ping -j", ping::output::PingDocument<'_>;
    "muster.nodes.v1": "rpc find -j", find::output::FoundNodesDocument<'_>;
    "muster.check.v1": "rpc check -j", check::output::CheckDocument<'_>;
    "muster.checks.v1": "rpc checks -j", checks::output::FleetChecksDocument<'_>;
    "muster.again.v1": "rpc again list -j", ReportDocument<'_, again::output::AgainListDocument<'_>>;
    "muster.again.history.v1": "rpc again history -j", ReportDocument<'_, again::output::AgainHistoryDocument<'_>>;
    "muster.schedules.v1": "rpc schedule list -j", ScheduleDocument<'_, ScheduleListOutput>;
    "muster.schedule.v1": "rpc schedule show -j", ScheduleDocument<'_, ScheduleShowOutput>;
    "muster.schedule.added.v1": "rpc schedule add -j", ScheduleDocument<'_, ScheduleAddOutput>;
    "muster.schedule.history.v1": "rpc schedule history -j", ScheduleDocument<'_, ScheduleHistoryOutput>;
    "muster.schedule.simulation.v1": "rpc schedule simulate -j", schedule::load_output::SimulationDocument;
    "muster.facts.v1": "rpc facts -j", ReportDocument<'_, facts::output::FactsDocument<'_>>;
    "muster.fact_names.v1": "rpc facts -j without the name of a fact", facts::fact_names::FactNamesDocument;
    "muster.permits.v1": "rpc permit list -j, rpc permit show -j", ReportDocument<'_, permit::output::PermitPoolsDocument<'_>>;
    "muster.inventory.v1": "rpc inventory NODE -j", inventory::output::NodeInventoryDocument<'_>;
    "muster.collectives.v1": "rpc inventory --collectives -j", ReportDocument<'_, inventory::collectives_output::CollectivesDocument<'_>>;
    "muster.filter.test.v1": "rpc filter test -j", filter::output::FilterTestDocument<'_>;
    "muster.explain.v1": "rpc explain -j", explain::output::RequestExplanation;
    "muster.jobs.v1": "rpc job list -j", job::output::JobListDocument<'_>;
    "muster.job.v1": "rpc job show -j", job::output::JobDocument<'_>;
    "muster.job.diff.v1": "rpc job diff -j", job::output::JobDifference;
    "muster.registered-nodes.v1": "rpc nodes -j", RegisteredNodesDocument<'_>;
    "muster.verified-nodes.v1": "rpc find --verify -j", find::verify::VerifiedNodesDocument;
    "muster.registered-facets.v1": "rpc nodes --facets FACT -j", RegisteredFacetsDocument<'_>;
    "muster.registered-node.v1": "rpc node NODE -j", RegisteredNodeDocument<'_>;
    "muster.node-history.v1": "rpc node NODE --history -j", NodeHistoryDocument<'_>;
    "muster.node-difference.v1": "rpc node NODE --diff FROM UNTIL -j", NodeDifferenceDocument<'_>;
    "muster.broker.balance.v1": "rpc broker balance -j", broker::balance::BrokerBalanceDocument;
    "muster.broker.status.v1": "rpc broker status -j", broker::status::BrokerStatusDocument;
    "muster.doctor.v1": "rpc doctor -j", doctor::output::DoctorDocument<'_>;
    "muster.stats.v1": "rpc stats -j", ReportDocument<'_, stats::output::DaemonStatsDocument<'_>>;
    "muster.whoami.v1": "rpc whoami -j, rpc context show -j", whoami::output::WhoamiDocument;
    "muster.contexts.v1": "rpc context list -j", whoami::output::ContextListDocument;
    "muster.puppet.status.v1": "rpc puppet status -j", ReportDocument<'_, puppet::output::status::PuppetStatusDocument<'_>>;
    "muster.puppet.count.v1": "rpc puppet count -j", ReportDocument<'_, puppet::output::count::PuppetCountDocument<'_>>;
    "muster.puppet.summary.v1": "rpc puppet summary -j", ReportDocument<'_, puppet::output::summary::LastRunsSummary>;
    "muster.puppet.runs.v1": "rpc puppet runonce -j, rpc puppet runall -j", PuppetRunsDocument<'_>;
    "muster.puppet.runs.lines.v1": "each line of rpc puppet runonce --jsonl, rpc puppet runall --jsonl", PuppetRunsJsonLine<'_>;
    "muster.provision.v1": "rpc provision status -j", provision::output::ProvisioningDocument<'_>;
    "muster.plugins.v1": "rpc plugin list -j", plugin::output::PluginListDocument<'_>;
    "muster.plugin.v1": "rpc plugin doc -j", plugin::output::PluginDocument<'_>;
    "muster.plugin.check.v1": "rpc plugin check -j", plugin::check_output::DdlCheckDocument<'_>;
    "muster.policy.check.v1": "rpc policy check -j", policy::output::PolicyCheckDocument<'_>;
    "muster.policy.explain.v1": "rpc policy explain -j", policy::output::PolicyExplainDocument<'_>;
    "muster.policy.test.v1": "rpc policy test -j", policy::output::PolicyTestDocument<'_>;
    "muster.policy.who.v1": "rpc policy who -j", ReportDocument<'_, policy::output::PolicyWhoDocument<'_>>;
    "muster.audit.verdict.v1": "rpc audit verify -j", audit::output::AuditVerdictDocument<'_>;
    "muster.org.list.v1": "rpc org list -j", org::list::OrgListDocument;
    "muster.org.show.v1": "rpc org show -j", org::show::OrganisationDocument<'_>;
    "muster.org.party.v1": "each element of rpc org show NAME -j", org::show::PrincipalDocument;
}

pub fn schema_name_parser() -> PossibleValuesParser {
    PUBLISHED_SCHEMAS.iter().map(|schema| schema.name).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests;
