//! Partitions of a hash: their bounds, and the condition of their rows.
//! Source: PostgreSQL 15, `check_new_partition_bound` and `satisfies_hash_partition` in partbounds.c.

use super::{Bound, PartitionKey, Strategy};
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::full_names::short;
use crate::quoted::quoted;
use crate::schema::Schema;
use crate::source::At;
use catalog::{Datum, ScalarType, Type};
use procedure::{CastContext, Expression, Function, SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The seed of the hashes by which PostgreSQL places rows.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// MODULUS and REMAINDER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Share {
    pub(crate) modulus: u32,
    pub(crate) remainder: u32,
}

/// Returns the function that hashes the values of a type; `None` for a type that no hash divides.
fn hash_of(ty: Type) -> Option<&'static str> {
    Some(match ty.scalar()? {
        ScalarType::SmallInt | ScalarType::Integer | ScalarType::Date | ScalarType::Boolean => {
            "hashint4extended"
        }
        ScalarType::BigInt
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::ShortTimestamp { .. }
        | ScalarType::Time => "hashint8extended",
        ScalarType::Text | ScalarType::Varchar(_) => "hashtextextended",
        ScalarType::Char(_) => "hashbpcharextended",
        ScalarType::Uuid => "uuid_hash_extended",
        ScalarType::Numeric { .. } | ScalarType::AnyNumeric => "hash_numeric_extended",
        _ => return None,
    })
}

/// Returns whether a hash can divide the values of a type.
pub(super) fn is_hashed(ty: Type) -> bool {
    hash_of(ty).is_some()
}

impl Schema {
    /// Reads FOR VALUES WITH, and refuses it unless it fits beside the other partitions of its parent.
    pub(super) fn read_share(
        &self,
        written: &ast::PartitionForValuesWith,
        parent: &str,
        name: &str,
        at: At<'_>,
    ) -> Result<Bound, StatementError> {
        let refuse = |code: &str, message: String| {
            at.source.error_at(at.node.text_range().start().into(), SqlError::new(code, message))
        };
        // The parser refuses other words, and a word that is missing or there twice.
        let number = |word: &str| {
            let mut bounds = written.bounds();
            let is_it = |own: &ast::HashPartitionBound| {
                own.ident_token().is_some_and(|token| token.text().eq_ignore_ascii_case(word))
            };
            let literal = bounds.find(is_it).and_then(|own| own.literal());
            let text = literal.map(|literal| literal.syntax().text().to_string()).unwrap_or_default();
            let value = text.parse::<i32>().ok().and_then(|value| u32::try_from(value).ok());
            value.ok_or_else(|| refuse("42601", format!("syntax error at or near \"{text}\"")))
        };
        let (modulus, remainder) = (number("modulus")?, number("remainder")?);
        let share = Share { modulus, remainder };
        if let Some(message) = share.refusal() {
            return Err(refuse("42P16", message.into()));
        }
        match self.conflict_of(share, parent, name) {
            Some(error) => Err(at.source.error_at(at.node.text_range().start().into(), error)),
            None => Ok(Bound::Hash(share)),
        }
    }

    /// Returns the error of a share that does not fit beside the other ones of a relation.
    fn conflict_of(&self, new: Share, parent: &str, name: &str) -> Option<SqlError> {
        let share = |(name, partition): (&String, &std::sync::Arc<super::Partition>)| match partition.bound {
            Bound::Hash(share) => Some((share, name.clone())),
            _ => None,
        };
        let mut known: Vec<(Share, String)> = self.partitions.children(parent).filter_map(share).collect();
        known.sort();
        let before = known.iter().rev().find(|(own, _)| *own <= new);
        let behind = known.iter().find(|(own, _)| *own > new);
        let modulus = new.modulus;
        let detail = match (before, behind) {
            (Some((own, name)), _) if !modulus.is_multiple_of(own.modulus) => Some(format!(
                "The new modulus {modulus} is not divisible by {}, the modulus of existing partition \"{}\".",
                own.modulus,
                short(name)
            )),
            (_, Some((own, name))) if !own.modulus.is_multiple_of(modulus) => Some(format!(
                "The new modulus {modulus} is not a factor of {}, the modulus of existing partition \"{}\".",
                own.modulus,
                short(name)
            )),
            _ => None,
        };
        if let Some(detail) = detail {
            let message = "every hash partition modulus must be a factor of the next larger modulus";
            return Some(SqlError::new("42P17", message).with_detail(detail));
        }
        let meets = |(own, _): &&(Share, String)| {
            let least = own.modulus.min(modulus);
            own.remainder % least == new.remainder % least
        };
        // The first remainder of the greatest modulus that both take.
        let first = |(own, _): &&(Share, String)| own.remainder.max(new.remainder);
        let (_, other) = known.iter().filter(meets).min_by_key(first)?;
        let message = format!("partition \"{}\" would overlap partition \"{}\"", short(name), short(other));
        Some(SqlError::new("42P17", message))
    }

