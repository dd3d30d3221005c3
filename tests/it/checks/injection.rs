//! Attempts to run programs or to write to the terminal: through names of nodes, names and arguments of checks, and output of plugins.

use muster_tests::tier::case_step;
use muster_wire::identity::Identity;

use super::fixture::CheckFleet;

/// Texts that a shell, a terminal or a monitoring system would act on. `CANARY` stands for the path of a file.
const HOSTILE: [&str; 12] = [
    "; touch CANARY",
    "$(touch CANARY)",
    "`touch CANARY`",
    "| touch CANARY",
    "&& touch CANARY",
    "x\ntouch CANARY\n",
    "> CANARY",
    "'; touch CANARY; '",
    "\"; touch CANARY; \"",
    "$ARG2$; touch CANARY",
    "\x1b]0;title\x07\x1b[2J",
    "fine|load1=0 x=1\u{202e}",
];

/// Whether the text has characters that a terminal acts on.
fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_arguments_and_output_do_nothing() {
    let plugins = [
        ("check_echo", "printf '%s\\n' \"$@\"; exit 2", "$ARG1$ '$ARG1$' \"x $ARG1$\" $ARG2$"),
        ("check_hostile", "cat ${0%/*}/output; exit 2", ""),
    ];
    let (fleet, node) = CheckFleet::with_node(&plugins, ("dont_blame_nrpe=1\n", "")).await;
    let canary = node.path("canary");
    for text in HOSTILE.iter().step_by(case_step(4)) {
        let text = text.replace("CANARY", &canary.display().to_string());
        assert!(Identity::parse(&text).is_err(), "{text:?} is the name of a node");
        std::fs::write(node.path("plugins/output"), &text).unwrap();
        let arguments = format!("{text}!y");
        for options in [
            vec!["check_echo", "--args", &arguments],
            vec!["check_echo", "--args", &arguments, "-j"],
            vec!["check_echo", "--args", &arguments, "--prometheus"],
            vec!["check_echo", "--args", &arguments, "--perfdata"],
            vec!["check_hostile"],
            vec!["check_hostile", "-v"],
            vec!["check_hostile", "-j"],
            vec!["check_hostile", "--prometheus"],
            vec!["check_hostile", "--perfdata"],
            vec![text.as_str()],
            vec!["check_echo", "-I", text.as_str()],
            vec!["check_echo", "-F", text.as_str()],
            vec!["check_echo", "-S", text.as_str()],
        ] {
            let output = fleet.rpc.run(&[&["check"], options.as_slice()].concat()).await;
            let printed =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            assert!(printed.iter().all(|text| is_printable(text)), "{options:?}: {printed:?}");
            assert!(!canary.exists(), "{options:?}: {printed:?}");
            let is_plugin_text =
                !options.iter().any(|option| ["-j", "--prometheus"].contains(option));
            let bars = printed[0].matches('|').count();
            assert!(!is_plugin_text || bars <= 1, "{options:?}: {printed:?}");
        }
    }
    // The arguments have arrived unchanged.
    let (_, _, data) = fleet.run_command(&["command=check_echo", "args=a; b $(c)!'"]).await;
    assert_eq!(data["output"].as_str(), Some("a; b $(c)"));
    assert_eq!(data["long_output"].as_str(), Some("a; b $(c)\nx a; b $(c)\n'"));
}
