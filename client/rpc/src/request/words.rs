//! Agent, action and inputs of a request. For a value without the name of its input, as in `rpc service restart httpd`, the error has the right line.

use muster_client::{AgentSchemas, FleetRequestError, RequestWords};
use muster_ddl::ActionSchema;
use muster_display::shell_word;

use crate::flags::request::RequestArgs;
use crate::request::resume::EarlierJob;
use crate::session::context::{CommandContext, CommandError, CommandExitCode, Result};

#[derive(Debug, thiserror::Error)]
#[error("{word:?} is not KEY=VALUE: `{agent} {action}` needs the input `{input}`")]
struct UnnamedInputError {
    word: String,
    agent: String,
    action: String,
    input: String,
    line: String,
}

impl CommandError for UnnamedInputError {
    fn hints(&self) -> Vec<String> {
        vec![format!("write `{}`", self.line)]
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

/// The words of the command line, or of the earlier job.
pub fn request_words(
    args: &RequestArgs,
    earlier_job: Option<&EarlierJob>,
    cx: CommandContext<'_>,
) -> Result<RequestWords> {
    let Some(agent) = &args.agent else {
        // The argument parser ensures that one of the two exists.
        let saved = earlier_job.map(EarlierJob::request_words);
        return saved.map_or_else(|| Ok(RequestWords::parse("", &args.words)?), Ok);
    };
    let mut words = match RequestWords::parse(agent, &args.words) {
        Ok(words) => words,
        Err(error) => {
            let schemas = cx.load_schemas()?;
            return match find_missing_input(&error, args, &schemas) {
                Some(unnamed) => Err(unnamed.into()),
                None => Err(error.into()),
            };
        }
    };
    if let Some(earlier_job) = earlier_job {
        words.action.get_or_insert_with(|| earlier_job.job.header.action.clone());
    }
    Ok(words)
}

/// The required input that is missing, if the action is known and lacks one.
fn find_missing_input(
    error: &FleetRequestError,
    args: &RequestArgs,
    schemas: &AgentSchemas,
) -> Option<UnnamedInputError> {
    let FleetRequestError::InvalidInputFormat(word) = error else {
        return None;
    };
    if word.contains('=') {
        return None;
    }
    let agent = args.agent.clone()?;
    let named: Vec<String> = args.words.iter().filter(|other| *other != word).cloned().collect();
    let words = RequestWords::parse(&agent, &named).ok()?;
    let (_, action) = schemas.find_action(&words).ok()?;
    let input = missing_input(action, &words)?;
    let words = args.words.iter().map(|other| {
        shell_word(&if other == word { format!("{input}={word}") } else { other.clone() })
    });
    let line = ["rpc".to_owned(), agent.clone()].into_iter().chain(words);
    let line = line.collect::<Vec<_>>().join(" ");
    let (action, input) = (action.name().to_owned(), input.to_owned());
    Some(UnnamedInputError { word: word.clone(), agent, action, input, line })
}

/// The first required input that is not given.
fn missing_input<'a>(action: &'a ActionSchema, words: &RequestWords) -> Option<&'a str> {
    let is_given = |name: &str| words.inputs.iter().any(|(given, _)| given == name);
    let mut required =
        action.inputs().iter().filter(|input| !input.optional && input.default.is_none());
    required.find(|input| !is_given(&input.name)).map(|input| input.name.as_str())
}
