//! Renders fragments: templates in, a text and its problems out. Pure.
//!
//! Templates are untrusted in three ways. Values of facts are stripped of control characters when they are inserted. The finished text keeps no
//! escape sequence but colours. A template that loops ends at [`MAX_STEPS`]. There is no access to files or the network. Memory is not limited here:
//! one step can double a value. `worker` runs this in a process with limits.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Output, State, UndefinedBehavior, Value};
use muster_api::base::{error_chain, is_harmful};
use muster_contract::motd::TerminalColor;
use muster_engine::types::motd_fragment::FragmentTarget;
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// Most instructions of one fragment.
const MAX_STEPS: u64 = 100_000;
/// Largest text, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Ends all attributes (ECMA-48, SGR 0).
const RESET: &str = "\u{1b}[0m";
/// Begins an escape sequence.
const ESCAPE_START: &str = "\u{1b}[";

/// A template with its name in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FragmentTemplate {
    /// The file name.
    pub(crate) name: String,
    /// The template.
    pub(crate) content: String,
    /// Whether the content is inserted as it is, without being a template.
    pub(crate) is_literal: bool,
}

/// What templates may use of the node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TemplateValues {
    /// The name of the node.
    pub(crate) identity: String,
    /// Its facts.
    pub(crate) facts: Map<String, serde_json::Value>,
    /// Its classes, lower case.
    pub(crate) classes: Vec<String>,
    /// The state of its subsystems.
    pub(crate) state: Map<String, serde_json::Value>,
}

/// Why a fragment is left out.
#[derive(Debug, Clone, thiserror::Error)]
#[error("fragment `{name}` is left out")]
pub(crate) struct FragmentError {
    pub(crate) name: String,
    pub(crate) source: TemplateError,
}

/// Why a template has no text. A worker sends it to the daemon.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub(crate) enum TemplateError {
    /// The template is invalid, or uses a value wrongly.
    #[error("{0}")]
    Template(String),
    /// The text would be too large.
    #[error("the whole text would exceed {MAX_TEXT_BYTES} bytes")]
    TooLarge,
    /// The process that rendered it was ended.
    #[error("its rendering was ended with code {code}: it needs more than {limits}; simplify the template", limits = crate::motd::worker::LIMITS)]
    Ended {
        /// 128 and the signal, or 124 if it did not end.
        code: i32,
    },
    /// The time for the whole text was over.
    #[error("the whole text takes longer than {} s", crate::motd::worker::TEXT_TIMEOUT.as_secs())]
    TooSlow,
    /// The process for rendering cannot be used.
    #[error("cannot render it: {0}")]
    Worker(String),
}

impl TemplateError {
    /// Whether another attempt with the same values would end the same way.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::TooSlow | Self::Worker(_))
    }
}

/// The text of one fragment, empty if it is omitted.
pub(crate) type FragmentOutcome = Result<String, TemplateError>;

/// A text, and the fragments that are not in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RenderedText {
    /// One block of lines for each fragment, in order.
    pub(crate) blocks: Vec<String>,
    /// Why fragments are left out.
    pub(crate) problems: Vec<FragmentError>,
}

impl RenderedText {
    /// The text of these fragments, from their outcomes.
    pub(crate) fn new(fragments: &[FragmentTemplate], outcomes: Vec<FragmentOutcome>) -> Self {
        let mut rendered = Self::default();
        for (fragment, outcome) in fragments.iter().zip(outcomes) {
            match outcome {
                Ok(block) => rendered.blocks.extend(Some(block).filter(|block| !block.is_empty())),
                Err(source) => {
                    rendered.problems.push(FragmentError { name: fragment.name.clone(), source });
                }
            }
        }
        rendered
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        self.blocks.concat()
    }
}

/// Renders the fragments in the given order, after a text of `size` bytes. A fragment without a visible character is omitted, unless its template is
/// blank lines only.
pub(crate) fn render_fragments(
    target: FragmentTarget,
    fragments: &[FragmentTemplate],
    values: &TemplateValues,
    mut size: usize,
) -> impl Iterator<Item = FragmentOutcome> {
    let environment = template_environment(target);
    fragments.iter().map(move |fragment| {
        let block = render_fragment(&environment, fragment, values)?;
        if block.trim().is_empty() && !fragment.content.trim().is_empty() {
            return Ok(String::new());
        }
        if size + block.len() > MAX_TEXT_BYTES {
            return Err(TemplateError::TooLarge);
        }
        size += block.len();
        Ok(block)
    })
}

