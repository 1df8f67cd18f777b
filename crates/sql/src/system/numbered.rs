//! The objects that casts to `regclass` and similar types name, and the privileges that objects have.

use super::qualified::{Named, path_text};
use super::types::type_oids;
use super::{OWNER, SCALARS, TYPES};
use crate::oids::routine_oid;
use crate::schema::Schema;
use catalog::Type;
use procedure::{BuiltIn, built_ins};

/// The names of functions that PostgreSQL's catalogs refer to, and that no statement can call.
const HANDLERS: [(i64, &str); 2] = [(3, "heap_tableam_handler"), (330, "bthandler")];

/// Returns the privileges of an object of each kind of which none were given, by the letters of `acldefault`.
/// There are no privileges yet: the owner has all.
pub(crate) fn acl_default() -> Vec<(&'static str, Vec<String>)> {
    let own = |letters: &str| format!("{OWNER}={letters}/{OWNER}");
    let all = |letters: &str| format!("={letters}/{OWNER}");
    vec![
        ("r", vec![own("arwdDxt")]),
        ("s", vec![own("rwU")]),
        ("d", vec![all("Tc"), own("CTc")]),
        ("f", vec![all("X"), own("X")]),
        ("l", vec![all("U"), own("U")]),
        ("T", vec![all("U"), own("U")]),
        ("L", vec![own("rw")]),
        ("n", vec![own("UC")]),
        ("t", vec![own("C")]),
        ("F", vec![own("U")]),
        ("S", vec![own("U")]),
        ("c", Vec::new()),
        ("p", vec![own("sA")]),
    ]
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
            "regrole" => vec![(10, Named::same(OWNER.into()))],
            // No object of these kinds has a name here.
            "regoper" | "regoperator" | "regcollation" | "regconfig" | "regdictionary" => Vec::new(),
            "regproc" => {
                let own = self.procedures().map(|own| {
                    (routine_oid(own), Named::of(|is_qualified| path_text(&own.name, is_qualified)))
                });
                let handlers = HANDLERS.map(|(oid, name)| (oid, Named::same(name.into())));
                let none = [(0, Named::same("-".into()))];
                own.chain(built_in_names().map(same)).chain(handlers).chain(none).collect()
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
                let own = || self.catalog().enumeration(bare).map(|own| own.definition().oid.into());
                let all = || self.object_names(ty)?.into_iter().find(|own| own.1.plain == plain);
                known.or_else(own).or_else(|| all().map(|own| own.0))
            }
            _ => {
                let bare = plain.strip_prefix("public.").unwrap_or(plain);
                let mut all = self.object_names(ty)?.into_iter();
                all.find(|own| own.1.plain == bare || own.1.plain.replace('"', "") == bare).map(|own| own.0)
            }
        }
    }
}

/// Returns the built-in functions: the number and the name of each.
fn built_in_names() -> impl Iterator<Item = (i64, String)> {
    let named = |(oid, own): (i64, &BuiltIn)| (oid, own.name.to_owned());
    (super::routines::FIRST_FUNCTION..).zip(built_ins()).map(named)
}
