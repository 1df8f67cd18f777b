//! CREATE TABLE AS and SELECT INTO: the statements that create a table for a query, and fill it.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::nameless::{Compiled, compile_for_client};
use crate::notices::skipping;
use crate::quoted::{quoted, quoted_path};
use crate::schema::Schema;
use crate::source::Source;
use crate::types::made_name;
use catalog::OnCommit;
use procedure::{Notice, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The statements that create a table for a query and fill it. They are executed as one transaction.
#[derive(Clone, Debug)]
pub struct Filled {
    /// CREATE TABLE.
    pub create: String,
    /// INSERT of the query's rows; `None` for WITH NO DATA.
    pub insert: Option<String>,
    /// The error of a role that lacks a privilege that the query needs.
    pub refused: Option<SqlError>,
}

/// A table that a statement creates for a query.
struct QueryTable {
    persistence: Option<ast::Persistence>,
    on_commit: Option<ast::OnCommit>,
    path: Option<ast::Path>,
    names: Vec<String>,
    /// The query; `None`: it is parsed from `text`.
    query: Option<ast::Stmt>,
    text: String,
}

/// Returns the SELECT INTO that a statement is, or with which its UNION, INTERSECT or EXCEPT begins.
fn select_into(statement: &ast::Stmt) -> Option<ast::SelectInto> {
    let mut node = match statement {
        ast::Stmt::SelectInto(_) | ast::Stmt::CompoundSelect(_) => statement.syntax().clone(),
        _ => return None,
    };
    while ast::CompoundSelect::can_cast(node.kind()) {
        node = node.children().find(|child| ast::SelectVariant::can_cast(child.kind()))?;
    }
    ast::SelectInto::cast(node)
}

/// The statements with the command tag, or the notice of a table that is there.
type FilledOrSkipped = (Result<Filled, Notice>, &'static str);

impl Schema {
    /// Returns whether a text is CREATE TABLE AS or SELECT INTO.
    pub fn may_fill(text: &str) -> bool {
        let Ok(source) = Source::parse(text) else { return false };
        let first = source.file.stmts().next();
        first.is_some_and(|first| {
            matches!(first, ast::Stmt::CreateTableAs(_)) || select_into(&first).is_some()
        })
    }

    /// Returns the statements of a CREATE TABLE AS or SELECT INTO, with the command tag; `None` for any other
    /// statement. CREATE TABLE IF NOT EXISTS of an existing table has a notice instead.
    pub(crate) fn filled(
        &self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Option<FilledOrSkipped>, StatementError> {
        let node = statement.syntax();
        let binder = Binder::new(self, source);
        let mut skipped = None;
        let (made, with_data, tag) = match (statement, select_into(statement)) {
            (ast::Stmt::CreateTableAs(create), _) => {
                let path = create.table_name().and_then(|name| name.path());
                if create.if_not_exists().is_some()
                    && let Some(path) = &path
                    && let name = made_name(&binder, path)?
                    && self.relation_exists(&name)
                {
                    let fact = format!("relation \"{}\" already exists", short(&name));
                    skipped = Some(skipping("42P07", &fact));
                }
                let query = match binder.part(create.query(), node)? {
                    ast::CreateTableAsQuery::SelectVariant(query) => query,
                    ast::CreateTableAsQuery::Execute(execute) => {
                        return Err(binder.unsupported(execute.syntax(), "CREATE TABLE AS EXECUTE"));
                    }
                };
                let list = create.table_arg_list();
                let names = list.into_iter().flat_map(|list| list.args()).filter_map(|own| match own {
                    ast::TableArg::Column(column) => column.name().map(|name| name.text()),
                    _ => None,
                });
                let made = QueryTable {
                    persistence: create.persistence(),
                    on_commit: create.on_commit(),
                    path,
                    names: names.collect(),
                    text: source.text_of(query.syntax()).to_owned(),
                    query: Some(binder.part(ast::Stmt::cast(query.syntax().clone()), node)?),
                };
                let with_data = !matches!(create.data_option(), Some(ast::DataOption::WithNoData(_)));
                (made, with_data, if with_data { "SELECT" } else { "CREATE TABLE AS" })
            }
            (_, Some(select)) => {
                let into = binder.part(select.into_clause(), node)?;
                let text = source.text_of(node).trim_end().trim_end_matches(';');
                let (whole, clause) = (source.range_of(node), source.range_of(into.syntax()));
                let (start, end) = (clause.start - whole.start, clause.end - whole.start);
                // Blanks keep the offsets of the text behind them.
                let text = format!("{}{}{}", &text[..start], " ".repeat(end - start), &text[end..]);
                let made = QueryTable {
                    persistence: into.persistence(),
                    on_commit: None,
                    path: into.table_name().and_then(|name| name.path()),
                    names: Vec::new(),
                    query: None,
                    text,
                };
                (made, true, "SELECT")
            }
            _ => return Ok(None),
        };
        let compiled = self.compiled_query(&binder, &made, node)?;
        if let Some(skipped) = skipped {
            return Ok(Some((Err(skipped), "CREATE TABLE AS")));
        }
        let filled = self.statements_of(&binder, &made, compiled, node)?;
        let filled = Filled { insert: filled.insert.filter(|_| with_data), ..filled };
        Ok(Some((Ok(filled), tag)))
    }

    fn compiled_query(
        &self,
        binder: &Binder<'_>,
        made: &QueryTable,
        node: &SyntaxNode,
    ) -> Result<Compiled, StatementError> {
        let Some(query) = &made.query else {
            let source = Source::parse(&made.text)?;
            let first = source.file.stmts().next();
            return compile_for_client(&binder.part(first, node)?, self, &source, &[]);
        };
        compile_for_client(query, self, binder.source, &[])
    }

    fn statements_of(
        &self,
        binder: &Binder<'_>,
        made: &QueryTable,
        compiled: Compiled,
        node: &SyntaxNode,
    ) -> Result<Filled, StatementError> {
        let QueryTable { persistence, on_commit, path, names, text, .. } = made;
        let path = binder.part(path.clone(), node)?;
        let name = made_name(binder, &path)?;
        binder.refuse_outside_of_session(persistence.clone(), &name)?;
        let end = match binder.on_commit(on_commit.clone(), &name)? {
            OnCommit::Preserve => "",
            OnCommit::Delete => " ON COMMIT DELETE ROWS",
            OnCommit::Drop => " ON COMMIT DROP",
        };
        let name = quoted_path(&name);
        if !compiled.parameters.is_empty() {
            return Err(binder.unsupported(node, "a parameter in this statement"));
        }
        if names.len() > compiled.columns.len() {
            return Err(binder.error(node, SqlError::new("42601", "too many column names were specified")));
        }
        let given = names.iter().map(Some).chain(std::iter::repeat(None));
        let columns = compiled.columns.iter().zip(given).map(|(column, given)| {
            let ty = column.declared_type();
            let ty = column.domain.as_deref().map_or_else(|| ty.to_string(), quoted_path);
            format!("{} {ty}", quoted(given.unwrap_or(&column.name)))
        });
        let columns: Vec<String> = columns.collect();
        let create = format!("CREATE TABLE {name} ({}){end}", columns.join(", "));
        let insert = Some(format!("INSERT INTO {name} {text}"));
        Ok(Filled { create, insert, refused: compiled.refused })
    }
}
