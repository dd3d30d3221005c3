//! Reads fragments, renders them for a node, and writes the files that differ.

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::NodeHandle;
use muster_api::base::error_chain;
use muster_api::filter::state::NodeFacts;
use muster_api::system::{FileAttributes, System, SystemError};
use muster_contract::motd::{MAX_PROMPT_CACHE_BYTES, PROMPT_REFRESH_SECONDS, PromptStatus};
use muster_engine::types::motd_fragment::FragmentTarget;

use crate::motd::MotdOptions;
use crate::motd::fragments::read_fragments;
use crate::motd::output_file::OutputWriter;
use crate::motd::prompt::prompt_status;
use crate::motd::template::{
    FragmentTemplate, RenderedText, TemplateError, TemplateValues, template_environment,
};
use crate::motd::template_names::unknown_name;
use crate::motd::worker::{RenderPlace, RenderWorkers};

/// The list of written files, below the daemon's state directory.
const OUTPUT_RECORD: &str = "motd.outputs";

/// What texts are made of.
#[derive(Debug, Clone)]
pub struct NodeSnapshot {
    /// The name of the node.
    pub identity: String,
    /// Its facts.
    pub facts: Arc<NodeFacts>,
    /// Its classes, lower case: the same ones that discovery uses.
    pub classes: Arc<[String]>,
    /// The state of its subsystems; `None` while it is unknown.
    pub state: Option<Arc<NodeFacts>>,
}

impl NodeSnapshot {
    /// What the daemon knows now.
    pub fn of_node(node: &dyn NodeHandle) -> Self {
        Self {
            identity: node.identity().to_string(),
            facts: node.facts(),
            classes: node.classes(),
            state: node.state(),
        }
    }

    fn template_values(&self) -> TemplateValues {
        TemplateValues {
            identity: self.identity.clone(),
            facts: self.facts.as_map().clone(),
            classes: self.classes.to_vec(),
            state: self.state.as_ref().map(|state| state.as_map().clone()).unwrap_or_default(),
        }
    }
}

/// A text, and what is missing in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TextReport {
    pub(crate) text: String,
    pub(crate) problems: Vec<String>,
}

/// What a refresh did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MotdRefresh {
    /// The files that were replaced.
    pub changed: Vec<PathBuf>,
    /// Fragments that are left out and files that could not be written, with the reasons.
    pub problems: Vec<String>,
}

impl MotdRefresh {
    fn note_write(&mut self, path: &Path, written: Result<bool, impl Error + 'static>) {
        match written {
            Ok(true) => self.changed.push(path.to_owned()),
            Ok(false) => {}
            Err(error) => self.problems.push(error_chain(&error)),
        }
    }
}

/// Renders and writes the texts of one node.
#[derive(Debug)]
pub struct MotdRenderer {
    options: MotdOptions,
    writer: OutputWriter,
    workers: RenderWorkers,
    /// The newest text of each target, with the hash of what it is made of: the daemon asks every few seconds.
    rendered: Mutex<BTreeMap<FragmentTarget, (u64, RenderedText)>>,
    hasher: RandomState,
}

