//! Interprets the calls of a Ruby DDL: `metadata`, `action`, `dataquery` and what is in them.

use super::arguments::{convert_aggregate, convert_validation};
use super::entries::{
    ActionEntry, AgentEntry, DataEntry, InputEntry, MetadataEntry, NamedEntries, OutputEntry,
};
use super::error::{RubyDdlError, RubyDdlProblem, shorten_text};
use super::evaluate::{ExpandedCall, RubyValue, value_error};
use super::names::{ConvertedNames, NameCase, convert_name};
use super::{ConversionNote, ConvertedDdlKind};

/// The class of actions: only an author can say that an action is harmless.
const UNCLASSIFIED: &str = "root_equivalent";

type Result<T> = std::result::Result<T, RubyDdlError>;

/// A converted document before it is checked.
#[derive(Debug)]
pub(super) struct ConvertedDocument {
    metadata: MetadataEntry,
    actions: Vec<ActionEntry>,
    action_names: ConvertedNames,
    query: Option<DataQueryEntry>,
    pub(super) notes: Vec<ConversionNote>,
    /// Definitions as the checks name them, with their lines.
    lines: Vec<(String, usize)>,
}

/// The query of a data source, if it takes one, and its outputs.
type DataQueryEntry = (Option<InputEntry>, NamedEntries<OutputEntry>);

/// Converts the calls of a whole file.
pub(super) fn convert_calls(file_stem: &str, calls: &[ExpandedCall]) -> Result<ConvertedDocument> {
    let mut document = ConvertedDocument {
        metadata: MetadataEntry {
            name: convert_name(file_stem, NameCase::Lower),
            ..MetadataEntry::default()
        },
        actions: Vec::new(),
        action_names: ConvertedNames::default(),
        query: None,
        notes: Vec::new(),
        lines: Vec::new(),
    };
    for call in calls {
        document.convert_definition(call, file_stem)?;
    }
    let line = calls.last().map_or(1, |call| call.line);
    let expected = match (&document.query, document.actions.as_slice()) {
        _ if !document.has_metadata() => "`metadata`",
        (None, []) => "an `action` or a `dataquery`",
        (Some(_), [_, ..]) => "either actions or a `dataquery`, not both",
        _ => {
            document.classify_actions();
            return Ok(document);
        }
    };
    Err(RubyDdlProblem::Unexpected { expected, found: "the end of the file".into() }.at_line(line))
}

