//! Redis can load every file of Lua as it is, and the header of each says what it is.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fred::{
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};
use tollgate_redis_tests::Redis;

fn files_of_lua(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_of_lua(&path, found);
        } else if path.extension().is_some_and(|end| end == "lua") {
            found.push(path);
        }
    }
}

/// `SCRIPT LOAD` only compiles it, with the Lua 5.1 that is to run it.
fn load(redis: &Redis, text: &str) -> Result<String, Error> {
    let command = CustomCommand::new_static("SCRIPT", ClusterHash::Random, false);
    let words = vec![Value::from("LOAD"), Value::from(text)];
    redis.wait(redis.client().custom(command, words))
}

#[test]
fn redis_loads_every_file_of_lua_as_it_stands() {
    let redis = Redis::start();
    let mut files = Vec::new();
    files_of_lua(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../src")),
        &mut files,
    );
    assert!(files.len() >= 20, "only {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.display();
        let loaded = load(&redis, &text);
        loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
        // A rule consists of parts: every line is in one.
        let head: Vec<_> = text
            .lines()
            .take_while(|line| line.starts_with("-- ") || *line == "--")
            .collect();
        assert!(head.len() >= 4, "{name} does not say what it is: {head:#?}");
        let end = load(&redis, &format!("{text}\nend"));
        assert!(end.is_err(), "{name}: Redis loads what is not Lua");
    }
}
