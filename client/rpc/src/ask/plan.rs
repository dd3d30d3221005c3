//! From words to a request that its schema accepts. Pure: secrets are already read, nothing is sent.

use std::path::PathBuf;

use muster_client::DdlStore;
use muster_ddl::{Action, Ddl, InputError};
use serde_json::{Map, Value};

use super::error::AskError;
use super::kept::KeptDdl;
use super::nearest::nearest;
use super::words::Words;
use crate::settings::Settings;

/// The schemas that are known, and what else a word could have meant.
#[derive(Debug)]
pub struct Schemas {
    /// The schemas.
    pub store: DdlStore,
    /// Where further ones belong.
    pub directory: Option<PathBuf>,
    /// Names of commands, when the agent's name stood where a command could.
    pub commands: Vec<String>,
}

/// A request that its schema accepts.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The agent.
    pub ddl: &'a Ddl,
    /// The action.
    pub action: &'a Action,
    /// The inputs, defaults among them.
    pub data: Map<String, Value>,
}

impl Schemas {
    /// The built-in schemas, and those that the settings, if any, say where to find.
    pub fn load(settings: Option<&Settings>) -> Result<Self, AskError> {
        let directory = settings.map(|settings| settings.ddls.clone());
        let store = DdlStore::load(directory.as_deref())?;
        Ok(Self {
            store,
            directory,
            commands: Vec::new(),
        })
    }

    /// Adds schemas that were fetched, where none is known. Answers those that were added.
    pub fn add_kept(&mut self, kept: Vec<KeptDdl>) -> Vec<(String, String)> {
        let mut added = Vec::new();
        for KeptDdl { ddl, fetched_at } in kept {
            let name = ddl.name().to_owned();
            if self.store.add_absent(ddl) {
                added.push((name, fetched_at));
            }
        }
        added
    }

    /// The schema of an agent.
    pub fn agent(&self, agent: &str) -> Result<&Ddl, AskError> {
        self.store.get(agent).ok_or_else(|| AskError::UnknownAgent {
            agent: agent.to_owned(),
            nearest: nearest(agent, self.store.all().map(Ddl::name)),
            command: nearest(agent, self.commands.iter().map(String::as_str)),
            ddls: self.directory.clone(),
        })
    }

    /// The action that the words mean.
    pub fn action(&self, words: &Words) -> Result<(&Ddl, &Action), AskError> {
        let ddl = self.agent(&words.agent)?;
        let agent = || ddl.name().to_owned();
        let known = || ddl.actions().iter().map(Action::name);
        let Some(name) = words.action.as_deref().or(ddl.default_action()) else {
            return Err(AskError::NoAction {
                agent: agent(),
                known: known().map(str::to_owned).collect(),
            });
        };
        let action = ddl.action(name).ok_or_else(|| AskError::UnknownAction {
            agent: agent(),
            action: name.to_owned(),
            nearest: nearest(name, known()),
            known: known().map(str::to_owned).collect(),
        })?;
        Ok((ddl, action))
    }
}

impl<'a> Plan<'a> {
    /// Types and validates the inputs.
    pub fn new(
        ddl: &'a Ddl,
        action: &'a Action,
        inputs: &[(String, String)],
    ) -> Result<Self, AskError> {
        Self::over(ddl, action, Map::new(), inputs)
    }

    /// Types and validates the inputs; those of `base` count where no others are given.
    pub fn over(
        ddl: &'a Ddl,
        action: &'a Action,
        base: Map<String, Value>,
        inputs: &[(String, String)],
    ) -> Result<Self, AskError> {
        let refused = |source: InputError| AskError::Input {
            agent: ddl.name().to_owned(),
            source: Box::new(source),
        };
        let mut typed = base;
        typed.extend(action.coerce(inputs).map_err(refused)?);
        let data = action.validate_input(&typed).map_err(refused)?;
        Ok(Self { ddl, action, data })
    }
}

#[cfg(test)]
mod tests {
    use muster_client::DdlStore;
    use serde_json::json;

    use super::{Plan, Schemas};
    use crate::ask::{AskError, Words};
    use crate::exit::Exit;

    fn schemas() -> Schemas {
        let commands = ["ping", "find", "facts"].map(str::to_owned).to_vec();
        Schemas {
            store: DdlStore::load(None).unwrap(),
            directory: None,
            commands,
        }
    }

    fn plan(words: &str) -> Result<(String, serde_json::Value), AskError> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let words = Words::read(&words[0], &words[1..])?;
        let schemas = schemas();
        let (ddl, action) = schemas.action(&words)?;
        let plan = Plan::new(ddl, action, &words.inputs)?;
        Ok((plan.action.name().to_owned(), plan.data.into()))
    }

    #[test]
    fn the_default_action_is_meant_when_none_is_named() {
        let (action, data) = plan("puppetral type=user name=rip password=$1$x$ noop=yes").unwrap();
        assert_eq!(action, "do");
        assert_eq!(
            data,
            json!({"type": "user", "name": "rip", "password": "$1$x$", "noop": true})
        );
        assert_eq!(plan("puppetral find type=user name=rip").unwrap().0, "find");
    }

    #[test]
    fn mistakes_are_named_before_anything_is_sent() {
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
            assert_eq!(error.exit(), Exit::Usage, "{words}");
            assert!(!error.hints().is_empty(), "{words}");
        }
    }

    #[test]
    fn slips_are_answered_with_what_was_meant() {
        let hints = |words| plan(words).unwrap_err().hints().join("\n");
        assert!(hints("rpcutil pong").contains("`rpc do rpcutil ping`"));
        assert!(hints("rpcutl ping").contains("`rpcutil`"));
        assert!(hints("fact country").contains("`rpc facts`"));
    }
}
