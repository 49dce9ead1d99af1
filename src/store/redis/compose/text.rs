//! Lines of Lua as people would write them.

const MAX_COLUMNS: usize = 110;

/// The same lines, so many levels deeper.
pub(super) fn indented(levels: usize, text: &str) -> String {
    let mut indented = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        if !line.is_empty() {
            indented.push_str(&"  ".repeat(levels));
            indented.push_str(line);
        }
        indented.push('\n');
    }
    indented
}

/// Items in a row, over as many lines as they need.
pub(super) fn wrapped(before: &str, items: &[String], separator: &str, after: &str) -> String {
    let mut text = before.to_owned();
    let mut column = before.lines().last().unwrap_or("").len();
    if before.ends_with('\n') {
        column = 0;
    }
    for (index, item) in items.iter().enumerate() {
        let is_last = index + 1 == items.len();
        if index > 0 && column + item.len() > MAX_COLUMNS {
            text.truncate(text.trim_end().len());
            text.push_str("\n  ");
            column = 2;
        }
        text.push_str(item);
        column += item.len();
        if !is_last {
            text.push_str(separator);
            column += separator.len();
        }
    }
    let end = after.lines().next().unwrap_or("");
    if after.starts_with(' ') && column + end.len() > MAX_COLUMNS {
        text.push_str("\n ");
    }
    text + after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_line_goes_on_in_the_next() {
        let items: Vec<_> = (0..30).map(|number| format!("number_{number}")).collect();
        let after = format!(" = {}\n", "f(".repeat(50));
        let text = wrapped("local ", &items, ", ", &after);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.lines()
                .all(|line| line.trim_end_matches(',').len() <= MAX_COLUMNS),
            "{text}"
        );
        let words = text.split([',', '\n']).map(str::trim);
        assert_eq!(words.filter(|word| word.contains("number_")).count(), 30);
        assert_eq!(indented(1, "a\n\n  b\n"), "  a\n\n    b\n");
    }
}
