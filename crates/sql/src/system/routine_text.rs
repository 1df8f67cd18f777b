//! Reads the CREATE statement of a routine for the columns of the catalogs.
//! Source: PostgreSQL 15's `pg_proc` and `pg_get_function_arguments`.

use super::qualified::{path_text, type_text};
use crate::binder::{Binder, Typed};
use crate::schema::Schema;
use crate::source::Source;
use crate::types::object_name;
use catalog::Type;
use procedure::{Mode, Procedure};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The default estimates of the cost and the rows of a routine.
const COST: f64 = 100.0;
const ROWS: f64 = 1000.0;

/// The clauses of a routine's CREATE statement.
pub(super) struct RoutineText {
    pub(super) language: String,
    /// The body, without its quotes.
    pub(super) body: String,
    /// `i`, `s` or `v`, as in `pg_proc.provolatile`.
    pub(super) volatility: &'static str,
    /// `s`, `r` or `u`, as in `pg_proc.proparallel`.
    pub(super) parallel: &'static str,
    pub(super) is_strict: bool,
    pub(super) is_definer: bool,
    pub(super) is_leakproof: bool,
    pub(super) cost: f64,
    pub(super) rows: f64,
    /// The settings of SET, as `name=value`.
    pub(super) settings: Vec<String>,
    returns_table: bool,
    returns_set: bool,
    /// The table whose rows the function returns (`RETURNS SETOF t`).
    pub(super) row_type: Option<String>,
    /// The texts of the defaults of the parameters; `None` for a parameter without one.
    pub(super) defaults: Vec<Option<String>>,
}

/// Returns the text inside dollar quotes; `None` if it has none.
fn inside_dollars(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('$')?.find('$')? + 2;
    text.get(tag..text.len().checked_sub(tag)?)
}

/// Returns the statements of a body of the language SQL that has no quotes.
fn plain_body(body: &ast::RoutineBody, source: &Source) -> String {
    match body {
        ast::RoutineBody::AtomicBody(body) => {
            let statements = body.routine_body_stmts().map(|statement| match statement {
                ast::RoutineBodyStmt::ReturnStmt(end) => returned(&end, source),
                ast::RoutineBodyStmt::Stmt(statement) => source.text_of(statement.syntax()).to_owned(),
            });
            statements.map(|text| text.trim_end_matches(';').to_owned() + ";").collect::<Vec<_>>().join(" ")
        }
        ast::RoutineBody::ReturnStmt(end) => returned(end, source),
    }
}

fn returned(end: &ast::ReturnStmt, source: &Source) -> String {
    let text = source.text_of(end.syntax()).trim_end_matches(';');
    format!("SELECT {}", text.get("RETURN".len()..).unwrap_or_default().trim())
}

impl RoutineText {
    /// Reads the CREATE statement of a routine.
    pub(super) fn of(routine: &Procedure, schema: &Schema) -> Self {
        let mut routine_text = Self {
            language: "sql".into(),
            body: String::new(),
            volatility: "v",
            parallel: "u",
            is_strict: false,
            is_definer: false,
            is_leakproof: false,
            cost: COST,
            rows: ROWS,
            settings: Vec::new(),
            returns_table: false,
            returns_set: false,
            row_type: None,
            defaults: Vec::new(),
        };
        // The statement is well-formed, because it has created the routine.
        let Ok(source) = Source::parse(&routine.source) else { return routine_text };
        let (parameters, options, body) = match source.file.stmts().next() {
            Some(ast::Stmt::CreateFunction(create)) => {
                routine_text.take_result(create.ret_type(), schema);
                (create.param_list(), create.option_list(), create.body())
            }
            Some(ast::Stmt::CreateProcedure(create)) => {
                (create.param_list(), create.option_list(), create.body())
            }
            _ => return routine_text,
        };
        for parameter in parameters.into_iter().flat_map(|list| list.params()) {
            let default = parameter.param_default().and_then(|default| default.expr());
            routine_text
                .defaults
                .push(default.map(|expression| source.text_of(expression.syntax()).to_owned()));
        }
        if let Some(body) = body {
            routine_text.body = plain_body(&body, &source);
        }
        let binder = Binder::new(schema, &source);
        for option in options.into_iter().flat_map(|list| list.options()) {
            routine_text.take(&option, &binder, &source);
        }
        // Only a set-returning function has an estimate of its rows.
        if !routine_text.returns_rows() {
            routine_text.rows = 0.0;
        }
        routine_text
    }

