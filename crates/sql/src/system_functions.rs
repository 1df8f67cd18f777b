//! Functions over the system catalogs, casts to `regclass` and similar types, and functions that clients call
//! when they connect.
//!
//! Not here: functions over roles and privileges (`role_functions`).

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::system::{Named, PG_CLASS, catalog_oid};
use catalog::{ScalarType, Type};
use procedure::{
    ArithmeticOperator, ByValueCause, Cast, CastContext, CompareClass, CompareOperator, Expression, Function,
    LiveFunction, NumberClass, ObjectKind,
};
use squawk_syntax::SyntaxNode;

/// A number greater than the number of columns of any index.
const MOST_COLUMNS: i64 = 10_000;

/// The result of `version()`.
const VERSION: &str = "PostgreSQL 15.0 (Reprise)";

fn text(value: &str) -> Typed {
    Typed::Known(Expression::text(value), ScalarType::Text.into())
}

fn integer(value: i64, ty: ScalarType) -> Typed {
    Typed::Known(Expression::Constant(catalog::Datum::Int(value)), ty.into())
}

/// Returns an expression for the value of an object by its number.
pub(crate) fn looked_up(number: Expression, names: Vec<(i64, String)>, otherwise: Expression) -> Expression {
    let branch = |(key, name): (i64, String)| {
        let operands = Box::new([number.clone(), Expression::Constant(catalog::Datum::Int(key))]);
        let (operator, class) = (CompareOperator::Equal, CompareClass::Int);
        (Expression::Compare { operator, class, operands }, Expression::text(&name))
    };
    let branches: Vec<_> = names.into_iter().map(branch).collect();
    if branches.is_empty() {
        return otherwise;
    }
    Expression::Case { branches, otherwise: Box::new(otherwise) }
}

/// System functions whose values do not depend on definitions.
const FIXED: [&str; 8] = [
    "version",
    "current_schema",
    "current_schemas",
    "pg_typeof",
    "pg_encoding_to_char",
    "pg_client_encoding",
    "pg_is_in_recovery",
    "pg_relation_is_publishable",
];

/// Returns an expression for the number of an object by its name.
pub(crate) fn looked_up_text(
    name: Expression,
    numbers: Vec<(i64, String)>,
    otherwise: Expression,
) -> Expression {
    let branch = |(number, key): (i64, String)| {
        let operands = Box::new([name.clone(), Expression::text(&key)]);
        let (operator, class) = (CompareOperator::Equal, CompareClass::Bytes);
        let number = Expression::Constant(catalog::Datum::Int(number));
        (Expression::Compare { operator, class, operands }, number)
    };
    let branches: Vec<_> = numbers.into_iter().map(branch).collect();
    if branches.is_empty() {
        return otherwise;
    }
    Expression::Case { branches, otherwise: Box::new(otherwise) }
}

