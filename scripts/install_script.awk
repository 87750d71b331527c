# Makes the install script from the fragments in src/sql, in the order of the arguments. The input begins with the headers that
# contain the tables of queue settings and statuses. Directives in a fragment:
#
#   --: text                on a line of its own before a CREATE: the comment of what is created
#   code --: text           after the definition of a column: the comment of the column, which continues on the next lines
#   --@ each setting: code  the code for each setting of queues, with {name}, {type}, {check}, {in_force}, and {text}
#                           replaced; each is followed by a comma, except the last one if the code does not end with a comma
#   --@ each kind_setting: code  the same for each setting of kinds; {of_queue} is the value of the queue, or NULL if it has none
#   --@ each status: code   the same for {name} and {text}; --@ row status: code writes all into one line
#
# Errors name the file and line.

function fail(why) {
    printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
    failed = 1
    exit 1
}

# Splits the arguments of a macro at the commas outside of strings and removes the quotes of strings.
function arguments(line, into,    n, i, c, quoted, one) {
    sub(/^[^(]*\(/, "", line)
    sub(/\)[ \\]*$/, "", line)
    n = 0
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) { into[++n] = one; one = "" }
        else if (c != " " || one != "") one = one c
    }
    into[++n] = one
    return n
}

# Converts '14 * kDay' to SQL: '14 days'.
function span(value,    number, unit) {
    if (value == "0") return "interval '0'"
    if (value !~ /^([0-9]+ \* )?k(Millisecond|Second|Minute|Hour|Day)$/) fail("a span is so many of kDay and the like: " value)
    number = value ~ /\*/ ? value + 0 : 1
    unit = value
    sub(/^.*k/, "", unit)
    return "interval '" number " " tolower(unit) (number == 1 ? "" : "s") "'"
}

function add(table, name) {
    rows[table]++
    field[table, rows[table], "name"] = name
}
function set(table, key, value) { field[table, rows[table], key] = value }

function number(value) {
    if (value !~ /^[0-9]+$/) fail("a number is written as one: " value)
    return value
}

# Returns the CHECK constraint of a setting. `none` is the value that means "none" for a kind; empty if there is none.
function check(table, name, condition, none) {
    if (table == "kind_setting" && none != "") condition = name " = " none " OR " condition
    return " CONSTRAINT " (table == "setting" ? "queue" : "kind") "_settings_" name "_check CHECK (" condition ")"
}

function within(name, lowest, highest) {
    return name (highest ~ /Any/ ? " >= " lowest : " BETWEEN " lowest " AND " highest)
}

