//! Select expressions over node data: `(country=uk or customer=acme) and not environment=production`.
//!
//! A [`SelectExpression`] is parsed, checked and compiled within limits, so evaluation cannot fail. `Display` prints its normal
//! form: requests carry it, and it parses back as the same expression. Evaluation runs nothing on the node: data sources
//! such as `service("sshd").running` are only named, as a [`DataLookup`](super::DataLookup).
//!
//! The stages: `lex` and `parse` read the text, `check` converts it to conditions or reports errors, `subject` parses the
//! value sources; `eval`, `explain` and `print` are functions of the conditions.

mod assumed_output;
mod ast;
mod check;
mod eval;
mod explain;
mod lex;
mod parse;
mod print;
mod semver;
mod subject;

use std::fmt;

pub use assumed_output::AssumedOutput;
use ast::SelectCondition;

use super::error::{FaultContext as _, FilterError, FilterFault, Result};
use super::limits::{MAX_SELECT_BYTES, MAX_SELECT_DEPTH};
use super::sources::DeclaredSources;
use crate::boolean_tree::BooleanTree;

/// A checked expression. `Display` prints its normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectExpression(BooleanTree<SelectCondition>);

impl SelectExpression {
    /// Parses an expression. Data source names, queries and outputs are not checked; the evaluating node has the declarations.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::parse_checked(text, None).within_text(text)
    }

    /// Parses an expression and checks it against the declared data sources: sources and outputs exist, query arguments are
    /// present where required and only there, and every comparison fits the type of its output.
    pub fn parse_declared(text: &str, sources: &DeclaredSources) -> Result<Self, FilterError> {
        Self::parse_checked(text, Some(sources)).within_text(text)
    }

    fn parse_checked(text: &str, declared: Option<&DeclaredSources>) -> Result<Self> {
        if text.len() > MAX_SELECT_BYTES {
            return Err(too_long(MAX_SELECT_BYTES));
        }
        let tree = check::check_tree(parse::parse_select(text)?, declared)?;
        if tree.depth() > MAX_SELECT_DEPTH {
            return Err(parse::too_deep(text.len()));
        }
        let select = Self(tree);
        if select.to_string().len() > MAX_SELECT_BYTES {
            return Err(too_long(text.len()));
        }
        Ok(select)
    }

    /// Joins both expressions with `and`.
    pub(super) fn join_and(self, other: &Self) -> Result<Self> {
        Self::parse_checked(&format!("({self}) and ({other})"), None)
    }

    /// Length of the printed expression in bytes.
    pub(super) fn printed_bytes(&self) -> usize {
        self.to_string().len()
    }
}

impl fmt::Display for SelectExpression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

fn too_long(at: usize) -> FilterFault {
    FilterFault::new(at, "an expression of at most 4,096 bytes when normalised")
}

#[cfg(test)]
mod tests {
    use super::SelectExpression;
    use crate::NodeFilter;

    #[test]
    fn expressions_print_in_normal_form() {
        for (text, printed) in [
            (
                "(country=uk or customer=acme) and not environment=production",
                "(country==uk or customer==acme) and not environment==production",
            ),
            (
                "with(\"apache\") and fact('os.family') == \"Debian\"",
                "with(\"apache\") and os.family==Debian",
            ),
            ("include(fact('sarray'), \"x\")", "include(fact(\"sarray\"), \"x\")"),
            ("1 in fact('sarray')", "include(fact(\"sarray\"), \"1\")"),
            ("fact('n.s') matches('h.llo')", "n.s=~/h.llo/"),
            ("fact('n.s').value=/x/i", "n.s=~/x/i"),
            ("a or b and c or (d or e)", "a or (b and c) or d or e"),
            ("not not a", "not not a"),
            ("!(A && (b && c))", "not (a and b and c)"),
            ("x not in [1, 'a b', /c/]", "not (x==1 or x==\"a b\" or x=~/c/)"),
            ("x in [1]", "x==1"),
            ("'apache' in classes and include(agents, '/^p/')", "apache and agent(\"/^p/\")"),
            (
                "class('8') or class('In') or class('a,b')",
                "class(\"8\") or class(\"in\") or class(\"a,b\")",
            ),
            ("a =~ '/b c/ d'", "a=~/\\/b c\\/ d/"),
            ("with('a=b c')", "a==\"b c\""),
            ("semver(v, ' >=1.2, <2')", "semver(fact(\"v\"), \">=1.2, <2\")"),
            ("l.\"a = b\".c = 1", "fact(\"l.\\\"a = b\\\".c\")==1"),
            ("a = 'nil' and class('null')", "a==\"nil\" and class(\"null\")"),
            ("not=1", ""),
            (
                "fstat('/etc/hosts').md5=/^ab/ and !(puppet().enabled=false)",
                "fstat(\"/etc/hosts\").md5=~/^ab/ and not puppet().enabled==false",
            ),
            (
                "service('sshd').running or fact('a').exists",
                "service(\"sshd\").running==true or fact(\"a\").exists==true",
            ),
            (
                "agent('x').version != '1 b' and class( 'y' ).exists",
                "agent(\"x\").version!=\"1 b\" and class(\"y\").exists==true",
            ),
            (
                "semver(package('o').version, '>=3') and 8 in process('p').pids",
                "semver(package(\"o\").version, \">=3\") and include(process(\"p\").pids, \"8\")",
            ),
            (
                "config_item('a\\\\b\\'c').value in [1, 2]",
                "config_item(\"a\\\\b'c\").value==1 or config_item(\"a\\\\b'c\").value==2",
            ),
        ] {
            match SelectExpression::parse(text) {
                Ok(read) => assert_eq!(read.to_string(), printed, "{text}"),
                Err(error) => assert_eq!(printed, "", "{error}"),
            }
        }
    }

