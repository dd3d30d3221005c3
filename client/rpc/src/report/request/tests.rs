//! Snapshots of the text output of a request at 80 columns.

use std::collections::BTreeSet;

use muster_calls::DdlStore;
use muster_client::{NodeReply, RequestReport, ResultGap};
use muster_ddl::DisplayOverride;
use muster_ddl::aggregate::summarize_replies;
use muster_display::json;
use muster_display::printer::{BAD, GOOD, STRONG, WARNING};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use serde_json::json;

use crate::report::documents::RequestDocument;
use crate::report::group;
use crate::report::request::RequestResultView;
use crate::report::testing::{WIDTH, is_within_width};
use crate::report::testing::{plain, reply, report};

fn draw(report: &RequestReport, wish: Option<DisplayOverride>, verbose: bool) -> String {
    let store = DdlStore::load(None).unwrap();
    let action = store.get(&report.agent).unwrap().find_action(&report.action).unwrap();
    let view = RequestResultView { action, display: wish, verbose, noop: false, width: WIDTH };
    let blocks = report
        .replies
        .iter()
        .filter(|reply| view.is_shown(reply))
        .map(|reply| view.render_reply(reply));
    plain(&(blocks.collect::<String>() + &view.render_summary(report)))
}

fn names(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// A `puppetral do` request for a user on five nodes.
fn users() -> RequestReport {
    let changed = json!({
        "changed": true,
        "result": "created",
        "events": [
            {"property": "ensure", "previous_value": "absent", "desired_value": "present", "status": "success",
             "message": "created", "corrective": false},
            {"property": "shell", "previous_value": null, "desired_value": "/bin/zsh", "status": "success",
             "message": "shell defined '/bin/zsh'", "corrective": false},
        ],
        "resource": "User[rip]",
    });
    let same = json!({"changed": false, "result": "nothing to change", "events": [], "resource": "User[rip]"});
    let mut denied = reply("dev4.example.net", 5, "you may not do this", json!({}));
    denied.reason = Some(ReplyReason::Denied { rule: "policies/puppetral.policy:3".to_owned() });
    let message = "useradd failed:\nuseradd: cannot lock /etc/passwd; try again later.\u{1b}[2J";
    let failed = reply(
        "dev5.example.net",
        1,
        message,
        json!({"resource": "User[rip]", "extra": "\u{9b}31m"}),
    );
    let replies = vec![
        reply("dev2.example.net", 0, "OK", changed),
        reply("dev1.example.net", 0, "OK", same),
        denied,
        failed,
    ];
    let mut report = report("puppetral", "do", replies);
    let store = DdlStore::load(None).unwrap();
    let action = store.get("puppetral").unwrap().find_action("do").unwrap();
    report.summaries = summarize_replies(
        action,
        report.replies.iter().filter(|reply| reply.is_ok()).map(|reply| &reply.data),
    );
    report
}

#[test]
fn output_has_replies_summary_and_statistics() {
    let text = draw(&users(), None, false);
    insta::assert_snapshot!("request", text);
    assert!(is_within_width(&text));
}

#[test]
fn missing_nodes_are_listed() {
    let mut report = users();
    report.stats.discovered = 40;
    report.stats.not_connected = names(&["off1.example.net", "off2.example.net"]);
    report.stats.missing =
        (1..=34).map(|n| format!("web{n:02}.example.net").parse().unwrap()).collect();
    report.stats.missing.extend(report.stats.not_connected.clone());
    report.stats.unexpected = names(&["evil.example.net"]);
    report.stats.rejected.insert("signature", 2);
    report.stats.gaps.insert(ResultGap::Reconnected);
    let text = draw(&report, Some(DisplayOverride::Ok), true);
    insta::assert_snapshot!("request_missing_verbose", text);
    assert!(is_within_width(&text));
    insta::assert_snapshot!(
        "request_json",
        json::to_safe_text(&RequestDocument::new(&report)).unwrap()
    );
}

#[test]
fn stopped_rollout_lists_missing_and_unasked_nodes() {
    let mut report = users();
    report.stats.discovered = 7;
    report.stats.missing = names(&["dev6.example.net"]);
    report.stats.not_asked = names(&["dev7.example.net", "dev8.example.net"]);
    let text = draw(&report, Some(DisplayOverride::None), false);
    insta::assert_snapshot!("request_not_asked", text);
    assert!(is_within_width(&text));
}

#[test]
fn display_option_overrides_the_ddl() {
    let shown = |wish| {
        let text = draw(&users(), wish, false);
        ["dev1", "dev2", "dev4", "dev5"].map(|node| text.contains(node))
    };
    assert_eq!(shown(None), [true, true, true, true]);
    assert_eq!(shown(Some(DisplayOverride::Ok)), [true, true, false, false]);
    assert_eq!(shown(Some(DisplayOverride::Failed)), [false, false, true, true]);
    assert_eq!(shown(Some(DisplayOverride::None)), [false; 4]);
}

#[test]
fn replies_are_escaped_for_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\r";
    let mut reply: NodeReply = reply(
        "dev1.example.net",
        1,
        evil,
        json!({evil: {evil: [evil, {evil: evil}]}, "events": evil}),
    );
    reply.reason = Some(ReplyReason::Denied { rule: evil.to_owned() });
    let mut report = report("puppetral", "do", vec![reply]);
    let store = DdlStore::load(None).unwrap();
    let get_fact = store.get("rpcutil").unwrap().find_action("get_fact").unwrap();
    let values = json!({"value": format!("{evil}\n")});
    report.summaries = summarize_replies(get_fact, values.as_object());
    let harmful = |c: char| muster_display::printable::is_harmful(c) && c != '\n';
    let text = draw_colourless(&report);
    assert!(!text.contains(harmful), "{text:?}");
    let json = json::to_safe_text(&RequestDocument::new(&report)).unwrap();
    assert!(!json.contains(harmful), "{json:?}");
}

