//! Builds a validated request from command-line words. Pure: secrets are already read, nothing is sent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_base::{error_chain, nearest_name};
use muster_calls::DdlStore;
use muster_contract::given_inputs;
use muster_ddl::{
    Action, ActionSchema, AgentDdl, AttributeChecking, InputValidationError, ValueType,
};
use muster_wire::limits::MAX_REQUEST_BYTES;
use serde_json::{Map, Value};

use crate::error::FleetRequestError;
use crate::settings::RpcSettings;
use crate::words::RequestWords;

/// The known DDLs, and names for suggestions.
#[derive(Debug)]
pub struct AgentSchemas {
    /// The DDLs.
    pub store: DdlStore,
    /// The directory for additional DDLs.
    pub directory: Option<PathBuf>,
    /// Names of commands, if the agent's name was in a command's position.
    pub commands: Vec<String>,
    /// Agents whose DDL is from the cache, so that it may be older than that of the nodes, and when each was fetched.
    pub cached: BTreeMap<String, String>,
}

/// A request that conforms to its DDL.
#[derive(Debug, Clone)]
pub struct RequestPlan<'a> {
    /// The agent.
    pub ddl: &'a AgentDdl,
    /// The action.
    pub action: &'a ActionSchema,
    /// The inputs, including defaults.
    pub data: Map<String, Value>,
}

impl AgentSchemas {
    /// Loads the built-in DDLs, and those in the directories of the settings, if any.
    pub fn load(settings: Option<&RpcSettings>) -> Result<Self, FleetRequestError> {
        let directory = settings.map(|settings| settings.ddls.clone());
        let store = DdlStore::load(directory.as_deref())?;
        Ok(Self { store, directory, commands: Vec::new(), cached: BTreeMap::new() })
    }

    /// Adds cached DDLs of agents without a known DDL, with the times of their fetch.
    pub fn add_cached(&mut self, cached: Vec<(AgentDdl, String)>) {
        let added = cached.into_iter().filter_map(|(ddl, fetched_at)| {
            let name = ddl.name().to_owned();
            self.store.add_absent(ddl).then_some((name, fetched_at))
        });
        self.cached.extend(added);
    }

    /// Whether the nodes should be asked for the agent's DDL: it is from the cache, and the words name an action or an input that it does not
    /// declare.
    pub fn may_be_stale(&self, words: &RequestWords) -> bool {
        let Some(ddl) =
            self.store.get(&words.agent).filter(|ddl| self.cached.contains_key(ddl.name()))
        else {
            return false;
        };
        let name = words.action.as_deref().or(ddl.default_action());
        let Some(action) = name.and_then(|name| ddl.find_action(name)) else {
            return true;
        };
        let is_unknown = |name: &str| action.find_input(name).is_none();
        !action.additional_input() && words.inputs.iter().any(|(name, _)| is_unknown(name))
    }

    /// Replaces the DDL of an agent by a fetched one.
    pub fn replace(&mut self, ddl: AgentDdl) {
        self.store.replace(ddl);
    }

    /// Returns the DDL of an agent.
    pub fn find_agent(&self, agent: &str) -> Result<&AgentDdl, FleetRequestError> {
        if let Some(problem) = self.store.problem_of(agent) {
            let problem = error_chain(problem);
            return Err(FleetRequestError::UnusableDdl { agent: agent.to_owned(), problem });
        }
        self.store.get(agent).ok_or_else(|| FleetRequestError::UnknownAgent {
            agent: agent.to_owned(),
            nearest: nearest_name(agent, self.store.all().map(AgentDdl::name)),
            command: nearest_name(agent, self.commands.iter().map(String::as_str)),
            ddls: self.directory.clone(),
        })
    }

    /// Plans an action with these inputs, which its DDL checks.
    pub fn plan<A: Action>(&self, input: &A::Input) -> Result<RequestPlan<'_>, FleetRequestError> {
        let found = self.find_action(&RequestWords::of_action::<A>())?;
        RequestPlan::with_base_inputs(found, given_inputs(input), &[], AttributeChecking::Strict)
    }

    /// Returns the named action or the agent's default.
    pub fn find_action(
        &self,
        words: &RequestWords,
    ) -> Result<(&AgentDdl, &ActionSchema), FleetRequestError> {
        let ddl = self.find_agent(&words.agent)?;
        let agent = ddl.name().to_owned();
        let names = || ddl.actions().iter().map(ActionSchema::name);
        let known = names().map(str::to_owned).collect();
        let Some(name) = words.action.as_deref().or(ddl.default_action()) else {
            return Err(FleetRequestError::NoAction { agent, known });
        };
        ddl.find_action(name).map(|action| (ddl, action)).ok_or_else(|| {
            let nearest = nearest_name(name, names());
            FleetRequestError::UnknownAction { agent, action: name.to_owned(), nearest, known }
        })
    }
}

/// The input of a changing action that makes it report what it would change.
const NOOP_INPUT: &str = "noop";

/// Adds the input that makes the action report what it would change, and change nothing.
pub fn request_noop(
    ddl: &AgentDdl,
    action: &ActionSchema,
    inputs: &mut Vec<(String, String)>,
) -> Result<(), FleetRequestError> {
    let is_supported =
        action.find_input(NOOP_INPUT).is_some_and(|input| input.value_type == ValueType::Boolean);
    if !is_supported && !action.is_read_only() {
        let (agent, action) = (ddl.name().to_owned(), action.name().to_owned());
        return Err(FleetRequestError::NoNoop { agent, action });
    }
    if is_supported && !inputs.iter().any(|(name, _)| name == NOOP_INPUT) {
        inputs.push((NOOP_INPUT.to_owned(), "true".to_owned()));
    }
    Ok(())
}

