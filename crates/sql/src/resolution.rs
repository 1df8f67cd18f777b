//! The choice of a function or operator by the types of its arguments.
//! Source: PostgreSQL 15's documentation, "Operator Type Resolution" and "Function Type Resolution"; its
//! `func_select_candidate` and `check_generic_type_consistency`.

use catalog::{ScalarType, Type};
use procedure::{BuiltIn, CastContext, Kind, Operator};

/// An entry of the table of functions or operators that may be chosen.
pub(crate) trait Candidate {
    /// Returns the type of the argument at a position.
    fn kind(&self, position: usize) -> Kind;
}

impl Candidate for &BuiltIn {
    fn kind(&self, position: usize) -> Kind {
        self.argument(position).unwrap_or(Kind::Void)
    }
}

impl Candidate for &Operator {
    fn kind(&self, position: usize) -> Kind {
        self.operands[position]
    }
}

/// The chosen candidate, or why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resolved {
    /// The index of the candidate.
    One(usize),
    /// No candidate takes the arguments.
    None,
    /// Several candidates take them equally well.
    Several,
}

/// Returns the candidate that takes exactly these types.
pub(crate) fn exact(candidates: &[impl Candidate], arguments: &[Option<Type>]) -> Option<usize> {
    let is_exact = |candidate: &_| {
        let is_same = |(position, argument): (usize, &Option<Type>)| {
            argument.is_some_and(|argument| is_same(Candidate::kind(candidate, position), argument))
        };
        arguments.iter().enumerate().all(is_same)
    };
    candidates.iter().position(is_exact)
}

/// Chooses among candidates, by the types that they take. An argument of no known type, such as a literal, is
/// `None`; every candidate takes this number of arguments.
pub(crate) fn resolve(candidates: &[impl Candidate], arguments: &[Option<Type>]) -> Resolved {
    if let Some(position) = exact(candidates, arguments) {
        return Resolved::One(position);
    }
    let mut left: Vec<Vec<Kind>> = Vec::new();
    let mut positions: Vec<usize> = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        let kinds: Vec<Kind> = (0..arguments.len()).map(|at| candidate.kind(at)).collect();
        if takes(&kinds, arguments) {
            left.push(kinds);
            positions.push(position);
        }
    }
    let mut best: Vec<usize> = (0..left.len()).collect();
    // Each rule keeps the best candidates, unless it keeps none.
    keep_most(&mut best, |index| count(&left[index], arguments, is_same));
    keep_most(&mut best, |index| {
        count(&left[index], arguments, |kind, ty| is_same(kind, ty) || is_preferred_for(kind, ty))
    });
    if best.len() > 1 {
        keep_by_category(&mut best, &left, arguments);
    }
    if best.len() > 1 {
        keep_by_known_type(&mut best, &left, arguments);
    }
    match best[..] {
        [] => Resolved::None,
        [only] => Resolved::One(positions[only]),
        _ => Resolved::Several,
    }
}

/// Returns the type for which the polymorphic kinds of a candidate stand; `None` if it has none, or if their
/// arguments do not agree.
pub(crate) fn element_of(kinds: &[Kind], arguments: &[Option<Type>]) -> Option<ScalarType> {
    let mut common: Option<ScalarType> = None;
    for (kind, argument) in kinds.iter().zip(arguments) {
        let argument = match (kind, argument) {
            (Kind::AnyElement | Kind::AnyCompatible | Kind::AnyEnum, Some(Type::Scalar(scalar))) => *scalar,
            (Kind::AnyArray | Kind::AnyCompatibleArray, Some(Type::Array(scalar))) => *scalar,
            _ => continue,
        };
        let is_compatible = matches!(kind, Kind::AnyCompatible | Kind::AnyCompatibleArray);
        common = Some(match common {
            None => argument,
            Some(common) if common == argument => argument,
            Some(common) if common.base() == argument.base() => argument.base(),
            Some(common) if is_compatible => wider(common, argument)?,
            Some(_) => return None,
        });
    }
    let is_polymorphic = kinds.iter().any(|kind| kind.is_polymorphic());
    // A literal is not cut or rounded to the length or scale of another argument.
    let is_open =
        kinds.iter().zip(arguments).any(|(kind, argument)| kind.is_polymorphic() && argument.is_none());
    let common = if is_open { common.map(ScalarType::base) } else { common };
    common.or_else(|| is_polymorphic.then_some(ScalarType::Text))
}

