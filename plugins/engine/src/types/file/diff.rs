//! The unified diff of a change to a file's content, for display. Bounded in size and time. Never fails: a content that cannot be shown is described.

use std::fmt::Write as _;
use std::time::Duration;

use similar::TextDiff;

use super::{change, read};
use crate::plan::ResourcePlan;
use crate::resource::ResourceValue;
use crate::resource_type::ResourceContext;

const MAX_COMPARED_BYTES: u64 = 1024 * 1024;
const MAX_DIFF_LINES: usize = 200;
const MAX_DIFF_BYTES: usize = 16 * 1024;
/// Maximum time for a comparison; the result is then correct, but longer than necessary.
const MAX_COMPARE_TIME: Duration = Duration::from_millis(500);
/// The mode bit that lets every user read a file.
const WORLD_READABLE: u32 = 0o004;
/// Replaces the diff of other files.
const RESTRICTED: &str = "[not shown: not every user may read the file]";

/// The diff of the planned content; `None` if the plan changes no content, or `show_diff` is false. A file that not
/// every user may read is not shown: the caller may be allowed to replace it, but its content would also be in jobs and terminals.
pub(super) fn content_diff(cx: &ResourceContext<'_>, plan: &ResourcePlan) -> Option<String> {
    let writes_content = |property: &str, to: Option<&str>| {
        property == "content" || (property == "ensure" && matches!(to, Some("file" | "present")))
    };
    let change =
        plan.changes.iter().find(|change| writes_content(&change.property, change.to.as_text()))?;
    if plan.resource.get("show_diff").and_then(ResourceValue::as_bool) == Some(false) {
        return None;
    }
    let modes = [plan.state.get_text("mode"), plan.resource.get_text("mode")];
    if change.sensitive || modes.into_iter().flatten().any(is_restricted) {
        return Some(RESTRICTED.to_owned());
    }
    let after = change::desired_content(cx, plan).ok()?;
    let before = match plan.state.get_text("ensure") {
        Some("file") => {
            let path = read::resolve_path(&cx.bind(&plan.resource)).ok()?;
            match cx.system.read_file(&path, MAX_COMPARED_BYTES) {
                Ok(content) => content,
                Err(_) => {
                    return Some(format!("[not shown: larger than {MAX_COMPARED_BYTES} bytes]"));
                }
            }
        }
        _ => Vec::new(),
    };
    let path = &plan.resource.name;
    let before = LabelledContent { label: "current", content: &before };
    Some(compare_contents(path, before, LabelledContent { label: "desired", content: &after }))
}

/// A content, and what it is called in a diff.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelledContent<'a> {
    pub(crate) label: &'a str,
    pub(crate) content: &'a [u8],
}

/// The diff of two contents of a file with these modes, under the same rule.
pub(crate) fn diff_of_contents(
    path: &str,
    modes: &[&str],
    before: LabelledContent<'_>,
    after: LabelledContent<'_>,
) -> String {
    if modes.iter().copied().any(is_restricted) {
        return RESTRICTED.to_owned();
    }
    compare_contents(path, before, after)
}

fn is_restricted(mode: &str) -> bool {
    u32::from_str_radix(mode, 8).is_ok_and(|mode| mode & WORLD_READABLE == 0)
}

/// The unified diff of two labelled contents, or a description of binary or large ones.
fn compare_contents(path: &str, before: LabelledContent<'_>, after: LabelledContent<'_>) -> String {
    let LabelledContent { label: old_label, content: before } = before;
    let LabelledContent { label: new_label, content: after } = after;
    if u64::try_from(after.len()).unwrap_or(u64::MAX) > MAX_COMPARED_BYTES {
        return format!("[not shown: larger than {MAX_COMPARED_BYTES} bytes]");
    }
    let (Some(old_text), Some(new_text)) = (as_plain_text(before), as_plain_text(after)) else {
        return format!("[binary content: {} bytes before, {} after]", before.len(), after.len());
    };
    let diff = TextDiff::configure().timeout(MAX_COMPARE_TIME).diff_lines(old_text, new_text);
    let header = (format!("{path} ({old_label})"), format!("{path} ({new_label})"));
    limit_lines(&diff.unified_diff().header(&header.0, &header.1).to_string())
}

/// The text of a content; `None` if it is not UTF-8 or has a NUL byte.
fn as_plain_text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

/// The first lines within the bounds, and the number of further ones.
fn limit_lines(diff: &str) -> String {
    let (mut shown, mut count) = (String::new(), 0);
    for line in diff.split_inclusive('\n') {
        if count == MAX_DIFF_LINES || shown.len() + line.len() > MAX_DIFF_BYTES {
            let more = diff.lines().count() - count;
            // Writing to a string cannot fail.
            let _ = write!(shown, "[{more} more lines]");
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    shown.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{LabelledContent, MAX_DIFF_BYTES, MAX_DIFF_LINES};

    fn compare_contents(path: &str, before: (&str, &[u8]), after: (&str, &[u8])) -> String {
        let [before, after] =
            [before, after].map(|(label, content)| LabelledContent { label, content });
        super::compare_contents(path, before, after)
    }

    #[test]
    fn changed_lines_have_context_and_a_header() {
        let (before, after) = ("a\nb\nc\n", "a\nB\nc\n");
        assert_eq!(
            compare_contents(
                "/etc/motd",
                ("current", before.as_bytes()),
                ("desired", after.as_bytes())
            ),
            "--- /etc/motd (current)\n+++ /etc/motd (desired)\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
        );
    }

    #[test]
    fn long_diffs_are_cut_at_a_line() {
        let after: String = "line\n".repeat(10_000);
        let diff = compare_contents("/f", ("a", b""), ("b", after.as_bytes()));
        assert_eq!(diff.lines().count(), MAX_DIFF_LINES + 1);
        assert!(diff.ends_with(" more lines]"), "{diff}");
        let wide =
            compare_contents("/f", ("a", b""), ("b", "x".repeat(2 * MAX_DIFF_BYTES).as_bytes()));
        assert!(wide.len() < MAX_DIFF_BYTES && wide.contains("more lines]"));
    }

    #[test]
    fn binary_contents_are_only_counted() {
        assert_eq!(
            compare_contents("/f", ("a", b"text"), ("b", b"\0\xff")),
            "[binary content: 4 bytes before, 2 after]"
        );
    }
}
