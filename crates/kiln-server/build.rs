//! Packs the published OpenAPI document, so that the program carries a twentieth of it.
#![expect(clippy::disallowed_methods, reason = "a build script reads its environment")]

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let published = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs/openapi.json");
    println!("cargo::rerun-if-changed={}", published.display());
    let packed = File::create(Path::new(&env::var("OUT_DIR")?).join("openapi.json.gz"))?;
    let mut packer = GzEncoder::new(packed, Compression::best());
    packer.write_all(&fs::read(published)?)?;
    packer.finish()?;
    Ok(())
}
