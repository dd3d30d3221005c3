//! Conversion of Ruby DDLs in the style of published ones: goldens, refused lines, and texts of any content.

use std::path::Path;
use std::{env, fs};

use muster_operations::bundle::{ConvertedDdl, ConvertedDdlKind, convert_ruby_ddl};
use proptest::prelude::*;

const METADATA: &str =
    "metadata :name => 'a', :description => 'd', :version => '1', :timeout => 5\n";

fn fixture(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/bundle/fixtures/ruby");
    fs::read_to_string(directory.join(format!("{name}.ddl"))).unwrap()
}

fn convert(text: &str) -> Result<ConvertedDdl, String> {
    convert_ruby_ddl("a", text).map_err(|error| error.to_string())
}

/// The JSON of an action with this body, and the notes.
fn converted_action(body: &str) -> (serde_json::Value, Vec<String>) {
    let converted = convert(&format!("{METADATA}action 'x' do\n{body}\nend")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&converted.json).unwrap();
    let notes = converted.notes.into_iter().map(|note| format!("{}: {}", note.line, note.text));
    (json["actions"][0].clone(), notes.collect())
}

/// Compares with the golden file, or rewrites it when `UPDATE_GOLDEN` is set.
fn check_golden(name: &str) -> ConvertedDdl {
    let converted = convert_ruby_ddl(name, &fixture(name)).unwrap();
    let notes = converted.notes.iter().map(|note| format!("# {}: {}", note.line, note.text));
    let notes: Vec<String> = notes.collect();
    let actual = format!("{}\n{}", notes.join("\n"), converted.json);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/bundle/golden");
    let path = directory.join(format!("{name}.json.txt"));
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{name}; UPDATE_GOLDEN=1 rewrites it");
    converted
}

#[test]
fn ddls_in_the_style_of_published_ones_are_converted() {
    assert_eq!(check_golden("service").kind, ConvertedDdlKind::Agent);
    assert_eq!(check_golden("Iptables-Junkfilter").name, "iptables_junkfilter");
    assert_eq!(check_golden("fstat").kind, ConvertedDdlKind::Data);
}

#[test]
fn constructs_of_published_ddls_keep_their_meaning() {
    let action = |name: &str, index: usize| {
        let converted = check_golden(name);
        let json: serde_json::Value = serde_json::from_str(&converted.json).unwrap();
        json["actions"][index].clone()
    };
    let reach = action("lineprobe", 0);
    assert_eq!(reach["input"]["protocol"]["list"], serde_json::json!(["icmp", "tcp", "udp"]));
    assert_eq!(reach["input"]["fqdn"]["validation"], "^[a-zA-Z0-9]([a-zA-Z0-9.:-]*[a-zA-Z0-9])?$");
    assert_eq!(reach["input"]["count"]["optional"], true);
    assert_eq!(reach["aggregate"].as_array().unwrap().len(), 2);
    assert_eq!(action("estate", 4)["output"]["count"]["type"], "integer");
    assert_eq!(action("estate", 3)["description"], "Purge a package");
    assert_eq!(action("keeper", 0)["input"]["force"]["type"], "boolean");
    assert_eq!(check_golden("procs").kind, ConvertedDdlKind::Data);
    let refused = |name: &str| convert_ruby_ddl(name, &fixture(name)).unwrap_err().to_string();
    assert!(refused("ledger_discovery").contains("line 9: this is the DDL of a discovery plugin"));
    assert!(refused("pkgs").contains("line 14: a comparison is Ruby code"));
}

#[test]
fn errors_name_the_line_and_what_is_not_understood() {
    for (body, expected) in [
        ("action 'x' do\n  input :a, :type => Foo\nend", "line 3: `Foo` is Ruby code"),
        ("action 'x' do\n  inptu :a\nend", "line 3: `inptu` is not understood in an action"),
        ("action 'x' do\n  display :sometimes\nend", "line 3: `display` must be :ok"),
        (
            "action 'x' do\n  input :a, :maxlength => 'x'\nend",
            "line 3: `maxlength` must be a whole number",
        ),
        (
            "action 'x' do\n  input :a, :type => :sting\nend",
            "line 3: action `x`, input `a`: unknown type",
        ),
        ("action 'x' do\n  input :a\n  input :a\nend", "line 4: the input `a` is declared twice"),
        ("action 'x' do\nend\naction 'x' do\nend", "line 4: the action `x` is declared twice"),
        ("action 'x' do\n", "line 2: the block that begins here has no end"),
        ("action \"x", "line 2: the text that begins here has no end"),
        ("action 'x' if true", "line 2: `if` is Ruby code"),
        ("name = 'x'", "line 2: an assignment is Ruby code"),
        ("File.read('/etc/passwd')", "line 2: `File` is Ruby code"),
        ("action \"#{`id`}\"", "line 2: `#{`id`}` is Ruby code"),
        ("['a'].map do |x|\nend", "line 2: expected `each`"),
        (
            "['a'].each do |x|\n  action x.reverse do\n  end\nend",
            "line 3: the method `reverse` is Ruby code",
        ),
        ("discovery do\nend", "line 2: this is the DDL of a discovery plugin"),
        (
            "action 'x' do\n  summarize do\n    aggregate summary(:no)\n  end\nend",
            "line 2: action `x`: aggregate `summary` uses the output `no`",
        ),
        (
            "action 'x' do\n  input :a, :validation => /(/\nend",
            "line 3: action `x`, input `a`: the validation pattern",
        ),
        ("", "expected an `action` or a `dataquery`"),
    ] {
        let error = convert(&format!("{METADATA}{body}")).unwrap_err();
        assert!(error.contains(expected), "{body}\n{error}");
    }
    assert!(convert("action 'x' do\nend").unwrap_err().contains("expected `metadata`"));
}

