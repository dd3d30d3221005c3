//! `rpc explain`: shows the messages of a request, the permissions it needs, and the checks of the nodes. Sends nothing.

pub mod args;
pub mod output;

use std::collections::BTreeSet;

use muster_base::{format_utc, unix_millis_now};
use muster_calls::{CallTarget, ClientError, OfflineSigner, RpcCall, outgoing_requests};
use muster_client::{
    AgentSchemas, FleetRequestError, RequestPlan, RequestWords, RpcSettings, TargetSelection,
};
use muster_contract::rpcutil::{RpcutilAgent, RpcutilPing};
use muster_ddl::{Action as _, AgentContract as _};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::{EnvelopeKind, Signer};
use muster_wire::token::permission::find_permission;
use muster_wire::token::{AccountTrust, TokenError};
use uuid::Uuid;

use crate::commands::explain::args::ExplainArgs;
use crate::commands::explain::output::{ExplainedCaller, ExplainedMessage, RequestExplanation};
use crate::request::input_values::{StdinUse, read_input_values};
use crate::session::context::{
    CommandContext, CommandExitCode, CommandResult, Result, ResultWriteError,
};

/// Placeholder for the nodes that discovery would find.
const PLACEHOLDER_NODE: &str = "each-node-that-is-found";

/// The agent and the words after it, also of a whole line of `rpc do`.
fn without_do<'a>(agent: &'a str, words: &'a [String]) -> (&'a str, &'a [String]) {
    match words {
        [first, rest @ ..] if agent == "do" && !first.contains('=') => (first, rest),
        _ => (agent, words),
    }
}

pub async fn run(args: ExplainArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.query.filters)?;
    let (agent, words) = without_do(&args.agent, &args.words);
    let words = RequestWords::parse(agent, words)?;
    let json = args.query.json.form()?;
    let schemas = AgentSchemas::load(cx.load_settings_if_any()?)?;
    let (ddl, action) = schemas.find_action(&words)?;
    let target = target.with_agent(ddl.name())?;
    let inputs = words.inputs.clone();
    let inputs = read_input_values(action, inputs, StdinUse::WithoutSecrets, cx.printer).await?;
    let plan = RequestPlan::new(ddl, action, &inputs)?;
    let context = ExplainContext::load(cx.settings()?, &target)?;

    let named_nodes = target.filter.identities_exact().and_then(|names| {
        let names = names.into_iter().map(|name| Identity::parse(name).ok());
        names.collect::<Option<BTreeSet<Identity>>>()
    });
    let (mut discovery, mut nodes) = (None, named_nodes.clone().unwrap_or_default());
    if named_nodes.is_none() {
        let call_target = CallTarget::Filter(target.filter.clone());
        discovery = context
            .call_messages(&build_call(RpcutilAgent::NAME, RpcutilPing::NAME, call_target)?)?
            .pop();
        nodes.insert(
            Identity::parse(PLACEHOLDER_NODE)
                .map_err(|error| FleetRequestError::from(ClientError::from(error)))?,
        );
    }
    let mut call = build_call(ddl.name(), action.name(), CallTarget::Nodes(nodes))?;
    // Sensitive inputs are neither shown nor signed.
    call.data = action.redact_input(&plan.data);
    let explanation = RequestExplanation {
        schema: RequestExplanation::SCHEMA,
        agent: ddl.name().to_owned(),
        action: action.name().to_owned(),
        read_only: action.is_read_only(),
        class: action.class(),
        target: target.filter.explain(),
        discovery,
        requests: context.call_messages(&call)?,
        nodes: named_nodes,
        caller: context.describe_caller(),
    };
    cx.print_result(json.as_ref(), &explanation, || {
        explanation.render_text(cx.is_verbose(), cx.width())
    })?;
    Ok(CommandExitCode::Passed)
}

fn build_call(agent: &str, action: &str, target: CallTarget) -> Result<RpcCall, FleetRequestError> {
    Ok(RpcCall::new(agent, action, target).map_err(ClientError::from)?)
}

/// The caller's identity and the trust settings of the fleet.
struct ExplainContext {
    signer: Signer,
    trust: AccountTrust,
    collective: SubjectName,
}

impl ExplainContext {
    fn load(settings: &RpcSettings, target: &TargetSelection) -> Result<Self, FleetRequestError> {
        let collective = target.collective.as_ref().unwrap_or(&settings.collective);
        let operator = settings.operator.to_string();
        let OfflineSigner { signer, trust } =
            OfflineSigner::load(&settings.credentials, &operator, &settings.account)?;
        Ok(Self { signer, trust, collective: collective.clone() })
    }

    fn call_messages(&self, call: &RpcCall) -> Result<Vec<ExplainedMessage>> {
        let now = unix_millis_now();
        let messages =
            outgoing_requests(&self.signer, &self.collective, call, Uuid::now_v7(), || now);
        messages
            .map(|message| {
                let message =
                    message.map_err(ClientError::from).map_err(FleetRequestError::from)?;
                let body = serde_json::to_vec(&message.request).map_err(ResultWriteError::from)?;
                let subjects: Vec<String> =
                    message.to.iter().map(|to| to.subject.clone()).collect();
                Ok(ExplainedMessage {
                    allowed_by: subjects
                        .first()
                        .and_then(|subject| self.publish_permission(subject)),
                    reply_to: message.to.first().and_then(|to| to.reply_to.clone()),
                    subjects,
                    body: message.request,
                    signed: EnvelopeKind::Request.signed_bytes(&body),
                    sealed_bytes: message.sealed.len(),
                })
            })
            .collect()
    }

    /// The permission that lets this caller publish on the subject, as text.
    fn publish_permission(&self, subject: &str) -> Option<String> {
        let claims = self.signer.claims();
        let template = self.trust.template_of_key(&claims.iss)?;
        let found = find_permission(&template.publish, &claims, subject)?;
        Some(format!("{} (from {} in the scope)", found.pattern, found.line))
    }

    fn describe_caller(&self) -> ExplainedCaller {
        let claims = self.signer.claims();
        let verified = self.trust.verify_user(&self.signer.token(), unix_millis_now());
        ExplainedCaller {
            name: claims.name.clone(),
            key: claims.sub.to_string(),
            role: verified.as_ref().ok().map(|principal| principal.role.as_str()),
            issuer: claims.iss.to_string(),
            tags: claims.nats.tags.clone(),
            expires: (claims.exp != 0).then(|| format_utc(claims.exp)),
            expires_at: (claims.exp != 0).then_some(claims.exp),
            refused: verified.err().map(|error: TokenError| error.to_string()),
        }
    }
}
