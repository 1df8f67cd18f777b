//! EXPLAIN of a statement, or of a prepared one.

use crate::StatementError;
use crate::binder::Binder;
use crate::nameless::{Compiled, compile_for_client};
use crate::prepare::{Analyzed, ExplainedExecute, Kind, Prepared, text_column};
use crate::schema::Schema;
use crate::source::Source;
use catalog::{ScalarType, Type};
use procedure::query::{ExplainFormat, Explained};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Kind {
    /// Returns an EXECUTE; `explain` is the EXPLAIN before it.
    pub(crate) fn of_execute(
        execute: &ast::Execute,
        explain: Option<ExplainedExecute>,
        source: &Source,
    ) -> Self {
        let name = execute.prepared_statement_ref().map(|name| ast::normalize_name_node(name.syntax()));
        let list = execute.arg_list().into_iter().flat_map(|list| list.args());
        let arguments = list.map(|argument| source.text_of(argument.syntax()).to_owned()).collect();
        Self::Execute { name: name.unwrap_or_default(), arguments, explain }
    }
}

impl Schema {
    /// Prepares EXPLAIN.
    pub(crate) fn prepare_explain(
        &self,
        explain: &ast::Explain,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Prepared, StatementError> {
        let (binder, node) = (Binder::new(self, source), explain.syntax());
        let options = binder.explain_options(explain)?;
        let inner = binder.part(explain.explain_stmt(), node)?;
        let inner = inner.syntax().clone();
        let inner = binder.part(ast::Stmt::cast(inner), node)?;
        let mut column = text_column("QUERY PLAN");
        if options.format == ExplainFormat::Json {
            column.ty = ScalarType::Json.into();
        }
        let columns = vec![column];
        if let ast::Stmt::Execute(execute) = &inner {
            // The session explains the text of the prepared statement.
            let range = source.range_of(node).start..source.range_of(inner.syntax()).start;
            let explain = source.written_text(range).to_owned();
            let text = source.text_of(inner.syntax()).to_owned();
            let explained = ExplainedExecute { explain, execute: text };
            let kind = Kind::of_execute(execute, Some(explained), source);
            return Ok(Prepared { columns, ..Prepared::plain(kind, "EXPLAIN") });
        }
        let compiled = compile_for_client(&inner, self, source, types)?;
        let Compiled { procedure, parameters, refused, .. } = compiled;
        let refused = refused.map(Box::new);
        if options.analyzes {
            let kind = Kind::Analyze(Analyzed { procedure: Arc::new(procedure), options });
            let plain = Prepared::plain(kind, "EXPLAIN");
            return Ok(Prepared { columns, parameters, refused, ..plain });
        }
        let lines = Explained::show(&procedure.explained(None), options, None);
        let plain = Prepared::plain(Kind::Explain(lines), "EXPLAIN");
        Ok(Prepared { columns, parameters, refused, ..plain })
    }
}
