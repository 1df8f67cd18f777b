//! The objects that casts to `regclass` and similar types name.

use super::qualified::{Named, path_text};
use super::types::type_oids;
use super::{SCALARS, TYPES};
use crate::binder::Binder;
use crate::oids::{index_oid, routine_oid, table_oid};
use crate::schema::Schema;
use crate::source::Source;
use crate::types::without_limits;
use catalog::Type;
use procedure::{BuiltIn, built_ins};
use squawk_syntax::ast::{self, AstNode};

/// The names of functions that PostgreSQL's catalogs refer to, and that no statement can call.
const HANDLERS: [(i64, &str); 44] = [
    (3, "heap_tableam_handler"),
    (330, "bthandler"),
    (34, "namein"),
    (35, "nameout"),
    (1245, "charin"),
    (33, "charout"),
    (38, "int2in"),
    (39, "int2out"),
    (42, "int4in"),
    (43, "int4out"),
    (44, "regprocin"),
    (45, "regprocout"),
    (46, "textin"),
    (47, "textout"),
    (214, "float8in"),
    (215, "float8out"),
    (321, "json_in"),
    (322, "json_out"),
    (460, "int8in"),
    (461, "int8out"),
    (750, "array_in"),
    (751, "array_out"),
    (1044, "bpcharin"),
    (1045, "bpcharout"),
    (1046, "varcharin"),
    (1047, "varcharout"),
    (1084, "date_in"),
    (1085, "date_out"),
    (1150, "timestamptz_in"),
    (1151, "timestamptz_out"),
    (1242, "boolin"),
    (1243, "boolout"),
    (1244, "byteain"),
    (31, "byteaout"),
    (1312, "timestamp_in"),
    (1313, "timestamp_out"),
    (1701, "numeric_in"),
    (1702, "numeric_out"),
    (1798, "oidin"),
    (1799, "oidout"),
    (2952, "uuid_in"),
    (2953, "uuid_out"),
    (3504, "enum_in"),
    (3505, "enum_out"),
];

/// Returns the number of a function that statements cannot call; 0 if it is not known.
pub(super) fn handler_oid(name: &str) -> i64 {
    HANDLERS.iter().find(|own| own.1 == name).map_or(0, |own| own.0)
}

impl Schema {
    /// Returns the objects of a type such as `regclass`: number and name of each; `None` for any other type.
    pub(crate) fn object_names(&self, ty: &str) -> Option<Vec<(i64, Named)>> {
        let same = |(oid, name): (i64, String)| (oid, Named::same(name));
        Some(match ty {
            "regclass" => self.relation_names(),
            "regtype" => {
                let known = TYPES.iter().map(|own| (own.0, own.2.to_owned()));
                let arrays = SCALARS.into_iter().map(|own| {
                    let (_, array) = type_oids(own);
                    (i64::from(array), Type::Array(own.base()).to_string())
                });
                let all = known.chain(arrays).map(same);
                all.chain(self.enumeration_names()).collect()
            }
            "regnamespace" => self.namespace_names().into_iter().map(same).collect(),
            "regrole" => self.role_names().into_iter().map(same).collect(),
            // No object of these kinds has a name here.
            "regoper" | "regoperator" | "regcollation" | "regconfig" | "regdictionary" => Vec::new(),
            "regproc" => {
                let own = self.procedures().map(|own| {
                    (routine_oid(own), Named::of(|is_qualified| path_text(&own.name, is_qualified)))
                });
                let handlers = HANDLERS.map(|(oid, name)| (oid, Named::same(name.into())));
                let none = [(0, Named::same("-".into()))];
                // The number of a handler is that of PostgreSQL, and comes before that of a built-in
                // function.
                own.chain(handlers).chain(built_in_names().map(same)).chain(none).collect()
            }
            "regprocedure" => {
                let text = |own: &std::sync::Arc<procedure::Procedure>, is_qualified: bool| {
                    let types =
                        own.inputs().map(|(_, input)| super::qualified::type_text(input.ty, is_qualified));
                    let types = types.collect::<Vec<_>>().join(",");
                    format!("{}({types})", path_text(&own.name, is_qualified))
                };
                let named = |own| Named::of(|is_qualified| text(own, is_qualified));
                self.procedures().map(|own| (routine_oid(own), named(own))).collect()
            }
            _ => return None,
        })
    }