/// Returns the common type of two types; `None` if there is none.
/// Source: PostgreSQL 15, `select_common_type`.
pub(crate) fn wider(first: ScalarType, second: ScalarType) -> Option<ScalarType> {
    if first == second {
        return Some(first);
    }
    let (a, b) = (first.base(), second.base());
    if !have_one_category(a, b) {
        return None;
    }
    let becomes = |from, to| CastContext::Implicit.allows(from, to);
    Some(if !is_preferred(a) && becomes(a, b) && !becomes(b, a) { b } else { a })
}

/// The category of a type. A value is converted to the preferred type of its category rather than to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Category {
    Array,
    Boolean,
    DateTime,
    Numeric,
    String,
    User,
    Polymorphic,
}

fn category(kind: Kind) -> Category {
    match kind {
        Kind::Of(Type::Array(_)) => Category::Array,
        Kind::Of(Type::Scalar(ty)) => match ty {
            ScalarType::Boolean => Category::Boolean,
            ScalarType::Date | ScalarType::Time => Category::DateTime,
            _ if ty.is_timestamp() => Category::DateTime,
            _ if ty.is_number() || ty == ScalarType::Oid => Category::Numeric,
            _ if ty.is_text() => Category::String,
            _ => Category::User,
        },
        Kind::Oid | Kind::Relation => Category::Numeric,
        _ => Category::Polymorphic,
    }
}

/// Returns whether two types have one category.
fn have_one_category(a: ScalarType, b: ScalarType) -> bool {
    // Each of the remaining types counts as a separate category, because no cast converts between them.
    let category = |ty: ScalarType| category(Kind::Of(ty.into()));
    category(a) == category(b) && (category(a) != Category::User || a == b)
}

/// Returns whether a type is the preferred one of its category.
fn is_preferred(ty: ScalarType) -> bool {
    use ScalarType::{Boolean, Double, Oid, Text, Timestamptz};
    matches!(ty, Boolean | Double | Oid | Text | Timestamptz)
}

fn is_preferred_kind(kind: Kind) -> bool {
    matches!(kind, Kind::Of(Type::Scalar(ty)) if is_preferred(ty)) || kind == Kind::Oid
}

fn is_preferred_for(kind: Kind, argument: Type) -> bool {
    is_preferred_kind(kind) && category(kind) == category(Kind::Of(argument))
}

fn base(ty: Type) -> Type {
    match ty {
        Type::Scalar(scalar) => Type::Scalar(scalar.base()),
        Type::Array(scalar) => Type::Array(scalar.base()),
    }
}

fn is_same(kind: Kind, argument: Type) -> bool {
    kind == Kind::Of(base(argument))
}

/// Returns whether a candidate takes the arguments, after implicit conversions.
fn takes(kinds: &[Kind], arguments: &[Option<Type>]) -> bool {
    let has_polymorphic = kinds.iter().any(|kind| kind.is_polymorphic());
    let mut pairs = kinds.iter().zip(arguments);
    pairs.all(|(kind, argument)| argument.is_none_or(|argument| accepts(*kind, argument)))
        && (!has_polymorphic || element_of(kinds, arguments).is_some())
}

fn accepts(kind: Kind, argument: Type) -> bool {
    match (kind, argument) {
        (Kind::Of(to), from) => CastContext::Implicit.allows_type(from, to),
        (Kind::AnyArray | Kind::AnyCompatibleArray, Type::Array(_)) => true,
        (Kind::AnyArray | Kind::AnyCompatibleArray, Type::Scalar(_)) => false,
        (Kind::AnyElement | Kind::AnyCompatible | Kind::AnyNonArray, Type::Scalar(_)) => true,
        (Kind::AnyElement | Kind::AnyCompatible | Kind::AnyNonArray, Type::Array(_)) => false,
        (Kind::AnyEnum, own) => own.scalar().is_some_and(|own| own.enumeration().is_some()),
        (Kind::Any | Kind::AnyAsJson, _) => true,
        (Kind::Oid | Kind::Relation, Type::Scalar(from)) => from.is_integer() || from == ScalarType::Oid,
        (Kind::Oid | Kind::Relation | Kind::Record | Kind::Void, _) => false,
    }
}

