//! Indents and wraps lines of Lua.

/// The width of a composed script, unless the rule of an algorithm has a longer line.
pub(super) const MAX_COLUMNS: usize = 100;

/// How far the lines of a script about several keys are indented at most.
const MAX_INDENT: usize = 4;

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

/// A row of items, over as many lines as they need.
pub(super) fn wrapped(before: &str, items: &[String], separator: &str, after: &str) -> String {
    wrapped_at(MAX_COLUMNS - MAX_INDENT, before, items, separator, after)
}

/// The same, in this many columns.
pub(super) fn wrapped_at(
    max_columns: usize,
    before: &str,
    items: &[String],
    separator: &str,
    after: &str,
) -> String {
    let mut text = before.to_owned();
    let mut column = before.lines().last().unwrap_or("").len();
    if before.ends_with('\n') {
        column = 0;
    }
    let end = after.lines().next().unwrap_or("");
    let end_may_wrap = after.starts_with(' ');
    for (index, item) in items.iter().enumerate() {
        let is_last = index + 1 == items.len();
        let behind = match is_last {
            true if end_may_wrap => 0,
            true => end.len(),
            false => separator.trim_end().len(),
        };
        if index > 0 && column + item.len() + behind > max_columns {
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
    if end_may_wrap && column + end.len() > max_columns {
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
        let after = format!(" = {}\n", "f(".repeat(40));
        let text = wrapped("local ", &items, ", ", &after);
        assert_eq!(text.lines().count(), 5, "{text}");
        let longest = indented(2, &text).lines().map(str::len).max();
        assert!(longest <= Some(MAX_COLUMNS), "{text}");
        let words = text.split([',', '\n']).map(str::trim);
        assert_eq!(words.filter(|word| word.contains("number_")).count(), 30);
        assert_eq!(indented(1, "a\n\n  b\n"), "  a\n\n    b\n");
    }
}
