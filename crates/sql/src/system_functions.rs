//! Functions over the system catalogs, casts to `regclass` and similar types, and functions that clients call
//! when they connect.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::system::{OWNER, PG_CLASS, TYPES, class_oid};
use catalog::{ScalarType, Type};
use procedure::{ArithmeticOperator, CastContext, CompareClass, CompareOperator, Expression, NumberClass};
use squawk_syntax::SyntaxNode;
use std::sync::Arc;

/// A number greater than the number of columns of any index.
const MOST_COLUMNS: i64 = 10_000;

/// The result of `version()`.
const VERSION: &str = "PostgreSQL 15.0 (Reprise)";

fn text(value: &str) -> Typed {
    Typed::Known(Expression::text(value), ScalarType::Text.into())
}

/// Returns the value of a word that describes the session, such as `current_user`. There are no roles yet.
pub(crate) fn session_value(word: &str) -> Option<Typed> {
    Some(match word {
        "current_user" | "session_user" | "current_role" | "user" => text(OWNER),
        "current_schema" => text("public"),
        "current_database" | "current_catalog" => text("postgres"),
        _ => return None,
    })
}

fn integer(value: i64, ty: ScalarType) -> Typed {
    Typed::Known(Expression::Constant(catalog::Datum::Int(value)), ty.into())
}

/// Returns an expression for the name of an object by its number.
fn looked_up(number: Expression, names: Vec<(i64, String)>, otherwise: Expression) -> Expression {
    let branch = |(own, name): (i64, String)| {
        let operands = Box::new([number.clone(), Expression::Constant(catalog::Datum::Int(own))]);
        let (operator, class) = (CompareOperator::Equal, CompareClass::Int);
        (Expression::Compare { operator, class, operands }, Expression::text(&name))
    };
    let branches: Vec<_> = names.into_iter().map(branch).collect();
    if branches.is_empty() {
        return otherwise;
    }
    Expression::Case { branches, otherwise: Box::new(otherwise) }
}

