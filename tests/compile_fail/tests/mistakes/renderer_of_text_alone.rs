//! A renderer that is a text.

use tollgate::response::Http;

fn main() {
    let _ = Http::new().renderer("slow down");
}
