//! Events of the provisioner in a sink of its host.

use std::fs;
use std::time::Duration;

use muster_tests::{await_state, poll_until_ok};
use serde_json::{Value, json};

use super::processes::{ProcessFleet, add_record, await_done, start_leader};

const NODE: &str = "web1.example.net";

#[tokio::test(flavor = "multi_thread")]
async fn sink_of_the_host_gets_provisioned_nodes() {
    let fleet = ProcessFleet::start().await;
    let store = fleet.open_record_store().await;
    let home = fleet.create_host("prov1.example.net", "");
    let (directory, path) = (home.path("sinks"), home.path("events"));
    let options = format!(
        "[plugins.provisioner]\npuppet = false\n[plugins.sinks]\nenabled = true\ndirectory = {directory:?}\n\
         [[plugins.sinks.targets]]\nname = \"events\"\nkind = \"file\"\npath = {path:?}\nkinds = [\"provision\"]\n",
    );
    home.write("conf.d/sinks.toml", &options, 0o644);
    let _machine = fleet.start_machine(NODE, "").await;
    let _host = start_leader(home).await;
    add_record(&store, NODE).await;
    await_done(&store, NODE).await;
    let event: Value =
        poll_until_ok("the file has the event", Duration::from_mins(1), async || {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
        })
        .await;
    let fields = ["/host/name", "/event/action", "/event/outcome", "/muster/kind"];
    let expected = [NODE, "provision.done", "success", "provision"];
    assert_eq!(
        fields.map(|field| event.pointer(field)),
        expected.map(|text| Some(json!(text))).each_ref().map(Option::as_ref)
    );
    // The webhook of the configuration is notified as before, with the same document.
    assert_eq!(fleet.hook.nodes("done"), [NODE]);
    await_state("the event has left the queue", || {
        fs::read_dir(directory.join("events/queue")).unwrap().count() == 0
    })
    .await;
}
