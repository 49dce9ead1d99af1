//! A renderer is a closure or a type that implements `Render`; a text alone has no status.

use tollgate::response::Http;

fn main() {
    let _ = Http::new().renderer("too many requests");
}
