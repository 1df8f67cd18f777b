//! Resolves the names of objects in casts to `regclass` and similar types.

use super::qualified::{Named, path_text};
use super::types::type_oids;
use super::{SCALARS, TYPES};
use crate::binder::Binder;
use crate::oids::{index_oid, routine_oid, table_oid};
use crate::quoted::written_path;
use crate::schema::Schema;
use crate::source::Source;
use catalog::Type;
use procedure::{BuiltIn, built_ins};
use squawk_syntax::ast::{self, AstNode};

/// The functions that PostgreSQL's catalogs refer to and statements cannot call, with their OIDs.
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

/// Returns the OID of a function of `HANDLERS`; 0 if it is none.
pub(super) fn handler_oid(name: &str) -> i64 {
    HANDLERS.iter().find(|handler| handler.1 == name).map_or(0, |handler| handler.0)
}

impl Schema {
    /// Returns the OIDs and names of the objects that a type such as `regclass` denotes; `None` for any other
    /// type.
    pub(crate) fn object_names(&self, ty: &str) -> Option<Vec<(i64, Named)>> {
        let same = |(oid, name): (i64, String)| (oid, Named::same(name));
        Some(match ty {
            "regclass" => self.relation_names(),
            "regtype" => {
                let known = TYPES.iter().map(|known| (known.0, known.2.to_owned()));
                let arrays = SCALARS.into_iter().map(|scalar| {
                    let (_, array) = type_oids(scalar);
                    (i64::from(array), Type::Array(scalar.base()).to_string())
                });
                let all = known.chain(arrays).map(same);
                all.chain(self.enumeration_names()).collect()
            }
            "regnamespace" => self.namespace_names().into_iter().map(same).collect(),
            "regrole" => self.role_names().into_iter().map(same).collect(),
            // Reprise has no objects of these kinds, or gives them no names.
            "regoper" | "regoperator" | "regcollation" | "regconfig" | "regdictionary" => Vec::new(),
            "regproc" => {
                let routines = self.procedures().map(|routine| {
                    (routine_oid(routine), Named::of(|is_qualified| path_text(&routine.name, is_qualified)))
                });
                let handlers = HANDLERS.map(|(oid, name)| (oid, Named::same(name.into())));
                let none = [(0, Named::same("-".into()))];
                // Handlers have PostgreSQL's OIDs. They precede the built-in functions, some of which have
                // the same OIDs.
                routines.chain(handlers).chain(built_in_names().map(same)).chain(none).collect()
            }
            "regprocedure" => {
                let text = |routine: &std::sync::Arc<procedure::Procedure>, is_qualified: bool| {
                    let types = routine
                        .inputs()
                        .map(|(_, input)| super::qualified::type_text(input.ty, is_qualified));
                    let types = types.collect::<Vec<_>>().join(",");
                    format!("{}({types})", path_text(&routine.name, is_qualified))
                };
                let named = |routine| Named::of(|is_qualified| text(routine, is_qualified));
                self.procedures().map(|routine| (routine_oid(routine), named(routine))).collect()
            }
            _ => return None,
        })
    }

    /// Returns all spellings of the names of the objects that a type such as `regclass` denotes, with the
    /// OIDs. If two objects have the same spelling, only the first has it.
    pub(crate) fn object_spellings(&self, ty: &str) -> Vec<(i64, String)> {
        let names = self.object_names(ty).unwrap_or_default().into_iter();
        let mut all: Vec<_> =
            names.flat_map(|(oid, name)| [(oid, name.plain), (oid, name.qualified)]).collect();
        if ty == "regtype" {
            let arrays =
                SCALARS.into_iter().map(|scalar| (i64::from(type_oids(scalar).1), super::type_name(scalar)));
            all.extend(
                arrays.flat_map(|(oid, name)| [(oid, format!("_{name}")), (oid, format!("{name}[]"))]),
            );
            all.extend(TYPES.iter().map(|known| (known.0, known.1.to_owned())));
            let enumerations = self.catalog().enumerations().map(|enumeration| enumeration.definition());
            all.extend(
                enumerations
                    .map(|definition| (i64::from(definition.oid) + 1, format!("_{}", definition.name))),
            );
        }
        let in_system = |object: &(i64, String)| {
            (object.0 < crate::oids::FIRST_TABLE).then(|| (object.0, format!("pg_catalog.{}", object.1)))
        };
        all.extend(all.iter().filter_map(in_system).collect::<Vec<_>>());
        let mut seen = std::collections::HashSet::new();
        all.retain(|spelling| seen.insert(spelling.1.clone()));
        all
    }

