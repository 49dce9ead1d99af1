//! Writes the pictures of the docs: `cargo run -p playground --bin pictures`.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/docs/pictures");
    fs::create_dir_all(&folder)?;
    for picture in playground::picture::all() {
        fs::write(folder.join(format!("{}.svg", picture.name)), &picture.svg)?;
        fs::write(
            folder.join(format!("{}.md", picture.name)),
            picture.definition(),
        )?;
        println!("{}: {} bytes", picture.name, picture.svg.len());
    }
    Ok(())
}
