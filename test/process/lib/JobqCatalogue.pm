# Lists everything that the system catalogs contain about user objects in a database, with one line per fact and names instead of
# OIDs, so that two databases with the same extension give the same lines. This file knows nothing about the objects of jobq.
package JobqCatalogue;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use JobqTest;

our @EXPORT = qw(catalogue differences);

# Generates a statement for each catalog, which psql executes. It leaves out what differs between any two databases: storage
# locations, statistics, and hints.
my $sql = <<'SQL';
SET search_path = '';
WITH catalogue AS (
    SELECT c.oid, c.relname, c.oid::pg_catalog.regclass::text AS name,
           -- The object that a row belongs to: given by the OID of the row, by the OID in its first column, or by an object address.
           CASE WHEN c.relname IN ('pg_description', 'pg_init_privs', 'pg_seclabel') THEN 'pg_describe_object(t.classoid, t.objoid, t.objsubid)'
                WHEN c.relname = 'pg_attribute' THEN 'pg_describe_object(1259, t.attrelid, 0) || '' column '' || t.attnum'
                WHEN c.relname = 'pg_enum' THEN 'format_type(t.enumtypid, NULL) || '' value '' || t.enumlabel'
                WHEN c.relname = 'pg_depend' THEN $$pg_describe_object(t.classid, t.objid, t.objsubid) || ' on ' || pg_describe_object(t.refclassid, t.refobjid, t.refobjsubid)$$
                WHEN first.attname = 'oid' THEN pg_catalog.format('pg_describe_object(%s, t.oid, 0)', c.oid)
                ELSE pg_catalog.format('pg_describe_object(%s, t.%I, 0)', k.pktable::oid, first.attname) END AS key,
           CASE WHEN c.relname = 'pg_depend' THEN 't.objid' WHEN c.relname = 'pg_enum' THEN 't.enumtypid'
                ELSE 't.' || first.attname END AS own
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute first ON first.attrelid = c.oid AND first.attnum = 1
    LEFT JOIN pg_catalog.pg_get_catalog_foreign_keys() k ON k.fktable = c.oid AND k.fkcols = ARRAY[first.attname::text]
    WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relkind = 'r' AND NOT c.relisshared
      AND first.atttypid IN ('oid'::pg_catalog.regtype, 'regproc'::pg_catalog.regtype)
      AND c.relname NOT IN ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject', 'pg_largeobject_metadata')),
said AS (
    SELECT c.relname, a.attnum, a.attname::text AS what, CASE
        WHEN a.attname = 'extconfig' THEN
            $$(SELECT string_agg(u.c::regclass::text || ' ' || coalesce(u.w, ''), ', ' ORDER BY 1) FROM unnest(t.extconfig, t.extcondition) u(c, w))$$
        WHEN a.attname = 'enumsortorder' THEN '(SELECT count(*) FROM pg_enum e WHERE e.enumtypid = t.enumtypid AND e.enumsortorder < t.enumsortorder)'
        WHEN a.atttypid = 'aclitem[]'::pg_catalog.regtype OR a.attname = 'reloptions' THEN
            pg_catalog.format('(SELECT array_agg(i::text ORDER BY i::text) FROM unnest(t.%I) i)', a.attname)
        WHEN k.is_array THEN pg_catalog.format(
            '(SELECT array_agg(pg_describe_object(%s, u.o::oid, 0) ORDER BY u.n) FROM unnest(t.%I) WITH ORDINALITY u(o, n))', k.pktable::oid, a.attname)
        WHEN k.pktable IS NOT NULL THEN pg_catalog.format('pg_describe_object(%s, nullif(t.%I::oid, 0), 0)', k.pktable::oid, a.attname)
        ELSE pg_catalog.format('t.%I', a.attname) END AS how
    FROM catalogue c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_get_catalog_foreign_keys() k ON k.fktable = c.oid AND k.fkcols = ARRAY[a.attname::text]
    WHERE a.atttypid NOT IN ('pg_node_tree'::pg_catalog.regtype, 'xid'::pg_catalog.regtype, 'anyarray'::pg_catalog.regtype)
      AND (k.pktable IS NOT NULL OR a.attname = 'extconfig' OR a.atttypid NOT IN ('oid'::pg_catalog.regtype, 'oid[]'::pg_catalog.regtype))
      AND a.attname NOT IN ('oid', 'relfilenode', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relhasrules',
                            'relhastriggers', 'relhassubclass', 'atthasmissing', 'attcacheoff', 'indcheckxmin', 'extcondition')
    UNION ALL
    -- Expressions that the catalog stores as trees, as SQL.
    VALUES ('pg_proc', 1000, 'arguments', 'pg_get_function_arguments(t.oid)'),
           ('pg_proc', 1001, 'body', 'pg_get_function_sqlbody(t.oid)'),
           ('pg_class', 1000, 'query', $$CASE WHEN t.relkind IN ('v', 'm') THEN pg_get_viewdef(t.oid) END$$),
           ('pg_index', 1000, 'definition', 'pg_get_indexdef(t.indexrelid)'),
           ('pg_constraint', 1000, 'definition', 'pg_get_constraintdef(t.oid)'),
           ('pg_trigger', 1000, 'definition', 'pg_get_triggerdef(t.oid)'),
           ('pg_attrdef', 1000, 'definition', 'pg_get_expr(t.adbin, t.adrelid)'),
           ('pg_rewrite', 1000, 'definition', 'pg_get_ruledef(t.oid)'),
           ('pg_policy', 1000, 'definition', $$concat_ws(' check ', pg_get_expr(t.polqual, t.polrelid), pg_get_expr(t.polwithcheck, t.polrelid))$$),
           ('pg_statistic_ext', 1000, 'definition', 'pg_get_statisticsobjdef(t.oid)'))
SELECT pg_catalog.format(
    -- 16384: the first oid that is not the server's own.
    $$SELECT concat('%s: ', o.key, ': ', v.what, ' = ', regexp_replace(v.said, '\s+', ' ', 'g'))
      FROM %s t CROSS JOIN LATERAL (SELECT %s) o(key) CROSS JOIN LATERAL (VALUES %s) v(what, said)
      WHERE %s::oid >= 16384::oid AND v.said IS NOT NULL$$,
    c.relname, c.name, c.key, string_agg(pg_catalog.format('(%L, %s::text)', s.what, s.how), ', ' ORDER BY s.attnum), c.own)
FROM catalogue c JOIN said s ON s.relname = c.relname
GROUP BY c.relname, c.name, c.key, c.own ORDER BY c.relname
\gexec
SELECT pg_catalog.format('SELECT ''rows: %s: '' || CASE WHEN EXISTS (SELECT FROM %1$s) THEN ''some'' ELSE ''none'' END', c.oid::pg_catalog.regclass)
FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND c.oid >= 16384
\gexec
SQL

# `before`: SQL that is executed first, in a transaction that is rolled back. `rows`: also list which tables have rows.
sub catalogue
{
    my ($node, $database, %option) = @_;
    my $before = $option{before} // '';
    my @lines = split /\n/, value($node, $database, "BEGIN;\n\\o /dev/null\n$before;\n\\o\n$sql\nROLLBACK;\n");
    # Numbers that differ each time.
    s/pg_toast_\d+/pg_toast_N/g, s/pg_attver=\d+/pg_attver=N/ for @lines;
    @lines = grep { !/^rows: / } @lines unless $option{rows};
    return [ sort @lines ];
}

# Returns the lines that only one list has, with "- " before lines of the first list and "+ " before lines of the second.
sub differences
{
    my ($first, $second) = @_;
    my %times;
    $times{$_}++ for @$second;
    $times{$_}-- for @$first;
    return map { ($times{$_} > 0 ? '+ ' : '- ') . $_ } grep { $times{$_} != 0 } sort keys %times;
}

1;
