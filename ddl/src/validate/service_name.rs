//! The name of an operating system service, as the published `service` agent accepts it.

pub(super) const REQUIREMENT: &str = "a service name of letters, digits and . _ @ : -";

pub(super) fn is_service_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_@:".contains(c);
    // A leading dash would be parsed as an option by the command that receives the name.
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}