    /// Returns whether the partitions of a relation take the hashes of all rows.
    pub(super) fn takes_all_hashes(&self, name: &str) -> bool {
        let shares = || {
            self.partitions.children(name).filter_map(|(_, partition)| match partition.bound {
                Bound::Hash(share) => Some(u64::from(share.modulus)),
                _ => None,
            })
        };
        let greatest = shares().max().unwrap_or(1);
        shares().map(|modulus| greatest / modulus).sum::<u64>() == greatest
    }

    /// Returns the condition of the rows of a partition of a hash.
    pub(super) fn condition_of_share(&self, parent: &str, key: &PartitionKey, share: Share) -> String {
        let Share { modulus, remainder } = share;
        let columns: Vec<String> = key.columns.iter().map(|name| quoted(name)).collect();
        let (oid, columns) = (self.number_of_relation(parent), columns.join(", "));
        format!("satisfies_hash_partition('{oid}'::oid, {modulus}, {remainder}, {columns})")
    }
}

impl Share {
    /// Returns the reason why there can be no such share.
    fn refusal(self) -> Option<&'static str> {
        if self.modulus == 0 {
            Some("modulus for hash partition must be an integer value greater than zero")
        } else if self.remainder >= self.modulus {
            Some("remainder for hash partition must be less than modulus")
        } else {
            None
        }
    }
}

impl Binder<'_> {
    /// Binds `satisfies_hash_partition` of a partitioned table's number, MODULUS, REMAINDER and the values of
    /// its key.
    pub(crate) fn satisfies_hash(
        &mut self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let unsupported =
            |binder: &Self| binder.unsupported(node, "satisfies_hash_partition of these arguments");
        let parent = self.number_of_object("regclass", arguments[0].clone(), false, node)?;
        let Expression::Constant(Datum::Int(parent)) = parent else { return Err(unsupported(self)) };
        let schema = self.schema;
        let keys = schema.partitions.keys.iter();
        let mut of_hash = keys.filter(|(_, key)| key.strategy == Strategy::Hash);
        let Some((name, key)) = of_hash.find(|(name, _)| schema.number_of_relation(name) == parent) else {
            return Err(unsupported(self));
        };
        let types = schema.types_of_key(key, schema.partitions.root_of(name));
        if arguments.len() != 3 + types.len() {
            return Err(unsupported(self));
        }
        let mut values = Vec::new();
        for argument in &arguments[1..3] {
            let number =
                self.coerce(argument.clone(), ScalarType::Integer.into(), CastContext::Implicit, node)?;
            values.push(number);
        }
        for (argument, ty) in arguments[3..].iter().zip(types) {
            let value = self.coerce(argument.clone(), ty, CastContext::Implicit, node)?;
            values.push(self.hash_of_value(value, ty, node)?);
        }
        let [entry] = built_ins_named("satisfies_hash_partition") else { return Err(unsupported(self)) };
        let function = Function::BuiltIn { built_in: entry, element: ScalarType::BigInt };
        Ok(Typed::Known(Expression::Function { function, arguments: values }, ScalarType::Boolean.into()))
    }

    fn hash_of_value(
        &mut self,
        value: Expression,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let name = self.part(hash_of(ty), node)?;
        let value = match ty.scalar() {
            Some(ScalarType::Numeric { .. }) => {
                let value = Typed::Known(value, ty);
                self.coerce(value, ScalarType::AnyNumeric.into(), CastContext::Explicit, node)?
            }
            _ => value,
        };
        let entry = self.part(built_ins_named(name).first().copied(), node)?;
        let function = Function::BuiltIn { built_in: entry, element: ScalarType::BigInt };
        let seed = Expression::Constant(Datum::Int(SEED as i64));
        Ok(Expression::Function { function, arguments: vec![value, seed] })
    }
}
