//! Splits a command line of `nrpe.cfg` into program and arguments, with the quotes of a shell but without a shell.
//!
//! Macros are those of NRPE 4.1: `$ARG1$` to `$ARG16$`, and `$$` for a dollar sign. Arguments are replaced in words that are already split, and the result is not
//! parsed again: an argument never becomes two words, a quote, or an operator. Wildcards and `~` are not expanded. A line that needs a shell is refused.

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::nrpe::nrpe_file::leading_number;

const MAX_ARGUMENT_NUMBER: usize = 16;
/// Unquoted characters that only a shell can interpret.
const SHELL_OPERATORS: &str = ";|&<>()`";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    #[error("the command line is empty")]
    Empty,
    /// The line has an operator, a substitution, a variable or a comment.
    #[error(
        "the command line needs a shell for `{0}`, and none is used: put it into a script, or quote it"
    )]
    NeedsShell(String),
    #[error("the command line has a quote {0} that is not closed")]
    OpenQuote(char),
    #[error("the command line ends with a backslash")]
    Backslash,
    #[error("the program cannot come from an argument: the first word contains $ARG{0}$")]
    ProgramArgument(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTemplate {
    words: Vec<TemplateWord>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TemplateWord {
    parts: Vec<WordPart>,
    is_quoted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WordPart {
    Text(String),
    /// The number of an argument, from 1.
    Argument(usize),
}

/// A part of a line whose macros were read: a character that a shell would read, or an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineToken {
    Char(char),
    /// The number of an argument, from 1.
    Argument(usize),
}

impl CommandTemplate {
    pub fn parse(line: &str) -> Result<Self, CommandLineError> {
        let mut words = Vec::new();
        let mut word = None;
        let mut rest = read_macros(line).into_iter().peekable();
        while let Some(token) = rest.next() {
            let c = match token {
                LineToken::Char(c) => c,
                LineToken::Argument(number) => {
                    word.get_or_insert_with(TemplateWord::default).push_argument(number);
                    continue;
                }
            };
            if c.is_whitespace() {
                words.extend(word.take());
                continue;
            }
            if SHELL_OPERATORS.contains(c) || (c == '#' && word.is_none()) {
                return Err(CommandLineError::NeedsShell(c.to_string()));
            }
            let current = word.get_or_insert_with(TemplateWord::default);
            match c {
                '\'' => current.read_single_quoted(&mut rest)?,
                '"' => current.read_double_quoted(&mut rest)?,
                '\\' => current.push_token(rest.next().ok_or(CommandLineError::Backslash)?),
                '$' => current.read_dollar(&mut rest)?,
                c => current.push(c),
            }
        }
        words.extend(word);
        let template = Self { words };
        template.check_program()?;
        Ok(template)
    }

    fn check_program(&self) -> Result<(), CommandLineError> {
        let program = self.words.first().ok_or(CommandLineError::Empty)?;
        let argument = program.parts.iter().find_map(|part| match part {
            WordPart::Argument(number) => Some(*number),
            WordPart::Text(_) => None,
        });
        if let Some(number) = argument {
            return Err(CommandLineError::ProgramArgument(number));
        }
        let program = program.to_text(&[]);
        let is_assignment = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match program.split_once('=') {
            _ if program.is_empty() => Err(CommandLineError::Empty),
            Some((name, _)) if is_assignment(name) => {
                Err(CommandLineError::NeedsShell(format!("{name}=")))
            }
            _ => Ok(()),
        }
    }

    /// Program and arguments, with these values of `$ARG1$` and so on. A missing value is empty; an unquoted word that is empty then is left out,
    /// as by a shell.
    pub fn to_argv(&self, arguments: &[String]) -> Vec<String> {
        let words = self.words.iter();
        let texts = words.map(|word| (word, word.to_text(arguments)));
        texts
            .filter(|(word, text)| word.is_quoted || !text.is_empty())
            .map(|(_, text)| text)
            .collect()
    }
}

/// Reads the macros of a line as NRPE does, before quotes are read: every second part between dollar signs is a macro. An empty one is a dollar sign. One that begins with
/// `ARG` is the argument of that number, or nothing. Any other part keeps its dollar signs; NRPE adds the last one if the line has an odd number of them.
fn read_macros(line: &str) -> Vec<LineToken> {
    let mut tokens = Vec::new();
    for (index, part) in line.split('$').enumerate() {
        let chars = |text: &str| text.chars().map(LineToken::Char).collect::<Vec<_>>();
        if index % 2 == 0 {
            tokens.extend(chars(part));
        } else if part.is_empty() {
            tokens.push(LineToken::Char('$'));
        } else if let Some(number) = part.strip_prefix("ARG") {
            let number = usize::try_from(leading_number(number)).unwrap_or(0);
            let is_argument = (1..=MAX_ARGUMENT_NUMBER).contains(&number);
            tokens.extend(is_argument.then_some(LineToken::Argument(number)));
        } else {
            tokens.extend(chars(&format!("${part}$")));
        }
    }
    tokens
}

type LineTokens = Peekable<IntoIter<LineToken>>;

impl TemplateWord {
    fn push_token(&mut self, token: LineToken) {
        match token {
            LineToken::Char(c) => self.push(c),
            LineToken::Argument(number) => self.push_argument(number),
        }
    }

    fn push_argument(&mut self, number: usize) {
        self.parts.push(WordPart::Argument(number));
    }

    fn push(&mut self, c: char) {
        if let Some(WordPart::Text(text)) = self.parts.last_mut() {
            text.push(c);
        } else {
            self.parts.push(WordPart::Text(c.to_string()));
        }
    }

    fn read_single_quoted(&mut self, rest: &mut LineTokens) -> Result<(), CommandLineError> {
        self.is_quoted = true;
        loop {
            match rest.next().ok_or(CommandLineError::OpenQuote('\''))? {
                LineToken::Char('\'') => return Ok(()),
                token => self.push_token(token),
            }
        }
    }

    fn read_double_quoted(&mut self, rest: &mut LineTokens) -> Result<(), CommandLineError> {
        self.is_quoted = true;
        loop {
            match rest.next().ok_or(CommandLineError::OpenQuote('"'))? {
                LineToken::Char('"') => return Ok(()),
                LineToken::Char('`') => return Err(CommandLineError::NeedsShell("`".to_owned())),
                LineToken::Char('$') => self.read_dollar(rest)?,
                LineToken::Char('\\') => {
                    let is_escape = |token: &LineToken| {
                        matches!(token, LineToken::Char('"' | '\\' | '$' | '`'))
                    };
                    self.push_token(rest.next_if(is_escape).unwrap_or(LineToken::Char('\\')));
                }
                token => self.push_token(token),
            }
        }
    }

    /// A dollar sign that a shell would interpret.
    fn read_dollar(&mut self, rest: &mut LineTokens) -> Result<(), CommandLineError> {
        if let Some(LineToken::Char(c)) = rest.peek()
            && (c.is_ascii_alphanumeric() || "_{(?$!@*#-'".contains(*c))
        {
            return Err(CommandLineError::NeedsShell(format!("${c}")));
        }
        self.push('$');
        Ok(())
    }

    fn to_text(&self, arguments: &[String]) -> String {
        let parts = self.parts.iter().map(|part| match part {
            WordPart::Text(text) => text.as_str(),
            WordPart::Argument(number) => number
                .checked_sub(1)
                .and_then(|index| arguments.get(index))
                .map_or("", String::as_str),
        });
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CommandLineError, CommandTemplate};

    fn argv(line: &str, arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        CommandTemplate::parse(line).unwrap().to_argv(&arguments)
    }

    #[test]
    fn splits_words_as_a_shell_does() {
        for (line, expected) in [
            ("/bin/check", vec!["/bin/check"]),
            ("  check_load \t -w 15,10,5  -c 30 ", vec!["check_load", "-w", "15,10,5", "-c", "30"]),
            ("a 'b c' \"d e\"", vec!["a", "b c", "d e"]),
            ("a b'c'\"d\"e", vec!["a", "bcde"]),
            ("a '' \"\"", vec!["a", "", ""]),
            ("a \\;\\  'x;|&`$(y)$HOME' \";|&<>()\"", vec!["a", "; ", "x;|&`$(y)$HOME", ";|&<>()"]),
            ("a \"\\\"\\\\\\$$HOME\\`\\n\"", vec!["a", "\"\\$HOME`\\n"]),
            ("a *.log ~/x [0-9]? {a,b}", vec!["a", "*.log", "~/x", "[0-9]?", "{a,b}"]),
            ("a x#y $ 5$ \"$$\"", vec!["a", "x#y", "$", "5$", "$"]),
            ("a --regex='^(x|y)$$'", vec!["a", "--regex=^(x|y)$"]),
        ] {
            assert_eq!(argv(line, &[]), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_need_a_shell_are_refused() {
        for (line, what) in [
            ("a; b", ";"),
            ("a | b", "|"),
            ("a && b", "&"),
            ("a > /tmp/x", ">"),
            ("a 2>&1", ">"),
            ("a < x", "<"),
            ("a `b`", "`"),
            ("a \"`b`\"", "`"),
            ("a $(b)", "$("),
            ("a \"$(b)\"", "$("),
            ("a ${HOME}", "${"),
            ("a $HOME", "$H"),
            ("a $$HOME", "$H"),
            ("a \"$$(b)\"", "$("),
            ("a $?", "$?"),
            ("(a)", "("),
            ("a # comment", "#"),
            ("LANG=C a", "LANG="),
        ] {
            let error = CommandTemplate::parse(line).unwrap_err();
            assert_eq!(error, CommandLineError::NeedsShell(what.to_owned()), "{line}");
            assert!(error.to_string().contains("needs a shell"), "{error}");
        }
        for (line, error) in [
            ("", CommandLineError::Empty),
            ("''", CommandLineError::Empty),
            ("a 'b", CommandLineError::OpenQuote('\'')),
            ("a \"b", CommandLineError::OpenQuote('"')),
            ("a \\", CommandLineError::Backslash),
            ("$ARG1$ x", CommandLineError::ProgramArgument(1)),
            ("/bin/$ARG2$", CommandLineError::ProgramArgument(2)),
        ] {
            assert_eq!(CommandTemplate::parse(line), Err(error), "{line}");
        }
    }

    /// The arguments were recorded from NRPE 4.1.0 of Debian 12, whose commands printed them.
    #[test]
    fn macros_are_those_of_nrpe() {
        for (line, expected) in [
            ("a '$$1' x", vec!["a", "$1", "x"]),
            ("a \"p$$\"", vec!["a", "p$"]),
            ("a x $ 5$", vec!["a", "x", "$", "5$"]),
            ("a '$foo$' y", vec!["a", "$foo$", "y"]),
            // An odd dollar sign: NRPE adds another one at the end of the line.
            ("a 'a$b'", vec!["a", "a$b$"]),
            ("a --regex='^(x|y)$'", vec!["a", "--regex=^(x|y)$$"]),
            ("a [$ARG17$] [$ARG0$] [$ARGx$]", vec!["a", "[]", "[]", "[]"]),
        ] {
            assert_eq!(argv(line, &[]), expected, "{line}");
        }
        for line in ["a $ARG1$", "a $ARG01$", "a $ARG 1$", "a $ARG1x$", "a $ARG1"] {
            assert_eq!(argv(line, &["one"]), ["a", "one"], "{line}");
        }
    }

    #[test]
    fn arguments_are_replaced_in_words_and_not_parsed_again() {
        let hostile = "x; rm -rf / $(id) `id` 'a\" | $ARG2$ > y";
        assert_eq!(argv("a -w $ARG1$", &[hostile]), ["a", "-w", hostile]);
        assert_eq!(
            argv("a '-w $ARG1$'", &[hostile]),
            vec!["a".to_owned(), format!("-w {hostile}")]
        );
        assert_eq!(argv("a \"$ARG1$$ARG2$\"", &["x", "y"]), ["a", "xy"]);
        assert_eq!(argv("a $ARG16$ b", &["1"]), ["a", "b"]);
        assert_eq!(argv("a \"$ARG16$\" b", &["1"]), ["a", "", "b"]);
        assert_eq!(argv("a p=$ARG1$", &[""]), ["a", "p="]);
    }

    proptest! {
        #[test]
        fn quoted_words_are_unchanged(words in prop::collection::vec("[^'\u{0}$]{0,12}", 1..6)) {
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            let template = CommandTemplate::parse(&format!("a {}", quoted.join(" "))).unwrap();
            prop_assert_eq!(&template.to_argv(&[])[1..], words);
        }

        #[test]
        fn number_of_words_does_not_depend_on_arguments(line in "a( [-a-z'\"$ARG12]{1,9}){0,5}", first in ".{1,20}", second in ".{1,20}") {
            if let Ok(template) = CommandTemplate::parse(&line) {
                let plain = template.to_argv(&["x".to_owned(), "y".to_owned()]);
                let other = template.to_argv(&[first, second]);
                prop_assert_eq!(plain.len(), other.len());
                prop_assert_eq!(&plain[0], &other[0]);
            }
        }

        #[test]
        fn any_line_is_split_or_refused(line in ".{0,80}") {
            if let Ok(template) = CommandTemplate::parse(&line) {
                prop_assert!(!template.to_argv(&[]).is_empty());
            }
        }
    }
}
