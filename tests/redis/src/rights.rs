//! The rights that the docs name, and a user who has some.

use std::sync::LazyLock;

use fred::types::config::Config;

use crate::server::Server;

/// Where the docs name them.
pub const CHAPTER: &str = include_str!("../../../src/docs/operating_redis.md");

/// What the store needs of one server: what the docs name, on one line as it is to be pasted, but
/// what the client asks beside it.
pub static RIGHTS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let begins = "ACL SETUSER tollgate on >password ~tollgate:* -@all ";
    let (_, rights) = CHAPTER.split_once(begins).unwrap();
    let rights = rights
        .lines()
        .next()
        .unwrap()
        .strip_suffix(&OF_A_CONNECT.join(" "));
    rights.unwrap().split_whitespace().collect()
});

/// What the client asks about itself and the server's version when it connects. It works without
/// the answers, but each refusal is a line in the server's `ACL LOG`.
pub const OF_A_CONNECT: &[&str] = &["+client|id", "+info"];

/// What the store needs to find the nodes of a cluster, and to follow a slot that moves.
pub const OF_A_CLUSTER: &[&str] = &["+cluster|slots", "+asking"];

/// Makes the user `app` one with these rights alone; its password is `word`.
pub async fn set_user(server: &Server, rights: &[&str]) {
    let user = ["SETUSER", "app", "reset", "on", ">word", "~tollgate:*"];
    let words = [&user[..], rights].concat();
    let _: String = server.command("ACL", &words).await;
}

/// The same, as that user.
pub fn as_the_app(config: Config) -> Config {
    Config {
        username: Some("app".to_owned()),
        password: Some("word".to_owned()),
        ..config
    }
}