fn render_fragment(
    environment: &Environment<'_>,
    fragment: &FragmentTemplate,
    values: &TemplateValues,
) -> FragmentOutcome {
    let mut text = if fragment.is_literal {
        fragment.content.clone()
    } else {
        environment
            .render_named_str(&fragment.name, &fragment.content, Serde(values))
            .map_err(|error| TemplateError::Template(error_chain(&error)))?
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(keep_colors_only(&text))
}

pub(crate) fn template_environment(target: FragmentTarget) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    // It cannot fail: only delimiters can be invalid.
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.unwrap_or_default());
    // A node without the fact leaves the place empty: `{{ facts.location.rack }}`.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // They mark a value as one that needs no stripping.
    for filter in ["safe", "escape", "e"] {
        environment.remove_filter(filter);
    }
    environment.add_filter("color", color_text);
    environment.add_filter("bold", |value: &Value| {
        Value::from_safe_string(format!("{ESCAPE_START}1m{}{RESET}", inert_text(value)))
    });
    let doubles_backslashes = target == FragmentTarget::Issue;
    environment.set_formatter(move |out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value| {
        if value.is_undefined() || value.is_none() {
            return Ok(());
        }
        let text = if value.is_safe() { value.to_string() } else { inert_text(value) };
        // getty replaces `\n`, `\l` and others in the text before a login.
        let text = if doubles_backslashes { text.replace('\\', "\\\\") } else { text };
        Ok(out.write_str(&text)?)
    });
    environment
}

/// The value as text without characters that control a terminal. A line end becomes a space, so that a fact cannot add a line.
fn inert_text(value: &Value) -> String {
    let text = value.to_string();
    let spaced = text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c });
    spaced.filter(|c| !is_harmful(*c)).collect()
}

fn color_text(value: &Value, name: &str) -> Result<Value, minijinja::Error> {
    let color = TerminalColor::ALL.into_iter().find(|color| color.as_str() == name);
    let Some(color) = color else {
        let known = TerminalColor::ALL.map(TerminalColor::as_str).join(", ");
        let problem = format!("`{name}` is not a colour; use one of {known}");
        return Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, problem));
    };
    let text = inert_text(value);
    Ok(Value::from_safe_string(format!("{ESCAPE_START}{}m{text}{RESET}", color.sgr_parameter())))
}

