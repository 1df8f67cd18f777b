//! Whether the columns of a query are those of the rows that a PL/pgSQL function returns.
//! Source: PostgreSQL 15, `convert_tuples_by_position`.

use catalog::{ScalarType, Type};

/// Returns PostgreSQL's detail of the error if the columns of a query are not those that a function returns.
/// Their types must be the same; the limits of types are not compared.
pub fn mismatch(found: &[Type], expected: &[Type]) -> Option<String> {
    let is_number =
        |ty: Type| ty.scalar().is_some_and(|scalar| scalar.is_integer() || scalar == ScalarType::Oid);
    for (position, (from, to)) in found.iter().zip(expected).enumerate() {
        let (from, to) = (from.base(), to.base());
        // The numbers of objects are kept as integers.
        let is_object = [from, to].contains(&ScalarType::Oid.into()) && is_number(from) && is_number(to);
        if from != to && !is_object {
            return Some(format!(
                "Returned type {from} does not match expected type {to} in column {}.",
                position + 1
            ));
        }
    }
    (found.len() != expected.len()).then(|| {
        format!(
            "Number of returned columns ({}) does not match expected column count ({}).",
            found.len(),
            expected.len()
        )
    })
}
