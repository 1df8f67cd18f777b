//! Cases that run without a database, on rows in memory that tell which operation touched which of them.

use super::Case;
use super::steps::VALUES;
use catalog::{Arena, ColumnSlot, Datum, Table, TableId, datum_from_value};
use procedure::analysis::Piece;
use procedure::{
    DataAccess, Failure, KeptRows, LookAhead, NestedScans, OperationId, Part, Procedure, ScanRange, SqlError,
    Tapes, TransactionControl,
};
use sql::Schema;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

impl Case {
    /// The definitions of the case, without a database.
    pub fn schema(&self) -> Schema {
        let mut schema = Schema::default();
        for (statement, ..) in Schema::split(&format!("{self:?}")).unwrap() {
            if !statement.trim_start().starts_with("CALL") {
                schema = schema.apply(&statement).unwrap().0;
            }
        }
        schema
    }

    /// Visits the call that fills the tables and the calls of the case, each with the index of its procedure
    /// among some of them, and with its arguments. Calls of other procedures are left out.
    pub fn for_each_call(&self, procedures: &[&Procedure], mut visit: impl FnMut(usize, &[Datum], &Arena)) {
        let place = |name: &str| procedures.iter().position(|own| own.name == name);
        if let Some(fill) = place("fill") {
            let first = [Datum::Int(0), Datum::Int(i64::from(VALUES) - 1), Datum::Int(1)];
            visit(fill, &first, &Arena::default());
        }
        for call in &self.calls {
            let Some(place) = place(&format!("p{}", call.procedure)) else { continue };
            let mut arena = Arena::default();
            let values = call.values(&self.procedures[call.procedure]);
            let arguments: Result<Vec<Datum>, _> = procedures[place]
                .inputs()
                .zip(&values)
                .map(|((_, parameter), value)| datum_from_value(value, parameter.ty, &mut arena))
                .collect();
            visit(place, &arguments.unwrap(), &arena);
        }
    }
}

/// A row of a table, or what is left of it.
#[derive(Clone)]
pub struct Row {
    table: Arc<Table>,
    values: Vec<Datum>,
    is_deleted: bool,
}

/// Which side of an operation a row is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The row as the operation found it.
    Before,
    /// The row as the operation left it.
    After,
}

/// A set of columns: a bit for each. The last bit stands for the existence of the row.
pub type Columns = u64;

/// All columns, and the existence of the row.
pub const ALL_COLUMNS: Columns = !0;
const EXISTENCE: Columns = 1 << 63;

/// A row that an operation touched.
#[derive(Clone)]
pub struct Touch {
    pub operation: OperationId,
    pub side: Side,
    /// Whether it changed the row, or is about to.
    pub writes: bool,
    /// The columns that it read or changed.
    pub columns: Columns,
    pub row: usize,
    pub values: Vec<Datum>,
}

/// The rows of all tables; every value is in `arena`, which only grows.
pub struct Memory {
    tables: HashMap<TableId, Arc<Table>>,
    pub rows: Vec<Row>,
    pub arena: Arena,
    scan: VecDeque<usize>,
    /// The scans that are suspended while a scan inside them runs.
    outer: Vec<VecDeque<usize>>,
    kept: KeptRows<usize>,
    /// The operation that runs.
    pub running: Rc<Cell<OperationId>>,
    pub touched: Vec<Touch>,
}

impl Memory {
    fn new(tables: impl Iterator<Item = Arc<Table>>) -> Self {
        Self {
            tables: tables.map(|table| (table.id, table)).collect(),
            rows: Vec::new(),
            arena: Arena::default(),
            scan: VecDeque::new(),
            outer: Vec::new(),
            kept: KeptRows::default(),
            running: Rc::new(Cell::new(OperationId(0))),
            touched: Vec::new(),
        }
    }

    /// The tables that procedures touch, without rows.
    pub fn of_procedures(procedures: &[&Procedure]) -> Self {
        let mut tables = BTreeMap::new();
        procedures.iter().for_each(|own| {
            own.for_each_table(&mut |table| {
                tables.insert(table.id, table.clone());
            });
        });
        Self::new(tables.into_values())
    }

    fn touch(&mut self, side: Side, row: usize, writes: bool, columns: Columns) {
        let values = self.rows[row].values.clone();
        self.touched.push(Touch { operation: self.running.get(), side, writes, columns, row, values });
    }

    pub fn table(&self, row: usize) -> &Arc<Table> {
        &self.rows[row].table
    }

    fn key(&self, table: &Table, columns: &[usize], values: &[Datum]) -> Vec<u8> {
        let mut key = Vec::new();
        columns.iter().for_each(|c| table.encode_key_column(*c, values[*c], &self.arena, &mut key));
        key
    }

    /// The rows of a table with their keys in an index, ascending.
    fn keys(&self, table: &Table, index: usize) -> BTreeMap<Vec<u8>, usize> {
        let columns = table.key_columns(&table.indexes[index]);
        let live = self.rows.iter().enumerate();
        let live = live.filter(|(_, row)| row.table.id == table.id && !row.is_deleted);
        live.map(|(place, row)| (self.key(table, &columns, &row.values), place)).collect()
    }

