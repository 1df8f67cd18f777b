//! CREATE and ALTER SEQUENCE, SERIAL and IDENTITY. A sequence is a table with one row, which has the last
//! number that was taken.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::roles::rights::namespace_in;
use crate::schema::{Schema, refused};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::types::{last_name, made_name, object_name};
use catalog::{Column, NewIndex, NewTable, ScalarType, Sequence, Table, Type};
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Returns the table of a sequence.
pub(crate) fn sequence_table(name: String, sequence: Sequence) -> NewTable {
    let column = |name: &str, ty| Column { name: name.into(), ty, ..Column::default() };
    let key =
        NewIndex { name: format!("{name}.(row)"), columns: vec![2], unique: true, ..NewIndex::default() };
    NewTable {
        name,
        columns: vec![
            column("last_value", ScalarType::BigInt.into()),
            column("is_called", ScalarType::Boolean.into()),
            column("", ScalarType::Uuid.into()),
        ],
        indexes: vec![key],
        hidden_key: true,
        sequence: Some(sequence),
        ..NewTable::default()
    }
}

/// Returns the default sequence of a type: its numbers from 1 on.
pub(crate) fn sequence_of(ty: ScalarType) -> Sequence {
    let greatest = match ty {
        ScalarType::SmallInt => i64::from(i16::MAX),
        ScalarType::Integer => i64::from(i32::MAX),
        _ => i64::MAX,
    };
    Sequence { ty, start: 1, increment: 1, least: 1, greatest, cycles: false, owner: None, restart: None }
}

/// Returns the table and the column of OWNED BY.
fn owning_column(binder: &Binder<'_>, path: &ast::PathRef) -> Result<(String, String), StatementError> {
    let node = path.syntax();
    let Some(table) = path.qualifier() else {
        let error = SqlError::new("42601", "invalid OWNED BY option");
        let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
        return Err(binder.error(node, error.with_hint(hint)));
    };
    let table = binder.table(&object_name(&table), node)?;
    let column = binder.column_of(&table, &last_name(path), node)?;
    Ok((table.name.clone(), table.columns[column].name.clone()))
}

fn number(
    binder: &Binder<'_>,
    expression: Option<ast::Expr>,
    node: &SyntaxNode,
) -> Result<i64, StatementError> {
    let expression = binder.part(expression, node)?;
    let text: String = binder.source.text_of(expression.syntax()).split_whitespace().collect();
    text.parse().map_err(|_| binder.syntax(expression.syntax(), "an option of a sequence must be an integer"))
}

/// Checks the number of CACHE, which has no effect.
///
/// # Errors
/// `22023`: it is not positive.
fn check_cache(
    binder: &Binder<'_>,
    expression: Option<ast::Expr>,
    node: &SyntaxNode,
) -> Result<(), StatementError> {
    let numbers = number(binder, expression, node)?;
    if numbers > 0 {
        return Ok(());
    }
    let message = format!("CACHE ({numbers}) must be greater than zero");
    Err(binder.error(node, SqlError::new("22023", message)))
}

