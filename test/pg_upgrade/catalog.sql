-- Everything in the catalogs about the extension, one line per fact: its objects and their parts, including privileges and
-- comments. Two installations of the same version of jobq on the same major version of PostgreSQL must not differ.
WITH member AS (
    SELECT d.classid, d.objid, d.refobjid AS extension FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'jobq'
), relation AS (
    -- The members and the relations that belong to them: indexes, TOAST tables.
    SELECT c.* FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
    UNION
    SELECT c.* FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = i.indrelid
), known AS (
    SELECT m.classid, m.objid FROM member m
    UNION SELECT 'pg_class'::regclass, r.oid FROM relation r
    UNION SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid
    UNION SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c JOIN relation r ON r.oid = c.conrelid
    UNION SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a JOIN relation r ON r.oid = a.adrelid
    UNION SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite w JOIN relation r ON r.oid = w.ev_class
    UNION SELECT 'pg_extension'::regclass, m.extension FROM member m
), fact (subject, what, fact) AS (
    SELECT 'extension', 'itself', format('%s, relocatable %s, rows of %s', e.extversion, e.extrelocatable,
               (SELECT string_agg(format('%s %s', c.oid::regclass, c.condition), ', ' ORDER BY c.oid::regclass::text)
                FROM unnest(e.extconfig, e.extcondition) c(oid, condition)))
    FROM pg_extension e WHERE e.extname = 'jobq'
    UNION ALL
    SELECT 'extension', 'member', pg_describe_object(m.classid, m.objid, 0) FROM member m
    UNION ALL
    SELECT t.oid::regtype::text, 'type', format('%s, owner %s, labels %s', t.typtype, t.typowner::regrole,
               (SELECT string_agg(format('%s %s', e.enumlabel, e.enumsortorder), ', ' ORDER BY e.enumsortorder)
                FROM pg_enum e WHERE e.enumtypid = t.oid))
    FROM pg_type t JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid
    UNION ALL
    SELECT r.oid::regclass::text, 'relation', format('%s %s, owner %s, by %s, %s, of rows %s, security %s %s, TOAST %s %s',
               r.relkind, r.relpersistence, r.relowner::regrole, (SELECT a.amname FROM pg_am a WHERE a.oid = r.relam),
               r.reloptions, r.relreplident, r.relrowsecurity, r.relforcerowsecurity, t.oid IS NOT NULL, t.reloptions)
    FROM relation r LEFT JOIN pg_class t ON t.oid = r.reltoastrelid
    UNION ALL
    SELECT format('%s.%s', r.oid::regclass, a.attname), 'column', format('%s %s%s, not null %s, default %s, %s%s, storage %s%s, %s',
               a.attnum, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attcollation <> 0 THEN ' ' || a.attcollation::regcollation END,
               a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attstorage, a.attcompression,
               -- Without the number that the server increments when the row type changes.
               (SELECT array_agg(o) FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg_attver=%'))
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT s.seqrelid::regclass::text, 'sequence', format('%s from %s by %s, %s to %s, cache %s, cycle %s', s.seqtypid::regtype,
               s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
    FROM pg_sequence s JOIN relation r ON r.oid = s.seqrelid
    UNION ALL
    SELECT r.oid::regclass::text, 'index', format('%s, valid %s, cluster %s, of rows %s', pg_get_indexdef(r.oid), i.indisvalid,
               i.indisclustered, i.indisreplident)
    FROM pg_index i JOIN relation r ON r.oid = i.indexrelid
    UNION ALL
    -- Parentheses are removed, because a AND b AND c is parsed again as a different tree.
    SELECT format('%s on %s', c.conname, r.oid::regclass), 'constraint', format('%s, valid %s', translate(pg_get_constraintdef(c.oid), '()', ''),
               c.convalidated)
    FROM pg_constraint c JOIN relation r ON r.oid = c.conrelid
    UNION ALL
    SELECT format('%s on %s', t.tgname, r.oid::regclass), 'trigger', format('%s, %s, internal %s', pg_get_triggerdef(t.oid), t.tgenabled,
               t.tgisinternal)
    FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid
    UNION ALL
    SELECT r.oid::regclass::text, 'view', pg_get_viewdef(r.oid) FROM relation r WHERE r.relkind = 'v'
    UNION ALL
    SELECT p.oid::regprocedure::text, 'function', format('%s, owner %s, %s, from %s, cost %s, rows %s', pg_get_functiondef(p.oid),
               p.proowner::regrole, p.prokind, p.probin, p.procost, p.prorows)
    FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
    UNION ALL
    SELECT pg_describe_object(k.classid, k.objid, d.objsubid), 'comment', d.description
    FROM known k JOIN pg_description d ON d.classoid = k.classid AND d.objoid = k.objid
    UNION ALL
    SELECT pg_describe_object(d.classid, d.objid, d.objsubid), 'dependency',
        format('%s on %s', d.deptype, pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid))
    FROM known k JOIN pg_depend d ON d.classid = k.classid AND d.objid = k.objid
    UNION ALL
    SELECT a.subject, a.what, format('%s: %s%s', CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END, x.privilege_type,
               CASE WHEN x.is_grantable THEN ' with grant option' END)
    FROM (
        SELECT r.oid::regclass::text, 'privilege', coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", r.relowner))
        FROM relation r WHERE r.relkind <> 'i'
        UNION ALL
        SELECT format('%s.%s', r.oid::regclass, a.attname), 'privilege', a.attacl
        FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid
        UNION ALL
        SELECT p.oid::regprocedure::text, 'privilege', coalesce(p.proacl, acldefault('f', p.proowner))
        FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
        UNION ALL
        SELECT t.oid::regtype::text, 'privilege', coalesce(t.typacl, acldefault('T', t.typowner))
        FROM pg_type t JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid
        UNION ALL
        SELECT n.nspname, 'privilege', coalesce(n.nspacl, acldefault('n', n.nspowner))
        FROM pg_namespace n JOIN member m ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid
        UNION ALL
        -- Privileges that are the default may have no row.
        SELECT pg_describe_object(k.classid, k.objid, i.objsubid), 'privilege at first', i.initprivs
        FROM known k JOIN pg_init_privs i ON i.classoid = k.classid AND i.objoid = k.objid
        WHERE NOT (k.classid = 'pg_proc'::regclass AND i.initprivs @> acldefault('f', 10) AND i.initprivs <@ acldefault('f', 10))
    ) a(subject, what, acl), aclexplode(a.acl) x
)
SELECT DISTINCT concat_ws(' | ', f.subject, f.what, regexp_replace(f.fact, '\s+', ' ', 'g')) COLLATE "C" AS line FROM fact f ORDER BY line
