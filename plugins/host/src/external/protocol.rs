//! Encodes requests to external agents and decodes their replies. Pure: does not read files or run programs.
//!
//! Two conventions: Choria's external agent protocol v1 (`io.choria.mcorpc.external.v1.*`), and that of `MCollective`'s `implemented_by` scripts,
//! whose reply file holds only the outputs while exit code and standard error carry the rest.

use muster_api::ActionError;
use muster_api::ddl::ActionSchema;
use muster_wire::status::ReplyStatus;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const REQUEST_PROTOCOL: &str = "io.choria.mcorpc.external.v1.rpc_request";
pub const REPLY_PROTOCOL: &str = "io.choria.mcorpc.external.v1.rpc_reply";
/// The protocol of an activation check, which asks whether an agent is active on this node.
pub const ACTIVATION_REQUEST_PROTOCOL: &str = "io.choria.mcorpc.external.v1.activation_request";
pub const ACTIVATION_REPLY_PROTOCOL: &str = "io.choria.mcorpc.external.v1.activation_reply";

const REQUEST_SCHEMA: &str = "https://choria.io/schemas/mcorpc/external/v1/rpc_request.json";
const ACTIVATION_SCHEMA: &str =
    "https://choria.io/schemas/mcorpc/external/v1/activation_request.json";

/// The input of a script that says whether the caller wants a reply.
const PROCESS_RESULTS: &str = "process_results";

/// Maximum length of an agent's message that is forwarded, in characters.
const MAX_MESSAGE_CHARS: usize = 2000;

/// A request in Choria's format.
#[derive(Debug, Serialize)]
pub struct ExternalRequest<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    protocol: &'static str,
    pub agent: &'a str,
    pub action: &'a str,
    /// The request's id, 32 hexadecimal digits.
    pub requestid: String,
    pub senderid: &'a str,
    /// The verified caller.
    pub callerid: &'a str,
    pub collective: &'a str,
    /// Lifetime of the request, in seconds.
    pub ttl: u64,
    /// When the node accepted it, in seconds since the epoch.
    pub msgtime: u64,
    /// The inputs.
    pub data: &'a Map<String, Value>,
    /// Whether the caller wants a reply. Only scripts receive it.
    #[serde(skip)]
    pub process_results: bool,
}

impl<'a> ExternalRequest<'a> {
    /// A request for an action with these inputs; the caller sets the remaining fields.
    pub fn new(agent: &'a str, action: &'a str, data: &'a Map<String, Value>) -> Self {
        Self {
            schema: REQUEST_SCHEMA,
            protocol: REQUEST_PROTOCOL,
            agent,
            action,
            requestid: String::new(),
            senderid: "",
            callerid: "",
            collective: "",
            ttl: 60,
            msgtime: 0,
            data,
            process_results: true,
        }
    }

    /// The same request in `MCollective`'s format for scripts. As there, `process_results` is among the inputs.
    pub fn to_script_json(&self) -> Value {
        let mut data = self.data.clone();
        data.insert(PROCESS_RESULTS.to_owned(), self.process_results.into());
        serde_json::json!({
            "agent": self.agent,
            "action": self.action,
            "data": data,
            "sender": self.senderid,
            "callerid": self.callerid,
            "uniqid": self.requestid,
        })
    }
}

