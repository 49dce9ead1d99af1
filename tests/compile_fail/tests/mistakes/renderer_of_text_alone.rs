//! A text, where a renderer of refusals belongs.

use tollgate::response::Http;

fn main() {
    let _ = Http::new().renderer("slow down");
}
