//! Binds expressions: names become registers, operators and literals become typed IR.

use crate::actual::is_polymorphic;
use crate::between::{between_in, stronger};
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::interrupt;
use crate::object_values::written_type;
use crate::operators::boolean;
use crate::plan::bare;
use crate::symbols::{comparison_operator, symbol_of};
use catalog::{Datum, Numeric, ScalarType, Type};
use procedure::{Cast, CastContext, Expression, Function, Register, SqlError};
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{SyntaxKind, SyntaxNode};

impl Binder<'_> {
    /// Binds an expression and converts it to a type.
    pub(crate) fn bind_as(
        &mut self,
        expression: &ast::Expr,
        ty: impl Into<Type>,
        context: CastContext,
    ) -> Result<Expression, StatementError> {
        let bound = self.bind(expression)?;
        self.coerce(bound, ty.into(), context, expression.syntax())
    }

    /// Binds a condition of a PL/pgSQL statement. As in PostgreSQL, a value of another type is converted as
    /// in an assignment to a variable.
    pub(crate) fn bind_test(&mut self, expression: &ast::Expr) -> Result<Expression, StatementError> {
        self.bind_as(expression, ScalarType::Boolean, CastContext::Variable)
    }

    /// Binds a condition.
    pub(crate) fn bind_condition(&mut self, expression: &ast::Expr) -> Result<Expression, StatementError> {
        let bound = self.bind(expression)?;
        self.bind_condition_of(bound, expression.syntax())
    }

    pub(crate) fn bind_condition_of(
        &self,
        bound: Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        match bound {
            Typed::Known(bound, Type::Scalar(ScalarType::Boolean)) => Ok(bound),
            Typed::Known(_, ty) => {
                let message = format!("argument of a condition must be type boolean, not type {ty}");
                Err(self.error(node, SqlError::new("42804", message)))
            }
            literal => self.coerce(literal, ScalarType::Boolean.into(), CastContext::Implicit, node),
        }
    }

    /// Binds an expression.
    pub(crate) fn bind(&mut self, expression: &ast::Expr) -> Result<Typed, StatementError> {
        let node = expression.syntax();
        interrupt::check().map_err(|error| self.error(node, error))?;
        if let Some(key) = self.group_key(node) {
            return Ok(key);
        }
        match expression {
            ast::Expr::Literal(literal) => self.bind_literal(literal),
            ast::Expr::NameRef(name) => self.bind_name(name),
            ast::Expr::FieldExpr(field) => self.bind_field(field),
            ast::Expr::ParenExpr(paren) => match (paren.expr(), Self::query_of(paren)) {
                (Some(inner), _) => self.bind(&inner),
                (None, Some(query)) => self.bind_scalar_query(&query, node),
                (None, None) => Err(self.unsupported(node, "this kind of expression")),
            },
            ast::Expr::BetweenExpr(between) => self.bind_between(expression, between),
            ast::Expr::BinExpr(_) | ast::Expr::PrefixExpr(_) => match (between_in(expression), expression) {
                (Some(between), _) => self.bind_between(expression, &between),
                (None, ast::Expr::BinExpr(binary)) => self.bind_binary(binary),
                (None, ast::Expr::PrefixExpr(prefix)) => self.bind_prefix(prefix),
                (None, _) => Err(self.unsupported(node, "this kind of expression")),
            },
            ast::Expr::PostfixExpr(postfix) => {
                let operand = self.part(postfix.syntax().children().find_map(ast::Expr::cast), node)?;
                match postfix.op() {
                    Some(ast::PostfixOp::IsNull(_)) => self.is_null(&operand, false),
                    Some(ast::PostfixOp::NotNull(_)) => self.is_null(&operand, true),
                    _ => Err(self.unsupported(node, "this operator")),
                }
            }
            ast::Expr::CaseExpr(case) => self.bind_case(case),
            ast::Expr::CastExpr(cast) => self.bind_cast(cast),
            ast::Expr::CallExpr(call) => self.bind_call(call),
            ast::Expr::IndexExpr(index) => self.bind_subscript(index),
            ast::Expr::ArrayExpr(array) => {
                if let Some(query) = array.select_variant() {
                    return self.bind_array_query(&query, node);
                }
                let items = array.exprs().map(|item| self.bind(&item)).collect::<Result<Vec<_>, _>>()?;
                if items.is_empty() {
                    let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
                    let error = SqlError::new("42P18", "cannot determine type of empty array");
                    return Err(self.error(node, error.with_hint(hint)));
                }
                let (items, ty) = self.unify("ARRAY", items, node)?;
                let Type::Scalar(element) = ty else {
                    return Err(self.unsupported(node, "an array of arrays"));
                };
                Ok(Typed::Known(Expression::Array(items), Type::Array(element)))
            }
            ast::Expr::Collate(collate) => {
                let text = collate.syntax().text().to_string();
                let name = text.rsplit_once(char::is_whitespace).map_or("", |(_, name)| name);
                let name = name.rsplit('.').next().unwrap_or_default().trim_matches('"');
                if !matches!(name, "default" | "C" | "POSIX") {
                    return Err(self.unsupported(node, "a collation other than \"C\""));
                }
                self.bind_collated(collate)
            }
            ast::Expr::SliceExpr(slice) => self.bind_slice(slice),
            ast::Expr::TupleExpr(_) => self.bind_row_value(expression),
        }
    }

    /// Binds the operand of COLLATE.
    ///
    /// # Errors
    /// `42804`: it is no text.
    fn bind_collated(&mut self, collate: &ast::Collate) -> Result<Typed, StatementError> {
        let node = collate.syntax();
        let inner = node.children().find_map(ast::Expr::cast);
        let bound = self.bind(&self.part(inner, node)?)?;
        match bound.known_type() {
            Some(ty) if !ty.element().is_text() => {
                let message = format!("collations are not supported by type {}", bound.shown_type());
                let mut tokens = node.children_with_tokens();
                let word = tokens.find(|token| token.kind() == SyntaxKind::COLLATE_KW);
                let start = word.map_or(node.text_range(), |word| word.text_range()).start();
                let offset = self.offset(node) + usize::from(start - node.text_range().start());
                Err(self.source.error_at(offset, SqlError::new("42804", message)))
            }
            _ => Ok(bound),
        }
    }

    /// Binds an array that has subscripts. Returns it with the type of its elements.
    fn bind_array(&mut self, base: &ast::Expr) -> Result<(Expression, ScalarType), StatementError> {
        match self.bind(base)? {
            Typed::Known(array, Type::Array(element)) => Ok((array, element)),
            other => {
                let ty = other.shown_type();
                let message = format!("cannot subscript type {ty} because it does not support subscripting");
                Err(self.error(base.syntax(), SqlError::new("42804", message)))
            }
        }
    }

    /// Binds `array[from:to]`; each end may be left out.
    fn bind_slice(&mut self, slice: &ast::SliceExpr) -> Result<Typed, StatementError> {
        let node = slice.syntax();
        let (mut parts, mut has_colon) = (Vec::new(), false);
        let (mut from, mut to) = (None, None);
        for part in node.children_with_tokens() {
            has_colon |= part.kind() == SyntaxKind::COLON;
            let Some(expression) = part.into_node().and_then(ast::Expr::cast) else { continue };
            match parts.is_empty() {
                true => parts.push(expression),
                false if has_colon => to = Some(expression),
                false => from = Some(expression),
            }
        }
        let base = self.part(parts.pop(), node)?;
        if matches!(base, ast::Expr::SliceExpr(_) | ast::Expr::IndexExpr(_)) {
            return Err(self.unsupported(node, "an array of arrays"));
        }
        if self.is_trigger_arguments(&base) {
            return Err(self.unsupported(node, "a slice of TG_ARGV"));
        }
        let (array, element) = self.bind_array(&base)?;
        let mut arguments = vec![array];
        arguments.push(match from {
            Some(from) => self.bind_as(&from, ScalarType::Integer, CastContext::Assignment)?,
            None => Expression::Constant(Datum::Int(1)),
        });
        if let Some(to) = to {
            arguments.push(self.bind_as(&to, ScalarType::Integer, CastContext::Assignment)?);
        }
        Ok(Typed::Known(Expression::Function { function: Function::Slice, arguments }, Type::Array(element)))
    }

    pub(crate) fn bind_literal(&self, literal: &ast::Literal) -> Result<Typed, StatementError> {
        let node = literal.syntax();
        Ok(match self.part(literal.kind(), node)? {
            ast::LitKind::Null(_) => Typed::Null,
            ast::LitKind::True(_) => boolean(Expression::boolean(true)),
            ast::LitKind::False(_) => boolean(Expression::boolean(false)),
            ast::LitKind::IntNumber(token) | ast::LitKind::NumericNumber(token) => {
                return self.number(&token.text().replace('_', ""), node);
            }
            ast::LitKind::PositionalParam(token) => {
                let name = token.text().to_string();
                let position = name[1..].parse::<usize>().unwrap_or(0).wrapping_sub(1);
                let parameter = self.parameters.borrow().get(position).copied();
                match (self.variable(&name), parameter) {
                    (Some(variable), _) => Typed::Known(Expression::Register(variable.register), variable.ty),
                    (None, Some(Some(ty))) => self.parameter_as(position, ty),
                    (None, Some(None)) => Typed::Parameter(position),
                    (None, None) => {
                        let error = SqlError::new("42P02", format!("there is no parameter {name}"));
                        return Err(self.error(node, error));
                    }
                }
            }
            ast::LitKind::BitString(_) | ast::LitKind::ByteString(_) => {
                return Err(self.unsupported(node, "a bit string"));
            }
            _ => match self.string_of(literal)? {
                Some(text) => Typed::Literal(text),
                None => return Err(self.unsupported(node, "this kind of literal")),
            },
        })
    }

    /// Returns the text of a string literal. Backslashes are decoded here, with PostgreSQL's errors.
    pub(crate) fn string_of(&self, literal: &ast::Literal) -> Result<Option<String>, StatementError> {
        let tokens = || literal.syntax().children_with_tokens().filter_map(|part| part.into_token());
        if !tokens().any(|token| token.kind() == SyntaxKind::ESC_STRING) {
            return Ok(literal.string_value());
        }
        let is_part = |kind| matches!(kind, SyntaxKind::ESC_STRING | SyntaxKind::STRING);
        let inner = |text: &str| {
            let from = text.find('\'').map_or(0, |at| at + 1);
            text.get(from..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
        };
        let body: String =
            tokens().filter(|token| is_part(token.kind())).map(|token| inner(token.text())).collect();
        let decoded = crate::escapes::decode(&body);
        decoded.map(Some).map_err(|error| self.error(literal.syntax(), error))
    }

    fn number(&self, text: &str, node: &SyntaxNode) -> Result<Typed, StatementError> {
        if let Ok(int) = text.parse::<i64>() {
            let ty = if i32::try_from(int).is_ok() { ScalarType::Integer } else { ScalarType::BigInt };
            return Ok(Typed::Known(Expression::Constant(Datum::Int(int)), ty.into()));
        }
        let number: Numeric = text.parse().map_err(|error: catalog::DecimalError| {
            self.error(node, SqlError::new("22003", error.to_string()))
        })?;
        let Some(decimal) = number.short() else {
            return Ok(Typed::Known(Expression::Numeric(number), ScalarType::AnyNumeric.into()));
        };
        let digits = decimal.mantissa.unsigned_abs().checked_ilog10().unwrap_or(0) as u8 + 1;
        let precision = digits.max(decimal.scale);
        let ty = ScalarType::Numeric { precision, scale: decimal.scale };
        Ok(match i64::try_from(decimal.mantissa) {
            Ok(mantissa) if ty.is_machine_numeric() => {
                Typed::Known(Expression::Constant(Datum::Int(mantissa)), ty.into())
            }
            _ => Typed::Known(Expression::Numeric(number), ScalarType::AnyNumeric.into()),
        })
    }

    pub(crate) fn now(&mut self, ty: ScalarType) -> Typed {
        self.uses_timestamp = true;
        let expression = Expression::Function { function: Function::Now, arguments: Vec::new() };
        Typed::Known(expression, ty.into())
    }

    fn bind_prefix(&mut self, prefix: &ast::PrefixExpr) -> Result<Typed, StatementError> {
        let node = prefix.syntax();
        let operand = self.part(prefix.syntax().children().find_map(ast::Expr::cast), node)?;
        let is_minus = prefix.syntax().first_token().is_some_and(|token| token.text() == "-");
        if let ast::Expr::Literal(literal) = bare(operand.clone())
            && let Some(ast::LitKind::IntNumber(token) | ast::LitKind::NumericNumber(token)) = literal.kind()
            && is_minus
        {
            return self.number(&format!("-{}", token.text().replace('_', "")), node);
        }
        match prefix.op() {
            Some(ast::PrefixOp::Not(_)) => {
                let condition = self.bind_condition(&operand)?;
                Ok(boolean(Expression::Not(Box::new(condition))))
            }
            Some(ast::PrefixOp::Plus(_)) => self.bind(&operand),
            Some(ast::PrefixOp::Minus(_)) => {
                let operand = self.bind(&operand)?;
                self.operator("-", vec![operand], node)
            }
            Some(ast::PrefixOp::CustomOp(custom)) => {
                let operand = self.bind(&operand)?;
                self.operator(&custom.syntax().text().to_string(), vec![operand], node)
            }
            _ => Err(self.unsupported(node, "this operator")),
        }
    }

    fn bind_binary(&mut self, binary: &ast::BinExpr) -> Result<Typed, StatementError> {
        use ast::BinOp;
        let node = binary.syntax();
        let (left, right) = (self.part(binary.lhs(), node)?, self.part(binary.rhs(), node)?);
        let operator = self.part(binary.op(), node)?;
        if let Some(quantified) = self.bind_quantifier(&operator, &left, &right, node)? {
            return Ok(quantified);
        }
        if let Some(operator) = comparison_operator(&operator) {
            if let Some(rows) = self.bind_row_comparison(operator, &left, &right, node)? {
                return Ok(rows);
            }
            if let Some(rows) = self.bind_whole_rows(operator, &left, &right, node)? {
                return Ok(rows);
            }
            let [left, right] = self.bind_compared(&left, &right)?;
            return self.comparison(operator, left, right, node);
        }
        if let BinOp::CustomOp(_) = &operator {
            return self.bind_operators(left, operator, right, node);
        }
        if let Some(symbol) = symbol_of(&operator) {
            let operands = vec![self.bind(&left)?, self.bind_pattern(&right)?];
            return self.operator(&symbol, operands, node);
        }
        if let BinOp::Overlaps(_) = &operator {
            return self.bind_overlaps(&left, &right, node);
        }
        match &operator {
            BinOp::And(_) => self.bind_chain(binary, true),
            BinOp::Or(_) => self.bind_chain(binary, false),
            BinOp::Is(_) | BinOp::IsNot(_) => {
                let negated = matches!(operator, BinOp::IsNot(_));
                match &right {
                    ast::Expr::Literal(literal) => match literal.kind() {
                        Some(ast::LitKind::Null(_)) => self.is_null(&left, negated),
                        Some(ast::LitKind::True(_) | ast::LitKind::False(_)) => {
                            let (left, right) = (self.bind(&left)?, self.bind(&right)?);
                            self.distinct(left, right, !negated, node)
                        }
                        _ => Err(self.unsupported(node, "this kind of IS")),
                    },
                    _ => Err(self.unsupported(node, "this kind of IS")),
                }
            }
            BinOp::IsDistinctFrom(_) | BinOp::IsNotDistinctFrom(_) => {
                let equal = matches!(operator, BinOp::IsNotDistinctFrom(_));
                if let (Some(left), Some(right)) = (self.row_fields(&left)?, self.row_fields(&right)?) {
                    return self.distinct_rows(left, right, equal, node);
                }
                let (left, right) = (self.bind(&left)?, self.bind(&right)?);
                self.distinct(left, right, equal, node)
            }
            BinOp::In(_) => self.bind_in(&left, &right, false, node),
            BinOp::NotIn(_) => self.bind_in(&left, &right, true, node),
            BinOp::SimilarTo(_) => self.bind_similar(&left, &right, "~", node),
            BinOp::NotSimilarTo(_) => self.bind_similar(&left, &right, "!~", node),
            BinOp::AtTimeZone(_) => self.in_zone(&left, &right, node),
            _ => Err(self.unsupported(node, "this operator")),
        }
    }

    /// Binds a chain of operators that have no precedence of their own. The grammar takes it from the right,
    /// PostgreSQL from the left.
    fn bind_operators(
        &mut self,
        left: ast::Expr,
        mut operator: ast::BinOp,
        mut right: ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let mut value = self.bind(&left)?;
        loop {
            let symbol = symbol_of(&operator).unwrap_or_default();
            let next = match &right {
                ast::Expr::BinExpr(chain) => match chain.op() {
                    Some(next @ ast::BinOp::CustomOp(_)) => {
                        Some((self.part(chain.lhs(), node)?, next, self.part(chain.rhs(), node)?))
                    }
                    _ => None,
                },
                _ => None,
            };
            let Some((operand, next, behind)) = next else {
                let operand = self.bind(&right)?;
                return self.operator(&symbol, vec![value, operand], node);
            };
            let operand = self.bind(&operand)?;
            value = self.operator(&symbol, vec![value, operand], node)?;
            (operator, right) = (next, behind);
        }
    }

    /// Binds a right operand; of LIKE, it may be `pattern ESCAPE character`.
    fn bind_pattern(&mut self, right: &ast::Expr) -> Result<Typed, StatementError> {
        match escape_in(right) {
            Some(escape) => {
                let arguments = self.escaped(right, &escape)?;
                self.call_built_in("like_escape", arguments, right.syntax())
            }
            None => self.bind(right),
        }
    }

    /// Binds `pattern ESCAPE character`: the pattern, and the character. The grammar reads it as if ESCAPE
    /// bound stronger than the operators of the pattern.
    fn escaped(&mut self, right: &ast::Expr, escape: &ast::BinExpr) -> Result<Vec<Typed>, StatementError> {
        let character = self.part(escape.rhs(), escape.syntax())?;
        Ok(vec![self.before_escape(right)?, self.bind(&character)?])
    }

    fn before_escape(&mut self, pattern: &ast::Expr) -> Result<Typed, StatementError> {
        let node = pattern.syntax();
        if let ast::Expr::BinExpr(binary) = pattern
            && matches!(binary.op(), Some(ast::BinOp::Escape(_)))
        {
            let inner = self.part(binary.lhs(), node)?;
            return self.bind(&inner);
        }
        let (symbol, mut operands) = self.part(stronger(pattern), node)?;
        let last = self.part(operands.pop(), node)?;
        let mut bound = operands.iter().map(|operand| self.bind(operand)).collect::<Result<Vec<_>, _>>()?;
        bound.push(self.before_escape(&last)?);
        self.operator(&symbol, bound, node)
    }

    /// Binds SIMILAR TO.
    fn bind_similar(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        symbol: &str,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let text = self.bind(left)?;
        let pattern = match escape_in(right) {
            Some(escape) => self.escaped(right, &escape)?,
            None => vec![self.bind(right)?],
        };
        let pattern = self.call_built_in("similar_to_escape", pattern, node)?;
        self.operator(symbol, vec![text, pattern], node)
    }

    /// Returns the error for a cast to a type that has no values.
    fn no_cast_to(&mut self, ty: &str, cast: &ast::CastExpr) -> Result<StatementError, StatementError> {
        let operand = cast.expr().map(|operand| self.bind(&operand)).transpose()?;
        let from = operand.and_then(|operand| operand.known_type());
        let from = from.map_or("unknown".to_owned(), |from| from.to_string());
        let error = SqlError::new("42846", format!("cannot cast type {from} to {ty}"));
        Ok(self.error(cast.syntax(), error))
    }

    fn bind_cast(&mut self, cast: &ast::CastExpr) -> Result<Typed, StatementError> {
        let bound = self.bind_plain_cast(cast)?;
        let domain = cast.ty().and_then(|ty| Some(self.domain_named_by(&ty)?.name.clone()));
        match (bound, domain) {
            (Typed::Known(value, ty), Some(domain)) => {
                Ok(Typed::Known(self.as_domain(&domain, value, cast.syntax())?, ty))
            }
            (bound, _) => Ok(bound),
        }
    }

    /// Binds a cast to a type; of a domain, to the type under it.
    fn bind_plain_cast(&mut self, cast: &ast::CastExpr) -> Result<Typed, StatementError> {
        let node = cast.syntax();
        let Some(target) = cast.ty() else { return Err(self.unsupported(node, "this cast")) };
        let object = written_type(&target);
        let object = object.as_str();
        if object.starts_with("reg") {
            let operand = match (cast.expr(), cast.literal()) {
                (Some(operand), _) => self.bind(&operand)?,
                (None, Some(literal)) => self.bind_literal(&literal)?,
                _ => return Err(self.unsupported(node, "this cast")),
            };
            // A sequence name stays a literal, because functions of sequences require one.
            let is_sequence = |name: &String| {
                let plain = name.strip_prefix("public.").unwrap_or(name).replace('"', "");
                self.schema.catalog().table(&plain).is_ok_and(|table| table.sequence.is_some())
            };
            if matches!(&operand, Typed::Literal(name) if is_sequence(name)) {
                return Ok(operand);
            }
            if let Some(bound) = self.bind_object_cast(object, operand, node)? {
                return Ok(bound);
            }
        }
        if is_polymorphic(object) {
            return Err(self.no_cast_to(object, cast)?);
        }
        let (ty, _) = self.bind_declared(&target)?;
        if let Some(fields) = cast.interval_qualifier() {
            let text = self.interval_of_field(cast.literal(), &fields)?;
            return Ok(Typed::Known(self.coerce(text, ty, CastContext::Explicit, node)?, ty));
        }
        let operand = match (cast.expr(), cast.literal()) {
            // As in PostgreSQL, each element is converted to the type.
            (Some(ast::Expr::ArrayExpr(array)), _)
                if array.select_variant().is_none()
                    && let Type::Array(element) = ty =>
            {
                let items = array.exprs().map(|item| self.cast_element(&item, element));
                return Ok(Typed::Known(Expression::Array(items.collect::<Result<_, _>>()?), ty));
            }
            (Some(operand), _)
                if ty == ScalarType::Oid.into() || ty.scalar().is_some_and(ScalarType::is_integer) =>
            {
                match self.bind_object_number(&operand)? {
                    Some(number) => number,
                    None => self.bind(&operand)?,
                }
            }
            (Some(operand), _) if ty == ScalarType::Text.into() => self.bind_shown(&operand)?,
            (Some(operand), _) => self.bind(&operand)?,
            (None, Some(literal)) => self.bind_literal(&literal)?,
            _ => return Err(self.unsupported(node, "this cast")),
        };
        let value = self.coerce(operand, ty, CastContext::Explicit, node)?;
        self.origins.note_cast(&value, ty);
        // A cast column of the catalogs, or of a domain, is described by the type of the cast, as is a
        // computed value.
        let is_described = self.domain_of(&value).is_some()
            || ty.element().is_numeric() && self.origins.is_computed(&value, ty)
            || Self::register_of(&value).is_some_and(|register| self.origins.has_catalog_type(register));
        Ok(Typed::Known(
            match is_described {
                true => Expression::Cast { cast: Cast::Same, operand: Box::new(value) },
                false => value,
            },
            ty,
        ))
    }

    /// Binds an element of an array that is cast as a whole.
    fn cast_element(&mut self, item: &ast::Expr, element: ScalarType) -> Result<Expression, StatementError> {
        if matches!(item, ast::Expr::ArrayExpr(_)) {
            return Err(self.unsupported(item.syntax(), "an array of arrays"));
        }
        let bound = self.bind(item)?;
        let value = self.coerce(bound, element.into(), CastContext::Explicit, item.syntax())?;
        self.origins.note_cast(&value, element.into());
        Ok(value)
    }

    /// Returns the single expression of a PL/pgSQL expression. One with FROM or a similar clause is a query,
    /// which is refused here.
    pub(crate) fn single_expression(
        &self,
        expression: Option<ast::PlpgsqlExpr>,
        node: &SyntaxNode,
    ) -> Result<ast::Expr, StatementError> {
        let expression = self.part(expression, node)?;
        let plain = expression.syntax().children().all(|child| child.kind() == SyntaxKind::TARGET_LIST);
        let mut targets = expression.target_list().into_iter().flat_map(|list| list.targets());
        match (targets.next().and_then(|target| target.expr()), targets.next(), plain) {
            (Some(value), None, true) => Ok(value),
            _ => Err(self.unsupported(expression.syntax(), "a query as an expression")),
        }
    }

    /// Returns the register of an expression that is a register.
    pub(crate) fn register_of(expression: &Expression) -> Option<Register> {
        match expression {
            Expression::Register(register) => Some(*register),
            _ => None,
        }
    }
}

/// Returns the ESCAPE that a pattern ends with: it stands last in operands of stronger operators.
fn escape_in(pattern: &ast::Expr) -> Option<ast::BinExpr> {
    match pattern {
        ast::Expr::BinExpr(binary) if matches!(binary.op(), Some(ast::BinOp::Escape(_))) => {
            Some(binary.clone())
        }
        other => escape_in(stronger(other)?.1.last()?),
    }
}

/// Returns whether a call is of `_pg_expandarray`, with which JDBC reads the columns of keys and indexes.
pub(crate) fn calls_expandarray(call: &ast::CallExpr) -> bool {
    matches!(call.expr(), Some(ast::Expr::FieldExpr(field))
        if field.field().is_some_and(|name| name.text() == "_pg_expandarray"))
}
