//! Random nodes, and random queries in PQL about them. The same seed yields the same ones.

#![expect(clippy::indexing_slicing, reason = "the index is below the length")]

use serde_json::{Map, Value, json};

use crate::pql_answers::{Nodes, RecordedNode};

const NAMES: [&str; 11] = ["a", "b", "c", "os", "list", "a.b", "x y", "0", "1", "it's", "é"];
const TEXTS: [&str; 22] = [
    "",
    "1",
    "1.0",
    "01",
    "true",
    "null",
    "Debian",
    "debian",
    "12.4",
    "a",
    "ab",
    "b a",
    "it's",
    "say \"x\"",
    "é",
    "ÉA",
    "a\\b",
    "x\ny",
    "٣",
    "-1",
    "1e3",
    "a.b",
];
const CLASSES: [&str; 8] = [
    "settings",
    "default",
    "mysql",
    "mysql::master",
    "apache",
    "role::web_1",
    "web.example",
    "a::b::c",
];
/// Parts of regular expressions, some of which are refused.
const PATTERNS: [&str; 44] = [
    "a",
    "b",
    "1",
    "D",
    "e",
    "é",
    "i",
    ".",
    "*",
    "+",
    "?",
    "|",
    "(",
    ")",
    "[a-c]",
    "[^a]",
    "[0-9]",
    "^",
    "$",
    "\\d",
    "\\w",
    "\\s",
    "\\D",
    "\\W",
    "\\S",
    "{2}",
    "{1,}",
    "{0,2}",
    "\\.",
    "-",
    "[[:digit:]]",
    "[[:alpha:]]",
    "[]a]",
    "[a-]",
    "[\\d.]",
    "(?:",
    "\\b",
    "\\\"",
    "'",
    "(?i)",
    ":",
    "M",
    ", ",
    "\\[",
];

/// A generator of random values (splitmix64).
pub(crate) struct RandomQueries(u64);

impl RandomQueries {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    pub(crate) fn nodes(&mut self, count: usize) -> Nodes {
        (0..count).map(|number| (format!("node{number}"), self.node())).collect()
    }

    fn node(&mut self) -> RecordedNode {
        let classes = CLASSES.iter().filter(|_| self.one_in(3)).map(ToString::to_string).collect();
        RecordedNode { facts: self.map(3, 7), classes }
    }

