//! The files and the code about rules in the chapter "Limits from a file".

const RULES: &str = include_str!("readme/rules.toml");
const YAML: &str = include_str!("readme/rules.yaml");

include!("readme/rules_in_a_file.rs");

#[test]
fn the_chapter_shows_what_is_read_and_run_here() {
    let chapter = include_str!("../../../src/docs/limits_from_a_file.md");
    for (format, shown) in [
        ("toml", RULES),
        ("yaml", YAML),
        ("rust,ignore", include_str!("readme/rules_in_a_file.rs")),
    ] {
        let is_shown = chapter.contains(&format!("```{format}\n{shown}```\n"));
        assert!(is_shown, "{format}");
    }
    main().unwrap();
}
