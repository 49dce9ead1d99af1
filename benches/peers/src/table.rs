//! Tables in Markdown.

use std::fmt::Display;

/// Prints a heading of a section.
pub fn section(title: &str, text: &str) {
    println!("\n## {title}\n\n{text}");
}

/// Prints a smaller heading.
pub fn part(title: &str, text: &str) {
    println!("\n### {title}\n\n{text}");
}

/// Prints the head of a table.
pub fn head(columns: &[&str]) {
    println!("\n| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// Prints a row, as soon as it is known.
pub fn row(cells: &[&dyn Display]) {
    let cells: Vec<_> = cells.iter().map(ToString::to_string).collect();
    println!("| {} |", cells.join(" | "));
}