impl Binder<'_> {
    /// Returns the value of a word that describes the session, such as `current_user`.
    pub(crate) fn session_value(&mut self, word: &str) -> Option<Typed> {
        Some(match word {
            "current_user" | "current_role" | "user" => {
                self.follows_role = true;
                text(self.schema.role_name(self.schema.acting))
            }
            "session_user" => {
                self.log_by_value(ByValueCause::Moment);
                let function = Function::Live(LiveFunction::SessionUser);
                let value = Expression::Function { function, arguments: Vec::new() };
                Typed::Known(value, ScalarType::Text.into())
            }
            "current_schema" => text("public"),
            "current_database" | "current_catalog" => text("postgres"),
            _ => return None,
        })
    }

    /// Returns a value that is `plain` if the search path has `public`, and `qualified` otherwise.
    pub(crate) fn by_path(&mut self, plain: Expression, qualified: Expression) -> Expression {
        if plain == qualified {
            return plain;
        }
        self.log_by_value(ByValueCause::Moment);
        let hides = Function::Live(LiveFunction::HidesPublic);
        let hides = Expression::Function { function: hides, arguments: Vec::new() };
        Expression::Case { branches: vec![(hides, qualified)], otherwise: Box::new(plain) }
    }

    /// Returns the name of an object by its number.
    fn name_of(&mut self, number: Expression, names: Vec<(i64, Named)>, otherwise: Expression) -> Expression {
        self.reads_catalog = true;
        if !matches!(number, Expression::Constant(_)) {
            self.log_by_value(ByValueCause::Moment);
        }
        let form = |qualified: bool| {
            let text = |named: &Named| if qualified { named.qualified.clone() } else { named.plain.clone() };
            names.iter().map(|(oid, named)| (*oid, text(named))).collect()
        };
        let plain = looked_up(number.clone(), form(false), otherwise.clone());
        let qualified = looked_up(number, form(true), otherwise);
        self.by_path(plain, qualified)
    }

    /// Returns the number of an object by its name in a literal, as a cast to a type such as `regclass` gives
    /// it.
    ///
    /// # Errors
    /// The object does not exist.
    pub(crate) fn object_number(
        &self,
        ty: &str,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<i64, StatementError> {
        if let Ok(number) = name.parse() {
            return Ok(number);
        }
        self.schema.object_named(ty, name).ok_or_else(|| {
            if let Some(error) = self.schema.missing_schema_of(name) {
                return self.error(node, error);
            }
            self.error(node, ObjectKind::of_type(ty).missing(name))
        })
    }

    /// Binds a cast to a type of catalog objects, such as `regclass`; `None` for any other type. A literal
    /// becomes the object's number, and a number becomes the object's name.
    pub(crate) fn bind_object_cast(
        &mut self,
        ty: &str,
        operand: Typed,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        if self.schema.object_names(ty).is_none() {
            return Ok(None);
        }
        if let Typed::Literal(name) = &operand {
            let number = self.object_number(ty, name, node)?;
            return Ok(Some(integer(number, ScalarType::Oid)));
        }
        let number = self.number_of_object(ty, operand, true, node)?;
        Ok(Some(self.object_name(ty, number)))
    }

    /// Returns the name of an object of a type such as `regclass` by its number; of a number that no object
    /// has, its digits.
    pub(crate) fn object_name(&mut self, ty: &str, number: Expression) -> Typed {
        let names = self.schema.object_names(ty).unwrap_or_default();
        let cast = Cast::ToText(ScalarType::BigInt);
        let shown = Expression::Cast { cast, operand: Box::new(number.clone()) };
        Typed::Known(self.name_of(number, names, shown), ScalarType::Text.into())
    }

    /// Returns the name of a type by its number, which may be that of an enumeration.
    pub(crate) fn format_type(
        &mut self,
        number: Typed,
        otherwise: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let text = ScalarType::Text.into();
        let number = self.coerce(number, ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let otherwise = self.coerce(otherwise, text, CastContext::Explicit, node)?;
        Ok(Typed::Known(self.name_of(number, self.schema.enumeration_names(), otherwise), text))
    }

    /// Returns one number for an object and the position of a column in it.
    fn column_key(
        &self,
        object: Expression,
        column: Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let of = |operator, operands| Expression::Arithmetic {
            operator,
            class: NumberClass::Int { least: i64::MIN, most: i64::MAX },
            operands,
        };
        let most = Expression::Constant(catalog::Datum::Int(MOST_COLUMNS));
        let position = self.coerce(column, ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let scaled = of(ArithmeticOperator::Multiply, Box::new([object, most]));
        Ok(of(ArithmeticOperator::Add, Box::new([scaled, position])))
    }

    /// Binds a function whose value the binder knows, from the session or the catalog.
    pub(crate) fn session_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let null = |ty: ScalarType| Typed::Known(Expression::NULL, ty.into());
        let number = |binder: &Self| {
            let first = arguments.first().cloned().unwrap_or(Typed::Null);
            binder.coerce(first, ScalarType::BigInt.into(), CastContext::Explicit, node)
        };
        let lookup = |binder: &Self, names: Vec<(i64, String)>| {
            let found = looked_up(number(binder)?, names, Expression::NULL);
            Ok::<_, StatementError>(Typed::Known(found, ScalarType::Text.into()))
        };
        let named = |binder: &mut Self, names: Vec<(i64, Named)>| {
            let number = number(binder)?;
            let found = binder.name_of(number, names, Expression::NULL);
            Ok::<_, StatementError>(Typed::Known(found, ScalarType::Text.into()))
        };
        if let Some(value) = self.has_privilege(name, arguments, node)? {
            return Ok(value);
        }
        if name != "current_schema"
            && let Some(value) = self.session_value(name)
        {
            return Ok(value);
        }
        if !FIXED.contains(&name) {
            self.reads_catalog = true;
            self.log_by_value(ByValueCause::Moment);
        }
        Ok(match name {
            "version" => text(VERSION),
            "current_schemas" => {
                let own = self.schema.own_temporary_schema().map(str::to_owned);
                let all = |names: &[&str]| {
                    Expression::Array(names.iter().map(|name| Expression::text(name)).collect())
                };
                let mut form =
                    |system: &[&str]| self.by_path(all(&[system, &["public"]].concat()), all(system));
                let own = own.as_deref().into_iter();
                let implicit: Vec<&str> = own.chain(["pg_catalog"]).collect();
                let (without, with) = (form(&[]), form(&implicit));
                let first = arguments.first().cloned().unwrap_or(Typed::Null);
                let implicit = self.coerce(first, ScalarType::Boolean.into(), CastContext::Implicit, node)?;
                let value =
                    Expression::Case { branches: vec![(implicit, with)], otherwise: Box::new(without) };
                Typed::Known(value, Type::Array(ScalarType::Text))
            }
            "current_schema" => {
                let value = self.by_path(Expression::text("public"), Expression::NULL);
                Typed::Known(value, ScalarType::Text.into())
            }
            "pg_get_userbyid" => {
                let number = number(self)?;
                self.user_by_number(number)
            }
            "has_language_privilege" | "has_tablespace_privilege" => {
                self.has_fixed_privilege(name, arguments, node)?
            }
            "pg_has_role" => self.has_role(arguments, node)?,
            "pg_table_is_visible" => self.visible(number(self)?, self.schema.relations_by_path()),
            "pg_function_is_visible" => self.visible(number(self)?, self.schema.routines_by_path()),
            "pg_type_is_visible" => self.visible(number(self)?, self.schema.types_by_path()),
            "pg_typeof" => text(&self.type_shown(&arguments[0])),
            "pg_encoding_to_char" => text("UTF8"),
            "pg_client_encoding" => text("UTF8"),
            "pg_is_in_recovery" | "pg_relation_is_publishable" => {
                Typed::Known(Expression::boolean(false), ScalarType::Boolean.into())
            }
            "pg_collation_is_visible"
            | "pg_conversion_is_visible"
            | "pg_opclass_is_visible"
            | "pg_operator_is_visible"
            | "pg_opfamily_is_visible"
            | "pg_statistics_obj_is_visible"
            | "pg_ts_config_is_visible"
            | "pg_ts_dict_is_visible"
            | "pg_ts_parser_is_visible"
            | "pg_ts_template_is_visible" => {
                Typed::Known(Expression::boolean(true), ScalarType::Boolean.into())
            }
            "obj_description" => {
                let class = match arguments.get(1) {
                    Some(Typed::Literal(name)) => catalog_oid(name),
                    _ => None,
                };
                let all = self.schema.descriptions().into_iter().filter(|comment| comment.column == 0);
                let all = all.filter(|comment| class.is_none_or(|class| comment.class == class));
                lookup(self, all.map(|comment| (comment.object, comment.text)).collect())?
            }
            "col_description" => {
                let all = self.schema.descriptions().into_iter().filter(|comment| comment.class == PG_CLASS);
                let names = all
                    .map(|comment| (comment.object * MOST_COLUMNS + comment.column, comment.text))
                    .collect();
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                Typed::Known(looked_up(key, names, Expression::NULL), ScalarType::Text.into())
            }
            "shobj_description"
            | "pg_get_statisticsobjdef_columns"
            | "pg_get_statisticsobjdef"
            | "pg_tablespace_location" => null(ScalarType::Text),
            "pg_get_partkeydef" => lookup(self, self.schema.partition_keys())?,
            "pg_get_partition_constraintdef" => lookup(self, self.schema.partition_conditions())?,
            "pg_get_expr" => {
                let first = arguments.first().cloned().unwrap_or(Typed::Null);
                Typed::Known(
                    self.coerce(first, ScalarType::Text.into(), CastContext::Explicit, node)?,
                    ScalarType::Text.into(),
                )
            }
            "pg_get_constraintdef" => {
                let all = self.schema.constraints().into_iter();
                let all = all.map(|constraint| (constraint.oid, constraint.definition));
                let of_domains = self.schema.domain_constraints().into_iter();
                named(self, all.chain(of_domains.map(|own| (own.oid, own.definition))).collect())?
            }
            "pg_get_indexdef" if arguments.len() == 3 => {
                // The definition of one column, or of the whole index.
                let whole = self.schema.index_definitions().into_iter();
                let whole = whole.map(|(oid, text)| ((oid, 0), text));
                let columns = self.schema.index_columns().map(|(key, text)| (key, Named::same(text)));
                let names = whole.chain(columns);
                let names =
                    names.map(|((oid, position), text)| (oid * MOST_COLUMNS + position, text)).collect();
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                Typed::Known(self.name_of(key, names, Expression::NULL), ScalarType::Text.into())
            }
            "pg_partition_ancestors" => null(ScalarType::Oid),
            "pg_get_indexdef" => named(self, self.schema.index_definitions())?,
            "pg_get_triggerdef" => {
                let short = Expression::boolean(true);
                let is_short = matches!(arguments.get(1), Some(Typed::Known(value, _)) if *value == short);
                named(self, self.schema.trigger_definitions(is_short))?
            }
            "pg_relation_is_updatable" => {
                let zero = Expression::text("0");
                let events = looked_up(number(self)?, self.schema.updatable_relations(), zero);
                let (events, ty) = (Typed::Known(events, ScalarType::Text.into()), ScalarType::Integer);
                Typed::Known(self.coerce(events, ty.into(), CastContext::Explicit, node)?, ty.into())
            }
            "pg_column_is_updatable" => {
                let columns = self.schema.updatable_columns().into_iter();
                let columns = columns.map(|(oid, place)| (oid * MOST_COLUMNS + place, String::new()));
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                let found = looked_up(key, columns.collect(), Expression::NULL);
                let is_known = Expression::Not(Box::new(Expression::IsNull(Box::new(found))));
                Typed::Known(is_known, ScalarType::Boolean.into())
            }
            "pg_get_viewdef" => {
                let first = arguments.first().cloned().unwrap_or(Typed::Null);
                let number = self.number_of_object("regclass", first, true, node)?;
                let found = self.name_of(number, self.schema.view_definitions(), Expression::NULL);
                Typed::Known(found, ScalarType::Text.into())
            }
            "pg_get_function_result" => {
                let all = self.schema.routine_results().into_iter();
                named(self, all.filter(|entry| !entry.1.plain.is_empty()).collect())?
            }
            "pg_get_function_arguments" => named(self, self.schema.routine_arguments(true))?,
            "pg_get_function_identity_arguments" => named(self, self.schema.routine_arguments(false))?,
            "pg_get_functiondef" => named(self, self.schema.routine_definitions())?,
            // A body without quotes is shown as a text.
            "pg_get_function_sqlbody" => null(ScalarType::Text),
            "pg_get_function_arg_default" => {
                let defaults = self.schema.routine_defaults().into_iter();
                let defaults = defaults.map(|(oid, place, text)| (oid * MOST_COLUMNS + place, text));
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                let found = looked_up(key, defaults.collect(), Expression::NULL);
                Typed::Known(found, ScalarType::Text.into())
            }
            "pg_get_ruledef" => named(self, self.schema.rule_definitions())?,
            "to_regclass" | "to_regtype" | "to_regproc" | "to_regprocedure" | "to_regnamespace"
            | "to_regrole" => self.looked_up_object(&name[3..], arguments, node)?,
            "acldefault" => self.acl_default(arguments, node)?,
            "pg_my_temp_schema" => {
                let own = self.schema.own_temporary_schema();
                let oid = own.map_or(0, |own| self.schema.namespace_oid(&format!("{own}.")));
                integer(oid, ScalarType::Oid)
            }
            "pg_is_other_temp_schema" => {
                let foreign = self.schema.other_temporary_schemas().into_iter();
                let foreign = foreign.map(|oid| (oid, String::new())).collect();
                let found = looked_up(number(self)?, foreign, Expression::NULL);
                let is_found = Expression::Not(Box::new(Expression::IsNull(Box::new(found))));
                Typed::Known(is_found, ScalarType::Boolean.into())
            }
            "pg_encoding_max_length" => integer(4, ScalarType::Integer),
            "pg_char_to_encoding" => integer(6, ScalarType::Integer),
            "getdatabaseencoding" => text("UTF8"),
            "row_security_active" => Typed::Known(Expression::boolean(false), ScalarType::Boolean.into()),
            "pg_get_serial_sequence" => self.serial_sequence(arguments, node)?,
            _ => return Err(self.no_function(name, arguments, node)),
        })
    }

    /// Returns whether the search path finds an object. `objects` has the numbers of all objects outside of
    /// the system schemas, each with whether it is in `public`.
    fn visible(&mut self, number: Expression, objects: Vec<(i64, bool)>) -> Typed {
        let hidden = |is_hidden: &dyn Fn(bool) -> bool| {
            let all =
                objects.iter().filter(|object| is_hidden(object.1)).map(|object| (object.0, String::new()));
            let none = Expression::boolean(false);
            let hidden = looked_up(number.clone(), all.collect(), Expression::NULL);
            Expression::Case {
                branches: vec![(Expression::Not(Box::new(Expression::IsNull(Box::new(hidden)))), none)],
                otherwise: Box::new(Expression::boolean(true)),
            }
        };
        let (plain, qualified) = (hidden(&|is_public| !is_public), hidden(&|_| true));
        Typed::Known(self.by_path(plain, qualified), ScalarType::Boolean.into())
    }

    /// Binds `to_regclass` and similar functions: the name of an object, or NULL if there is none.
    fn looked_up_object(
        &mut self,
        ty: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Some(Typed::Literal(name)) = arguments.first() else {
            let name = arguments.first().cloned().unwrap_or(Typed::Null);
            let number = self.number_of_object(ty, name, false, node)?;
            return Ok(self.object_name(ty, number));
        };
        let names = self.schema.object_names(ty).unwrap_or_default();
        let found = self.schema.object_named(ty, name);
        let known = found.and_then(|oid| names.into_iter().find(|(known, _)| *known == oid));
        Ok(match known {
            Some((_, Named { plain, qualified })) => {
                let value = self.by_path(Expression::text(&plain), Expression::text(&qualified));
                Typed::Known(value, ScalarType::Text.into())
            }
            None => Typed::Known(Expression::NULL, ScalarType::Text.into()),
        })
    }
}