pub fn activation_request(agent: &str) -> Value {
    serde_json::json!({"$schema": ACTIVATION_SCHEMA, "protocol": ACTIVATION_REQUEST_PROTOCOL, "agent": agent})
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExternalReplyError {
    /// The reply is missing or empty.
    #[error("it wrote no reply")]
    Nothing,
    /// Not JSON, or not of the expected structure.
    #[error("its reply is invalid: {0}")]
    Malformed(String),
    #[error("its reply has the protocol {found:?}; expected {expected}")]
    Protocol { found: String, expected: &'static str },
    #[error("its reply has no `statuscode`; write 0 for success, or 1 to 5")]
    NoStatus,
    #[error("its reply has the status {0}; 0 to 5 are valid")]
    Status(i64),
    #[error("its outputs do not match its DDL: {0}")]
    Outputs(String),
}

#[derive(Deserialize)]
struct RawReply {
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    statuscode: Option<i64>,
    #[serde(default)]
    statusmsg: Option<String>,
    #[serde(default)]
    data: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct RawActivation {
    #[serde(default)]
    protocol: Option<String>,
    activate: bool,
}

/// Decodes a reply: the outputs with defaults, or the failure that the agent reports.
///
/// A failed agent may still return outputs; those that its DDL does not allow are dropped.
pub fn read_reply(
    bytes: &[u8],
    action: &ActionSchema,
) -> Result<Result<Map<String, Value>, ActionError>, ExternalReplyError> {
    let raw: RawReply = parse_object(bytes)?;
    expect_protocol(raw.protocol, REPLY_PROTOCOL)?;
    let data = raw.data.unwrap_or_default();
    let status = match raw.statuscode.ok_or(ExternalReplyError::NoStatus)? {
        0 => return validate_outputs(&data, action).map(Ok),
        1 => ReplyStatus::Failed,
        2 => ReplyStatus::UnknownAction,
        3 => ReplyStatus::MissingData,
        4 => ReplyStatus::InvalidData,
        5 => ReplyStatus::Other,
        other => return Err(ExternalReplyError::Status(other)),
    };
    let message = raw.statusmsg.filter(|message| !message.trim().is_empty()).map_or_else(
        || "the agent returned no error message".to_owned(),
        |message| shorten_message(&message),
    );
    Ok(Err(ActionError {
        status,
        message,
        reason: None,
        data: validate_outputs(&data, action).unwrap_or_default(),
    }))
}

/// Decodes the outputs of a script. An empty file and `null` mean "no outputs", as in `MCollective`.
pub fn read_outputs(
    bytes: &[u8],
    action: &ActionSchema,
) -> Result<Map<String, Value>, ExternalReplyError> {
    let outputs = if has_no_outputs(bytes) { Map::new() } else { parse_object(bytes)? };
    validate_outputs(&outputs, action)
}

/// Whether a script's reply file is as good as empty.
pub fn has_no_outputs(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii(), b"" | b"null")
}

pub fn read_activation(bytes: &[u8]) -> Result<bool, ExternalReplyError> {
    let raw: RawActivation = parse_object(bytes)?;
    expect_protocol(raw.protocol, ACTIVATION_REPLY_PROTOCOL)?;
    Ok(raw.activate)
}

/// Maps a script's exit code and last error line to an error.
pub fn script_failure(code: i32, message: &str) -> ActionError {
    let message = match message.trim() {
        "" => format!("the script exited with code {code} and printed no error message"),
        text => shorten_message(text),
    };
    let status = match code {
        2 => ReplyStatus::UnknownAction,
        3 => ReplyStatus::MissingData,
        4 => ReplyStatus::InvalidData,
        5 => ReplyStatus::Other,
        _ => ReplyStatus::Failed,
    };
    ActionError { status, ..ActionError::failed(message) }
}

fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ExternalReplyError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ExternalReplyError::Nothing);
    }
    // The parser's message is not forwarded: it may quote a value that is a secret.
    let object: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
        let problem = match error.classify() {
            serde_json::error::Category::Data => "not a JSON object",
            _ => "not JSON",
        };
        let (line, column) = (error.line(), error.column());
        ExternalReplyError::Malformed(format!("{problem}, at line {line} column {column}"))
    })?;
    // Deserialise through an object: serde also accepts a list in place of a struct, with all fields left out.
    serde_json::from_value(Value::Object(object)).map_err(|_| {
        ExternalReplyError::Malformed("a field is missing or has the wrong type".to_owned())
    })
}

/// The protocol field is optional in a reply; if present, it must match.
fn expect_protocol(
    found: Option<String>,
    expected: &'static str,
) -> Result<(), ExternalReplyError> {
    match found {
        Some(found) if found != expected => {
            Err(ExternalReplyError::Protocol { found: shorten_message(&found), expected })
        }
        _ => Ok(()),
    }
}

fn validate_outputs(
    data: &Map<String, Value>,
    action: &ActionSchema,
) -> Result<Map<String, Value>, ExternalReplyError> {
    let valid = action.validate_output(data);
    valid.map_err(|error| ExternalReplyError::Outputs(error.to_string()))
}

