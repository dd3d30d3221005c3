//! Renders what changed on a node.

use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::value::compact_value;
use muster_wire::node_history::{NodeChange, ValueChange};

/// A table of changes, the oldest first, with the time at the first value of each.
pub fn render_changes(changes: &[NodeChange], width: usize) -> String {
    let mut table = Table::new(["TIME", "VALUE", "CHANGE"]);
    for change in changes {
        let mut time = format_time_millis(change.time);
        for value in &change.values {
            table.row([std::mem::take(&mut time), value.path.clone(), change_text(value)]);
        }
        if change.more > 0 {
            table.row([time, format!("and {} more", change.more), String::new()]);
        }
    }
    table.render_rows(width)
}

pub fn render_difference(values: &[ValueChange], width: usize) -> String {
    let rows = values.iter().map(|value| [value.path.clone(), change_text(value)]);
    Table::new(["VALUE", "CHANGE"]).rows(rows).render_rows(width)
}

/// `12.5 -> 12.6`, `+ x` or `- x`.
fn change_text(value: &ValueChange) -> String {
    match (&value.before, &value.after) {
        (Some(before), Some(after)) => {
            format!("{} -> {}", compact_value(before), compact_value(after))
        }
        (None, Some(after)) => format!("+ {}", compact_value(after)),
        (Some(before), None) => format!("- {}", compact_value(before)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::testing::plain;

    #[test]
    fn changes_have_their_time_once_and_no_control_characters() {
        let values = vec![
            ValueChange { path: "classes".to_owned(), before: None, after: Some(json!("mysql")) },
            ValueChange {
                path: "facts.os\u{1b}[31m".to_owned(),
                before: Some(json!("12.5")),
                after: Some(json!("12\u{7}")),
            },
        ];
        let change = NodeChange { time: 1000, values: values.clone(), more: 3 };
        let text = plain(&render_changes(&[change], 100));
        let expected = "TIME                  VALUE             CHANGE\n\
             1970-01-01 00:00:01Z  classes           + mysql\n\
             \u{20}                     facts.os\\x1b[31m  12.5 -> 12\\x07\n\
             \u{20}                     and 3 more\n";
        assert_eq!(text, expected);
        let difference = plain(&render_difference(&values, 100));
        assert!(difference.starts_with("VALUE             CHANGE\nclasses "));
        assert_eq!(render_changes(&[], 100), "");
    }
}