/// Reads the options of a sequence. A missing option has the default of the type.
pub(crate) fn sequence_options(
    binder: &Binder<'_>,
    options: impl Iterator<Item = ast::SequenceOption>,
    ty: ScalarType,
    node: &SyntaxNode,
) -> Result<Sequence, StatementError> {
    let options: Vec<_> = options.collect();
    let mut ty = ty;
    for option in &options {
        if let ast::SequenceOption::OptionAsType(clause) = option {
            match binder.bind_type(&binder.part(clause.ty(), node)?)? {
                Type::Scalar(scalar) if scalar.is_integer() => ty = scalar,
                _ => {
                    let message = "sequence type must be smallint, integer, or bigint";
                    return Err(binder.error(clause.syntax(), SqlError::new("22023", message)));
                }
            }
        }
    }
    let mut sequence = sequence_of(ty);
    let (mut least, mut greatest, mut start) = (None, None, None);
    for option in options {
        match option {
            ast::SequenceOption::OptionIncrement(clause) => {
                sequence.increment = number(binder, clause.expr(), node)?
            }
            ast::SequenceOption::OptionMinValue(clause) => least = Some(number(binder, clause.expr(), node)?),
            ast::SequenceOption::OptionMaxValue(clause) => {
                greatest = Some(number(binder, clause.expr(), node)?)
            }
            ast::SequenceOption::OptionStart(clause) => start = Some(number(binder, clause.expr(), node)?),
            ast::SequenceOption::OptionCycle(_) => sequence.cycles = true,
            ast::SequenceOption::OptionCache(clause) => check_cache(binder, clause.expr(), node)?,
            ast::SequenceOption::OptionAsType(_)
            | ast::SequenceOption::OptionNoCycle(_)
            | ast::SequenceOption::OptionNoMaxValue(_)
            | ast::SequenceOption::OptionNoMinValue(_)
            | ast::SequenceOption::OptionOwnedBy(_)
            | ast::SequenceOption::OptionSequenceName(_)
            | ast::SequenceOption::OptionLogged(_)
            | ast::SequenceOption::OptionUnlogged(_) => {}
            other => return Err(binder.unsupported(other.syntax(), "this option of a sequence")),
        }
    }
    if sequence.increment == 0 {
        return Err(binder.error(node, SqlError::new("22023", "INCREMENT must not be zero")));
    }
    if sequence.increment < 0 {
        (sequence.least, sequence.greatest) = (-sequence.greatest - 1, -1);
    }
    sequence.least = least.unwrap_or(sequence.least);
    sequence.greatest = greatest.unwrap_or(sequence.greatest);
    let first = if sequence.increment < 0 { sequence.greatest } else { sequence.least };
    sequence.start = start.unwrap_or(first);
    if sequence.least >= sequence.greatest || !(sequence.least..=sequence.greatest).contains(&sequence.start)
    {
        let message = format!(
            "START value ({}) must lie between MINVALUE ({}) and MAXVALUE ({})",
            sequence.start, sequence.least, sequence.greatest
        );
        return Err(binder.error(node, SqlError::new("22023", message)));
    }
    Ok(sequence)
}

/// Changes a sequence by an option of ALTER SEQUENCE.
fn change_option(
    binder: &Binder<'_>,
    sequence: &mut Sequence,
    option: &ast::SequenceOption,
) -> Result<(), StatementError> {
    let node = option.syntax();
    let bounds = sequence_of(sequence.ty);
    match option {
        ast::SequenceOption::OptionOwnedBy(owned) => {
            let owner = owned.syntax().descendants().find_map(ast::PathRef::cast);
            sequence.owner = owner.map(|path| owning_column(binder, &path)).transpose()?;
        }
        ast::SequenceOption::OptionIncrement(clause) => {
            sequence.increment = number(binder, clause.expr(), node)?
        }
        ast::SequenceOption::OptionMinValue(clause) => sequence.least = number(binder, clause.expr(), node)?,
        ast::SequenceOption::OptionMaxValue(clause) => {
            sequence.greatest = number(binder, clause.expr(), node)?
        }
        ast::SequenceOption::OptionStart(clause) => sequence.start = number(binder, clause.expr(), node)?,
        ast::SequenceOption::OptionNoMinValue(_) if sequence.increment > 0 => sequence.least = 1,
        ast::SequenceOption::OptionNoMinValue(_) => sequence.least = -bounds.greatest - 1,
        ast::SequenceOption::OptionNoMaxValue(_) if sequence.increment > 0 => {
            sequence.greatest = bounds.greatest;
        }
        ast::SequenceOption::OptionNoMaxValue(_) => sequence.greatest = -1,
        ast::SequenceOption::OptionCycle(_) => sequence.cycles = true,
        ast::SequenceOption::OptionNoCycle(_) => sequence.cycles = false,
        // CACHE has no effect, because the length of the ranges follows the demand.
        ast::SequenceOption::OptionCache(clause) => check_cache(binder, clause.expr(), node)?,
        other => return Err(binder.unsupported(other.syntax(), "this form of ALTER SEQUENCE")),
    }
    Ok(())
}

