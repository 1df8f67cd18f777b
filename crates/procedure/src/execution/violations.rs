//! Rows that violate a constraint of their table, and the errors as PostgreSQL words them.
//!
//! Not here: references to other tables (`foreign_keys`).

use crate::{Check, CheckOwner, Conflict, DataAccess, Failure, Machine, SqlError};
use catalog::{Arena, Datum, Table};

/// The constraint that a row violates.
#[derive(Clone, Copy, Debug)]
pub enum Violated<'a> {
    /// NOT NULL of a column.
    NotNull(usize),
    /// A CHECK constraint of the table or of a column's domain, NOT NULL of the domain, or the condition of a
    /// view.
    Check(&'a Check),
    /// A unique index, by its position in the table.
    Unique(usize),
}

impl Violated<'_> {
    /// Returns the first of some columns that has NULL although it must not.
    #[inline]
    pub(crate) fn by_null(table: &Table, values: impl IntoIterator<Item = (usize, Datum)>) -> Option<Self> {
        let is_violated =
            |(column, value): &(usize, Datum)| value.is_null() && !table.columns[*column].nullable;
        values.into_iter().find(is_violated).map(|(column, _)| Self::NotNull(column))
    }

    /// Returns the error of a row.
    #[cold]
    pub fn error(self, table: &Table, row: &[Datum], arena: &Arena) -> SqlError {
        let relation = table.short_name();
        let failing_row = || format!("Failing row contains {}.", table.row_text(row, arena));
        match self {
            Self::NotNull(column) => {
                let name = &table.columns[column].name;
                let message = format!(
                    "null value in column \"{name}\" of relation \"{relation}\" violates not-null constraint"
                );
                SqlError::new("23502", message).with_column(table, name).with_detail(failing_row())
            }
            Self::Check(check) => {
                if let Some(error) = check.domain_error() {
                    return error;
                }
                if let Some(error) = check.partition_error(table, row, arena) {
                    return error;
                }
                let name = &check.name;
                if check.owner == CheckOwner::View {
                    let message = format!("new row violates check option for view \"{name}\"");
                    return SqlError::new("44000", message).with_detail(failing_row());
                }
                let message =
                    format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
                SqlError::new("23514", message).with_constraint(table, name).with_detail(failing_row())
            }
            Self::Unique(index) => {
                let index = &table.indexes[index];
                let key: Vec<Datum> = index.columns.iter().map(|column| row[*column]).collect();
                let key = table.key_text(&index.columns, &key, arena);
                let name = table.short_constraint(&index.name);
                let message = format!("duplicate key value violates unique constraint \"{name}\"");
                SqlError::new("23505", message)
                    .with_constraint(table, &index.name)
                    .with_detail(format!("{key} already exists."))
            }
        }
    }

    /// Returns the error of changes to a row. Reads the row again, because an update reads only the columns
    /// that it needs.
    #[cold]
    pub(crate) fn error_of_changes<D: DataAccess>(
        self,
        table: &Table,
        row: D::Row,
        changes: &[(usize, Datum)],
        machine: &mut Machine,
        data: &mut D,
    ) -> Failure {
        let arena = &mut machine.frame.arena;
        let mut whole = vec![Datum::Null; table.columns.len()];
        match data.read(row, table.layout.slots(), arena, &mut whole) {
            Ok(true) => {}
            // Another transaction has deleted the row since this statement found it.
            Ok(false) => return Conflict::Read.into(),
            Err(failure) => return failure,
        }
        changes.iter().for_each(|(column, value)| whole[*column] = *value);
        self.error(table, &whole, arena).into()
    }
}

impl Check {
    /// Returns the error of a row that leaves its partition, or finds none; `None` for any other constraint.
    #[cold]
    fn partition_error(&self, table: &Table, row: &[Datum], arena: &Arena) -> Option<SqlError> {
        let (schema, name) = self.name.rsplit_once('.').unwrap_or(("public", self.name.as_str()));
        let (message, detail) = match &self.owner {
            CheckOwner::Partition => (
                format!("new row for relation \"{name}\" violates partition constraint"),
                format!("Failing row contains {}.", table.row_text(row, arena)),
            ),
            CheckOwner::Divided(columns) => {
                let key: Vec<Datum> = columns.iter().map(|column| row[*column]).collect();
                let (names, values) = table.names_and_values(columns, &key, arena);
                let detail = format!("Partition key of the failing row contains ({names}) = ({values}).");
                (format!("no partition of relation \"{name}\" found for row"), detail)
            }
            CheckOwner::Table | CheckOwner::Domain(_) | CheckOwner::DomainOf(_) | CheckOwner::View => {
                return None;
            }
        };
        Some(SqlError::new("23514", message).with_detail(detail).with_relation(schema, name))
    }

    /// Returns the error of a row of a table that violates a new constraint of a column's domain; `None` for
    /// any other constraint.
    #[cold]
    pub fn added_error(&self, table: &Table) -> Option<SqlError> {
        let CheckOwner::DomainOf(column) = self.owner else { return None };
        let (column, table_name) = (&table.columns[column].name, table.short_name());
        let (code, what) = match &*self.name {
            "" => ("23502", "null values"),
            _ => ("23514", "values that violate the new constraint"),
        };
        let message = format!("column \"{column}\" of table \"{table_name}\" contains {what}");
        Some(SqlError::new(code, message).with_column(table, column))
    }

    /// Returns the error of a value that violates a constraint of a domain; `None` for any other one.
    #[cold]
    pub fn domain_error(&self) -> Option<SqlError> {
        let CheckOwner::Domain(domain) = &self.owner else { return None };
        let (schema, name) = domain.rsplit_once('.').unwrap_or(("public", domain.as_str()));
        let error = match &*self.name {
            "" => SqlError::new("23502", format!("domain {name} does not allow null values")),
            constraint => {
                let message = format!("value for domain {name} violates check constraint \"{constraint}\"");
                SqlError::new("23514", message)
            }
        };
        Some(error.with_domain(schema, name, &self.name))
    }
}

/// Returns the first CHECK constraint that the row in the registers violates.
pub(crate) fn violated_check<'a>(
    checks: &'a [Check],
    machine: &mut Machine,
) -> Result<Option<Violated<'a>>, Failure> {
    for check in checks {
        if check.condition.evaluate(machine)? == Datum::Int(0) {
            return Ok(Some(Violated::Check(check)));
        }
    }
    Ok(None)
}

/// Returns the first constraint that changes violate; the registers have the changed row.
#[inline]
pub(crate) fn violated_by_changes<'a>(
    table: &Table,
    changes: &[(usize, Datum)],
    checks: &'a [Check],
    machine: &mut Machine,
) -> Result<Option<Violated<'a>>, Failure> {
    match Violated::by_null(table, changes.iter().copied()) {
        None => violated_check(checks, machine),
        by_null => Ok(by_null),
    }
}

/// Checks a whole row against NOT NULL.
#[inline]
pub(crate) fn require_values(table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
    match Violated::by_null(table, row.iter().copied().enumerate()) {
        None => Ok(()),
        Some(violated) => Err(violated.error(table, row, arena).into()),
    }
}