    #[test]
    fn errors_have_a_column() {
        for (text, column, expected) in [
            ("", 1, "a condition"),
            ("é and", 6, "a condition"),
            ("a b", 3, "and, or, or the end"),
            ("(a or b", 8, "closing parenthesis"),
            ("a)", 2, "and, or, or the end"),
            ("a=", 3, "a value after the operator"),
            ("a=and", 3, "a value after the operator"),
            ("a=b=c", 4, "and, or"),
            ("a=/etc", 7, "closing /"),
            ("a='b", 3, "closing quote"),
            ("a & b", 3, "other characters need quotes"),
            ("`id`=1 ; x", 8, "and, or"),
            ("a not b", 7, "`in` after not"),
            ("a in b", 1, "a string in quotes"),
            ("a in []", 6, "at least one value"),
            ("a == [1]", 6, "`in` takes a list"),
            ("a < /x/", 5, "not a regular expression"),
            ("a =~ '('", 7, "a valid regular expression"),
            ("/(/", 2, "a valid regular expression"),
            ("'x' = 1", 1, "a fact"),
            ("'x'", 1, "not a string"),
            ("a or 8", 6, "class(\"8\")"),
            ("true", 1, "not a value"),
            ("fact('a') and b", 11, "a comparison after fact"),
            ("fact(a)=1", 6, "a string in quotes"),
            ("fact('a', 'b')=1", 1, "fact(\"name\")"),
            ("fact('a').b.c=1", 11, "one name of an output"),
            ("fact('a b')=1", 8, "a dot or the end of the name"),
            ("class('a')=1", 1, "true or false by itself"),
            ("with('a').b", 1, "without .b"),
            ("semver(fact('a'), 'new')", 20, "a version constraint"),
            ("include(fact('a'))", 1, "include(fact(\"name\"), \"value\")"),
            ("fstat('/etc/hosts')=1", 1, "a data source and its output"),
            ("a and clas('x')", 7, "did you mean class?"),
            ("puppet().=1", 10, "one name of an output"),
            ("Puppet().enabled", 1, "a data source's name"),
            ("fstat(/etc/).size=1", 7, "a string in quotes"),
            ("fstat('').size=1", 8, "not empty, or fstat()"),
            ("fstat('a', 'b').size=1", 12, "one query at most"),
            ("fstat('a\u{7}').size=1", 9, "without control characters"),
            ("a = fact('b')", 5, "not a function"),
            ("fact('a') == nil", 14, "have the fact"),
            ("a in [b, nil]", 10, "have the fact"),
            ("a or nil", 6, "not a value"),
            ("not fact('disks.#.size') > 1", 17, "without wildcards"),
            ("os*.family != x", 3, "without wildcards"),
            ("not apache*", 11, "without wildcards"),
            ("foo(bar=baz)>", 8, "a comma"),
        ] {
            let error = SelectExpression::parse(text).unwrap_err();
            assert_eq!(error.column(), column, "{text:?}: {error}");
            assert!(error.expected().contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn depth_and_number_of_conditions_are_limited() {
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(SelectExpression::parse(&nested(32)).is_ok());
        assert_eq!(SelectExpression::parse(&nested(33)).unwrap_err().column(), 33);
        assert!(SelectExpression::parse(&format!("{}a", "!".repeat(32))).is_ok());
        assert!(SelectExpression::parse(&format!("{}a", "!".repeat(4000))).is_err());
        assert!(SelectExpression::parse(&"with(".repeat(800)).is_err());

        let many = |count: usize| vec!["a"; count].join(" and ");
        assert!(SelectExpression::parse(&many(200)).is_ok());
        let error = SelectExpression::parse(&many(201)).unwrap_err();
        assert_eq!(error.expected(), "at most 200 conditions");
        let hundred = NodeFilter::default().with_select(&many(101)).unwrap();
        assert!(hundred.with_select(&many(100)).is_err());

        let lookups = |count: usize| {
            let each: Vec<_> = (0..count).map(|n| format!("a('{n}').b and a('{n}').c")).collect();
            each.join(" or ")
        };
        assert_eq!(SelectExpression::parse(&lookups(16)).unwrap().data_lookups().len(), 16);
        let error = SelectExpression::parse(&lookups(17)).unwrap_err();
        assert_eq!(error.expected(), "at most 16 data source lookups");

        let expressions = |count: usize| vec!["/a/"; count].join(" or ");
        assert!(SelectExpression::parse(&expressions(64)).is_ok());
        assert!(SelectExpression::parse(&expressions(65)).is_err());
        assert!(SelectExpression::parse(r"a=/\w{500}/").is_err());

        let long = |length: usize| format!("a{}", " ".repeat(length - 1));
        assert!(SelectExpression::parse(&long(4096)).is_ok());
        assert!(SelectExpression::parse(&long(4097)).is_err());
        // The receiver must be able to parse the printed form, which is longer than this input.
        let quoted = vec!["x='\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"'"; 140].join("||");
        assert!(quoted.len() <= 4096 && SelectExpression::parse(&quoted).is_err());
    }
}
