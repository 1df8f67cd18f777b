//! Triggers of the tables of a history, drawn at random. What they do depends on the row or on the statement
//! only, and not on the order of the rows.

use super::Table;
use super::statements::Generator;

/// The tables that triggers write.
pub(super) const WRITTEN: &str = "
CREATE TABLE seen (what TEXT, old TEXT, new TEXT);
CREATE TABLE counts (what TEXT PRIMARY KEY, n INT);
INSERT INTO counts SELECT w || o, 0
    FROM unnest(ARRAY['BEFORE', 'AFTER']) w, unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) o;";

impl Generator {
    /// A trigger function and its trigger.
    pub(super) fn trigger(&mut self, table: &Table) -> [String; 2] {
        let (function, name) = (self.name('f'), self.name('g'));
        let (column, ty) = self.column(table);
        let timing = self.of(&["BEFORE", "BEFORE", "AFTER"]);
        let for_each_row = !self.one_in(5);
        let events =
            self.of(&["INSERT", "UPDATE", "DELETE", "INSERT OR UPDATE", "INSERT OR UPDATE OR DELETE"]);
        let body = match (for_each_row, timing) {
            (false, _) => {
                "UPDATE counts SET n = n + 1 WHERE what = TG_WHEN || TG_OP; RETURN NULL;".to_owned()
            }
            (true, "AFTER") => self.after(&column),
            (true, _) => self.before(&column, &ty),
        };
        let function_text = format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
        );
        let events = match self.one_in(4) {
            true => events.replace("UPDATE", &format!("UPDATE OF {column}")),
            false => events.to_owned(),
        };
        let when = match (for_each_row, self.one_in(3)) {
            (true, true) => self.when(&events, table),
            _ => String::new(),
        };
        let level = if for_each_row { "ROW" } else { "STATEMENT" };
        let trigger = format!(
            "CREATE TRIGGER {name} {timing} {events} ON {}
            FOR EACH {level}{when} EXECUTE FUNCTION {function}('x')",
            table.name
        );
        self.triggers.push((table.name.clone(), name));
        [function_text, trigger]
    }

    /// A change of triggers.
    pub(super) fn change_of_triggers(&mut self) -> Option<String> {
        let all = self.triggers.clone();
        let (table, name) = self.pick(&all)?;
        Some(match self.within(0..4) {
            0 => format!("ALTER TABLE {table} DISABLE TRIGGER {name}"),
            1 => format!("ALTER TABLE {table} DISABLE TRIGGER USER"),
            2 => format!("ALTER TABLE {table} ENABLE TRIGGER {}", self.of(&["ALL", "USER"])),
            _ => format!("DROP TRIGGER {name} ON {table}"),
        })
    }

    fn column(&mut self, table: &Table) -> (String, String) {
        self.pick(&table.columns).unwrap().clone()
    }

    fn when(&mut self, events: &str, table: &Table) -> String {
        let record = match (events.contains("INSERT"), events.contains("DELETE")) {
            (true, true) => return String::new(),
            (true, false) => "NEW",
            (false, true) => "OLD",
            (false, false) => self.of(&["NEW", "OLD"]),
        };
        let (column, ty) = self.column(table);
        match self.within(0..3) {
            0 => format!(" WHEN ({record}.{column} IS NOT NULL)"),
            1 if events == "UPDATE" => format!(" WHEN (NEW.{column} IS DISTINCT FROM OLD.{column})"),
            _ => format!(" WHEN ({record}.{column} = {})", self.fitting(&ty)),
        }
    }

    fn after(&mut self, column: &str) -> String {
        let write = match self.within(0..3) {
            0 => format!(
                "INSERT INTO seen VALUES (TG_OP || TG_ARGV[0], OLD.{column}::text, NEW.{column}::text);"
            ),
            1 => "UPDATE counts SET n = n + 1 WHERE what = TG_WHEN || TG_OP;".into(),
            _ => format!(
                "IF TG_OP = 'DELETE' THEN INSERT INTO seen VALUES ('gone', OLD.{column}::text); ELSE
                INSERT INTO seen VALUES (TG_LEVEL, NULL, NEW.{column}::text); END IF;"
            ),
        };
        format!("{write} RETURN NULL;")
    }

    fn before(&mut self, column: &str, ty: &str) -> String {
        let value = self.fitting(ty);
        let change = match ty.to_lowercase().as_str() {
            "boolean" => format!("NEW.{column} := NOT NEW.{column};"),
            "text" => format!("NEW.{column} := upper(NEW.{column});"),
            own if own.contains("char") => format!("NEW.{column} := NEW.{column} || 'b';"),
            _ => match self.within(0..3) {
                0 => format!("NEW.{column} := COALESCE(NEW.{column}, 3);"),
                1 => format!("IF NEW.{column} > 4 THEN NEW.{column} := NEW.{column} - 1.5; END IF;"),
                _ => format!("NEW.{column} := NEW.{column} + length(TG_ARGV[0]);"),
            },
        };
        let decision = match self.within(0..6) {
            0 => format!("IF NEW.{column} = {value} THEN RETURN NULL; END IF;"),
            1 => format!(
                "IF NEW.{column} = {value} THEN
                RAISE EXCEPTION 'not %', NEW.{column} USING ERRCODE = '23514'; END IF;"
            ),
            2 => format!(
                "IF TG_OP = 'UPDATE' AND NEW.{column} IS DISTINCT FROM OLD.{column} THEN RETURN OLD; END IF;"
            ),
            _ => String::new(),
        };
        let of_old = match self.one_in(3) {
            true => format!("IF OLD.{column} = {value} THEN RETURN NULL; END IF;"),
            false => String::new(),
        };
        format!("IF TG_OP = 'DELETE' THEN {of_old} RETURN OLD; END IF; {change} {decision} RETURN NEW;")
    }
}
