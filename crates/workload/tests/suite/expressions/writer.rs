//! Statements with random expressions of every type.

use crate::answers::Reprise;
use rand::Rng;
use rand::rngs::SmallRng;
use sqllogictest::{DB, DBOutput};

/// Tables with a column of each type; rows of `u` refer to those of `t`.
pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE t (id INT PRIMARY KEY, g INT NOT NULL, i2 SMALLINT, i4 INT, i8 BIGINT, n NUMERIC,
     f4 REAL, f8 DOUBLE PRECISION, b BOOLEAN, s TEXT, v VARCHAR(20), c CHAR(4), by BYTEA, d DATE, tm TIME,
     ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, u UUID, j JSON, jb JSONB, ai INT[], at TEXT[], ad DATE[])",
    "CREATE INDEX t_g ON t (g, i4)",
    "CREATE INDEX t_s ON t (s DESC)",
    "CREATE INDEX t_n ON t ((n + 1))",
    "CREATE TABLE u (k INT, t_id INT REFERENCES t ON DELETE CASCADE, n NUMERIC, s TEXT, d DATE,
     PRIMARY KEY (k, t_id))",
];

/// A type, values of it as SQL has them, and columns.
struct Kind {
    name: &'static str,
    values: &'static [&'static str],
    column: &'static str,
}

const fn kind(name: &'static str, column: &'static str, values: &'static [&'static str]) -> Kind {
    Kind { name, values, column }
}

