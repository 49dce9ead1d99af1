//! The pictures of the docs, as SVG that is readable in light and in dark.
//!
//! All algorithms are shown with the [same traffic](sample::requests). [`OverTime`] shows any
//! other.

mod all;
mod double_burst;
mod hold_and_settle;
mod over_time;
mod sample;
mod svg;
mod timeline;

pub use over_time::OverTime;
pub use timeline::Slot;

/// A picture, and the name of its file without the ending.
#[derive(Debug, Clone)]
pub struct Picture {
    /// As the link in the docs has it.
    pub name: &'static str,
    /// The file.
    pub svg: String,
}

impl Picture {
    /// A definition for Markdown, so that `![what it shows][name]` is this picture wherever the
    /// definition is included. The picture is inside, as rustdoc copies no files.
    #[cfg(not(target_family = "wasm"))]
    pub fn definition(&self) -> String {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let data = STANDARD.encode(&self.svg);
        format!("[{}]: data:image/svg+xml;base64,{data}\n", self.name)
    }
}

/// All pictures.
pub fn all() -> Vec<Picture> {
    let mut pictures: Vec<_> = sample::limits()
        .iter()
        .filter_map(timeline::picture)
        .collect();
    for (name, svg) in [
        ("algorithms", all::picture()),
        ("double_burst", double_burst::picture()),
        ("hold_and_settle", hold_and_settle::picture()),
    ] {
        pictures.push(Picture { name, svg });
    }
    pictures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_small_and_have_text_for_those_who_do_not_see_them() {
        let pictures = all();
        assert!(pictures.len() > 10);
        for Picture { name, svg } in pictures {
            assert!(svg.len() < 20_000, "{name} has {} bytes", svg.len());
            for part in [
                "<title id=",
                "<desc id=",
                "role=\"img\"",
                "prefers-color-scheme:dark",
            ] {
                assert_eq!(svg.matches(part).count(), 1, "{name}: {part}");
            }
            assert!(!svg.contains("\n\n") && !svg.contains("http://") || svg.contains("w3.org"));
        }
    }
}
