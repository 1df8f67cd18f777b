//! Types of operators and conversions: PostgreSQL's operator resolution for the supported types.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{Arena, Datum, ScalarType, Type, Value, ValueError, array_elements, datum_from_value};
use procedure::{
    ArithmeticOperator, Cast, CompareClass, CompareOperator, Expression, Function, Machine, NumberClass,
    SqlError,
};
use squawk_syntax::SyntaxNode;

/// Maximum numbers of digits before and after the point; `None` for a value that carries its scale.
#[derive(Clone, Copy)]
struct Shape {
    precision: u8,
    scale: u8,
}

impl Shape {
    fn of(expression: &Expression, ty: ScalarType) -> Option<Self> {
        let (precision, scale) = match (ty, expression) {
            (_, Expression::Constant(Datum::Int(value))) if ty.is_integer() => {
                (value.unsigned_abs().checked_ilog10().unwrap_or(0) as u8 + 1, 0)
            }
            (ScalarType::SmallInt, _) => (5, 0),
            (ScalarType::Integer, _) => (10, 0),
            (ScalarType::BigInt, _) => (19, 0),
            (ScalarType::Numeric { precision, scale }, _) => (precision, scale),
            _ => return None,
        };
        Some(Self { precision, scale })
    }

    fn of_result(self, operator: ArithmeticOperator, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        match operator {
            ArithmeticOperator::Multiply => {
                Self { precision: self.precision + other.precision, scale: self.scale + other.scale }
            }
            _ => {
                let whole = (self.precision - self.scale.min(self.precision))
                    .max(other.precision - other.scale.min(other.precision));
                Self { precision: whole + scale + 1, scale }
            }
        }
    }
}

/// Returns the class under which values of a type are compared.
pub(crate) fn compare_class(ty: ScalarType) -> CompareClass {
    match ty {
        ScalarType::Double => CompareClass::Double,
        _ if ty.is_bytes() => CompareClass::Bytes,
        ScalarType::AnyNumeric => CompareClass::Decimal { left_scale: 0, right_scale: 0 },
        ScalarType::Numeric { scale, .. } if !ty.is_machine_numeric() => {
            CompareClass::Decimal { left_scale: scale, right_scale: scale }
        }
        _ => CompareClass::Int,
    }
}

/// Maximum memory for the evaluation of a constant expression, in bytes.
const LARGEST_FOLDED: usize = 1 << 20;

/// Replaces a constant expression by its value. It stays if its evaluation fails.
pub(crate) fn fold(expression: Expression) -> Expression {
    if matches!(expression, Expression::Constant(_) | Expression::Bytes(_) | Expression::Decimal(_))
        || !expression.is_constant()
    {
        return expression;
    }
    let mut machine = Machine::default();
    // A longer value is computed at run time, in the memory of the statement.
    machine.limit_memory(None, LARGEST_FOLDED);
    machine.reset(0, 0);
    match expression.evaluate(&mut machine) {
        Ok(datum) => constant(datum, &machine.frame.arena).unwrap_or(expression),
        Err(_) => expression,
    }
}

fn constant(datum: Datum, arena: &Arena) -> Option<Expression> {
    Some(match datum {
        Datum::Null | Datum::Int(_) | Datum::Double(_) => Expression::Constant(datum),
        Datum::Bytes(span) => Expression::Bytes(arena.bytes(span).into()),
        Datum::Wide(_) => Expression::Decimal(arena.decimal(datum, 0)?),
        Datum::Array(_) => return None,
    })
}

