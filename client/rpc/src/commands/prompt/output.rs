//! Renders the part of a prompt that names the machine, with the width marks of each shell. Pure.

use console::measure_text_width;
use muster_contract::motd::{PromptStatus, TerminalColor, prompt_word};
use muster_display::printable::TextStyle;

use crate::commands::prompt::args::PromptShell;

#[derive(Debug, Clone, Copy)]
pub struct PromptOptions {
    pub shell: PromptShell,
    /// Maximum width, in columns.
    pub width: usize,
    pub has_colors: bool,
    /// Whether the daemon has not updated the file for a long time.
    pub is_stale: bool,
}

type ColoredWord = (String, Option<TerminalColor>);

/// `[acme production web,db +2 puppet-disabled] `; empty if there is nothing to show.
///
/// Words are cleaned again, although the daemon has cleaned them: what a prompt contains, the shell may interpret.
pub fn render_prompt(status: &PromptStatus, options: PromptOptions) -> String {
    let words = PromptWords::new(status, options.is_stale);
    let count = words.count();
    let mut shown = words.layout(count);
    for kept in (0..count).rev() {
        if layout_width(&shown) <= options.width {
            break;
        }
        shown = words.layout(kept);
    }
    let shown: Vec<String> =
        shown.iter().map(|(word, color)| color_word(word, *color, options)).collect();
    if shown.is_empty() { String::new() } else { format!("[{}] ", shown.join(" ")) }
}

/// The words in the order in which they are kept: the machine's facts, then warnings, then roles.
struct PromptWords {
    segments: Vec<ColoredWord>,
    warnings: Vec<ColoredWord>,
    roles: Vec<String>,
}

impl PromptWords {
    fn new(status: &PromptStatus, is_stale: bool) -> Self {
        let clean = |word: &String| prompt_word(word);
        let segments = status.segments.iter();
        let segments = segments.filter_map(|found| Some((prompt_word(&found.text)?, found.color)));
        let stale = is_stale.then(|| "rpcd-down".to_owned());
        let warnings = status.warnings.iter().filter_map(clean).chain(stale);
        Self {
            segments: segments.collect(),
            warnings: warnings.map(|word| (word, Some(TerminalColor::Yellow))).collect(),
            roles: status.roles.iter().filter_map(clean).collect(),
        }
    }

    fn count(&self) -> usize {
        self.segments.len() + self.warnings.len() + self.roles.len()
    }

    /// The first words as they are shown: facts, roles, the number of words that are left out, warnings.
    fn layout(&self, kept: usize) -> Vec<ColoredWord> {
        let segments = self.segments.iter().take(kept);
        let warnings = self.warnings.iter().take(kept.saturating_sub(self.segments.len()));
        let roles = kept.saturating_sub(self.segments.len() + self.warnings.len());
        let roles = self.roles.get(..roles).unwrap_or_default();
        let left_out = self.count() - kept;
        let plain = |is_shown: bool, word: String| is_shown.then_some((word, None));
        segments
            .cloned()
            .chain(plain(!roles.is_empty(), roles.join(",")))
            .chain(plain(left_out > 0, format!("+{left_out}")))
            .chain(warnings.cloned())
            .collect()
    }
}

/// The width with brackets, the spaces between words and the one at the end.
fn layout_width(words: &[ColoredWord]) -> usize {
    words.iter().map(|(word, _)| measure_text_width(word) + 1).sum::<usize>() + 2
}

/// The shell must know which characters have no width, or it breaks long lines at the wrong place.
fn color_word(word: &str, color: Option<TerminalColor>, options: PromptOptions) -> String {
    let Some(color) = color.filter(|_| options.has_colors) else { return word.to_owned() };
    let parameter = color.sgr_parameter();
    match options.shell {
        PromptShell::Bash => format!("\\[\\e[{parameter}m\\]{word}\\[\\e[0m\\]"),
        PromptShell::Zsh => format!("%F{{{}}}{word}%f", color.as_str()),
        // fish removes the sequences itself when it measures.
        PromptShell::Fish => {
            let style = TextStyle { is_bold: false, color: Some(parameter) };
            format!("{style}{word}{style:#}")
        }
        PromptShell::Sh => word.to_owned(),
    }
}

