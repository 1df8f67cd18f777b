//! Random expressions over the variables of a routine.

use super::writer::Writer;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Int,
    Numeric,
    Text,
    Date,
    Bool,
    Ints,
}

use Type::{Bool, Date, Int, Ints, Numeric, Text};

pub(super) const TYPES: &[Type] = &[Int, Numeric, Text, Date, Bool, Ints];

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Int => "INT",
            Numeric => "NUMERIC",
            Text => "TEXT",
            Date => "DATE",
            Bool => "BOOLEAN",
            Ints => "INT[]",
        }
    }

    pub(super) fn column(self) -> &'static str {
        match self {
            Int => "g",
            Numeric => "n",
            Text => "s",
            Date => "d",
            Bool => "f",
            Ints => "xs",
        }
    }
}

impl Writer<'_> {
    pub(super) fn literal(&mut self, ty: Type) -> String {
        if self.one_in(9) {
            return format!("NULL::{}", ty.name());
        }
        let values: &[&str] = match ty {
            Int => &["0", "1", "2", "3", "1", "4", "5", "6", "7", "-4", "100", "2147483647"],
            Numeric => &["0", "1.5", "2.25", "-0.5", "100", "12345.678"],
            Text => &["'x'", "''", "'abc'", "'12'", "'a,b'", "'a b'"],
            Date => &["DATE '2024-01-31'", "DATE '2024-02-29'", "'1999-12-31'::date"],
            Bool => &["true", "false"],
            Ints => &["'{}'::int[]", "ARRAY[1, 2, 3]", "'{5,NULL}'::int[]", "ARRAY[3]"],
        };
        self.of(values).into()
    }

    /// Returns an expression over the variables.
    pub(super) fn value(&mut self, ty: Type, depth: u32) -> String {
        let fitting: Vec<String> =
            self.variables.iter().filter(|own| own.ty == ty).map(|own| own.name.clone()).collect();
        if depth == 0 || self.one_in(4) {
            return match fitting.is_empty() || self.one_in(3) {
                true => self.literal(ty),
                false => fitting[self.number(fitting.len())].clone(),
            };
        }
        let deeper = depth - 1;
        match self.number(10) {
            0 => {
                let condition = self.value(Bool, deeper);
                let (yes, no) = (self.value(ty, deeper), self.value(ty, deeper));
                return format!("CASE WHEN {condition} THEN {yes} ELSE {no} END");
            }
            1 => return format!("coalesce({}, {})", self.value(ty, deeper), self.value(ty, deeper)),
            2 => {
                let key = self.value(Int, deeper);
                return format!("(SELECT {} FROM a WHERE id = {key})", ty.column());
            }
            _ => {}
        }
        let (int, other) = (self.value(Int, deeper), self.value(ty, deeper));
        let same = self.value(ty, deeper);
        match ty {
            Int => match self.number(9) {
                0..3 => format!("({int} {} {other})", self.of(&["+", "-", "*"])),
                3 => format!("({int} {} {other})", self.of(&["/", "%"])),
                4 => format!("length({})", self.value(Text, deeper)),
                5 => format!("array_length({}, 1)", self.value(Ints, deeper)),
                6 => format!("({})[{int}]", self.value(Ints, deeper)),
                7 => format!("doubled({int})"),
                _ => format!("({})::{}", self.value(Numeric, deeper), self.of(&["int", "few"])),
            },
            Numeric => match self.number(5) {
                0..2 => format!("({same} {} {other})", self.of(&["+", "-", "*", "/"])),
                2 => format!("round({same}, 1)"),
                3 => format!("({int})::numeric"),
                _ => format!("(SELECT {}(n) FROM a WHERE g = {int})", self.of(&["sum", "avg", "max"])),
            },
            Text => match self.number(7) {
                0..2 => format!("({same} || {other})"),
                2 => format!("CAST({int} AS {})", self.of(&["text", "word"])),
                3 => format!("upper({same})"),
                4 => format!("substr({same}, {int}, 2)"),
                5 => format!("format('%s-%s', {same}, {int})"),
                _ => format!("name_of({int})"),
            },
            Date => format!("({same} + {})", self.number(40)),
            Bool => match self.number(6) {
                0 => format!("({same} AND {other})"),
                1 => format!("({same} OR {other})"),
                2 => format!("(NOT {same})"),
                3 => format!("({} IS NULL)", self.value(Text, deeper)),
                4 => {
                    let ty = self.ty();
                    let (left, right) = (self.value(ty, deeper), self.value(ty, deeper));
                    format!("({left} {} {right})", self.of(&["=", "<", "<>", ">="]))
                }
                _ => format!("EXISTS (SELECT 1 FROM b WHERE a_id = {int})"),
            },
            Ints => match self.number(4) {
                0 => format!("({same} || {other})"),
                1 => format!("array_append({same}, {int})"),
                2 => format!("ARRAY[{int}, 2]"),
                _ => format!("(SELECT array_agg(k ORDER BY id) FROM b WHERE a_id = {int})"),
            },
        }
    }
}
