//! The code under "Limits from a file" in the README, which is in a file of its own because it
//! needs TOML.

include!("readme/limits_from_a_file.rs");

#[test]
fn the_readme_shows_what_is_compiled_and_run_here() {
    let shown = include_str!("readme/limits_from_a_file.rs");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&format!("```rust,ignore\n{shown}```\n")));
    main().unwrap();
}
