//! The expression language of GitHub Actions: `${{ github.ref == 'refs/heads/main' }}`.
//!
//! Text becomes a tree ([`parse`]), the tree is checked against what a place allows
//! ([`names::check_names`]) and evaluated against an environment ([`eval::evaluate`]).
//! [`template`] finds expressions inside strings, [`condition`] completes an `if:`, and
//! [`analysis`] answers the questions of the lints.
//!
//! Everything here is bounded: the text, the depth of the tree, the memory and the work of an
//! evaluation. A tree never gets deeper than [`MAX_DEPTH`], so recursion over it is safe.

pub mod analysis;
pub mod ast;
mod budget;
pub mod coerce;
pub mod condition;
mod error;
pub mod eval;
mod functions;
pub mod json;
mod lexer;
pub mod names;
pub mod number;
mod parser;
pub mod template;

pub use ast::{Expr, ExprKind};
pub use error::{ErrorKind, ExprError};
pub use eval::{Env, StatusFunction, evaluate};
pub use names::{Names, check_names};
pub use parser::{MAX_DEPTH, MAX_LENGTH};

/// Reads an expression without asking which names exist; an empty text is no expression.
pub fn parse(text: &str) -> Result<Option<Expr>, ExprError> {
    parser::parse(text, 0..text.len(), None)
}

/// Reads an expression and refuses names that the place does not offer.
///
/// The first error in the order of the text is reported, whatever its kind.
pub fn parse_checked(text: &str, names: &Names) -> Result<Option<Expr>, ExprError> {
    parser::parse(text, 0..text.len(), Some(names))
}
