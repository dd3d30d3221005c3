//! `rpc explain`: what a request would put on the wire, who would let it pass, and what nodes would check. Sends nothing.

use std::collections::BTreeSet;

use muster_client::{Aim, Call, ClientError, Person, letters};
use muster_wire::identity::{Identity, Name};
use muster_wire::sign::{Kind, Signer};
use muster_wire::token::permission::permission;
use muster_wire::token::{TokenError, Trust};
use uuid::Uuid;

use super::context::Context;
use super::form;
use crate::ask::{AskError, Plan, Schemas, Target, Words};
use crate::cli::explain::Explain;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::explain::{Caller, Explanation, Message};
use crate::settings::Settings;

/// Stands for the nodes that discovery would find.
const SOMEBODY: &str = "each-node-that-is-found";

/// Runs the command.
pub fn run(args: &Explain, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?;
    let words = Words::read(&args.agent, &args.words)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings_if_any()?;
    let schemas = Schemas::load(settings.as_ref())?;
    let (ddl, action) = schemas.action(&words)?;
    let target = target.with_agent(ddl.name())?;
    let plan = Plan::new(ddl, action, &words.inputs)?;
    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let world = World::load(&settings, &target)?;

    let named = target.filter.identities_exact().and_then(|names| {
        let names = names.into_iter().map(|name| Identity::parse(name).ok());
        names.collect::<Option<BTreeSet<Identity>>>()
    });
    let discovery = if named.is_none() {
        let aim = Aim::Filter(target.filter.clone());
        world.messages(&question("rpcutil", "ping", aim)?)?.pop()
    } else {
        None
    };
    let nodes = named.clone().map_or_else(somebody, Ok)?;
    let mut call = question(ddl.name(), action.name(), Aim::Nodes(nodes))?;
    // What is sensitive is neither shown nor signed.
    call.data = action.redact(&plan.data);
    let explanation = Explanation {
        schema: Explanation::SCHEMA,
        agent: ddl.name().to_owned(),
        action: action.name().to_owned(),
        read_only: action.read_only(),
        class: action.class(),
        target: target.filter.explain(),
        discovery,
        requests: world.messages(&call)?,
        nodes: named,
        caller: world.caller(),
    };
    if let Some(json) = &json {
        cx.json(&explanation, json)?;
    } else {
        let verbose = cx.printer.talk() == Talk::Verbose;
        let width = cx.printer.screen().width;
        cx.printer.text(explanation.text(verbose, width))?;
    }
    Ok(Exit::Passed)
}

fn question(agent: &str, action: &str, aim: Aim) -> Result<Call, AskError> {
    Ok(Call::new(agent, action, aim).map_err(ClientError::from)?)
}

fn somebody() -> Result<BTreeSet<Identity>, AskError> {
    let node = Identity::parse(SOMEBODY).map_err(ClientError::from)?;
    Ok([node].into())
}

/// Who would ask, and whom the fleet believes.
struct World {
    signer: Signer,
    trust: Trust,
    collective: Name,
}

impl World {
    fn load(settings: &Settings, target: &Target) -> Result<Self, AskError> {
        let collective = target.collective.as_ref().unwrap_or(&settings.collective);
        let operator = settings.operator.to_string();
        let Person { signer, trust } =
            Person::load(&settings.credentials, &operator, &settings.account)?;
        Ok(Self {
            signer,
            trust,
            collective: collective.clone(),
        })
    }

    /// The messages of a call.
    fn messages(&self, call: &Call) -> Result<Vec<Message>, AskError> {
        let now = clock::now();
        let letters = letters(&self.signer, &self.collective, call, Uuid::now_v7(), now);
        letters
            .map(|letter| {
                let letter = letter.map_err(ClientError::from)?;
                let body = serde_json::to_vec(&letter.request)?;
                let subjects: Vec<String> = letter.to.iter().map(|to| to.subject.clone()).collect();
                Ok(Message {
                    allowed_by: subjects.first().and_then(|subject| self.allowed(subject)),
                    reply_to: letter.to.first().and_then(|to| to.reply_to.clone()),
                    subjects,
                    body: letter.request,
                    signed: Kind::Request.signed(&body),
                    sealed_bytes: letter.sealed.len(),
                })
            })
            .collect()
    }

    /// What lets us publish there at the broker, in words.
    fn allowed(&self, subject: &str) -> Option<String> {
        let claims = self.signer.claims();
        let template = self.trust.template(&claims.iss)?;
        let found = permission(&template.publish, &claims, subject)?;
        Some(format!(
            "{} (from {} in the scope)",
            found.pattern, found.line
        ))
    }

    fn caller(&self) -> Caller {
        let claims = self.signer.claims();
        let verified = self.trust.verify_user(&self.signer.token(), clock::now());
        Caller {
            name: claims.name.clone(),
            key: claims.sub.to_string(),
            role: verified.as_ref().ok().map(|party| party.role.word()),
            issuer: claims.iss.to_string(),
            tags: claims.nats.tags.clone(),
            expires: (claims.exp != 0).then(|| clock::written(claims.exp)),
            refused: verified.err().map(|error: TokenError| error.to_string()),
        }
    }
}
