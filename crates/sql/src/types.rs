//! Translates type names into types.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::session_schema::is_session_schema;
use catalog::{ScalarType, Type};
use procedure::{CastContext, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Maximum length of CHAR and VARCHAR in characters, as in PostgreSQL.
const MOST_CHARACTERS: i64 = 10 << 20;

/// Returns the type of a parameter or result. As in PostgreSQL, it has no length or precision.
pub(crate) fn without_limits(ty: Type) -> Type {
    match ty {
        // Blanks at the end of a CHAR are not significant, whichever length it has.
        Type::Scalar(ScalarType::Char(_)) => Type::Scalar(ScalarType::Char(u32::MAX)),
        Type::Scalar(scalar) => Type::Scalar(scalar.unlimited()),
        Type::Array(scalar) => Type::Array(scalar.unlimited()),
    }
}

/// Returns a type of timestamps. A precision above 6 means 6, as in PostgreSQL.
fn timestamp(is_zoned: bool, numbers: &[i64]) -> ScalarType {
    match (numbers.first(), is_zoned) {
        (Some(precision), zoned) => {
            ScalarType::ShortTimestamp { precision: (*precision).clamp(0, 6) as u8, zoned }
        }
        (_, true) => ScalarType::Timestamptz,
        (_, false) => ScalarType::Timestamp,
    }
}

/// Returns whether values of one type are converted to another type where they are assigned.
pub(crate) fn is_assignable(from: Type, to: Type) -> bool {
    let is_printed = from.is_array() && to.scalar().is_some_and(ScalarType::is_text);
    is_printed || CastContext::Assignment.allows_type(from, to)
}

/// Maximum number of columns of a table or view, as in PostgreSQL.
const MOST_COLUMNS: usize = 1600;

/// Refuses a table or view with too many columns.
///
/// # Errors
/// `54011`: it has more than 1,600 columns.
pub(crate) fn check_width(
    binder: &Binder<'_>,
    columns: usize,
    node: &SyntaxNode,
) -> Result<(), StatementError> {
    if columns <= MOST_COLUMNS {
        return Ok(());
    }
    let message = format!("tables can have at most {MOST_COLUMNS} columns");
    Err(binder.error(node, SqlError::new("54011", message)))
}

impl Binder<'_> {
    /// Binds a type.
    pub(crate) fn bind_type(&self, ty: &ast::Type) -> Result<Type, StatementError> {
        let numbers = self.type_arguments(ty.arg_list())?;
        let scalar = match ty {
            ast::Type::ArrayType(array) => {
                let Some(element) = array.ty() else {
                    return Err(self.unsupported(ty.syntax(), "this type"));
                };
                if array.array_bounds().count() > 1 {
                    return Err(self.unsupported(ty.syntax(), "an array of more than one dimension"));
                }
                let bound = self.bind_type(&element).map_err(|mut error| {
                    if error.error.sqlstate == "42704" {
                        let message = error.error.message.replacen("\" does", "[]\" does", 1);
                        error.error.message = message;
                    }
                    error
                });
                return Ok(Type::Array(bound?.element()));
            }
            ast::Type::CharacterType(_) => self.named_type("char", &numbers, ty.syntax())?,
            ast::Type::VarcharType(_) => self.named_type("varchar", &numbers, ty.syntax())?,
            ast::Type::DoubleType(_) => ScalarType::Double,
            ast::Type::TimestampType(stamp) => {
                let precision = match stamp.literal() {
                    Some(digits) => vec![self.type_argument(digits.syntax())?],
                    None => Vec::new(),
                };
                let is_zoned = matches!(stamp.timezone(), Some(ast::Timezone::WithTimezone(_)));
                timestamp(is_zoned, &precision)
            }
            ast::Type::TimeType(time)
                if time.literal().is_none()
                    && !matches!(time.timezone(), Some(ast::Timezone::WithTimezone(_))) =>
            {
                ScalarType::Time
            }
            ast::Type::IntervalType(interval)
                if interval.interval_qualifier().is_none() && interval.literal().is_none() =>
            {
                ScalarType::Interval
            }
            ast::Type::PathType(path) => {
                let full = path.path_ref().map(|path| object_name(&path)).unwrap_or_default();
                if let Some(enumeration) = self.schema.catalog().enumeration(&full) {
                    return Ok(ScalarType::Enum(enumeration).into());
                }
                if self.schema.catalog().domain(&full).is_some() {
                    return Err(self.unsupported(ty.syntax(), "a domain here"));
                }
                let name = path.path_ref().map(|path| last_name(&path)).unwrap_or_default();
                if let Some(own) = self.polymorphic_type(&name, ty.syntax())? {
                    return Ok(own);
                }
                if let Some(path) = path.path_ref() {
                    self.check_type_schema(&path, ty.syntax())?;
                }
                self.named_type(&name, &numbers, ty.syntax())?
            }
            _ => return Err(self.unsupported(ty.syntax(), &format!("type {}", ty.syntax().text()))),
        };
        Ok(scalar.into())
    }

    fn type_arguments(&self, arguments: Option<ast::ArgList>) -> Result<Vec<i64>, StatementError> {
        let Some(arguments) = arguments else { return Ok(Vec::new()) };
        arguments.args().map(|argument| self.type_argument(argument.syntax())).collect()
    }

    fn type_argument(&self, node: &SyntaxNode) -> Result<i64, StatementError> {
        let text = node.text().to_string();
        text.trim().parse().map_err(|_| {
            self.error(
                node,
                SqlError::new("42601", format!("\"{text}\" is not a length or precision of a type")),
            )
        })
    }

    /// Checks the length of a character type.
    fn characters(&self, name: &str, length: i64, node: &SyntaxNode) -> Result<u32, StatementError> {
        let message = match length {
            ..1 => format!("length for type {name} must be at least 1"),
            1..=MOST_CHARACTERS => return Ok(length as u32),
            _ => format!("length for type {name} cannot exceed {MOST_CHARACTERS}"),
        };
        Err(self.error(node, SqlError::new("22023", message)))
    }

    /// Returns NUMERIC with its modifiers.
    fn numeric_type(&self, numbers: &[i64], node: &SyntaxNode) -> Result<ScalarType, StatementError> {
        let (precision, scale) = match *numbers {
            [] => return Ok(ScalarType::AnyNumeric),
            [precision] => (precision, 0),
            [precision, scale] => (precision, scale),
            _ => {
                let message = "invalid NUMERIC type modifier";
                return Err(self.error(node, SqlError::new("22023", message)));
            }
        };
        let message = match (precision, scale) {
            (1..=1000, -1000..=1000) => return Ok(ScalarType::numeric(precision as u16, scale as i16)),
            (1..=1000, _) => format!("NUMERIC scale {scale} must be between -1000 and 1000"),
            _ => format!("NUMERIC precision {precision} must be between 1 and 1000"),
        };
        Err(self.error(node, SqlError::new("22023", message)))
    }

    fn named_type(
        &self,
        name: &str,
        numbers: &[i64],
        node: &SyntaxNode,
    ) -> Result<ScalarType, StatementError> {
        Ok(match name {
            "smallint" | "int2" => ScalarType::SmallInt,
            "integer" | "int" | "int4" => ScalarType::Integer,
            "bigint" | "int8" => ScalarType::BigInt,
            "numeric" | "decimal" | "dec" => self.numeric_type(numbers, node)?,
            "float8" => ScalarType::Double,
            "real" | "float4" => ScalarType::Real,
            "float" => match numbers.first() {
                None | Some(25..=53) => ScalarType::Double,
                Some(1..=24) => ScalarType::Real,
                Some(bits) => {
                    let message = match bits {
                        ..=0 => "precision for type float must be at least 1 bit",
                        _ => "precision for type float must be less than 54 bits",
                    };
                    return Err(self.error(node, SqlError::new("22023", message)));
                }
            },
            "boolean" | "bool" => ScalarType::Boolean,
            "text" | "name" => ScalarType::Text,
            "oid" => ScalarType::Oid,
            "varchar" => match numbers.first() {
                Some(limit) => ScalarType::Varchar(self.characters("varchar", *limit, node)?),
                None => ScalarType::Varchar(u32::MAX),
            },
            // A CHAR without a length limit.
            "bpchar" if numbers.is_empty() => ScalarType::Char(u32::MAX),
            "bpchar" | "char" => {
                ScalarType::Char(self.characters("char", numbers.first().copied().unwrap_or(1), node)?)
            }
            "timestamp" | "timestamptz" => timestamp(name == "timestamptz", numbers),
            "date" => ScalarType::Date,
            "bytea" => ScalarType::Bytea,
            "uuid" => ScalarType::Uuid,
            "json" => ScalarType::Json,
            "jsonb" => ScalarType::Jsonb,
            "interval" => ScalarType::Interval,
            "time" if numbers.is_empty() => ScalarType::Time,
            _ => return Err(self.no_type(name, node)),
        })
    }
}

