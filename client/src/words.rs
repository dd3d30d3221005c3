//! Splits the words of a request, `AGENT [ACTION] [KEY=VALUE]...`, without interpretation. Values stay as typed.

use muster_ddl::{Action, AgentContract as _};

use crate::error::FleetRequestError;

/// The parsed words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestWords {
    /// The agent.
    pub agent: String,
    /// The action; the agent's own default when absent.
    pub action: Option<String>,
    /// The inputs, in the order given.
    pub inputs: Vec<(String, String)>,
}

impl RequestWords {
    /// The words for an action with these inputs.
    pub fn new(agent: &str, action: Option<&str>, inputs: &[(&str, &str)]) -> Self {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let inputs = inputs.iter().map(own).collect();
        Self { agent: agent.to_owned(), action: action.map(str::to_owned), inputs }
    }

    /// The words of an action, without inputs.
    pub fn of_action<A: Action>() -> Self {
        Self::new(A::Agent::NAME, Some(A::NAME), &[])
    }

    /// Parses the words. The first word after the agent is an action unless it contains a `=`.
    pub fn parse(agent: &str, words: &[String]) -> Result<Self, FleetRequestError> {
        let (action, pairs) = match words.split_first() {
            Some((first, rest)) if !first.contains('=') => (Some(first.clone()), rest),
            _ => (None, words),
        };
        let inputs = pairs.iter().map(|word| parse_pair(word)).collect::<Result<_, _>>()?;
        Ok(Self { agent: agent.to_owned(), action, inputs })
    }
}

/// Splits at the first `=`; the value may contain more of them.
fn parse_pair(word: &str) -> Result<(String, String), FleetRequestError> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(FleetRequestError::InvalidInputFormat(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FleetRequestError, RequestWords};

    fn read(words: &[&str]) -> Result<RequestWords, FleetRequestError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (agent, rest) = words.split_first().unwrap();
        RequestWords::parse(agent, rest)
    }

    #[test]
    fn parses_action_and_inputs() {
        let words = read(&["puppetral", "do", "type=user", "name=rip", "password=$1$xxx"]).unwrap();
        assert_eq!(words.action.as_deref(), Some("do"));
        let inputs = [("type", "user"), ("name", "rip"), ("password", "$1$xxx")];
        assert_eq!(words.inputs, inputs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn action_is_optional_before_inputs() {
        let words = read(&["puppetral", "type=user", "name=rip"]).unwrap();
        assert_eq!((words.action, words.inputs.len()), (None, 2));
        assert_eq!(read(&["rpcutil"]).unwrap().action, None);
    }

    #[test]
    fn values_can_be_empty_or_contain_any_characters() {
        let words = read(&["a", "b", "x=", "y=a=b", "z= -C \n"]).unwrap();
        let values: Vec<&str> = words.inputs.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["", "a=b", " -C \n"]);
    }

    #[test]
    fn error_names_the_word_without_key_and_value() {
        for (words, named) in [
            (["a", "b", "c"], "\"c\""),
            (["a", "b", "=1"], "\"=1\""),
            (["a", "=1", "b=2"], "\"=1\""),
        ] {
            let error = read(&words).unwrap_err();
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(matches!(error, FleetRequestError::InvalidInputFormat(_)));
        }
    }

    proptest! {
        #[test]
        fn values_are_preserved_unchanged(key in "[^=]+", value in any::<String>()) {
            let words = vec!["action".to_owned(), format!("{key}={value}")];
            prop_assert_eq!(RequestWords::parse("agent", &words).unwrap().inputs, vec![(key, value)]);
        }
    }
}
