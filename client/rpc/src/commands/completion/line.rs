//! Parses the input of shell completion scripts, and formats the candidates for each shell.

use clap::ValueEnum;
use muster_display::printable::{escape_to_line, is_harmful};

use crate::commands::completion::engine::CompletionCandidate;

/// A shell that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// GNU bash
    Bash,
    /// zsh, with compsys
    Zsh,
    /// fish
    Fish,
}

/// The words before the cursor, and the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionLine {
    /// Complete words, without the program's name.
    pub before: Vec<String>,
    /// The word at the cursor, up to the cursor.
    pub current: String,
    /// Number of its bytes that the shell keeps unchanged.
    kept_length: usize,
}

impl CompletionLine {
    /// Parses the arguments of the completion script: bash passes its line up to the cursor and its word break characters, the other shells pass
    /// words.
    pub fn from_shell(shell: CompletionShell, words: &[String]) -> Self {
        let (mut before, breaks) = match (shell, words) {
            (CompletionShell::Bash, [line, breaks, ..]) => (split_words(line), breaks.as_str()),
            (CompletionShell::Bash, [line]) => (split_words(line), ""),
            _ => (words.to_vec(), ""),
        };
        let current = before.pop().unwrap_or_default();
        if !before.is_empty() {
            before.remove(0);
        }
        // Bash breaks words at `=` and `:`, and replaces only the last part.
        let kept_length =
            current.rfind(|c| "=:".contains(c) && breaks.contains(c)).map_or(0, |at| at + 1);
        Self { before, current, kept_length }
    }

    /// The value of an option before the cursor, as `-c VALUE` or `--config=VALUE`.
    pub fn option_value(&self, names: &[&str]) -> Option<&str> {
        let mut words = self.before.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if names.contains(&word) {
                return words.next();
            }
            let attached = word.split_once('=').filter(|(name, _)| names.contains(name));
            if let Some((_, value)) = attached {
                return Some(value);
            }
        }
        None
    }

    /// Formats the candidates, one per line. Some originate from nodes (fact names, values in DDLs), so they are escaped: they cannot send terminal
    /// sequences or run as a command.
    pub fn render_answer(
        &self,
        shell: CompletionShell,
        candidates: &[CompletionCandidate],
    ) -> String {
        let row = |candidate: &CompletionCandidate| {
            let word = candidate.word.get(self.kept_length..).unwrap_or_default();
            let help = escape_to_line(&candidate.help);
            match shell {
                // Bash inserts the word unchanged; the other shells quote it themselves.
                CompletionShell::Bash => format!("{}\n", quote_word(word)),
                CompletionShell::Fish => format!("{word}\t{help}\n"),
                CompletionShell::Zsh => {
                    format!("{}:{help}\n", word.replace('\\', "\\\\").replace(':', "\\:"))
                }
            }
        };
        let is_harmless = |candidate: &&CompletionCandidate| !candidate.word.contains(is_harmful);
        candidates.iter().filter(is_harmless).map(row).collect()
    }
}

/// Quotes the word for bash: every character with a meaning to a shell is escaped by a backslash.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,=".contains(c);
    let mut quoted = String::with_capacity(word.len());
    for c in word.chars() {
        if !is_plain(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// Splits a line at white space, with quotes and backslashes but no other shell syntax. The last word is the one at the end of the line, empty after
/// a space.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let word = words.last_mut();
        match (c, quote, word) {
            ('\\', None | Some('"'), Some(word)) => word.extend(characters.next()),
            (c, Some(open_quote), _) if c == open_quote => quote = None,
            ('\'' | '"', None, _) => quote = Some(c),
            (' ' | '\t', None, Some(word)) => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (c, _, Some(word)) => word.push(c),
            (_, _, None) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{CompletionCandidate, CompletionLine, CompletionShell, split_words};

    #[test]
    fn lines_are_split_as_by_a_shell() {
        assert_eq!(
            split_words("rpc find -W \"a b\" c\\ d 'e"),
            ["rpc", "find", "-W", "a b", "c d", "e"]
        );
        assert_eq!(split_words("rpc  find "), ["rpc", "find", ""]);
        assert_eq!(split_words(""), [""]);
    }

    #[test]
    fn candidates_contain_no_commands_or_escape_sequences() {
        let line = CompletionLine::from_shell(
            CompletionShell::Bash,
            &["rpc facts ".to_owned(), " \t=:".to_owned()],
        );
        let candidate = |word: &str| CompletionCandidate {
            word: word.to_owned(),
            help: "told\u{1b}[2J".to_owned(),
        };
        let candidates = [
            candidate("os.family"),
            candidate("$(reboot);`x`&*~"),
            candidate("gone\u{1b}[2J"),
            candidate("two\nlines"),
        ];
        assert_eq!(
            line.render_answer(CompletionShell::Bash, &candidates),
            "os.family\n\\$\\(reboot\\)\\;\\`x\\`\\&\\*\\~\n"
        );
        for shell in [CompletionShell::Fish, CompletionShell::Zsh] {
            let answer = line.render_answer(shell, &candidates);
            assert_eq!(answer.lines().count(), 2, "{answer}");
            assert!(!answer.contains('\u{1b}'), "{answer}");
        }
    }

    #[test]
    fn options_before_the_cursor_have_values() {
        for line in ["rpc -c other.toml find -C ", "rpc find --config=other.toml -C "] {
            let words = [line, " \t=:"].map(str::to_owned);
            let line = CompletionLine::from_shell(CompletionShell::Bash, &words);
            assert_eq!(line.option_value(&["-c", "--config"]), Some("other.toml"));
        }
    }

    #[test]
    fn bash_candidates_omit_the_part_before_the_word_break() {
        let words = ["rpc service status service=ht", " \t=:"].map(str::to_owned);
        let line = CompletionLine::from_shell(CompletionShell::Bash, &words);
        assert_eq!(line.before, ["service", "status"]);
        assert_eq!(line.option_value(&["-c", "--config"]), None);
        assert_eq!(line.current, "service=ht");
        let candidate =
            CompletionCandidate { word: "service=httpd".to_owned(), help: "the web".to_owned() };
        assert_eq!(
            line.render_answer(CompletionShell::Bash, std::slice::from_ref(&candidate)),
            "httpd\n"
        );
        let words = ["rpc", "service", "service=ht"].map(str::to_owned);
        let line = CompletionLine::from_shell(CompletionShell::Fish, &words);
        assert_eq!(
            line.render_answer(CompletionShell::Fish, std::slice::from_ref(&candidate)),
            "service=httpd\tthe web\n"
        );
        assert_eq!(
            line.render_answer(CompletionShell::Zsh, &[candidate]),
            "service=httpd:the web\n"
        );
    }
}
