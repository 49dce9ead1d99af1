//! A drawing, piece by piece.

use std::fmt::Write;

/// How a line or an area looks: a class of the style sheet.
pub(super) mod look {
    pub(in super::super) const ADMITTED: &str = "a";
    pub(in super::super) const REFUSED: &str = "r";
    pub(in super::super) const DELAYED: &str = "d";
    pub(in super::super) const LEFT: &str = "l";
    pub(in super::super) const GRID: &str = "g";
    pub(in super::super) const EDGE: &str = "e";
    pub(in super::super) const WORST: &str = "w";
    pub(in super::super) const PLAIN: &str = "t";
    pub(in super::super) const BOLD: &str = "t b";
    pub(in super::super) const CODE: &str = "t c";
    pub(in super::super) const MUTED: &str = "m";
    pub(in super::super) const MUTED_RIGHT: &str = "m n";
    pub(in super::super) const RIGHT: &str = "t n";
}

/// What each class looks like. Admitted, refused and delayed differ in brightness too.
const STYLE: &str = "text{font:13px system-ui,sans-serif}.b{font-weight:600}\
.c{font-family:ui-monospace,monospace}.n{text-anchor:end}\
path{fill:none;stroke-width:5}.g,.e,.w{stroke-width:1}.e{stroke-dasharray:4 3}.w{stroke-width:2}\
.p{fill:#fff}.t{fill:#1f2328}.m{fill:#59636e}.a{stroke:#0550ae}.r{stroke:#e5534b}.d{stroke:#d4a72c}\
.l{fill:#54aeff;fill-opacity:.35;stroke:#0550ae;stroke-width:1}.g{stroke:#d1d9e0}\
.e{stroke:#59636e}.w{stroke:#1f2328}\
@media(prefers-color-scheme:dark){.p{fill:#0d1117}.t{fill:#e6edf3}.m{fill:#9198a1}\
.a{stroke:#79c0ff}.r{stroke:#da3633}.d{stroke:#e3b341}.l{fill:#388bfd;stroke:#79c0ff}\
.g{stroke:#3d444d}.e{stroke:#9198a1}.w{stroke:#e6edf3}}";

/// Coordinates are in tenths of a pixel, so that they are the same on every machine.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    pieces: String,
}

/// A path that is drawn in one go.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// A stroke upwards.
    pub(super) fn bar(&mut self, x: u64, y: u64, height: u64) {
        if height > 0 {
            let _ = write!(self.0, "M{} {}v-{}", Tenths(x), Tenths(y), Tenths(height));
        }
    }

    /// A stroke to the right.
    pub(super) fn run(&mut self, x: u64, y: u64, width: u64) {
        let _ = write!(self.0, "M{} {}h{}", Tenths(x), Tenths(y), Tenths(width));
    }

    /// A cross.
    pub(super) fn cross(&mut self, x: u64, y: u64) {
        let (x, y) = (Tenths(x - 35), Tenths(y - 35));
        let _ = write!(self.0, "M{x} {y}l7 7m-7 0l7-7");
    }
}

/// A number of tenths.
struct Tenths(u64);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{}", self.0 / 10),
            tenth => write!(f, "{}.{tenth}", self.0 / 10),
        }
    }
}

impl Drawing {
    /// Adds a path.
    pub(super) fn path(&mut self, look: &str, path: &Path) {
        if !path.0.is_empty() {
            let _ = writeln!(self.pieces, "<path class=\"{look}\" d=\"{}\"/>", path.0);
        }
    }

    /// Adds one stroke to the right.
    pub(super) fn line(&mut self, look: &str, (x, y): (u64, u64), width: u64) {
        let mut path = Path::default();
        path.run(x, y, width);
        self.path(look, &path);
    }

    /// Adds one stroke upwards.
    pub(super) fn rule(&mut self, look: &str, (x, y): (u64, u64), height: u64) {
        let mut path = Path::default();
        path.bar(x, y, height);
        self.path(look, &path);
    }

    /// Adds text.
    pub(super) fn text(&mut self, look: &str, (x, y): (u64, u64), text: &str) {
        let (x, y, text) = (Tenths(x), Tenths(y), escaped(text));
        let _ = writeln!(
            self.pieces,
            "<text class=\"{look}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        );
    }

    /// Adds an area over a base line, of heights at evenly spaced places.
    pub(super) fn area(&mut self, (x, base): (u64, u64), step: u64, heights: &[u64]) {
        let mut path = format!("M{} {}", Tenths(x), Tenths(base));
        let mut last = None;
        for (index, height) in heights.iter().enumerate() {
            if last != Some(*height) {
                let x = Tenths(x + index as u64 * step);
                let _ = write!(path, "H{x}V{}", Tenths(base - height));
                last = Some(*height);
            }
        }
        let end = Tenths(x + heights.len() as u64 * step);
        let _ = write!(path, "H{end}V{}z", Tenths(base));
        let _ = writeln!(self.pieces, "<path class=\"{}\" d=\"{path}\"/>", look::LEFT);
    }

    /// Says which colour is what.
    pub(super) fn legend(&mut self, (x, y): (u64, u64), entries: &[(&str, &str, u64)]) {
        let mut x = x;
        for (look, text, width) in entries {
            self.rule(look, (x, y), 90);
            self.text(look::MUTED, (x + 70, y), text);
            x += width;
        }
    }

    /// The whole picture.
    pub(super) fn finish(self, size: (u64, u64), title: &str, description: &str) -> String {
        let (width, height) = (Tenths(size.0), Tenths(size.1));
        let (title, description, pieces) = (escaped(title), escaped(description), self.pieces);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">\n\
             <title id=\"t\">{title}</title>\n<desc id=\"d\">{description}</desc>\n\
             <style>{STYLE}</style>\n\
             <rect class=\"p\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n\
             {pieces}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_tenths_are_decimal() {
        let mut drawing = Drawing::default();
        drawing.text(look::PLAIN, (15, 200), "a < b & c");
        let svg = drawing.finish((100, 100), "<t>", "d");
        assert!(svg.contains("x=\"1.5\" y=\"20\">a &lt; b &amp; c</text>"));
        assert!(svg.contains(">&lt;t&gt;</title>"));
    }

    #[test]
    fn an_area_has_a_corner_only_where_its_height_changes() {
        let mut drawing = Drawing::default();
        drawing.area((0, 100), 10, &[50, 50, 20]);
        assert!(
            drawing.pieces.contains("d=\"M0 10H0V5H2V8H3V10z\""),
            "{}",
            drawing.pieces
        );
    }
}
