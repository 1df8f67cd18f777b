//! Binds GROUP BY, with GROUPING SETS, ROLLUP and CUBE, and calls of `grouping`.

use super::list_positions::bare;
use super::windows::WindowScope;
use super::{Applied, Binder};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::query::GroupingSet;
use procedure::{Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Maximum numbers of grouping sets and of elements of CUBE, as in PostgreSQL.
const MOST_SETS: usize = 4096;
const MOST_CUBED: usize = 12;
/// Maximum number of arguments of `grouping`, whose result has one bit for each argument.
const MOST_MARKED: usize = 31;

/// The bound GROUP BY of a SELECT.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    /// The keys, each with the register of its value.
    pub(super) keys: Vec<(Register, Expression)>,
    /// The keys as the statement spells them: level, text, register and type.
    pub(super) written: Vec<(usize, String, Register, Type)>,
    /// Subqueries and calls in the keys. They are evaluated before rows are grouped.
    pub(super) before: Vec<Applied>,
    /// The indexes in `keys` of each set's keys; `None` without GROUP BY.
    sets: Option<Vec<Vec<usize>>>,
    /// The calls of `grouping`: the register of the result, and the indexes in `keys` of the arguments.
    marks: Vec<(Register, Vec<usize>)>,
}

/// Returns the expressions of an element of GROUP BY, which may be a list in parentheses.
fn expressions(element: ast::Expr) -> Vec<ast::Expr> {
    match element {
        ast::Expr::TupleExpr(tuple) => tuple.exprs().collect(),
        single => vec![single],
    }
}

impl Grouping {
    /// Returns whether there is a GROUP BY.
    pub(super) fn is_written(&self) -> bool {
        self.sets.is_some()
    }

    /// Returns the sets of the plan; none if the only set has all keys and no call of `grouping` reads it.
    pub(super) fn plan_sets(&self) -> Vec<GroupingSet> {
        let sets = self.sets.as_deref().unwrap_or_default();
        let is_single = sets.iter().all(|set| (0..self.keys.len()).all(|key| set.contains(&key)));
        if sets.len() < 2 && is_single && self.marks.is_empty() {
            return Vec::new();
        }
        let mark = |set: &[usize], indexes: &[usize]| {
            indexes.iter().fold(0, |bits, index| bits << 1 | i64::from(!set.contains(index)))
        };
        let plan = |set: &Vec<usize>| GroupingSet {
            has: (0..self.keys.len()).map(|key| set.contains(&key)).collect(),
            marks: self.marks.iter().map(|(register, indexes)| (*register, mark(set, indexes))).collect(),
        };
        sets.iter().map(plan).collect()
    }
}

