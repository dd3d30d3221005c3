//! Reads the literals of Ruby that contain text: quoted texts, `%` literals, heredocs and regular expressions.

use super::error::{RubyDdlError, RubyDdlProblem, shorten_text};
use super::lexer::{RubyLexer, RubyTokenKind, is_name_part, is_name_start};

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPart {
    /// Text as it is.
    Literal(String),
    /// `#{variable.method}`.
    Inserted {
        /// The name of the variable.
        variable: String,
        /// Methods that are called on its value, in this order.
        methods: Vec<String>,
    },
}

/// Collects the parts of a text.
#[derive(Default)]
struct TextCollector {
    parts: Vec<TextPart>,
    literal: String,
}

impl TextCollector {
    fn insert(&mut self, part: TextPart) {
        self.end_literal();
        self.parts.push(part);
    }

    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            self.parts.push(TextPart::Literal(std::mem::take(&mut self.literal)));
        }
    }

    fn finish(mut self) -> Vec<TextPart> {
        self.end_literal();
        self.parts
    }
}

/// The characters that end a literal and nest in it, and whether escapes and insertions are processed.
#[derive(Clone, Copy)]
struct LiteralQuotes {
    opening: Option<char>,
    closing: char,
    is_processed: bool,
}

impl RubyLexer<'_> {
    /// Reads a literal that begins with a quote, a slash or a percent sign.
    pub(super) fn read_quoted(&mut self, first: char) -> Result<RubyTokenKind, RubyDdlError> {
        self.advance();
        match first {
            '/' => self.read_pattern(None, '/'),
            '%' => self.read_percent(),
            quote => {
                let quotes =
                    LiteralQuotes { opening: None, closing: quote, is_processed: quote == '"' };
                let parts = self.read_text(quotes)?;
                // `"name": value` is a label, as `name: value` is.
                match parts.as_slice() {
                    [TextPart::Literal(name)]
                        if self.rest.starts_with(": ") || self.rest.starts_with(":\n") =>
                    {
                        let label = RubyTokenKind::Label(name.clone());
                        self.advance();
                        Ok(label)
                    }
                    _ => Ok(RubyTokenKind::Text(parts)),
                }
            }
        }
    }

    fn read_percent(&mut self) -> Result<RubyTokenKind, RubyDdlError> {
        let kind = self.take_while(|character| character.is_ascii_alphabetic());
        let opening = self.peek().filter(char::is_ascii_punctuation);
        let (Some(opening), "" | "q" | "Q" | "w" | "W" | "i" | "I" | "r") = (opening, kind) else {
            return self.error(RubyDdlProblem::Character('%'));
        };
        let kind = kind.to_owned();
        self.advance();
        let (nesting, closing) = match opening {
            '(' => (Some('('), ')'),
            '[' => (Some('['), ']'),
            '{' => (Some('{'), '}'),
            '<' => (Some('<'), '>'),
            other => (None, other),
        };
        if kind == "r" {
            return self.read_pattern(nesting, closing);
        }
        let is_processed = matches!(kind.as_str(), "" | "Q");
        let parts = self.read_text(LiteralQuotes { opening: nesting, closing, is_processed })?;
        if is_processed || kind == "q" {
            return Ok(RubyTokenKind::Text(parts));
        }
        let texts = parts.iter().filter_map(|part| match part {
            TextPart::Literal(text) => Some(text.split_whitespace()),
            TextPart::Inserted { .. } => None,
        });
        Ok(RubyTokenKind::WordList(texts.flatten().map(str::to_owned).collect()))
    }

    /// Reads a text up to its closing quote.
    fn read_text(&mut self, quotes: LiteralQuotes) -> Result<Vec<TextPart>, RubyDdlError> {
        let start = self.line;
        let mut text = TextCollector::default();
        let mut depth = 0_usize;
        while let Some(character) = self.advance() {
            match character {
                _ if character == quotes.closing && depth == 0 => return Ok(text.finish()),
                '\\' if quotes.is_processed => self.read_escape(&mut text.literal)?,
                '\\' => match self.peek() {
                    Some(next) if next == '\\' || next == quotes.closing => {
                        text.literal.extend(self.advance());
                    }
                    _ => text.literal.push('\\'),
                },
                '#' if quotes.is_processed && self.peek() == Some('{') => {
                    let part = self.read_insertion()?;
                    text.insert(part);
                }
                other => {
                    depth += usize::from(Some(other) == quotes.opening);
                    depth = depth.saturating_sub(usize::from(other == quotes.closing));
                    text.literal.push(other);
                }
            }
        }
        Err(RubyDdlProblem::Unterminated("text").at_line(start))
    }

    /// Reads the escape sequence after a backslash.
    fn read_escape(&mut self, literal: &mut String) -> Result<(), RubyDdlError> {
        let Some(character) = self.advance() else {
            return Ok(());
        };
        let escaped = match character {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            's' => ' ',
            'e' => '\u{1b}',
            '0' => '\0',
            // A line break after a backslash is not part of the text.
            '\n' => return Ok(()),
            'u' | 'x' => {
                let digits = match self.rest.strip_prefix('{') {
                    Some(rest) => rest.split('}').next().unwrap_or_default(),
                    None => {
                        self.rest.get(..if character == 'u' { 4 } else { 2 }).unwrap_or_default()
                    }
                };
                let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                let Some(code) = code else {
                    return self.error(RubyDdlProblem::Character('\\'));
                };
                let braces = if self.rest.starts_with('{') { 2 } else { 0 };
                self.rest = self.rest.get(digits.len() + braces..).unwrap_or_default();
                code
            }
            other => other,
        };
        literal.push(escaped);
        Ok(())
    }

    /// Reads `{variable.method}` after `#`.
    fn read_insertion(&mut self) -> Result<TextPart, RubyDdlError> {
        let code = self.rest.get(1..).and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let mut words = code.trim().split('.');
        let variable = words.next().unwrap_or_default();
        let is_name =
            |word: &str| word.starts_with(is_name_start) && word.chars().all(is_name_part);
        let methods: Vec<String> = words.map(str::to_owned).collect();
        let is_closed = self.rest.get(code.len() + 1..).is_some_and(|rest| rest.starts_with('}'));
        if !is_closed || !is_name(variable) || !methods.iter().all(|word| is_name(word)) {
            let code = format!("`#{{{}}}`", shorten_text(code));
            return self.error(RubyDdlProblem::RubyCode(code));
        }
        let part = TextPart::Inserted { variable: variable.to_owned(), methods };
        self.line += code.matches('\n').count();
        self.rest = self.rest.get(code.len() + 2..).unwrap_or_default();
        Ok(part)
    }

    /// Reads a regular expression after its opening mark. Its flags become those of the pattern.
    fn read_pattern(
        &mut self,
        opening: Option<char>,
        closing: char,
    ) -> Result<RubyTokenKind, RubyDdlError> {
        let start = self.line;
        let mut pattern = String::new();
        let mut depth = 0_usize;
        loop {
            match self.advance() {
                None => return Err(RubyDdlProblem::Unterminated("pattern").at_line(start)),
                Some('\\') => {
                    let next = self.advance().unwrap_or('\\');
                    if next != closing || opening.is_some() {
                        pattern.push('\\');
                    }
                    pattern.push(next);
                }
                Some(character) if character == closing && depth == 0 => break,
                Some('#') if self.peek() == Some('{') => {
                    return self.error(RubyDdlProblem::RubyCode("`#{` in a pattern".to_owned()));
                }
                Some(character) => {
                    depth += usize::from(Some(character) == opening);
                    depth = depth.saturating_sub(usize::from(character == closing));
                    pattern.push(character);
                }
            }
        }
        let flags = self.take_while(|character| character.is_ascii_alphabetic());
        // Ruby's `m` lets a dot match line breaks.
        let flags: String = [('i', 'i'), ('m', 's'), ('x', 'x')]
            .into_iter()
            .filter_map(|(ruby, rust)| flags.contains(ruby).then_some(rust))
            .collect();
        let prefix = if flags.is_empty() { String::new() } else { format!("(?{flags})") };
        Ok(RubyTokenKind::Pattern(prefix + &pattern))
    }

    /// Reads `<<-WORD` or `<<~WORD`, and takes its body from the next lines.
    pub(super) fn read_heredoc(&mut self) -> Result<RubyTokenKind, RubyDdlError> {
        if !self.accept("<<") {
            return self.error(RubyDdlProblem::Character('<'));
        }
        let is_stripped = self.peek() == Some('~');
        if self.rest.starts_with(['-', '~']) {
            self.advance();
        }
        let quote = self.peek().filter(|character| matches!(character, '"' | '\''));
        if quote.is_some() {
            self.advance();
        }
        let word = self.take_while(is_name_part).to_owned();
        if word.is_empty() || quote.is_some_and(|_| self.advance() != quote) {
            return self.error(RubyDdlProblem::Character('<'));
        }
        let (mut body, mut number) = self.after_heredocs.unwrap_or_else(|| {
            (self.rest.split_once('\n').map_or("", |(_, rest)| rest), self.line + 1)
        });
        let mut lines = Vec::new();
        loop {
            if body.is_empty() {
                return self.error(RubyDdlProblem::Unterminated("text"));
            }
            let (line, rest) = body.split_once('\n').unwrap_or((body, ""));
            (body, number) = (rest, number + 1);
            if line.trim() == word {
                break;
            }
            lines.push(line.trim_end_matches('\r'));
        }
        // The line break after the first line ends it, and then the lexer continues behind the body.
        self.after_heredocs = Some((body, number));
        let indent = if is_stripped { common_indent(&lines) } else { 0 };
        let text: String =
            lines.iter().flat_map(|line| [line.get(indent..).unwrap_or_default(), "\n"]).collect();
        let is_literal = quote == Some('\'') || !text.contains("#{");
        if is_literal {
            return Ok(RubyTokenKind::Text(vec![TextPart::Literal(text)]));
        }
        self.error(RubyDdlProblem::RubyCode("`#{` in this text".to_owned()))
    }
}

/// The number of spaces that all lines begin with.
fn common_indent(lines: &[&str]) -> usize {
    let indents = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len());
    indents.min().unwrap_or(0)
}
