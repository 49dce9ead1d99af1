//! A renderer that is a text.

use tollgate::response::Http;

fn main() {
    let _ = Http::new().render("slow down");
}