impl<'a> RequestPlan<'a> {
    /// Whether the request only reports what it would change.
    pub fn is_noop(&self) -> bool {
        self.data.get(NOOP_INPUT) == Some(&Value::Bool(true))
    }

    /// Whether the request leaves all nodes as they are: the action reads only, or the request is a noop.
    pub fn changes_nothing(&self) -> bool {
        self.action.is_read_only() || self.is_noop()
    }

    /// Converts and validates the inputs.
    pub fn new(
        ddl: &'a AgentDdl,
        action: &'a ActionSchema,
        inputs: &[(String, String)],
    ) -> Result<Self, FleetRequestError> {
        Self::with_base_inputs((ddl, action), Map::new(), inputs, AttributeChecking::Strict)
    }

    /// Converts and validates the inputs; `base` supplies values for inputs that are not given.
    pub fn with_base_inputs(
        (ddl, action): (&'a AgentDdl, &'a ActionSchema),
        base: Map<String, Value>,
        inputs: &[(String, String)],
        checking: AttributeChecking,
    ) -> Result<Self, FleetRequestError> {
        let invalid = |source: InputValidationError| FleetRequestError::Input {
            agent: ddl.name().to_owned(),
            source: Box::new(source),
        };
        let typed = action.coerce_words_onto(inputs, base, checking).map_err(invalid)?;
        let data = action.validate_input(&typed).map_err(invalid)?;
        check_size(&data)?;
        Ok(Self { ddl, action, data })
    }
}

/// Rejects inputs that do not fit into any request. The exact check of the message follows when the nodes are known.
fn check_size(data: &Map<String, Value>) -> Result<(), FleetRequestError> {
    let sizes = data.iter().map(|(name, value)| (value.to_string().len(), name));
    let sizes: Vec<(usize, &String)> = sizes.collect();
    let bytes: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    match sizes.iter().max() {
        Some((largest_bytes, largest)) if bytes > MAX_REQUEST_BYTES => {
            Err(FleetRequestError::InputsTooLarge {
                bytes,
                largest: (*largest).clone(),
                largest_bytes: *largest_bytes,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use muster_ddl::AgentDdl;
    use serde_json::json;

    use super::{AgentSchemas, RequestPlan};
    use crate::{FleetRequestError, RequestWords};

    fn schemas() -> AgentSchemas {
        let commands = ["ping", "find", "facts"].map(str::to_owned).to_vec();
        AgentSchemas { commands, ..AgentSchemas::load(None).unwrap() }
    }

    fn words(words: &str) -> RequestWords {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        RequestWords::parse(&words[0], &words[1..]).unwrap()
    }

    #[test]
    fn only_unknown_words_of_cached_ddls_may_be_stale() {
        let cached = json!({"metadata": {"name": "disk"}, "actions": [
            {"action": "usage", "input": {"path": {"type": "string", "optional": true}}},
            {"action": "any", "additional_input": true}]});
        let cached = AgentDdl::from_slice(cached.to_string().as_bytes()).unwrap();
        let mut schemas = schemas();
        schemas.add_cached(vec![(cached, "now".to_owned())]);
        for stale in ["disk top", "disk usage depth=1", "disk usage path=/ depth=1", "disk path=/"]
        {
            assert!(schemas.may_be_stale(&words(stale)), "{stale}");
        }
        for current in
            ["disk usage", "disk usage path=/", "disk any x=1", "rpcutil pong", "disc usage"]
        {
            assert!(!schemas.may_be_stale(&words(current)), "{current}");
        }
    }

    fn plan(words: &str) -> Result<(String, serde_json::Value), FleetRequestError> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let words = RequestWords::parse(&words[0], &words[1..])?;
        let schemas = schemas();
        let (ddl, action) = schemas.find_action(&words)?;
        let plan = RequestPlan::new(ddl, action, &words.inputs)?;
        Ok((plan.action.name().to_owned(), plan.data.into()))
    }

    #[test]
    fn default_action_is_used_if_none_is_given() {
        let (action, data) = plan("puppetral type=user name=rip password=$1$x$ noop=yes").unwrap();
        assert_eq!(action, "do");
        assert_eq!(data, json!({"type": "user", "name": "rip", "password": "$1$x$", "noop": true}));
        assert_eq!(plan("puppetral find type=user name=rip").unwrap().0, "find");
    }

    #[test]
    fn invalid_requests_are_refused_before_they_are_sent() {
        for (words, named) in [
            ("puppetral type=user", "`name`"),
            ("puppetral find type=user nam=rip", "\"nam\""),
            ("puppetral find type=user name=rip name=rap", "\"name\""),
            ("puppetral find type=_ name=rip", "`type`"),
            ("puppetral type=user name=rip noop=perhaps", "`noop`"),
            ("rpcutil", "get_fact"),
            ("rpcutil fact=x", "get_fact"),
            ("rpcutil pong", "\"pong\""),
            ("rpcutl ping", "\"rpcutl\""),
        ] {
            let error = plan(words).unwrap_err();
            assert!(error.to_string().contains(named), "{words}: {error}");
        }
    }

    #[test]
    fn errors_suggest_similar_names() {
        use FleetRequestError::{UnknownAction, UnknownAgent};
        let named = |nearest: Option<String>, expected: &str| nearest.as_deref() == Some(expected);
        let error = |words| plan(words).unwrap_err();
        assert!(
            matches!(error("rpcutil pong"), UnknownAction { nearest, .. } if named(nearest.clone(), "ping"))
        );
        assert!(
            matches!(error("rpcutl ping"), UnknownAgent { nearest, .. } if named(nearest.clone(), "rpcutil"))
        );
        assert!(
            matches!(error("fact country"), UnknownAgent { command, .. } if named(command.clone(), "facts"))
        );
    }
}
