//! What an external agent wrote, held against a DDL: whatever it is, there is an outcome, and the outputs are declared ones.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_ddl::AgentDdl;
use muster_host::external::protocol::{read_activation, read_outputs, read_reply};

const DOCUMENT: &[u8] = br#"{"metadata": {"name": "x"}, "actions": [{"action": "y", "output": {
    "text": {"type": "string", "default": "none"}, "count": {"type": "integer"}, "list": {"type": "array"},
    "table": {"type": "hash"}, "secret": {"type": "string", "sensitive": true}}}]}"#;

static DDL: LazyLock<AgentDdl> =
    LazyLock::new(|| AgentDdl::from_slice(DOCUMENT).expect("the target's own DDL is one"));

fuzz_target!(|bytes: &[u8]| {
    let action = DDL.find_action("y").expect("the target's own action is declared");
    let _ = read_activation(bytes);
    let outputs = match read_reply(bytes, action) {
        Ok(Ok(data)) => data,
        Ok(Err(failed)) => failed.data,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(action.validate_output(&outputs).is_ok());
    let _ = read_outputs(bytes, action);
});
