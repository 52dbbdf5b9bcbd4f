//! Tokens to a tree, by recursive descent.
//!
//! Two limits keep the tree and the parser shallow: nodes above each other, and nested
//! parentheses, arguments or indices. Chains such as `!!!a`, `a.b.c` or `a == b == c` are read in
//! loops, so they cannot exhaust the stack before the limit refuses them.

use std::mem;
use std::ops::Range;

use kiln_core::value::Value;

use super::ast::{Call, Comparison, Expr, ExprKind, Logical, Precedence};
use super::error::ExprError;
use super::lexer::{Lexeme, Lexer, NO_ARITHMETIC, Token, string_value};
use super::names::Names;

/// Nodes above each other in a tree.
pub const MAX_DEPTH: usize = 50;

/// Characters in an expression, counted in UTF-16 as GitHub does.
pub const MAX_LENGTH: usize = 21_000;

type Parsed<T> = Result<T, ExprError>;

/// Reads the expression in a range of a text. Spans count from the start of the text.
pub(super) fn parse(
    text: &str,
    range: Range<usize>,
    names: Option<&Names>,
) -> Parsed<Option<Expr>> {
    check_length(&text[range.clone()], range.clone())?;
    let mut lexer = Lexer::new(text, range);
    let next = lexer.next()?;
    if next.token == Token::End {
        return Ok(None);
    }
    let mut parser = Parser { text, lexer, next, names, nesting: 0 };
    let node = parser.expression()?;
    match parser.next.token {
        Token::End => Ok(Some(node.expr)),
        _ => Err(parser.after_operand(&node)),
    }
}

pub(super) fn check_length(text: &str, span: Range<usize>) -> Parsed<()> {
    // A character never has more UTF-16 units than bytes, so most texts need no counting.
    if text.len() <= MAX_LENGTH || text.encode_utf16().count() <= MAX_LENGTH {
        return Ok(());
    }
    let message = format!("the expression is longer than {MAX_LENGTH} characters");
    Err(ExprError::parsing(span, message))
}

pub(super) fn too_deep(span: Range<usize>) -> ExprError {
    ExprError::parsing(span, format!("the expression is nested deeper than {MAX_DEPTH} levels"))
}

/// A subtree that knows its height and its place including parentheses around it.
struct Node {
    expr: Expr,
    height: usize,
    place: Range<usize>,
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Lexeme,
    names: Option<&'a Names>,
    nesting: usize,
}

