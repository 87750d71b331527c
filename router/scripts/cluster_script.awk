# Makes the install scripts of jobq_shard and jobq_router from their fragments. For the router, the input begins with the install
# script of jobq and sql/router/routes. Each function of jobq becomes two functions: a function with the same name, arguments, and
# result, which passes the call on as its route says, and a function of PL/Proxy, jobq_router.at_NAME, whose first argument is the
# shard. Directives in a fragment:
#
#   --: text              on a line of its own before a CREATE: the comment of what is created
#   code --: text         after the definition of a column: the comment of the column
#   --@ types             the types of jobq
#   --@ bucket_of SCHEMA  the function that routers and shards share
#   --@ calls             the functions of PL/Proxy, and the calls whose route says everything
#   --@ view NAME (COLUMNS)
#                         the view jobq.NAME of all shards, with the shard as the last column. {table} stands for the
#                         columns of the table of that name, {settings} for the settings of a queue, {kind_settings} for those of a kind, {statuses} for a number of each status
#   --@ caught SHARD      in an exception handler: puts the error of that shard into the variable _fault
#   --@ function NAME     the head of a call whose route is "own". The next lines up to --@ end are its body, in PL/pgSQL, or in SQL if
#                         the line continues with "sql"; with "quiet", notices of shards are not passed on
#
# Errors name the file and line.

function fail(why) {
    printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
    failed = 1
    exit 1
}
function quoted(text) {
    gsub(/'/, "''", text)
    return "'" text "'"
}
function trimmed(text) {
    gsub(/[ \n]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

# Returns the text between the parenthesis at position `from` and the matching one. Sets `behind` to the rest.
function inside(text, from,    i, c, depth, is_quoted) {
    for (i = from; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "'") is_quoted = !is_quoted
        else if (!is_quoted && c == "(") depth++
        else if (!is_quoted && c == ")" && --depth == 0) break
    }
    behind = substr(text, i + 1)
    return substr(text, from + 1, i - from - 1)
}
# Splits at the commas outside of parentheses and strings.
function parts(text, into,    i, c, n, depth, is_quoted) {
    split("", into)
    n = 1
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "'") is_quoted = !is_quoted
        if (!is_quoted && (c == "(" || c == "[")) depth++
        if (!is_quoted && (c == ")" || c == "]")) depth--
        if (c == "," && !is_quoted && depth == 0) n++
        else into[n] = into[n] c
    }
    for (i = 1; i <= n; i++) into[i] = trimmed(into[i])
    return text ~ /^[ \n]*$/ ? 0 : n
}

# ---- the install script of jobq: the signatures of the calls