    /// Returns the OIDs of the relations, with whether the session finds each by its name alone.
    pub(crate) fn relations_by_path(&self) -> Vec<(i64, bool)> {
        let is_public = |name: &str| self.is_on_path(name);
        let tables = self.shown_tables().flat_map(|table| {
            let is_in_public = is_public(&table.name);
            let indexes = table.indexes.iter().map(move |index| (index_oid(index), is_in_public));
            indexes.chain([(table_oid(table), is_in_public)])
        });
        tables.chain(self.views().map(|view| (self.view_oid(view), is_public(&view.name)))).collect()
    }

    /// Returns the OIDs of the routines, with whether each is in `public`.
    pub(crate) fn routines_by_path(&self) -> Vec<(i64, bool)> {
        self.procedures().map(|routine| (routine_oid(routine), !routine.name.contains('.'))).collect()
    }

    /// Returns the OIDs of the defined types, with whether each is in `public`.
    pub(crate) fn types_by_path(&self) -> Vec<(i64, bool)> {
        let definitions = self.catalog().enumerations().map(|enumeration| enumeration.definition());
        let both = definitions.flat_map(|definition| {
            let is_public = !definition.name.contains('.');
            [(i64::from(definition.oid), is_public), (i64::from(definition.oid) + 1, is_public)]
        });
        let domains = self.catalog().domains();
        both.chain(domains.map(|domain| (domain.oid.into(), !domain.name.contains('.')))).collect()
    }

    /// Returns the OID of the object that a name denotes for a type such as `regclass`.
    pub(crate) fn object_named(&self, ty: &str, name: &str) -> Option<i64> {
        let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
        match ty {
            "regclass" => {
                let path = written_path(name)?;
                // Views of the system have no OIDs. The OID of `pg_class` stands for each of them.
                let of_system = || self.system_relation(&path).map(|_| super::PG_CLASS);
                self.relation_oid(&path).or_else(of_system)
            }
            "regtype" => {
                let known =
                    TYPES.iter().find(|known| known.1 == plain || known.2 == plain).map(|known| known.0);
                let bare = plain.strip_prefix("public.").unwrap_or(plain);
                let defined = || self.catalog().type_number(bare).map(i64::from);
                let all = || self.object_names(ty)?.into_iter().find(|object| object.1.plain == plain);
                let written = || {
                    let meant = type_written(self, name)?.to_string();
                    self.object_names(ty)?
                        .into_iter()
                        .find(|object| object.1.plain == meant)
                        .map(|object| object.0)
                };
                known.or_else(defined).or_else(|| all().map(|object| object.0)).or_else(written)
            }
            "regprocedure" if let Some(signature) = signature_written(self, plain) => self
                .object_names(ty)?
                .into_iter()
                .find(|object| object.1.plain == signature)
                .map(|object| object.0),
            _ => {
                let path = written_path(plain);
                let path = path.as_deref().unwrap_or(plain);
                let bare = path.strip_prefix("public.").unwrap_or(path);
                let mut all = self.object_names(ty)?.into_iter();
                all.find(|object| object.1.plain == bare || object.1.plain.replace('"', "") == bare)
                    .map(|object| object.0)
            }
        }
    }
}

/// Returns the type that a text names.
fn type_written(schema: &Schema, text: &str) -> Option<Type> {
    let source = Source::parse(&format!("SELECT NULL::{text}")).ok()?;
    let ty = source.file.syntax().descendants().find_map(ast::Type::cast)?;
    Some(Binder::new(schema, &source).bind_type(&ty).ok()?.base())
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

/// Returns the OIDs and names of the built-in functions.
fn built_in_names() -> impl Iterator<Item = (i64, String)> {
    let named = |(oid, function): (i64, &BuiltIn)| (oid, function.name.to_owned());
    (super::routines::FIRST_FUNCTION..).zip(built_ins()).map(named)
}
