//! The columns of the relations of `information_schema`, and those that are queries over `pg_catalog`.
//! Source: PostgreSQL 15's `information_schema`.

use super::catalogs::{Declared, columns_of, with_columns};
use super::information_schema::DATABASE;
use super::{Cell, SystemRelation};

/// The relations that are no queries, with their columns (the letters are those of `catalogs`). A relation is
/// empty if Reprise does not support its objects.
const COLUMNS: [(&str, &str); 39] = [
    (
        "column_privileges",
        "grantor ?t, grantee ?t, table_catalog ?t, table_schema ?t, table_name ?t, column_name ?t, \
         privilege_type ?t, is_grantable ?t",
    ),
    ("enabled_roles", "role_name ?t"),
    (
        "role_column_grants",
        "grantor ?t, grantee ?t, table_catalog ?t, table_schema ?t, table_name ?t, column_name ?t, \
         privilege_type ?t, is_grantable ?t",
    ),
    (
        "role_table_grants",
        "grantor ?t, grantee ?t, table_catalog ?t, table_schema ?t, table_name ?t, privilege_type ?t, \
         is_grantable ?t, with_hierarchy ?t",
    ),
    (
        "table_privileges",
        "grantor ?t, grantee ?t, table_catalog ?t, table_schema ?t, table_name ?t, privilege_type ?t, \
         is_grantable ?t, with_hierarchy ?t",
    ),
    ("administrable_role_authorizations", "grantee ?t, role_name ?t, is_grantable ?t"),
    ("applicable_roles", "grantee ?t, role_name ?t, is_grantable ?t"),
    (
        "attributes",
        "udt_catalog ?t, udt_schema ?t, udt_name ?t, attribute_name ?t, ordinal_position ?i, \
         attribute_default ?t, is_nullable ?t, data_type ?t, character_maximum_length ?i, \
         character_octet_length ?i, character_set_catalog ?t, character_set_schema ?t, \
         character_set_name ?t, collation_catalog ?t, collation_schema ?t, collation_name ?t, \
         numeric_precision ?i, numeric_precision_radix ?i, numeric_scale ?i, datetime_precision \
         ?i, interval_type ?t, interval_precision ?i, attribute_udt_catalog ?t, \
         attribute_udt_schema ?t, attribute_udt_name ?t, scope_catalog ?t, scope_schema ?t, \
         scope_name ?t, maximum_cardinality ?i, dtd_identifier ?t, \
         is_derived_reference_attribute ?t",
    ),
    (
        "character_sets",
        "character_set_catalog ?t, character_set_schema ?t, character_set_name ?t, \
         character_repertoire ?t, form_of_use ?t, default_collate_catalog ?t, \
         default_collate_schema ?t, default_collate_name ?t",
    ),
    (
        "check_constraint_routine_usage",
        "constraint_catalog ?t, constraint_schema ?t, constraint_name ?t, specific_catalog ?t, \
         specific_schema ?t, specific_name ?t",
    ),
    (
        "collation_character_set_applicability",
        "collation_catalog ?t, collation_schema ?t, collation_name ?t, character_set_catalog \
         ?t, character_set_schema ?t, character_set_name ?t",
    ),
    ("collations", "collation_catalog ?t, collation_schema ?t, collation_name ?t, pad_attribute ?t"),
    (
        "column_column_usage",
        "table_catalog ?t, table_schema ?t, table_name ?t, column_name ?t, dependent_column ?t",
    ),
    (
        "column_domain_usage",
        "domain_catalog ?t, domain_schema ?t, domain_name ?t, table_catalog ?t, table_schema \
         ?t, table_name ?t, column_name ?t",
    ),
    (
        "column_options",
        "table_catalog ?t, table_schema ?t, table_name ?t, column_name ?t, option_name ?t, \
         option_value ?t",
    ),
    (
        "column_udt_usage",
        "udt_catalog ?t, udt_schema ?t, udt_name ?t, table_catalog ?t, table_schema ?t, \
         table_name ?t, column_name ?t",
    ),
    (
        "columns",
        "table_catalog ?t, table_schema ?t, table_name ?t, column_name ?t, ordinal_position ?i, \
         column_default ?t, is_nullable ?t, data_type ?t, character_maximum_length ?i, \
         character_octet_length ?i, numeric_precision ?i, numeric_precision_radix ?i, \
         numeric_scale ?i, datetime_precision ?i, interval_type ?t, interval_precision ?i, \
         character_set_catalog ?t, character_set_schema ?t, character_set_name ?t, \
         collation_catalog ?t, collation_schema ?t, collation_name ?t, domain_catalog ?t, \
         domain_schema ?t, domain_name ?t, udt_catalog ?t, udt_schema ?t, udt_name ?t, \
         scope_catalog ?t, scope_schema ?t, scope_name ?t, maximum_cardinality ?i, \
         dtd_identifier ?t, is_self_referencing ?t, is_identity ?t, identity_generation ?t, \
         identity_start ?t, identity_increment ?t, identity_maximum ?t, identity_minimum ?t, \
         identity_cycle ?t, is_generated ?t, generation_expression ?t, is_updatable ?t",
    ),
    (
        "data_type_privileges",
        "object_catalog ?t, object_schema ?t, object_name ?t, object_type ?t, dtd_identifier ?t",
    ),
    (
        "domain_udt_usage",
        "udt_catalog ?t, udt_schema ?t, udt_name ?t, domain_catalog ?t, domain_schema ?t, \
         domain_name ?t",
    ),
    (
        "element_types",
        "object_catalog ?t, object_schema ?t, object_name ?t, object_type ?t, \
         collection_type_identifier ?t, data_type ?t, character_maximum_length ?i, \
         character_octet_length ?i, character_set_catalog ?t, character_set_schema ?t, \
         character_set_name ?t, collation_catalog ?t, collation_schema ?t, collation_name ?t, \
         numeric_precision ?i, numeric_precision_radix ?i, numeric_scale ?i, datetime_precision \
         ?i, interval_type ?t, interval_precision ?i, domain_default ?t, udt_catalog ?t, \
         udt_schema ?t, udt_name ?t, scope_catalog ?t, scope_schema ?t, scope_name ?t, \
         maximum_cardinality ?i, dtd_identifier ?t",
    ),
    (
        "key_column_usage",
        "constraint_catalog ?t, constraint_schema ?t, constraint_name ?t, table_catalog ?t, \
         table_schema ?t, table_name ?t, column_name ?t, ordinal_position ?i, \
         position_in_unique_constraint ?i",
    ),
    (
        "role_routine_grants",
        "grantor ?t, grantee ?t, specific_catalog ?t, specific_schema ?t, specific_name ?t, \
         routine_catalog ?t, routine_schema ?t, routine_name ?t, privilege_type ?t, \
         is_grantable ?t",
    ),
    (
        "role_udt_grants",
        "grantor ?t, grantee ?t, udt_catalog ?t, udt_schema ?t, udt_name ?t, privilege_type ?t, \
         is_grantable ?t",
    ),
    (
        "role_usage_grants",
        "grantor ?t, grantee ?t, object_catalog ?t, object_schema ?t, object_name ?t, \
         object_type ?t, privilege_type ?t, is_grantable ?t",
    ),
    (
        "routine_column_usage",
        "specific_catalog ?t, specific_schema ?t, specific_name ?t, routine_catalog ?t, \
         routine_schema ?t, routine_name ?t, table_catalog ?t, table_schema ?t, table_name ?t, \
         column_name ?t",
    ),
    (
        "routine_privileges",
        "grantor ?t, grantee ?t, specific_catalog ?t, specific_schema ?t, specific_name ?t, \
         routine_catalog ?t, routine_schema ?t, routine_name ?t, privilege_type ?t, \
         is_grantable ?t",
    ),
    (
        "routine_routine_usage",
        "specific_catalog ?t, specific_schema ?t, specific_name ?t, routine_catalog ?t, \
         routine_schema ?t, routine_name ?t",
    ),
    (
        "routine_sequence_usage",
        "specific_catalog ?t, specific_schema ?t, specific_name ?t, routine_catalog ?t, \
         routine_schema ?t, routine_name ?t, sequence_catalog ?t, sequence_schema ?t, \
         sequence_name ?t",
    ),
    (
        "routine_table_usage",
        "specific_catalog ?t, specific_schema ?t, specific_name ?t, routine_catalog ?t, \
         routine_schema ?t, routine_name ?t, table_catalog ?t, table_schema ?t, table_name ?t",
    ),
    (
        "table_constraints",
        "constraint_catalog ?t, constraint_schema ?t, constraint_name ?t, table_catalog ?t, \
         table_schema ?t, table_name ?t, constraint_type ?t, is_deferrable ?t, \
         initially_deferred ?t, enforced ?t, nulls_distinct ?t",
    ),
    (
        "transforms",
        "udt_catalog ?t, udt_schema ?t, udt_name ?t, specific_catalog ?t, specific_schema ?t, \
         specific_name ?t, group_name ?t, transform_type ?t",
    ),
    (
        "triggered_update_columns",
        "trigger_catalog ?t, trigger_schema ?t, trigger_name ?t, event_object_catalog ?t, \
         event_object_schema ?t, event_object_table ?t, event_object_column ?t",
    ),
    (
        "triggers",
        "trigger_catalog ?t, trigger_schema ?t, trigger_name ?t, event_manipulation ?t, \
         event_object_catalog ?t, event_object_schema ?t, event_object_table ?t, action_order \
         ?i, action_condition ?t, action_statement ?t, action_orientation ?t, action_timing ?t, \
         action_reference_old_table ?t, action_reference_new_table ?t, action_reference_old_row \
         ?t, action_reference_new_row ?t, created ?z",
    ),
    (
        "udt_privileges",
        "grantor ?t, grantee ?t, udt_catalog ?t, udt_schema ?t, udt_name ?t, privilege_type ?t, \
         is_grantable ?t",
    ),
    (
        "usage_privileges",
        "grantor ?t, grantee ?t, object_catalog ?t, object_schema ?t, object_name ?t, \
         object_type ?t, privilege_type ?t, is_grantable ?t",
    ),
    (
        "user_defined_types",
        "user_defined_type_catalog ?t, user_defined_type_schema ?t, user_defined_type_name ?t, \
         user_defined_type_category ?t, is_instantiable ?t, is_final ?t, ordering_form ?t, \
         ordering_category ?t, ordering_routine_catalog ?t, ordering_routine_schema ?t, \
         ordering_routine_name ?t, reference_type ?t, data_type ?t, character_maximum_length \
         ?i, character_octet_length ?i, character_set_catalog ?t, character_set_schema ?t, \
         character_set_name ?t, collation_catalog ?t, collation_schema ?t, collation_name ?t, \
         numeric_precision ?i, numeric_precision_radix ?i, numeric_scale ?i, datetime_precision \
         ?i, interval_type ?t, interval_precision ?i, source_dtd_identifier ?t, \
         ref_dtd_identifier ?t",
    ),
    (
        "view_column_usage",
        "view_catalog ?t, view_schema ?t, view_name ?t, table_catalog ?t, table_schema ?t, \
         table_name ?t, column_name ?t",
    ),
    (
        "view_routine_usage",
        "table_catalog ?t, table_schema ?t, table_name ?t, specific_catalog ?t, specific_schema \
         ?t, specific_name ?t",
    ),
    (
        "views",
        "table_catalog ?t, table_schema ?t, table_name ?t, view_definition ?t, check_option ?t, \
         is_updatable ?t, is_insertable_into ?t, is_trigger_updatable ?t, is_trigger_deletable \
         ?t, is_trigger_insertable_into ?t",
    ),
];

