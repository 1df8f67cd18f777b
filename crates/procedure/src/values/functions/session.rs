//! Functions whose values the binder knows: of the session, of the catalog, of sequences, of random values.
//! Source: PostgreSQL 15's documentation, "System Information Functions and Operators".

use super::SequenceFunction::{CurrVal, LastVal, NextVal, SetVal};
use super::{BuiltIn, Form, Kind};
use crate::Draw;
use catalog::Datum;

const BOOL: Kind = Kind::BOOL;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const OID: Kind = Kind::Oid;
const RELATION: Kind = Kind::Relation;
const TEXT: Kind = Kind::TEXT;
const UUID: Kind = Kind::UUID;

const fn session(name: &'static str, arguments: &'static [Kind], result: Kind) -> BuiltIn {
    BuiltIn::new(name, arguments, result, Form::Session).taking_null()
}

pub(super) static SESSION: &[BuiltIn] = &[
    session("col_description", &[OID, INT4], TEXT),
    session("current_database", &[], TEXT),
    session("current_schema", &[], TEXT),
    session("current_schemas", &[BOOL], Kind::TEXTS),
    session("current_user", &[], TEXT),
    BuiltIn::new("currval", &[RELATION], INT8, Form::Sequence(CurrVal)),
    BuiltIn::of("format_type", &[OID, INT4], TEXT, |call| match call.values {
        [Datum::Int(oid), modifier] => {
            let modifier = if let Datum::Int(modifier) = modifier { *modifier } else { -1 };
            call.made(format_type(*oid, modifier))
        }
        _ => Ok(Datum::Null),
    })
    .taking_null(),
    BuiltIn::new("gen_random_uuid", &[], UUID, Form::Draw(Draw::Uuid)),
    BuiltIn::new("gen_row_identity", &[], UUID, Form::Draw(Draw::RowIdentity)),
    session("has_any_column_privilege", &[TEXT, TEXT], BOOL),
    session("has_any_column_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_column_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_column_privilege", &[TEXT, TEXT, TEXT, TEXT], BOOL),
    session("has_database_privilege", &[TEXT, TEXT], BOOL),
    session("has_database_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_function_privilege", &[TEXT, TEXT], BOOL),
    session("has_function_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_schema_privilege", &[TEXT, TEXT], BOOL),
    session("has_schema_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_sequence_privilege", &[TEXT, TEXT], BOOL),
    session("has_sequence_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_table_privilege", &[TEXT, TEXT], BOOL),
    session("has_table_privilege", &[TEXT, TEXT, TEXT], BOOL),
    BuiltIn::new("lastval", &[], INT8, Form::Sequence(LastVal)),
    BuiltIn::new("nextval", &[RELATION], INT8, Form::Sequence(NextVal)),
    session("obj_description", &[OID], TEXT),
    session("obj_description", &[OID, TEXT], TEXT),
    BuiltIn::new("pg_backend_pid", &[], INT4, Form::Unrepeatable),
    session("pg_client_encoding", &[], TEXT),
    session("pg_database_size", &[OID], INT8),
    session("pg_encoding_to_char", &[INT4], TEXT),
    session("pg_function_is_visible", &[OID], BOOL),
    session("pg_get_constraintdef", &[OID], TEXT),
    session("pg_get_constraintdef", &[OID, BOOL], TEXT),
    session("pg_get_expr", &[TEXT, OID], TEXT),
    session("pg_get_expr", &[TEXT, OID, BOOL], TEXT),
    session("pg_get_function_arguments", &[OID], TEXT),
    session("pg_get_function_identity_arguments", &[OID], TEXT),
    session("pg_get_function_result", &[OID], TEXT),
    session("pg_get_indexdef", &[OID], TEXT),
    session("pg_get_indexdef", &[OID, INT4, BOOL], TEXT),
    session("pg_get_partkeydef", &[OID], TEXT),
    session("pg_get_serial_sequence", &[TEXT, TEXT], TEXT),
    session("pg_get_statisticsobjdef_columns", &[OID], TEXT),
    session("pg_get_triggerdef", &[OID], TEXT),
    session("pg_get_triggerdef", &[OID, BOOL], TEXT),
    session("pg_get_userbyid", &[OID], TEXT),
    session("pg_get_viewdef", &[OID], TEXT),
    session("pg_get_viewdef", &[OID, BOOL], TEXT),
    session("pg_has_role", &[TEXT, TEXT], BOOL),
    session("pg_has_role", &[TEXT, TEXT, TEXT], BOOL),
    session("pg_indexes_size", &[RELATION], INT8),
    session("pg_is_in_recovery", &[], BOOL),
    session("pg_partition_ancestors", &[RELATION], RELATION),
    session("pg_relation_is_publishable", &[RELATION], BOOL),
    session("pg_relation_size", &[RELATION], INT8),
    session("pg_relation_size", &[RELATION, TEXT], INT8),
    session("pg_table_is_visible", &[OID], BOOL),
    session("pg_table_size", &[RELATION], INT8),
    session("pg_tablespace_location", &[OID], TEXT),
    session("pg_total_relation_size", &[RELATION], INT8),
    session("pg_type_is_visible", &[OID], BOOL),
    session("pg_typeof", &[Kind::Any], TEXT),
    session("session_user", &[], TEXT),
    session("set_config", &[TEXT, TEXT, BOOL], TEXT),
    BuiltIn::new("setval", &[RELATION, INT8], INT8, Form::Sequence(SetVal)),
    BuiltIn::new("setval", &[RELATION, INT8, BOOL], INT8, Form::Sequence(SetVal)),
    session("shobj_description", &[OID, TEXT], TEXT),
    BuiltIn::new("txid_current", &[], INT8, Form::Unrepeatable),
    session("version", &[], TEXT),
];

