//! Calls of built-in functions, aggregates, and functions of the schema.

use crate::aggregates::is_aggregate;
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::operators::{compare_class, fold};
use crate::plan::Applied;
use catalog::{ScalarType, Type};
use procedure::{
    BitOperator, ByValueCause, Cast, DecimalFunction, Draw, Expression, Function, Procedure, SqlError,
    Statement, TextFunction,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Binder<'_> {
    pub(crate) fn bind_call(&mut self, call: &ast::CallExpr) -> Result<Typed, StatementError> {
        let node = call.syntax();
        if let Some(over) = call.over_clause() {
            // JDBC uses this on `pg_attribute`, whose columns are numbered without gaps here.
            let text = over.syntax().text().to_string().to_lowercase();
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.join(" ") == "over (partition by a.attrelid order by a.attnum)"
                && let Some(number) = self.find_column(Some("a"), "attnum", node)?
            {
                return Ok(number);
            }
        }
        if call.over_clause().is_some() || call.within_clause().is_some() {
            return Err(self.unsupported(node, "a window function or an ordered-set aggregate"));
        }
        if let Some(exists) = call.exists_fn() {
            let query = self.part(exists.select_variant(), node)?;
            return self.bind_exists(&query, node);
        }
        if let Some(extract) = call.extract_fn() {
            return self.bind_extract(&extract);
        }
        if let Some(result) = self.bind_keyword_call(call)? {
            return Ok(result);
        }
        let name = match call.expr() {
            Some(ast::Expr::NameRef(name)) => name.text(),
            // A function with its schema: all functions are in one namespace.
            Some(ast::Expr::FieldExpr(field)) => match field.field() {
                Some(name) => name.text(),
                None => return Err(self.unsupported(node, "this kind of call")),
            },
            _ => return Err(self.unsupported(node, "this kind of call")),
        };
        if let Some(columns) = self.rows_in_list(&name, call)? {
            let (register, ty) = columns[0];
            return Ok(Typed::Known(Expression::Register(register), ty));
        }
        let list = self.part(call.arg_list(), node)?;
        let names_some = list.args().any(|argument| argument.expr().is_none());
        if names_some
            && let Some(function) = self.schema.procedure(&name).filter(|own| own.result.is_some()).cloned()
        {
            let arguments = self.function_arguments(&function, Some(list), node)?;
            return self.lift_call(&function, arguments, node);
        }
        let arguments = self.plain_arguments(Some(list))?;
        if is_aggregate(&name) {
            return self.bind_aggregate(&name, &arguments, call, node);
        }
        if let Some(filter) = call.filter_clause() {
            let message = format!("FILTER specified, but {name} is not an aggregate function");
            return Err(self.error(filter.syntax(), SqlError::new("42809", message)));
        }
        if let Some(result) = self.time_function(&name, &arguments, node)? {
            return Ok(result);
        }
        let bound: Vec<Typed> = match name.as_str() {
            "coalesce" => self.bind_alternatives(&arguments)?,
            _ => arguments.iter().map(|argument| self.bind(argument)).collect::<Result<_, _>>()?,
        };
        if let Some(result) = self.built_in(&name, bound.clone(), node)? {
            return Ok(result);
        }
        if self.schema.procedure(&name).is_none()
            && let Some(result) = self.system_function(&name, &bound, node)?
        {
            return Ok(result);
        }
        match self.schema.procedure(&name) {
            Some(function) if function.result.is_some() => {
                let function = Arc::clone(function);
                let arguments = self.by_place(&function, bound, node)?;
                self.lift_call(&function, arguments, node)
            }
            Some(function) if function.rows.is_some() => {
                let error = SqlError::new(
                    "0A000",
                    format!("{name} returns rows: a call of it outside FROM is not supported"),
                );
                Err(self.error(node, error.with_hint(format!("Use SELECT … FROM {name}(…)."))))
            }
            _ => {
                let message = format!("function {name} with {} arguments does not exist", arguments.len());
                Err(self.error(node, SqlError::new("42883", message)))
            }
        }
    }

    /// Returns the arguments of a call without the placeholders of its results: leading parameters without a
    /// type, which JDBC sends for `{? = call …}`.
    pub(crate) fn without_results(&self, name: &str, arguments: Vec<ast::Expr>) -> Vec<ast::Expr> {
        let Some(procedure) = self.schema.procedure(name) else { return arguments };
        let surplus = arguments.len().saturating_sub(procedure.inputs().count());
        let is_untyped = |argument: &ast::Expr| {
            let text = argument.syntax().text().to_string();
            let place = text.strip_prefix('$').and_then(|own| own.parse::<usize>().ok());
            let place = place.and_then(|place| place.checked_sub(1));
            place.filter(|place| self.parameters.borrow().get(*place).is_some_and(Option::is_none))
        };
        let places: Option<Vec<usize>> = arguments[..surplus].iter().map(is_untyped).collect();
        match places {
            Some(places) if surplus > 0 => {
                places.into_iter().for_each(|place| {
                    self.parameter_as(place, ScalarType::Text.into());
                });
                arguments[surplus..].to_vec()
            }
            _ => arguments,
        }
    }

    /// Binds SUBSTRING(… FROM …), POSITION(… IN …) and TRIM(…); `None` for any other call.
    fn bind_keyword_call(&mut self, call: &ast::CallExpr) -> Result<Option<Typed>, StatementError> {
        let node = call.syntax();
        let (name, arguments): (&str, Vec<ast::Expr>) = if let Some(substring) = call.substring_fn() {
            match substring.substring_args() {
                Some(
                    arguments @ (ast::SubstringArgs::SubstringExprs(_)
                    | ast::SubstringArgs::SubstringFromFor(_)),
                ) => ("substring", child_expressions(arguments.syntax())),
                _ => return Err(self.unsupported(node, "this form of SUBSTRING")),
            }
        } else if let Some(position) = call.position_fn() {
            let mut arguments = child_expressions(position.syntax());
            arguments.reverse();
            ("strpos", arguments)
        } else if let Some(trim) = call.trim_fn() {
            let name = match trim.trim_side().map(|side| side.syntax().text().to_string().to_lowercase()) {
                Some(side) if side == "leading" => "ltrim",
                Some(side) if side == "trailing" => "rtrim",
                _ => "btrim",
            };
            let mut arguments =
                trim.trim_args().map(|arguments| child_expressions(arguments.syntax())).unwrap_or_default();
            if arguments.len() == 2 {
                arguments.reverse();
            }
            (name, arguments)
        } else {
            return Ok(None);
        };
        let bound = arguments.iter().map(|argument| self.bind(argument)).collect::<Result<_, _>>()?;
        self.built_in(name, bound, node)
    }

    /// Binds a built-in function by name and arguments; `None` if there is none.
    pub(crate) fn built_in(
        &mut self,
        name: &str,
        mut arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        use ScalarType as T;
        let count = arguments.len();
        let textual: Option<(Function, &[ScalarType], ScalarType)> = match (name, count) {
            // The length of the bytes, not of their text.
            ("length" | "octet_length", 1) if is_bytea(&arguments[0]) => {
                Some((Function::OctetLength, &[T::Bytea], T::Integer))
            }
            ("length" | "char_length" | "character_length", 1) => {
                Some((Function::Length, &[T::Text], T::Integer))
            }
            ("octet_length", 1) => {
                // Stored values have no blanks at their end, but the length counts them.
                if let Typed::Known(_, Type::Scalar(T::Char(length))) = arguments[0]
                    && length < u32::MAX
                {
                    let text = self.coerce(arguments.remove(0), T::Text.into(), true, node)?;
                    let length = Expression::Constant(catalog::Datum::Int(length.into()));
                    let padding = vec![text, length, Expression::Bytes(b" ".as_slice().into())];
                    arguments.push(call(Function::PadEnd, padding, T::Text));
                }
                Some((Function::OctetLength, &[T::Text], T::Integer))
            }
            ("lower", 1) => Some((Function::Lower, &[T::Text], T::Text)),
            ("upper", 1) => Some((Function::Upper, &[T::Text], T::Text)),
            ("substring" | "substr", 2) => Some((Function::Substring, &[T::Text, T::Integer], T::Text)),
            ("substring" | "substr", 3) => {
                Some((Function::Substring, &[T::Text, T::Integer, T::Integer], T::Text))
            }
            ("left", 2) => Some((Function::Left, &[T::Text, T::Integer], T::Text)),
            ("right", 2) => Some((Function::Right, &[T::Text, T::Integer], T::Text)),
            ("ltrim", 1 | 2) => Some((Function::TrimStart, &[T::Text, T::Text], T::Text)),
            ("rtrim", 1 | 2) => Some((Function::TrimEnd, &[T::Text, T::Text], T::Text)),
            ("btrim", 1 | 2) => Some((Function::Trim, &[T::Text, T::Text], T::Text)),
            ("replace", 3) => Some((Function::Replace, &[T::Text, T::Text, T::Text], T::Text)),
            ("strpos", 2) => Some((Function::Position, &[T::Text, T::Text], T::Integer)),
            ("lpad", 2 | 3) => Some((Function::PadStart, &[T::Text, T::Integer, T::Text], T::Text)),
            ("rpad", 2 | 3) => Some((Function::PadEnd, &[T::Text, T::Integer, T::Text], T::Text)),
            ("repeat", 2) => Some((Function::Repeat, &[T::Text, T::Integer], T::Text)),
            ("split_part", 3) => {
                Some((Function::Text(TextFunction::SplitPart), &[T::Text, T::Text, T::Integer], T::Text))
            }
            ("initcap", 1) => Some((Function::Text(TextFunction::InitialCapitals), &[T::Text], T::Text)),
            ("reverse", 1) => Some((Function::Text(TextFunction::Reverse), &[T::Text], T::Text)),
            ("translate", 3) => {
                Some((Function::Text(TextFunction::Translate), &[T::Text, T::Text, T::Text], T::Text))
            }
            ("ascii", 1) => Some((Function::Text(TextFunction::Ascii), &[T::Text], T::Integer)),
            ("chr", 1) => Some((Function::Text(TextFunction::Character), &[T::Integer], T::Text)),
            ("starts_with", 2) => {
                Some((Function::Text(TextFunction::StartsWith), &[T::Text, T::Text], T::Boolean))
            }
            ("to_hex", 1) => {
                if let Typed::Known(_, Type::Scalar(T::SmallInt | T::Integer)) = arguments[0] {
                    let number = self.coerce(arguments.remove(0), T::BigInt.into(), false, node)?;
                    let mask = Expression::Constant(catalog::Datum::Int(u32::MAX.into()));
                    arguments.push(call(Function::Bits(BitOperator::And), vec![number, mask], T::BigInt));
                }
                Some((Function::Text(TextFunction::ToHex), &[T::BigInt], T::Text))
            }
            ("regexp_replace", 3 | 4) => {
                let flags = match arguments.get(3) {
                    None => "",
                    Some(Typed::Literal(flags)) => flags,
                    Some(_) => {
                        return Err(self.unsupported(node, "regexp_replace with computed flags"));
                    }
                };
                if let Some(other) = flags.chars().find(|flag| !matches!(flag, 'g' | 'i')) {
                    return Err(self.unsupported(node, &format!("the flag {other} of regexp_replace")));
                }
                let (all, insensitive) = (flags.contains('g'), flags.contains('i'));
                let function = TextFunction::ReplaceMatches { all, insensitive };
                arguments.truncate(3);
                Some((Function::Text(function), &[T::Text, T::Text, T::Text], T::Text))
            }
            ("ln" | "log" | "log10" | "exp" | "sign" | "sqrt", 1) | ("power" | "pow" | "log", 2)
                if arguments.iter().any(is_decimal) && !arguments.iter().any(is_double)
                    || (name, count) == ("log", 2) =>
            {
                let function = match name {
                    "ln" => DecimalFunction::NaturalLogarithm,
                    "exp" => DecimalFunction::Exponential,
                    "sign" => DecimalFunction::Sign,
                    "sqrt" => DecimalFunction::SquareRoot,
                    "power" | "pow" => DecimalFunction::Power,
                    _ => DecimalFunction::Logarithm,
                };
                let decimals: &[ScalarType] = &[T::AnyNumeric, T::AnyNumeric];
                Some((Function::Decimals(function), decimals, T::AnyNumeric))
            }
            ("ln", 1) => Some((Function::NaturalLogarithm, &[T::Double], T::Double)),
            ("log" | "log10", 1) => Some((Function::Logarithm, &[T::Double], T::Double)),
            ("exp", 1) => Some((Function::Exponential, &[T::Double], T::Double)),
            ("sign", 1) => Some((Function::SignOfDouble, &[T::Double], T::Double)),
            ("sqrt", 1) => Some((Function::SquareRoot, &[T::Double], T::Double)),
            ("power" | "pow", 2) => Some((Function::Power, &[T::Double, T::Double], T::Double)),
            _ => None,
        };
        if let Some((function, types, result)) = textual {
            let arguments = arguments
                .into_iter()
                .zip(types)
                .map(|(argument, ty)| match is_bytea(&argument) && ty.is_text() {
                    // The function would use the text form of the bytes.
                    true => Err(self.unsupported(node, &format!("{name} of bytea"))),
                    false => self.coerce(argument, (*ty).into(), true, node),
                })
                .collect::<Result<_, _>>()?;
            return Ok(Some(call(function, arguments, result)));
        }
        Ok(Some(match (name, count) {
            ("now" | "transaction_timestamp" | "statement_timestamp", 0) => self.now(T::Timestamptz),
            ("random", 0) => {
                self.uses_seed = true;
                call(Function::Next(Draw::Random), Vec::new(), T::Double)
            }
            ("gen_random_uuid", 0) => {
                self.uses_seed = true;
                call(Function::Next(Draw::Uuid), Vec::new(), T::Uuid)
            }
            ("gen_row_identity", 0) => {
                (self.uses_seed, self.uses_timestamp) = (true, true);
                call(Function::Next(Draw::RowIdentity), Vec::new(), T::Uuid)
            }
            ("nextval" | "currval", 1) | ("setval", 2 | 3) => {
                self.log_by_value(ByValueCause::Sequence);
                let sequence = self.sequence_of(arguments.remove(0), node)?;
                let numbers = match name {
                    "setval" => {
                        let number = self.coerce(arguments.remove(0), T::BigInt.into(), false, node)?;
                        let called = arguments.pop();
                        let called = called.unwrap_or_else(|| {
                            Typed::Known(
                                Expression::Constant(catalog::Datum::boolean(true)),
                                T::Boolean.into(),
                            )
                        });
                        vec![number, self.coerce(called, T::Boolean.into(), false, node)?]
                    }
                    _ => Vec::new(),
                };
                let function = match name {
                    "nextval" => Function::NextNumber(sequence),
                    "currval" => Function::CurrentNumber(sequence),
                    _ => Function::SetNumber(sequence),
                };
                call(function, numbers, T::BigInt)
            }
            ("lastval", 0) => {
                self.log_by_value(ByValueCause::Sequence);
                call(Function::LastNumber, Vec::new(), T::BigInt)
            }
            ("pg_get_serial_sequence", 2) => {
                let [table, column] = [0, 1].map(|place| match &arguments[place] {
                    Typed::Literal(text) => text.clone(),
                    _ => String::new(),
                });
                let table = table.trim_start_matches("public.").replace('"', "");
                let is_it = |own: &&Arc<catalog::Table>| {
                    let owner = own.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
                    owner.is_some_and(|(owner, of)| *owner == table && *of == column)
                };
                match self.schema.catalog().tables().find(is_it) {
                    Some(own) => Typed::Literal(own.name.clone()),
                    None => Typed::Null,
                }
            }
            ("clock_timestamp" | "timeofday" | "txid_current" | "pg_backend_pid", _) => {
                let message = format!(
                    "{name}() has another value at every call, so a call that uses it could not be replayed"
                );
                let hint = "Use now(), which is logged with the call, or pass the value as an argument.";
                return Err(self.error(node, SqlError::new("0A000", message).with_hint(hint)));
            }
            ("abs", 1) => {
                let absolute = self.number_function(arguments.remove(0), None, node, |ty| match ty {
                    T::Double => (Function::AbsDouble, T::Double),
                    _ if ty.is_integer() || ty.is_machine_numeric() => (Function::AbsInt, ty),
                    _ => (Function::AbsDecimal, T::AnyNumeric),
                })?;
                match absolute {
                    // The least value has no positive counterpart.
                    Typed::Known(value, Type::Scalar(ty @ (T::SmallInt | T::Integer))) => {
                        let wide = Typed::Known(value, T::BigInt.into());
                        Typed::Known(self.coerce(wide, ty.into(), true, node)?, ty.into())
                    }
                    other => other,
                }
            }
            ("round" | "trunc" | "floor" | "ceil" | "ceiling", 1 | 2) => {
                let digits = match arguments.len() {
                    2 => Some(arguments.remove(1)),
                    _ => None,
                };
                let value = arguments.remove(0);
                self.number_function(value, digits, node, |ty| {
                    let scale = ty.fixed_scale().unwrap_or(0);
                    match (name, ty == T::Double) {
                        ("round", true) => (Function::RoundDouble, T::Double),
                        ("trunc", true) => (Function::TruncateDouble, T::Double),
                        ("floor", true) => (Function::FloorDouble, T::Double),
                        (_, true) => (Function::CeilDouble, T::Double),
                        ("round", false) => (Function::RoundDecimal(scale), T::AnyNumeric),
                        ("trunc", false) => (Function::TruncateDecimal(scale), T::AnyNumeric),
                        ("floor", false) => (Function::FloorDecimal(scale), T::AnyNumeric),
                        (_, false) => (Function::CeilDecimal(scale), T::AnyNumeric),
                    }
                })?
            }
            ("mod", 2) => {
                let right = arguments.remove(1);
                self.arithmetic(procedure::ArithmeticOperator::Remainder, arguments.remove(0), right, node)?
            }
            ("coalesce", 1..) => {
                let (items, ty) = self.unify(arguments, node)?;
                Typed::Known(Expression::Coalesce(items), ty)
            }
            ("nullif", 2) => {
                let (value, ty) = self.settle(arguments[0].clone(), None, node)?;
                let right = arguments.remove(1);
                let (class, operands) = self.comparable(arguments.remove(0), right, node)?;
                let operator = procedure::CompareOperator::Equal;
                let branches = vec![(Expression::Compare { operator, class, operands }, Expression::NULL)];
                Typed::Known(Expression::Case { branches, otherwise: Box::new(value) }, ty)
            }
            ("greatest" | "least", 1..) => {
                let (items, ty) = self.unify(arguments, node)?;
                let class = compare_class(ty.element());
                let function =
                    if name == "greatest" { Function::Greatest(class) } else { Function::Least(class) };
                Typed::Known(fold(Expression::Function { function, arguments: items }), ty)
            }
            ("concat_ws", 2..) => {
                let text = |argument| self.as_printed(argument, node);
                let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>()?;
                call(Function::ConcatBetween, arguments, T::Text)
            }
            ("concat", 1..) => {
                let text = |argument| self.as_printed(argument, node);
                let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>()?;
                call(Function::ConcatAll, arguments, T::Text)
            }
            ("array_length" | "array_upper" | "cardinality" | "array_append", 1 | 2) => {
                return self.array_function(name, arguments, node).map(Some);
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the sequence that a literal names. The sequence must be known when the statement is bound.
    fn sequence_of(&self, name: Typed, node: &SyntaxNode) -> Result<catalog::TableId, StatementError> {
        let Typed::Literal(name) = name else {
            return Err(self.unsupported(node, "a sequence name that is not a literal"));
        };
        let plain = name.strip_prefix("public.").unwrap_or(&name).replace('"', "");
        let table = self.schema.catalog().table(&plain);
        match table {
            Ok(table) if table.sequence.is_some() => Ok(table.id),
            Ok(_) => Err(self.error(node, SqlError::new("42809", format!("\"{name}\" is not a sequence")))),
            Err(_) => {
                let message = format!("relation \"{name}\" does not exist");
                Err(self.error(node, SqlError::new("42P01", message)))
            }
        }
    }

    /// Returns a value as text, as it is printed. It differs from a cast for booleans.
    pub(crate) fn as_printed(&self, value: Typed, node: &SyntaxNode) -> Result<Expression, StatementError> {
        match value {
            Typed::Known(value, Type::Scalar(ScalarType::Boolean)) => {
                let is_false = Expression::Not(Box::new(value.clone()));
                let branches = vec![(value, Expression::text("t")), (is_false, Expression::text("f"))];
                Ok(fold(Expression::Case { branches, otherwise: Box::new(Expression::NULL) }))
            }
            other => self.coerce(other, ScalarType::Text.into(), true, node),
        }
    }

    fn number_function(
        &self,
        value: Typed,
        digits: Option<Typed>,
        node: &SyntaxNode,
        choose: impl FnOnce(ScalarType) -> (Function, ScalarType),
    ) -> Result<Typed, StatementError> {
        let (value, ty) = self.settle(value, Some(ScalarType::Double.into()), node)?;
        let Some(ty) = ty.scalar().filter(|ty| ty.is_number()) else {
            return Err(self.error(node, SqlError::new("42883", format!("type {ty} is no number"))));
        };
        let (function, result) = choose(ty);
        let mut arguments = vec![value];
        if let Some(digits) = digits {
            arguments.push(self.coerce(digits, ScalarType::Integer.into(), false, node)?);
        }
        Ok(call(function, arguments, result))
    }

    fn array_function(
        &self,
        name: &str,
        mut arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Typed::Known(array, ty @ Type::Array(element)) = arguments.remove(0) else {
            return Err(self.error(node, SqlError::new("42804", format!("{name} takes an array"))));
        };
        match (name, arguments.pop()) {
            ("cardinality", None) => Ok(call(Function::Cardinality, vec![array], ScalarType::Integer)),
            // Arrays begin at 1.
            ("array_length" | "array_upper", Some(dimension)) => {
                let dimension = self.coerce(dimension, ScalarType::Integer.into(), false, node)?;
                Ok(call(Function::ArrayLength, vec![array, dimension], ScalarType::Integer))
            }
            ("array_append", Some(value)) => {
                let value = self.coerce(value, element.into(), false, node)?;
                let function = Function::ArrayAppend;
                Ok(Typed::Known(Expression::Function { function, arguments: vec![array, value] }, ty))
            }
            _ => Err(self.error(node, SqlError::new("42883", format!("{name} rejects these arguments")))),
        }
    }

    /// Lifts a call of a function of the schema: it becomes a statement before the current one, and its
    /// result a register.
    fn lift_call(
        &mut self,
        function: &Arc<Procedure>,
        arguments: Vec<Option<Typed>>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if self.queries.applied.is_some() {
            return self.apply_call(function, arguments, node);
        }
        if self.lifted.is_none() {
            let what = format!("a call of {} in this context", function.name);
            return Err(self.unsupported(node, &what));
        }
        let arguments = self.call_arguments(function, arguments, node)?;
        let Some((_, ty)) = function.result else {
            return Err(self.unsupported(node, "a procedure in an expression"));
        };
        let target = self.new_register(ty);
        self.note_call(function);
        let outputs = vec![(target, Cast::Same)];
        if let Some(lifted) = &mut self.lifted {
            lifted.push(Statement::Call { procedure: Arc::clone(function), arguments, outputs });
        }
        Ok(Typed::Known(Expression::Register(target), ty))
    }

    /// Binds a function call in a query: it is called for each row, before the expression is evaluated.
    fn apply_call(
        &mut self,
        function: &Arc<Procedure>,
        arguments: Vec<Option<Typed>>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let arguments = self.call_arguments(function, arguments, node)?;
        let Some((_, ty)) = function.result else {
            return Err(self.unsupported(node, "a procedure in an expression"));
        };
        let target = self.new_register(ty);
        self.note_call(function);
        let procedure = Arc::clone(function);
        let applied = self.queries.applied.get_or_insert_default();
        applied.push(Applied::Call { procedure, arguments, target });
        Ok(Typed::Known(Expression::Register(target), ty))
    }

    /// Transfers the properties of a called procedure to its caller.
    pub(crate) fn note_call(&mut self, procedure: &Procedure) {
        self.callees.insert(procedure.name.clone());
        self.uses_timestamp |= procedure.uses_timestamp;
        self.uses_seed |= procedure.uses_seed;
        self.writes |= !procedure.read_only;
        if procedure.by_value.is_some() {
            self.log_by_value(ByValueCause::Callee(procedure.name.clone()));
        }
        self.ends_transactions |= procedure.ends_transactions;
    }

    /// Binds a CALL of a procedure.
    pub(crate) fn bind_call_statement(
        &mut self,
        call: &ast::Call,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = call.syntax();
        let path = self.part(call.procedure_name_ref().and_then(|name| name.path_ref()), node)?;
        let name = crate::types::last_name(&path);
        let Some(procedure) = self.schema.procedure(&name).cloned() else {
            let message = format!("procedure {name} does not exist");
            return Err(self.error(node, SqlError::new("42883", message)));
        };
        // As in PostgreSQL, CALL has an argument for every parameter: a variable for each output.
        let all: Vec<_> = procedure.parameters.iter().collect();
        let placed = self.placed_arguments(&procedure, &all, call.arg_list(), node)?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (parameter, argument) in procedure.parameters.iter().zip(&placed) {
            let Some(argument) = argument else {
                if parameter.is_input() {
                    inputs.push(None);
                }
                continue;
            };
            let bound = self.bind(argument)?;
            if parameter.is_output() {
                let variable = match &bound {
                    Typed::Known(Expression::Register(register), Type::Scalar(ty)) => Some((*register, *ty)),
                    _ => None,
                };
                let Some((register, ty)) = variable else {
                    let message = format!("parameter \"{}\" needs a variable to write to", parameter.name);
                    return Err(self.error(argument.syntax(), SqlError::new("42601", message)));
                };
                let cast = Cast::between(parameter.ty.element(), ty, false).ok_or_else(|| {
                    let message = format!("parameter \"{}\" has another type", parameter.name);
                    self.error(argument.syntax(), SqlError::new("42804", message))
                })?;
                outputs.push((register, cast));
            }
            if parameter.is_input() {
                inputs.push(Some(bound));
            }
        }
        let arguments = self.call_arguments(&procedure, inputs, node)?;
        self.note_call(&procedure);
        out.push(Statement::Call { procedure, arguments, outputs });
        Ok(())
    }
}

fn is_decimal(argument: &Typed) -> bool {
    matches!(argument, Typed::Known(_, Type::Scalar(ScalarType::AnyNumeric | ScalarType::Numeric { .. })))
}

fn is_double(argument: &Typed) -> bool {
    matches!(argument, Typed::Known(_, Type::Scalar(ScalarType::Double)))
}

fn is_bytea(argument: &Typed) -> bool {
    matches!(argument, Typed::Known(_, Type::Scalar(ScalarType::Bytea)))
}

fn call(function: Function, arguments: Vec<Expression>, result: ScalarType) -> Typed {
    Typed::Known(fold(Expression::Function { function, arguments }), result.into())
}

fn child_expressions(node: &SyntaxNode) -> Vec<ast::Expr> {
    node.children().filter_map(ast::Expr::cast).collect()
}
