//! A menu of nodes at the terminal: a part of a name filters, a number or the arrow keys select. [`NodeMenu`] is pure; [`choose_node`] draws it.

use std::io;

use console::{Key, Term, truncate_str};
use muster_wire::identity::Identity;

/// Nodes that are shown at once.
const MAX_ROWS: usize = 20;

#[derive(Debug)]
struct NodeMenu<'a> {
    nodes: &'a [Identity],
    typed: String,
    /// Position of the cursor among the shown nodes.
    cursor: usize,
}

/// What a key has done.
#[derive(Debug, PartialEq, Eq)]
enum MenuStep {
    /// The menu has changed.
    Continue,
    /// This node was chosen, by its position in the whole list.
    Chosen(usize),
    Left,
}

impl<'a> NodeMenu<'a> {
    fn new(nodes: &'a [Identity]) -> Self {
        Self { nodes, typed: String::new(), cursor: 0 }
    }

    /// Positions of the nodes that are shown: the one with the typed number first, then those whose names contain the text.
    fn shown(&self) -> Vec<usize> {
        let number = self.typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let number = number.filter(|at| *at < self.nodes.len());
        let matches = |(_, node): &(usize, &Identity)| node.as_str().contains(&self.typed);
        let named = self.nodes.iter().enumerate().filter(matches).map(|(at, _)| at);
        number.into_iter().chain(named.filter(|at| Some(*at) != number)).collect()
    }

    fn press(&mut self, key: &Key) -> MenuStep {
        let shown = self.shown();
        match key {
            Key::Char(c) if !c.is_control() => {
                self.typed.extend(c.to_lowercase());
                self.cursor = 0;
            }
            Key::Backspace => {
                self.typed.pop();
                self.cursor = 0;
            }
            Key::ArrowUp => self.cursor = self.cursor.saturating_sub(1),
            Key::ArrowDown => {
                self.cursor = (self.cursor + 1).min(shown.len().saturating_sub(1));
            }
            Key::Enter => {
                if let Some(at) = shown.get(self.cursor) {
                    return MenuStep::Chosen(*at);
                }
            }
            Key::Escape | Key::CtrlC => return MenuStep::Left,
            _ => {}
        }
        MenuStep::Continue
    }

    fn lines(&self, width: usize) -> Vec<String> {
        let shown = self.shown();
        let digits = self.nodes.len().to_string().len();
        let first = (self.cursor + 1).saturating_sub(MAX_ROWS);
        let rows = shown.iter().enumerate().skip(first).take(MAX_ROWS);
        let mut lines: Vec<String> = rows
            .filter_map(|(row, at)| {
                let mark = if row == self.cursor { '>' } else { ' ' };
                let node = self.nodes.get(*at)?;
                Some(format!("{mark} {:>digits$}  {node}", at + 1))
            })
            .collect();
        let hidden = shown.len().saturating_sub(MAX_ROWS);
        if hidden > 0 {
            lines.push(format!("  {hidden} more"));
        }
        lines.push(format!("Number or part of a name: {}", self.typed));
        for line in &mut lines {
            *line = truncate_str(line, width.max(1), "").into_owned();
        }
        lines
    }
}

/// Shows the menu on standard error. `None` if the user leaves it.
pub(super) fn choose_node(nodes: &[Identity]) -> io::Result<Option<&Identity>> {
    let terminal = Term::stderr();
    let mut menu = NodeMenu::new(nodes);
    loop {
        let width = usize::from(terminal.size().1).saturating_sub(1);
        let lines = menu.lines(width);
        terminal.write_str(&lines.join("\n"))?;
        let key = terminal.read_key_raw()?;
        terminal.clear_line()?;
        terminal.clear_last_lines(lines.len().saturating_sub(1))?;
        match menu.press(&key) {
            MenuStep::Continue => {}
            MenuStep::Chosen(at) => return Ok(nodes.get(at)),
            MenuStep::Left => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<Identity> {
        (1..=count).map(|n| Identity::parse(&format!("web{n}.acme.net")).unwrap()).collect()
    }

    fn choose(nodes: &[Identity], keys: &[Key]) -> Option<String> {
        let mut menu = NodeMenu::new(nodes);
        for key in keys {
            match menu.press(key) {
                MenuStep::Continue => {}
                MenuStep::Chosen(at) => return Some(nodes[at].to_string()),
                MenuStep::Left => return None,
            }
        }
        None
    }

    /// The original always took the first node.
    #[test]
    fn a6_3_number_k_chooses_node_k() {
        let nodes = nodes(12);
        for k in 1..=12 {
            let digits = k.to_string();
            let keys: Vec<Key> = digits.chars().map(Key::Char).chain([Key::Enter]).collect();
            assert_eq!(choose(&nodes, &keys), Some(format!("web{k}.acme.net")));
            let keys: Vec<Key> = (1..k).map(|_| Key::ArrowDown).chain([Key::Enter]).collect();
            assert_eq!(choose(&nodes, &keys), Some(format!("web{k}.acme.net")));
        }
    }

    #[test]
    fn typed_text_filters_and_can_be_corrected() {
        let mut nodes = nodes(3);
        nodes.push(Identity::parse("db1.acme.net").unwrap());
        let keys = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        let enter = [Key::Enter];
        assert_eq!(choose(&nodes, &[&keys("DB")[..], &enter].concat()).unwrap(), "db1.acme.net");
        assert_eq!(choose(&nodes, &[&keys("web3")[..], &enter].concat()).unwrap(), "web3.acme.net");
        assert_eq!(choose(&nodes, &[&keys("none")[..], &enter].concat()), None);
        let corrected = [&keys("dbx")[..], &[Key::Backspace, Key::Enter]].concat();
        assert_eq!(choose(&nodes, &corrected).unwrap(), "db1.acme.net");
        assert_eq!(choose(&nodes, &[Key::Escape]), None);
        // The numbers stay those of the whole list.
        let mut menu = NodeMenu::new(&nodes);
        menu.press(&Key::Char('d'));
        assert_eq!(menu.lines(80), ["> 4  db1.acme.net", "Number or part of a name: d"]);
    }

    #[test]
    fn long_lists_scroll_within_the_screen() {
        let nodes = nodes(50);
        let mut menu = NodeMenu::new(&nodes);
        assert_eq!(menu.lines(80).len(), MAX_ROWS + 2);
        for _ in 0..60 {
            menu.press(&Key::ArrowDown);
        }
        let lines = menu.lines(12);
        assert!(lines.iter().any(|line| line == "> 50  web50."), "{lines:#?}");
    }
}
