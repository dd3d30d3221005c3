//! Splits the output of a Nagios plugin into its first line, the other lines, and performance data.
//!
//! ```text
//! TEXT[|perfdata]
//! [long text
//! ...][|more perfdata
//! ...]
//! ```
//!
//! After the first `|` that is not in the first line, everything is performance data.

/// The parts of a plugin's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginOutput {
    /// The first line.
    pub text: String,
    /// The other lines.
    pub long_text: String,
    /// The performance data of all lines, on one line.
    pub perfdata: String,
}

impl PluginOutput {
    /// Splits an output. Every text is accepted.
    pub fn parse(output: &str) -> Self {
        let mut lines = output.trim().lines();
        let (text, perfdata) = split_line(lines.next().unwrap_or_default());
        let mut perfdata = Vec::from_iter(perfdata);
        let mut long_text = Vec::new();
        let mut is_perfdata = false;
        for line in lines {
            if is_perfdata {
                perfdata.push(line.trim());
                continue;
            }
            let (text, more) = split_line(line);
            long_text.push(text);
            is_perfdata = more.is_some();
            perfdata.extend(more);
        }
        perfdata.retain(|part| !part.is_empty());
        Self {
            text: text.to_owned(),
            long_text: long_text.join("\n").trim_end().to_owned(),
            perfdata: perfdata.join(" "),
        }
    }
}

/// The text of a line, and its performance data, if it has any.
fn split_line(line: &str) -> (&str, Option<&str>) {
    match line.split_once('|') {
        Some((text, perfdata)) => (text.trim_end(), Some(perfdata.trim())),
        None => (line.trim_end(), None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PluginOutput;

    fn parts(output: &str) -> (String, String, String) {
        let PluginOutput { text, long_text, perfdata } = PluginOutput::parse(output);
        (text, long_text, perfdata)
    }

    #[test]
    fn splits_text_long_text_and_perfdata() {
        for (output, text, long_text, perfdata) in [
            ("", "", "", ""),
            ("OK\n", "OK", "", ""),
            ("OK | a=1 b=2\n", "OK", "", "a=1 b=2"),
            ("OK|a=1|b=2", "OK", "", "a=1|b=2"),
            ("DISK OK\n/ 5 %\n/var 7 %\n", "DISK OK", "/ 5 %\n/var 7 %", ""),
            (
                "DISK OK | /=2643MB;5948;5958;0;5968\n/ 15272 MB\n/boot 68 MB | /boot=68MB;88;93;0;98\n/home=69357MB\n\n",
                "DISK OK",
                "/ 15272 MB\n/boot 68 MB",
                "/=2643MB;5948;5958;0;5968 /boot=68MB;88;93;0;98 /home=69357MB",
            ),
            ("OK\r\nmore\r\n", "OK", "more", ""),
            ("|a=1", "", "", "a=1"),
            ("\n\nlate", "late", "", ""),
        ] {
            let expected = (text.to_owned(), long_text.to_owned(), perfdata.to_owned());
            assert_eq!(parts(output), expected, "{output:?}");
        }
    }

    proptest! {
        #[test]
        fn text_has_one_line_and_no_part_has_a_bar_that_belongs_to_another(output in "[a-z|\n\r ']{0,80}") {
            let (text, long_text, perfdata) = parts(&output);
            prop_assert!(!text.contains(['|', '\n']));
            prop_assert!(!long_text.contains('|'));
            prop_assert!(!perfdata.contains('\n'));
        }

        #[test]
        fn every_word_is_kept_once(words in prop::collection::vec("[a-z]{1,4}[|\n ]", 0..20)) {
            let output: String = words.concat();
            let (text, long_text, perfdata) = parts(&output);
            let all = [text, long_text, perfdata].join(" ");
            let kept: Vec<&str> = all.split([' ', '\n', '|']).filter(|word| !word.is_empty()).collect();
            let mut kept: Vec<&str> = kept;
            let mut given: Vec<&str> = output.split([' ', '\n', '|']).filter(|word| !word.is_empty()).collect();
            kept.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(kept, given);
        }
    }
}
