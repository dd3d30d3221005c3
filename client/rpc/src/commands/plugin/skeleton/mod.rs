//! Generates a new working agent: its DDL, its program or crate, and tests, as texts. Pure: writes no files.

mod rust;

use serde_json::{Value, json};

/// Templates of the programs, with placeholders for the agent's own values.
const PYTHON_TEMPLATE: &str = include_str!("agent.py");
const PYTHON_TEST_TEMPLATE: &str = include_str!("test.py");
const SHELL_TEMPLATE: &str = include_str!("agent.sh");
const SHELL_TEST_TEMPLATE: &str = include_str!("test.sh");

/// What the program is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentLanguage {
    /// Python 3, with the standard library only
    Python,
    /// POSIX shell
    Sh,
    /// Rust: a crate, whose program makes its DDL from its types
    Rust,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkeletonFile {
    /// Its path in the agent's directory.
    pub name: String,
    pub text: String,
    pub executable: bool,
}

impl SkeletonFile {
    fn new(name: impl Into<String>, text: String, executable: bool) -> Self {
        Self { name: name.into(), text, executable }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkeletonError {
    #[error(
        "{0:?} is not a valid name of an agent or action; use 1 to 64 lower-case letters, digits and _, with a letter first"
    )]
    Name(String),
    #[error("the action {0} is given twice")]
    DuplicateAction(String),
    #[error("the actions {0} and {1} would get the same Rust type name; rename one of them")]
    SameTypeName(String, String),
}

pub fn generate_files(
    agent: &str,
    language: AgentLanguage,
    actions: &[String],
) -> Result<Vec<SkeletonFile>, SkeletonError> {
    for (at, name) in actions.iter().enumerate() {
        check_name(name)?;
        if actions.iter().take(at).any(|earlier| earlier == name) {
            return Err(SkeletonError::DuplicateAction(name.clone()));
        }
    }
    check_name(agent)?;
    let (program, test) = match language {
        AgentLanguage::Python => (render_python(agent, actions), PYTHON_TEST_TEMPLATE),
        AgentLanguage::Sh => (render_shell(agent, actions), SHELL_TEST_TEMPLATE),
        AgentLanguage::Rust => return rust::generate_crate_files(agent, actions),
    };
    let document = format!("{:#}\n", build_ddl(agent, actions));
    let test = test.replace("@AGENT@", agent).replace("@ACTIONS@", &actions.join(" "));
    Ok(vec![
        SkeletonFile::new(format!("{agent}.json"), document, false),
        SkeletonFile::new(agent, program, true),
        SkeletonFile::new(format!("test_{agent}"), test, true),
    ])
}

/// Steps before the agent can be called, one line each; empty if a file in the right place is enough.
pub fn next_steps(agent: &str, language: AgentLanguage) -> Vec<String> {
    match language {
        AgentLanguage::Python | AgentLanguage::Sh => Vec::new(),
        AgentLanguage::Rust => rust::next_steps(agent),
    }
}

fn check_name(name: &str) -> Result<(), SkeletonError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    if starts_with_letter && name.len() <= 64 && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(SkeletonError::Name(name.to_owned()))
}

fn render_python(agent: &str, actions: &[String]) -> String {
    let function = |action: &String| {
        format!(
            "def do_{action}(data, request):\n    \"\"\"Describe what `{action}` does. Raise Failed(\"reason\") on failure.\"\"\"\n    \
             return {{\"message\": data.get(\"message\", \"hello\")}}\n"
        )
    };
    let functions: Vec<String> = actions.iter().map(function).collect();
    let table = |action: &String| format!("    \"{action}\": do_{action},");
    let table: Vec<String> = actions.iter().map(table).collect();
    PYTHON_TEMPLATE
        .replace("@AGENT@", agent)
        .replace("@FUNCTIONS@\n", &functions.join("\n\n"))
        .replace("@TABLE@", &table.join("\n"))
}

fn render_shell(agent: &str, actions: &[String]) -> String {
    let case = |action: &String| {
        format!(
            "        {action}) reply '{{\"statuscode\": 0, \"statusmsg\": \"OK\", \"data\": {{\"message\": \"hello\"}}}}' ;;"
        )
    };
    let cases: Vec<String> = actions.iter().map(case).collect();
    SHELL_TEMPLATE.replace("@AGENT@", agent).replace("@CASES@", &cases.join("\n"))
}

fn build_ddl(agent: &str, actions: &[String]) -> Value {
    let input = json!({"message": {
        "prompt": "Message", "description": "The message to return", "type": "string", "validation": "^.+$", "maxlength": 200,
        "optional": true, "default": "hello"}});
    let output = json!({"message": {"description": "The message", "display_as": "Message", "type": "string"}});
    let action_ddl = |action: &String| {
        json!({"action": action, "description": format!("Describe what {action} does"), "display": "always",
               "class": "read", "read_only": true, "input": input, "output": output})
    };
    let metadata = json!({"name": agent, "description": format!("Describe what {agent} is for"), "author": "You",
        "license": "Apache-2.0", "version": "0.1.0", "url": "", "timeout": 10, "provider": "external"});
    let actions: Vec<Value> = actions.iter().map(action_ddl).collect();
    json!({"metadata": metadata, "actions": actions})
}

#[cfg(test)]
mod tests {
    use muster_ddl::AgentDdl;

    use super::{AgentLanguage, SkeletonError, generate_files};

    #[test]
    fn generated_ddl_is_valid_and_declares_each_action() {
        let actions = ["usage".to_owned(), "top".to_owned()];
        for language in [AgentLanguage::Python, AgentLanguage::Sh] {
            let files = generate_files("disk", language, &actions).unwrap();
            let names: Vec<_> =
                files.iter().map(|file| (file.name.as_str(), file.executable)).collect();
            assert_eq!(names, [("disk.json", false), ("disk", true), ("test_disk", true)]);
            let ddl = AgentDdl::from_slice(files[0].text.as_bytes()).unwrap();
            assert_eq!(ddl.warnings(), &[] as &[String]);
            assert!(ddl.find_action("usage").is_some() && ddl.find_action("top").is_some());
            assert!(files.iter().all(|file| !file.text.contains('@')), "{files:?}");
        }
    }

    #[test]
    fn invalid_subject_names_are_refused() {
        for name in ["", "Disk", "a-b", "1st", "../x", "a.b"] {
            let refused = generate_files(name, AgentLanguage::Sh, &["x".to_owned()]);
            assert_eq!(refused, Err(SkeletonError::Name(name.to_owned())));
            assert!(generate_files("disk", AgentLanguage::Sh, &[name.to_owned()]).is_err());
        }
        let twice = ["x".to_owned(), "x".to_owned()];
        assert_eq!(
            generate_files("disk", AgentLanguage::Sh, &twice),
            Err(SkeletonError::DuplicateAction("x".to_owned()))
        );
    }
}