/// Removes the escape sequences of our own colours only, so that the test sees all others.
fn draw_colourless(report: &RequestReport) -> String {
    let store = DdlStore::load(None).unwrap();
    let action = store.get("puppetral").unwrap().find_action("do").unwrap();
    let view =
        RequestResultView { action, display: None, verbose: true, noop: false, width: WIDTH };
    let text = report.replies.iter().map(|reply| view.render_reply(reply)).collect::<String>()
        + &view.render_summary(report);
    [BAD, GOOD, STRONG, WARNING].iter().fold(text, |text, style| {
        text.replace(&style.to_string(), "").replace(&format!("{style:#}"), "")
    })
}

/// The view of a `puppetral do` request at this width.
fn with_view<T>(width: usize, verbose: bool, draw: impl FnOnce(RequestResultView<'_>) -> T) -> T {
    let store = DdlStore::load(None).unwrap();
    let action = store.get("puppetral").unwrap().find_action("do").unwrap();
    let wish = None;
    draw(RequestResultView { action, display: wish, verbose, noop: false, width })
}

#[test]
fn table_has_a_column_per_output_and_fits_the_width() {
    let report = users();
    let replies: Vec<&NodeReply> = report.replies.iter().collect();
    let (narrow, wide) = (
        with_view(WIDTH, false, |view| view.render_table(&replies, WIDTH)),
        with_view(160, false, |view| view.render_table(&replies, 160)),
    );
    let text = plain(&narrow.text);
    assert!(is_within_width(&text), "{text}");
    insta::assert_snapshot!("request_table", text);
    insta::assert_snapshot!("request_table_wide", plain(&wide.text));
    assert!(wide.left_out.is_empty());
}

#[test]
fn equal_replies_are_grouped() {
    let mut report = users();
    let same = report.replies[1].clone();
    let fail = report.replies[3].clone();
    for n in 10..40 {
        for like in [&same, &fail].into_iter().take(if n < 12 { 2 } else { 1 }) {
            let mut reply = like.clone();
            reply.node = format!("{}{n}.example.net", if reply.is_ok() { "web" } else { "db" })
                .parse()
                .unwrap();
            report.replies.push(reply);
        }
    }
    let groups = group::group_equal_replies(&report.replies);
    let text: String = with_view(WIDTH, false, |view| {
        groups.iter().map(|group| view.render_group(group)).collect()
    });
    let text = plain(&text);
    assert!(is_within_width(&text), "{text}");
    insta::assert_snapshot!("request_grouped", text);
}