impl ConvertedDocument {
    pub(super) fn kind(&self) -> ConvertedDdlKind {
        if self.query.is_some() { ConvertedDdlKind::Data } else { ConvertedDdlKind::Agent }
    }

    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        let metadata = &self.metadata;
        match &self.query {
            Some((query, output)) => {
                let query = query.as_ref();
                serde_json::to_string_pretty(&DataEntry { metadata, query, output })
            }
            None => serde_json::to_string_pretty(&AgentEntry { metadata, actions: &self.actions }),
        }
    }

    /// The line of the definition that a message begins with.
    pub(super) fn line_of(&self, message: &str) -> usize {
        let named = self.lines.iter().filter(|(at, _)| message.starts_with(at.as_str()));
        named.max_by_key(|(at, _)| at.len()).map_or(1, |(_, line)| *line)
    }

    fn has_metadata(&self) -> bool {
        self.lines.iter().any(|(at, _)| at == "metadata")
    }

    fn note(&mut self, line: usize, text: impl Into<String>) {
        self.notes.push(ConversionNote { line, text: text.into() });
    }

    fn convert_definition(&mut self, call: &ExpandedCall, file_stem: &str) -> Result<()> {
        match call.name.as_str() {
            "metadata" => self.convert_metadata(call, file_stem),
            "requires" => {
                self.note(call.line, "`requires` is left out: it is about MCollective's version");
                Ok(())
            }
            "usage" => {
                self.note(call.line, "`usage` is left out: a JSON DDL has no free text");
                Ok(())
            }
            "action" => self.convert_action(call),
            "dataquery" => self.convert_data_query(call),
            "discovery" | "capabilities" => {
                Err(RubyDdlProblem::OtherPlugin("a discovery plugin").at_line(call.line))
            }
            _ => Err(call.unknown(
                "outside of an action",
                "metadata, requires, usage, action and dataquery",
            )),
        }
    }

    fn convert_metadata(&mut self, call: &ExpandedCall, file_stem: &str) -> Result<()> {
        if self.has_metadata() {
            return Err(RubyDdlProblem::Duplicate("`metadata`".to_owned()).at_line(call.line));
        }
        self.lines.push(("metadata".to_owned(), call.line));
        // `metadata({ ... })` has its keys in a hash.
        let hash = call.values.iter().filter_map(|value| match value {
            RubyValue::Hash(pairs) => Some(pairs),
            _ => None,
        });
        for (key, value) in call.pairs.iter().chain(hash.flatten()) {
            let key = key.to_text().unwrap_or_default();
            let text = || call.text_value(&key, value);
            match key.as_str() {
                "name" => {
                    let name = text()?;
                    if name != self.metadata.name {
                        let name = shorten_text(&name);
                        let stem = shorten_text(file_stem);
                        let text = format!(
                            "the name is `{}`, from the file {stem}.ddl as in MCollective, not {name:?}",
                            self.metadata.name
                        );
                        self.note(call.line, text);
                    }
                }
                "description" => self.metadata.description = text()?,
                "author" => self.metadata.author = text()?,
                "license" | "licence" => self.metadata.license = text()?,
                "version" => self.metadata.version = text()?,
                "url" => self.metadata.url = text()?,
                "timeout" => {
                    self.metadata.timeout = Some(call.integer_value(&key, value)?);
                }
                _ => self.leave_out_key(call.line, "metadata", &key),
            }
        }
        Ok(())
    }

    fn leave_out_key(&mut self, line: usize, of: &str, key: &str) {
        let key = shorten_text(key);
        self.note(line, format!("the key `{key}` of {of} is left out: a JSON DDL has no such key"));
    }

    fn note_renaming(&mut self, line: usize, kind: &str, names: (&str, &str)) {
        let (old, new) = names;
        if old != new {
            let old = shorten_text(old);
            self.note(line, format!("the {kind} {old:?} is renamed to `{new}`"));
        }
    }

    fn convert_action(&mut self, call: &ExpandedCall) -> Result<()> {
        let mut names = std::mem::take(&mut self.action_names);
        let name = self.convert_name(call, NameCase::Lower, &mut names)?;
        self.action_names = names;
        let at = format!("action `{name}`");
        self.lines.push((at.clone(), call.line));
        let mut action = ActionEntry {
            description: self.description_of(call, &at)?,
            action: name,
            display: "failed".to_owned(),
            class: UNCLASSIFIED,
            input: Vec::new(),
            output: Vec::new(),
            aggregate: Vec::new(),
        };
        let (mut inputs, mut outputs) = (ConvertedNames::default(), ConvertedNames::default());
        for call in &call.body {
            match call.name.as_str() {
                "display" => action.display = self.convert_display(call)?,
                "input" => {
                    let (name, entry) = self.convert_input(call, &at, &mut inputs)?;
                    action.input.push((name, entry));
                }
                "output" => {
                    let (name, entry) = self.convert_output(call, &at, &mut outputs)?;
                    action.output.push((name, entry));
                }
                "summarize" | "summarise" => {}
                _ => {
                    return Err(
                        call.unknown("in an action", "display, input, output and summarize")
                    );
                }
            }
        }
        // The names of all outputs are known only now.
        for summarize in call.body.iter().filter(|call| call.name.starts_with("summari")) {
            for aggregate in &summarize.body {
                action.aggregate.push(convert_aggregate(aggregate, &outputs)?);
            }
        }
        self.actions.push(action);
        Ok(())
    }

    /// The description of an action or data query; other keys are left out.
    fn description_of(&mut self, call: &ExpandedCall, at: &str) -> Result<String> {
        let mut description = String::new();
        for (key, value) in &call.pairs {
            match key.to_text().unwrap_or_default().as_str() {
                "description" => description = call.text_value("description", value)?,
                other => self.leave_out_key(call.line, at, other),
            }
        }
        Ok(description)
    }

    fn convert_display(&mut self, call: &ExpandedCall) -> Result<String> {
        let mode = call.first_name("display")?;
        match mode.as_str() {
            "ok" | "failed" | "always" => Ok(mode),
            "flatten" => {
                self.note(call.line, "`display :flatten` is converted to `always`");
                Ok("always".to_owned())
            }
            _ => {
                let value = RubyValue::Symbol(mode);
                Err(value_error("`display`", ":ok, :failed or :always", &value).at_line(call.line))
            }
        }
    }

    /// The name of an action, input or output in JSON.
    fn convert_name(
        &mut self,
        call: &ExpandedCall,
        case: NameCase,
        names: &mut ConvertedNames,
    ) -> Result<String> {
        let given = call.first_name(&call.name)?;
        let is_symbol = matches!(call.values.first(), Some(RubyValue::Symbol(_)));
        let Some(converted) = names.add(&given, is_symbol, case) else {
            let duplicate = format!("the {} `{}`", call.name, shorten_text(&given));
            return Err(RubyDdlProblem::Duplicate(duplicate).at_line(call.line));
        };
        self.note_renaming(call.line, &call.name, (&given, &converted));
        Ok(converted)
    }

    fn convert_input(
        &mut self,
        call: &ExpandedCall,
        at: &str,
        names: &mut ConvertedNames,
    ) -> Result<(String, InputEntry)> {
        let name = self.convert_name(call, NameCase::Any, names)?;
        let at = format!("{at}, input `{name}`");
        self.lines.push((at.clone(), call.line));
        let entry = self.convert_input_keys(call, &at)?;
        Ok((name, entry))
    }

    fn convert_input_keys(&mut self, call: &ExpandedCall, at: &str) -> Result<InputEntry> {
        let mut entry = InputEntry { value_type: "string".to_owned(), ..InputEntry::default() };
        let mut validation = None;
        for (key, value) in &call.pairs {
            let key = key.to_text().unwrap_or_default();
            match key.as_str() {
                "prompt" => entry.prompt = call.text_value(&key, value)?,
                "description" => entry.description = call.text_value(&key, value)?,
                "type" => entry.value_type = call.text_value(&key, value)?,
                "optional" => entry.optional = call.boolean_value(&key, value)?,
                "default" => entry.default = call.json_value(&key, value)?,
                "maxlength" => entry.maxlength = Some(call.integer_value(&key, value)?),
                "validation" => validation = Some(value),
                "list" => entry.list = call.choices_value(&key, value)?,
                _ => self.leave_out_key(call.line, at, &key),
            }
        }
        if let Some(value) = validation {
            entry.validation = convert_validation(call, value)?;
        }
        if !entry.list.is_empty()
            && let Some(default) = &entry.default
        {
            // The choices of a JSON DDL are texts.
            entry.default =
                Some(default.as_str().map_or_else(|| default.to_string(), str::to_owned).into());
        }
        if entry.optional && entry.default.take().is_some() {
            let text = format!(
                "{at}: the default is left out: MCollective does not send the default of an optional input"
            );
            self.note(call.line, text);
        }
        Ok(entry)
    }

    fn convert_output(
        &mut self,
        call: &ExpandedCall,
        at: &str,
        names: &mut ConvertedNames,
    ) -> Result<(String, OutputEntry)> {
        let name = self.convert_name(call, NameCase::Any, names)?;
        let at = format!("{at}, output `{name}`");
        self.lines.push((at.clone(), call.line));
        let mut entry = OutputEntry { display_as: name.clone(), ..OutputEntry::default() };
        for (key, value) in &call.pairs {
            let key = key.to_text().unwrap_or_default();
            match key.as_str() {
                "description" => entry.description = call.text_value(&key, value)?,
                "display_as" => entry.display_as = call.text_value(&key, value)?,
                "type" => entry.value_type = Some(call.text_value(&key, value)?),
                "default" => entry.default = call.json_value(&key, value)?,
                _ => self.leave_out_key(call.line, &at, &key),
            }
        }
        Ok((name, entry))
    }

    fn convert_data_query(&mut self, call: &ExpandedCall) -> Result<()> {
        if self.query.is_some() {
            return Err(RubyDdlProblem::Duplicate("`dataquery`".to_owned()).at_line(call.line));
        }
        let description = self.description_of(call, "dataquery")?;
        if self.metadata.description.is_empty() {
            self.metadata.description = description;
        }
        let (mut query, mut outputs) = (None, Vec::new());
        let mut names = ConvertedNames::default();
        for call in &call.body {
            match call.name.as_str() {
                "input" if query.is_none() => {
                    let given = call.first_name("input")?;
                    self.note_renaming(call.line, "input", (&given, "query"));
                    self.lines.push(("query".to_owned(), call.line));
                    query = Some(self.convert_input_keys(call, "query")?);
                }
                "input" => {
                    let inputs = "the query of a data source, its only input,".to_owned();
                    return Err(RubyDdlProblem::Duplicate(inputs).at_line(call.line));
                }
                "output" => {
                    outputs.push(self.convert_output(call, "data source", &mut names)?);
                }
                _ => return Err(call.unknown("in a dataquery", "input and output")),
            }
        }
        self.query = Some((query, outputs));
        Ok(())
    }

    /// Marks an agent as an external one, and says what its author has to decide.
    fn classify_actions(&mut self) {
        if self.query.is_none() {
            self.metadata.provider = Some("external");
            let line = self.lines.iter().find(|(at, _)| at.starts_with("action"));
            let line = line.map_or(1, |(_, line)| *line);
            self.note(line, format!(
                "every action has the class `{UNCLASSIFIED}`: set `\"class\": \"change\"`, or `\"class\": \"read\"` with `\"read_only\": true`, where it is true"
            ));
        }
    }
}
