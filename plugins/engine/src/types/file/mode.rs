//! Symbolic file modes such as `u=rw,g+X,o-rwx`, as in chmod(1). Pure.

const READ_BIT: u32 = 4;
const WRITE_BIT: u32 = 2;
const EXECUTE_BIT: u32 = 1;

/// Bits of owner, group and others, and the special bits.
#[derive(Debug, Clone, Copy, Default)]
struct ModeBits {
    user: u32,
    group: u32,
    other: u32,
    special: u32,
}

/// Applies a mode to the current bits: octal digits replace them, symbolic clauses are applied in order.
pub(super) fn resolve_mode(mode: &str, current: u32, directory: bool) -> Option<u32> {
    if let Ok(bits) = u32::from_str_radix(mode, 8) {
        return Some(bits);
    }
    let any_execute = directory || current & 0o111 != 0;
    let start = ModeBits {
        special: (current >> 9) & 7,
        user: (current >> 6) & 7,
        group: (current >> 3) & 7,
        other: current & 7,
    };
    let bits = mode
        .split(',')
        .try_fold(start, |bits, clause| apply_clause(bits, clause.trim(), any_execute))?;
    Some((bits.special << 9) | (bits.user << 6) | (bits.group << 3) | bits.other)
}

pub(super) fn is_symbolic(mode: &str) -> bool {
    u32::from_str_radix(mode, 8).is_err()
}

fn apply_clause(before: ModeBits, clause: &str, any_execute: bool) -> Option<ModeBits> {
    let actions = clause.find(['-', '+', '='])?;
    let (classes, actions) = clause.split_at_checked(actions)?;
    let classes = if classes.is_empty() || classes.contains('a') { "ugo" } else { classes };
    let mut after = before;
    for class in ['u', 'g', 'o'] {
        if classes.contains(class) {
            apply_to_class(before, &mut after, class, actions, any_execute)?;
        }
    }
    Some(after)
}

/// Changes permissions of one class. A copy from another class uses that class's bits from before the clause.
fn apply_to_class(
    before: ModeBits,
    after: &mut ModeBits,
    class: char,
    actions: &str,
    any_execute: bool,
) -> Option<()> {
    let mut value = class_bits(before, class);
    let mut action = '+';
    for letter in actions.chars() {
        let (mut bit, mut special) = (0, 0);
        match letter {
            '-' | '+' => action = letter,
            '=' => {
                action = letter;
                value = 0;
            }
            'r' => bit = READ_BIT,
            'w' => bit = WRITE_BIT,
            'x' => bit = EXECUTE_BIT,
            'X' if any_execute && action != '-' => bit = EXECUTE_BIT,
            'X' => {}
            'u' | 'g' | 'o' => bit = class_bits(before, letter),
            's' => {
                special = match class {
                    'u' => 4,
                    'g' => 2,
                    _ => 1,
                }
            }
            't' => special = 1,
            _ => return None,
        }
        if action == '-' {
            value &= !bit;
            after.special &= !special;
        } else {
            value |= bit;
            after.special |= special;
        }
    }
    match class {
        'u' => after.user = value,
        'g' => after.group = value,
        _ => after.other = value,
    }
    Some(())
}

fn class_bits(bits: ModeBits, class: char) -> u32 {
    match class {
        'u' => bits.user,
        'g' => bits.group,
        _ => bits.other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::resolve_mode;

    /// The expected bits are those of Puppet 7's `symbolic_mode_to_int`; for `=X` those of chmod(1).
    #[test]
    fn resolves_octal_and_symbolic_modes() {
        for (mode, from, directory, to) in [
            ("0640", 0o777, false, 0o640),
            ("u+x", 0o644, false, 0o744),
            ("ug=rw,o=r", 0o000, false, 0o664),
            ("a=r,ug+w", 0o777, false, 0o664),
            ("+x", 0o644, false, 0o755),
            ("go-rwx", 0o755, false, 0o700),
            ("u=rwX,g+s", 0o644, false, 0o2644),
            ("u=rwX,g+s", 0o644, true, 0o2744),
            ("a+X", 0o644, false, 0o644),
            ("a+X", 0o744, false, 0o755),
            ("g=u,o=g", 0o640, false, 0o666),
            ("u+s,o+t", 0o755, false, 0o5755),
            ("u-s", 0o4755, false, 0o755),
            ("+t", 0o755, true, 0o1755),
            ("u=rw-w", 0o777, false, 0o477),
        ] {
            assert_eq!(resolve_mode(mode, from, directory), Some(to), "{mode} from {from:o}");
        }
        assert_eq!(resolve_mode("ux", 0, false), None);
    }

    proptest! {
        #[test]
        fn resolving_a_mode_is_idempotent(
            mode in "[ugoa]{0,3}[-+=][rwxst]{0,4}",
            from in 0_u32..0o10000,
            directory: bool,
        ) {
            let once = resolve_mode(&mode, from, directory).unwrap();
            prop_assert_eq!(resolve_mode(&mode, once, directory), Some(once));
            prop_assert!(once <= 0o7777);
        }
    }
}