/// Returns the name of a type by its OID, with the length, precision or scale in its modifier.
fn format_type(oid: i64, modifier: i64) -> String {
    let limit = modifier - 4;
    let limited = |name: &str| if limit >= 0 { format!("{name}({limit})") } else { name.into() };
    let timestamp = |zone: &str| match modifier {
        0.. => format!("timestamp({modifier}) {zone} time zone"),
        _ => format!("timestamp {zone} time zone"),
    };
    let (name, is_array) = match oid {
        16 | 1000 => ("boolean".to_owned(), oid == 1000),
        17 | 1001 => ("bytea".into(), oid == 1001),
        20 | 1016 => ("bigint".into(), oid == 1016),
        21 | 1005 => ("smallint".into(), oid == 1005),
        23 | 1007 => ("integer".into(), oid == 1007),
        25 | 1009 => ("text".into(), oid == 1009),
        114 | 199 => ("json".into(), oid == 199),
        701 | 1022 => ("double precision".into(), oid == 1022),
        1042 | 1014 => (limited("character"), oid == 1014),
        1043 | 1015 => (limited("character varying"), oid == 1015),
        1082 | 1182 => ("date".into(), oid == 1182),
        1114 | 1115 => (timestamp("without"), oid == 1115),
        1184 | 1185 => (timestamp("with"), oid == 1185),
        1083 | 1183 => ("time without time zone".into(), oid == 1183),
        1186 | 1187 => ("interval".into(), oid == 1187),
        1700 | 1231 => match limit {
            0.. => (format!("numeric({},{})", limit >> 16, limit & 0xffff), oid == 1231),
            _ => ("numeric".into(), oid == 1231),
        },
        2278 => ("void".into(), false),
        2950 | 2951 => ("uuid".into(), oid == 2951),
        3802 | 3807 => ("jsonb".into(), oid == 3807),
        _ => ("???".into(), false),
    };
    if is_array { name + "[]" } else { name }
}
