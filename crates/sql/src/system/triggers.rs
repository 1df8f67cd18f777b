//! The system relations about triggers.

use super::information_schema::DATABASE;
use super::objects::in_parentheses;
use super::qualified::{Named, path_text};
use super::{BOOL, Cell, INT, INTS, SystemRelation, TEXT};
use crate::oids::{routine_oid, table_oid};
use crate::quoted::quoted;
use crate::roles::acl::CHANGING;
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{Table, Trigger, TriggerEvent, TriggerTiming};
use std::sync::Arc;

/// The events in the order of PostgreSQL's output, with their bits in `tgtype`.
const EVENTS: [(TriggerEvent, i64); 3] =
    [(TriggerEvent::Insert, 4), (TriggerEvent::Delete, 8), (TriggerEvent::Update, 16)];

fn event_text(trigger: &Trigger, event: TriggerEvent) -> String {
    match event {
        TriggerEvent::Update if !trigger.columns.is_empty() => {
            let columns: Vec<_> = trigger.columns.iter().map(|column| quoted(column)).collect();
            format!("{event} OF {}", columns.join(", "))
        }
        event => event.to_string(),
    }
}

/// Returns the arguments of a trigger as SQL text.
fn quoted_arguments(trigger: &Trigger) -> impl Iterator<Item = String> {
    trigger.arguments.iter().map(|argument| format!("'{}'", argument.replace('\'', "''")))
}

/// Returns a trigger's CREATE statement. With `is_short`, which psql asks for, the table has no schema.
fn definition(
    schema: &Schema,
    table: &Table,
    trigger: &Trigger,
    is_short: bool,
    is_qualified: bool,
) -> String {
    let events = EVENTS.into_iter().filter(|(event, _)| trigger.events.contains(event));
    let events: Vec<_> = events.map(|(event, _)| event_text(trigger, event)).collect();
    let on = path_text(&table.name, !is_short || is_qualified);
    let level = if trigger.for_each_row { "ROW" } else { "STATEMENT" };
    let condition = trigger.condition.as_ref();
    let condition = condition.map(|text| schema.named(text, false).form(is_qualified));
    let when = match condition {
        Some(text) if is_short => format!(" WHEN {}", in_parentheses(text)),
        Some(text) => format!(" WHEN ({})", in_parentheses(text)),
        None => String::new(),
    };
    let arguments = quoted_arguments(trigger).collect::<Vec<_>>().join(", ");
    let (name, timing) = (quoted(&trigger.name), trigger.timing);
    let function = path_text(&trigger.function, is_qualified);
    format!(
        "CREATE TRIGGER {name} {timing} {} ON {on} FOR EACH {level}{when} EXECUTE FUNCTION \
         {function}({arguments})",
        events.join(" OR ")
    )
}

impl Schema {
    /// Returns all triggers with their tables and OIDs.
    pub(super) fn all_triggers(&self) -> impl Iterator<Item = (i64, &Arc<Table>, &Trigger)> {
        let all = self
            .catalog()
            .tables()
            .flat_map(|table| table.triggers.iter().map(move |trigger| (table, trigger)));
        all.enumerate().map(|(index, (table, trigger))| (6_000_000 + index as i64, table, trigger))
    }

    /// Returns the CREATE TRIGGER statements of all triggers, by OID.
    pub(crate) fn trigger_definitions(&self, are_short: bool) -> Vec<(i64, Named)> {
        let write = |table: &Arc<Table>, trigger: &Trigger| {
            Named::of(|is_qualified| definition(self, table, trigger, are_short, is_qualified))
        };
        self.all_triggers().map(|(oid, table, trigger)| (oid, write(table, trigger))).collect()
    }

    pub(super) fn pg_trigger(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("tgrelid", INT),
            ("tgparentid", INT),
            ("tgname", TEXT),
            ("tgfoid", INT),
            ("tgtype", INT),
            ("tgenabled", TEXT),
            ("tgisinternal", BOOL),
            ("tgconstrrelid", INT),
            ("tgconstrindid", INT),
            ("tgconstraint", INT),
            ("tgdeferrable", BOOL),
            ("tginitdeferred", BOOL),
            ("tgnargs", INT),
            ("tgattr", INTS),
            ("tgqual", TEXT),
            ("tgoldtable", TEXT),
            ("tgnewtable", TEXT),
        ];
        let mut rows = Vec::new();
        for (oid, table, trigger) in self.all_triggers() {
            let events = EVENTS.iter().filter(|(event, _)| trigger.events.contains(event));
            let is_before = trigger.timing == TriggerTiming::Before;
            let bits = i64::from(trigger.for_each_row) + 2 * i64::from(is_before);
            let bits = bits + events.map(|(_, bit)| bit).sum::<i64>();
            let positions = trigger.columns.iter().filter_map(|column| table.column(column));
            rows.push(vec![
                oid.into(),
                table_oid(table).into(),
                0.into(),
                trigger.name.as_str().into(),
                self.procedure(&trigger.function).map_or(0, |function| routine_oid(function)).into(),
                bits.into(),
                if trigger.enabled { "O" } else { "D" }.into(),
                false.into(),
                0.into(),
                0.into(),
                0.into(),
                false.into(),
                false.into(),
                (trigger.arguments.len() as i64).into(),
                Cell::Ints(positions.map(|position| position as i64 + 1).collect()),
                trigger.condition.clone().map_or(Cell::Null, Cell::Text),
                Cell::Null,
                Cell::Null,
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    pub(super) fn information_triggers(&self) -> SystemRelation {
        let columns = [
            ("trigger_catalog", TEXT),
            ("trigger_schema", TEXT),
            ("trigger_name", TEXT),
            ("event_manipulation", TEXT),
            ("event_object_catalog", TEXT),
            ("event_object_schema", TEXT),
            ("event_object_table", TEXT),
            ("action_order", INT),
            ("action_condition", TEXT),
            ("action_statement", TEXT),
            ("action_orientation", TEXT),
            ("action_timing", TEXT),
        ];
        let mut rows = Vec::new();
        let shown = self.all_triggers();
        for (_, table, trigger) in shown.filter(|(_, table, _)| self.shows_relation(&table.name, CHANGING)) {
            let is_own = self.owns(self.acting, &Subject::Relation(table.name.clone()));
            let schema = self.namespace_of(&table.name);
            for event in &trigger.events {
                let same = |other: &&Trigger| {
                    (other.timing, other.for_each_row) == (trigger.timing, trigger.for_each_row)
                        && other.events.contains(event)
                        && other.name <= trigger.name
                };
                let arguments: Vec<_> = quoted_arguments(trigger).collect();
                rows.push(vec![
                    DATABASE.into(),
                    schema.into(),
                    trigger.name.as_str().into(),
                    event.to_string().into(),
                    DATABASE.into(),
                    schema.into(),
                    table.short_name().into(),
                    (table.triggers.iter().filter(same).count() as i64).into(),
                    trigger.condition.clone().filter(|_| is_own).map_or(Cell::Null, Cell::Text),
                    format!(
                        "EXECUTE FUNCTION {}({})",
                        path_text(&trigger.function, false),
                        arguments.join(", ")
                    )
                    .into(),
                    if trigger.for_each_row { "ROW" } else { "STATEMENT" }.into(),
                    trigger.timing.to_string().into(),
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }
}
