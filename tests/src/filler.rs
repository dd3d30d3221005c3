//! The agent `filler`, which replies with any number of bytes.

use muster_api::{Agent, NoState};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
struct FillInput {
    bytes: usize,
}

#[derive(Serialize)]
struct FillOutput {
    said: String,
}

/// The agent. Its only action `fill` replies with the requested number of bytes, and sends them as progress.
pub fn filler_agent() -> Agent {
    let ddl = json!({
        "metadata": {"name": "filler", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 20},
        "actions": [{
            "action": "fill", "description": "d", "display": "always", "read_only": true,
            "input": {"bytes": {"prompt": "Bytes", "description": "d", "type": "integer", "optional": false}},
            "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}},
        }],
    });
    Agent::builder(&ddl.to_string())
        .unwrap()
        .action("fill", &NoState, |_, cx, input: FillInput| async move {
            let said = "x".repeat(input.bytes);
            cx.emit_event(json!({ "said": said }));
            Ok(FillOutput { said })
        })
        .build()
        .unwrap()
}