const KINDS: &[Kind] = &[
    kind("boolean", "b", &["true", "false"]),
    kind("smallint", "i2", &["0", "1", "-1", "7", "32767", "-32768"]),
    kind("integer", "i4", &["0", "1", "2", "3", "-1", "-4", "10", "100", "2147483647", "-2147483648"]),
    kind("bigint", "i8", &["0", "1", "-2", "5", "4294967296", "9223372036854775807", "-9223372036854775808"]),
    kind(
        "numeric",
        "n",
        &[
            "0",
            "1",
            "1.50",
            "-2.25",
            "0.001",
            "100",
            "12345.678",
            "1e8",
            "-0.5",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e40",
            "-1.5e-40",
            "123456789012345678901234567890123456789.5",
        ],
    ),
    kind("real", "f4", &["0", "1.5", "-2.25", "0.1", "1e10", "1e-10"]),
    kind("double precision", "f8", &["0", "1.5", "-2.25", "0.1", "1e15", "1e-7", "NaN", "Infinity"]),
    kind(
        "text",
        "s",
        &[
            "",
            "a",
            "ab",
            "Abc",
            "a b c",
            "a,b",
            "%",
            "a_c",
            "€",
            "12",
            "1.5",
            "\\d+",
            "2024-01-31",
            "CET",
            "Asia/Kolkata",
            "foo3bar",
        ],
    ),
    kind("character varying", "v", &["", "x", "Hello World", "ab", " a "]),
    kind("character", "c", &["", "a", "ab  ", "z"]),
    kind("bytea", "by", &["", "\\x00", "\\x616263", "\\xff00"]),
    kind("date", "d", &["2024-01-31", "2024-02-29", "1999-12-31", "2000-01-01", "1970-01-01", "infinity"]),
    kind("time without time zone", "tm", &["00:00", "12:34:56.789", "23:59:59.999999", "24:00"]),
    kind(
        "timestamp without time zone",
        "ts",
        &["2024-01-31 10:00", "2024-02-29 23:59:59.5", "1999-12-31", "1900-01-01 00:00:01", "infinity"],
    ),
    kind(
        "timestamp with time zone",
        "tz",
        &["2024-01-31 10:00+00", "2024-02-29 23:59:59.5+02", "1999-12-31 00:00+00", "-infinity"],
    ),
    kind(
        "interval",
        "iv",
        &["1 day", "-3 hours", "1 mon 2 days", "00:00:01.5", "1 year", "0", "-1 mon 40 days"],
    ),
    kind("uuid", "u", &["00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    kind("json", "j", &["1", "null", "{\"a\": 1, \"b\": [1, 2]}", "[1, \"x\", null]", "\"x\""]),
    kind(
        "jsonb",
        "jb",
        &["1", "null", "{\"a\": 1, \"b\": [1, 2]}", "[1, \"x\", null]", "\"x\"", "{\"a\": {\"b\": true}}"],
    ),
    kind("integer[]", "ai", &["{}", "{1,2,3}", "{1,NULL}", "{5}", "{3,1,2}"]),
    kind("text[]", "at", &["{}", "{a,b}", "{NULL,x}", "{\"a b\"}"]),
    kind("date[]", "ad", &["{}", "{2024-01-31}", "{NULL,2000-01-01}"]),
];

/// Types whose values are not compared by `=` or ordered: json.
const UNORDERED: &[&str] = &["json"];

/// Functions whose values depend on more than their arguments, or that do something.
const LEFT_OUT: &[&str] = &[
    "random",
    "clock_timestamp",
    "now",
    "statement_timestamp",
    "timeofday",
    "transaction_timestamp",
    "col_description",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "currval",
    "gen_random_uuid",
    "gen_row_identity",
    "getdatabaseencoding",
    "lastval",
    "nextval",
    "obj_description",
    "session_user",
    "set_config",
    "setval",
    "shobj_description",
    "txid_current",
    "uuid_generate_v4",
    "version",
    "row_security_active",
    "acldefault",
    "overlaps",
    "digest",
    "cbrt",
    "atanh",
    "degrees",
    "enum_first",
    "enum_last",
    "enum_range",
    "array_out",
];

/// A function, operator or cast: the types of its arguments and of its result, as `pg_type` names them.
struct Callable {
    name: String,
    arguments: Vec<String>,
    result: String,
}

/// What the catalog shows.
pub(super) struct Callables {
    functions: Vec<Callable>,
    aggregates: Vec<Callable>,
    operators: Vec<Callable>,
    casts: Vec<Callable>,
}

impl Callables {
    pub(super) fn of(reprise: &mut Reprise) -> Self {
        let mut read = |query: &str| -> Vec<Callable> {
            let Ok(DBOutput::Rows { rows, .. }) = reprise.run(query) else { panic!("{query}") };
            let callable = |row: Vec<String>| Callable {
                name: row[0].clone(),
                arguments: row[1].split(',').filter(|name| *name != "(empty)").map(named).collect(),
                result: named(&row[2]),
            };
            rows.into_iter().map(callable).collect()
        };
        let of_kind = |kind: &str| {
            format!(
                "SELECT proname, coalesce((SELECT string_agg(format_type(own, NULL), ',' ORDER BY place)
                 FROM unnest(proargtypes::oid[]) WITH ORDINALITY AS x (own, place)), ''),
                 format_type(prorettype, NULL) FROM pg_proc WHERE prokind = '{kind}' AND NOT proretset
                 AND proname !~ '^(pg_|has_|inet_|to_reg)' AND provariadic = 0 ORDER BY oid"
            )
        };
        let mut functions = read(&of_kind("f"));
        functions.retain(|own| !LEFT_OUT.contains(&own.name.as_str()));
        Self {
            functions,
            aggregates: read(&of_kind("a")),
            operators: read(
                "SELECT oprname, CASE WHEN oprleft = 0 THEN '' ELSE format_type(oprleft, NULL) || ',' END
                 || format_type(oprright, NULL), format_type(oprresult, NULL) FROM pg_operator
                 WHERE oprname <> '||/' ORDER BY oid",
            ),
            casts: read(
                "SELECT '', format_type(castsource, NULL), format_type(casttarget, NULL) FROM pg_cast
                 ORDER BY oid",
            ),
        }
    }
}

