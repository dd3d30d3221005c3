//! Describes the exit code of a program in words.

/// Highest number of a signal on Linux.
const MAX_SIGNAL: i32 = 64;

/// The signal that an exit code may stand for: programs that start others report 128 + signal. A program can also exit with such a code itself.
pub fn signal_of_exit_code(code: i32) -> Option<i32> {
    let signal = code.checked_sub(128)?;
    (1..=MAX_SIGNAL).contains(&signal).then_some(signal)
}

/// What an exit code says of the end of a program, after the program's name.
pub fn describe_exit(code: i32) -> String {
    match signal_of_exit_code(code) {
        Some(signal) => format!("exited with code {code}, or was ended by signal {signal}"),
        None => format!("exited with code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::describe_exit;

    #[test]
    fn only_codes_of_signals_name_one() {
        for (code, text) in [
            (1, "exited with code 1"),
            (128, "exited with code 128"),
            (137, "exited with code 137, or was ended by signal 9"),
            (192, "exited with code 192, or was ended by signal 64"),
            (193, "exited with code 193"),
            (255, "exited with code 255"),
            (i32::MIN, "exited with code -2147483648"),
        ] {
            assert_eq!(describe_exit(code), text);
        }
    }
}