fn shorten_message(text: &str) -> String {
    let text = text.trim();
    let mut short: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use muster_api::ddl::{ActionSchema, AgentDdl};
    use muster_wire::status::ReplyStatus;
    use proptest::prelude::*;
    use serde_json::json;

    use super::{
        ExternalReplyError, ExternalRequest, REPLY_PROTOCOL, REQUEST_PROTOCOL, activation_request,
        read_activation, read_outputs, read_reply, script_failure,
    };

    fn action() -> ActionSchema {
        let ddl = json!({"metadata": {"name": "x"}, "actions": [{"action": "y", "output": {
            "text": {"type": "string", "default": "none"}, "count": {"type": "integer"}}}]});
        let ddl = AgentDdl::from_slice(ddl.to_string().as_bytes()).unwrap();
        ddl.find_action("y").unwrap().clone()
    }

    #[test]
    fn request_has_the_format_of_choria() {
        let data = json!({"msg": "hello"}).as_object().cloned().unwrap();
        let mut request = ExternalRequest::new("helloworld", "ping", &data);
        request.requestid = "034c527089f746248822ada8a145f499".to_owned();
        (request.senderid, request.callerid, request.collective) = ("rip", "rip", "muster");
        request.msgtime = 1_568_281_519;
        assert_eq!(
            serde_json::to_value(&request).unwrap(),
            json!({"$schema": "https://choria.io/schemas/mcorpc/external/v1/rpc_request.json",
                   "protocol": REQUEST_PROTOCOL, "agent": "helloworld", "action": "ping",
                   "requestid": "034c527089f746248822ada8a145f499", "senderid": "rip",
                   "callerid": "rip", "collective": "muster", "ttl": 60,
                   "msgtime": 1_568_281_519, "data": {"msg": "hello"}})
        );
        let script = request.to_script_json();
        assert_eq!(script["uniqid"], json!(request.requestid));
        assert_eq!(script["data"], json!({"msg": "hello", "process_results": true}));
        assert_eq!(activation_request("x")["agent"], json!("x"));
    }

    #[test]
    fn replies_are_read_with_defaults_and_statuses() {
        let read = |reply: serde_json::Value| read_reply(reply.to_string().as_bytes(), &action());
        let good = read(json!({"statuscode": 0, "statusmsg": "OK", "data": {"count": 3}}));
        assert_eq!(
            serde_json::Value::Object(good.unwrap().unwrap()),
            json!({"count": 3, "text": "none"})
        );
        let failed = read(
            json!({"protocol": REPLY_PROTOCOL, "statuscode": 4, "statusmsg": " no such disk ", "data": {"lie": 1}}),
        );
        let failed = failed.unwrap().unwrap_err();
        assert_eq!(
            (failed.status, failed.message.as_str()),
            (ReplyStatus::InvalidData, "no such disk")
        );
        assert!(failed.data.is_empty());
        assert!(matches!(
            read(json!({"statuscode": 0, "data": {"lie": 1}})),
            Err(ExternalReplyError::Outputs(_))
        ));
        assert!(matches!(
            read(json!({"statuscode": 0, "data": {"count": "3"}})),
            Err(ExternalReplyError::Outputs(_))
        ));
        assert_eq!(read(json!({"statuscode": 6})), Err(ExternalReplyError::Status(6)));
        assert!(matches!(
            read(json!({"protocol": "x", "statuscode": 0})),
            Err(ExternalReplyError::Protocol { .. })
        ));
        for without_status in
            [json!({}), json!({"data": {"count": 3}}), json!({"statuscode": null})]
        {
            assert_eq!(read(without_status), Err(ExternalReplyError::NoStatus));
        }
        assert!(matches!(read(json!([])), Err(ExternalReplyError::Malformed(_))));
        assert_eq!(read_reply(b" \n", &action()), Err(ExternalReplyError::Nothing));
    }

    #[test]
    fn scripts_return_outputs_exit_code_and_error_text() {
        assert!(read_outputs(b"{\"count\": 1}", &action()).is_ok());
        assert!(read_outputs(b"{\"cnt\": 1}", &action()).is_err());
        for empty in ["", " \n", "null", " null\n"] {
            let outputs = read_outputs(empty.as_bytes(), &action()).unwrap();
            assert_eq!(serde_json::Value::Object(outputs), json!({"text": "none"}));
        }
        assert!(read_outputs(b"nil", &action()).is_err());
        let failed = script_failure(3, "the disk is missing\n");
        assert_eq!(
            (failed.status, failed.message.as_str()),
            (ReplyStatus::MissingData, "the disk is missing")
        );
        assert_eq!(script_failure(77, "").status, ReplyStatus::Failed);
    }

    #[test]
    fn activation_is_a_boolean() {
        assert_eq!(read_activation(b"{\"activate\": true}"), Ok(true));
        assert_eq!(read_activation(b"{\"activate\": false}"), Ok(false));
        assert!(read_activation(b"{\"activate\": \"yes\"}").is_err());
        assert!(read_activation(b"{}").is_err());
    }

    proptest! {
        /// Arbitrary output of an agent gives an error, or outputs that its DDL allows.
        #[test]
        fn arbitrary_bytes_give_valid_outputs_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let action = action();
            let _ = (read_activation(&bytes), read_outputs(&bytes, &action));
            if let Ok(Ok(data)) = read_reply(&bytes, &action) {
                prop_assert!(action.validate_output(&data).is_ok());
            }
        }

        #[test]
        fn arbitrary_json_gives_valid_outputs_or_an_error(
            status in prop::num::i64::ANY, message in ".{0,40}", name in "(text|count|lie)", number in any::<bool>()
        ) {
            let action = action();
            let value = if number { json!(7) } else { json!("seven") };
            let reply = json!({"statuscode": status % 8, "statusmsg": message, "data": {name: value}});
            match read_reply(reply.to_string().as_bytes(), &action) {
                Ok(Ok(data)) => prop_assert!(action.validate_output(&data).is_ok()),
                Ok(Err(error)) => {
                    prop_assert!(error.status != ReplyStatus::Ok);
                    prop_assert!(action.validate_output(&error.data).is_ok());
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