/// Returns the name of a type; those of types that take each other's places have one name.
fn named(name: &str) -> String {
    match name {
        "2283" | "5077" | "2776" | "anycompatible" | "anynonarray" => "anyelement".into(),
        "2277" | "5078" | "anycompatiblearray" => "anyarray".into(),
        other => other.into(),
    }
}

/// Writes random statements.
pub(super) struct Writer<'c> {
    callables: &'c Callables,
    random: SmallRng,
    /// Whether columns of `t` may be named.
    has_row: bool,
}

impl<'c> Writer<'c> {
    pub(super) fn new(callables: &'c Callables, random: SmallRng) -> Self {
        Self { callables, random, has_row: true }
    }

    fn number(&mut self, below: usize) -> usize {
        self.random.random_range(0..below)
    }

    fn one_in(&mut self, several: usize) -> bool {
        self.number(several) == 0
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.number(from.len())]
    }

    fn kind(&mut self) -> &'static Kind {
        &KINDS[self.number(KINDS.len())]
    }

    fn ordered(&mut self) -> &'static Kind {
        loop {
            let kind = self.kind();
            if !UNORDERED.contains(&kind.name) {
                return kind;
            }
        }
    }

    fn literal(&mut self, kind: &Kind) -> String {
        let value = self.of(kind.values);
        let is_plain = matches!(kind.name, "integer" | "numeric" | "boolean")
            && !value.starts_with('-')
            && !matches!(value, "NaN" | "Infinity");
        match self.number(8) {
            0 => format!("NULL::{}", kind.name),
            1..4 if is_plain => value.into(),
            1..3 if kind.name == "text" => format!("'{value}'"),
            _ => format!("'{value}'::{}", kind.name),
        }
    }

    /// Returns an expression of a type.
    fn value(&mut self, ty: &str, depth: u32) -> String {
        let Some(kind) = KINDS.iter().find(|kind| kind.name == ty) else {
            return format!("NULL::{ty}");
        };
        let mut way = if depth == 0 { self.number(2) } else { self.number(16) };
        if ty == "character" && matches!(way, 7 | 8) {
            // A CHAR among those of other lengths keeps its blanks in PostgreSQL only.
            way = 0;
        }
        let deeper = depth.saturating_sub(1);
        match way {
            0 | 2 if self.has_row => format!("t.{}", kind.column),
            0..3 => self.literal(kind),
            3 => self.cast(ty, deeper),
            4..7 => self.operator(ty, deeper),
            7 => {
                let condition = self.value("boolean", deeper);
                let (first, second) = (self.value(ty, deeper), self.value(ty, deeper));
                format!("CASE WHEN {condition} THEN {first} ELSE {second} END")
            }
            8 => {
                let function = match UNORDERED.contains(&ty) {
                    true => "coalesce",
                    false => self.of(&["coalesce", "nullif", "greatest", "least"]),
                };
                format!("{function}({}, {})", self.value(ty, deeper), self.value(ty, deeper))
            }
            9 if ty == "boolean" => self.predicate(deeper),
            9 => format!("(SELECT {} LIMIT 1)", self.value(ty, deeper)),
            _ => self.function(ty, deeper),
        }
    }

    /// Returns a form of SQL whose value is a Boolean.
    fn predicate(&mut self, depth: u32) -> String {
        let kind = self.ordered();
        let mut value = || self.value(kind.name, depth);
        let (first, second, third) = (value(), value(), value());
        match self.number(9) {
            0 => format!("({first}) IS NULL"),
            1 => format!("({first}) IS NOT DISTINCT FROM ({second})"),
            2 => format!("(({first}) BETWEEN ({second}) AND ({third}))"),
            3 => format!("(({first}) IN ({second}, {third}))"),
            4 => format!("(({first}) = ANY (ARRAY[{second}, {third}]))"),
            5 => format!("(NOT ({}))", self.value("boolean", depth)),
            6 => format!("EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id AND ({first}) < ({second}))"),
            7 => format!("(({first}, {}) < ({second}, 5))", self.value("integer", depth)),
            _ => {
                let operator = self.of(&["AND", "OR"]);
                format!("({} {operator} {})", self.value("boolean", depth), self.value("boolean", depth))
            }
        }
    }

    fn drawn(&mut self, from: &'c [Callable], ty: &str) -> Option<(&'c Callable, Option<&'static str>)> {
        let element = ty.strip_suffix("[]");
        let fits = |own: &&Callable| {
            own.result == ty || own.result == "anyelement" || own.result == "anyarray" && element.is_some()
        };
        let fitting: Vec<&Callable> = from.iter().filter(fits).collect();
        if fitting.is_empty() {
            return None;
        }
        let own = fitting[self.number(fitting.len())];
        let of_result = match own.result.as_str() {
            "anyelement" => Some(ty),
            "anyarray" => element,
            _ => None,
        };
        let element = match of_result {
            Some(name) => KINDS.iter().find(|kind| kind.name == name).map(|kind| kind.name),
            None => Some(self.of(&["integer", "text", "date"])),
        };
        Some((own, element))
    }

    fn argument(&mut self, ty: &str, element: Option<&str>, depth: u32) -> String {
        let element = element.unwrap_or("integer");
        match ty {
            "anyelement" => self.value(element, depth),
            "anyarray" => {
                let name = format!("{element}[]");
                match KINDS.iter().any(|kind| kind.name == name) {
                    true => self.value(&name, depth),
                    false => format!("ARRAY[{}, {}]", self.value(element, depth), self.value(element, depth)),
                }
            }
            other => self.value(other, depth),
        }
    }

    fn operator(&mut self, ty: &str, depth: u32) -> String {
        let Some((own, element)) = self.drawn(&self.callables.operators, ty) else {
            return self.function(ty, depth);
        };
        let arguments: Vec<String> =
            own.arguments.iter().map(|argument| self.argument(argument, element, depth)).collect();
        match arguments.as_slice() {
            [left, right] => format!("(({left}) {} ({right}))", own.name),
            [right] => format!("({} ({right}))", own.name),
            _ => panic!("{} has neither one nor two operands", own.name),
        }
    }

    fn cast(&mut self, ty: &str, depth: u32) -> String {
        match self.drawn(&self.callables.casts, ty) {
            Some((own, _)) if own.result == ty => {
                format!("({})::{ty}", self.value(&own.arguments[0], depth))
            }
            _ => format!("({})::text::{ty}", self.value(ty, depth)),
        }
    }

    fn function(&mut self, ty: &str, depth: u32) -> String {
        let Some((own, element)) = self.drawn(&self.callables.functions, ty) else {
            return self.cast(ty, depth);
        };
        let arguments: Vec<String> =
            own.arguments.iter().map(|argument| self.argument(argument, element, depth)).collect();
        // Texts that are made longer stay short.
        match own.name.as_str() {
            "repeat" | "lpad" | "rpad" | "round" | "trunc" | "right" if arguments.len() > 1 => {
                format!("{}({}, 3)", own.name, arguments[0])
            }
            name => format!("{name}({})", arguments.join(", ")),
        }
    }

    fn aggregate(&mut self, depth: u32) -> String {
        let own = &self.callables.aggregates[self.number(self.callables.aggregates.len())];
        let element = Some(self.of(&["integer", "text", "date"]));
        let mut arguments: Vec<String> =
            own.arguments.iter().map(|argument| self.argument(argument, element, depth)).collect();
        if own.name == "mode" || own.name.starts_with("percentile") {
            return "count(*)".into();
        }
        if arguments.is_empty() {
            arguments.push("*".into());
            return format!("{}(*)", own.name);
        }
        let filter = match self.one_in(5) {
            true => format!(" FILTER (WHERE {})", self.value("boolean", 1)),
            false => String::new(),
        };
        format!("{}({} ORDER BY t.id){filter}", own.name, arguments.join(", "))
    }

    /// Returns a call of an aggregate that takes a window.
    fn plain_aggregate(&mut self) -> String {
        let ty = self.of(&["integer", "bigint", "numeric", "double precision", "date", "interval"]);
        let value = self.value(ty, 1);
        let name = match ty {
            "date" => self.of(&["min", "max", "count", "array_agg"]),
            "interval" => self.of(&["min", "max", "count", "sum", "avg"]),
            _ => self.of(&["sum", "avg", "min", "max", "count", "var_pop", "stddev", "array_agg"]),
        };
        format!("{name}({value})")
    }

    fn row(&mut self, id: usize) -> String {
        let mut values = vec![id.to_string(), self.number(3).to_string()];
        for column in ["i2", "i4", "i8", "n", "f4", "f8", "b", "s", "v", "c", "by", "d", "tm", "ts", "tz"]
            .iter()
            .chain(&["iv", "u", "j", "jb", "ai", "at", "ad"])
        {
            let kind = KINDS.iter().find(|kind| kind.column == *column).expect("a type of the list");
            values.push(self.literal(kind));
        }
        format!("({})", values.join(", "))
    }

    /// Returns statements that give the tables new rows.
    pub(super) fn filling(&mut self) -> Vec<String> {
        let rows: Vec<String> = (0..8).map(|id| self.row(id)).collect();
        let of_u = (0..12).map(|number| {
            let (n, s) = (self.of(&["1", "2.5", "NULL"]), self.of(&["'a'", "'b'", "NULL"]));
            format!("({number}, {}, {n}, {s}, '2024-01-{:02}')", number % 7, number + 1)
        });
        let of_u: Vec<String> = of_u.collect();
        vec![
            "DELETE FROM t".into(),
            format!("INSERT INTO t VALUES {}", rows.join(", ")),
            format!("INSERT INTO u VALUES {}", of_u.join(", ")),
        ]
    }

    pub(super) fn statement(&mut self) -> String {
        let depth = 1 + self.number(3) as u32;
        match self.number(20) {
            0..9 => self.values(depth),
            9 | 10 => self.groups(depth),
            11..16 => self.combined(depth),
            _ => self.write(depth),
        }
    }

    /// Returns a query of one table with expressions among its outputs and conditions.
    fn values(&mut self, depth: u32) -> String {
        let kind = self.kind();
        match self.number(4) {
            0 => {
                let condition = self.value("boolean", depth);
                format!("SELECT id, {} FROM t WHERE {condition}", self.value(kind.name, 1))
            }
            1 => {
                self.has_row = false;
                let value = self.value(kind.name, depth);
                format!("SELECT {value}, pg_typeof({value})")
            }
            _ => {
                let value = self.value(kind.name, depth);
                format!("SELECT id, {value}, pg_typeof({value}) FROM t")
            }
        }
    }

    fn groups(&mut self, depth: u32) -> String {
        match self.number(4) {
            0 => {
                let kind = self.ordered();
                let value = self.value(kind.name, depth);
                format!("SELECT {value}, count(*) FROM t GROUP BY 1 ORDER BY 1")
            }
            1 => {
                let (partition, filter) = (self.of(&["g", "b", "s", "d"]), self.value("boolean", 1));
                let frame = self.of(&["", " ROWS 2 PRECEDING", " GROUPS CURRENT ROW"]);
                let window = format!("PARTITION BY {partition} ORDER BY t.id{frame}");
                format!("SELECT id, {} OVER ({window}) FROM t WHERE {filter}", self.plain_aggregate())
            }
            2 => {
                let kind = self.of(&[&KINDS[1], &KINDS[2], &KINDS[7], &KINDS[11], &KINDS[13], &KINDS[16]]);
                let value = self.value(kind.name, depth);
                let condition = self.value("boolean", 1);
                let end = "ORDER BY v DESC NULLS LAST LIMIT 4";
                format!("SELECT DISTINCT {value} AS v FROM t WHERE {condition} {end}")
            }
            _ => format!("SELECT g, {}, {} FROM t GROUP BY g", self.aggregate(1), self.aggregate(1)),
        }
    }

    /// Returns a query with a join, a set operation or a subquery.
    fn combined(&mut self, depth: u32) -> String {
        let condition = self.value("boolean", 1);
        match self.number(4) {
            0 => {
                let (join, on) = (self.of(&["JOIN", "LEFT JOIN"]), self.value("boolean", depth));
                format!("SELECT t.id, u.k, u.n FROM t {join} u ON u.t_id = t.id AND {on}")
            }
            1 => {
                let ty = self.of(&["integer", "numeric", "double precision", "text", "date", "integer[]"]);
                let (left, right) = (self.value(ty, depth), self.value(ty, depth));
                let set = self.of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"]);
                format!(
                    "SELECT {left}, pg_typeof({left}) FROM t {set} SELECT {right}, pg_typeof({right}) FROM t"
                )
            }
            2 => {
                let kind = self.ordered();
                let (value, other) = (self.value(kind.name, 1), self.value(kind.name, 1));
                let operator = self.of(&["IN", "NOT IN", "= ANY", "<> ALL", "> ALL", "<= ANY"]);
                let query = format!("SELECT {other} FROM t WHERE {condition}").replace("t.", "o.");
                let query = query.replace("FROM t ", "FROM t o ");
                format!("SELECT id FROM t WHERE {value} {operator} ({query})")
            }
            _ => {
                let kind = self.kind();
                let value = self.value(kind.name, depth);
                let aggregate = self.of(&["count(*)", "sum(u.n)", "max(u.s)", "array_agg(u.d ORDER BY u.k)"]);
                format!(
                    "WITH q AS (SELECT id, {value} AS v FROM t WHERE {condition})
                     SELECT q.*, x.a FROM q JOIN t ON t.id = q.id
                     LEFT JOIN LATERAL (SELECT {aggregate} AS a FROM u WHERE u.t_id = q.id) x ON true"
                )
            }
        }
    }

    fn write(&mut self, depth: u32) -> String {
        let kind = self.kind();
        match self.number(4) {
            0 => {
                let value = self.value(kind.name, depth);
                let condition = self.value("boolean", 1);
                format!("UPDATE t SET {0} = {value} WHERE {condition} RETURNING id, {0}", kind.column)
            }
            1 => {
                let value = self.value(kind.name, 1);
                let condition = self.value("boolean", depth);
                format!(
                    "UPDATE t SET {0} = {value} FROM u WHERE u.t_id = t.id AND u.k < 7 AND {condition}
                     RETURNING t.id, t.{0}, u.k",
                    kind.column
                )
            }
            2 => {
                let condition = self.value("boolean", depth);
                let way = self.of(&[
                    "DELETE FROM t WHERE",
                    "DELETE FROM u USING t WHERE u.t_id = t.id AND",
                    "DELETE FROM t USING u WHERE u.t_id = t.id + 1 AND",
                ]);
                format!("{way} {condition} RETURNING t.id")
            }
            _ => {
                let (s, d) = (self.value("text", depth), self.value("date", 1));
                let action = self.of(&[
                    "DO NOTHING",
                    "(k, t_id) DO UPDATE SET s = excluded.s, n = u.n + 1",
                    "(k, t_id) DO UPDATE SET d = excluded.d WHERE u.s IS DISTINCT FROM excluded.s",
                ]);
                format!(
                    "INSERT INTO u (k, t_id, s, d) SELECT t.id, t.id, {s}, {d} FROM t ORDER BY t.id
                     ON CONFLICT {action} RETURNING *"
                )
            }
        }
    }
}
