//! Puppet tags, comma separated; each one or more names joined by `::`.

use super::puppet_variable;

pub(super) const DEMANDS: &str = "a comma separated list of tags like `web,mysql::server`";

pub(super) fn accepts(text: &str) -> bool {
    text.split(',')
        .flat_map(|tag| tag.split("::"))
        .all(puppet_variable::accepts)
}