#[test]
fn validations_keep_their_meaning_in_ruby() {
    let (action, notes) = converted_action(
        "input :a, :validation => 'shellsafe'\ninput :b, :validation => :shellsafe\n\
         input :c, :validation => /a\\/b/mi\ninput :d, :validation => :no_such",
    );
    let validation = |name: &str| action["input"][name]["validation"].clone();
    assert_eq!(validation("a"), "(?:shellsafe)", "a text is a pattern in Ruby");
    assert_eq!((validation("b"), validation("c")), ("shellsafe".into(), "(?is)a/b".into()));
    assert!(notes.iter().any(|note| note.starts_with("6: ") && note.contains("unknown validator")));
}

#[test]
fn names_that_clash_are_renamed_and_reported() {
    let (action, notes) = converted_action("input :a\ninput 'a'\ninput :'a b'\noutput :a_b");
    let names: Vec<_> = action["input"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["a", "a_2", "a_b"]);
    assert!(notes.contains(&"4: the input \"a\" is renamed to `a_2`".to_owned()), "{notes:?}");
    assert!(notes.contains(&"5: the input \"a b\" is renamed to `a_b`".to_owned()), "{notes:?}");
}

#[test]
fn default_of_an_optional_input_is_left_out() {
    let (action, notes) = converted_action(
        "input :a, :type => :integer, :optional => true, :default => 1\ninput :b, :type => :integer, :default => 2",
    );
    assert!(action["input"]["a"].get("default").is_none());
    assert_eq!(action["input"]["b"]["default"], 2);
    assert!(notes.iter().any(|note| note.starts_with("3: ") && note.contains("default")));
}

#[test]
fn nesting_and_expansion_are_limited() {
    let deep = format!("{METADATA}action {}", "[".repeat(5_000));
    assert!(convert(&deep).unwrap_err().contains("nested deeper"));
    let blocks = format!("{METADATA}{}", "action 'x' do\n".repeat(5_000));
    assert!(convert(&blocks).unwrap_err().contains("nested deeper"));
    let methods = format!("{METADATA}action 'x'{}", ".to_s".repeat(5_000));
    assert!(convert(&methods).unwrap_err().contains("nested deeper"));
    let words = "a ".repeat(100);
    let open: Vec<String> =
        ('a'..='h').map(|name| format!("%w[{words}].each do |{name}|\n")).collect();
    let open = open.concat();
    let loops = format!("{METADATA}{open}{}", "end\n".repeat(8));
    assert!(convert(&loops).unwrap_err().contains("expand to more than"));
    assert!(convert(&" ".repeat(300 * 1024)).unwrap_err().contains("at most"));
}

proptest! {
    #[test]
    fn any_text_is_converted_or_refused_with_an_existing_line(text in ".{0,200}") {
        if let Err(error) = convert_ruby_ddl("a", &text) {
            prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1);
        }
    }

    #[test]
    fn changed_ddls_are_converted_or_refused(
        name in prop::sample::select(vec!["service", "Iptables-Junkfilter", "fstat"]),
        cut in 0_usize..2000,
        length in 0_usize..40,
        piece in prop::sample::select(vec!["", "end\n", "do |x|", "\"", "'", "#{", "[", "{", "=>", "\\", ":", "<<-E\n", "%w(", "/", "\n", ".each"]),
    ) {
        let text: Vec<char> = fixture(name).chars().collect();
        let start = cut.min(text.len());
        let end = (start + length).min(text.len());
        let changed: String = text[..start].iter().chain(&piece.chars().collect::<Vec<_>>()).chain(&text[end..]).collect();
        if let Ok(converted) = convert_ruby_ddl(name, &changed) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&converted.json).is_ok());
        }
    }
}
