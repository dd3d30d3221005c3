//! Finds the scope line that permits a user to publish or subscribe, with the broker's algorithm. For explanations only: the broker
//! enforces permissions itself.

use super::claims::{SubjectPermissions, TokenClaims, UserClaims};

/// A scope line, and its expansion for one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePermission {
    /// The line as written in the scope, with its `{{...}}`.
    pub line: String,
    /// The subjects that it permits for this user.
    pub pattern: String,
}

/// The first line that permits this subject to a user; `None` if no line permits it, or one denies it.
pub fn find_permission(
    subjects: &SubjectPermissions,
    user: &TokenClaims<UserClaims>,
    subject: &str,
) -> Option<ScopePermission> {
    if find_covering_line(&subjects.deny, user, subject).is_some() {
        return None;
    }
    find_covering_line(&subjects.allow, user, subject)
}

/// The first line that covers the subject.
fn find_covering_line(
    lines: &[String],
    user: &TokenClaims<UserClaims>,
    subject: &str,
) -> Option<ScopePermission> {
    lines.iter().find_map(|line| {
        let mut patterns = expand_scope_line(line, user).into_iter();
        let pattern = patterns.find(|pattern| pattern_covers_subject(pattern, subject))?;
        let line = line.clone();
        Some(ScopePermission { line, pattern })
    })
}

/// Expands a line for a user: inserts its name, key and tags. A tag with several values gives several patterns, a missing tag
/// gives none.
pub fn expand_scope_line(line: &str, user: &TokenClaims<UserClaims>) -> Vec<String> {
    let line =
        line.replace("{{name()}}", &user.name).replace("{{subject()}}", &user.sub.to_string());
    let mut patterns = vec![line];
    while let Some(name) = patterns.first().and_then(|line| first_tag_name(line)) {
        let (placeholder, prefix) = (format!("{{{{tag({name})}}}}"), format!("{name}:"));
        let tags = user.nats.tags.iter();
        let values: Vec<&str> = tags
            .filter_map(|tag| tag.strip_prefix(prefix.as_str()))
            // A value that contains a placeholder itself would never be expanded.
            .filter(|value| !value.contains("{{"))
            .collect();
        patterns = patterns
            .iter()
            .flat_map(|line| values.iter().map(|value| line.replace(&placeholder, value)))
            .collect();
    }
    patterns
}

/// The name in the first `{{tag(name)}}` of a line.
fn first_tag_name(line: &str) -> Option<String> {
    let (name, _) = line.split_once("{{tag(")?.1.split_once(")}}")?;
    Some(name.to_owned())
}

/// Whether a pattern with `*` and `>` covers a subject.
pub fn pattern_covers_subject(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for part in pattern.split('.') {
        match (part, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (part, Some(token)) if part == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::pattern_covers_subject;

    #[test]
    fn patterns_cover_subjects_as_in_the_broker() {
        for (pattern, subject, covered) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.*", "a", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("*.*.>", "a.b", false),
        ] {
            assert_eq!(pattern_covers_subject(pattern, subject), covered, "{pattern} {subject}");
        }
    }
}