impl Binder<'_> {
    /// Binds a cast to a type of catalog objects, such as `regclass`; `None` for any other type. A literal
    /// becomes the object's number, and a number becomes the object's name.
    pub(crate) fn bind_object_cast(
        &mut self,
        ty: &str,
        operand: Typed,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let names = match ty {
            "regclass" => self.schema.relation_names(),
            "regtype" => {
                let known = TYPES.iter().map(|own| (own.0, own.2.to_owned()));
                known.chain(self.schema.enumeration_names()).collect()
            }
            "regnamespace" => self.schema.namespace_names(),
            "regproc" | "regprocedure" => Vec::new(),
            _ => return Ok(None),
        };
        if let Typed::Literal(name) = &operand {
            if let Ok(number) = name.parse() {
                return Ok(Some(integer(number, ScalarType::Integer)));
            }
            let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
            let found = match ty {
                "regclass" => self.schema.relation_oid(name),
                "regtype" => {
                    let known = TYPES.iter().find(|own| own.1 == plain || own.2 == plain);
                    known.map(|own| own.0).or_else(|| {
                        self.schema.catalog().enumeration(plain).map(|own| own.definition().oid.into())
                    })
                }
                _ => names.into_iter().find(|(_, own)| own == name).map(|(oid, _)| oid),
            };
            if let Some(number) = found {
                return Ok(Some(integer(number, ScalarType::Integer)));
            }
            // A system relation has a placeholder number, because no row refers to it.
            if ty == "regclass" && self.schema.system_relation(name).is_some() {
                return Ok(Some(integer(class_oid(plain).unwrap_or(PG_CLASS), ScalarType::Integer)));
            }
            let message = format!("relation \"{name}\" does not exist");
            return Err(self.error(node, procedure::SqlError::new("42P01", message)));
        }
        let number = self.coerce(operand.clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let shown = self.coerce(operand, ScalarType::Text.into(), CastContext::Explicit, node)?;
        Ok(Some(Typed::Known(looked_up(number, names, shown), ScalarType::Text.into())))
    }

    /// Returns the name of a type by its number, which may be that of an enumeration.
    pub(crate) fn format_type(
        &self,
        number: Typed,
        otherwise: Typed,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let text = ScalarType::Text.into();
        let number = self.coerce(number, ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let otherwise = self.coerce(otherwise, text, CastContext::Explicit, node)?;
        Ok(Typed::Known(looked_up(number, self.schema.enumeration_names(), otherwise), text))
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
        let place = self.coerce(column, ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let scaled = of(ArithmeticOperator::Multiply, Box::new([object, most]));
        Ok(of(ArithmeticOperator::Add, Box::new([scaled, place])))
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
        if let Some(value) = session_value(name) {
            return Ok(value);
        }
        Ok(match name {
            "version" => text(VERSION),
            "current_schemas" => {
                let names = ["pg_catalog", "public"].map(Expression::text);
                Typed::Known(Expression::Array(names.to_vec()), Type::Array(ScalarType::Text))
            }
            "pg_get_userbyid" => text(OWNER),
            "pg_typeof" => text(&arguments[0].shown_type()),
            "pg_encoding_to_char" => text("UTF8"),
            "pg_client_encoding" => text("UTF8"),
            "pg_is_in_recovery" | "pg_relation_is_publishable" => {
                Typed::Known(Expression::boolean(false), ScalarType::Boolean.into())
            }
            "pg_table_is_visible"
            | "pg_function_is_visible"
            | "pg_type_is_visible"
            | "has_table_privilege"
            | "has_schema_privilege"
            | "has_database_privilege"
            | "has_function_privilege"
            | "has_column_privilege"
            | "has_sequence_privilege"
            | "has_any_column_privilege"
            | "pg_has_role" => Typed::Known(Expression::boolean(true), ScalarType::Boolean.into()),
            "obj_description" => {
                let class = match arguments.get(1) {
                    Some(Typed::Literal(name)) => class_oid(name),
                    _ => None,
                };
                let all = self.schema.descriptions().into_iter().filter(|own| own.column == 0);
                let all = all.filter(|own| class.is_none_or(|class| own.class == class));
                lookup(self, all.map(|own| (own.object, own.text)).collect())?
            }
            "col_description" => {
                let all = self.schema.descriptions().into_iter().filter(|own| own.class == PG_CLASS);
                let names = all.map(|own| (own.object * MOST_COLUMNS + own.column, own.text)).collect();
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                Typed::Known(looked_up(key, names, Expression::NULL), ScalarType::Text.into())
            }
            "shobj_description"
            | "pg_get_statisticsobjdef_columns"
            | "pg_get_partkeydef"
            | "pg_tablespace_location" => null(ScalarType::Text),
            "pg_relation_size"
            | "pg_total_relation_size"
            | "pg_table_size"
            | "pg_indexes_size"
            | "pg_database_size" => integer(0, ScalarType::BigInt),
            "pg_get_expr" => {
                let first = arguments.first().cloned().unwrap_or(Typed::Null);
                Typed::Known(
                    self.coerce(first, ScalarType::Text.into(), CastContext::Explicit, node)?,
                    ScalarType::Text.into(),
                )
            }
            "pg_get_constraintdef" => {
                let all = self.schema.constraints().into_iter();
                lookup(self, all.map(|own| (own.oid, own.definition)).collect())?
            }
            "pg_get_indexdef" if arguments.len() == 3 => {
                // The definition of one column, or of the whole index.
                let whole = self.schema.index_definitions().into_iter().map(|(oid, text)| ((oid, 0), text));
                let names = whole.chain(self.schema.index_columns());
                let names = names.map(|((oid, place), text)| (oid * MOST_COLUMNS + place, text)).collect();
                let key = self.column_key(number(self)?, arguments[1].clone(), node)?;
                Typed::Known(looked_up(key, names, Expression::NULL), ScalarType::Text.into())
            }
            // `pg_dump` writes it. All names that it writes have a schema.
            "set_config" => match arguments {
                [Typed::Literal(name), Typed::Literal(path), _]
                    if name.eq_ignore_ascii_case("search_path")
                        && ["", "public", "pg_catalog"].contains(&path.as_str()) =>
                {
                    arguments[1].clone()
                }
                _ => return Err(self.unsupported(node, "set_config of more than an empty search_path")),
            },
            "pg_partition_ancestors" => null(ScalarType::Integer),
            "pg_get_indexdef" => lookup(self, self.schema.index_definitions())?,
            "pg_get_triggerdef" => lookup(self, self.schema.trigger_definitions(arguments.len() > 1))?,
            "pg_get_viewdef" => lookup(self, self.schema.view_definitions())?,
            "pg_get_function_result" => {
                let all = self.schema.routine_texts().into_iter();
                lookup(self, all.filter(|own| !own.1.is_empty()).map(|own| (own.0, own.1)).collect())?
            }
            "pg_get_function_arguments" | "pg_get_function_identity_arguments" => {
                let all = self.schema.routine_texts().into_iter();
                lookup(self, all.map(|own| (own.0, own.2)).collect())?
            }
            "pg_get_serial_sequence" => {
                let [table, column] = [0, 1].map(|place| match &arguments[place] {
                    Typed::Literal(text) => text.clone(),
                    _ => String::new(),
                });
                let table = table.trim_start_matches("public.").replace('"', "");
                let is_it = |own: &&Arc<catalog::Table>| {
                    let owner = own.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
                    owner.is_some_and(|(owner, of)| *owner == table && *of == column)
                };
                match self.schema.catalog().tables().find(is_it) {
                    Some(own) if own.name.contains('.') => Typed::Literal(own.name.clone()),
                    Some(own) => Typed::Literal(format!("public.{}", own.name)),
                    None => Typed::Null,
                }
            }
            _ => return Err(self.no_function(name, arguments, node)),
        })
    }
}
