//! Comma-separated Puppet tags; each is one or more names joined by `::`.

use super::puppet_variable;

pub(super) const REQUIREMENT: &str = "a comma separated list of tags like `web,mysql::server`";

pub(super) fn is_puppet_tags(text: &str) -> bool {
    text.split(',')
        .flat_map(|tag| tag.split("::"))
        .all(puppet_variable::is_puppet_variable)
}