/// Returns the name of an object in the catalog: with its schema before a dot, unless that is `public`.
pub(crate) fn object_name(path: &ast::PathRef) -> String {
    let name = last_name(path);
    match path.qualifier().map(|schema| last_name(&schema)) {
        Some(schema) if schema != "public" => format!("{schema}.{name}"),
        _ => name,
    }
}

/// Returns the name in the catalog of an object that a statement creates.
pub(crate) fn written_name(path: &ast::Path) -> String {
    let name = path.segment().map(|segment| segment.text()).unwrap_or_default();
    match path.qualifier().map(|schema| last_name(&schema)).filter(|schema| schema != "public") {
        Some(schema) => format!("{schema}.{name}"),
        None => name,
    }
}

/// Returns the name of an object that is created. Its schema must exist.
pub(crate) fn made_name(binder: &Binder<'_>, path: &ast::Path) -> Result<String, StatementError> {
    let name = path.segment().map(|segment| segment.text()).unwrap_or_default();
    let schema = path.qualifier().map(|schema| last_name(&schema)).filter(|schema| schema != "public");
    if name.contains('.') {
        return Err(binder.unsupported(path.syntax(), "a name with a dot in it"));
    }
    match schema {
        None => Ok(name),
        Some(schema) if binder.schema.has_namespace(&schema) || is_session_schema(&schema) => {
            Ok(format!("{schema}.{name}"))
        }
        Some(schema) => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(binder.error(path.syntax(), SqlError::new("3F000", message)))
        }
    }
}

/// Returns the last part of a dotted name.
pub(crate) fn last_name(path: &ast::PathRef) -> String {
    path.segment().map(|segment| segment.text()).unwrap_or_default()
}
