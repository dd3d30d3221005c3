//! What a program printed, for the node's log and for errors: limited in length, without secrets and control characters.

use muster_api::ddl::{ActionSchema, REDACTED};
use serde_json::{Map, Value};

use super::process::ProgramOutput;

/// Minimum length of a secret that is redacted in output, in characters; redacting shorter ones would hide most of the output.
const MIN_SECRET_CHARS: usize = 4;
/// Maximum number of logged lines per stream.
const MAX_LOGGED_LINES: usize = 100;
const MAX_LOGGED_LINE_CHARS: usize = 1000;
/// Maximum length of a line of standard error that an error message contains, in characters.
const MAX_QUOTED_LINE_CHARS: usize = 500;

/// The exit status of a program, with the last line of its standard error.
pub(super) fn exit_summary(output: &ProgramOutput, secrets: &[String]) -> String {
    let stderr = redact_secrets(&String::from_utf8_lossy(&output.stderr), secrets);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => {
            let line: String = line.trim().chars().take(MAX_QUOTED_LINE_CHARS).collect();
            format!("{}: {line}", output.status)
        }
        None => output.status.to_string(),
    }
}

/// Logs standard output at info level and standard error at warning level; line by line, limited in number, with secrets redacted.
pub(super) fn log_output(agent: &str, output: &ProgramOutput, secrets: &[String]) {
    for line in redact_lines(&output.stdout, secrets) {
        tracing::info!(agent, "{line}");
    }
    for line in redact_lines(&output.stderr, secrets) {
        tracing::warn!(agent, "{line}");
    }
}

fn redact_lines(output: &[u8], secrets: &[String]) -> Vec<String> {
    let text = redact_secrets(&String::from_utf8_lossy(output), secrets);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let printable = |line: &str| {
        let printable = line.chars().filter(|character| !character.is_control());
        printable.take(MAX_LOGGED_LINE_CHARS).collect()
    };
    lines.take(MAX_LOGGED_LINES).map(printable).collect()
}

/// The values of sensitive inputs, as they could appear in output.
pub(super) fn sensitive_values(action: &ActionSchema, input: &Map<String, Value>) -> Vec<String> {
    let sensitive = input.iter().filter(|(name, _)| action.is_sensitive(name));
    let texts = sensitive.map(|(_, value)| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    texts.filter(|text| text.chars().count() >= MIN_SECRET_CHARS).collect()
}

/// Replaces each secret in the text. The longest come first: a secret that is part of a longer one would leave the rest of it readable.
pub(super) fn redact_secrets(text: &str, secrets: &[String]) -> String {
    let mut longest_first: Vec<&String> = secrets.iter().collect();
    longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    longest_first.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED))
}

#[cfg(test)]
mod tests {
    use super::{
        MAX_LOGGED_LINE_CHARS, MAX_LOGGED_LINES, MAX_QUOTED_LINE_CHARS, MIN_SECRET_CHARS,
        redact_lines, redact_secrets,
    };
    use crate::external::process::MAX_OUTPUT_BYTES;

    #[test]
    fn redacts_a_secret_that_contains_another_secret() {
        let secrets = ["hunter".to_owned(), "hunter22".to_owned()];
        let text = redact_secrets("it was hunter22, then hunter", &secrets);
        assert!(!text.contains("22") && !text.contains("hunter"), "{text}");
    }

    #[test]
    fn logged_lines_are_limited_in_number_and_length() {
        let long = format!("{}\n\n", "é".repeat(2 * MAX_LOGGED_LINE_CHARS));
        let lines = redact_lines(long.repeat(2 * MAX_LOGGED_LINES).as_bytes(), &[]);
        assert_eq!(lines.len(), MAX_LOGGED_LINES);
        assert!(lines.iter().all(|line| line.chars().count() == MAX_LOGGED_LINE_CHARS));
    }

    #[test]
    fn documented_limits_are_those_of_the_code() {
        let guide = include_str!("../../../../docs/guides/external-agents.md");
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for limit in [
            format!("the first {} KiB", MAX_OUTPUT_BYTES / 1024),
            format!("at most {MAX_LOGGED_LINES} lines"),
            format!("{MAX_LOGGED_LINE_CHARS} characters of each"),
            format!("of at least {MIN_SECRET_CHARS} characters"),
            format!("first {MAX_QUOTED_LINE_CHARS} characters of the last line"),
        ] {
            assert!(guide.contains(&limit), "the guide does not say {limit:?}");
        }
    }
}
