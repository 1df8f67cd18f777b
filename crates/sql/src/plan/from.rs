//! Binds FROM: relations and joins.

use super::conjunct::Conjunct;
use super::records::RecordCall;
use super::sets::{SetColumn, SetFunction, catalog_rows, returns_record, returns_set};
use super::windows::WindowScope;
use super::{Binder, Bound, Level, Merged, Relation, Relations, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::full_names::short;
use crate::types::{last_name, object_name};
use catalog::{ScalarType, Type};
use procedure::query::{JoinKind, Plan, TableFunction};
use procedure::{CompareOperator, Expression, Procedure, Register, SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// An input of a join: a relation, or a join whose order must be kept.
#[derive(Debug)]
pub(super) enum Source {
    Relation(usize),
    Join(Box<OuterJoin>),
}

/// A left or full join. A right join is a left join with its sides swapped.
#[derive(Debug)]
pub(super) struct OuterJoin {
    /// `Left` or `Full`.
    pub(super) kind: JoinKind,
    pub(super) left: Vec<Source>,
    pub(super) left_conjuncts: Vec<Conjunct>,
    pub(super) right: Vec<Source>,
    pub(super) right_conjuncts: Vec<Conjunct>,
    /// The conjuncts of ON, or the equalities of USING.
    pub(super) condition: Vec<Conjunct>,
}

/// A bound FROM.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) sources: Vec<Source>,
    /// The conditions of their inner joins.
    pub(super) conjuncts: Vec<Conjunct>,
    /// The columns of `*`, by relation and position.
    pub(super) star: Vec<(usize, usize)>,
}

impl Source {
    /// Returns its relations.
    pub(super) fn relations(&self) -> Relations {
        match self {
            Self::Relation(relation) => 1 << relation,
            Self::Join(join) => {
                join.left.iter().chain(&join.right).map(Self::relations).fold(0, |a, b| a | b)
            }
        }
    }
}

impl Level {
    /// Returns the column, as its relation and position, of the function of one column with this alias.
    pub(super) fn scalar(&self, name: &str) -> Option<(usize, usize)> {
        let mut scalars = self.scalars.iter();
        scalars.find(|relation| self.relations[**relation].alias == name).map(|relation| (*relation, 0))
    }
}

impl Binder<'_> {
    pub(super) fn bind_from_list(
        &mut self,
        items: impl Iterator<Item = ast::FromListItem>,
    ) -> Result<Sources, StatementError> {
        let mut all = Sources::default();
        for item in items {
            let mut bound = self.bind_from_list_item(&item)?;
            all.sources.append(&mut bound.sources);
            all.conjuncts.append(&mut bound.conjuncts);
            all.star.append(&mut bound.star);
        }
        let level = self.level();
        level.star.clone_from(&all.star);
        level.from = all.sources.iter().map(Source::relations).fold(0, |a, b| a | b);
        Ok(all)
    }

    fn bind_from_list_item(&mut self, item: &ast::FromListItem) -> Result<Sources, StatementError> {
        match item {
            ast::FromListItem::JoinExpr(join) => self.bind_join(join),
            ast::FromListItem::FromItem(item) => self.bind_from_item(item),
        }
    }

    fn bind_from_item(&mut self, item: &ast::FromItem) -> Result<Sources, StatementError> {
        let node = item.syntax();
        let mut conjuncts = Vec::new();
        let relation = match item {
            ast::FromItem::RelationFromItem(relation) => {
                if let Some(sample) = relation.tablesample_clause() {
                    return Err(self.unsupported(sample.syntax(), "TABLESAMPLE"));
                }
                let path = relation.relation_name_ref().and_then(|name| name.path_ref());
                let path = self.part(path, node)?;
                let name = object_name(&path);
                if relation.only_token().is_some() {
                    self.refuse_only(&name, node)?;
                }
                let (alias, names) = self.alias_of(relation.alias())?;
                let alias = alias.unwrap_or_else(|| last_name(&path));
                let named = self.queries.named.iter().rev().find(|query| query.name == name);
                match named.cloned().filter(|_| path.qualifier().is_none()) {
                    Some(named) => self.add_named(named, alias, names, node)?,
                    None if self.schema.is_partition(&name) => {
                        self.add_partition(&name, alias, names, &mut conjuncts, node)?
                    }
                    None => self.add_stored(&name, (alias, names), node)?,
                }
            }
            ast::FromItem::ParenFromItem(paren) => {
                if let Some(joins) = paren.paren_expr() {
                    if paren.alias().is_some() {
                        return Err(self.unsupported(node, "an alias of a join"));
                    }
                    let inner = self.part(joins.from_list_item(), node)?;
                    return self.bind_from_list_item(&inner);
                }
                let select = self.part(paren.paren_select().and_then(|select| select.select()), node)?;
                let lateral = paren.lateral_token().is_some();
                let hidden = if lateral { Vec::new() } else { std::mem::take(&mut self.level().relations) };
                let merged = if lateral { Vec::new() } else { std::mem::take(&mut self.level().merged) };
                let bound = self.referring(|binder| binder.bind_variant(&select));
                if !lateral {
                    (self.level().relations, self.level().merged) = (hidden, merged);
                }
                let (bound, references) = bound?;
                let (alias, names) = self.alias_of(paren.alias())?;
                let lateral_relations = if lateral { references.relations } else { 0 };
                self.add_bound(bound, (alias, names), (lateral_relations, references.outer), node)?
            }
            ast::FromItem::FunctionFromItem(function) => self.bind_table_function(function)?,
            ast::FromItem::RowsFromItem(rows) => self.bind_rows_from(rows)?,
            _ => return Err(self.unsupported(node, "this kind of FROM")),
        };
        let columns = self.level().relations[relation].shown();
        let star = (0..columns).map(|column| (relation, column)).collect();
        Ok(Sources { sources: vec![Source::Relation(relation)], conjuncts, star })
    }

    pub(super) fn alias_of(
        &self,
        alias: Option<ast::FromAlias>,
    ) -> Result<(Option<String>, Vec<String>), StatementError> {
        let Some(alias) = alias else { return Ok((None, Vec::new())) };
        let names = match alias.columns() {
            None => Vec::new(),
            Some(ast::FromAliasColumns::ColumnList(list)) => Self::column_names(Some(list)),
            Some(ast::FromAliasColumns::ColumnDefList(list)) => {
                let names = list.column_defs().filter_map(|column| column.name());
                names.map(|name| ast::normalize_name_node(name.syntax())).collect()
            }
        };
        Ok((alias.name().map(|name| ast::normalize_name_node(name.syntax())), names))
    }

    /// Adds the rows of a query to the level.
    pub(super) fn add_bound(
        &mut self,
        bound: Bound,
        (alias, names): (Option<String>, Vec<String>),
        (lateral, outer): (Relations, bool),
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let alias = alias.unwrap_or_default();
        let registers = bound.columns.iter().map(|column| column.register).collect();
        let mut columns: Vec<_> = bound.columns.into_iter().map(|column| (column.name, column.ty)).collect();
        self.rename(&mut columns, names, &alias, node)?;
        let rows = Rows::Plan { plan: Some(Box::new(bound.plan)), registers, lateral, outer };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Adds a function that the schema defines as a relation of its rows, or of one row with its result.
    fn add_call(
        &mut self,
        procedure: Arc<Procedure>,
        arguments: Vec<Option<Typed>>,
        applied: Vec<super::Applied>,
        references: super::References,
        item: &ast::FunctionFromItem,
    ) -> Result<usize, StatementError> {
        let node = item.syntax();
        let (alias, names) = self.alias_of(item.alias())?;
        let alias = alias.unwrap_or_else(|| short(&procedure.name).to_owned());
        let arguments = self.call_arguments(&procedure, arguments, node)?;
        if let Some(mut columns) = procedure.rows.clone() {
            if let [(only, _)] = columns.as_mut_slice()
                && *only == short(&procedure.name)
            {
                // As in PostgreSQL, the only column of a function has the name of the alias.
                only.clone_from(&alias);
            }
            let mut registers: Vec<_> = columns.iter().map(|(_, ty)| self.new_register(*ty)).collect();
            let outputs = registers.clone();
            let ordinality = item.with_ordinality().map(|_| self.new_register(ScalarType::BigInt));
            if let Some(register) = ordinality {
                columns.push(("ordinality".into(), ScalarType::BigInt.into()));
                registers.push(register);
            }
            self.note_call(&procedure);
            self.rename(&mut columns, names, &alias, node)?;
            let rows = Plan::Rows { procedure, arguments, registers: outputs, ordinality };
            let plan = Some(Box::new(super::apply_ahead(applied, rows)));
            let rows = Rows::Plan { plan, registers, lateral: references.relations, outer: references.outer };
            return self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node);
        }
        if item.with_ordinality().is_some() {
            return Err(self.unsupported(node, "WITH ORDINALITY of this function"));
        }
        let (_, ty) = procedure.result.expect("the caller found a function with a result or with rows");
        // As in PostgreSQL, the only column has the name of the OUT parameter, if that has one.
        let mut outputs = procedure.parameters.iter().filter(|parameter| parameter.is_output());
        let output = outputs.next().map(|own| own.name.clone()).filter(|name| !name.is_empty());
        let target = self.new_register(ty);
        self.note_result(&procedure, target);
        self.note_call(&procedure);
        let outputs = vec![target];
        let call = Plan::Call { input: Box::new(Plan::One), procedure, arguments, outputs };
        let mut columns = vec![(output.unwrap_or_else(|| alias.clone()), ty)];
        self.rename(&mut columns, names, &alias, node)?;
        let plan = Some(Box::new(super::apply_ahead(applied, call)));
        let rows = Rows::Plan {
            plan,
            registers: vec![target],
            lateral: references.relations,
            outer: references.outer,
        };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Returns a new register for values that a function computes.
    pub(crate) fn computed_register(&mut self, ty: Type) -> Register {
        let register = self.new_register(ty);
        self.origins.note_computed(register, ty);
        register
    }

    /// Binds a function in FROM. Its arguments may refer to earlier relations.
    fn bind_table_function(&mut self, item: &ast::FunctionFromItem) -> Result<usize, StatementError> {
        let node = item.syntax();
        let call = self.part(item.call_expr(), node)?;
        let name = self.callee(&call)?;
        self.refuse_procedure(&name, call.arg_list(), call.syntax())?;
        let is_called =
            |known: &&Arc<Procedure>| known.result.is_some() || known.rows.is_some() || known.is_template;
        let routine = self.schema.procedure(&name).filter(is_called).cloned();
        let names_some =
            call.arg_list().is_some_and(|list| list.args().any(|argument| argument.expr().is_none()));
        let is_written = |known: &Arc<Procedure>| names_some || known.is_variadic();
        if let Some(procedure) = routine.clone().filter(|known| !known.is_template && is_written(known)) {
            let bind = |binder: &mut Self| binder.function_arguments(&procedure, call.arg_list(), node);
            let ((arguments, applied), references) = self.referring(|binder| binder.applying(bind))?;
            return self.add_call(procedure, arguments, applied, references, item);
        }
        let has_array =
            call.arg_list().is_some_and(|list| list.args().any(|own| own.variadic_token().is_some()));
        if let Some(template) = routine.clone().filter(|known| known.is_template && (names_some || has_array))
        {
            let bind = |binder: &mut Self| binder.function_arguments(&template, call.arg_list(), node);
            let ((arguments, applied), references) = self.referring(|binder| binder.applying(bind))?;
            let columns = self.defined_columns(item.alias())?;
            let procedure = self.placed_instance(&template, &arguments, columns, node)?;
            return self.add_call(procedure, arguments, applied, references, item);
        }
        let arguments = self.plain_arguments(call.arg_list())?;
        if let Some(populated) = self.add_populated(&name, &arguments, item)? {
            return Ok(populated);
        }
        let arguments = self.without_results(&name, arguments);
        let bind = |binder: &mut Self| binder.bind_row(&arguments);
        let ((bound, applied), references) = self.referring(|binder| binder.applying(bind))?;
        if let Some(mut procedure) = routine {
            procedure = self.function_of_rows(procedure, &bound, item)?;
            let arguments = self.inputs_by_position(&procedure, bound, node)?;
            return self.add_call(procedure, arguments, applied, references, item);
        }
        if let Some(ast::FromAliasColumns::ColumnDefList(list)) =
            item.alias().and_then(|alias| alias.columns())
            && returns_set(&name)
        {
            let call = RecordCall { name: &name, arguments: bound, applied, references };
            return self.add_records(call, item, &list);
        }
        let SetFunction { function, arguments, columns } = self.built_in_rows(&name, bound, node)?;
        let (alias, names) = self.alias_of(item.alias())?;
        let only =
            if columns.len() == 1 { alias.clone().unwrap_or_else(|| name.clone()) } else { name.clone() };
        let named = |(name, ty): SetColumn| (name.map_or_else(|| only.clone(), str::to_owned), ty);
        let mut columns: Vec<(String, Type)> = columns.into_iter().map(named).collect();
        let mut registers: Vec<_> = columns.iter().map(|(_, ty)| self.computed_register(*ty)).collect();
        let ordinality = item.with_ordinality().map(|_| self.new_register(ScalarType::BigInt));
        let outputs = registers.clone();
        let function = Plan::Function { function, arguments, registers: outputs, ordinality };
        let plan = super::apply_ahead(applied, function);
        if let Some(ordinality) = ordinality {
            registers.push(ordinality);
            columns.push(("ordinality".into(), ScalarType::BigInt.into()));
        }
        let alias = alias.unwrap_or(name);
        self.rename(&mut columns, names, &alias, node)?;
        let rows = Rows::Plan {
            plan: Some(Box::new(plan)),
            registers,
            lateral: references.relations,
            outer: references.outer,
        };
        self.add_function(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Binds a built-in function in FROM that needs no column definition list.
    fn built_in_rows(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<SetFunction, StatementError> {
        if returns_record(name) {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        if returns_set(name) {
            return self.set_function(name, arguments, node);
        }
        if let Some(rows) = self.partition_rows(name, &arguments, node)? {
            return Ok(rows);
        }
        let Some((arrays, columns)) = catalog_rows(name) else {
            if built_ins_named(name).is_empty() {
                return Err(self.no_function(name, &arguments, node));
            }
            return Err(self.unsupported(node, &format!("function {name} in FROM")));
        };
        let arguments = arrays.into_iter().map(|(value, _)| value).collect();
        Ok(SetFunction { function: TableFunction::Unnest, arguments, columns })
    }

    /// Adds the rows of a function. If it has one column, its alias also names that column.
    fn add_function(&mut self, rows: Relation, node: &SyntaxNode) -> Result<usize, StatementError> {
        let is_scalar = rows.columns.len() == 1;
        let relation = self.add_relation(rows, node)?;
        self.level().scalars.extend(is_scalar.then_some(relation));
        Ok(relation)
    }

    fn bind_join(&mut self, expression: &ast::JoinExpr) -> Result<Sources, StatementError> {
        let mut joins = Vec::new();
        let first = self.chain(expression, &mut joins)?;
        let mut left = self.bind_from_list_item(&first)?;
        for (join, right) in joins {
            let right = self.bind_from_list_item(&right)?;
            left = self.join_sources(left, &join, right)?;
        }
        Ok(left)
    }

    /// Collects a chain of joins in order: returns its first item, and adds each join with its right item.
    /// The grammar nests the items that follow a join without a condition; this adds them to the chain.
    fn chain(
        &self,
        expression: &ast::JoinExpr,
        joins: &mut Vec<(ast::Join, ast::FromListItem)>,
    ) -> Result<ast::FromListItem, StatementError> {
        let node = expression.syntax();
        let left = self.part(expression.from_list_item(), node)?;
        let first = match &left {
            ast::FromListItem::JoinExpr(inner) => self.chain(inner, joins)?,
            _ => left,
        };
        let join = self.part(expression.join(), node)?;
        let right = self.part(join.from_list_item(), node)?;
        let is_cross = matches!(join.join_type(), Some(ast::JoinType::JoinCross(_)));
        match &right {
            ast::FromListItem::JoinExpr(inner) if is_cross || join.natural_token().is_some() => {
                let mut inner_joins = Vec::new();
                let right = self.chain(inner, &mut inner_joins)?;
                joins.push((join, right));
                joins.append(&mut inner_joins);
            }
            _ => joins.push((join, right)),
        }
        Ok(first)
    }

    fn join_sources(
        &mut self,
        mut left: Sources,
        join: &ast::Join,
        mut right: Sources,
    ) -> Result<Sources, StatementError> {
        let node = join.syntax();
        let kept = match join.join_type() {
            Some(ast::JoinType::JoinLeft(_)) => Some((JoinKind::Left, false)),
            Some(ast::JoinType::JoinRight(_)) => Some((JoinKind::Left, true)),
            Some(ast::JoinType::JoinFull(_)) => Some((JoinKind::Full, false)),
            _ => None,
        };
        let relations = |side: &Sources| side.sources.iter().map(Source::relations).fold(0, |a, b| a | b);
        let sides = (relations(&left), relations(&right));
        let (mut conjuncts, mut merged) = (Vec::new(), Vec::new());
        let is_natural = join.natural_token().is_some();
        match join.join_condition() {
            Some(ast::JoinCondition::OnClause(on)) => {
                let condition = self.part(on.expr(), node)?;
                let outside = WindowScope::closed("window functions are not allowed in JOIN conditions");
                self.without_windows(outside, |binder| binder.bind_conjuncts(condition, &mut conjuncts))?;
            }
            Some(ast::JoinCondition::JoinUsingClause(using)) => {
                let list = self.part(using.column_ref_list(), node)?;
                for column in list.column_name_refs() {
                    let name = ast::normalize_name_node(column.syntax());
                    conjuncts.push(self.merge_columns(&name, sides, kept, column.syntax())?);
                    merged.push(name);
                }
            }
            None if is_natural => {
                let names = self.visible_names(sides.0);
                let right_names = self.visible_names(sides.1);
                for name in names.iter().filter(|name| right_names.contains(name)) {
                    conjuncts.push(self.merge_columns(name, sides, kept, node)?);
                    merged.push(name.clone());
                }
            }
            None => {}
        }
        let star = self.star_of_join(&merged, (&left, &right));
        self.level().nullable |= match join.join_type() {
            Some(ast::JoinType::JoinLeft(_)) => sides.1,
            Some(ast::JoinType::JoinRight(_)) => sides.0,
            Some(ast::JoinType::JoinFull(_)) => sides.0 | sides.1,
            _ => 0,
        };
        let Some((kind, swapped)) = kept else {
            left.star = star;
            left.sources.append(&mut right.sources);
            left.conjuncts.append(&mut right.conjuncts);
            left.conjuncts.append(&mut conjuncts);
            return Ok(left);
        };
        if swapped {
            std::mem::swap(&mut left, &mut right);
        }
        let join = OuterJoin {
            kind,
            left: left.sources,
            left_conjuncts: left.conjuncts,
            right: right.sources,
            right_conjuncts: right.conjuncts,
            condition: conjuncts,
        };
        Ok(Sources { sources: vec![Source::Join(Box::new(join))], conjuncts: Vec::new(), star })
    }

    /// Returns the columns of `*` for a join: first the merged columns, then the remaining columns of both
    /// sides.
    fn star_of_join(
        &mut self,
        merged: &[String],
        (left, right): (&Sources, &Sources),
    ) -> Vec<(usize, usize)> {
        let both = [left.star.as_slice(), right.star.as_slice()].concat();
        let level = self.level();
        let find = |name: &String| {
            let is_meant = |known: &&Merged| known.name == *name && both.contains(&known.hides[0]);
            level.merged.iter().find(is_meant)
        };
        let merged: Vec<&Merged> = merged.iter().filter_map(find).collect();
        let is_merged = |column: &&(usize, usize)| merged.iter().any(|known| known.hides.contains(column));
        let firsts = merged.iter().map(|known| known.hides[0]);
        firsts.chain(both.iter().filter(|column| !is_merged(column)).copied()).collect()
    }

    /// Returns the distinct column names of relations.
    fn visible_names(&mut self, relations: Relations) -> Vec<String> {
        let level = self.level();
        let mut names = Vec::new();
        for (index, relation) in level.relations.iter().enumerate() {
            if relations & 1 << index == 0 {
                continue;
            }
            for (name, _) in &relation.columns[..relation.shown()] {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Returns the column of one side of a join with this name, and the columns that it represents.
    fn side_column(
        &mut self,
        name: &str,
        side: Relations,
        node: &SyntaxNode,
    ) -> Result<(Typed, Vec<(usize, usize)>), StatementError> {
        let level_index = self.queries.levels.len() - 1;
        let is_hidden = |level: &super::Level, column: (usize, usize)| {
            level.merged.iter().any(|merged| merged.hides.contains(&column))
        };
        let level = &self.queries.levels[level_index];
        if let Some(merged) =
            level.merged.iter().position(|known| known.name == name && side & 1 << known.hides[0].0 != 0)
        {
            let hides = level.merged[merged].hides.clone();
            return Ok((self.merged_column(level_index, merged, node)?, hides));
        }
        let mut found = Vec::new();
        let on_side = level.relations.iter().enumerate().filter(|(index, _)| side & 1 << index != 0);
        for (index, relation) in on_side {
            if let Some(column) = relation.column_index(name)
                && !is_hidden(level, (index, column))
            {
                found.push((index, column));
            }
        }
        match found.as_slice() {
            [column] => Ok((self.column_of_relation(level_index, column.0, column.1, node)?, vec![*column])),
            [] => {
                let message =
                    format!("column \"{name}\" specified in USING clause does not exist in both tables");
                Err(self.error(node, SqlError::new("42703", message)))
            }
            _ => {
                let message = format!("common column name \"{name}\" appears more than once in a table");
                Err(self.error(node, SqlError::new("42702", message)))
            }
        }
    }

    /// Merges two columns of the same name. Returns the condition that they are equal.
    fn merge_columns(
        &mut self,
        name: &str,
        (left, right): (Relations, Relations),
        kept: Option<(JoinKind, bool)>,
        node: &SyntaxNode,
    ) -> Result<Conjunct, StatementError> {
        let ((a, hidden_a), a_refers) = self.referring(|binder| binder.side_column(name, left, node))?;
        let ((b, hidden_b), b_refers) = self.referring(|binder| binder.side_column(name, right, node))?;
        let value = match kept {
            Some((JoinKind::Left, true)) => b.clone(),
            Some((JoinKind::Full, _)) => {
                let (items, ty) = self.unify("JOIN/USING", vec![a.clone(), b.clone()], node)?;
                Typed::Known(Expression::Coalesce(items), ty)
            }
            _ => a.clone(),
        };
        let conjunct = self.compared(CompareOperator::Equal, (a, a_refers), (b, b_refers), node)?;
        let level = self.level();
        let hides = [hidden_a, hidden_b].concat();
        level.merged.retain(|column| column.name != name || !hides.contains(&column.hides[0]));
        level.merged.push(Merged { name: name.into(), value, hides });
        Ok(conjunct)
    }
}
