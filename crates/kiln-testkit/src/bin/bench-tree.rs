//! Saves and restores a tree of files with a shelf of its own, for `bench/cache`.
#![expect(clippy::print_stdout, reason = "what was written is what it is for")]

use std::path::PathBuf;

use kiln_blob::tree::{LocalShelf, Place, Root, restore, save};

const USAGE: &str = "usage: bench-tree save SHELF TREE ROOT
       bench-tree restore SHELF ROOT TARGET";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["save", shelf, tree, root] => {
            let place = Place { name: tree.to_owned(), at: PathBuf::from(tree) };
            let saved = save(&[place], &|_| false, &LocalShelf::open(shelf)?)?;
            std::fs::write(root, &saved.root)?;
            println!("{} {}", saved.bytes, saved.new_bytes + saved.root.len() as u64);
        }
        ["restore", shelf, root, target] => {
            let root = Root::read(&std::fs::read(root)?)?;
            let restored = restore(&root, &[PathBuf::from(target)], &LocalShelf::open(shelf)?)?;
            println!("{} {}", restored.files, restored.bytes);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
