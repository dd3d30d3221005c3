//! Keeps the values that a catalog calls sensitive out of everything that is said about a resource.

use std::collections::BTreeSet;

use crate::plan::{REDACTED, ResourcePlan};
use crate::resource::{Resource, ResourceValue};

/// The secrets of one resource.
#[derive(Default)]
pub(crate) struct SecretRedactor {
    secrets: Vec<String>,
    /// Too short to be looked for inside other texts.
    short: Vec<String>,
}

impl SecretRedactor {
    /// The values of those names. A secret of one or two letters would blacken half of every message: it only hides as a whole.
    pub(crate) fn new(resource: &Resource, sensitive: &BTreeSet<String>) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for name in sensitive {
            match resource.get(name) {
                Some(ResourceValue::Text(text)) => secrets.push(text.clone()),
                Some(ResourceValue::List(texts)) => secrets.extend(texts.iter().cloned()),
                _ => {}
            }
        }
        let (mut secrets, short): (Vec<_>, Vec<_>) =
            secrets.into_iter().partition(|secret| secret.len() > 2);
        // The longest first, so that one that holds another goes as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets, short }
    }

    /// The text without the secrets.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        if self.short.iter().any(|secret| secret == text) {
            return REDACTED.to_owned();
        }
        let hide = |text: String, secret: &String| text.replace(secret.as_str(), REDACTED);
        self.secrets.iter().fold(text.to_owned(), hide)
    }

    /// Marks the changes of sensitive properties, as if their type had said so.
    pub(crate) fn mark_sensitive(plan: &mut ResourcePlan, sensitive: &BTreeSet<String>) {
        let is_file = plan.resource.type_name == "file";
        for change in &mut plan.changes {
            // That a file comes to be is told with the checksum of its content.
            let tells = is_file && change.property == "ensure" && sensitive.contains("content");
            if (tells || sensitive.contains(&change.property)) && !change.sensitive {
                change.sensitive = true;
                change.message = format!("changed {REDACTED} to {REDACTED}");
            }
        }
    }
}