impl MotdRenderer {
    pub(crate) fn new(options: MotdOptions, state_directory: &Path, place: RenderPlace) -> Self {
        Self {
            options,
            writer: OutputWriter::new(state_directory.join(OUTPUT_RECORD)),
            workers: RenderWorkers::new(place),
            rendered: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Whether the configuration enables the plugin.
    pub fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    /// Renders everything, and replaces the files that differ. Blocks.
    pub fn refresh(&self, system: &dyn System, node: &NodeSnapshot) -> MotdRefresh {
        let mut refresh = MotdRefresh::default();
        if !self.options.enabled {
            return refresh;
        }
        for target in [FragmentTarget::Motd, FragmentTarget::Issue] {
            let mut files = self.output_files(target).peekable();
            if files.peek().is_none() {
                continue;
            }
            let TextReport { text, problems } = self.report(system, node, target);
            refresh.problems.extend(problems);
            for path in files {
                refresh.note_write(path, self.writer.write_text(system, path, &text));
            }
        }
        if let Some(path) = &self.options.prompt_cache {
            let (rendered, problems) = self.render(system, node, FragmentTarget::Prompt);
            refresh.problems.extend(problems);
            let status = prompt_status(&self.options, node, &rendered.blocks);
            refresh.note_write(path, write_prompt(system, path, &status));
        }
        refresh
    }

    /// The text of a target for the node, and why fragments are missing in it. Writes nothing.
    pub fn text(
        &self,
        system: &dyn System,
        node: &NodeSnapshot,
        target: FragmentTarget,
    ) -> (String, Vec<String>) {
        let TextReport { text, problems } = self.report(system, node, target);
        (text, problems)
    }

    pub(crate) fn report(
        &self,
        system: &dyn System,
        node: &NodeSnapshot,
        target: FragmentTarget,
    ) -> TextReport {
        let (rendered, problems) = self.render(system, node, target);
        TextReport { text: rendered.text(), problems }
    }

    /// Why a template has no text on this node, or in a branch that another node takes; `None` if it can be shown.
    pub(crate) fn template_problem(
        &self,
        target: FragmentTarget,
        content: &str,
        node: &NodeSnapshot,
    ) -> Option<TemplateError> {
        if let Some(problem) = unknown_name(&template_environment(target), content) {
            return Some(TemplateError::Template(problem));
        }
        let (name, content) = ("content".to_owned(), content.to_owned());
        let fragments = [FragmentTemplate { name, content, is_literal: false }];
        let outcomes = self.workers.render(target, &fragments, &node.template_values());
        outcomes.into_iter().find_map(Result::err)
    }

    /// The files with the text of a target.
    pub(crate) fn output_files(&self, target: FragmentTarget) -> impl Iterator<Item = &Path> {
        let outputs = self.options.outputs.iter();
        outputs
            .filter(move |output| FragmentTarget::from(output.target) == target)
            .map(|output| &*output.path)
    }

    fn render(
        &self,
        system: &dyn System,
        node: &NodeSnapshot,
        target: FragmentTarget,
    ) -> (RenderedText, Vec<String>) {
        let local = (target == FragmentTarget::Motd).then_some(&*self.options.local);
        let fragments = read_fragments(system, target, local);
        // The daemon calls this every few seconds: without a fragment no facts are copied.
        let rendered = if fragments.templates.is_empty() {
            RenderedText::default()
        } else {
            self.render_changed(target, &fragments.templates, &node.template_values())
        };
        let unread = fragments.problems.iter().map(|error| error_chain(error));
        let problems =
            unread.chain(rendered.problems.iter().map(|error| error_chain(error))).collect();
        (rendered, problems)
    }

    /// Renders the fragments, unless they and the values are those of the last time.
    fn render_changed(
        &self,
        target: FragmentTarget,
        fragments: &[FragmentTemplate],
        values: &TemplateValues,
    ) -> RenderedText {
        let hash = self.hasher.hash_one(serde_json::to_vec(&(fragments, values)).ok());
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = rendered.get(&target).filter(|(of, _)| *of == hash) {
            return text.clone();
        }
        let outcomes = self.workers.render(target, fragments, values);
        let is_final = outcomes
            .iter()
            .filter_map(|outcome| outcome.as_ref().err())
            .all(TemplateError::is_final);
        let text = RenderedText::new(fragments, outcomes);
        if is_final {
            rendered.insert(target, (hash, text.clone()));
        }
        text
    }
}

/// Why the file of the prompt was not written.
#[derive(Debug, thiserror::Error)]
enum PromptCacheError {
    #[error("cannot write the file of the prompt")]
    System(#[from] SystemError),
    #[error("cannot encode the file of the prompt")]
    Encode(#[from] serde_json::Error),
}

/// Writes the file of the prompt if it differs, or if its time would let `rpc prompt` take the daemon for stopped.
fn write_prompt(
    system: &dyn System,
    path: &Path,
    status: &PromptStatus,
) -> Result<bool, PromptCacheError> {
    let content = serde_json::to_vec(status)?;
    if let Some(found) = system.metadata(path)? {
        let age = system.now().duration_since(found.modified).unwrap_or(Duration::MAX);
        let is_recent = age < Duration::from_secs(PROMPT_REFRESH_SECONDS);
        if is_recent
            && system.read_file(path, MAX_PROMPT_CACHE_BYTES).is_ok_and(|read| read == content)
        {
            return Ok(false);
        }
    }
    system.write_file(path, &content, &FileAttributes::with_mode(0o644))?;
    Ok(true)
}