    /// Returns the ways to write the names of the objects of a type such as `regclass`, each with the
    /// object's number. The first of equal texts counts.
    pub(crate) fn object_spellings(&self, ty: &str) -> Vec<(i64, String)> {
        let names = self.object_names(ty).unwrap_or_default().into_iter();
        let mut all: Vec<_> = names.flat_map(|(oid, own)| [(oid, own.plain), (oid, own.qualified)]).collect();
        if ty == "regtype" {
            let arrays = SCALARS.into_iter().map(|own| (i64::from(type_oids(own).1), super::type_name(own)));
            all.extend(
                arrays.flat_map(|(oid, name)| [(oid, format!("_{name}")), (oid, format!("{name}[]"))]),
            );
            all.extend(TYPES.iter().map(|own| (own.0, own.1.to_owned())));
            let enumerations = self.catalog().enumerations().map(|own| own.definition());
            all.extend(enumerations.map(|own| (i64::from(own.oid) + 1, format!("_{}", own.name))));
        }
        let in_system = |own: &(i64, String)| {
            (own.0 < crate::oids::FIRST_TABLE).then(|| (own.0, format!("pg_catalog.{}", own.1)))
        };
        all.extend(all.iter().filter_map(in_system).collect::<Vec<_>>());
        let mut seen = std::collections::HashSet::new();
        all.retain(|own| seen.insert(own.1.clone()));
        all
    }

    /// Returns the relations of the schema, with whether each is in `public`.
    pub(crate) fn relations_by_path(&self) -> Vec<(i64, bool)> {
        let is_public = |name: &str| !name.contains('.');
        let tables = self.catalog().tables().flat_map(|table| {
            let own = is_public(&table.name);
            let indexes = table.indexes.iter().map(move |index| (index_oid(index), own));
            indexes.chain([(table_oid(table), own)])
        });
        tables.chain(self.views().map(|view| (self.view_oid(view), is_public(&view.name)))).collect()
    }

    /// Returns the routines, with whether each is in `public`.
    pub(crate) fn routines_by_path(&self) -> Vec<(i64, bool)> {
        self.procedures().map(|own| (routine_oid(own), !own.name.contains('.'))).collect()
    }

    /// Returns the types of the schema, with whether each is in `public`.
    pub(crate) fn types_by_path(&self) -> Vec<(i64, bool)> {
        let own = self.catalog().enumerations().map(|own| own.definition());
        let both = own.flat_map(|own| {
            let is_public = !own.name.contains('.');
            [(i64::from(own.oid), is_public), (i64::from(own.oid) + 1, is_public)]
        });
        let domains = self.catalog().domains();
        both.chain(domains.map(|own| (own.oid.into(), !own.name.contains('.')))).collect()
    }

    /// Returns the number of an object by its name.
    pub(crate) fn object_named(&self, ty: &str, name: &str) -> Option<i64> {
        let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
        match ty {
            "regclass" => self.relation_oid(name).or_else(|| {
                // Another system relation has a placeholder number, because no row refers to it.
                self.system_relation(name).map(|_| super::PG_CLASS)
            }),
            "regtype" => {
                let known = TYPES.iter().find(|own| own.1 == plain || own.2 == plain).map(|own| own.0);
                let bare = plain.strip_prefix("public.").unwrap_or(plain);
                let own = || self.catalog().type_number(bare).map(i64::from);
                let all = || self.object_names(ty)?.into_iter().find(|own| own.1.plain == plain);
                let written = || {
                    let meant = type_written(self, name)?.to_string();
                    self.object_names(ty)?.into_iter().find(|own| own.1.plain == meant).map(|own| own.0)
                };
                known.or_else(own).or_else(|| all().map(|own| own.0)).or_else(written)
            }
            "regprocedure" if let Some(signature) = signature_written(self, plain) => {
                self.object_names(ty)?.into_iter().find(|own| own.1.plain == signature).map(|own| own.0)
            }
            _ => {
                let bare = plain.strip_prefix("public.").unwrap_or(plain);
                let mut all = self.object_names(ty)?.into_iter();
                all.find(|own| own.1.plain == bare || own.1.plain.replace('"', "") == bare).map(|own| own.0)
            }
        }
    }
}

/// Returns the type that a text names.
fn type_written(schema: &Schema, text: &str) -> Option<Type> {
    let source = Source::parse(&format!("SELECT NULL::{text}")).ok()?;
    let ty = source.file.syntax().descendants().find_map(ast::Type::cast)?;
    Some(without_limits(Binder::new(schema, &source).bind_type(&ty).ok()?))
}

/// Returns a routine with the types of its parameters, as `regprocedure` shows it; `None` for a text that
/// has another form.
fn signature_written(schema: &Schema, text: &str) -> Option<String> {
    let (name, types) = text.strip_suffix(')')?.split_once('(')?;
    let name = name.strip_prefix("public.").unwrap_or(name);
    let mut shown = Vec::new();
    for ty in types.split(',').map(str::trim).filter(|ty| !ty.is_empty()) {
        shown.push(type_written(schema, ty)?.to_string());
    }
    Some(format!("{name}({})", shown.join(",")))
}

/// Returns the built-in functions: the number and the name of each.
fn built_in_names() -> impl Iterator<Item = (i64, String)> {
    let named = |(oid, own): (i64, &BuiltIn)| (oid, own.name.to_owned());
    (super::routines::FIRST_FUNCTION..).zip(built_ins()).map(named)
}
