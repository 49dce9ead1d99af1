//! Which program the server is.

use std::{env, ffi::OsString, path::PathBuf, sync::LazyLock};

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// The server's program, found once.
///
/// # Panics
///
/// When there is none.
pub(crate) fn program() -> &'static PathBuf {
    static PROGRAM: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| find(env::var_os("REDIS_SERVER"), env::var_os("PATH")));
    PROGRAM.as_ref().expect(
        "no Redis server: install redis-server, or name a server in REDIS_SERVER; scripts/test does it",
    )
}

fn find(named: Option<OsString>, path: Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders: Vec<_> = env::split_paths(&path?).collect();
    let mut files = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_server_that_is_named_comes_first_then_redis_then_valkey() {
        let folder = tempfile::tempdir().unwrap();
        let path = || Some(folder.path().as_os_str().to_owned());
        let file = |name| folder.path().join(name);
        assert_eq!(find(None, path()), None);
        assert_eq!(find(None, None), None);
        fs::write(file("valkey-server"), "").unwrap();
        assert_eq!(find(None, path()), Some(file("valkey-server")));
        fs::write(file("redis-server"), "").unwrap();
        assert_eq!(find(None, path()), Some(file("redis-server")));
        assert_eq!(find(Some("".into()), path()), Some(file("redis-server")));
        assert_eq!(find(Some("mine".into()), path()), Some("mine".into()));
    }
}
