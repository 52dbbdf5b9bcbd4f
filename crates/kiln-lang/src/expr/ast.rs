//! The syntax tree of an expression, ways to walk it, and its canonical text.

use std::fmt;
use std::ops::Range;

use kiln_core::value::Value;

use super::number;

/// An expression and the bytes of the text that it was read from.
///
/// Parentheses leave no node; the span of what they enclose does not include them.
#[derive(Debug, Clone)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Range<usize>,
}

#[derive(Debug, Clone)]
pub enum ExprKind {
    /// `null`, `true`, `1.5` or `'text'`.
    Literal(Value),
    /// A named value such as `github`, as it was written.
    Context(Box<str>),
    /// `object.name`
    Property {
        object: Box<Expr>,
        name: Box<str>,
        name_span: Range<usize>,
    },
    /// `object[index]`
    Index {
        object: Box<Expr>,
        index: Box<Expr>,
    },
    /// `object.*` or `object[*]`
    Filter {
        object: Box<Expr>,
    },
    Call(Call),
    Not(Box<Expr>),
    Compare {
        operator: Comparison,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `a && b && c` is one node, so that long chains stay shallow.
    Logical {
        operator: Logical,
        operands: Vec<Expr>,
    },
}

/// A function call; the name is kept as it was written.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: Box<str>,
    pub name_span: Range<usize>,
    pub arguments: Vec<Expr>,
}

impl Call {
    /// Function names ignore case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    pub(super) fn precedence(self) -> Precedence {
        match self {
            Self::Equal | Self::NotEqual => Precedence::Equality,
            _ => Precedence::Relation,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logical {
    And,
    Or,
}

impl Logical {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}

/// How tightly a construct binds, loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Or,
    And,
    Equality,
    Relation,
    Not,
    /// Literals cannot be dereferenced without parentheses, all other operands can.
    Literal,
    Operand,
}

impl Precedence {
    fn tighter(self) -> Self {
        match self {
            Self::Or => Self::And,
            Self::And => Self::Equality,
            Self::Equality => Self::Relation,
            Self::Relation => Self::Not,
            Self::Not => Self::Literal,
            Self::Literal | Self::Operand => Self::Operand,
        }
    }
}

impl Expr {
    /// The direct parts of this node in the order of the text.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = &Expr> {
        let none: &[Expr] = &[];
        let (first, second, rest) = match &self.kind {
            ExprKind::Literal(_) | ExprKind::Context(_) => (None, None, none),
            ExprKind::Property { object, .. } | ExprKind::Filter { object } => {
                (Some(&**object), None, none)
            }
            ExprKind::Index { object, index } => (Some(&**object), Some(&**index), none),
            ExprKind::Call(call) => (None, None, call.arguments.as_slice()),
            ExprKind::Not(operand) => (Some(&**operand), None, none),
            ExprKind::Compare { left, right, .. } => (Some(&**left), Some(&**right), none),
            ExprKind::Logical { operands, .. } => (None, None, operands.as_slice()),
        };
        first.into_iter().chain(second).chain(rest)
    }

    /// This node and all nodes beneath it, each before its parts.
    pub fn walk(&self) -> Walk<'_> {
        Walk { stack: vec![self] }
    }

    /// All function calls in the tree.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.walk().filter_map(|expr| match &expr.kind {
            ExprKind::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The number of nodes on the longest way down.
    pub fn height(&self) -> usize {
        1 + self.children().map(Expr::height).max().unwrap_or(0)
    }

    fn precedence(&self) -> Precedence {
        match &self.kind {
            ExprKind::Logical { operator: Logical::Or, .. } => Precedence::Or,
            ExprKind::Logical { operator: Logical::And, .. } => Precedence::And,
            ExprKind::Compare { operator, .. } => operator.precedence(),
            ExprKind::Not(_) => Precedence::Not,
            ExprKind::Literal(_) => Precedence::Literal,
            _ => Precedence::Operand,
        }
    }
}

