//! `nextval`, `currval`, `setval` and `lastval`.
//!
//! A literal names its sequence when the statement is bound. A parameter of a client's statement names it
//! when the statement runs: the expression has a branch for each name of each sequence.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::oids::table_oid;
use crate::quoted::written_path;
use crate::roles::acl;
use crate::subject::Subject;
use catalog::{Datum, ScalarType, TableId, Type};
use procedure::{
    ByValueCause, CastContext, CompareClass, CompareOperator, Expression, Function, ObjectKind,
    SequenceFunction, SqlError,
};
use squawk_syntax::SyntaxNode;

/// A function of a sequence, with the privileges of which it needs one.
struct OfSequence {
    function: fn(TableId) -> Function,
    privileges: acl::Privileges,
}

impl Binder<'_> {
    /// Binds `nextval`, `currval`, `setval` and `lastval`.
    pub(crate) fn sequence_function(
        &mut self,
        function: SequenceFunction,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.log_by_value(ByValueCause::Sequence);
        let mut arguments = arguments.into_iter();
        let of = |function, privileges| OfSequence { function, privileges };
        let function = match function {
            SequenceFunction::LastVal => {
                let last = Expression::Function { function: Function::LastNumber, arguments: Vec::new() };
                return Ok(Typed::Known(last, ScalarType::BigInt.into()));
            }
            SequenceFunction::NextVal => of(Function::NextNumber, acl::USAGE | acl::UPDATE),
            SequenceFunction::CurrVal => of(Function::CurrentNumber, acl::USAGE | acl::SELECT),
            SequenceFunction::SetVal => of(Function::SetNumber, acl::UPDATE),
        };
        let name = arguments.next().unwrap_or(Typed::Null);
        let mut values = Vec::new();
        if let Some(number) = arguments.next() {
            values.push(self.coerce(number, ScalarType::BigInt.into(), CastContext::Implicit, node)?);
            values.push(match arguments.next() {
                Some(is_called) => {
                    self.coerce(is_called, ScalarType::Boolean.into(), CastContext::Implicit, node)?
                }
                None => Expression::Constant(Datum::boolean(true)),
            });
        }
        let called = match self.parameter_of_client(&name, node)? {
            Some(name) => self.of_named_sequence(&function, name, &values, node)?,
            None => {
                let id = self.sequence_of(name, node)?;
                if let Some(table) = self.schema.catalog().tables().find(|table| table.id == id) {
                    self.need_object(&table.name, function.privileges);
                }
                Expression::Function { function: (function.function)(id), arguments: values }
            }
        };
        Ok(Typed::Known(called, ScalarType::BigInt.into()))
    }

    /// Returns a parameter of a client's statement as a text; `None` for any other expression.
    fn parameter_of_client(
        &self,
        name: &Typed,
        node: &SyntaxNode,
    ) -> Result<Option<Expression>, StatementError> {
        let count = self.parameters.borrow().len();
        let text = ScalarType::Text.into();
        match name {
            Typed::Parameter(_) => self.coerce(name.clone(), text, CastContext::Implicit, node).map(Some),
            Typed::Known(Expression::Register(register), Type::Scalar(ScalarType::Text))
                if (register.0 as usize) < count =>
            {
                Ok(Some(Expression::Register(*register)))
            }
            _ => Ok(None),
        }
    }

    /// Calls a function of the sequence that a text names. Sequences for which the acting role lacks the
    /// privileges are not found.
    fn of_named_sequence(
        &mut self,
        called: &OfSequence,
        name: Expression,
        values: &[Expression],
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        self.reads_catalog = true;
        self.log_by_value(ByValueCause::Moment);
        let text = ScalarType::Text.into();
        // As in PostgreSQL, a name without quotes is one in lower case.
        let folded = self.call_built_in("lower", vec![Typed::Known(name.clone(), text)], node)?;
        let folded = self.coerce(folded, text, CastContext::Implicit, node)?;
        let (schema, acting) = (self.schema, self.schema.acting);
        let spellings = schema.object_spellings("regclass");
        let mut branches = Vec::new();
        for sequence in schema.catalog().tables().filter(|table| table.sequence.is_some()) {
            let subject = Subject::Relation(sequence.name.clone());
            if schema.privileges_on(acting, &subject) & called.privileges == 0 {
                continue;
            }
            let mut add = |given: &Expression, spelling: &str| {
                let operands = Box::new([given.clone(), Expression::text(spelling)]);
                let (operator, class) = (CompareOperator::Equal, CompareClass::Bytes);
                let condition = Expression::Compare { operator, class, operands };
                let function = (called.function)(sequence.id);
                branches.push((condition, Expression::Function { function, arguments: values.to_vec() }));
            };
            for (_, spelling) in spellings.iter().filter(|known| known.0 == table_oid(sequence)) {
                if spelling.contains('"') {
                    add(&name, spelling);
                } else {
                    add(&folded, spelling);
                    add(&name, &format!("\"{}\"", spelling.replace('.', "\".\"")));
                }
            }
        }
        let function = Function::NumberOf(ObjectKind::Relation);
        let missing = Expression::Function { function, arguments: vec![name] };
        match branches.is_empty() {
            true => Ok(missing),
            false => Ok(Expression::Case { branches, otherwise: Box::new(missing) }),
        }
    }

    /// Returns the sequence that a literal names. The sequence must be known when the statement is bound.
    fn sequence_of(&self, name: Typed, node: &SyntaxNode) -> Result<TableId, StatementError> {
        let name = match name {
            Typed::Literal(name) => name,
            Typed::Known(Expression::Bytes(name), Type::Scalar(ScalarType::Text)) => {
                String::from_utf8_lossy(&name).into_owned()
            }
            _ => {
                return Err(
                    self.unsupported(node, "a sequence name that is neither a literal nor a parameter")
                );
            }
        };
        let path = written_path(&name).unwrap_or_else(|| name.clone());
        let catalog = self.schema.catalog();
        let found = catalog.table(path.strip_prefix("public.").unwrap_or(&path));
        // Defaults of older versions name their sequence without quotes.
        match found.or_else(|_| catalog.table(&name)) {
            Ok(table) if table.sequence.is_some() => Ok(table.id),
            Ok(_) => Err(self.error(node, SqlError::new("42809", format!("\"{name}\" is not a sequence")))),
            Err(_) => {
                let message = format!("relation \"{name}\" does not exist");
                let missing = self.schema.missing_schema_of(&path);
                Err(self.error(node, missing.unwrap_or_else(|| SqlError::new("42P01", message))))
            }
        }
    }
}