/// The relations that are queries.
pub(super) const QUERIES: [(&str, &str); 13] = [
    (
        "information_schema.check_constraints",
        "SELECT 'postgres' AS constraint_catalog, n.nspname AS constraint_schema, c.conname AS \
         constraint_name, substr(pg_get_constraintdef(c.oid), 7) AS check_clause FROM \
         pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace LEFT \
         JOIN pg_catalog.pg_class r ON r.oid = c.conrelid LEFT JOIN pg_catalog.pg_type t ON t.oid = \
         c.contypid WHERE c.contype = 'c' AND pg_has_role(coalesce(r.relowner, t.typowner), 'USAGE') \
         UNION ALL SELECT 'postgres', n.nspname, concat_ws('_', n.oid, r.oid, \
         a.attnum, 'not_null'), a.attname || ' IS NOT NULL' FROM pg_catalog.pg_attribute a JOIN \
         pg_catalog.pg_class r ON r.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
         r.relnamespace WHERE a.attnotnull AND r.relkind IN ('r', 'p') AND a.attnum > 0 AND \
         pg_has_role(r.relowner, 'USAGE')",
    ),
    (
        "information_schema.constraint_column_usage",
        "SELECT 'postgres' AS table_catalog, n.nspname AS table_schema, r.relname AS table_name, \
         a.attname AS column_name, 'postgres' AS constraint_catalog, cn.nspname AS constraint_schema, \
         c.conname AS constraint_name FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace cn \
         ON cn.oid = c.connamespace JOIN pg_catalog.pg_class r ON r.oid = CASE c.contype WHEN 'f' \
         THEN c.confrelid ELSE c.conrelid END JOIN pg_catalog.pg_namespace n ON n.oid = \
         r.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = ANY (CASE \
         c.contype WHEN 'f' THEN c.confkey ELSE c.conkey END) WHERE pg_has_role(r.relowner, 'USAGE')",
    ),
    (
        "information_schema.constraint_table_usage",
        "SELECT 'postgres' AS table_catalog, n.nspname AS table_schema, r.relname AS table_name, \
         'postgres' AS constraint_catalog, cn.nspname AS constraint_schema, c.conname AS \
         constraint_name FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace cn ON cn.oid = \
         c.connamespace JOIN pg_catalog.pg_class r ON r.oid = CASE c.contype WHEN 'f' THEN \
         c.confrelid ELSE c.conrelid END JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
         WHERE c.contype IN ('f', 'p', 'u') AND pg_has_role(r.relowner, 'USAGE')",
    ),
    (
        "information_schema.domain_constraints",
        "SELECT 'postgres' AS constraint_catalog, n.nspname AS constraint_schema, c.conname AS \
         constraint_name, 'postgres' AS domain_catalog, n.nspname AS domain_schema, t.typname AS \
         domain_name, 'NO' AS is_deferrable, 'NO' AS initially_deferred FROM pg_catalog.pg_constraint c \
         JOIN pg_catalog.pg_type t ON t.oid = c.contypid JOIN pg_catalog.pg_namespace n ON n.oid = \
         t.typnamespace WHERE pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE')",
    ),
    (
        "information_schema.domains",
        "SELECT 'postgres' AS domain_catalog, n.nspname AS domain_schema, t.typname AS domain_name, CASE \
         u.nspname WHEN 'pg_catalog' THEN format_type(t.typbasetype, NULL) ELSE 'USER-DEFINED' END AS \
         data_type, CASE WHEN t.typbasetype IN (1042, 1043) AND \
         t.typtypmod > 0 THEN t.typtypmod - 4 END AS character_maximum_length, NULL::integer AS \
         character_octet_length, NULL::text AS character_set_catalog, NULL::text AS \
         character_set_schema, NULL::text AS character_set_name, NULL::text AS collation_catalog, \
         NULL::text AS collation_schema, NULL::text AS collation_name, CASE t.typbasetype WHEN 21 \
         THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53 WHEN 1700 THEN \
         CASE WHEN t.typtypmod > 0 THEN (t.typtypmod - 4) / 65536 END END AS numeric_precision, CASE \
         WHEN t.typbasetype IN (20, 21, 23, 700, 701) THEN 2 WHEN t.typbasetype = 1700 THEN 10 END AS \
         numeric_precision_radix, CASE WHEN t.typbasetype IN (20, 21, 23) THEN 0 WHEN t.typbasetype = \
         1700 AND t.typtypmod > 0 THEN (t.typtypmod - 4) % 65536 END AS numeric_scale, CASE WHEN \
         t.typbasetype = 1082 THEN 0 WHEN t.typbasetype IN (1083, 1186) THEN 6 WHEN t.typbasetype IN \
         (1114, 1184) THEN CASE WHEN t.typtypmod < 0 THEN 6 ELSE t.typtypmod END END AS \
         datetime_precision, NULL::text AS interval_type, NULL::integer AS interval_precision, \
         t.typdefault AS domain_default, 'postgres' AS udt_catalog, u.nspname AS udt_schema, \
         b.typname AS udt_name, NULL::text AS scope_catalog, NULL::text AS scope_schema, NULL::text \
         AS scope_name, NULL::integer AS maximum_cardinality, '1' AS dtd_identifier FROM \
         pg_catalog.pg_type t JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype JOIN \
         pg_catalog.pg_namespace n ON n.oid = t.typnamespace JOIN pg_catalog.pg_namespace u ON u.oid = \
         b.typnamespace WHERE t.typtype = 'd' AND \
         (pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE'))",
    ),
    ("information_schema.information_schema_catalog_name", "SELECT 'postgres' AS catalog_name"),
    (
        "information_schema.parameters",
        "SELECT 'postgres' AS specific_catalog, n.nspname AS specific_schema, p.proname || '_' || \
         p.oid AS specific_name, t.place::int AS ordinal_position, CASE p.proargmodes[t.place] WHEN \
         'o' THEN 'OUT' WHEN 'b' THEN 'INOUT' ELSE 'IN' END AS parameter_mode, 'NO' AS is_result, \
         'NO' AS as_locator, nullif(p.proargnames[t.place], '') AS parameter_name, CASE WHEN \
         y.typcategory = 'A' THEN 'ARRAY' WHEN y.typnamespace = 11 THEN format_type(y.oid, NULL) ELSE \
         'USER-DEFINED' END AS data_type, NULL::int AS character_maximum_length, NULL::int AS \
         character_octet_length, NULL::text AS character_set_catalog, NULL::text AS \
         character_set_schema, NULL::text AS character_set_name, NULL::text AS collation_catalog, \
         NULL::text AS collation_schema, NULL::text AS collation_name, NULL::int AS \
         numeric_precision, NULL::int AS numeric_precision_radix, NULL::int AS numeric_scale, \
         NULL::int AS datetime_precision, NULL::text AS interval_type, NULL::int AS \
         interval_precision, 'postgres' AS udt_catalog, yn.nspname AS udt_schema, y.typname AS \
         udt_name, NULL::text AS scope_catalog, NULL::text AS scope_schema, NULL::text AS scope_name, \
         NULL::int AS maximum_cardinality, t.place::text AS dtd_identifier, CASE WHEN \
         pg_has_role(p.proowner, 'USAGE') THEN pg_get_function_arg_default(p.oid, t.place::int) END AS \
         parameter_default FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = \
         p.pronamespace, unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS t (ty, \
         place) JOIN pg_catalog.pg_type y ON y.oid = t.ty JOIN pg_catalog.pg_namespace yn ON yn.oid = \
         y.typnamespace WHERE p.pronamespace <> 11 AND coalesce(p.proargmodes[t.place], 'i') <> 't' AND \
         (pg_has_role(p.proowner, 'USAGE') OR has_function_privilege(p.oid, 'EXECUTE'))",
    ),
    (
        "information_schema.referential_constraints",
        "SELECT 'postgres' AS constraint_catalog, n.nspname AS constraint_schema, c.conname AS \
         constraint_name, 'postgres' AS unique_constraint_catalog, un.nspname AS \
         unique_constraint_schema, u.conname AS unique_constraint_name, 'NONE' AS match_option, CASE \
         c.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' \
         WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END AS update_rule, CASE c.confdeltype WHEN 'c' THEN \
         'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT' ELSE \
         'NO ACTION' END AS delete_rule FROM \
         pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace LEFT \
         JOIN pg_catalog.pg_constraint u ON u.conrelid = c.confrelid AND u.conindid = c.conindid AND \
         u.contype IN ('p', 'u') LEFT JOIN pg_catalog.pg_namespace un ON un.oid = u.connamespace \
         JOIN pg_catalog.pg_class r ON r.oid = c.conrelid WHERE c.contype = 'f' AND \
         (pg_has_role(r.relowner, 'USAGE') OR has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, \
         TRUNCATE, REFERENCES, TRIGGER') OR has_any_column_privilege(r.oid, 'INSERT, UPDATE, \
         REFERENCES'))",
    ),
    (
        "information_schema.routines",
        "SELECT 'postgres' AS specific_catalog, n.nspname AS specific_schema, p.proname || '_' || \
         p.oid AS specific_name, 'postgres' AS routine_catalog, n.nspname AS routine_schema, \
         p.proname AS routine_name, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS \
         routine_type, NULL::text AS module_catalog, NULL::text AS module_schema, NULL::text AS \
         module_name, NULL::text AS udt_catalog, NULL::text AS udt_schema, NULL::text AS udt_name, \
         CASE WHEN p.prokind = 'p' THEN NULL WHEN t.typcategory = 'A' THEN 'ARRAY' WHEN \
         t.typnamespace = 11 THEN format_type(t.oid, NULL) ELSE 'USER-DEFINED' END AS data_type, \
         NULL::int AS character_maximum_length, NULL::int AS character_octet_length, NULL::text AS \
         character_set_catalog, NULL::text AS character_set_schema, NULL::text AS character_set_name, \
         NULL::text AS collation_catalog, NULL::text AS collation_schema, NULL::text AS \
         collation_name, NULL::int AS numeric_precision, NULL::int AS numeric_precision_radix, \
         NULL::int AS numeric_scale, NULL::int AS datetime_precision, NULL::text AS interval_type, \
         NULL::int AS interval_precision, CASE WHEN p.prokind <> 'p' THEN 'postgres' END AS \
         type_udt_catalog, CASE WHEN p.prokind <> 'p' THEN tn.nspname END AS type_udt_schema, CASE \
         WHEN p.prokind <> 'p' THEN t.typname END AS type_udt_name, NULL::text AS scope_catalog, \
         NULL::text AS scope_schema, NULL::text AS scope_name, NULL::int AS maximum_cardinality, CASE \
         WHEN p.prokind <> 'p' THEN '0' END AS dtd_identifier, CASE WHEN l.lanname = 'sql' THEN 'SQL' \
         ELSE 'EXTERNAL' END AS routine_body, CASE WHEN pg_has_role(p.proowner, 'USAGE') THEN p.prosrc \
         END AS routine_definition, NULL::text AS \
         external_name, upper(l.lanname) AS external_language, 'GENERAL' AS parameter_style, CASE \
         p.provolatile WHEN 'i' THEN 'YES' ELSE 'NO' END AS is_deterministic, 'MODIFIES' AS \
         sql_data_access, CASE WHEN p.prokind <> 'p' THEN CASE WHEN p.proisstrict THEN 'YES' ELSE \
         'NO' END END AS is_null_call, NULL::text AS sql_path, 'YES' AS schema_level_routine, 0 AS \
         max_dynamic_result_sets, NULL::text AS is_user_defined_cast, NULL::text AS \
         is_implicitly_invocable, CASE WHEN p.prosecdef THEN 'DEFINER' ELSE 'INVOKER' END AS \
         security_type, NULL::text AS to_sql_specific_catalog, NULL::text AS to_sql_specific_schema, \
         NULL::text AS to_sql_specific_name, 'NO' AS as_locator, NULL::timestamptz AS created, \
         NULL::timestamptz AS last_altered, NULL::text AS new_savepoint_level, 'NO' AS \
         is_udt_dependent, NULL::text AS result_cast_from_data_type, NULL::text AS \
         result_cast_as_locator, NULL::int AS result_cast_char_max_length, NULL::int AS \
         result_cast_char_octet_length, NULL::text AS result_cast_char_set_catalog, NULL::text AS \
         result_cast_char_set_schema, NULL::text AS result_cast_char_set_name, NULL::text AS \
         result_cast_collation_catalog, NULL::text AS result_cast_collation_schema, NULL::text AS \
         result_cast_collation_name, NULL::int AS result_cast_numeric_precision, NULL::int AS \
         result_cast_numeric_precision_radix, NULL::int AS result_cast_numeric_scale, NULL::int AS \
         result_cast_datetime_precision, NULL::text AS result_cast_interval_type, NULL::int AS \
         result_cast_interval_precision, NULL::text AS result_cast_type_udt_catalog, NULL::text AS \
         result_cast_type_udt_schema, NULL::text AS result_cast_type_udt_name, NULL::text AS \
         result_cast_scope_catalog, NULL::text AS result_cast_scope_schema, NULL::text AS \
         result_cast_scope_name, NULL::int AS result_cast_maximum_cardinality, NULL::text AS \
         result_cast_dtd_identifier FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid \
         = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang LEFT JOIN \
         pg_catalog.pg_type t ON t.oid = p.prorettype LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid \
         = t.typnamespace WHERE p.pronamespace <> 11 AND (pg_has_role(p.proowner, 'USAGE') OR \
         has_function_privilege(p.oid, 'EXECUTE'))",
    ),
    (
        "information_schema.schemata",
        "SELECT 'postgres' AS catalog_name, nspname AS schema_name, pg_get_userbyid(nspowner) AS \
         schema_owner, NULL::text AS default_character_set_catalog, NULL::text AS \
         default_character_set_schema, NULL::text AS default_character_set_name, NULL::text AS \
         sql_path FROM pg_catalog.pg_namespace n WHERE pg_has_role(nspowner, 'USAGE') OR \
         has_schema_privilege(n.oid, 'CREATE, USAGE')",
    ),
    (
        "information_schema.sequences",
        "SELECT 'postgres' AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS \
         sequence_name, format_type(s.seqtypid, NULL) AS data_type, CASE s.seqtypid WHEN 21 THEN 16 \
         WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix, 0 AS \
         numeric_scale, s.seqstart::text AS start_value, s.seqmin::text AS minimum_value, \
         s.seqmax::text AS maximum_value, s.seqincrement::text AS increment, CASE WHEN s.seqcycle \
         THEN 'YES' ELSE 'NO' END AS cycle_option FROM pg_catalog.pg_sequence s JOIN \
         pg_catalog.pg_class c ON c.oid = s.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
         c.relnamespace WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 1259 \
         AND d.objid = c.oid AND d.deptype = 'i') AND NOT pg_is_other_temp_schema(n.oid) AND \
         (pg_has_role(c.relowner, 'USAGE') OR \
         has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE'))",
    ),
    (
        "information_schema.tables",
        "SELECT 'postgres' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, CASE \
         WHEN n.oid = pg_my_temp_schema() THEN 'LOCAL TEMPORARY' WHEN c.relkind = 'v' THEN 'VIEW' \
         ELSE 'BASE TABLE' END AS table_type, NULL::text AS \
         self_referencing_column_name, NULL::text AS reference_generation, NULL::text AS \
         user_defined_type_catalog, NULL::text AS user_defined_type_schema, NULL::text AS \
         user_defined_type_name, CASE \
         pg_relation_is_updatable(c.oid, false) & 8 WHEN 8 THEN 'YES' ELSE 'NO' END AS \
         is_insertable_into, 'NO' AS is_typed, NULL::text AS commit_action FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'p') AND \
         NOT pg_is_other_temp_schema(n.oid) AND \
         (pg_has_role(c.relowner, 'USAGE') OR has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, \
         DELETE, TRUNCATE, REFERENCES, TRIGGER') OR has_any_column_privilege(c.oid, 'SELECT, INSERT, \
         UPDATE, REFERENCES'))",
    ),
    (
        "information_schema.view_table_usage",
        "SELECT 'postgres' AS view_catalog, vn.nspname AS view_schema, v.relname AS view_name, \
         'postgres' AS table_catalog, n.nspname AS table_schema, r.relname AS table_name FROM \
         pg_catalog.pg_rewrite w JOIN pg_catalog.pg_class v ON v.oid = w.ev_class JOIN \
         pg_catalog.pg_namespace vn ON vn.oid = v.relnamespace JOIN pg_catalog.pg_depend d ON \
         d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 AND d.refobjid <> v.oid JOIN \
         pg_catalog.pg_class r ON r.oid = d.refobjid JOIN pg_catalog.pg_namespace n ON n.oid = \
         r.relnamespace WHERE r.relkind IN ('r', 'v', 'p') AND pg_has_role(r.relowner, 'USAGE')",
    ),
];

/// The columns whose value is the name of the database.
const CATALOGS: [&str; 7] = [
    "constraint_catalog",
    "routine_catalog",
    "specific_catalog",
    "table_catalog",
    "trigger_catalog",
    "udt_catalog",
    "view_catalog",
];

/// Returns a relation with all columns of PostgreSQL's relation of this name; `None` if PostgreSQL has none.
/// A column that Reprise does not fill is NULL.
pub(super) fn completed(name: &str, known: Option<SystemRelation>) -> Option<SystemRelation> {
    let (_, declared) = COLUMNS.iter().find(|relation| relation.0 == name)?;
    let known = known.unwrap_or_else(|| SystemRelation::new(&[], Vec::new()));
    let unknown =
        |column: Declared| if CATALOGS.contains(&column.name) { DATABASE.into() } else { Cell::Null };
    Some(with_columns(known, columns_of(declared), unknown))
}