/// Checks the changed options of a sequence.
///
/// # Errors
/// `22023`: the options contradict each other. `0A000`: the bounds become narrower, which is not supported
/// because the last number is not known here.
fn check_change(
    binder: &Binder<'_>,
    before: &Sequence,
    after: &Sequence,
    restarts: bool,
    node: &SyntaxNode,
) -> Result<(), StatementError> {
    let Sequence { least, greatest, start, .. } = after;
    let restart = after.restart.filter(|_| restarts);
    let bounds = sequence_of(after.ty);
    let message = if after.increment == 0 {
        "INCREMENT must not be zero".into()
    } else if *greatest > bounds.greatest || *least < -bounds.greatest - 1 {
        let (name, value) =
            if *greatest > bounds.greatest { ("MAXVALUE", greatest) } else { ("MINVALUE", least) };
        format!("{name} ({value}) is out of range for sequence data type {}", after.ty)
    } else if least >= greatest {
        format!("MINVALUE ({least}) must be less than MAXVALUE ({greatest})")
    } else if start < least {
        format!("START value ({start}) cannot be less than MINVALUE ({least})")
    } else if start > greatest {
        format!("START value ({start}) cannot be greater than MAXVALUE ({greatest})")
    } else if let Some(first) = restart.filter(|first| first < least) {
        format!("RESTART value ({first}) cannot be less than MINVALUE ({least})")
    } else if let Some(first) = restart.filter(|first| first > greatest) {
        format!("RESTART value ({first}) cannot be greater than MAXVALUE ({greatest})")
    } else if restart.is_none() && (*least > before.least || *greatest < before.greatest) {
        return Err(binder.unsupported(node, "ALTER SEQUENCE with narrower bounds"));
    } else {
        return Ok(());
    };
    Err(binder.error(node, SqlError::new("22023", message)))
}

/// Checks the table that owns a sequence.
///
/// # Errors
/// `55000`: the table is in another schema, or belongs to another role.
fn check_owner(
    binder: &Binder<'_>,
    schema: &Schema,
    name: &str,
    sequence: &Sequence,
    node: &SyntaxNode,
) -> Result<(), StatementError> {
    let Some((table, _)) = &sequence.owner else { return Ok(()) };
    let refused = |message: &str| Err(binder.error(node, SqlError::new("55000", message)));
    let known = Subject::Relation(name.to_owned());
    let role = if schema.catalog.table(name).is_ok() { schema.owner_of(&known) } else { schema.maker };
    if schema.owner_of(&Subject::Relation(table.clone())) != role {
        return refused("sequence must have same owner as table it is linked to");
    }
    if namespace_in(table) != namespace_in(name) {
        return refused("sequence must be in same schema as table it is linked to");
    }
    Ok(())
}

/// Returns the name that the options of an identity column give to its sequence.
pub(crate) fn sequence_name(
    binder: &Binder<'_>,
    options: &[ast::SequenceOption],
) -> Result<Option<String>, StatementError> {
    let name = options.iter().find_map(|option| match option {
        ast::SequenceOption::OptionSequenceName(clause) => clause.sequence()?.path(),
        _ => None,
    });
    name.map(|path| made_name(binder, &path)).transpose()
}

/// The changes of a sequence by ALTER SEQUENCE, or by ALTER TABLE of its identity column.
#[derive(Default)]
pub(crate) struct SequenceChange {
    /// The options except RESTART.
    pub(crate) options: Vec<ast::SequenceOption>,
    /// RESTART, with its number if one is given.
    pub(crate) restart: Option<Option<ast::Expr>>,
}

impl Schema {
    /// Returns the sequence of ALTER SEQUENCE; `None` if it does not exist and IF EXISTS is given.
    fn altered_sequence(
        &self,
        alter: &ast::AlterSequence,
        source: &Source,
    ) -> Result<Option<&Arc<Table>>, StatementError> {
        let binder = Binder::new(self, source);
        let path = binder.part(alter.sequence_ref().and_then(|name| name.path_ref()), alter.syntax())?;
        let name = object_name(&path);
        let known = self.catalog.table(&name).ok().filter(|table| table.sequence.is_some());
        if known.is_none() && alter.if_exists().is_none() {
            let message = format!("relation \"{name}\" does not exist");
            return Err(binder.error(path.syntax(), SqlError::new("42P01", message)));
        }
        Ok(known)
    }

