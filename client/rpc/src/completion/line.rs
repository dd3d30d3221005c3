//! What shells send, and how they want their answer.

use clap::ValueEnum;

use super::engine::Candidate;

/// A shell that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash
    Bash,
    /// zsh, with compsys
    Zsh,
    /// fish
    Fish,
}

/// The words before the cursor, and the one at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Complete words, without the program's name.
    pub before: Vec<String>,
    /// The word at the cursor, as far as it is there.
    pub current: String,
    /// As much of it as the shell keeps by itself.
    kept: usize,
}

impl Line {
    /// Reads what the shell's script hands over: bash its line up to the cursor and what breaks its words, the others
    /// their words.
    pub fn read(shell: Shell, words: &[String]) -> Self {
        let (mut before, breaks) = match (shell, words) {
            (Shell::Bash, [line, breaks, ..]) => (split(line), breaks.as_str()),
            (Shell::Bash, [line]) => (split(line), ""),
            _ => (words.to_vec(), ""),
        };
        let current = before.pop().unwrap_or_default();
        if !before.is_empty() {
            before.remove(0);
        }
        // Bash breaks words at `=` and `:`, and replaces only what stands behind.
        let kept = current
            .rfind(|c| "=:".contains(c) && breaks.contains(c))
            .map_or(0, |at| at + 1);
        Self {
            before,
            current,
            kept,
        }
    }

    /// The candidates, a line each.
    pub fn answer(&self, shell: Shell, candidates: &[Candidate]) -> String {
        let row = |candidate: &Candidate| {
            let word = candidate.word.get(self.kept..).unwrap_or_default();
            match shell {
                Shell::Bash => format!("{word}\n"),
                Shell::Fish => format!("{word}\t{}\n", candidate.help),
                Shell::Zsh => format!("{}:{}\n", word.replace(':', "\\:"), candidate.help),
            }
        };
        candidates.iter().map(row).collect()
    }
}

/// Splits a line into words as shells do, as far as completion needs it: quotes and backslashes, and nothing else. The
/// last word is the one at the end, and empty behind a space.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let word = words.last_mut();
        match (c, quote, word) {
            ('\\', None | Some('"'), Some(word)) => word.extend(characters.next()),
            (c, Some(open), _) if c == open => quote = None,
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
    use super::{Candidate, Line, Shell, split};

    #[test]
    fn lines_are_split_as_shells_do() {
        assert_eq!(
            split("rpc find -W \"a b\" c\\ d 'e"),
            ["rpc", "find", "-W", "a b", "c d", "e"]
        );
        assert_eq!(split("rpc  find "), ["rpc", "find", ""]);
        assert_eq!(split(""), [""]);
    }

    #[test]
    fn bash_gets_what_stands_behind_its_word_breaks() {
        let words = ["rpc service status service=ht", " \t=:"].map(str::to_owned);
        let line = Line::read(Shell::Bash, &words);
        assert_eq!(line.before, ["service", "status"]);
        assert_eq!(line.current, "service=ht");
        let candidate = Candidate {
            word: "service=httpd".to_owned(),
            help: "the web".to_owned(),
        };
        assert_eq!(
            line.answer(Shell::Bash, std::slice::from_ref(&candidate)),
            "httpd\n"
        );
        let words = ["rpc", "service", "service=ht"].map(str::to_owned);
        let line = Line::read(Shell::Fish, &words);
        assert_eq!(
            line.answer(Shell::Fish, std::slice::from_ref(&candidate)),
            "service=httpd\tthe web\n"
        );
        assert_eq!(
            line.answer(Shell::Zsh, &[candidate]),
            "service=httpd:the web\n"
        );
    }
}
