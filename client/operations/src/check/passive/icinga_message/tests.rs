//! Requests and answers as Icinga 2.13 and later versions have them.

use muster_base::is_harmful;
use muster_contract::nrpe::parse_perfdata;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    IcingaAnswer, MAX_OUTPUT_BYTES, MAX_PERFDATA_BYTES, PassiveResult, read_answer, render_request,
};
use crate::check::passive::testing::sample_result as result;

fn document(result: &PassiveResult, ttl: Option<u64>) -> Value {
    serde_json::from_slice(&render_request(result, ttl)).unwrap()
}

#[test]
fn request_has_the_result_as_values() {
    let perfdata = "load1=9;5;8;0; 'my | disk'=10MB junk x=U;;;;";
    let found = document(&result("LOAD; \"high\"", perfdata, "two\nthree"), Some(600));
    let expected = json!({
        "service": "web1.example.net!load",
        "exit_status": 2,
        "plugin_output": "LOAD; \"high\"\ntwo\nthree",
        "performance_data": ["load1=9;5;8;0", "'my / disk'=10MB", "x=U"],
        "check_source": "web1.example.net",
        "ttl": 600,
        "verbose": true,
    });
    assert_eq!(found, expected);
    let hostile = document(&result("\u{1b}[2J\r\u{202e}\t'$(id)\n[1] X", "", "a|b=1"), None);
    assert_eq!(hostile["plugin_output"], json!("?[2J?? '$(id)?[1] X\na/b=1"));
    assert_eq!((&hostile["performance_data"], hostile.get("ttl")), (&json!([]), None));
}

/// The texts are those of Icinga 2.13.6 and, where named, of 2.15.
#[test]
fn answers_have_their_meaning() {
    let refused = |text: &str| IcingaAnswer::Refused(text.to_owned());
    let results = |results: Value| json!({ "results": results });
    let object = |code: f64, status: &str| results(json!([{"code": code, "status": status}]));
    let error = |code: u16, status: &str, reason: &str| json!({"error": code, "status": status, "diagnostic_information": reason});
    let disabled = "Passive checks are disabled for object 'a!b'.";
    for (status, answer, expected) in [
        (
            200,
            object(200.0, "Successfully processed check result for object 'a!b'."),
            IcingaAnswer::Accepted,
        ),
        (
            200,
            object(200.0, "Ignoring passive check result for unreachable object 'a!b'."),
            IcingaAnswer::Accepted,
        ),
        (200, results(json!([])), IcingaAnswer::Invalid("status 200 without a result".to_owned())),
        (403, object(403.0, disabled), refused(disabled)),
        (
            200,
            results(json!([{"code": 200.0}, {"code": 403.0, "status": disabled}])),
            refused(disabled),
        ),
        (
            500,
            object(500.0, "Action execution failed: 'x'."),
            refused("Action execution failed: 'x'."),
        ),
        (
            404,
            error(404, "No objects found.", "Error: Object does not exist."),
            IcingaAnswer::UnknownService,
        ),
        (
            404,
            error(
                404,
                "No objects found.",
                "Error: Missing permission: actions/process-check-result",
            ),
            IcingaAnswer::Forbidden,
        ),
        (
            404,
            error(
                404,
                "No objects found.",
                "Error: Access denied to object 'a!b' of type 'Service'",
            ),
            refused("the filter of the user's permission excludes it"),
        ),
        // Icinga 2.15.
        (
            403,
            error(403, "Missing permission: actions/process-check-result", ""),
            IcingaAnswer::Forbidden,
        ),
        (
            503,
            object(
                503.0,
                "Could not process check result for object 'a!b' because the object is inactive.",
            ),
            refused(
                "Could not process check result for object 'a!b' because the object is inactive.",
            ),
        ),
        (
            401,
            error(401, "Unauthorized. Please check your user credentials.", ""),
            IcingaAnswer::Unauthorized,
        ),
        (
            503,
            error(503, "Icinga is reloading\u{1b}[2J.", ""),
            IcingaAnswer::ServerError("status 503: Icinga is reloading?[2J.".to_owned()),
        ),
        (
            404,
            error(404, "Action 'x' does not exist.", ""),
            IcingaAnswer::Invalid("status 404: Action 'x' does not exist.".to_owned()),
        ),
        (302, json!({}), IcingaAnswer::Invalid("status 302: ".to_owned())),
        (200, json!([1, 2]), IcingaAnswer::Invalid("status 200".to_owned())),
    ] {
        assert_eq!(read_answer(status, answer.to_string().as_bytes()), expected, "{answer}");
    }
    for (status, text, expected) in [
        (401, "<h1>Unauthorized</h1>", IcingaAnswer::Unauthorized),
        (403, "<html>", IcingaAnswer::Forbidden),
        (404, "<html>", IcingaAnswer::Invalid("status 404".to_owned())),
        (502, "<html>", IcingaAnswer::ServerError("status 502".to_owned())),
        (429, "<html>", IcingaAnswer::ServerError("status 429".to_owned())),
        (200, "", IcingaAnswer::Invalid("status 200".to_owned())),
    ] {
        assert_eq!(read_answer(status, text.as_bytes()), expected, "{status} {text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_bounded_value_without_harmful_characters(
        service in ".{0,20}", output in "(.|\n){0,60}", perfdata in "([a-c' =|]|.){0,60}", long in "(.|\n){0,40}", repeat in 1_usize..800
    ) {
        let (output, perfdata) = (output.repeat(repeat), format!("{perfdata}=1 'x{perfdata}'=2s;3 ").repeat(repeat));
        let sent = PassiveResult { service: service.clone(), ..result(&output, &perfdata, &long) };
        let found = document(&sent, None);
        let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
        prop_assert_eq!(keys, ["check_source", "exit_status", "performance_data", "plugin_output", "service", "verbose"]);
        prop_assert_eq!(found["service"].as_str().unwrap(), format!("web1.example.net!{service}"));
        let text = found["plugin_output"].as_str().unwrap();
        prop_assert!(text.len() <= MAX_OUTPUT_BYTES && !text.chars().any(|c| c != '\n' && is_harmful(c)));
        let values = found["performance_data"].as_array().unwrap();
        let values: Vec<&str> = values.iter().map(|value| value.as_str().unwrap()).collect();
        prop_assert!(values.iter().map(|value| value.len()).sum::<usize>() <= MAX_PERFDATA_BYTES);
        for value in values {
            prop_assert!(!value.chars().any(|c| is_harmful(c) || c == '|'), "{value:?}");
            prop_assert_eq!(parse_perfdata(value).len(), 1, "{:?}", value);
        }
    }

    #[test]
    fn any_answer_has_a_meaning(status in 100_u16..600, body in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,300}") {
        let _ = read_answer(status, &body);
        let named = json!({"results": [{"code": status, "status": text}], "status": text}).to_string();
        match read_answer(status, named.as_bytes()) {
            IcingaAnswer::Refused(text) => prop_assert!(text.len() <= 600 && !text.contains(char::is_control)),
            IcingaAnswer::Accepted => prop_assert!((200..300).contains(&status)),
            _ => {}
        }
    }
}