    /// Executes ALTER SEQUENCE.
    pub(crate) fn alter_sequence(
        &mut self,
        alter: &ast::AlterSequence,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        let binder = Binder::new(self, source);
        let Some(known) = self.altered_sequence(alter, source)? else {
            let path = alter.sequence_ref().and_then(|name| name.path_ref());
            let name = path.map(|path| object_name(&path)).unwrap_or_default();
            self.notices.skip_missing(&format!("relation \"{name}\""));
            return Ok(Effect::None);
        };
        let mut change = SequenceChange::default();
        for action in alter.actions() {
            match action {
                ast::AlterSequenceAction::OwnerTo(_) => {}
                ast::AlterSequenceAction::SequenceOption(ast::SequenceOption::OptionRestart(own)) => {
                    change.restart = Some(own.expr());
                }
                ast::AlterSequenceAction::SequenceOption(option) => change.options.push(option),
                other => return Err(binder.unsupported(other.syntax(), "this form of ALTER SEQUENCE")),
            }
        }
        let known = Arc::clone(known);
        self.change_sequence(&known, &change, At { source, node })
    }

    /// Changes a sequence.
    ///
    /// # Errors
    /// `22023`: the options contradict each other. `55000`: OWNED BY a table of another schema or role.
    pub(crate) fn change_sequence(
        &mut self,
        known: &Arc<Table>,
        change: &SequenceChange,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let At { source, node } = at;
        let binder = Binder::new(self, source);
        let (name, mut changed) = (&known.name, Table::clone(known));
        if let (Some(before), Some(after)) = (&known.sequence, &mut changed.sequence) {
            for option in &change.options {
                change_option(&binder, after, option)?;
            }
            check_owner(&binder, self, name, after, node)?;
            if let Some(first) = &change.restart {
                let first = first.clone().map(|first| number(&binder, Some(first), node)).transpose()?;
                after.restart = Some(first.unwrap_or(after.start));
            }
            check_change(&binder, before, after, change.restart.is_some(), node)?;
        }
        // As in PostgreSQL, a sequence that restarts gets a new row, so ROLLBACK takes it back.
        if change.restart.is_some() {
            let new = self.catalog.replace_table(name, NewTable::from(&changed));
            let new = new.map_err(|error| refused(source, node, &error))?;
            self.recompile(source, node)?;
            return Ok(Effect::All(vec![Effect::DropTable(Arc::clone(known)), Effect::CreateTable(new)]));
        }
        let changed = self.catalog.redefine(name, changed);
        let changed = changed.map_err(|error| refused(source, node, &error))?;
        Ok(Effect::Redefine(changed))
    }

    pub(crate) fn create_sequence(
        &mut self,
        create: &ast::CreateSequence,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let binder = Binder::new(self, source);
        let path = binder.part(create.sequence().and_then(|name| name.path()), node)?;
        let name = made_name(&binder, &path)?;
        binder.refuse_outside_of_session(create.persistence(), &name)?;
        let mut sequence = sequence_options(&binder, create.sequence_options(), ScalarType::BigInt, node)?;
        for option in create.sequence_options() {
            if matches!(option, ast::SequenceOption::OptionOwnedBy(_)) {
                change_option(&binder, &mut sequence, &option)?;
            }
        }
        if create.if_not_exists().is_some() && self.relation_exists(&name) {
            self.notices.skip_existing("42P07", &format!("relation \"{}\"", short(&name)));
            return Ok(Effect::None);
        }
        self.refuse_taken(&name, source, node)?;
        check_owner(&binder, self, &name, &sequence, node)?;
        self.add_table(sequence_table(name, sequence), source, node)
    }
}