/// The commands that add the text to the prompts of a shell. Run twice, they add it once. They keep the exit code that the prompt shows.
pub fn init_script(shell: PromptShell) -> &'static str {
    match shell {
        PromptShell::Bash => {
            r#"if [ -z "${__muster_prompt_rest+set}" ]; then
  __muster_prompt_rest=$PS1
  __muster_prompt() {
    local status=$?
    PS1="$(rpc prompt --shell bash 2>/dev/null)$__muster_prompt_rest"
    return "$status"
  }
  PROMPT_COMMAND="__muster_prompt${PROMPT_COMMAND:+;$PROMPT_COMMAND}"
fi
"#
        }
        PromptShell::Zsh => {
            r#"if [[ -z "${__muster_prompt_rest+set}" ]]; then
  __muster_prompt_rest=$PROMPT
  __muster_prompt() {
    PROMPT="$(rpc prompt --shell zsh 2>/dev/null)$__muster_prompt_rest"
  }
  autoload -Uz add-zsh-hook
  add-zsh-hook precmd __muster_prompt
fi
"#
        }
        PromptShell::Fish => {
            r"if not functions -q __muster_prompt_rest
  functions -q fish_prompt; or function fish_prompt; echo -n '> '; end
  functions -c fish_prompt __muster_prompt_rest
  function __muster_prompt_status; return $argv[1]; end
  function fish_prompt
    set -l last $status
    rpc prompt --shell fish 2>/dev/null
    __muster_prompt_status $last
    __muster_prompt_rest
  end
end
"
        }
        PromptShell::Sh => {
            r#"if [ -z "${__muster_prompt_rest+set}" ]; then
  __muster_prompt_rest=$PS1
  PS1='$(rpc prompt --shell sh 2>/dev/null)'"$__muster_prompt_rest"
fi
"#
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::motd::PromptSegment;
    use muster_display::printable::printed_text;

    use super::*;

    fn status(roles: &[&str], warnings: &[&str]) -> PromptStatus {
        let segment = |text: &str, color| PromptSegment { text: text.to_owned(), color };
        PromptStatus {
            segments: vec![segment("acme", None), segment("production", Some(TerminalColor::Red))],
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            warnings: warnings.iter().map(|warning| (*warning).to_owned()).collect(),
        }
    }

    fn options(shell: PromptShell) -> PromptOptions {
        PromptOptions { shell, width: 40, has_colors: true, is_stale: false }
    }

    #[test]
    fn a5_5_colors_are_marked_as_each_shell_needs_it() {
        let render = |shell| render_prompt(&status(&["web", "db"], &[]), options(shell));
        assert_eq!(render(PromptShell::Bash), "[acme \\[\\e[31m\\]production\\[\\e[0m\\] web,db] ");
        assert_eq!(render(PromptShell::Zsh), "[acme %F{red}production%f web,db] ");
        assert_eq!(
            printed_text(&render(PromptShell::Fish), true),
            "[acme \u{1b}[31mproduction\u{1b}[0m web,db] "
        );
        assert_eq!(render(PromptShell::Sh), "[acme production web,db] ");
        let plain = PromptOptions { has_colors: false, ..options(PromptShell::Bash) };
        assert_eq!(
            render_prompt(&status(&[], &["run-failed"]), plain),
            "[acme production run-failed] "
        );
        assert_eq!(render_prompt(&PromptStatus::default(), plain), "");
    }

    #[test]
    fn text_fits_the_width() {
        let roles = ["web", "database", "backup", "monitoring", "queue"];
        let narrow = |width, warnings: &[&str]| {
            let options = PromptOptions { width, has_colors: false, ..options(PromptShell::Bash) };
            let text = render_prompt(&status(&roles, warnings), options);
            assert!(measure_text_width(&text) <= width.max(5), "{width}: {text:?}");
            text
        };
        assert_eq!(narrow(80, &[]), "[acme production web,database,backup,monitoring,queue] ");
        assert_eq!(narrow(40, &[]), "[acme production web,database +3] ");
        assert_eq!(narrow(40, &["run-failed"]), "[acme production web +4 run-failed] ");
        assert_eq!(narrow(12, &[]), "[acme +6] ");
        for width in 0..60 {
            narrow(width, &["puppet-disabled", "run-failed"]);
        }
    }

    #[test]
    fn a_file_that_others_wrote_cannot_inject_anything() {
        let mut evil = status(&["$(id)", "`id`", "%n\\u\u{1b}[2J"], &["\u{7}x"]);
        evil.segments[0].text = "${HOME}".to_owned();
        for shell in [PromptShell::Bash, PromptShell::Zsh, PromptShell::Fish, PromptShell::Sh] {
            let options = PromptOptions { has_colors: false, width: 80, ..options(shell) };
            let text = render_prompt(&evil, options);
            assert!(!text.contains(['$', '`', '%', '\\', '\u{1b}', '\u{7}', '(', '{']), "{text:?}");
        }
    }
}