impl Parser<'_> {
    fn expression(&mut self) -> Parsed<Node> {
        if self.nesting == MAX_DEPTH {
            return Err(too_deep(self.next.span.clone()));
        }
        self.nesting += 1;
        let node = self.logical(Logical::Or)?;
        self.nesting -= 1;
        Ok(node)
    }

    fn logical(&mut self, operator: Logical) -> Parsed<Node> {
        let first = self.logical_operand(operator)?;
        if self.next.token != Token::Logical(operator) {
            return Ok(first);
        }
        let Node { expr, mut height, mut place } = first;
        let mut operands = vec![expr];
        while self.take(Token::Logical(operator))? {
            let operand = self.logical_operand(operator)?;
            height = height.max(operand.height);
            place.end = operand.place.end;
            operands.push(operand.expr);
        }
        node(ExprKind::Logical { operator, operands }, place, height)
    }

    fn logical_operand(&mut self, operator: Logical) -> Parsed<Node> {
        match operator {
            Logical::Or => self.logical(Logical::And),
            Logical::And => self.comparison(Precedence::Equality),
        }
    }

    fn comparison(&mut self, precedence: Precedence) -> Parsed<Node> {
        let mut left = self.compared(precedence)?;
        while let Some(operator) = self.take_comparison(precedence)? {
            let right = self.compared(precedence)?;
            let place = left.place.start..right.place.end;
            let height = left.height.max(right.height);
            let (left_box, right_box) = (Box::new(left.expr), Box::new(right.expr));
            let kind = ExprKind::Compare { operator, left: left_box, right: right_box };
            left = node(kind, place, height)?;
        }
        Ok(left)
    }

    fn compared(&mut self, precedence: Precedence) -> Parsed<Node> {
        match precedence {
            Precedence::Equality => self.comparison(Precedence::Relation),
            _ => self.unary(),
        }
    }

    fn take_comparison(&mut self, precedence: Precedence) -> Parsed<Option<Comparison>> {
        match self.next.token {
            Token::Compare(operator) if operator.precedence() == precedence => {
                self.advance()?;
                Ok(Some(operator))
            }
            _ => Ok(None),
        }
    }

    fn unary(&mut self) -> Parsed<Node> {
        let mut starts = Vec::new();
        while self.next.token == Token::Not {
            starts.push(self.advance()?.span.start);
            if starts.len() == MAX_DEPTH {
                return Err(too_deep(self.next.span.clone()));
            }
        }
        let mut operand = self.postfix()?;
        while let Some(start) = starts.pop() {
            let place = start..operand.place.end;
            operand = node(ExprKind::Not(Box::new(operand.expr)), place, operand.height)?;
        }
        Ok(operand)
    }

    fn postfix(&mut self) -> Parsed<Node> {
        let grouped = self.next.token == Token::OpenParen;
        let mut object = self.primary()?;
        if matches!(object.expr.kind, ExprKind::Literal(_)) && !grouped {
            return match self.next.token {
                Token::Dot | Token::OpenBracket => Err(self.unexpected("a literal has no parts")),
                _ => Ok(object),
            };
        }
        loop {
            object = match self.next.token {
                Token::Dot => self.property(object)?,
                Token::OpenBracket => self.index(object)?,
                _ => return Ok(object),
            };
        }
    }

    fn property(&mut self, object: Node) -> Parsed<Node> {
        self.advance()?;
        let part = match self.next.token {
            Token::Name | Token::Function | Token::Star => self.advance()?,
            Token::Number(_) => {
                let digits = &self.text[self.next.span.clone()];
                let help = format!("use an index: `[{digits}]`");
                return Err(self.unexpected("a property name cannot be a number").help(help));
            }
            _ => return Err(self.unexpected("a property name must follow the dot")),
        };
        let place = object.place.start..part.span.end;
        let inner = Box::new(object.expr);
        let kind = if part.token == Token::Star {
            ExprKind::Filter { object: inner }
        } else {
            let name = self.text[part.span.clone()].into();
            ExprKind::Property { object: inner, name, name_span: part.span }
        };
        node(kind, place, object.height)
    }

    fn index(&mut self, object: Node) -> Parsed<Node> {
        let open = self.advance()?.span;
        let index = if self.take(Token::Star)? { None } else { Some(self.expression()?) };
        let close = self.close(Token::CloseBracket, &open, "bracket")?;
        let place = object.place.start..close.end;
        let inner = Box::new(object.expr);
        match index {
            None => node(ExprKind::Filter { object: inner }, place, object.height),
            Some(index) => {
                let height = object.height.max(index.height);
                let kind = ExprKind::Index { object: inner, index: Box::new(index.expr) };
                node(kind, place, height)
            }
        }
    }

    fn primary(&mut self) -> Parsed<Node> {
        let span = self.next.span.clone();
        let kind = match self.next.token {
            Token::OpenParen => return self.group(),
            Token::Function => return self.call(),
            Token::Number(number) => ExprKind::Literal(Value::Number(number)),
            Token::String => ExprKind::Literal(string_value(&self.text[span.clone()]).into()),
            Token::Name => self.name()?,
            Token::End => return Err(self.unexpected("a value is missing at the end")),
            _ => return Err(self.unexpected("a value was expected")),
        };
        self.advance()?;
        node(kind, span, 0)
    }

    /// A keyword or a context. The name is checked before anything behind it is read.
    fn name(&self) -> Parsed<ExprKind> {
        let name = &self.text[self.next.span.clone()];
        Ok(ExprKind::Literal(match name {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "NaN" => Value::Number(f64::NAN),
            "Infinity" => Value::Number(f64::INFINITY),
            _ => {
                if let Some(names) = self.names {
                    names.check_context(name, self.next.span.clone())?;
                }
                return Ok(ExprKind::Context(name.into()));
            }
        }))
    }

    fn group(&mut self) -> Parsed<Node> {
        let open = self.advance()?.span;
        let mut inner = self.expression()?;
        let close = self.close(Token::CloseParen, &open, "parenthesis")?;
        inner.place = open.start..close.end;
        Ok(inner)
    }

    fn call(&mut self) -> Parsed<Node> {
        let name_span = self.next.span.clone();
        let name = &self.text[name_span.clone()];
        if let Some(names) = self.names {
            names.check_function(name, name_span.clone())?;
        }
        self.advance()?;
        let open = self.advance()?.span;
        let mut arguments = Vec::new();
        let mut height = 0;
        if self.next.token != Token::CloseParen {
            loop {
                let argument = self.expression()?;
                height = height.max(argument.height);
                arguments.push(argument.expr);
                if !self.take(Token::Comma)? {
                    break;
                }
            }
        }
        let close = self.close(Token::CloseParen, &open, "parenthesis")?;
        if let Some(names) = self.names {
            names.check_arguments(name, arguments.len(), name_span.clone())?;
        }
        let place = name_span.start..close.end;
        node(ExprKind::Call(Call { name: name.into(), name_span, arguments }), place, height)
    }

    fn advance(&mut self) -> Parsed<Lexeme> {
        let next = self.lexer.next()?;
        Ok(mem::replace(&mut self.next, next))
    }

    fn take(&mut self, token: Token) -> Parsed<bool> {
        let matches = self.next.token == token;
        if matches {
            self.advance()?;
        }
        Ok(matches)
    }

    fn close(&mut self, token: Token, open: &Range<usize>, what: &str) -> Parsed<Range<usize>> {
        if self.next.token == token {
            return Ok(self.advance()?.span);
        }
        if self.next.token == Token::End {
            let message = format!("this {what} is never closed");
            return Err(ExprError::parsing(open.clone(), message));
        }
        let close = if token == Token::CloseParen { "`)`" } else { "`]`" };
        Err(self.unexpected(&format!("an operator or {close} was expected")))
    }

    /// The error for something behind a complete expression.
    fn after_operand(&self, before: &Node) -> ExprError {
        match self.next.token {
            Token::CloseParen | Token::CloseBracket => {
                self.unexpected("nothing was opened that this could close")
            }
            _ => {
                let error = self.unexpected("an operator was expected");
                let negates =
                    matches!(&before.expr.kind, ExprKind::Context(name) if **name == *"not");
                let quoted = matches!(&before.expr.kind, ExprKind::Literal(Value::String(_)))
                    && before.place.end == self.next.span.start;
                if negates {
                    error.help("write `!` for a logical not")
                } else if quoted {
                    error.help("a quote inside a string is written twice: `''`")
                } else {
                    error
                }
            }
        }
    }

    fn unexpected(&self, why: &str) -> ExprError {
        let span = self.next.span.clone();
        if self.next.token == Token::End {
            return ExprError::parsing(span, format!("unexpected end of the expression: {why}"));
        }
        let raw = &self.text[span.clone()];
        let error = ExprError::parsing(span, format!("unexpected `{raw}`: {why}"));
        match (self.next.token, raw) {
            (Token::Name | Token::Function, "and" | "AND") => error.help("write `&&`"),
            (Token::Name | Token::Function, "or" | "OR") => error.help("write `||`"),
            (Token::Star, _) => error.help(NO_ARITHMETIC),
            (Token::Number(_), _) if raw.starts_with(['+', '-']) => error.help(NO_ARITHMETIC),
            (Token::OpenParen, _) => error.help("only functions can be called, not properties"),
            _ => error,
        }
    }
}

/// A node above others of the given height, unless that is too deep.
fn node(kind: ExprKind, place: Range<usize>, below: usize) -> Parsed<Node> {
    if below == MAX_DEPTH {
        return Err(too_deep(place));
    }
    Ok(Node { expr: Expr { kind, span: place.clone() }, height: below + 1, place })
}

#[cfg(test)]
mod tests;