/// An iterator over a tree that keeps its own stack.
#[derive(Debug)]
pub struct Walk<'a> {
    stack: Vec<&'a Expr>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Expr;

    fn next(&mut self) -> Option<&'a Expr> {
        let expr = self.stack.pop()?;
        self.stack.extend(expr.children().rev());
        Some(expr)
    }
}

/// The canonical text: one space around operators, parentheses only where they are needed.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Literal(value) => write_literal(f, value),
            ExprKind::Context(name) => f.write_str(name),
            ExprKind::Property { object, name, .. } => {
                write_within(f, object, Precedence::Operand)?;
                write!(f, ".{name}")
            }
            ExprKind::Index { object, index } => {
                write_within(f, object, Precedence::Operand)?;
                write!(f, "[{index}]")
            }
            ExprKind::Filter { object } => {
                write_within(f, object, Precedence::Operand)?;
                f.write_str(".*")
            }
            ExprKind::Call(call) => {
                write!(f, "{}(", call.name)?;
                write_joined(f, &call.arguments, ", ", Precedence::Or)?;
                f.write_str(")")
            }
            ExprKind::Not(operand) => {
                f.write_str("!")?;
                write_within(f, operand, Precedence::Not)
            }
            ExprKind::Compare { operator, left, right } => {
                let precedence = operator.precedence();
                write_within(f, left, precedence)?;
                write!(f, " {} ", operator.as_str())?;
                write_within(f, right, precedence.tighter())
            }
            ExprKind::Logical { operator, operands } => {
                let separator = [" ", operator.as_str(), " "].concat();
                write_joined(f, operands, &separator, self.precedence().tighter())
            }
        }
    }
}

fn write_within(f: &mut fmt::Formatter<'_>, expr: &Expr, loosest: Precedence) -> fmt::Result {
    if expr.precedence() < loosest { write!(f, "({expr})") } else { write!(f, "{expr}") }
}

fn write_joined(
    f: &mut fmt::Formatter<'_>,
    items: &[Expr],
    separator: &str,
    loosest: Precedence,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write_within(f, item, loosest)?;
    }
    Ok(())
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::Number(value) => f.write_str(&number::exact(*value)),
        Value::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
        // The language has no literal for these; the parser never makes one.
        Value::Array(_) | Value::Object(_) => f.write_str(value.kind()),
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::parse;

    #[track_caller]
    fn check(text: &str, canonical: &str) {
        let expr = parse(text).expect("the text is an expression").expect("it is not empty");
        assert_eq!(expr.to_string(), canonical);
    }

    #[test]
    fn printing_keeps_only_the_parentheses_that_matter() {
        check("((a))", "a");
        check("(a||b)&&c", "(a || b) && c");
        check("(a && b) && c", "(a && b) && c");
        check("a || (b && c)", "a || b && c");
        check("a == (b == c)", "a == (b == c)");
        check("(a == b) == c", "a == b == c");
        check("(a < b) == c", "a < b == c");
        check("a < (b == c)", "a < (b == c)");
        check("!(a && b)", "!(a && b)");
        check("! ! a", "!!a");
        check("(a || b).c[*]['d']", "(a || b).c.*['d']");
        check("('x').y", "('x').y");
        check("format( '{0}' ,1.50,-0, 1e300 )", "format('{0}', 1.5, -0, 1e300)");
        check("'it''s'", "'it''s'");
    }

    #[test]
    fn walking_visits_nodes_in_the_order_of_the_text() {
        let expr = parse("f(a, b.c[d]) && !e").expect("valid").expect("not empty");
        let names: Vec<String> = expr.walk().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["f(a, b.c[d]) && !e", "f(a, b.c[d])", "a", "b.c[d]", "b.c", "b", "d", "!e", "e"]
        );
        assert_eq!(expr.height(), 5);
    }
}
