//! The errors of names that are no type.
//! Source: PostgreSQL 15, `pg_type` and `typenameType`.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::system::catalog_oid;
use crate::types::{last_name, object_name};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast;

/// The types of PostgreSQL's `pg_catalog`.
const TYPES: &str = "aclitem any anyarray anycompatible anycompatiblearray anycompatiblemultirange \
    anycompatiblenonarray anycompatiblerange anyelement anyenum anymultirange anynonarray anyrange \
    bit bool box bpchar bytea char cid cidr circle cstring date datemultirange daterange \
    event_trigger fdw_handler float4 float8 gtsvector index_am_handler inet int2 int2vector int4 \
    int4multirange int4range int8 int8multirange int8range internal interval json jsonb jsonpath \
    language_handler line lseg macaddr macaddr8 money name numeric nummultirange numrange oid \
    oidvector path pg_brin_bloom_summary pg_brin_minmax_multi_summary pg_ddl_command pg_dependencies \
    pg_lsn pg_mcv_list pg_ndistinct pg_node_tree pg_snapshot point polygon record refcursor regclass \
    regcollation regconfig regdictionary regnamespace regoper regoperator regproc regprocedure \
    regrole regtype table_am_handler text tid time timestamp timestamptz timetz trigger tsm_handler \
    tsmultirange tsquery tsrange tstzmultirange tstzrange tsvector txid_snapshot unknown uuid varbit \
    varchar void xid xid8 xml";

impl Binder<'_> {
    /// Returns the error of a type that Reprise does not have.
    pub(crate) fn no_type(&self, name: &str, node: &SyntaxNode) -> StatementError {
        let plain = name.strip_prefix('_').unwrap_or(name);
        // A table is the type of its rows.
        let is_table = || self.schema.catalog().tables().any(|table| table.short_name() == plain);
        let is_known = TYPES.split(' ').any(|known| known == plain) || catalog_oid(plain).is_some();
        let error = match is_known || is_table() {
            true => SqlError::new("0A000", format!("type \"{name}\" is not supported")),
            false => SqlError::new("42704", format!("type \"{name}\" does not exist")),
        };
        self.error(node, error)
    }

    /// Checks the schema of a type's name.
    ///
    /// # Errors
    /// `3F000`: there is no such schema. `42704`: the schema has no types of Reprise.
    pub(crate) fn check_type_schema(
        &self,
        path: &ast::PathRef,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some(schema) = path.qualifier().map(|schema| last_name(&schema)) else { return Ok(()) };
        let name = last_name(path);
        let error = match schema.as_str() {
            "pg_catalog" => return Ok(()),
            "public" if TYPES.split(' ').any(|known| known == name) => return Ok(()),
            _ if self.schema.catalog().table(&object_name(path)).is_ok() => return Ok(()),
            _ if self.schema.has_namespace(&schema) => {
                SqlError::new("42704", format!("type \"{schema}.{name}\" does not exist"))
            }
            _ => SqlError::new("3F000", format!("schema \"{schema}\" does not exist")),
        };
        Err(self.error(node, error))
    }
}
