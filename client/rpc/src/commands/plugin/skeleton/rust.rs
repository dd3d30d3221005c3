//! Generates a new agent that runs in the daemon's process: a crate for `plugins/` in Muster's source, as texts. Pure.

use serde_json::{Value, json};

use crate::commands::plugin::skeleton::{SkeletonError, SkeletonFile};

const MANIFEST_TEMPLATE: &str = include_str!("rust/Cargo.toml.in");
const LIB_TEMPLATE: &str = include_str!("rust/lib.rs.in");
const ACTIONS_TEMPLATE: &str = include_str!("rust/actions.rs.in");
const ACTION_TEMPLATE: &str = include_str!("rust/action.rs.in");
const TESTS_TEMPLATE: &str = include_str!("rust/tests.rs.in");

/// Names that no module can have, not even with `r#`, and `mod`, which is the name of a module's own file.
const RESERVED_MODULE_NAMES: [&str; 4] = ["crate", "mod", "self", "super"];
/// Keywords that are valid module names with `r#`.
const KEYWORDS: [&str; 46] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "move", "mut", "override", "priv", "pub", "ref", "return", "static",
    "struct", "trait", "true", "try", "type", "typeof", "unsafe", "use", "virtual", "where",
    "while", "yield",
];

/// Generates the crate's files, except its DDL.
pub(super) fn generate_crate_files(
    agent: &str,
    actions: &[String],
) -> Result<Vec<SkeletonFile>, SkeletonError> {
    for (at, action) in actions.iter().enumerate() {
        if RESERVED_MODULE_NAMES.contains(&action.as_str()) {
            return Err(SkeletonError::Module(action.clone()));
        }
        let is_same = |earlier: &&String| camel_case(earlier) == camel_case(action);
        if let Some(earlier) = actions.iter().take(at).find(is_same) {
            return Err(SkeletonError::SameTypeName(earlier.clone(), action.clone()));
        }
    }
    let mut sorted: Vec<&String> = actions.iter().collect();
    sorted.sort();
    let lines = |actions: &[&String], template: &str| {
        let lines = actions.iter().map(|action| fill_template(template, action));
        lines.collect::<Vec<_>>().join("\n")
    };
    let declared: Vec<&String> = actions.iter().collect();
    let builder = lines(
        &declared,
        "            .blocking_action(\"@ACTION@\", &NoState, actions::@MODULE@::run_@ACTION@)",
    );
    let lib = LIB_TEMPLATE.replace("@AGENT@", agent).replace("@PLUGIN@", &camel_case(agent));
    let lib = lib.replace("@BUILDER@", &builder);
    let modules =
        ACTIONS_TEMPLATE.replace("@MODULES@", &lines(&sorted, "pub(crate) mod @MODULE@;"));
    let tests = TESTS_TEMPLATE.replace("@AGENT@", agent).replace("@PLUGIN@", &camel_case(agent));
    let difference = "        differences::<actions::@MODULE@::@NAME@Input, actions::@MODULE@::@NAME@Output>(&agent, \"@ACTION@\"),";
    let tests = tests.replace("@DIFFERENCES@", &lines(&declared, difference));
    let name = format!("muster-{}", agent.replace('_', "-"));
    let mut files = vec![
        SkeletonFile::new("Cargo.toml", MANIFEST_TEMPLATE.replace("@CRATE@", &name), false),
        SkeletonFile::new("src/lib.rs", lib, false),
        SkeletonFile::new("src/actions.rs", modules, false),
    ];
    for action in actions {
        let text = fill_template(ACTION_TEMPLATE, action);
        files.push(SkeletonFile::new(format!("src/actions/{action}.rs"), text, false));
    }
    files.push(SkeletonFile::new("src/tests.rs", tests, false));
    Ok(files)
}

/// Further steps that make the crate part of the daemon.
pub(super) fn next_steps(agent: &str) -> Vec<String> {
    let name = format!("muster-{}", agent.replace('_', "-"));
    vec![
        format!(
            "add the crate to `members` in Muster's Cargo.toml, and `{name} = {{ path = ... }}` to its dependencies"
        ),
        format!("add `{name}` to the table in ARCHITECTURE.md, which tests compare"),
        format!(
            "add `builder.add::<{}::{}Plugin>(())?;` to `build_plugins` in agent/src/services/agents.rs",
            name.replace('-', "_"),
            camel_case(agent)
        ),
    ]
}

/// The example that a crate's DDL needs for each action.
pub(super) fn action_examples() -> Value {
    json!([{"description": "Return the message", "input": {"message": "hello"}, "output": {"message": "hello"}}])
}

/// Replaces the placeholders of an action: its name, and those of its type and module.
fn fill_template(template: &str, action: &str) -> String {
    let template = template.replace("@ACTION@", action).replace("@NAME@", &camel_case(action));
    template.replace("@MODULE@", &module_name(action))
}

/// Converts `top_ten` to a type name: `TopTen`.
fn camel_case(action: &str) -> String {
    let words = action.split('_').map(|word| {
        let (first, rest) = word.split_at(usize::from(!word.is_empty()));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// Converts `top_ten` to a module name; a keyword becomes `r#type`.
fn module_name(action: &str) -> String {
    if KEYWORDS.contains(&action) { format!("r#{action}") } else { action.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{SkeletonError, camel_case, generate_crate_files};

    #[test]
    fn every_action_has_its_own_file() {
        let actions = ["top_ten", "type"].map(str::to_owned);
        let files = generate_crate_files("disk", &actions).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "Cargo.toml",
                "src/lib.rs",
                "src/actions.rs",
                "src/actions/top_ten.rs",
                "src/actions/type.rs",
                "src/tests.rs"
            ]
        );
        assert!(files.iter().all(|file| !file.text.contains('@')));
        let text = &files[2].text;
        assert!(text.contains("pub(crate) mod r#type;"));
        assert!(files[1].text.contains("actions::r#type::run_type"));
    }

    #[test]
    fn invalid_module_names_are_refused() {
        for name in ["self", "mod", "crate", "super"] {
            let refused = generate_crate_files("disk", &[name.to_owned()]);
            assert_eq!(refused, Err(SkeletonError::Module(name.to_owned())));
        }
        let alike = ["top_ten", "top__ten"].map(str::to_owned);
        assert!(matches!(
            generate_crate_files("disk", &alike),
            Err(SkeletonError::SameTypeName(..))
        ));
        assert_eq!(camel_case("a_b1_c"), "AB1C");
    }
}
