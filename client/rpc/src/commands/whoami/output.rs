//! Renders who the caller is, and the list of contexts.

use muster_client::{CallerSummary, RpcSettings};
use muster_display::TextPage;
use muster_display::printer::{BAD, STRONG};
use muster_display::time::format_time;
use serde::Serialize;

/// What `rpc whoami` and `rpc context show` print. Times are in seconds since the epoch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct WhoamiDocument {
    schema: &'static str,
    /// Name of the context; null without one.
    context: Option<String>,
    /// What selected the configuration.
    selected_by: String,
    /// Path of the configuration.
    configuration: String,
    /// Path of the credentials.
    credentials: String,
    collective: String,
    brokers: Vec<String>,
    /// Public key of the organisation.
    operator: String,
    #[serde(flatten)]
    caller: CallerDocument,
}

/// The caller, as the nodes see it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CallerDocument {
    /// Name of the fleet.
    fleet: String,
    /// Public key of the fleet's account.
    account: String,
    user: String,
    /// Public key of the user.
    key: String,
    /// Expiry of the credentials; null if they never expire.
    expires: Option<u64>,
    /// Agents, or actions, that the broker lets the user call; `*` is all.
    agents: Vec<String>,
    /// Whether nodes accept the credentials.
    valid: bool,
    /// Why nodes reject them.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What `rpc context list` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ContextListDocument {
    schema: &'static str,
    contexts: Vec<ContextRow>,
}

/// One context of the list.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ContextRow {
    /// Its name.
    pub name: String,
    /// Whether this command used it.
    pub current: bool,
    /// Path of its configuration.
    pub configuration: String,
    /// The caller; null if the configuration cannot be used.
    pub caller: Option<CallerDocument>,
    /// The collective; null if the configuration cannot be used.
    pub collective: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl CallerDocument {
    pub fn new(caller: &CallerSummary) -> Self {
        Self {
            fleet: caller.fleet.clone(),
            account: caller.account.to_string(),
            user: caller.user.clone(),
            key: caller.key.to_string(),
            expires: caller.expires_at.map(|at| at / 1000),
            agents: caller.agents.clone(),
            valid: caller.problem.is_none(),
            problem: caller.problem.clone(),
        }
    }
}

impl WhoamiDocument {
    pub fn new(settings: &RpcSettings, selected_by: &str, caller: &CallerSummary) -> Self {
        Self {
            schema: "muster.whoami.v1",
            context: settings.context.as_ref().map(ToString::to_string),
            selected_by: selected_by.to_owned(),
            configuration: settings.file.display().to_string(),
            credentials: settings.credentials.display().to_string(),
            collective: settings.collective.to_string(),
            brokers: settings.broker_place().urls,
            operator: settings.operator.to_string(),
            caller: CallerDocument::new(caller),
        }
    }

    pub fn render_text(&self) -> String {
        let caller = &self.caller;
        let context = self.context.as_deref().unwrap_or("none");
        let agents = match caller.agents.as_slice() {
            [] => "none".to_owned(),
            [all] if all == "*" => "all, as far as the nodes' policies allow".to_owned(),
            agents => agents.join(", "),
        };
        let mut page = TextPage::default();
        page.push_line(format_args!(
            "{STRONG}{}{STRONG:#} on the fleet {STRONG}{}{STRONG:#}",
            caller.user, caller.fleet
        ));
        let fields = [
            ("Context", format!("{context} (selected by {})", self.selected_by)),
            ("Configuration", self.configuration.clone()),
            ("Brokers", self.brokers.join(", ")),
            ("Collective", self.collective.clone()),
            ("Account", caller.account.clone()),
            ("Credentials", self.credentials.clone()),
            ("Key", caller.key.clone()),
            ("Expires", expiry_text(caller.expires)),
            ("Agents", agents),
        ];
        page.push_fields(15, fields);
        if let Some(problem) = &caller.problem {
            page.push_line(format_args!("{BAD}nodes reject the credentials:{BAD:#} {problem}"));
        }
        page.into_text()
    }
}

impl ContextListDocument {
    pub fn new(contexts: Vec<ContextRow>) -> Self {
        Self { schema: "muster.contexts.v1", contexts }
    }

    /// Cells of the table, a row for each context.
    pub fn rows(&self) -> Vec<[String; 6]> {
        let row = |context: &ContextRow| {
            let caller = context.caller.as_ref();
            let cell = |text: Option<&String>| text.map_or("-", String::as_str).to_owned();
            let note = match (&context.problem, caller) {
                (Some(problem), _) => problem.clone(),
                (None, Some(caller)) => match &caller.problem {
                    Some(problem) => problem.clone(),
                    None => expiry_text(caller.expires),
                },
                (None, None) => "-".to_owned(),
            };
            [
                if context.current { "*" } else { "" }.to_owned(),
                context.name.clone(),
                cell(caller.map(|caller| &caller.fleet)),
                cell(caller.map(|caller| &caller.user)),
                cell(context.collective.as_ref()),
                note,
            ]
        };
        self.contexts.iter().map(row).collect()
    }
}

fn expiry_text(expires: Option<u64>) -> String {
    expires.map_or_else(|| "never".to_owned(), format_time)
}
