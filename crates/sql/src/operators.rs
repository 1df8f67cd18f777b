//! Operators: the choice of an entry of the table, and the expression that it makes.

use crate::binder::{Binder, Typed};
use crate::built_ins::ADD_CASTS;
use crate::conversions::fold;
use crate::error::StatementError;
use crate::resolution::{Resolved, element_of, exact, resolve};
use catalog::{Datum, ScalarType, Type};
use procedure::{
    ArithmeticOperator, CastContext, CompareClass, CompareOperator, Expression, Kind, NumberClass, Operator,
    OperatorForm, SqlError, built_ins_named, operators_named,
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

/// An operand whose type is known.
struct Operand {
    value: Expression,
    ty: ScalarType,
}

impl Binder<'_> {
    /// Chooses an entry of the table of operators by the types of the operands.
    fn chosen_operator(
        &self,
        symbol: &str,
        operands: &[&Typed],
        node: &SyntaxNode,
    ) -> Result<&'static Operator, StatementError> {
        let types: Vec<_> = operands.iter().map(|operand| operand.known_type()).collect();
        let entries: Vec<_> = operators_named(symbol, operands.len()).collect();
        // An operand of unknown type is taken for one of the type of the other operand, if that is possible.
        let supposed = match types[..] {
            [Some(ty), None] | [None, Some(ty)] => Some([Some(ty), Some(ty)]),
            _ => None,
        };
        let position = supposed.and_then(|types| exact(&entries, &types));
        let (state, what, hint) = match position.map_or_else(|| resolve(&entries, &types), Resolved::One) {
            Resolved::One(position) => return Ok(entries[position]),
            Resolved::None if matches!(symbol, "@?" | "@@") => {
                return Err(self.unsupported(node, "a JSON path"));
            }
            Resolved::None
                if types.iter().all(|ty| ty.is_none_or(|ty| ty.element() == ScalarType::Record)) =>
            {
                return Err(self.unsupported(node, "a comparison of whole rows in this place"));
            }
            Resolved::None => {
                ("42883", "does not exist", "No operator matches the given name and argument types.")
            }
            Resolved::Several => ("42725", "is not unique", "Could not choose a best candidate operator."),
        };
        let shown = match operands {
            [left, right] => format!("{} {symbol} {}", left.shown_type(), right.shown_type()),
            _ => format!("{symbol} {}", operands[0].shown_type()),
        };
        let error = SqlError::new(state, format!("operator {what}: {shown}"));
        let hint = format!("{hint} {ADD_CASTS}");
        Err(self.error(node, error.with_hint(hint)))
    }

    /// Binds an operator with one or two operands.
    pub(crate) fn operator(
        &self,
        symbol: &str,
        operands: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let entry = self.chosen_operator(symbol, &operands.iter().collect::<Vec<_>>(), node)?;
        match entry.form {
            OperatorForm::Arithmetic(operator) => self.arithmetic_of(entry, operator, operands, node),
            OperatorForm::Compare(operator) => {
                let Ok([left, right]) = <[Typed; 2]>::try_from(operands) else {
                    unreachable!("comparisons have two operands")
                };
                self.comparison_of(entry, operator, left, right, node)
            }
            OperatorForm::Function(name) => {
                let function =
                    built_ins_named(name).iter().find(|built_in| built_in.arguments == entry.operands);
                self.call_values(self.part(function.copied(), node)?, entry.operands, operands, node)
            }
        }
    }

    /// Binds `left operator right` on numbers and dates.
    pub(crate) fn arithmetic(
        &self,
        operator: ArithmeticOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.operator(operator.symbol(), vec![left, right], node)
    }

    /// Gives an operand without a type the type that the entry of the operator has.
    fn settled(&self, typed: Typed, kind: Kind, node: &SyntaxNode) -> Result<Operand, StatementError> {
        match (typed, kind) {
            (Typed::Known(value, ty), _) => Ok(Operand { value, ty: ty.element() }),
            (other, Kind::Of(ty)) => {
                let value = self.coerce(other, ty, CastContext::Implicit, node)?;
                Ok(Operand { value, ty: ty.element() })
            }
            _ => Err(self.unsupported(node, "an operand of unknown type")),
        }
    }

    fn arithmetic_of(
        &self,
        entry: &Operator,
        operator: ArithmeticOperator,
        operands: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Kind::Of(Type::Scalar(result)) = entry.result else {
            unreachable!("the result of arithmetic is a scalar")
        };
        let mut settled = Vec::new();
        for (operand, kind) in operands.into_iter().zip(entry.operands) {
            let operand = self.settled(operand, *kind, node)?;
            settled.push(match result {
                ScalarType::Real | ScalarType::Double => {
                    let value = Typed::Known(operand.value, operand.ty.into());
                    let value = self.coerce(value, result.into(), CastContext::Implicit, node)?;
                    Operand { value, ty: result }
                }
                _ => operand,
            });
        }
        let [left, right] = match <[Operand; 2]>::try_from(settled) {
            Ok(pair) => pair,
            Err(mut one) => {
                let operand = one.remove(0);
                return Ok(match operator {
                    ArithmeticOperator::Add => Typed::Known(operand.value, operand.ty.into()),
                    _ => negative(operand, result),
                });
            }
        };
        Ok(match result {
            // The date comes first.
            ScalarType::Date if right.ty == ScalarType::Date => made(operator, right, left, result),
            _ => made(operator, left, right, result),
        })
    }

    /// Converts two operands so that they can be compared. Returns them with their class.
    pub(crate) fn comparable(
        &self,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<(CompareClass, Box<[Expression; 2]>), StatementError> {
        let entry = self.chosen_operator("=", &[&left, &right], node)?;
        if entry.operands[0] == Kind::AnyArray {
            return self.compared_arrays(entry, left, right, node);
        }
        self.compared_as(entry, left, right, node)
    }

    /// Returns the type to which `=` converts its left operand.
    pub(crate) fn compared_type(
        &self,
        left: &Typed,
        right: &Typed,
        node: &SyntaxNode,
    ) -> Result<Type, StatementError> {
        let entry = self.chosen_operator("=", &[left, right], node)?;
        let kind = match entry.operands[0] {
            Kind::AnyEnum => compared_kind(entry, left, right),
            kind => kind,
        };
        match (kind, left.known_type()) {
            (Kind::Of(ty), Some(known)) if Kind::Of(Type::Scalar(known.element().base())) == Kind::Of(ty) => {
                Ok(known)
            }
            (Kind::Of(ty), _) => Ok(ty),
            (Kind::AnyArray, Some(array @ Type::Array(_))) => Ok(array),
            (Kind::AnyArray, None) if let Some(array @ Type::Array(_)) = right.known_type() => Ok(array),
            _ => Err(self.unsupported(node, "this comparison of arrays")),
        }
    }

    fn compared_as(
        &self,
        entry: &Operator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<(CompareClass, Box<[Expression; 2]>), StatementError> {
        let kind = compared_kind(entry, &left, &right);
        let left = self.settled(left, kind, node)?;
        let right = self.settled(right, kind, node)?;
        let Kind::Of(Type::Scalar(ty)) = kind else {
            return Err(self.unsupported(node, "this comparison"));
        };
        if ty == ScalarType::AnyNumeric {
            let scale = |ty: ScalarType| ty.fixed_scale().unwrap_or(0);
            let machine = |ty: ScalarType| ty.is_machine_numeric() || ty.is_integer();
            let (left_scale, right_scale) = (scale(left.ty), scale(right.ty));
            let class = match machine(left.ty) && machine(right.ty) && left_scale == right_scale {
                true => CompareClass::Int,
                false => CompareClass::Decimal { left_scale, right_scale },
            };
            return Ok((class, Box::new([left.value, right.value])));
        }
        let converted = |operand: Operand| match operand.ty.is_integer() && ty.is_integer() {
            true => Ok(operand.value),
            false => {
                let value = Typed::Known(operand.value, operand.ty.into());
                self.coerce(value, ty.into(), CastContext::Implicit, node)
            }
        };
        Ok((CompareClass::of(ty), Box::new([converted(left)?, converted(right)?])))
    }

    /// Binds the comparison `left operator right`.
    pub(crate) fn comparison(
        &self,
        operator: CompareOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.operator(operator.symbol(), vec![left, right], node)
    }

    fn comparison_of(
        &self,
        entry: &Operator,
        operator: CompareOperator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let (class, operands) = match entry.operands[0] {
            Kind::AnyArray => self.compared_arrays(entry, left, right, node)?,
            _ => self.compared_as(entry, left, right, node)?,
        };
        Ok(boolean(fold(Expression::Compare { operator, class, operands })))
    }

    /// Converts two arrays so that they can be compared.
    fn compared_arrays(
        &self,
        entry: &Operator,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<(CompareClass, Box<[Expression; 2]>), StatementError> {
        let types = [left.known_type(), right.known_type()];
        let element = element_of(entry.operands, &types).unwrap_or(ScalarType::Text);
        let array = |typed| self.coerce(typed, Type::Array(element), CastContext::Implicit, node);
        let operands = Box::new([array(left)?, array(right)?]);
        Ok((CompareClass::of_arrays(element), operands))
    }
}

/// Returns the type as which an operator compares its operands, if the entry or the operands say it.
fn compared_kind(entry: &Operator, left: &Typed, right: &Typed) -> Kind {
    match entry.operands[0] {
        Kind::AnyEnum => {
            let common = element_of(entry.operands, &[left.known_type(), right.known_type()]);
            common.map_or(Kind::AnyEnum, |element| Kind::Of(element.into()))
        }
        // A REAL and a double are compared as doubles.
        first if entry.operands.get(1).is_some_and(|second| *second != first) => {
            Kind::Of(ScalarType::Double.into())
        }
        kind => kind,
    }
}

/// Returns `-operand`.
fn negative(operand: Operand, result: ScalarType) -> Typed {
    if operand.ty.is_float() {
        // 0 - 0 has another sign than -0.
        let minus = Operand { value: Expression::Constant(Datum::Double(-1.0)), ty: operand.ty };
        return made(ArithmeticOperator::Multiply, minus, operand, result);
    }
    let ty = if operand.ty.is_integer() { operand.ty } else { ScalarType::Integer };
    let zero = Operand { value: Expression::Constant(Datum::Int(0)), ty };
    made(ArithmeticOperator::Subtract, zero, operand, result)
}

/// Makes arithmetic with a result of a type. Operands of doubles are doubles; a date comes first.
fn made(operator: ArithmeticOperator, left: Operand, right: Operand, result: ScalarType) -> Typed {
    let class = match result {
        ScalarType::AnyNumeric => return decimal_arithmetic(operator, left, right),
        ScalarType::Double => NumberClass::Double,
        ScalarType::Real => NumberClass::Real,
        ScalarType::Date => NumberClass::Date,
        _ if left.ty == ScalarType::Date => NumberClass::Days,
        ScalarType::SmallInt => NumberClass::Int { least: i16::MIN.into(), most: i16::MAX.into() },
        ScalarType::Integer => NumberClass::Int { least: i32::MIN.into(), most: i32::MAX.into() },
        _ => NumberClass::Int { least: i64::MIN, most: i64::MAX },
    };
    let operands = Box::new([left.value, right.value]);
    Typed::Known(fold(Expression::Arithmetic { operator, class, operands }), result.into())
}

/// Makes arithmetic of exact numbers: of scaled integers, if the result fits one whatever the operands are.
fn decimal_arithmetic(operator: ArithmeticOperator, left: Operand, right: Operand) -> Typed {
    let shapes = (Shape::of(&left.value, left.ty), Shape::of(&right.value, right.ty));
    let exact = !matches!(operator, ArithmeticOperator::Divide | ArithmeticOperator::Remainder);
    let machine = |ty: ScalarType| ty.is_machine_numeric() || ty.is_integer();
    let scale = |ty: ScalarType| ty.fixed_scale().unwrap_or(0);
    let (mut class, mut ty) = (
        NumberClass::Decimal { left_scale: scale(left.ty), right_scale: scale(right.ty) },
        ScalarType::AnyNumeric,
    );
    // The constant that the arithmetic of constants makes has no limit of precision.
    let is_folded = left.value.is_constant() && right.value.is_constant();
    if let (Some(a), Some(b), true) = (shapes.0, shapes.1, exact && !is_folded)
        && machine(left.ty)
        && machine(right.ty)
        && let result = a.of_result(operator, b)
        && result.precision <= ScalarType::MACHINE_DIGITS
    {
        let factor = |digits: u8| match operator {
            ArithmeticOperator::Multiply => 1,
            _ => 10i64.pow(u32::from(result.scale - digits)),
        };
        class = NumberClass::Machine { left_factor: factor(a.scale), right_factor: factor(b.scale) };
        ty = ScalarType::Numeric { precision: result.precision, scale: result.scale };
    }
    let operands = Box::new([left.value, right.value]);
    Typed::Known(fold(Expression::Arithmetic { operator, class, operands }), ty.into())
}

/// Returns a boolean expression with its type.
pub(crate) fn boolean(expression: Expression) -> Typed {
    Typed::Known(expression, ScalarType::Boolean.into())
}
