//! Removes sensitive values of a catalog from all messages about a resource.

use std::collections::BTreeSet;

use crate::plan::{REDACTED, ResourcePlan};
use crate::resource::{Resource, ResourceValue};

/// Secrets of one resource.
#[derive(Default)]
pub(crate) struct SecretRedactor {
    secrets: Vec<String>,
    /// Secrets too short to be replaced inside other texts.
    short: Vec<String>,
}

impl SecretRedactor {
    /// Collects the values of these attributes. A secret of one or two characters is redacted only as a whole text; otherwise it would blank out much
    /// of every message.
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
        // Longest first, so a secret that contains another is replaced as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets, short }
    }

    pub(crate) fn redact_text(&self, text: &str) -> String {
        if self.short.iter().any(|secret| secret == text) {
            return REDACTED.to_owned();
        }
        let redact = |text: String, secret: &String| text.replace(secret.as_str(), REDACTED);
        self.secrets.iter().fold(text.to_owned(), redact)
    }

    pub(crate) fn mark_sensitive(plan: &mut ResourcePlan, sensitive: &BTreeSet<String>) {
        let is_file = plan.resource.type_name == "file";
        for change in &mut plan.changes {
            // The message for a created file includes the checksum of its content.
            let reveals_content =
                is_file && change.property == "ensure" && sensitive.contains("content");
            if (reveals_content || sensitive.contains(&change.property)) && !change.sensitive {
                change.sensitive = true;
                change.message = format!("changed {REDACTED} to {REDACTED}");
            }
        }
    }
}
