//! Bytes: where they lie, and how they get there and back.
//!
//! A [`Backend`] keeps objects by [`Name`]: whole or not at all, never half written. [`Disk`], [`S3`] and
//! [`Memory`] are backends; [`Verified`], [`Compressed`] and [`Remembered`] go around one. Everything is
//! a stream: memory stays the same, however long an object is.
//!
//! Bytes that are known by their SHA-256 are objects, too, each upload under a name of its own (see
//! [`Name::of_blob`]). So whoever removes one copy never removes another that is just being written.

mod backend;
mod buffers;
mod chunks;
mod compressed;
mod content;
mod digest;
mod disk;
mod error;
mod memory;
mod name;
mod pieces;
mod remembered;
mod s3;
mod sign;
pub mod tree;
mod verified;
pub mod zip;

pub use backend::{Backend, Direct, Entry, Found, Parts, Span, Work};
pub use chunks::{Chunk, Chunked, Index, Located, Packed, Recipe, open_recipe, store_chunked};
pub use compressed::Compressed;
pub use content::{Content, Passed, checked, collect, hashed, of_bytes, of_file, of_pieces};
pub use digest::{Digest, Hasher};
pub use disk::Disk;
pub use error::BlobError;
pub use memory::Memory;
pub use name::Name;
pub use remembered::Remembered;
pub use s3::{S3, S3Options};
pub use sign::{Claims, UrlKey};
pub use verified::Verified;
