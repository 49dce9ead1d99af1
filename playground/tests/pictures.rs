//! The pictures in the docs are those that the program makes.

use std::{collections::BTreeSet, fs, path::PathBuf};

use playground::picture;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../src/docs/pictures")
}

#[test]
fn each_picture_in_the_docs_is_what_the_algorithms_decide() {
    for picture in picture::all() {
        for (ending, made) in [("svg", &picture.svg), ("md", &picture.definition())] {
            let file = format!("{}.{ending}", picture.name);
            let kept = fs::read_to_string(folder().join(&file)).unwrap_or_default();
            assert!(
                kept == *made,
                "{file} is not what is drawn: cargo run -p playground --bin pictures"
            );
        }
    }
}

#[test]
fn there_is_no_picture_that_nothing_draws_and_none_that_no_docs_show() {
    let files = fs::read_dir(folder()).unwrap();
    let kept: BTreeSet<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let pictures = picture::all();
    let made: BTreeSet<_> = pictures
        .iter()
        .flat_map(|picture| ["svg", "md"].map(|ending| format!("{}.{ending}", picture.name)))
        .collect();
    assert_eq!(kept, made);

    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut docs = fs::read_to_string(root.join("src/docs/mod.rs")).unwrap();
    for file in fs::read_dir(root.join("src/algorithm")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            docs += &fs::read_to_string(path).unwrap();
        }
    }
    for picture in pictures {
        let shown = format!("pictures/{}.md", picture.name);
        assert!(docs.contains(&shown), "no docs show {}", picture.name);
    }
}
