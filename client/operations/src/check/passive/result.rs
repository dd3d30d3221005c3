//! Passive results, and the external command of Nagios that has one.
//!
//! Texts of nodes are not trusted: a line is one command, whatever they contain.

use muster_base::is_harmful;
use muster_contract::nrpe::CheckState;

/// Most bytes that a pipe takes at once, without bytes of others in between: `PIPE_BUF` of Linux.
pub(super) const MAX_LINE_BYTES: usize = 4096;

/// The result of a service check on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassiveResult {
    /// When it was, in seconds since the epoch.
    pub time: u64,
    /// The host, as the monitoring system names it.
    pub host: String,
    /// The service.
    pub service: String,
    /// The state.
    pub state: CheckState,
    /// The first line of the output.
    pub output: String,
    /// The performance data.
    pub perfdata: String,
    /// The other lines of the output.
    pub long_output: String,
}

impl PassiveResult {
    /// The command of Nagios, with its end: at most as long as a pipe takes at once. The output is the last part of a command, so that `;` needs no escape there.
    pub fn to_line(&self) -> String {
        let Self { time, state, .. } = self;
        let (host, service) = (command_part(&self.host), command_part(&self.service));
        let mut line = format!(
            "[{time}] PROCESS_SERVICE_CHECK_RESULT;{host};{service};{};{}",
            state.exit_code(),
            output_text(&self.output)
        );
        if !self.perfdata.is_empty() {
            line.push('|');
            line.push_str(&output_text(&self.perfdata));
        }
        for more in self.long_output.lines() {
            line.push_str("\\n");
            line.push_str(&output_text(more));
        }
        let end = line.floor_char_boundary(MAX_LINE_BYTES - 1);
        line.truncate(end);
        line.push('\n');
        line
    }
}

/// A part before the last one: without separators.
fn command_part(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) || matches!(c, ';' | '|') { '_' } else { c }).collect()
}

/// A part of the output: on one line, without characters that a terminal interprets and without a second begin of performance data. Line breaks are those
/// of Nagios, `\n`.
fn output_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            c => escaped.push(inert_character(c)),
        }
    }
    escaped
}

/// The character, or another one for those that a terminal interprets, and for the one that begins performance data.
pub(super) fn inert_character(c: char) -> char {
    match c {
        '|' => '/',
        '\t' => ' ',
        c if is_harmful(c) => '?',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX_LINE_BYTES, PassiveResult};
    use crate::check::passive::testing::sample_result as result;

    #[test]
    fn line_is_one_command_with_its_texts_escaped() {
        for (output, perfdata, long, expected) in [
            ("fine", "", "", "fine"),
            ("load; high", "load1=1;15;30;0; x=2", "", "load; high|load1=1;15;30;0; x=2"),
            ("a|b", "x=1", "two\nthree", "a/b|x=1\\ntwo\\nthree"),
            (
                "x\n[1] PROCESS_HOST_CHECK_RESULT;web2;0;fine",
                "",
                "",
                "x\\n[1] PROCESS_HOST_CHECK_RESULT;web2;0;fine",
            ),
            ("\u{1b}[2J\r\u{202e}\t'\"$(id)", "", "", "?[2J?? '\"$(id)"),
        ] {
            let line = result(output, perfdata, long).to_line();
            let head = "[1780000000] PROCESS_SERVICE_CHECK_RESULT;web1.example.net;load;2;";
            assert_eq!(line, format!("{head}{expected}\n"));
        }
        let hostile = PassiveResult {
            host: "a;b\n".to_owned(),
            service: "x;0;y".to_owned(),
            ..result("", "", "")
        };
        assert!(hostile.to_line().contains(";a_b_;x_0_y;2;\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_of_one_command(host in ".{0,20}", output in "(.|\n){0,60}", perfdata in "(.|\n){0,40}", long in "(.|\n){0,40}", repeat in 1_usize..200) {
            let output = output.repeat(repeat);
            let line = PassiveResult { host, ..result(&output, &perfdata, &long) }.to_line();
            prop_assert!(line.len() <= MAX_LINE_BYTES);
            prop_assert!(!line[..line.len() - 1].chars().any(muster_base::is_harmful), "{:?}", line);
            prop_assert!(line.ends_with('\n') && line.matches('|').count() <= 1);
            let parts: Vec<&str> = line.splitn(5, ';').collect();
            prop_assert_eq!(parts[0], "[1780000000] PROCESS_SERVICE_CHECK_RESULT");
            prop_assert_eq!(&parts[2..4], &["load", "2"][..]);
        }
    }
}
