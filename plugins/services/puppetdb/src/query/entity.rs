//! The entities and their fields, with the names of `PuppetDB` 7.

use FieldKind::{Any, Boolean, Json, List, Number, Path, Text, Time};

/// How the values of a field are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    Number,
    Boolean,
    Time,
    /// A list of texts in lower case; a test is true if it is for one of them.
    List,
    /// Keys and indexes from a fact to a value.
    Path,
    /// A map whose values have names such as `facts.os.family`.
    Json,
    /// A value of any type.
    Any,
}

/// What is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entity {
    Catalogs,
    Edges,
    Environments,
    Events,
    FactContents,
    FactNames,
    FactPaths,
    Facts,
    Inventory,
    Nodes,
    Reports,
    Resources,
    /// What `counts_filter` tests; no query names it.
    EventCounts,
}

type FieldList = &'static [(&'static str, FieldKind)];

impl Entity {
    pub(super) const ALL: [Self; 12] = [
        Self::Catalogs,
        Self::Edges,
        Self::Environments,
        Self::Events,
        Self::FactContents,
        Self::FactNames,
        Self::FactPaths,
        Self::Facts,
        Self::Inventory,
        Self::Nodes,
        Self::Reports,
        Self::Resources,
    ];

    /// The name in queries.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Catalogs => "catalogs",
            Self::Edges => "edges",
            Self::Environments => "environments",
            Self::Events => "events",
            Self::FactContents => "fact_contents",
            Self::FactNames => "fact_names",
            Self::FactPaths => "fact_paths",
            Self::Facts => "facts",
            Self::Inventory => "inventory",
            Self::Nodes => "nodes",
            Self::Reports => "reports",
            Self::Resources => "resources",
            Self::EventCounts => "event_counts",
        }
    }

    /// The entity with this name in a query, or in a path, which has `-` for `_`.
    pub(super) fn find(name: &str) -> Option<Self> {
        let name = name.replace('-', "_");
        Self::ALL.into_iter().find(|entity| entity.name() == name)
    }

    /// The fields of an answer.
    pub(super) fn fields(self) -> FieldList {
        match self {
            Self::Catalogs => &CATALOG_FIELDS,
            Self::Edges => &EDGE_FIELDS,
            Self::Environments | Self::FactNames => &[("name", Text)],
            Self::Events => &EVENT_FIELDS,
            Self::FactContents => &[
                ("certname", Text),
                ("environment", Text),
                ("name", Text),
                ("path", Path),
                ("value", Any),
            ],
            Self::FactPaths => &[("name", Text), ("path", Path), ("type", Text)],
            Self::Facts => {
                &[("certname", Text), ("environment", Text), ("name", Text), ("value", Any)]
            }
            Self::Inventory => &[
                ("certname", Text),
                ("timestamp", Time),
                ("environment", Text),
                ("facts", Json),
                ("trusted", Json),
            ],
            Self::Nodes => &NODE_FIELDS,
            Self::Reports => &REPORT_FIELDS,
            Self::Resources => &RESOURCE_FIELDS,
            Self::EventCounts => {
                &[("failures", Number), ("successes", Number), ("noops", Number), ("skips", Number)]
            }
        }
    }

    /// Fields that only conditions have.
    fn hidden_fields(self) -> FieldList {
        match self {
            Self::Nodes => &[("facts", Json)],
            Self::Resources => &[("tag", List)],
            Self::Reports | Self::Events => &[("latest_report?", Boolean)],
            Self::FactPaths => &[("depth", Number)],
            _ => &[],
        }
    }

    /// A field of a condition, with its name as a constant.
    pub(super) fn find_field(self, name: &str) -> Option<(&'static str, FieldKind)> {
        let mut all = self.fields().iter().chain(self.hidden_fields());
        all.find(|(field, _)| *field == name).copied()
    }

    /// The field with the name of the node.
    pub(super) fn has_certname(self) -> bool {
        self.find_field("certname").is_some()
    }
}

const NODE_FIELDS: [(&str, FieldKind); 16] = [
    ("certname", Text),
    ("deactivated", Time),
    ("expired", Time),
    ("catalog_timestamp", Time),
    ("facts_timestamp", Time),
    ("report_timestamp", Time),
    ("catalog_environment", Text),
    ("facts_environment", Text),
    ("report_environment", Text),
    ("latest_report_status", Text),
    ("latest_report_noop", Boolean),
    ("latest_report_noop_pending", Boolean),
    ("latest_report_hash", Text),
    ("latest_report_job_id", Text),
    ("latest_report_corrective_change", Boolean),
    ("cached_catalog_status", Text),
];

const CATALOG_FIELDS: [(&str, FieldKind); 12] = [
    ("certname", Text),
    ("version", Text),
    ("environment", Text),
    ("hash", Text),
    ("transaction_uuid", Text),
    ("catalog_uuid", Text),
    ("code_id", Text),
    ("job_id", Text),
    ("producer", Text),
    ("producer_timestamp", Time),
    ("resources", Any),
    ("edges", Any),
];

const EDGE_FIELDS: [(&str, FieldKind); 6] = [
    ("certname", Text),
    ("relationship", Text),
    ("source_title", Text),
    ("source_type", Text),
    ("target_title", Text),
    ("target_type", Text),
];

const EVENT_FIELDS: [(&str, FieldKind); 21] = [
    ("certname", Text),
    ("configuration_version", Text),
    ("containing_class", Text),
    ("containment_path", List),
    ("corrective_change", Boolean),
    ("environment", Text),
    ("file", Text),
    ("line", Number),
    ("message", Text),
    ("name", Text),
    ("new_value", Text),
    ("old_value", Text),
    ("property", Text),
    ("report", Text),
    ("report_receive_time", Time),
    ("resource_title", Text),
    ("resource_type", Text),
    ("run_end_time", Time),
    ("run_start_time", Time),
    ("status", Text),
    ("timestamp", Time),
];

const REPORT_FIELDS: [(&str, FieldKind); 24] = [
    ("hash", Text),
    ("certname", Text),
    ("puppet_version", Text),
    ("report_format", Number),
    ("configuration_version", Text),
    ("start_time", Time),
    ("end_time", Time),
    ("producer_timestamp", Time),
    ("producer", Text),
    ("receive_time", Time),
    ("transaction_uuid", Text),
    ("catalog_uuid", Text),
    ("code_id", Text),
    ("job_id", Text),
    ("cached_catalog_status", Text),
    ("environment", Text),
    ("status", Text),
    ("type", Text),
    ("noop", Boolean),
    ("noop_pending", Boolean),
    ("corrective_change", Boolean),
    ("resource_events", Any),
    ("metrics", Any),
    ("logs", Any),
];

const RESOURCE_FIELDS: [(&str, FieldKind); 10] = [
    ("certname", Text),
    ("environment", Text),
    ("resource", Text),
    ("type", Text),
    ("title", Text),
    ("exported", Boolean),
    ("tags", List),
    ("file", Text),
    ("line", Number),
    ("parameters", Json),
];
