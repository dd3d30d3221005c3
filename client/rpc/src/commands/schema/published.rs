//! The JSON Schemas of printed documents, as files in `docs/reference/schemas`. Tests generate them from the printed types.

use clap::builder::PossibleValuesParser;

#[derive(Debug)]
pub struct PublishedSchema {
    /// Its name and version, as in a document's `schema`.
    pub name: &'static str,
    /// The commands that print such documents.
    pub commands: &'static str,
    pub text: &'static str,
}

macro_rules! published {
    ($name:literal, $commands:literal) => {
        PublishedSchema {
            name: $name,
            commands: $commands,
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../docs/reference/schemas/",
                $name,
                ".json"
            )),
        }
    };
}

pub const PUBLISHED_SCHEMAS: &[PublishedSchema] = &[
    published!("muster.request.v1", "rpc do -j, rpc run -j, rpc listen -j, rpc cancel -j"),
    published!(
        "muster.request.lines.v1",
        "each line of rpc do --jsonl, rpc run --jsonl, rpc listen --jsonl"
    ),
    published!("muster.event.line.v1", "each line of rpc events --jsonl"),
    published!("muster.config.deploy.v1", "rpc config deploy -j, rpc config revert -j"),
    published!("muster.config.status.v1", "rpc config status -j"),
    published!("muster.copy.v1", "rpc cp -j"),
    published!("muster.ping.v1", "rpc ping -j"),
    published!("muster.nodes.v1", "rpc find -j"),
    published!("muster.check.v1", "rpc check -j"),
    published!("muster.checks.v1", "rpc checks -j"),
    published!("muster.again.v1", "rpc again list -j"),
    published!("muster.again.history.v1", "rpc again history -j"),
    published!("muster.schedules.v1", "rpc schedule list -j"),
    published!("muster.schedule.v1", "rpc schedule show -j"),
    published!("muster.schedule.added.v1", "rpc schedule add -j"),
    published!("muster.schedule.history.v1", "rpc schedule history -j"),
    published!("muster.schedule.simulation.v1", "rpc schedule simulate -j"),
    published!("muster.facts.v1", "rpc facts -j"),
    published!("muster.fact_names.v1", "rpc facts -j without the name of a fact"),
    published!("muster.permits.v1", "rpc permit list -j, rpc permit show -j"),
    published!("muster.inventory.v1", "rpc inventory NODE -j"),
    published!("muster.collectives.v1", "rpc inventory --collectives -j"),
    published!("muster.filter.test.v1", "rpc filter test -j"),
    published!("muster.explain.v1", "rpc explain -j"),
    published!("muster.jobs.v1", "rpc job list -j"),
    published!("muster.job.v1", "rpc job show -j"),
    published!("muster.job.diff.v1", "rpc job diff -j"),
    published!("muster.registered-nodes.v1", "rpc nodes -j"),
    published!("muster.verified-nodes.v1", "rpc find --verify -j"),
    published!("muster.registered-facets.v1", "rpc nodes --facets FACT -j"),
    published!("muster.registered-node.v1", "rpc node NODE -j"),
    published!("muster.node-history.v1", "rpc node NODE --history -j"),
    published!("muster.node-difference.v1", "rpc node NODE --diff FROM UNTIL -j"),
    published!("muster.broker.balance.v1", "rpc broker balance -j"),
    published!("muster.broker.status.v1", "rpc broker status -j"),
    published!("muster.doctor.v1", "rpc doctor -j"),
    published!("muster.stats.v1", "rpc stats -j"),
    published!("muster.whoami.v1", "rpc whoami -j, rpc context show -j"),
    published!("muster.contexts.v1", "rpc context list -j"),
    published!("muster.puppet.status.v1", "rpc puppet status -j"),
    published!("muster.puppet.count.v1", "rpc puppet count -j"),
    published!("muster.puppet.summary.v1", "rpc puppet summary -j"),
    published!("muster.puppet.runs.v1", "rpc puppet runonce -j, rpc puppet runall -j"),
    published!(
        "muster.puppet.runs.lines.v1",
        "each line of rpc puppet runonce --jsonl, rpc puppet runall --jsonl"
    ),
    published!("muster.provision.v1", "rpc provision status -j"),
    published!("muster.plugins.v1", "rpc plugin list -j"),
    published!("muster.plugin.v1", "rpc plugin doc -j"),
    published!("muster.plugin.check.v1", "rpc plugin check -j"),
    published!("muster.policy.check.v1", "rpc policy check -j"),
    published!("muster.policy.explain.v1", "rpc policy explain -j"),
    published!("muster.policy.test.v1", "rpc policy test -j"),
    published!("muster.policy.who.v1", "rpc policy who -j"),
    published!("muster.audit.verdict.v1", "rpc audit verify -j"),
    published!("muster.org.list.v1", "rpc org list -j"),
    published!("muster.org.show.v1", "rpc org show -j"),
    published!("muster.org.party.v1", "each element of rpc org show NAME -j"),
];

pub fn schema_name_parser() -> PossibleValuesParser {
    PUBLISHED_SCHEMAS.iter().map(|schema| schema.name).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests;
