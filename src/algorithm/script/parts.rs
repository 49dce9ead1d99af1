//! The parts of a script's text, and the lines that stand for one.

/// The lines below `--- name`, up to the next such line.
pub(crate) fn part_of<'a>(source: &'a str, name: &str) -> &'a str {
    let mut parts = source.split("--- ").skip(1);
    let part = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    part.unwrap_or("")
}

/// The part that a line `rule('name')` stands for.
pub(crate) fn called_part(line: &str) -> Option<&str> {
    line.strip_prefix("rule('")?.strip_suffix("')")
}

/// The lines of a text. One for which there is a replacement makes way for it, which is indented as
/// the line was.
pub(crate) fn with_lines_replaced(
    text: &str,
    replacement: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let own = line.trim_start();
        let indent = &line[..line.len() - own.len()];
        match replacement(own) {
            Some(text) => lines.extend(text.lines().map(|line| match line {
                "" => "\n".to_owned(),
                line => format!("{indent}{line}\n"),
            })),
            None => lines.push(format!("{line}\n")),
        }
    }
    lines
}
