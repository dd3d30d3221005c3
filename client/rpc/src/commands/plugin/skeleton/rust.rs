//! Generates an external agent in Rust, as texts: a crate of its own, whose program prints the DDL that follows from the types of its actions. Pure.

use crate::commands::plugin::skeleton::{SkeletonError, SkeletonFile};

const MANIFEST_TEMPLATE: &str = include_str!("rust/Cargo.toml.in");
const MAIN_TEMPLATE: &str = include_str!("rust/main.rs.in");
const AGENT_TEMPLATE: &str = include_str!("rust/agent.rs.in");
const ACTIONS_TEMPLATE: &str = include_str!("rust/actions.rs.in");
const ACTION_TEMPLATE: &str = include_str!("rust/action.rs.in");
const TEST_TEMPLATE: &str = include_str!("rust/test.rs.in");

/// Generates the crate's files.
pub(super) fn generate_crate_files(
    agent: &str,
    actions: &[String],
) -> Result<Vec<SkeletonFile>, SkeletonError> {
    for (at, action) in actions.iter().enumerate() {
        let is_same = |earlier: &&String| camel_case(earlier) == camel_case(action);
        if let Some(earlier) = actions.iter().take(at).find(is_same) {
            return Err(SkeletonError::SameTypeName(earlier.clone(), action.clone()));
        }
    }
    let lines = |template: &str| {
        let lines = actions.iter().map(|action| {
            template.replace("@ACTION@", action).replace("@NAME@", &camel_case(action))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let entry =
        "        Action::read(\"@ACTION@\", \"Describe what @ACTION@ does\", run_@ACTION@),";
    let list = ACTIONS_TEMPLATE
        .replace("@LIST@", &lines(entry))
        .replace("@ACTIONS@", &lines(ACTION_TEMPLATE.trim_end()));
    let file =
        |name: &str, text: &str| SkeletonFile::new(name, text.replace("@AGENT@", agent), false);
    Ok(vec![
        file("Cargo.toml", MANIFEST_TEMPLATE),
        file("src/main.rs", MAIN_TEMPLATE),
        file("src/actions.rs", &list),
        file("src/agent.rs", AGENT_TEMPLATE),
        file("tests/agent.rs", TEST_TEMPLATE),
    ])
}

/// Steps that make the program and the DDL.
pub(super) fn next_steps(agent: &str) -> Vec<String> {
    vec![
        "run `cargo test`, then `cargo build --release`".to_owned(),
        format!("run `target/release/{agent} ddl > {agent}.json` after each change of a type"),
    ]
}

/// Converts `top_ten` to a type name: `TopTen`.
fn camel_case(action: &str) -> String {
    let words = action.split('_').map(|word| {
        let (first, rest) = word.split_at(usize::from(!word.is_empty()));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::{SkeletonError, camel_case, generate_crate_files};

    #[test]
    fn every_action_has_its_types_and_its_function() {
        let actions = ["top_ten", "type"].map(str::to_owned);
        let files = generate_crate_files("disk", &actions).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        let expected =
            ["Cargo.toml", "src/main.rs", "src/actions.rs", "src/agent.rs", "tests/agent.rs"];
        assert_eq!(names, expected);
        assert!(files.iter().all(|file| !file.text.contains('@')));
        let text = &files[2].text;
        assert!(text.contains("Action::read(\"type\", \"Describe what type does\", run_type),"));
        assert!(
            text.contains("fn run_top_ten(input: TopTenInput) -> Result<TopTenOutput, Failed>")
        );
    }

    #[test]
    fn actions_with_the_same_type_name_are_refused() {
        let alike = ["top_ten", "top__ten"].map(str::to_owned);
        assert!(matches!(
            generate_crate_files("disk", &alike),
            Err(SkeletonError::SameTypeName(..))
        ));
        assert_eq!(camel_case("a_b1_c"), "AB1C");
    }
}