/// Removes control characters except line ends, tabs and the sequences that select colours.
pub(crate) fn keep_colors_only(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if let Some(sequence) = color_sequence(rest) {
            kept.push_str(sequence);
            sequence.len()
        } else {
            kept.extend(Some(c).filter(|c| matches!(c, '\n' | '\t') || !is_harmful(*c)));
            c.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    kept
}

/// The sequence that selects colours at the begin of the text: `ESC [ 1 ; 31 m`.
fn color_sequence(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix(ESCAPE_START)?;
    let length =
        parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    let is_color = length <= 16 && parameters.as_bytes().get(length) == Some(&b'm');
    text.get(..ESCAPE_START.len() + length + 1).filter(|_| is_color)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> TemplateValues {
        let facts = json!({
            "customer": "acme",
            "evil": "a\u{1b}]0;title\u{7}\u{1b}[31mred\nsecond\u{202e}",
            "backslash": "a\\nb",
            "list": ["x\u{1b}[2J", {"k": "\u{9b}31m"}],
        });
        TemplateValues {
            identity: "db1.example.net".to_owned(),
            facts: facts.as_object().unwrap().clone(),
            classes: vec!["mysql::master".to_owned()],
            state: Map::new(),
        }
    }

    fn render(target: FragmentTarget, content: &str) -> (String, Vec<String>) {
        let (name, content) = ("10_x".to_owned(), content.to_owned());
        let fragment = FragmentTemplate { name, content, is_literal: false };
        let fragments = [fragment];
        let outcomes = render_fragments(target, &fragments, &values(), 0).collect();
        let rendered = RenderedText::new(&fragments, outcomes);
        let problems = rendered.problems.iter().map(|problem| error_chain(problem));
        (rendered.text(), problems.collect())
    }

    #[test]
    fn templates_use_facts_and_classes() {
        let motd = |content| {
            let (text, problems) = render(FragmentTarget::Motd, content);
            assert_eq!(problems, [""; 0], "{content}");
            text
        };
        assert_eq!(motd("{{ identity }} of {{ facts.customer }}"), "db1.example.net of acme\n");
        assert_eq!(motd("{{ facts.location.rack }}|{{ facts.none }}"), "|\n");
        assert_eq!(
            motd("{% if \"mysql::master\" in classes %}\nmaster\n{% endif %}\n"),
            "master\n"
        );
        assert_eq!(motd("{% if \"apache\" in classes %}\nweb\n{% endif %}\n"), "");
        assert_eq!(motd("\n"), "\n", "a fragment of blank lines separates others");
        assert_eq!(motd("{{ facts.customer | color('red') }}"), "\u{1b}[31macme\u{1b}[0m\n");
    }

    #[test]
    fn a5_4_control_bytes_of_facts_are_stripped() {
        for template in [
            "{{ facts.evil }}",
            "{{ facts.evil | upper }}",
            "{{ facts.list }}",
            "{{ facts.list | join(' ') }}",
            "{{ facts | tojson }}",
            "{{ facts }}",
            "{% set x %}{{ facts.evil }}{% endset %}{{ x }}",
            "{% macro m(v) %}{{ v }}{% endmacro %}{{ m(facts.evil) }}",
            "{{ facts.evil ~ facts.list }}",
            "{{ \"\\u001b[2J\" }}",
            "{{ facts.evil | bold }}",
            "{{ facts.evil | color('red') }}",
            "a\u{1b}[2Jb\u{7}\u{8}",
            "{% for key in facts %}{{ facts[key] }}{% endfor %}",
            "{{ facts.evil | replace('a', '\u{1b}[2J') }}",
        ] {
            let (text, problems) = render(FragmentTarget::Motd, template);
            assert_eq!(problems, [""; 0], "{template}");
            let plain = ["\u{1b}[31m", "\u{1b}[1m", RESET]
                .iter()
                .fold(text.clone(), |text, color| text.replace(color, ""));
            assert!(!plain.trim_end().contains(is_harmful), "{template}: {text:?}");
            assert_eq!(text.lines().count(), 1, "{template}: {text:?}");
        }
        let (_, problems) = render(FragmentTarget::Motd, "{{ facts.evil | safe }}");
        assert!(problems[0].contains("unknown filter"), "{problems:?}");
        assert_eq!(render(FragmentTarget::Issue, "{{ facts.backslash }}").0, "a\\\\nb\n");
    }

    #[test]
    fn bad_templates_are_left_out_and_named() {
        for (template, problem) in [
            ("{% if %}", "fragment `10_x` is left out"),
            ("{{ facts.customer | color('pink') }}", "`pink` is not a colour"),
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
                "fuel",
            ),
            ("{% for a in range(9000) %}xxxxxxxxxx{% endfor %}", "exceed"),
            ("{% include '/etc/passwd' %}", "left out"),
        ] {
            let (text, problems) = render(FragmentTarget::Motd, template);
            assert_eq!(text, "", "{template}");
            assert!(problems[0].contains(problem), "{template}: {problems:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_controls_a_terminal(text in "[a-c\u{1b}\\[0-9;mJ\u{7}\u{9b}\n\u{202e}]{0,40}") {
            let kept = keep_colors_only(&text);
            prop_assert_eq!(keep_colors_only(&kept), kept.clone());
            let mut rest = kept.as_str();
            while let Some(at) = rest.find('\u{1b}') {
                let sequence = color_sequence(&rest[at..]);
                prop_assert!(sequence.is_some(), "{:?}", kept);
                rest = &rest[at + sequence.unwrap_or_default().len()..];
            }
        }
    }
}