FILENAME ~ /jobq--[0-9.]+\.sql$/ {
    if (match($0, /^CREATE (FUNCTION|PROCEDURE) jobq_[a-z_]+/)) definition = ""
    if (/^CREATE (FUNCTION|PROCEDURE) jobq_/ || definition != "") definition = definition " " $0
    if (definition != "" && /AS 'MODULE_PATHNAME'/) { learn(definition); definition = "" }
    if (/^\)/) in_table = ""
    if (in_table != "" && $1 ~ /^[a-z0-9_]+$/) {
        one = $2
        sub(/,$/, "", one)
        table[in_table] = table[in_table] (table[in_table] == "" ? "" : ", ") $1 " " one
        if (in_table == "kind_settings" && $1 !~ /^(queue|kind|created_at)$/) kind_settings = kind_settings (kind_settings == "" ? "" : ", ") $1 " " one
        if (in_table == "queue_settings" && $1 !~ /^(queue|paused|created_at)$/) settings = settings (settings == "" ? "" : ", ") $1 " " one
    }
    if (/^CREATE TABLE jobq\./) { in_table = $3; sub(/^jobq\./, "", in_table) }
    if (in_composite != "") {
        if (/^\)/) in_composite = ""
        else composite[in_composite] = composite[in_composite] " " $0
    }
    if (/^CREATE TYPE jobq\.[a-z_]+ AS \(/) in_composite = $3
    if (/^CREATE TYPE jobq\.job_status/) in_type = 1
    if (in_type && /^ *'/) {
        statuses = $0
        gsub(/[', ]+/, " ", statuses)
        statuses = trimmed(statuses)
        gsub(/ /, " bigint, ", statuses)
        statuses = statuses " bigint"
    }
    if (in_type) types = types $0 "\n"
    if (in_type && /^COMMENT ON TYPE/) in_type = 0
    if (match($0, /^COMMENT ON (FUNCTION|PROCEDURE) jobq_[a-z_]+ IS /)) {
        split($0, word, " ")
        comment[word[4]] = $0
    }
    next
}

function learn(text,    name, list, n, i, one) {
    text = trimmed(text)
    split(text, word, " ")
    procedure = word[2] == "PROCEDURE"
    name = word[3]
    sub(/\(.*/, "", name)
    call[++calls] = name
    is_procedure[name] = procedure
    signature[name] = trimmed(inside(text, index(text, "(")))
    arguments_of[name] = parts(signature[name], list)
    for (i = 1; i <= arguments_of[name]; i++) {
        one = list[i]
        split(one, word, " ")
        argument[name, i] = word[1]
        sub(/^[a-z_]+ /, "", one)
        sub(/ DEFAULT .*/, "", one)
        type[name, i] = one
    }
    returns[name] = trimmed(behind)
    sub(/ AS 'MODULE_PATHNAME'.*/, "", returns[name])
    sub(/^RETURNS /, "", returns[name])
    one = returns[name]
    sub(/^SETOF /, "", one)
    if (one in composite || one ~ /^TABLE/) {
        columns[name] = trimmed(one in composite ? composite[one] : inside(one, index(one, "(")))
        columns_of[name] = parts(columns[name], list)
        for (i = 1; i <= columns_of[name]; i++) {
            split(list[i], word, " ")
            column[name, i] = word[1]
        }
        returns[name] = "SETOF jobq_router." name "_row"
    }
}

# ---- the routes of the calls

FILENAME ~ /routes$/ {
    if (/^#/ || NF == 0) next
    if (!($1 in signature)) fail("jobq has no function " $1)
    if ($1 in route) fail($1 " has two routes")
    route[$1] = $2
    how[$1] = $3
    limit[$1] = $4
    why = $0
    sub(/^[a-z_]+ +[a-z]+ */, "", why)
    reason[$1] = why
    next
}

# Returns "$1, $2, ...", one per argument of the call, beginning after `from`.
function numbers(name, from,    i, text) {
    for (i = 1; i <= arguments_of[name]; i++) text = text ", $" (i + from)
    return substr(text, 3)
}
function position(name, wanted,    i) {
    for (i = 1; i <= arguments_of[name]; i++) if (argument[name, i] == wanted) return i
    fail(name " has no argument " wanted)
}
function head(name) {
    return "CREATE " (is_procedure[name] ? "PROCEDURE " : "FUNCTION ") name "(" signature[name] ")" \
        (is_procedure[name] ? "" : "\n    RETURNS " returns[name])
}

# PL/Proxy passes values as text. A shard could misread a time in another style than ISO, such as 05/12/2030 or with IST as its
# zone. The answer of a shard is in ISO style, which is read correctly with any setting.
function in_iso(what) { return what ~ /timestamp/ ? " SET datestyle = iso" : "" }

# Arrays of an enum have a different type OID on each server, so they are passed as text. A call that finds its shards by the name
# of a queue says which map it uses.
function remote(name,    i, text, cast, body) {
    text = "CREATE FUNCTION jobq_router.at_" name "(integer, bigint"
    for (i = 1; i <= arguments_of[name]; i++) {
        cast = type[name, i] ~ /^jobq\..*\[\]$/
        text = text ", " (cast ? "text[]" : type[name, i])
        body = body (i > 1 ? ", " : "") "$" (i + 2) (cast ? "::" type[name, i] : "")
    }
    body = name "(" body ")"
    from = " FROM jobq_shard.require_shard($1) s, "
    if (route[name] !~ /^(id|ids|any)$/ && name !~ /^jobq_(spawn|await_jobs|heartbeat_worker|tick|reset_metrics|metrics|grant|revoke)$/) from = from "jobq_shard.require_map($2) m, "
    if (columns_of[name]) {
        for (i = 1; i <= columns_of[name]; i++) list = (i > 1 ? list ", " : "") "r." column[name, i]
        text = text ") RETURNS " returns[name]
        body = list from body " r"
    } else if (returns[name] == "void") {
        text = text ") RETURNS integer"
        body = "1" from body " r"
    } else {
        text = text ") RETURNS " returns[name]
        body = "r" from body " r"
    }
    print text "\n    LANGUAGE plproxy VOLATILE" in_iso(signature[name]) " AS $$ CLUSTER jobq_router.server($1); SELECT " body "; $$;"
    list = ""
}
function on_shard(name, shard, version,    i, text) {
    for (i = 1; i <= arguments_of[name]; i++)
        text = text ", $" i (type[name, i] ~ /^jobq\..*\[\]$/ ? "::text[]" : "")
    return "jobq_router.at_" name "(" shard ", " version text ")"
}
function caught(indent, shard) {
    return indent "GET STACKED DIAGNOSTICS _fault.state = RETURNED_SQLSTATE, _fault.message = MESSAGE_TEXT, _fault.detail = PG_EXCEPTION_DETAIL, _fault.hint = PG_EXCEPTION_HINT;\n" \
        indent "_fault.shard := " shard ";\n"
}
# With this search_path, functions that others have created in a schema of the caller's search_path are not called instead of
# PostgreSQL's. Procedures that commit cannot have it. The plan that finds the shards is the same for each queue, and takes ten
# times longer to make than to run.
BEGIN { safe = " SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan" }
BEGIN { quiet = " SET client_min_messages = warning" }
BEGIN { faults = "    _fault   jobq_router.fault;\n" }

function make(name,    rule, n, i, list, one, first, row, budget) {
    print ""
    remote(name)
    rule = route[name]
    if (rule == "own") return
    print head(name) "\n    LANGUAGE plpgsql VOLATILE" safe (how[name] ~ /^(or|first)$/ ? quiet : "") " AS $$"
    row = columns_of[name]
    if (rule == "refused") {
        print "BEGIN\n    RAISE 'jobq_router does not support " name "' USING ERRCODE = 'feature_not_supported', HINT = " quoted(toupper(substr(reason[name], 1, 1)) substr(reason[name], 2) ".") ";\nEND"
    } else if (rule == "id") {
        print "DECLARE\n    _shard   integer := jobq_router.any_shard($" position(name, how[name]) ");\n" faults "BEGIN"
        print (row || returns[name] ~ /^SETOF/ ? "    RETURN QUERY SELECT * FROM " : "    RETURN ") on_shard(name, "_shard", "0") ";"
        print "EXCEPTION WHEN OTHERS THEN\n" caught("    ", "_shard") "    PERFORM jobq_router.raise(_fault);\nEND"
    } else if (rule == "any") make_any(name)
    else if (rule == "ids") make_ids(name)
    else if (rule == "all" || rule == "queue") make_all(name)
    else fail(name ": no such route: " rule)
    print "$$;\n" comment[name]
}

# Such a call changes nothing, so another shard is asked if the answer is lost.
function make_any(name,    many) {
    many = columns_of[name] || returns[name] ~ /^SETOF/
    print "DECLARE\n    _shard   integer;\n" faults "BEGIN\n    FOR _try IN 1..10 LOOP\n        _shard := jobq_router.any_shard();\n        BEGIN"
    print (many ? "            RETURN QUERY SELECT * FROM " : "            RETURN ") on_shard(name, "_shard", "0") ";"
    if (many) print "            RETURN;"
    print "        EXCEPTION WHEN OTHERS OR query_canceled THEN\n" caught("            ", "_shard") "            IF _try = 10 OR jobq_router.meaning(_fault.state, _fault.message) NOT IN ('unreached', 'lost') THEN"
    print "                PERFORM jobq_router.raise(_fault);\n            END IF;\n            PERFORM jobq_router.note_down(_shard);\n        END;\n    END LOOP;\nEND"
}

# Leaves it to the shard to reject arrays of different lengths, or with NULL ids. The k-th answer for an id belongs to the k-th
# position of the id in the call. If an id has more answers than positions, they are returned together.
function make_ids(name,    list, n, i, text, aligned, cut, names) {
    n = split(how[name], list, ",")
    for (i = 1; i <= n; i++) {
        one = position(name, list[i])
        aligned = aligned (i > 1 ? " AND coalesce(cardinality($" one ") = cardinality($1), " (i > 2 ? "true" : "false") ")" : "")
        names = names (i > 1 ? ", " : "") "a" i
        unnested = unnested (i > 1 ? ", " : "") "$" one
        cut = cut (i > 1 ? ", " : "") "CASE WHEN $" one " IS NOT NULL THEN array_agg(u.a" i " ORDER BY u.n) END"
        parts_of = parts_of "    _part" i " " type[name, one] ";\n"
        into = into (i > 1 ? ", " : "") "_part" i
        partial[one] = "_part" i
    }
    for (i = 1; i <= arguments_of[name]; i++) given = given ", " ((i in partial) ? partial[i] : "$" i)
    print "DECLARE\n    _shards  integer[];"
    print "    _shard   integer;\n    _rows    jobq_router." name "_row[] := '{}';\n    _faults  jobq_router.fault[] := '{}';"
    printf "%s%s", parts_of, faults
    print "BEGIN"
    # Without ids, the call is only about the worker.
    for (i = 1; i <= arguments_of[name]; i++)
        if (argument[name, i] == "worker_info") print "    IF cardinality($1) = 0 AND cardinality($2) = 0 AND $" i " IS NOT NULL THEN\n        PERFORM jobq_router.tell_shards($" i ");\n        RETURN;\n    END IF;"
    print "    PERFORM jobq_router.know($1);\n    _shards := ARRAY(SELECT DISTINCT jobq_router.known_shard(id) FROM unnest($1) id ORDER BY 1);"
    print "    IF cardinality(_shards) <= 1 OR array_position(_shards, NULL) IS NOT NULL OR NOT (true" aligned ") THEN"
    print "        _shards := ARRAY[coalesce((SELECT min(s) FROM unnest(_shards) s), jobq_router.any_shard())];\n    END IF;"
    print "    FOREACH _shard IN ARRAY _shards LOOP\n        BEGIN"
    print "            IF cardinality(_shards) = 1 THEN\n                RETURN QUERY SELECT * FROM " on_shard(name, "_shard", "0") ";\n            ELSE"
    print "                SELECT " cut "\n                INTO " into " FROM unnest(" unnested ") WITH ORDINALITY u(" names ", n) WHERE jobq_router.known_shard(u.a1) = _shard;"
    print "                _rows := _rows || ARRAY(SELECT r FROM jobq_router.at_" name "(_shard, 0" given ") r);\n            END IF;"
    print "        EXCEPTION WHEN OTHERS THEN\n" caught("            ", "_shard") "            _faults := _faults || _fault;\n        END;\n    END LOOP;"
    print "    PERFORM jobq_router.raise_first(_faults, _shards);"
    print "    RETURN QUERY SELECT " columns_list(name, "r.") " FROM (SELECT r.*, row_number() OVER (PARTITION BY r.job_id ORDER BY r.n) AS k FROM unnest(_rows) WITH ORDINALITY r(" columns_list(name, "") ", n)) r\n        LEFT JOIN (SELECT u.id, u.n, row_number() OVER (PARTITION BY u.id ORDER BY u.n) AS k FROM unnest($1) WITH ORDINALITY u(id, n)) o ON o.id = r.job_id AND o.k = r.k\n        ORDER BY max(o.n) OVER (PARTITION BY r.job_id ORDER BY r.k), r.k;\nEND"
    parts_of = into = unnested = given = ""
    split("", partial)
}
function columns_list(name, prefix,    i, text) {
    for (i = 1; i <= columns_of[name]; i++) text = text (i > 1 ? ", " : "") prefix column[name, i]
    return text
}

function make_all(name,    what, shards, budget, called, taken, i) {
    what = route[name] == "all" ? how[name] : how[name] == "" ? "rows" : how[name]
    shards = route[name] == "queue" ? "jobq_router.shards_of($" position(name, "queue") ") s" : "jobq_router.shards s(shard)"
    budget = limit[name] ~ /^(checked)?$/ ? 0 : position(name, limit[name])
    called = on_shard(name, "_shard", "(SELECT m.version FROM jobq_router.map m)")
    print "DECLARE\n    _shards  integer[] := ARRAY(SELECT s.shard FROM " shards ");\n    _shard   integer;\n    _faults  jobq_router.fault[] := '{}';"
    if (what != "rows" && what != "void") print "    _one     " returns[name] ";\n    _all     " returns[name] (what == "sum" ? " := 0" : "") ";"
    if (budget) {
        print "    _left    " type[name, budget] " := $" budget ";"
        sub("\\$" budget "([^0-9])", "_left&", called)
        sub("_left\\$" budget, "_left", called)
    }
    printf "%s", faults
    print "BEGIN\n    PERFORM jobq_router.require_shards();"
    for (i = 1; i <= arguments_of[name]; i++)
        if (argument[name, i] == "limits") print "    PERFORM jobq_router.refuse_limits(cardinality($" i ") > 0);"
    if (limit[name] == "checked") print "    PERFORM jobq_router.check_" name "(" numbers(name, 0) ");"
    print "    FOREACH _shard IN ARRAY _shards LOOP"
    if (budget) print "        EXIT WHEN _left <= 0 AND _all > 0;"
    print "        FOR _try IN 1..10 LOOP\n        EXIT WHEN _try > 1 AND NOT jobq_router.knows(_shard);\n        BEGIN"
    if (what == "rows") print "            RETURN QUERY SELECT * FROM " called ";"
    else if (what == "void") print "            PERFORM " called ";"
    else {
        print "            _one := " called ";"
        if (what == "sum") print "            _all := _all + _one;"
        if (what == "or") print "            _all := coalesce(_all OR _one, _all, _one);"
        if (what == "first") print "            _all := coalesce(_all, _one);"
        if (what == "greatest") print "            _all := greatest(_all, _one);"
        if (budget) print "            _left := _left - _one;"
    }
    print "            EXIT;\n        EXCEPTION WHEN OTHERS THEN\n" caught("            ", "_shard") "            IF jobq_router.meaning(_fault.state, _fault.message) = 'map' AND _try < 10 THEN\n                PERFORM jobq_router.agree(_shard);\n            ELSE"
    print "                _faults := _faults || _fault;\n                EXIT;\n            END IF;\n        END;\n        END LOOP;\n    END LOOP;"
    # The shard that has the object has answered. If the error of another shard were raised, the caller would repeat what has been
    # done.
    if (what == "first") print "    IF _all IS NOT NULL THEN\n        RETURN _all;\n    END IF;"
    print "    PERFORM jobq_router.raise_first(_faults, _shards);"
    if (what != "rows" && what != "void") print "    RETURN _all;"
    print "END"
}

# A shard that cannot be reached causes a warning, and has no rows.
function make_view(name, list,    n, i, word, columns) {
    n = parts(list, one_of)
    for (i = 1; i <= n; i++) {
        split(one_of[i], word, " ")
        columns = columns (i > 1 ? ", " : "") "%" word[1]
    }
    print "CREATE TYPE jobq_router." name "_row AS (" list ");"
    print "CREATE FUNCTION jobq_router.at_" name "(integer) RETURNS SETOF jobq_router." name "_row"
    print "    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT " with(columns, "v.") " FROM jobq_shard.require_shard($1) s, jobq." name " v; $$;"
    print "CREATE FUNCTION jobq_router.rows_of_" name "(shard integer) RETURNS SETOF jobq_router." name "_row\n    LANGUAGE plpgsql VOLATILE" safe " AS $$\nDECLARE"
    printf "%s", faults
    print "BEGIN\n    RETURN QUERY SELECT * FROM jobq_router.at_" name "($1);"
    print "EXCEPTION WHEN OTHERS THEN\n" caught("    ", "$1") "    PERFORM jobq_router.warn(_fault);\nEND\n$$;"
    print "CREATE VIEW jobq." name " AS SELECT " with(columns, "r.") ", s.shard_id AS shard FROM jobq_router.shards s, LATERAL jobq_router.rows_of_" name "(s.shard_id) r;"
    print "COMMENT ON VIEW jobq." name " IS 'jobq." name " of all shards, and the shard; a shard that cannot be reached has a warning, and no rows';"
}
function filled(text, name) {
    sub(/\{table\}/, table[name], text)
    sub(/\{settings\}/, settings, text)
    sub(/\{kind_settings\}/, kind_settings, text)
    sub(/\{statuses\}/, statuses, text)
    return text
}
function with(columns, prefix) {
    gsub(/%/, prefix, columns)
    return columns
}

# ---- the fragments

function pay(    i) {
    if (object != "" && waiting == "") fail(kind " " object " has no comment: --: before it")
    if (object != "" && kind != "VIEW" || object != "") print "COMMENT ON " kind " " object " IS " quoted(waiting) ";"
    for (i = 1; i <= pending_columns; i++) print "COMMENT ON COLUMN " object "." pending[i] " IS " quoted(pending_text[i]) ";"
    object = waiting = ""
    pending_columns = 0
}

/^--@ types$/ { printf "%s", types; next }
/^--@ bucket_of / {
    schema = $3
    while ((getline line < shared) > 0) { gsub(/@schema@/, schema, line); take(line) }
    close(shared)
    next
}
/^--@ calls$/ {
    for (c = 1; c <= calls; c++) {
        if (!(call[c] in route)) fail("sql/router/routes: has no route for " call[c])
        if (columns_of[call[c]]) print "CREATE TYPE jobq_router." call[c] "_row AS (" columns[call[c]] ");"
    }
    for (c = 1; c <= calls; c++) if (!is_procedure[call[c]]) make(call[c])
    next
}
/^--@ function / {
    own = $3
    if (route[own] != "own") fail("the route of " own " is not: own")
    made[own] = 1
    print head(own) "\n    LANGUAGE " ($4 == "sql" ? "sql" : "plpgsql") (is_procedure[own] ? "" : " VOLATILE" safe) ($4 == "quiet" ? quiet : "") " AS $$"
    next
}
/^--@ view / { viewed = $3; sub(/^--@ view [a-z_]+ \(/, "") }
viewed != "" {
    list_of_view = list_of_view $0
    if (/\)$/) { sub(/\)$/, "", list_of_view); make_view(viewed, filled(trimmed(list_of_view), viewed)); viewed = list_of_view = "" }
    next
}
/^--@ end$/ { print "$$;\n" comment[own]; own = ""; next }
/^ *--@ caught / {
    match($0, /^ */)
    shard = $0
    sub(/^ *--@ caught /, "", shard)
    printf "%s", caught(substr($0, 1, RLENGTH), shard)
    next
}
own != "" { print; next }
{ take($0) }

function take(line,    code, place, n, word) {
    if (!in_body && match(line, /^--: /)) { waiting = waiting (waiting == "" ? "" : " ") substr(line, 5); return }
    if (!in_body && object == "" && match(line, /^CREATE (UNLOGGED )?(TABLE|VIEW|FUNCTION|PROCEDURE|TYPE|SCHEMA) [a-z_.]+/)) {
        n = split(substr(line, RSTART, RLENGTH), word, " ")
        kind = word[n - 1]
        object = word[n]
    }
    place = index(line, "  --: ")
    if (!in_body && place > 0) {
        code = substr(line, 1, place - 1)
        split(code, word, " ")
        pending[++pending_columns] = word[1]
        pending_text[pending_columns] = substr(line, place + 6)
        line = code
    }
    print line
    n = gsub(/\$\$/, "\\$\\$", line)
    if (n % 2 == 1) in_body = !in_body
    if (!in_body && line ~ /;$/ && object != "") pay()
}
END {
    if (failed) exit 1
    for (c = 1; c <= calls; c++) if (route[call[c]] == "own" && !(call[c] in made)) { print "sql/router: nothing makes " call[c] > "/dev/stderr"; exit 1 }
}
