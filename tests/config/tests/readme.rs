//! The code of the chapter "Limits from a file", which is in a file of its own because it needs
//! TOML.

include!("readme/limits_from_a_file.rs");

#[test]
fn the_chapter_shows_what_is_compiled_and_run_here() {
    let shown = include_str!("readme/limits_from_a_file.rs");
    let chapter = include_str!("../../../src/docs/limits_from_a_file.md");
    assert!(chapter.contains(&format!("```rust,ignore\n{shown}```\n")));
    main().unwrap();
}