impl Binder<'_> {
    /// Gives a literal the type that the context wants; `other` is the type on the other side of an operator.
    pub(crate) fn settle(
        &self,
        typed: Typed,
        other: Option<Type>,
        node: &SyntaxNode,
    ) -> Result<(Expression, Type), StatementError> {
        match typed {
            Typed::Known(expression, ty) => Ok((expression, ty)),
            Typed::Parameter(place) => {
                let ty = other.unwrap_or(ScalarType::Text.into());
                match self.parameter_as(place, ty) {
                    Typed::Known(expression, ty) => Ok((expression, ty)),
                    _ => unreachable!("a parameter with a type is known"),
                }
            }
            literal => {
                let ty = match other {
                    // A literal that is compared with a text of limited length is not cut to that length.
                    Some(Type::Scalar(scalar)) if scalar.is_text() => match scalar {
                        ScalarType::Char(_) => ScalarType::Char(u32::MAX).into(),
                        _ => ScalarType::Text.into(),
                    },
                    // A literal that is compared with a decimal or a timestamp keeps its digits.
                    Some(Type::Scalar(ScalarType::Numeric { .. })) => ScalarType::AnyNumeric.into(),
                    Some(Type::Scalar(scalar)) if scalar.is_timestamp() => scalar.unlimited().into(),
                    Some(ty) => ty,
                    None => ScalarType::Text.into(),
                };
                Ok((self.coerce(literal, ty, false, node)?, ty))
            }
        }
    }

    /// Converts a value to a type, as an assignment does, or as an explicit cast.
    pub(crate) fn coerce(
        &self,
        typed: Typed,
        to: Type,
        explicit: bool,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        match typed {
            Typed::Null => Ok(Expression::NULL),
            Typed::Parameter(place) => self.coerce(self.parameter_as(place, to), to, explicit, node),
            Typed::Literal(text) => {
                let mut arena = Arena::default();
                let value = match (to, explicit) {
                    (Type::Array(_), _) => {
                        array_literal(&text).map_err(|error| self.error(node, error.into()))?
                    }
                    (Type::Scalar(ScalarType::Varchar(n) | ScalarType::Char(n)), true) => {
                        Value::Text(text.chars().take(n as usize).collect())
                    }
                    _ => Value::Text(text),
                };
                let datum = datum_from_value(&value, to, &mut arena)
                    .map_err(|error| self.error(node, error.into()))?;
                if let Datum::Array(span) = datum {
                    let items = arena.elements(span).iter().map(|item| constant(*item, &arena));
                    return Ok(Expression::Array(
                        items.map(|item| item.unwrap_or(Expression::NULL)).collect(),
                    ));
                }
                Ok(constant(datum, &arena).unwrap_or(Expression::NULL))
            }
            // Elements of both types are represented in the same way.
            Typed::Known(expression, Type::Array(from))
                if explicit && matches!(to, Type::Array(to) if from.is_integer() && to.is_integer()) =>
            {
                Ok(expression)
            }
            // The value becomes a text first, and then the length of the text is checked.
            Typed::Known(expression, from @ Type::Scalar(own))
                if !own.is_text()
                    && matches!(to, Type::Scalar(ScalarType::Varchar(_) | ScalarType::Char(_))) =>
            {
                let text = ScalarType::Text.into();
                let expression = self.coerce(Typed::Known(expression, from), text, explicit, node)?;
                self.coerce(Typed::Known(expression, text), to, explicit, node)
            }
            Typed::Known(expression, from) => {
                let mismatch = || {
                    let error = match explicit {
                        true => SqlError::new("42846", format!("cannot cast type {from} to {to}")),
                        false => SqlError::new("42804", format!("cannot convert type {from} to {to}")),
                    };
                    self.error(node, error)
                };
                let cast = match (from, to) {
                    (Type::Scalar(from), Type::Scalar(to)) => Cast::between(from, to, explicit)
                        .or_else(|| Cast::between(from, to, from.is_text()))
                        .ok_or_else(mismatch)?,
                    (Type::Array(from), Type::Array(to))
                        if from == to || Cast::between(from, to, false) == Some(Cast::Same) =>
                    {
                        Cast::Same
                    }
                    _ => return Err(mismatch()),
                };
                Ok(match cast {
                    Cast::Same => expression,
                    cast => fold(Expression::Cast { cast, operand: Box::new(expression) }),
                })
            }
        }
    }

    /// Converts two operands to scalar types.
    pub(crate) fn operands(
        &self,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<[(Expression, ScalarType); 2], StatementError> {
        let known = |typed: &Typed| match typed {
            Typed::Known(_, ty) => Some(*ty),
            _ => None,
        };
        let (left_type, right_type) = (known(&left), known(&right));
        let left = self.settle(left, right_type, node)?;
        let right = self.settle(right, left_type, node)?;
        match (left, right) {
            ((a, Type::Scalar(a_type)), (b, Type::Scalar(b_type))) => Ok([(a, a_type), (b, b_type)]),
            _ => Err(self.unsupported(node, "this operator on arrays")),
        }
    }

    fn no_operator(
        &self,
        operator: &str,
        left: ScalarType,
        right: ScalarType,
        node: &SyntaxNode,
    ) -> StatementError {
        let message = format!("operator does not exist: {left} {operator} {right}");
        let hint = "You might need to add explicit type casts.";
        self.error(node, SqlError::new("42883", message).with_hint(hint))
    }

    /// Binds `left operator right` on numbers and dates.
    pub(crate) fn arithmetic(
        &self,
        operator: ArithmeticOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let [(a, a_type), (b, b_type)] = self.operands(left, right, node)?;
        let build = |class, a, b, ty: ScalarType| {
            let expression = Expression::Arithmetic { operator, class, operands: Box::new([a, b]) };
            Ok(Typed::Known(fold(expression), ty.into()))
        };
        let int_class = |ty: ScalarType| match ty {
            ScalarType::SmallInt => NumberClass::Int { least: i16::MIN.into(), most: i16::MAX.into() },
            ScalarType::BigInt => NumberClass::Int { least: i64::MIN, most: i64::MAX },
            _ => NumberClass::Int { least: i32::MIN.into(), most: i32::MAX.into() },
        };
        if a_type.is_integer() && b_type.is_integer() {
            let rank = |ty| match ty {
                ScalarType::SmallInt => 0,
                ScalarType::Integer => 1,
                _ => 2,
            };
            let ty = if rank(a_type) >= rank(b_type) { a_type } else { b_type };
            return build(int_class(ty), a, b, ty);
        }
        if a_type == ScalarType::Double && b_type.is_number()
            || b_type == ScalarType::Double && a_type.is_number()
        {
            let double = ScalarType::Double.into();
            let a = self.coerce(Typed::Known(a, a_type.into()), double, false, node)?;
            let b = self.coerce(Typed::Known(b, b_type.into()), double, false, node)?;
            return build(NumberClass::Double, a, b, ScalarType::Double);
        }
        if a_type.is_exact() && b_type.is_exact() {
            return Ok(self.decimal_arithmetic(operator, (a, a_type), (b, b_type)));
        }
        use ArithmeticOperator::{Add, Subtract};
        match (a_type, operator, b_type) {
            (ScalarType::Date, Add | Subtract, _) if b_type.is_integer() => {
                build(NumberClass::Date, a, b, ScalarType::Date)
            }
            // The date comes first.
            (_, Add, ScalarType::Date) if a_type.is_integer() => {
                build(NumberClass::Date, b, a, ScalarType::Date)
            }
            (ScalarType::Date, Subtract, ScalarType::Date) => {
                build(NumberClass::Days, a, b, ScalarType::Integer)
            }
            _ => {
                let symbol = match operator {
                    Add => "+",
                    Subtract => "-",
                    ArithmeticOperator::Multiply => "*",
                    ArithmeticOperator::Divide => "/",
                    ArithmeticOperator::Remainder => "%",
                };
                Err(self.no_operator(symbol, a_type, b_type, node))
            }
        }
    }

    fn decimal_arithmetic(
        &self,
        operator: ArithmeticOperator,
        (a, a_type): (Expression, ScalarType),
        (b, b_type): (Expression, ScalarType),
    ) -> Typed {
        let shapes = (Shape::of(&a, a_type), Shape::of(&b, b_type));
        let operands = Box::new([a, b]);
        let exact = !matches!(operator, ArithmeticOperator::Divide | ArithmeticOperator::Remainder);
        let machine = |ty: ScalarType| ty.is_machine_numeric() || ty.is_integer();
        if let (Some(left), Some(right), true) = (shapes.0, shapes.1, exact)
            && machine(a_type)
            && machine(b_type)
        {
            let result = left.of_result(operator, right);
            if result.precision <= ScalarType::MACHINE_DIGITS {
                let factor = |own: u8| match operator {
                    ArithmeticOperator::Multiply => 1,
                    _ => 10i64.pow(u32::from(result.scale - own)),
                };
                let class = NumberClass::Machine {
                    left_factor: factor(left.scale),
                    right_factor: factor(right.scale),
                };
                let ty = ScalarType::Numeric { precision: result.precision, scale: result.scale };
                let expression = Expression::Arithmetic { operator, class, operands };
                return Typed::Known(fold(expression), ty.into());
            }
        }
        let scale = |ty: ScalarType| ty.fixed_scale().unwrap_or(0);
        let class = NumberClass::Decimal { left_scale: scale(a_type), right_scale: scale(b_type) };
        let expression = Expression::Arithmetic { operator, class, operands };
        Typed::Known(fold(expression), ScalarType::AnyNumeric.into())
    }

    /// Converts two operands so that they can be compared. Returns them with their class.
    pub(crate) fn comparable(
        &self,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<(CompareClass, Box<[Expression; 2]>), StatementError> {
        let [(a, a_type), (b, b_type)] = self.operands(left, right, node)?;
        let (class, to) = match (a_type, b_type) {
            _ if a_type.is_integer() && b_type.is_integer() => (CompareClass::Int, None),
            (ScalarType::Double, _) | (_, ScalarType::Double) if a_type.is_number() && b_type.is_number() => {
                (CompareClass::Double, Some(ScalarType::Double))
            }
            _ if a_type.is_exact() && b_type.is_exact() => {
                let scale = |ty: ScalarType| ty.fixed_scale().unwrap_or(0);
                let machine = |ty: ScalarType| ty.is_machine_numeric() || ty.is_integer();
                let (left_scale, right_scale) = (scale(a_type), scale(b_type));
                if machine(a_type) && machine(b_type) && left_scale == right_scale {
                    (CompareClass::Int, None)
                } else {
                    (CompareClass::Decimal { left_scale, right_scale }, None)
                }
            }
            (ScalarType::Date, _) if b_type.is_timestamp() => (CompareClass::Int, Some(b_type.unlimited())),
            (_, ScalarType::Date) if a_type.is_timestamp() => (CompareClass::Int, Some(a_type.unlimited())),
            _ if a_type.same_family(b_type) => (compare_class(a_type), None),
            _ => return Err(self.no_operator("=", a_type, b_type, node)),
        };
        let operands = match to {
            None => [a, b],
            Some(to) => [
                self.coerce(Typed::Known(a, a_type.into()), to.into(), false, node)?,
                self.coerce(Typed::Known(b, b_type.into()), to.into(), false, node)?,
            ],
        };
        Ok((class, Box::new(operands)))
    }

    /// Binds the comparison `left operator right`.
    pub(crate) fn comparison(
        &self,
        operator: CompareOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if matches!(left, Typed::Known(_, Type::Array(_))) || matches!(right, Typed::Known(_, Type::Array(_)))
        {
            return self.array_comparison(operator, left, right, node);
        }
        let (class, operands) = self.comparable(left, right, node)?;
        Ok(boolean(fold(Expression::Compare { operator, class, operands })))
    }

    /// Binds a comparison of arrays, `=` or `<>`. A literal is an array in braces.
    fn array_comparison(
        &self,
        operator: CompareOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let is_equal = match operator {
            CompareOperator::Equal => true,
            CompareOperator::NotEqual => false,
            _ => return Err(self.unsupported(node, "this operator on arrays")),
        };
        let element = |typed: &Typed| match typed {
            Typed::Known(_, Type::Array(element)) => Some(*element),
            _ => None,
        };
        let ty = element(&left).or(element(&right)).unwrap_or(ScalarType::Text);
        let array = |typed: Typed| match typed {
            Typed::Known(array, Type::Array(own)) if own.same_family(ty) => Ok(array),
            Typed::Known(..) => Err(self.unsupported(node, "comparing an array with a value of this type")),
            other => self.coerce(other, Type::Array(ty), false, node),
        };
        let function = Function::ArraysEqual(compare_class(ty));
        let equal = Expression::Function { function, arguments: vec![array(left)?, array(right)?] };
        Ok(boolean(if is_equal { equal } else { Expression::Not(Box::new(equal)) }))
    }

    /// Binds `left || right`.
    pub(crate) fn concatenation(
        &self,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if let Typed::Known(array, ty @ Type::Array(element)) = left {
            let value = self.coerce(right, element.into(), false, node)?;
            let arguments = vec![array, value];
            return Ok(Typed::Known(Expression::Function { function: Function::ArrayAppend, arguments }, ty));
        }
        let is_bytea = |typed: &Typed| matches!(typed, Typed::Known(_, Type::Scalar(ScalarType::Bytea)));
        let is_open = |typed: &Typed| !matches!(typed, Typed::Known(..));
        let is_of_bytes =
            is_bytea(&left) && (is_bytea(&right) || is_open(&right)) || is_open(&left) && is_bytea(&right);
        let text = if is_of_bytes { ScalarType::Bytea } else { ScalarType::Text }.into();
        let arguments = vec![self.coerce(left, text, true, node)?, self.coerce(right, text, true, node)?];
        let expression = Expression::Function { function: Function::Concat, arguments };
        Ok(Typed::Known(fold(expression), text))
    }

    /// Converts the branches of CASE, COALESCE and similar expressions to a common type.
    pub(crate) fn unify(
        &self,
        items: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<(Vec<Expression>, Type), StatementError> {
        let mut common: Option<Type> = None;
        for item in &items {
            let Typed::Known(_, ty) = item else { continue };
            common = Some(match (common, *ty) {
                (None, ty) => ty,
                (Some(own), ty) if own == ty => own,
                (Some(Type::Scalar(a)), Type::Scalar(b)) => wider(a, b)
                    .ok_or_else(|| {
                        let message = format!("types {a} and {b} cannot be matched");
                        self.error(node, SqlError::new("42804", message))
                    })?
                    .into(),
                (Some(own), ty) => {
                    let message = format!("types {own} and {ty} cannot be matched");
                    return Err(self.error(node, SqlError::new("42804", message)));
                }
            });
        }
        let ty = common.unwrap_or(ScalarType::Text.into());
        let items = items.into_iter().map(|item| self.coerce(item, ty, false, node));
        Ok((items.collect::<Result<_, _>>()?, ty))
    }
}

fn wider(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    use ScalarType as T;
    Some(match (a.unlimited(), b.unlimited()) {
        (T::Double, _) if b.is_number() => T::Double,
        (_, T::Double) if a.is_number() => T::Double,
        (T::BigInt, _) | (_, T::BigInt) if a.is_integer() && b.is_integer() => T::BigInt,
        _ if a.is_integer() && b.is_integer() => T::Integer,
        _ if a.is_exact() && b.is_exact() => T::AnyNumeric,
        _ if a.is_text() && b.is_text() => T::Text,
        (T::Date | T::Timestamp, T::Timestamp) | (T::Timestamp, T::Date) => T::Timestamp,
        _ if a.same_family(b) => T::Timestamptz,
        _ => return None,
    })
}

/// Returns a boolean expression with its type.
pub(crate) fn boolean(expression: Expression) -> Typed {
    Typed::Known(expression, ScalarType::Boolean.into())
}

/// Reads `{1,2,NULL}` as an array of texts, which are converted to the element type later.
fn array_literal(text: &str) -> Result<Value, ValueError> {
    let elements = array_elements(text)?;
    Ok(Value::Array(elements.into_iter().map(|own| own.map_or(Value::Null, Value::Text)).collect()))
}