    /// Refuses values whose unique key another row has.
    fn check_unique(&self, table: &Table, values: &[Datum], own: Option<usize>) -> Result<(), Failure> {
        for (place, index) in table.indexes.iter().enumerate() {
            let is_null = |c: &usize| values[*c].is_null();
            if place > 0 && (!index.unique || index.columns.iter().any(is_null)) {
                continue;
            }
            let key = self.key(table, &index.columns, values);
            let is_taken = |(other, row): (usize, &Row)| {
                row.table.id == table.id
                    && !row.is_deleted
                    && Some(other) != own
                    && self.key(table, &index.columns, &row.values) == key
            };
            if self.rows.iter().enumerate().any(is_taken) {
                return Err(SqlError::new("23505", "duplicate key".to_owned()).into());
            }
        }
        Ok(())
    }
}

impl DataAccess for Memory {
    type Row = usize;

    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.keys(table, 0).get(key).copied())
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        let keys = self.keys(table, range.index).into_iter();
        let is_within = |key: &[u8]| key >= range.lower && range.upper.is_none_or(|upper| key < upper);
        self.scan = keys.filter(|(key, _)| is_within(key)).map(|(_, row)| row).collect();
        if range.backward {
            self.scan.make_contiguous().reverse();
        }
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<usize>, Failure> {
        Ok(self.scan.pop_front())
    }

    fn read(
        &mut self,
        row: usize,
        columns: &[ColumnSlot],
        arena: &mut Arena,
        out: &mut [Datum],
    ) -> Result<bool, Failure> {
        if self.rows[row].is_deleted {
            return Ok(false);
        }
        let Row { table, values, .. } = &self.rows[row];
        let mut read = EXISTENCE;
        for (slot, datum) in columns.iter().zip(out) {
            let column =
                table.layout.slots().iter().position(|own| own == slot).expect("a slot of the table");
            *datum = arena.adopt(values[column], &self.arena);
            read |= 1 << column;
        }
        self.touch(Side::Before, row, false, read);
        Ok(true)
    }

    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        let values: Vec<Datum> = row.iter().map(|value| self.arena.adopt(*value, arena)).collect();
        self.check_unique(table, &values, None)?;
        let table = Arc::clone(&self.tables[&table.id]);
        self.rows.push(Row { table, values, is_deleted: false });
        self.touch(Side::After, self.rows.len() - 1, true, ALL_COLUMNS);
        Ok(())
    }

    fn update(
        &mut self,
        table: &Table,
        row: usize,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let is_key = |column: &usize| table.indexes.iter().any(|index| index.columns.contains(column));
        let moves = changes.iter().any(|(column, _)| is_key(column));
        let changed = changes.iter().fold(0, |columns, (column, _)| columns | 1 << column);
        let changed = if moves { ALL_COLUMNS } else { changed };
        self.touch(Side::Before, row, true, changed);
        let mut values = self.rows[row].values.clone();
        for (column, value) in changes {
            values[*column] = self.arena.adopt(*value, arena);
        }
        self.check_unique(table, &values, Some(row))?;
        self.rows[row].values = values;
        self.touch(Side::After, row, true, changed);
        Ok(())
    }

    fn delete(&mut self, _: &Table, row: usize) -> Result<(), Failure> {
        self.touch(Side::Before, row, true, ALL_COLUMNS);
        self.rows[row].is_deleted = true;
        Ok(())
    }
}

impl LookAhead for Memory {}

impl NestedScans for Memory {
    fn keep(&mut self, row: usize) -> i64 {
        self.kept.keep(row)
    }

    fn kept(&self, number: i64) -> Option<usize> {
        self.kept.get(number)
    }

    fn enter_scan(&mut self) {
        self.outer.push(std::mem::take(&mut self.scan));
    }

    fn leave_scan(&mut self) {
        self.scan = self.outer.pop().expect("a scan is left after it was entered");
    }
}

/// Procedures that handle errors have no program, so no part is ever undone.
impl TransactionControl for Memory {
    fn begin_part(&mut self) {
        unreachable!("the procedure handles errors");
    }

    fn undo_part(&mut self) -> Result<(), Failure> {
        unreachable!("the procedure handles errors");
    }

    fn end_part(&mut self) {
        unreachable!("the procedure handles errors");
    }
}

/// The tapes of one call: what its pieces have sent, by operation.
#[derive(Default)]
pub struct CallTapes {
    sent: BTreeMap<OperationId, VecDeque<Datum>>,
    arena: Arena,
}

/// The tapes of one piece of a call.
pub struct PieceTapes<'c> {
    pub piece: &'c Piece,
    pub running: Rc<Cell<OperationId>>,
    /// What earlier pieces have sent; each piece receives all of it.
    pub received: BTreeMap<OperationId, VecDeque<Datum>>,
    pub call: &'c mut CallTapes,
}

impl CallTapes {
    pub fn of_piece<'c>(&'c mut self, piece: &'c Piece, running: &Rc<Cell<OperationId>>) -> PieceTapes<'c> {
        PieceTapes { piece, running: Rc::clone(running), received: self.sent.clone(), call: self }
    }
}

impl Tapes for PieceTapes<'_> {
    fn part(&self, id: OperationId) -> Part {
        self.running.set(id);
        self.piece.part(id)
    }

    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena) {
        let value = self.call.arena.adopt(value, arena);
        self.call.sent.entry(id).or_default().push_back(value);
    }

    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum {
        let value = self.received.get_mut(&id).and_then(VecDeque::pop_front);
        arena.adopt(value.expect("an earlier piece has sent it"), &self.call.arena)
    }
}
