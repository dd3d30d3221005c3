//! Detects external agent programs that must not be used: those made with an earlier template.
//!
//! Pure: the caller reads the program.

/// Number of leading bytes of a program that suffice to detect the template.
pub const MAX_TEMPLATE_BYTES: u64 = 64 * 1024;

/// Whether a program extracts its action with a greedy regular expression over the request, as the shell template did before
/// `MUSTER_ACTION`. With such a program a caller can select the action through an input that contains `"action":"..."`.
pub fn finds_action_by_text(program: &[u8]) -> bool {
    String::from_utf8_lossy(program).lines().filter(|line| !line.trim_start().starts_with('#')).any(
        |line| {
            line.contains(".*\"action\"")
                && ["sed", "grep", "awk"].iter().any(|tool| line.contains(tool))
        },
    )
}

/// The advice for such a program.
pub const TEMPLATE_ADVICE: &str = "it finds its action by a text search over the request, so that an input can choose the action; \
    use the variable MUSTER_ACTION instead, as `rpc plugin generate --lang sh` does";

#[cfg(test)]
mod tests {
    use super::finds_action_by_text;

    #[test]
    fn recognises_only_the_former_template() {
        let former = r#"    action=$(sed -n 's/.*"action": *"\([a-z0-9_]*\)".*/\1/p' "$request")"#;
        assert!(finds_action_by_text(former.as_bytes()));
        for fine in [
            "case $MUSTER_ACTION in",
            "action=$(jq -r .action \"$1\")",
            "# sed 's/.*\"action\"//' is unsafe",
        ] {
            assert!(!finds_action_by_text(fine.as_bytes()), "{fine}");
        }
    }
}