    /// Returns whether a call returns a set of rows.
    pub(super) fn returns_rows(&self) -> bool {
        self.returns_set || self.returns_table
    }

    /// Returns the columns of RETURNS TABLE.
    pub(super) fn columns(&self, routine: &Procedure) -> Vec<(String, Type)> {
        routine.rows.clone().filter(|_| self.returns_table).unwrap_or_default()
    }

    /// Returns the CREATE OR REPLACE statement in the form of `pg_get_functiondef`.
    pub(super) fn definition(&self, routine: &Procedure, is_qualified: bool) -> String {
        let kind = if routine.is_function { "FUNCTION" } else { "PROCEDURE" };
        let (name, arguments) = (path_text(&routine.name, true), self.arguments(routine, true, is_qualified));
        let mut text = format!("CREATE OR REPLACE {kind} {name}({arguments})\n");
        let result = self.result(routine, is_qualified);
        if !result.is_empty() {
            text += &format!(" RETURNS {result}\n");
        }
        text += &format!(" LANGUAGE {}\n", self.language);
        let volatility = match self.volatility {
            "i" => " IMMUTABLE",
            "s" => " STABLE",
            _ => "",
        };
        let parallel = match self.parallel {
            "s" => " PARALLEL SAFE",
            "r" => " PARALLEL RESTRICTED",
            _ => "",
        };
        let mut options = format!("{volatility}{parallel}");
        for (is_set, word) in [
            (self.is_strict, " STRICT"),
            (self.is_definer, " SECURITY DEFINER"),
            (self.is_leakproof, " LEAKPROOF"),
        ] {
            options += if is_set { word } else { "" };
        }
        if self.cost != COST {
            options += &format!(" COST {}", self.cost);
        }
        if self.rows != 0.0 && self.rows != ROWS {
            options += &format!(" ROWS {}", self.rows);
        }
        if !options.is_empty() {
            text += &format!("{options}\n");
        }
        for setting in &self.settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            text += &format!(" SET {name} TO {value}\n");
        }
        let word = if routine.is_function { "function" } else { "procedure" };
        let mut tag = format!("${word}$");
        while self.body.contains(&tag) {
            tag.insert(1, 'x');
        }
        text + &format!("AS {tag}{}{tag}\n", self.body)
    }

    fn take_result(&mut self, result: Option<ast::RetType>, schema: &Schema) {
        let Some(result) = result else { return };
        self.returns_table = result.return_table_arg_list().is_some();
        let Some(ty) = result.func_type() else { return };
        self.returns_set = ty.syntax().text().to_string().to_lowercase().starts_with("setof");
        if let ast::FuncType::Type(ast::Type::PathType(path)) = ty {
            let name = path.path_ref().map(|path| object_name(&path));
            self.row_type = name.filter(|name| schema.catalog().table(name).is_ok());
        }
    }

    fn take(&mut self, option: &ast::FuncOption, binder: &Binder<'_>, source: &Source) {
        use ast::FuncOption;
        let number = |node: &SyntaxNode| {
            let text = source.text_of(node);
            text.split_whitespace().last().and_then(|number| number.parse().ok())
        };
        match option {
            FuncOption::LanguageFuncOption(language) => {
                self.language =
                    language.language_name().map(|language| language.name.to_string()).unwrap_or_default();
            }
            FuncOption::AsFuncOption(definition) => {
                let Some(literal) = definition.syntax().descendants().find_map(ast::Literal::cast) else {
                    return;
                };
                let text = source.text_of(literal.syntax());
                self.body = match (inside_dollars(text), binder.bind_literal(&literal)) {
                    (Some(inside), _) => inside.to_owned(),
                    (None, Ok(Typed::Literal(text))) => text,
                    _ => text.to_owned(),
                };
            }
            FuncOption::VolatilityFuncOption(volatility) => {
                self.volatility = match volatility {
                    ast::VolatilityFuncOption::Immutable(_) => "i",
                    ast::VolatilityFuncOption::Stable(_) => "s",
                    ast::VolatilityFuncOption::Volatile(_) => "v",
                };
            }
            FuncOption::ParallelFuncOption(parallel) => {
                let text = source.text_of(parallel.syntax()).to_lowercase();
                self.parallel = match text.split_whitespace().last() {
                    Some("safe") => "s",
                    Some("restricted") => "r",
                    _ => "u",
                };
            }
            FuncOption::StrictFuncOption(_) | FuncOption::ReturnsNullOnNullInputFuncOption(_) => {
                self.is_strict = true;
            }
            FuncOption::SecurityDefinerFuncOption(_) => self.is_definer = true,
            FuncOption::LeakproofFuncOption(_) => self.is_leakproof = true,
            FuncOption::CostFuncOption(estimate) => {
                self.cost = number(estimate.syntax()).unwrap_or(self.cost)
            }
            FuncOption::RowsFuncOption(estimate) => {
                self.rows = number(estimate.syntax()).unwrap_or(self.rows)
            }
            FuncOption::SetFuncOption(setting) => {
                let text = source.text_of(setting.syntax());
                let text = text.get("SET".len()..).unwrap_or_default().trim();
                let end = text.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(text.len());
                let (name, value) = text.split_at(end);
                let value = value.trim().trim_start_matches('=').trim();
                let value = match value.get(..3) {
                    Some(word) if word.eq_ignore_ascii_case("to ") => value[3..].trim(),
                    _ => value,
                };
                let value = if value == "''" { "\"\"" } else { value.trim_matches('\'') };
                self.settings.push(format!("{}={value}", name.to_lowercase()));
            }
            _ => {}
        }
    }

    /// Returns the parameters as SQL text.
    pub(super) fn arguments(&self, routine: &Procedure, with_defaults: bool, is_qualified: bool) -> String {
        let argument = |(index, parameter): (usize, &procedure::Parameter)| {
            let mode = match parameter.mode {
                Mode::In if parameter.is_variadic => "VARIADIC ",
                Mode::In if !routine.is_function => "IN ",
                Mode::In => "",
                Mode::Out => "OUT ",
                Mode::InOut => "INOUT ",
            };
            let name = match parameter.name.as_str() {
                "" => String::new(),
                name => crate::quoted::quoted(name) + " ",
            };
            let ty = match &parameter.type_of {
                Some(table) => path_text(table, is_qualified),
                None => type_text(parameter.ty.base(), is_qualified),
            };
            let default = self.defaults.get(index).and_then(Option::as_ref).filter(|_| with_defaults);
            let default = default.map(|text| format!(" DEFAULT {text}")).unwrap_or_default();
            format!("{mode}{name}{ty}{default}")
        };
        routine.parameters.iter().enumerate().map(argument).collect::<Vec<_>>().join(", ")
    }

    /// Returns the result as SQL text; empty for a procedure.
    pub(super) fn result(&self, routine: &Procedure, is_qualified: bool) -> String {
        if !routine.is_function {
            return String::new();
        }
        let outputs = routine.parameters.iter().filter(|parameter| parameter.is_output()).count();
        let text = |ty: Type, position: usize| match routine.domains.get(position).and_then(Option::as_deref)
        {
            Some(domain) => path_text(domain, is_qualified),
            None => type_text(ty.base(), is_qualified),
        };
        match (&routine.rows, routine.result) {
            _ if routine.is_void => "void".into(),
            _ if routine.is_trigger => "trigger".into(),
            (None, Some((_, ty))) => text(ty, 0),
            (None, None) => String::new(),
            (Some(columns), _) if self.returns_table => {
                let columns: Vec<_> = columns
                    .iter()
                    .enumerate()
                    .map(|(position, (name, ty))| {
                        format!("{} {}", crate::quoted::quoted(name), text(*ty, position))
                    })
                    .collect();
                format!("TABLE({})", columns.join(", "))
            }
            (Some(columns), _) => {
                let set = if self.returns_set { "SETOF " } else { "" };
                match columns.as_slice() {
                    _ if outputs > 1 => format!("{set}record"),
                    _ if self.row_type.is_some() => {
                        let name = self.row_type.as_deref().unwrap_or_default();
                        format!("{set}{}", path_text(name, is_qualified))
                    }
                    [(_, ty)] => format!("{set}{}", text(*ty, 0)),
                    _ => format!("{set}record"),
                }
            }
        }
    }
}