impl Binder<'_> {
    /// Binds GROUP BY. A key may be a position or a name of an item of `list`, the SELECT list.
    pub(super) fn bind_grouping(
        &mut self,
        clause: Option<ast::GroupByClause>,
        list: &[ast::Target],
    ) -> Result<Grouping, StatementError> {
        let mut grouping = Grouping::default();
        let Some(clause) = clause else { return Ok(grouping) };
        let mut sets = vec![Vec::new()];
        for item in clause.group_by_list().into_iter().flat_map(|list| list.group_bys()) {
            let item_sets = self.bind_grouping_item(&item, list, &mut grouping)?;
            self.check_sets(sets.len() * item_sets.len(), item.syntax())?;
            let joined = |set: &Vec<usize>| {
                let set = set.clone();
                item_sets.iter().map(move |more| set.iter().chain(more).copied().collect())
            };
            sets = sets.iter().flat_map(joined).collect();
        }
        if let Some(ast::AllOrDistinct::Distinct(_)) = clause.all_or_distinct() {
            for set in &mut sets {
                set.sort_unstable();
                set.dedup();
            }
            sets.sort_unstable();
            sets.dedup();
        }
        grouping.sets = Some(sets);
        Ok(grouping)
    }

    fn check_sets(&self, sets: usize, node: &SyntaxNode) -> Result<(), StatementError> {
        if sets <= MOST_SETS {
            return Ok(());
        }
        let message = format!("too many grouping sets present (maximum {MOST_SETS})");
        Err(self.error(node, SqlError::new("54001", message)))
    }

    /// Returns the sets of an item, as indexes in the keys.
    fn bind_grouping_item(
        &mut self,
        item: &ast::GroupBy,
        list: &[ast::Target],
        grouping: &mut Grouping,
    ) -> Result<Vec<Vec<usize>>, StatementError> {
        let node = item.syntax();
        match item {
            ast::GroupBy::GroupingExpr(expression) => {
                let element = self.part(expression.expr(), node)?;
                Ok(vec![self.bind_keys(element, list, grouping)?])
            }
            ast::GroupBy::GroupingRollup(rollup) => {
                let elements = self.bind_elements(rollup.exprs(), list, grouping)?;
                Ok((0..=elements.len()).rev().map(|count| elements[..count].concat()).collect())
            }
            ast::GroupBy::GroupingCube(cube) => {
                let elements = self.bind_elements(cube.exprs(), list, grouping)?;
                if elements.len() > MOST_CUBED {
                    let message = format!("CUBE is limited to {MOST_CUBED} elements");
                    return Err(self.error(node, SqlError::new("54011", message)));
                }
                let subset = |bits: usize| {
                    let has = |index: &usize| bits >> (elements.len() - 1 - index) & 1 == 1;
                    (0..elements.len()).filter(has).flat_map(|index| elements[index].clone()).collect()
                };
                Ok((0..1usize << elements.len()).rev().map(subset).collect())
            }
            ast::GroupBy::GroupingSets(sets) => {
                let mut all = Vec::new();
                for inner in sets.group_bys() {
                    all.append(&mut self.bind_grouping_item(&inner, list, grouping)?);
                    self.check_sets(all.len(), node)?;
                }
                Ok(all)
            }
        }
    }

    fn bind_elements(
        &mut self,
        elements: impl Iterator<Item = ast::Expr>,
        list: &[ast::Target],
        grouping: &mut Grouping,
    ) -> Result<Vec<Vec<usize>>, StatementError> {
        elements.map(|element| self.bind_keys(element, list, grouping)).collect()
    }

    /// Binds the keys of an element. Returns their indexes.
    fn bind_keys(
        &mut self,
        element: ast::Expr,
        list: &[ast::Target],
        grouping: &mut Grouping,
    ) -> Result<Vec<usize>, StatementError> {
        let mut indexes = Vec::new();
        for expression in expressions(element) {
            let expression = self.meant_by_group(bare(expression), list)?;
            let bind = |binder: &mut Self| binder.bind(&expression);
            let outside = WindowScope::closed("window functions are not allowed in GROUP BY");
            let (typed, mut applied) = self.without_windows(outside, |binder| binder.applying(bind))?;
            grouping.before.append(&mut applied);
            let (value, ty) = self.settle(typed, None, expression.syntax())?;
            match ty {
                Type::Scalar(_) => self.check_compared(ty, "equality", expression.syntax())?,
                Type::Array(_) => self.check_grouped(ty, expression.syntax())?,
            }
            let known = grouping.keys.iter().position(|(_, key)| *key == value);
            let index = match known {
                Some(index) => index,
                None => {
                    let loaded = Self::register_of(&value).filter(|loaded| self.level().sets(*loaded));
                    let register = loaded.unwrap_or_else(|| {
                        let register = self.new_register(ty);
                        self.note_value(register, &value);
                        register
                    });
                    grouping.keys.push((register, value));
                    grouping.keys.len() - 1
                }
            };
            let (level, text) = (self.queries.levels.len(), text_of(expression.syntax()));
            grouping.written.push((level, text, grouping.keys[index].0, ty));
            indexes.push(index);
        }
        Ok(indexes)
    }

    /// Binds a call of `grouping`. A bit of its result is 1 if the argument is no key of the group's set.
    ///
    /// # Errors
    /// `42803`: an argument is no group key. `54023`: there are too many arguments.
    pub(crate) fn bind_grouping_call(
        &mut self,
        arguments: &[ast::Expr],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if arguments.len() > MOST_MARKED {
            let message = format!("GROUPING must have fewer than {} arguments", MOST_MARKED + 1);
            return Err(self.error(node, SqlError::new("54023", message)));
        }
        let mut indexes = Vec::new();
        for argument in arguments {
            let typed = self.bind(argument)?;
            let (value, _) = self.settle(typed, None, argument.syntax())?;
            let is_key = |(register, key): &(Register, Expression)| {
                *key == value || Expression::Register(*register) == value
            };
            match self.queries.grouping.keys.iter().position(is_key) {
                Some(index) => indexes.push(index),
                None => {
                    let message =
                        "arguments to GROUPING must be grouping expressions of the associated query level";
                    return Err(self.error(argument.syntax(), SqlError::new("42803", message)));
                }
            }
        }
        let known = self.queries.grouping.marks.iter().find(|(_, marked)| *marked == indexes);
        let known = known.map(|(register, _)| *register);
        let target = known.unwrap_or_else(|| {
            let target = self.new_register(ScalarType::Integer);
            self.queries.grouping.marks.push((target, indexes));
            target
        });
        Ok(Typed::Known(Expression::Register(target), ScalarType::Integer.into()))
    }
}

/// Returns the text of an expression, with one space between tokens and without comments.
pub(super) fn text_of(node: &SyntaxNode) -> String {
    let tokens = node.descendants_with_tokens().filter_map(|part| part.into_token());
    let words = tokens.filter(|token| !token.kind().is_trivia()).map(|token| token.text().to_owned());
    words.collect::<Vec<_>>().join(" ")
}
