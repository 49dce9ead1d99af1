//! Only tests: `tests/main.rs`. They are a package of their own, since they build the client of
//! Redis with TLS, and so all that depends on it once more.