/// Returns the number of known arguments for which `is_good` accepts the type that a candidate takes.
fn count(kinds: &[Kind], arguments: &[Option<Type>], is_good: impl Fn(Kind, Type) -> bool) -> usize {
    let pairs = kinds.iter().zip(arguments);
    pairs.filter(|(kind, argument)| argument.is_some_and(|argument| is_good(**kind, argument))).count()
}

/// Keeps the candidates with the greatest count.
fn keep_most(left: &mut Vec<usize>, count: impl Fn(usize) -> usize) {
    let most = left.iter().map(|position| count(*position)).max();
    left.retain(|position| Some(count(*position)) == most);
}

/// Keeps the candidates that take an unknown argument as a string, if a candidate does. Otherwise keeps those
/// that take it in the category on which all candidates agree.
fn keep_by_category(left: &mut Vec<usize>, candidates: &[Vec<Kind>], arguments: &[Option<Type>]) {
    let mut kept = left.clone();
    for (position, _) in arguments.iter().enumerate().filter(|(_, argument)| argument.is_none()) {
        let all: Vec<Kind> = left.iter().map(|index| candidates[*index][position]).collect();
        let first = category(all[0]);
        let chosen = if all.iter().any(|kind| category(*kind) == Category::String) {
            Category::String
        } else if all.iter().all(|kind| category(*kind) == first) {
            first
        } else {
            return;
        };
        let has_preferred = all.iter().any(|kind| category(*kind) == chosen && is_preferred_kind(*kind));
        kept.retain(|index| {
            let kind = candidates[*index][position];
            category(kind) == chosen && (!has_preferred || is_preferred_kind(kind))
        });
    }
    if !kept.is_empty() {
        *left = kept;
    }
}

/// If all known arguments have one type, keeps the candidates that take the unknown ones as that type, too.
fn keep_by_known_type(left: &mut Vec<usize>, candidates: &[Vec<Kind>], arguments: &[Option<Type>]) {
    let mut known = arguments.iter().flatten().map(|ty| base(*ty));
    let Some(first) = known.next() else { return };
    if known.any(|other| other != first) || arguments.iter().all(Option::is_some) {
        return;
    }
    let supposed = vec![Some(first); arguments.len()];
    let kept: Vec<usize> =
        left.iter().copied().filter(|index| takes(&candidates[*index], &supposed)).collect();
    if let [only] = kept[..] {
        *left = vec![only];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScalarType::{Char, Date, Double, Integer, SmallInt, Text, Timestamp, Varchar};

    fn resolved(name: &str, arguments: &[Option<ScalarType>]) -> String {
        let named =
            procedure::built_ins_named(name).iter().filter(|built_in| built_in.takes(arguments.len()));
        let named: Vec<&BuiltIn> = named.copied().collect();
        let types: Vec<_> = arguments.iter().map(|ty| ty.map(Type::Scalar)).collect();
        let shown =
            |built_in: &BuiltIn| built_in.arguments.iter().map(Kind::to_string).collect::<Vec<_>>().join(",");
        match resolve(&named, &types) {
            Resolved::One(position) => shown(named[position]),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn arguments_choose_what_postgresql_chooses() {
        let numeric = ScalarType::Numeric { precision: 5, scale: 2 };
        let cases: [(&str, &[Option<ScalarType>], &str); 14] = [
            ("round", &[Some(Integer)], "double precision"),
            ("round", &[Some(numeric)], "numeric"),
            ("round", &[Some(Double), Some(Integer)], "None"),
            ("abs", &[Some(SmallInt)], "smallint"),
            ("abs", &[None], "double precision"),
            ("power", &[Some(Integer), Some(numeric)], "numeric,numeric"),
            ("power", &[Some(Integer), Some(Integer)], "double precision,double precision"),
            ("length", &[Some(Varchar(3))], "text"),
            ("length", &[Some(Char(3))], "text"),
            ("length", &[None], "text"),
            ("lower", &[Some(Integer)], "None"),
            ("date_trunc", &[None, Some(Date)], "text,timestamp with time zone"),
            ("date_trunc", &[Some(Text), Some(Timestamp)], "text,timestamp without time zone"),
            ("to_hex", &[Some(SmallInt)], "Several"),
        ];
        for (name, arguments, expected) in cases {
            assert_eq!(resolved(name, arguments), expected, "{name}({arguments:?})");
        }
    }
}