# Adds a setting to the table of settings of queues or of kinds, with the description of the setting and of its default.
function add_setting(table, name, level, type, condition, none, otherwise, text,    has) {
    add(table, name)
    set(table, "type", type)
    set(table, "check", condition == "" ? "" : check(table, name, condition, none))
    if (table == "setting") {
        set(table, "in_force", otherwise == "" ? "s." name : "coalesce(s." name ", " otherwise ")")
        sub(/^interval /, "", otherwise)
        gsub(/'/, "", otherwise)
        set(table, "text", text (otherwise == "" ? "; NULL: none" : "; default " otherwise))
        return
    }
    set(table, "of_queue", level == "Both" ? "s." name : "NULL")
    has = level == "Both" ? "coalesce(k." name ", s." name : "coalesce(k." name
    has = has (otherwise == "" ? ")" : ", " otherwise ")")
    set(table, "in_force", none == "" ? has : "nullif(" has ", " none ")")
    set(table, "text", text "; NULL: the value of the queue" (none == "" ? "" : "; " none_text(none) ": none"))
}

function none_text(none) {
    sub(/^interval /, "", none)
    if (none == "''") return "empty"
    gsub(/'/, "", none)
    return none
}

function setting(name, level, type, condition, none, otherwise, text) {
    if (level !~ /^(Queue|Kind|Both)$/) fail("the level of a setting is Queue, Kind, or Both: " level)
    if (level != "Kind") add_setting("setting", name, level, type, condition, none, otherwise, text)
    if (level != "Queue") add_setting("kind_setting", name, level, type, condition, none, otherwise, text)
}

# Splits the row of a number or a span into its parts. `zero` is its value 0. If only the default is 0, the default means "none".
function bounded(a, type, lowest, highest, otherwise, zero,    none) {
    none = otherwise == zero && lowest != zero ? zero : ""
    setting(a[1], a[2], type, within(a[1], lowest, highest), none, none == "" ? otherwise : "", a[6])
}

FILENAME ~ /\.h$/ && /^ +(NUMBER|SPAN|SPANS|CHOICE|QUEUE|SWITCH|NAMES|STATUS)\("?[A-Za-z_]+"?, / {
    n = arguments($0, a)
    if (/^ +NUMBER/) bounded(a, "integer", number(a[4]), a[5] ~ /Any/ ? a[5] : number(a[5]), number(a[3]), "0")
    if (/^ +SPAN\(/) bounded(a, "interval", span(a[4]), a[5] ~ /Any/ ? a[5] : span(a[5]), span(a[3]), span("0"))
    if (/^ +SPANS/)
        setting(a[1], a[2], "interval[]", "array_ndims(" a[1] ") <= 1 AND cardinality(" a[1] ") <= 100 AND array_position(" a[1] ", NULL) IS NULL AND interval '0' <= ALL (" a[1] ")", "'{}'", "", a[3])
    if (/^ +NAMES/)
        setting(a[1], a[2], "text[]", "pg_catalog.cardinality(" a[1] ") <= 2 AND pg_catalog.array_length(" a[1] ", 2) IS NULL AND pg_catalog.array_position(" a[1] ", NULL) IS NULL", "'{}'", "", a[3])
    if (/^ +CHOICE/) {
        gsub(/ /, "', '", a[5])
        setting(a[1], a[2], "text", a[1] " IN ('" a[5] "')", "", "'" tolower(a[4]) "'", a[6])
    }
    if (/^ +QUEUE/)
        setting(a[1], a[2], "text", "octet_length(" a[1] ") BETWEEN 1 AND 63 AND " a[1] " <> queue", "''", "", a[3])
    if (/^ +SWITCH/) setting(a[1], a[2], "boolean", "", "", "false", a[3])
    if (/^ +STATUS/) {
        add("status", a[2])
        set("status", "text", a[n])
    }
}
FILENAME ~ /\.h$/ { next }

function quoted(text) {
    gsub(/'/, "''", text)
    return "'" text "'"
}

# Prints the pending comments: of the statement that began, and of its columns.
function pay(    i) {
    if (object != "" && text_of_object == "") fail(kind " " object " has no comment: --: before it")
    if (object != "") print "COMMENT ON " kind " " object " IS " quoted(text_of_object) ";"
    for (i = 1; i <= columns; i++) print "COMMENT ON COLUMN " object "." column[i] " IS " quoted(column_text[i]) ";"
    object = text_of_object = ""
    columns = 0
}

function put(line,    code, text, at, words) {
    at = index(line, "--:")
    if (at == 0) {
        if (object == "" && match(line, /^CREATE (TABLE|VIEW|FUNCTION|PROCEDURE|AGGREGATE|TYPE|DOMAIN|SCHEMA|SEQUENCE) [a-z_.]+/)) {
            split(substr(line, RSTART, RLENGTH), words, " ")
            kind = words[2]
            object = words[3]
            text_of_object = waiting
            waiting = ""
        } else if (waiting != "" && line !~ /^--/) fail("a comment of nothing: " waiting)
        in_column = 0
        print line
        if (line ~ /;$/) pay()
        return
    }
    code = substr(line, 1, at - 1)
    text = substr(line, at + 3)
    sub(/^ /, "", text)
    sub(/ +$/, "", code)
    if (code !~ /^ *$/) {
        if (object == "") fail("a column outside of a CREATE TABLE")
        split(code, words, " ")
        column[++columns] = words[1]
        column_text[columns] = text
        in_column = 1
        print code
    } else if (in_column)
        column_text[columns] = column_text[columns] " " text
    else
        waiting = waiting (waiting == "" ? "" : " ") text
}

# Returns the code with the values of one row of a table.
function filled(code, table, i,    keys, k, n, at) {
    n = split("name type check in_force of_queue text", keys, " ")
    for (k = 1; k <= n; k++)
        while ((at = index(code, "{" keys[k] "}")) > 0)
            code = substr(code, 1, at - 1) field[table, i, keys[k]] substr(code, at + length(keys[k]) + 2)
    return code
}

/^ *--@ (each|row) (setting|kind_setting|status): / {
    indent = $0
    sub(/--@.*/, "", indent)
    table = $3
    sub(/:$/, "", table)
    if (rows[table] == 0) fail("the table of " table " is empty")
    code = $0
    sub(/^ *--@ [a-z]+ [a-z_]+: /, "", code)
    behind = ""
    if ((at = index(code, "  --: ")) > 0) {
        behind = substr(code, at)
        code = substr(code, 1, at - 1)
    }
    ends = code ~ /,$/
    for (i = 1; i <= rows[table]; i++) {
        one = filled(code, table, i) (i < rows[table] && !ends ? "," : "")
        if ($2 == "each") put(indent one filled(behind, table, i))
        else line = line (i == 1 ? indent : " ") one
    }
    if ($2 == "row") put(line)
    line = ""
    next
}
{ put($0) }
END { if (!failed && waiting != "") fail("a comment of nothing: " waiting) }