    fn map(&mut self, depth: usize, most: usize) -> Map<String, Value> {
        (0..self.below(most + 1))
            .map(|_| (self.pick(&NAMES).to_owned(), self.value(depth)))
            .collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2..=4 => self.number(),
            5..=7 => self.pick(&TEXTS).into(),
            8 | 9 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.map(depth - 1, 3)),
        }
    }

    fn number(&mut self) -> Value {
        let numbers = [
            json!(0),
            json!(1),
            json!(2),
            json!(-1),
            json!(22),
            json!(1.0),
            json!(1.5),
            json!(-0.5),
            json!(1e10),
            json!(0.0001),
            json!(123_456_789.25),
            json!(i64::MAX),
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_992.0),
            json!(1e-7),
            json!(2.5e20),
        ];
        numbers[self.below(numbers.len())].clone()
    }

    pub(crate) fn query(&mut self) -> String {
        let (entity, is_inventory) =
            if self.one_in(6) { ("nodes", false) } else { ("inventory", true) };
        let fields = if self.one_in(2) { "[certname]" } else { "" };
        let condition = self.condition(3, &mut |random| random.node_test(is_inventory));
        format!("{entity}{fields} {{ {condition} }}")
    }

    fn condition(&mut self, depth: usize, test: &mut dyn FnMut(&mut Self) -> String) -> String {
        match self.below(if depth == 0 { 3 } else { 10 }) {
            0..=2 => test(self),
            3 | 4 => format!("!({})", self.condition(depth - 1, test)),
            5 => format!("! {}", test(self)),
            kind => {
                let word = if kind < 8 { " and " } else { " or " };
                let count = 2 + self.below(2);
                let parts: Vec<_> = (0..count).map(|_| self.condition(depth - 1, test)).collect();
                let joined = parts.join(word);
                // Without parentheses, the precedence of the operators decides.
                if self.one_in(3) { joined } else { format!("({joined})") }
            }
        }
    }

    fn node_test(&mut self, is_inventory: bool) -> String {
        match self.below(if is_inventory { 14 } else { 5 }) {
            0 => self.text_test("certname", &["node1", "node7", "node22", "NODE3", "x"]),
            1 | 2 => format!("facts {{ {} }}", self.fact_rows()),
            3 => {
                let titles = [
                    "Mysql",
                    "Mysql::Master",
                    "apache",
                    "main",
                    "Main",
                    "Default",
                    "Settings",
                    "A::B::C",
                    "Role::Web_1",
                    "Web.example",
                ];
                let rows = self.condition(1, &mut |random| random.text_test("title", &titles));
                format!("resources {{ type = \"Class\" and ({rows}) }}")
            }
            4 if !is_inventory => {
                format!("inventory {{ {} }}", self.condition(1, &mut Self::path_test))
            }
            _ => self.path_test(),
        }
    }

    fn fact_rows(&mut self) -> String {
        let name = self.text_test("name", &NAMES);
        let values = self.condition(1, &mut Self::value_test);
        match self.below(4) {
            0 => values,
            1 => format!("({values}) and {name}"),
            _ => format!("{name} and ({values})"),
        }
    }

    fn text_test(&mut self, field: &str, texts: &[&str]) -> String {
        match self.below(8) {
            0..=3 => format!("{field} = {}", self.quoted_of(texts)),
            4 => format!("{field} in [{}, {}]", self.quoted_of(texts), self.quoted_of(texts)),
            5 => format!("{field} != {}", self.quoted_of(texts)),
            6 => format!("{field} is {}null", if self.one_in(2) { "not " } else { "" }),
            _ => format!("{field} ~ {}", self.regex()),
        }
    }

    fn quoted_of(&mut self, texts: &[&str]) -> String {
        let text = self.pick(texts);
        self.quoted(text)
    }

    fn value_test(&mut self) -> String {
        if self.one_in(6) {
            return format!("value in [{}, {}]", self.literal(), self.literal());
        }
        self.test_of("value")
    }

    fn path_test(&mut self) -> String {
        let mut path = "facts".to_owned();
        for _ in 0..=self.below(3) {
            let name = self.pick(&NAMES);
            let needs_quotes = !name.chars().all(|c| c.is_ascii_alphanumeric()) || self.one_in(6);
            let index = if self.one_in(6) { format!("[{}]", self.below(4)) } else { String::new() };
            let quote = if needs_quotes { "\"" } else { "" };
            path += &[".", quote, name, &index, quote].concat();
        }
        self.test_of(&path)
    }

    fn test_of(&mut self, field: &str) -> String {
        match self.below(12) {
            0..=4 => format!("{field} = {}", self.literal()),
            5 => format!("{field} != {}", self.literal()),
            6 | 7 => {
                let operator = self.pick(&["<", "<=", ">", ">="]);
                format!("{field} {operator} {}", self.number_literal())
            }
            8 | 9 => {
                let operator = self.pick(&["~", "!~"]);
                format!("{field} {operator} {}", self.regex())
            }
            10 => format!("{field} is null"),
            _ => format!("{field} is not null"),
        }
    }

    fn literal(&mut self) -> String {
        match self.below(8) {
            0..=2 => self.number_literal(),
            3 => self.pick(&["true", "false"]).to_owned(),
            4 => {
                let items: Vec<_> = (0..=self.below(3)).map(|_| self.number_literal()).collect();
                format!("[{}]", items.join(", "))
            }
            _ => self.quoted_of(&TEXTS),
        }
    }

    fn number_literal(&mut self) -> String {
        self.pick(&[
            "0",
            "1",
            "2",
            "-1",
            "22",
            "1.0",
            "1.5",
            "-0.5",
            "1.0e10",
            "0.0001",
            "123456789.25",
            "007",
            "9223372036854775807",
            "9007199254740993",
            "9007199254740992.0",
            "1.0E-7",
        ])
        .to_owned()
    }

    fn regex(&mut self) -> String {
        let text: String = (0..=self.below(3)).map(|_| self.pick(&PATTERNS)).collect();
        let text = if self.one_in(8) { format!("(?i){text}") } else { text };
        self.quoted(&text)
    }

    /// A text in quotes of one of both kinds.
    fn quoted(&mut self, text: &str) -> String {
        if self.one_in(2)
            && !text.contains(['\'', '\n'])
            && !text.ends_with('\\')
            && !text.contains("\\\"")
        {
            return format!("'{text}'");
        }
        serde_json::to_string(text).unwrap()
    }
}
