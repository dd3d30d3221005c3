//! What plugins print: the grammar of their output, performance data of many nodes, and the forms of the result.

use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::json;

use super::fixture::{CheckFleet, counts_of};

const DISK: &str = "echo \"DISK OK - free space: / 3326 MB | /=$1MB;5948;5958;0;5968\"\n\
                    echo '/ 15272 MB (77%);'\n\
                    echo \"/boot 68 MB | 'my disk'=$2KB;~:88;@93\"\n\
                    echo 't=0.5s'";

async fn fleet_with_disks() -> (CheckFleet, [super::fixture::CheckNode; 2]) {
    let fleet = CheckFleet::start().await;
    let nodes = [("node1", "2643 1"), ("node2", "57 4")]
        .map(|(name, values)| fleet.start_node(name, &[("check_disk", DISK, values)], ("", "")));
    fleet.await_nodes(2).await;
    (fleet, nodes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_7_whole_grammar_of_plugin_output_is_read_and_summed_up() {
    let (fleet, _nodes) = fleet_with_disks().await;
    let (_, message, data) = fleet.run_command(&["command=check_disk", "-I", "node1"]).await;
    assert_eq!(message, "OK");
    assert_eq!(
        data,
        json!({
            "command": "check_disk",
            "exitcode": 0,
            "output": "DISK OK - free space: / 3326 MB",
            "long_output": "/ 15272 MB (77%);\n/boot 68 MB",
            "perfdata": "/=2643MB;5948;5958;0;5968 'my disk'=1KB;~:88;@93 t=0.5s",
        })
    );
    let (document, exit) = fleet.rpc.run_json(&["check", "check_disk"]).await;
    check_schema("muster.check.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!((document["state"].as_str(), exit), (Some("ok"), 0));
    assert_eq!(
        document["nodes"][0]["perfdata"],
        json!([
            {"label": "/", "value": 2643.0, "unit": "MB", "warning": "5948", "critical": "5958", "min": 0.0, "max": 5968.0},
            {"label": "my disk", "value": 1.0, "unit": "KB", "warning": "~:88", "critical": "@93", "min": null, "max": null},
            {"label": "t", "value": 0.5, "unit": "s", "warning": null, "critical": null, "min": null, "max": null},
        ])
    );
    assert_eq!(
        document["perfdata"][0],
        json!({"label": "/", "unit": "MB", "count": 2, "sum": 2700.0, "average": 1350.0, "min": 57.0, "max": 2643.0})
    );
    let (text, _) = fleet.check(&["check_disk", "--perfdata"]).await;
    counts_of(&text);
    let summed = text.trim_end().split_once("checktime=").unwrap().1.split_once(' ').unwrap().1;
    assert_eq!(
        summed,
        "/_sum=2700MB /_avg=1350MB /_min=57MB /_max=2643MB \
         'my disk_sum'=5KB 'my disk_avg'=2.5KB 'my disk_min'=1KB 'my disk_max'=4KB \
         t_sum=1s t_avg=0.5s t_min=0.5s t_max=0.5s"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_each_node_and_value() {
    let (fleet, _nodes) = fleet_with_disks().await;
    let (text, exit) = fleet.check(&["check_disk", "--prometheus"]).await;
    assert_eq!(exit, 0);
    for line in [
        "muster_check_state{check=\"check_disk\"} 0",
        "muster_check_nodes{check=\"check_disk\",state=\"ok\"} 2",
        "muster_check_node_state{check=\"check_disk\",node=\"node2\"} 0",
        "muster_check_perfdata{check=\"check_disk\",node=\"node1\",label=\"my disk\",unit=\"KB\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}
